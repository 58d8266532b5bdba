// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, windows and sorting. Where the body is one op that kernels know, they reduce; any other body is applied to halves of the elements
// until one is left, which the specification allows since it leaves the order open.
#include <limits>

#include "compiler/import/stablehlo_program.h"
#include "compiler/ir/narrow.h"

using namespace mlir;

namespace heddle::import::stablehlo {

std::optional<Combine> combination(Region& region, unsigned index, unsigned count) {
  if (!region.hasOneBlock()) return {};
  Block& block = region.front();
  if (block.getNumArguments() != 2 * count || block.empty() || block.back().getNumOperands() <= index) return {};
  Value a = block.getArgument(index), b = block.getArgument(count + index);
  Operation* op = block.back().getOperand(index).getDefiningOp();
  if (!op || op->getNumOperands() != 2 || op->getNumRegions() != 0 || op->getBlock() != &block) return {};
  if (!((op->getOperand(0) == a && op->getOperand(1) == b) || (op->getOperand(0) == b && op->getOperand(1) == a))) return {};
  static const std::map<std::string, Combine, std::less<>> kinds = {
      {"stablehlo.add", Combine::add},     {"stablehlo.and", Combine::land},     {"stablehlo.maximum", Combine::max},
      {"stablehlo.minimum", Combine::min}, {"stablehlo.multiply", Combine::mul}, {"stablehlo.or", Combine::lor},
      {"stablehlo.xor", Combine::lxor}};
  const StringRef name = op->getName().getStringRef();
  auto found = kinds.find(std::string_view(name.data(), name.size()));
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

namespace {

using Values = SmallVector<Data>;

// The parts of all data in a list, and back.
Data mapped(const Data& data, llvm::function_ref<Value(Value)> change) {
  Data result;
  for (Value part : data.parts) result.parts.push_back(change(part));
  return result;
}

// A tensor in which every part is one of Data, also where only elements are known.
Data tensor_data(Op& op, unsigned index) {
  Data data = op.data(index);
  if (data.tuple) op.fail("operand " + std::to_string(index) + " is not a tensor");
  if (data.parts.empty()) data.parts.push_back(op.input(index));
  data.elements.reset();
  return data;
}

Extents extents_of(const Data& data) {
  return Op::extents_of(data.parts.front());
}

// Both lists of values combined by the body, element by element.
Values applied(Op& op, Region& body, const Values& a, const Values& b) {
  std::vector<Data> arguments(a.begin(), a.end());
  arguments.insert(arguments.end(), b.begin(), b.end());
  const Extents lead = extents_of(a.front());
  std::vector<Data> results = op.program.apply(op, body, arguments, lead);
  if (results.size() != a.size())
    op.fail("its body has " + std::to_string(results.size()) + " results for " + std::to_string(a.size()) + " values");
  for (auto [i, result] : llvm::enumerate(results)) {
    if (result.parts.empty() && result.elements) result.parts.push_back(op.node.value_of({{}, result.elements, result.rank}));
    if (result.parts.size() != a[i].parts.size()) op.fail("its body gives values of other types than it takes");
    for (auto [x, y] : llvm::zip(result.parts, a[i].parts)) {
      if (tx::element_of(x) != tx::element_of(y) || Op::rank_of(x) != Op::rank_of(y))
        op.fail("its body gives values of other types than it takes");
    }
  }
  return Values(results.begin(), results.end());
}

Values sliced(Op& op, const Values& values, int64_t dimension, int64_t start, int64_t limit, int64_t stride = 1) {
  Values result;
  for (const Data& data : values)
    result.push_back(mapped(data, [&](Value part) { return op.slice(part, dimension, start, limit, stride); }));
  return result;
}

// Reduces the dimension to one element.
Values folded(Op& op, Region& body, Values values, int64_t dimension) {
  int64_t count = op.extent(values.front().parts.front(), dimension);
  while (count > 1) {
    const int64_t half = count / 2;
    Values first = sliced(op, values, dimension, 0, half), second = sliced(op, values, dimension, half, 2 * half);
    Values joined = applied(op, body, first, second);
    if (count % 2 != 0) {
      Values rest = sliced(op, values, dimension, count - 1, count);
      for (size_t i = 0; i < joined.size(); ++i) {
        for (size_t part = 0; part < joined[i].parts.size(); ++part)
          joined[i].parts[part] = op.concat({joined[i].parts[part], rest[i].parts[part]}, dimension);
      }
    }
    values = std::move(joined);
    count = half + count % 2;
  }
  return values;
}

// The kind of tx.reduce; nothing if kernels do not have it for these elements.
std::optional<tx::ReduceKind> reduce_kind(Combine kind, Type element) {
  const bool of_bools = element.isInteger(1);
  switch (kind) {
    case Combine::add:
      return of_bools ? tx::ReduceKind::max : tx::ReduceKind::sum;
    case Combine::mul:
      return of_bools ? tx::ReduceKind::min : tx::ReduceKind::prod;
    case Combine::max:
      return tx::ReduceKind::max;
    case Combine::min:
      return tx::ReduceKind::min;
    case Combine::land:
      return of_bools ? std::optional(tx::ReduceKind::min) : std::nullopt;
    case Combine::lor:
      return of_bools ? std::optional(tx::ReduceKind::max) : std::nullopt;
    case Combine::lxor:
      return {};
  }
  return {};
}

// Whether the scalar changes nothing when it is combined.
bool is_neutral(Value scalar, Combine kind) {
  DenseElementsAttr known = known_elements(scalar);
  if (!known || !known.isSplat()) return false;
  const Type element = known.getElementType();
  if (auto type = llvm::dyn_cast<FloatType>(element)) {
    const APFloat value = known.getSplatValue<APFloat>();
    if (kind == Combine::add) return value.isZero();
    if (kind == Combine::mul) return value.isExactlyValue(1.0);
    if (kind == Combine::max) return value.isInfinity() && value.isNegative();
    return kind == Combine::min && value.isInfinity() && !value.isNegative();
  }
  const APInt value = known.getSplatValue<APInt>();
  const bool is_unsigned = element.isUnsignedInteger() || element.isInteger(1);
  switch (kind) {
    case Combine::add:
    case Combine::lor:
    case Combine::lxor:
      return value.isZero();
    case Combine::mul:
      return value.isOne();
    case Combine::max:
      return is_unsigned ? value.isZero() : value.isMinSignedValue();
    case Combine::min:
      return is_unsigned ? value.isAllOnes() : value.isMaxSignedValue();
    case Combine::land:
      return value.isAllOnes();
  }
  return false;
}

Value reduced(Op& op, Value x, ArrayRef<int64_t> axes, tx::ReduceKind kind) {
  Extents kept;
  for (auto [i, extent] : llvm::enumerate(Op::extents_of(x))) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(i))) kept.push_back(extent);
  }
  const Type element = tx::element_of(x);
  const bool of_bools = element.isInteger(1);
  if (of_bools) x = op.converted(x, op.builder.getI32Type());
  Value result = op.make<tx::ReduceOp>(op.node.tensor_type(kept, tx::element_of(x)), kind, x, axes);
  return op.converted(result, element);
}

std::vector<int64_t> sorted_dimensions(Op& op, StringRef name, int64_t rank) {
  std::vector<int64_t> dimensions = op.integers(name);
  llvm::sort(dimensions);
  for (auto [i, d] : llvm::enumerate(dimensions)) {
    if (d < 0 || d >= rank || (i > 0 && dimensions[i - 1] == d))
      op.fail("attribute '" + name.str() + "' does not name different dimensions");
  }
  return dimensions;
}

// Operands and initial values of a reduction or a window: as many of each as there are results.
std::pair<Values, Values> operands_and_initial(Op& op) {
  const unsigned count = op.input_count() / 2;
  if (op.input_count() % 2 != 0 || count == 0 || op.source().getNumResults() != count || op.source().getNumRegions() != 1)
    op.fail("it needs as many initial values as operands and results, and one region");
  Values values, initial;
  for (unsigned i = 0; i < count; ++i) {
    values.push_back(tensor_data(op, i));
    initial.push_back(tensor_data(op, count + i));
    if (Op::rank_of(initial.back().parts[0]) != 0 || tx::element_of(initial.back().parts[0]) != tx::element_of(values.back().parts[0]) ||
        initial.back().parts.size() != values.back().parts.size())
      op.fail("initial value " + std::to_string(i) + " is no scalar of the element type of operand " + std::to_string(i));
    if (extents_of(values.back()) != extents_of(values.front())) op.fail("its operands have different shapes");
  }
  return {values, initial};
}

void reduce(Op& op) {
  auto [values, initial] = operands_and_initial(op);
  const auto count = static_cast<unsigned>(values.size());
  const int64_t rank = Op::rank_of(values[0].parts[0]);
  std::vector<int64_t> axes = sorted_dimensions(op, "dimensions", rank);
  Region& body = op.source().getRegion(0);
  auto kept_of = [&](Value x) {
    Extents kept;
    for (auto [i, extent] : llvm::enumerate(Op::extents_of(x))) {
      if (!llvm::is_contained(axes, static_cast<int64_t>(i))) kept.push_back(extent);
    }
    return kept;
  };
  const Extents kept = kept_of(values[0].parts[0]);
  const bool is_empty = llvm::any_of(axes, [&](int64_t axis) { return Op::type_of(values[0].parts[0]).getDimSize(axis) == 0; });
  Values rest;  // that no kernel reduces
  SmallVector<unsigned> positions;
  Values results(count);
  std::vector<Combine> kinds;  // of all results, or empty
  for (unsigned i = 0; i < count && kinds.size() == i; ++i) {
    if (auto kind = combination(body, i, count)) kinds.push_back(*kind);
  }
  if (kinds.size() != count) kinds.clear();
  for (unsigned i = 0; i < count; ++i) {
    auto spread = [&](Value scalar) { return op.broadcast(scalar, kept, {}); };
    const Type element = tx::element_of(values[i].parts[0]);
    const Combine kind = kinds.empty() ? Combine::add : kinds[i];
    const std::optional<tx::ReduceKind> known = kinds.empty() ? std::nullopt : reduce_kind(kind, element);
    const bool is_sum = kind == Combine::add;
    if (is_empty) {
      results[i] = mapped(initial[i], spread);
    } else if (known && (values[i].parts.size() == 1 || is_sum) && !tx::narrow_format(element)) {
      for (auto [x, first] : llvm::zip(values[i].parts, initial[i].parts)) {
        Value result = axes.empty() ? x : reduced(op, x, axes, known.value_or(tx::ReduceKind::sum));
        if (!is_neutral(first, kind)) result = combined(op, kind, result, spread(first));
        results[i].parts.push_back(result);
      }
    } else {
      positions.push_back(i);
    }
  }
  if (!positions.empty()) {
    if (positions.size() != count) {  // the body needs all of its arguments
      positions.clear();
      for (unsigned i = 0; i < count; ++i) positions.push_back(i);
    }
    rest = values;
    for (int64_t axis : axes) rest = folded(op, body, std::move(rest), axis);
    Values spread;
    for (unsigned i = 0; i < count; ++i) {
      rest[i] = mapped(rest[i], [&](Value part) { return op.reshape(part, kept); });
      spread.push_back(mapped(initial[i], [&](Value scalar) { return op.broadcast(scalar, kept, {}); }));
    }
    bool neutral = !kinds.empty();
    for (unsigned i = 0; i < count && neutral; ++i) neutral = initial[i].parts.size() == 1 && is_neutral(initial[i].parts[0], kinds[i]);
    if (!neutral) rest = applied(op, body, spread, rest);
    results = std::move(rest);
  }
  for (unsigned i = 0; i < count; ++i) op.set_data(std::move(results[i]), i);
}

// -------------------------------------------------------------------------------------------------------------- windows

struct Window {
  std::vector<int64_t> extents, strides, base_dilations, dilations, low, high;
};

Window window_of(Op& op, int64_t rank) {
  const auto all = static_cast<size_t>(rank);
  const std::vector<int64_t> ones(all, 1);
  Window window;
  window.extents = op.integers("window_dimensions");
  window.strides = op.integers("window_strides", ones);
  window.base_dilations = op.integers("base_dilations", ones);
  window.dilations = op.integers("window_dilations", ones);
  const std::vector<int64_t> pads = op.integers("padding", std::vector<int64_t>(2 * all, 0));
  if (window.extents.size() != all || window.strides.size() != all || window.base_dilations.size() != all ||
      window.dilations.size() != all || pads.size() != 2 * all)
    op.fail("its window, strides, dilations or padding do not fit rank " + std::to_string(rank));
  constexpr int64_t most = int64_t{1} << 30;
  auto is_sane = [&](int64_t value, int64_t least) { return value >= least && value <= most; };
  for (size_t i = 0; i < all; ++i) {
    window.low.push_back(pads[2 * i]);
    window.high.push_back(pads[2 * i + 1]);
    if (!is_sane(window.extents[i], 1) || !is_sane(window.strides[i], 1) || !is_sane(window.base_dilations[i], 1) ||
        !is_sane(window.dilations[i], 1) || !is_sane(window.low[i], -most) || !is_sane(window.high[i], -most))
      op.fail("its window, strides, dilations or padding are out of range on dimension " + std::to_string(i));
  }
  return window;
}

int64_t window_count(int64_t extent, int64_t window, int64_t dilation, int64_t stride) {
  const int64_t reach = (window - 1) * dilation + 1;
  return extent < reach ? 0 : (extent - reach) / stride + 1;
}

// Windows along one dimension: those of twice the length are made of two, so that a window of n elements takes about log2(n) steps.
Values windows(Op& op, const Values& values, int64_t dimension, int64_t window, int64_t dilation, int64_t stride,
               llvm::function_ref<Values(const Values&, const Values&)> join) {
  const int64_t extent = op.extent(values.front().parts.front(), dimension), count = window_count(extent, window, dilation, stride);
  const int64_t last = count == 0 ? 0 : (count - 1) * stride + 1;
  Values power = values, result;
  int64_t length = 1, done = 0;  // of power; of what result covers
  while (true) {
    if ((window / length) % 2 != 0) {
      // Element i: length elements from done on.
      Values part = sliced(op, power, dimension, done * dilation, done * dilation + last, stride);
      result = done == 0 ? part : join(result, part);
      done += length;
    }
    if (2 * length > window) return result;
    const int64_t have = op.extent(power.front().parts.front(), dimension), next = have - length * dilation;
    power = join(sliced(op, power, dimension, 0, next), sliced(op, power, dimension, length * dilation, have));
    length *= 2;
  }
}

// As pooling of images, which has kernels of its own: over one to three dimensions that are not the last one.
Value pooled(Op& op, Value x, const Window& window, Combine kind) {
  const Type element = tx::element_of(x);
  const auto rank = static_cast<size_t>(Op::rank_of(x));
  if (!llvm::isa<FloatType>(element) || (kind != Combine::max && kind != Combine::add)) return {};
  SmallVector<int64_t> spatial, batch;
  for (size_t i = 0; i < rank; ++i) {
    if (window.base_dilations[i] != 1 || window.low[i] < 0 || window.high[i] < 0) return {};
    const bool is_window = window.extents[i] != 1 || window.strides[i] != 1 || window.low[i] != 0 || window.high[i] != 0;
    (is_window ? spatial : batch).push_back(static_cast<int64_t>(i));
  }
  if (spatial.empty() || spatial.size() > 3) return {};
  // [batch, spatial.., channels]: the last other dimension is that of the channels, if it comes last; else they are part of the batch.
  const bool has_channels = !batch.empty() && batch.back() > spatial.back();
  SmallVector<int64_t> order(batch.begin(), has_channels ? batch.end() - 1 : batch.end());
  const size_t batches = order.size();
  order.append(spatial.begin(), spatial.end());
  if (has_channels) order.push_back(batch.back());
  auto constant_extent = [&](int64_t value) { return op.builder.getAffineConstantExpr(value); };
  Extents extents = Op::extents_of(x), of_batch, from, to, result;
  for (size_t i = 0; i < batches; ++i) of_batch.push_back(extents[static_cast<size_t>(order[i])]);
  from.push_back(op.node.count_of(of_batch));
  to.push_back(from[0]);
  double taken = 1;
  SmallVector<int64_t> kernel, strides, low, high, dilations;
  for (int64_t d : spatial) {
    const auto at = static_cast<size_t>(d);
    from.push_back(extents[at]);
    const auto extent = tx::static_extent(extents[at]);
    if (!extent) return {};
    const int64_t count =
        window_count(*extent + window.low[at] + window.high[at], window.extents[at], window.dilations[at], window.strides[at]);
    if (count == 0 || *extent == 0) return {};
    extents[at] = constant_extent(count);
    to.push_back(extents[at]);
    taken *= static_cast<double>(window.extents[at]);
    kernel.push_back(window.extents[at]);
    strides.push_back(window.strides[at]);
    low.push_back(window.low[at]);
    high.push_back(window.high[at]);
    dilations.push_back(window.dilations[at]);
  }
  const AffineExpr channels = has_channels ? extents[static_cast<size_t>(batch.back())] : constant_extent(1);
  from.push_back(channels);
  to.push_back(channels);
  RankedTensorType type = op.node.tensor_type(to, element);
  if (llvm::is_contained(type.getShape(), 0) || (kind == Combine::add && taken > 4096)) return {};
  Value image = op.reshape(op.transpose(x, order), from);
  auto pool = kind == Combine::max ? tx::PoolKind::max : tx::PoolKind::average;
  Value windows = op.make<tx::PoolOp>(type, pool, image, kernel, strides, low, high, dilations, kind == Combine::add);
  if (kind == Combine::add) windows = op.binary<tx::MulOp>(windows, op.number(windows, taken));
  SmallVector<int64_t> back(rank);
  for (size_t i = 0; i < rank; ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    result.push_back(extents[static_cast<size_t>(order[i])]);
  }
  return op.transpose(op.reshape(windows, result), back);
}

void reduce_window(Op& op) {
  auto [values, initial] = operands_and_initial(op);
  const auto count = static_cast<unsigned>(values.size());
  const int64_t rank = Op::rank_of(values[0].parts[0]);
  const Window window = window_of(op, rank);
  Region& body = op.source().getRegion(0);
  std::optional<Combine> only = count == 1 ? combination(body) : std::nullopt;
  const bool is_plain = only && values[0].parts.size() == 1 && !tx::narrow_format(tx::element_of(values[0].parts[0]));
  if (is_plain && is_neutral(initial[0].parts[0], *only)) {
    const bool is_exact_sum = *only != Combine::add || tx::element_of(values[0].parts[0]).isF32();
    if (Value result = is_exact_sum ? pooled(op, values[0].parts[0], window, *only) : Value()) return op.set_result(result);
  }
  auto join = [&](const Values& a, const Values& b) {
    if (!is_plain) return applied(op, body, a, b);
    Data data;
    data.parts.push_back(combined(op, *only, a[0].parts[0], b[0].parts[0]));
    return Values{data};
  };
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    for (unsigned i = 0; i < count; ++i) {
      for (auto [x, filler] : llvm::zip(values[i].parts, initial[i].parts))
        x = padded(op, x, filler, d, window.low[at], window.high[at], window.base_dilations[at] - 1);
    }
    if (window.extents[at] == 1 && window.strides[at] == 1) continue;
    values = windows(op, values, d, window.extents[at], window.dilations[at], window.strides[at], join);
  }
  bool neutral = is_plain && is_neutral(initial[0].parts[0], *only);
  if (!neutral) {
    Values spread;
    const Extents extents = extents_of(values[0]);
    for (const Data& data : initial) spread.push_back(mapped(data, [&](Value scalar) { return op.broadcast(scalar, extents, {}); }));
    values = join(spread, values);
  }
  for (unsigned i = 0; i < count; ++i) op.set_data(std::move(values[i]), i);
}

// In each window the element that `select` prefers to the others gets what the source has for the window; what one element gets from several windows
// is combined by `scatter`.
void select_and_scatter(Op& op) {
  op.expect(3, 1, 2);
  Value x = op.input(0), source = op.input(1), initial = op.input(2);
  const int64_t rank = Op::rank_of(x);
  Window window = window_of(op, rank);
  if (Op::rank_of(initial) != 0 || tx::element_of(initial) != tx::element_of(x) || tx::element_of(source) != tx::element_of(x))
    op.fail("its operands have different element types, or its initial value is no scalar");
  std::optional<Combine> scatter = combination(op.source().getRegion(1));
  std::optional<tx::ReduceKind> kind = scatter ? reduce_kind(*scatter, tx::element_of(x)) : std::nullopt;
  if (!kind) op.unsupported("its scatter body is not one of add, multiply, maximum and minimum of its arguments");
  const std::vector<int64_t> extents = op.static_extents(x);
  const Type index = op.builder.getI64Type();
  int64_t all = 1;
  for (int64_t extent : extents) all *= extent;
  // The place of each element, and -1 where the padding is.
  Value places = op.reshape(op.iota({all}, 0, index), extents);
  Value zero = op.splat(RankedTensorType::get({}, tx::element_of(x)), 0), outside = op.splat(RankedTensorType::get({}, index), -1);
  std::vector<int64_t> counts;
  int64_t offsets = 1;
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    x = padded(op, x, zero, d, window.low[at], window.high[at], 0);
    places = padded(op, places, outside, d, window.low[at], window.high[at], 0);
    counts.push_back(window_count(op.extent(x, d), window.extents[at], 1, window.strides[at]));
    constexpr int64_t most = 1024;
    if (__builtin_mul_overflow(offsets, window.extents[at], &offsets) || offsets > most)
      op.unsupported("windows of more than " + std::to_string(most) + " elements are not supported");
  }
  if (counts != op.static_extents(source)) op.fail("its source does not have an element for each window");
  if (llvm::is_contained(counts, 0)) return op.set_result(op.broadcast(initial, extents, {}));
  Value best, best_place;
  for (int64_t offset = 0; offset < offsets; ++offset) {
    Value one = x, place = places;
    int64_t rest = offset;
    for (int64_t d = rank - 1; d >= 0; --d) {
      const auto at = static_cast<size_t>(d);
      const int64_t start = rest % window.extents[at], limit = start + (counts[at] - 1) * window.strides[at] + 1;
      rest /= window.extents[at];
      one = op.slice(one, d, start, limit, window.strides[at]);
      place = op.slice(place, d, start, limit, window.strides[at]);
    }
    if (!best) {
      best = one;
      best_place = place;
      continue;
    }
    Data first, second;
    first.parts.push_back(best);
    second.parts.push_back(one);
    std::vector<Data> stays = op.program.apply(op, op.source().getRegion(0), {first, second}, Op::extents_of(best));
    if (stays.size() != 1 || stays[0].parts.size() != 1 || !tx::element_of(stays[0].parts[0]).isInteger(1))
      op.fail("its select body does not give a bool");
    Value none = op.number(place, 0), is_outside = op.compare(tx::CompareKind::lt, place, none),
          was_outside = op.compare(tx::CompareKind::lt, best_place, none);
    Value keep = combined(op, Combine::land, combined(op, Combine::lor, stays[0].parts[0], is_outside),
                          op.compare(tx::CompareKind::eq, was_outside, op.number(was_outside, 0)));
    best = op.select(keep, best, one);
    best_place = op.select(keep, best_place, place);
  }
  int64_t windows = 1;
  for (int64_t number : counts) windows *= number;
  Value is_outside = op.compare(tx::CompareKind::lt, best_place, op.number(best_place, 0));
  Value target = op.reshape(op.select(is_outside, op.number(best_place, static_cast<double>(all)), best_place), {windows});
  Value flat = op.broadcast(initial, {all}, {});
  Value result = op.make<tx::ScatterOp>(Op::type_of(flat), flat, target, op.reshape(source, {windows}), op.builder.getI64IntegerAttr(0),
                                        tx::ReduceKindAttr::get(op.builder.getContext(), *kind));
  op.set_result(op.reshape(result, extents));
}

// ---------------------------------------------------------------------------------------------------------- map and sort

void map(Op& op) {
  if (op.source().getNumRegions() != 1 || op.source().getNumResults() != 1 || op.input_count() == 0)
    op.fail("it needs operands, one result and one region");
  std::vector<Data> values;
  for (unsigned i = 0; i < op.input_count(); ++i) values.push_back(tensor_data(op, i));
  for (const Data& data : values) {
    if (extents_of(data) != extents_of(values[0])) op.fail("its operands have different shapes");
  }
  std::vector<Data> results = op.program.apply(op, op.source().getRegion(0), values, extents_of(values[0]));
  if (results.size() != 1) op.fail("its body does not have one result");
  op.set_data(std::move(results[0]));
}

// The comparator of a sort as keys, the most important first: each an operand, and whether its largest elements come first.
struct Key {
  unsigned operand;
  bool descending;
};

// compare LT or GT of two arguments of one operand, directly or by what jax.numpy makes of floats so that NaN comes last and zeros are equal.
std::optional<std::vector<Key>> keys_of(Region& region, unsigned count) {
  if (!region.hasOneBlock()) return {};
  Block& block = region.front();
  if (block.getNumArguments() != 2 * count || block.empty() || block.back().getNumOperands() != 1) return {};
  Operation* op = block.back().getOperand(0).getDefiningOp();
  if (!op || op->getName().getStringRef() != "stablehlo.compare" || op->getNumOperands() != 2) return {};
  auto attribute = [&](StringRef name) -> Attribute {
    if (Attribute found = op->getDiscardableAttr(name)) return found;
    auto properties = llvm::dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
    return properties ? properties.get(name) : Attribute();
  };
  auto left = llvm::dyn_cast<BlockArgument>(op->getOperand(0)), right = llvm::dyn_cast<BlockArgument>(op->getOperand(1));
  if (!left || !right || left.getOwner() != &block || right.getOwner() != &block) return {};
  bool descending = word_of(attribute("comparison_direction")) == "GT";
  if (!descending && word_of(attribute("comparison_direction")) != "LT") return {};
  unsigned a = left.getArgNumber(), b = right.getArgNumber();
  if (a > b) {
    std::swap(a, b);
    descending = !descending;
  }
  if (a % 2 != 0 || b != a + 1) return {};
  return std::vector<Key>{{a / 2, descending}};
}

// Elements at these places along the dimension.
Value taken(Op& op, Value x, Value places, int64_t dimension) {
  return op.make<tx::GatherElementsOp>(tx::with_element_type(Op::type_of(places), tx::element_of(x)), x, places,
                                       op.builder.getI64IntegerAttr(dimension));
}

// Any comparator: the place of an element is the number of those that come before it. Elements that are equal keep their order.
Value places_by_comparator(Op& op, const Values& values, int64_t dimension) {
  const std::vector<int64_t> extents = op.static_extents(values[0].parts[0]);
  const int64_t count = extents[static_cast<size_t>(dimension)];
  int64_t pairs = count;
  for (int64_t extent : extents) {
    constexpr int64_t most = int64_t{1} << 28;
    if (__builtin_mul_overflow(pairs, extent, &pairs) || pairs > most)
      op.unsupported("a comparator that is not one comparison of two elements is supported for up to " + std::to_string(most) +
                     " pairs of elements");
  }
  // Dimension `dimension` has the element i, the one behind it the other one, j.
  std::vector<int64_t> to = extents;
  to.insert(to.begin() + dimension, count);
  SmallVector<int64_t> of_i, of_j;
  for (int64_t d = 0; d < static_cast<int64_t>(extents.size()); ++d) {
    of_i.push_back(d <= dimension ? d : d + 1);
    of_j.push_back(d < dimension ? d : d + 1);
  }
  auto compared = [&](bool j_first) {
    std::vector<Data> arguments;
    for (const Data& data : values) {
      Data i = mapped(data, [&](Value part) { return op.broadcast(part, to, of_i); }),
           j = mapped(data, [&](Value part) { return op.broadcast(part, to, of_j); });
      arguments.push_back(j_first ? j : i);
      arguments.push_back(j_first ? i : j);
    }
    Extents lead;
    for (int64_t extent : to) lead.push_back(op.builder.getAffineConstantExpr(extent));
    std::vector<Data> results = op.program.apply(op, op.source().getRegion(0), arguments, lead);
    if (results.size() != 1 || results[0].parts.size() != 1 || !tx::element_of(results[0].parts[0]).isInteger(1))
      op.fail("its comparator does not give a bool");
    return results[0].parts[0];
  };
  Value is_before = compared(/*j_first=*/true), is_after = compared(/*j_first=*/false);
  const Type index = op.builder.getI64Type();
  Value i = op.iota(to, dimension, index), j = op.iota(to, dimension + 1, index);
  Value is_tied = op.compare(tx::CompareKind::eq, combined(op, Combine::lor, is_before, is_after), op.number(is_before, 0));
  Value comes_first = combined(op, Combine::lor, is_before, combined(op, Combine::land, is_tied, op.compare(tx::CompareKind::lt, j, i)));
  Value rank = op.make<tx::ReduceOp>(RankedTensorType::get(extents, index), tx::ReduceKind::sum, op.converted(comes_first, index),
                                     ArrayRef<int64_t>{dimension + 1});
  // rank[i] is where i goes; the result says which element comes from where
  Value own = op.iota(extents, dimension, index);
  return op.make<tx::ScatterOp>(Op::type_of(own), own, rank, own, op.builder.getI64IntegerAttr(dimension), tx::ReduceKindAttr());
}

void sort(Op& op) {
  const unsigned count = op.input_count();
  if (count == 0 || op.source().getNumResults() != count || op.source().getNumRegions() != 1)
    op.fail("it needs as many results as operands, and one region");
  Values values;
  for (unsigned i = 0; i < count; ++i) {
    values.push_back(tensor_data(op, i));
    if (extents_of(values.back()) != extents_of(values.front())) op.fail("its operands have different shapes");
  }
  const int64_t rank = Op::rank_of(values[0].parts[0]);
  int64_t dimension = op.integer("dimension", -1);
  if (dimension < -rank || dimension >= rank)
    op.fail("dimension " + std::to_string(dimension) + " is outside of rank " + std::to_string(rank));
  if (dimension < 0) dimension += rank;
  const std::vector<int64_t> extents = op.static_extents(values[0].parts[0]);
  if (llvm::is_contained(extents, 0) || extents[static_cast<size_t>(dimension)] == 1) {
    for (unsigned i = 0; i < count; ++i) op.set_data(std::move(values[i]), i);
    return;
  }
  std::optional<std::vector<Key>> keys = keys_of(op.source().getRegion(0), count);
  Value places;
  if (keys && keys->size() == 1 && values[keys->front().operand].parts.size() == 1) {
    Value key = op.widened(values[keys->front().operand].parts[0]);
    if (tx::element_of(key).isInteger(1)) key = op.converted(key, op.builder.getI32Type());
    auto descending = keys->front().descending ? op.builder.getUnitAttr() : UnitAttr();
    places = op.make<tx::SortOp>(tx::with_element_type(Op::type_of(key), op.builder.getI64Type()), key,
                                 op.builder.getI64IntegerAttr(dimension), descending);
  } else {
    places = places_by_comparator(op, values, dimension);
  }
  for (unsigned i = 0; i < count; ++i) op.set_data(mapped(values[i], [&](Value part) { return taken(op, part, places, dimension); }), i);
}

}  // namespace

const Table& reduction_ops() {
  static const Table table = {
      {"stablehlo.map", {map, kComplex | kNarrow}},
      {"stablehlo.reduce", {reduce, kComplex | kNarrow}},
      {"stablehlo.reduce_window", {reduce_window, kComplex | kNarrow}},
      {"stablehlo.select_and_scatter", {select_and_scatter, 0}},
      {"stablehlo.sort", {sort, kComplex | kNarrow}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
