// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of tensors, and padding around them: Slice, Split, Pad.
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_data.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace heddle::import {
namespace {

void expect_first(Node& node, llvm::SmallSet<int64_t, 8>& seen, int64_t axis) {
  if (!seen.insert(axis).second) node.fail("its axes name dimension " + std::to_string(axis) + " twice");
}

// The part of one dimension that a slice takes: its start, resolved if it counts from the end; or only the first or the last element.
struct Part {
  AffineExpr start;
  AffineExpr count;
  bool is_one = false;
  bool is_looked_up = false;  // element by element, since it cannot be a slice
};

// A part of one dimension by looking up its elements, wherever it is in a call.
Value looked_up(Node& node, Value input, int64_t axis, const Part& part, int64_t step) {
  Extents extents = Node::extents_of(input);
  extents[axis] = part.count;
  RankedTensorType type = node.tensor_type({part.count}, node.builder.getI64Type());
  Value places = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0));
  if (step != 1 && !part.is_one) places = node.make<tx::MulOp>(type, places, node.splat(type, static_cast<double>(step)));
  places = node.make<tx::AddOp>(type, places, node.broadcast(node.extent_value(part.start), {part.count}));
  RankedTensorType result = node.tensor_type(extents, Node::type_of(input).getElementType());
  return node.make<tx::GatherOp>(result, input, places, node.builder.getI64IntegerAttr(axis));
}

// Parts whose sizes or places depend on symbols.
void symbolic_split(Node& node, Value input, int64_t axis) {
  AffineExpr extent = Node::extents_of(input)[axis], start = node.builder.getAffineConstantExpr(0);
  int64_t outputs = node.output_count();
  std::vector<AffineExpr> sizes;
  if (node.has_input(1)) {
    sizes = extents_from(node, 1, "size of part");
  } else {
    for (int64_t size : node.integer_list("split", std::vector<int64_t>{})) sizes.push_back(node.builder.getAffineConstantExpr(size));
    if (sizes.empty() && outputs > 0) {
      // The last part is smaller if the extent is not a multiple; before opset 18, it must be one.
      AffineExpr exact = node.computed(quotient(extent, outputs)), above = node.builder.getAffineConstantExpr(outputs - 1);
      bool is_exact =
          node.opset() < 18 || equal(node.computed(product(exact, node.builder.getAffineConstantExpr(outputs))), extent).value_or(false);
      AffineExpr part = is_exact ? exact : node.computed(quotient(node.computed(sum(extent, above)), outputs));
      sizes.assign(static_cast<size_t>(outputs), part);
      if (!is_exact) sizes.back() = node.computed(difference(extent, node.computed(product(part, above))));
    }
  }
  if (static_cast<int64_t>(sizes.size()) != outputs)
    node.fail("it has " + std::to_string(sizes.size()) + " parts and " + std::to_string(outputs) + " outputs");
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (!node.graph.symbols.require(size, node.builder.getAffineConstantExpr(0), node.describe()))
      node.fail("part " + std::to_string(i) + " has an extent below 0");
    node.set_result(looked_up(node, input, axis, {start, size}, 1), static_cast<int>(i));
    start = node.computed(sum(start, size));
  }
  if (!node.are_equal(extent, start)) node.fail("its parts do not add up to the extent of dimension " + std::to_string(axis));
}

void split(Node& node) {
  if (int64_t wanted = node.integer("num_outputs", node.output_count()); wanted != node.output_count())
    node.fail("num_outputs is " + std::to_string(wanted) + ", and it has " + std::to_string(node.output_count()) + " outputs");
  const Operand& operand = node.operand(0);
  bool folded = operand.is_folded() && operand.rank == 1;
  Value input = folded ? Value() : node.input(0);
  Extents extents;
  if (folded) {
    extents.push_back(node.builder.getAffineConstantExpr(static_cast<int64_t>(operand.elements->size())));
  } else {
    extents = Node::extents_of(input);
  }
  int64_t axis = node.axis(node.integer("axis", 0), extents.size());
  bool has_symbols =
      is_data(node, 1) || (node.has_input(1) && llvm::any_of(node.elements(1), [](AffineExpr size) { return !tx::static_extent(size); }));
  if (!folded && (has_symbols || !tx::static_extent(extents[axis]))) return symbolic_split(node, input, axis);
  int64_t extent = *tx::static_extent(extents[axis]), outputs = node.output_count();
  std::vector<int64_t> sizes = node.has_input(1) ? node.integers(1) : node.integer_list("split", std::vector<int64_t>{});
  if (sizes.empty() && outputs > 0) {
    int64_t chunk = (extent + outputs - 1) / outputs;
    for (int64_t i = 0; i < outputs; ++i) sizes.push_back(std::max<int64_t>(0, std::min(chunk, extent - i * chunk)));
  }
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > extent - total) node.fail("its parts do not add up to " + std::to_string(extent));
    total += size;
  }
  if (static_cast<int64_t>(sizes.size()) != outputs || total != extent) node.fail("its parts do not add up to " + std::to_string(extent));
  SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
  for (int64_t i = 0; i < outputs; ++i) {
    if (folded) {
      auto first = operand.elements->begin() + starts[0];
      node.set_elements({first, first + sizes[i]}, 1, operand.bits, i);
      starts[0] += sizes[i];
      continue;
    }
    extents[axis] = node.builder.getAffineConstantExpr(sizes[i]);
    RankedTensorType type = node.tensor_type(extents, Node::type_of(input).getElementType());
    node.set_result(node.make<tx::SliceOp>(type, input, starts, strides), i);
    starts[axis] += sizes[i];
  }
}

Part known_part(Node& node, int64_t extent, int64_t start, int64_t end, int64_t step) {
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (extent == 0) return {node.builder.getAffineConstantExpr(0), node.builder.getAffineConstantExpr(0)};
  start = std::clamp<int64_t>(start, 0, step > 0 ? extent : extent - 1);
  end = step > 0 ? std::clamp<int64_t>(end, 0, extent) : std::clamp<int64_t>(end, -1, extent - 1);
  int64_t span = step > 0 ? end - start : start - end, magnitude = step > 0 ? step : -step;
  int64_t count = span <= 0 ? 0 : (span - 1) / magnitude + 1;
  return {node.builder.getAffineConstantExpr(count == 0 ? 0 : start), node.builder.getAffineConstantExpr(count)};
}

// Whether a slice backwards goes from the last element to the first, whatever the extent.
bool takes_all_backwards(AffineExpr start, AffineExpr end) {
  auto first = tx::static_extent(start), last = tx::static_extent(end);
  return first && last && (*first == -1 || *first >= largest_extent) && *last < -largest_extent;
}

// A part with a symbolic extent or bound. Bounds are clamped to the extent as far as extents can express it; other calls are refused.
Part symbolic_part(Node& node, int64_t axis, AffineExpr extent, AffineExpr start, AffineExpr end, int64_t step) {
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  auto refuse = [&](const std::string& cause) {
    node.fail("dimension " + std::to_string(axis) + " is sliced by symbols, and " + cause + "; export the model with that extent fixed",
              HEDDLE_STATUS_UNIMPLEMENTED);
  };
  Symbols& symbols = node.graph.symbols;
  auto limited = [&](StringRef kind, AffineExpr bound, AffineExpr limit) {
    AffineExpr result = symbols.defined(kind, bound, limit);
    if (!result) refuse("its shapes have too many minima and maxima");
    return result;
  };
  auto required = [&](AffineExpr bound, int64_t number) {
    if (!symbols.require(bound, constant(number), node.describe()))
      refuse("a number that must be at least " + std::to_string(number) + " is less in every call");
    return bound;
  };
  // The same for a bound that is known to be in range.
  auto clamped = [&](AffineExpr bound) { return limited("max", required(bound, 0), constant(0)); };
  // The place for a symbolic bound below 0. One that may also be 0 is refused when it is, since it does not count from the end then.
  auto counted_back = [&](AffineExpr bound) {
    AffineExpr back = node.computed(difference(constant(0), bound));
    return tx::static_extent(bound) ? extent + bound : tx::never_negative(back) ? extent - required(back, 1) : AffineExpr();
  };
  auto first = tx::static_extent(start), last = tx::static_extent(end), size = tx::static_extent(extent);
  AffineExpr none = constant(0);
  if (step < 0) {
    if (!takes_all_backwards(start, end)) refuse("its step is " + std::to_string(step) + ", not above 0");
    return {node.computed(difference(extent, constant(1))), node.computed(quotient(sum(extent, constant(-step - 1)), -step)), false, true};
  }
  bool to_end = last ? *last > largest_extent : at_least(end, extent).value_or(false);
  bool is_last = first == -1 && to_end, is_first = first == 0 && last == 1 && !at_least(extent, end).value_or(false);
  if (!size && (is_last || is_first)) {
    required(extent, 1);
    return {constant(is_last ? -1 : 0), constant(1), true};
  }

  AffineExpr from = start;
  if (first && *first < -largest_extent) {
    from = none;
  } else if (AffineExpr behind = first && *first >= 0 ? AffineExpr() : counted_back(start)) {
    from = node.computed(sum(behind, none));
    if (!tx::never_negative(from)) from = limited("max", from, none);
  } else {
    from = required(start, 0);
  }
  auto known_from = tx::static_extent(from);
  if (known_from && (*known_from > largest_extent || (size && *known_from >= *size))) return {none, none};

  AffineExpr to = end;
  bool is_looked_up = !known_from;
  if (to_end) {
    to = extent;
  } else if (last && *last < -largest_extent) {
    to = none;
  } else if (AffineExpr behind = last && *last >= 0 ? AffineExpr() : counted_back(end)) {
    to = node.computed(sum(behind, none));
  } else if (!at_least(extent, end).value_or(false) && !(last && at_least(from, end).value_or(false))) {
    // A symbolic end, for a known extent, must be at most that extent when the model runs.
    is_looked_up |= !size;
    if (is_looked_up && size && !last) {
      symbols.require(extent, required(end, 0), node.describe());
    } else if (is_looked_up) {
      to = limited("min", clamped(end), clamped(extent));
    }
  }
  AffineExpr span = node.computed(difference(to, from));
  if (at_least(span, constant(1)) == false) {
    if (to == end && !last) required(end, 0);  // a negative one counts from the end
    return {none, none};
  }
  if (step > 1) required(span, 0);  // a quotient that is rounded down hides a negative one
  AffineExpr count = node.computed(quotient(sum(span, constant(step - 1)), step));
  return {from, count, false, is_looked_up || !tx::is_inside(extent, *known_from, step, count)};
}

// A vector with the value for each dimension: of the axis that it is, or `otherwise`. Without axes, they are the first ones.
Integers for_dimensions(Node& node, const Integers& values, const Integers* axes, const Integers& otherwise) {
  const int64_t count = Node::type_of(values.value()).getNumElements(), rank = Node::type_of(otherwise.value()).getNumElements();
  if (count == 0) return otherwise;
  Integers places = counted(node, rank).columns(count);
  Integers hits = places == (axes ? *axes : counted(node, count)).rows(rank), spread = values.rows(rank);
  Integers is_named = hits.reduced(tx::ReduceKind::max);
  return spread.where(hits, spread.number(0)).reduced(tx::ReduceKind::sum).where(is_named, otherwise);
}

// Starts, ends, axes or steps that are data: elements are looked up at places that are computed.
void slice_by_data(Node& node) {
  Value input = node.input(0);
  const Extents extents = Node::extents_of(input);
  const auto rank = static_cast<int64_t>(extents.size());
  const bool has_axes = node.has_input(3), has_steps = node.has_input(4), are_axes_data = is_data(node, 3);
  const Integers starts = vector_of(node, 1), ends = vector_of(node, 2);
  const int64_t count = Node::type_of(starts.value()).getNumElements();
  auto fits = [&](const Integers& values) { return Node::type_of(values.value()).getNumElements() == count; };
  if (!fits(ends) || (has_axes && !fits(vector_of(node, 3))) || (has_steps && !fits(vector_of(node, 4))) || count > rank)
    node.fail("starts, ends, axes and steps differ in length, or name more dimensions than its input has");
  if (count == 0) return node.set_operand(node.operand(0));
  std::vector<bool> may_be_cut(extents.size(), are_axes_data);
  for (int64_t i = 0; i < count && !are_axes_data; ++i) {
    const auto axis = static_cast<size_t>(node.axis(has_axes ? node.integers(3)[static_cast<size_t>(i)] : i, rank));
    if (may_be_cut[axis]) node.fail("its axes name dimension " + std::to_string(axis) + " twice");
    may_be_cut[axis] = true;
  }
  std::optional<Integers> axes;
  if (has_axes) axes = axes_from(node, 3, rank);
  const Integers size = numbers_of(node, extents), zero = size.number(0), one = size.number(1);
  auto of_all = [&](const Integers& values, const Integers& otherwise) {
    return for_dimensions(node, values, axes ? &*axes : nullptr, otherwise);
  };
  Integers start = of_all(starts, zero), end = of_all(ends, size), step = one;
  if (has_steps) {
    expect_not_zero(node, vector_of(node, 4).value());
    const Integers far = one.number(largest_extent);
    step = max(min(of_all(vector_of(node, 4), one), far), zero - far);
  }
  const Integers falls = step < zero, from_end = size - falls;  // the place behind the last one that start may be
  start = (start + size).where(start < zero, start);
  end = (end + size).where(end < zero, end);
  start = min(max(start, zero), from_end);
  end = min(max(end, zero - falls), from_end);
  const Integers span = (start - end).where(falls, end - start), stride = (zero - step).where(falls, step);
  const Integers parts = max(zero, (span + stride - one) / max(stride, one));
  SmallVector<Integers> read;
  SmallVector<int64_t> cut;
  for (int64_t i = 0; i < rank; ++i) {
    if (!may_be_cut[static_cast<size_t>(i)]) continue;
    read.push_back(parts.at(i));
    cut.push_back(i);
  }
  const std::vector<AffineExpr> known = read_extents(node, joined(node, read), "extent of the result");
  for (auto [axis, extent] : llvm::zip_equal(cut, known)) input = gather_from(node, input, axis, start.at(axis), step.at(axis), extent);
  node.set_result(input);
}

void slice(Node& node) {
  if (node.opset() >= 10) {
    bool by_data = false;
    for (int i = 1; i <= 4; ++i) by_data |= is_data(node, i);
    if (by_data) return slice_by_data(node);
  }
  const Operand& operand = node.operand(0);
  bool attributes = node.opset() < 10;
  auto bounds = [&](const char* name, int input) {
    if (!attributes) return node.elements(input);
    std::vector<AffineExpr> result;
    for (int64_t value : node.integer_list(name)) result.push_back(node.builder.getAffineConstantExpr(value));
    return result;
  };
  std::vector<AffineExpr> starts = bounds("starts", 1), ends = bounds("ends", 2);
  std::vector<int64_t> axes, steps;
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(i);
  if (attributes) axes = node.integer_list("axes", axes);
  if (!attributes && node.has_input(3)) axes = node.integers(3);
  steps.assign(starts.size(), 1);
  if (!attributes && node.has_input(4)) steps = node.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    node.fail("starts, ends, axes and steps differ in length");
  // A step above every extent takes one element, and so does the number that it is clamped to.
  for (int64_t& step : steps) step = std::clamp(step, -largest_extent, largest_extent);
  auto part_of = [&](size_t i, int64_t axis, AffineExpr extent) {
    if (steps[i] == 0) node.fail("a step is 0");
    auto size = tx::static_extent(extent), start = tx::static_extent(starts[i]), end = tx::static_extent(ends[i]);
    if (size && start && end) return known_part(node, *size, *start, *end, steps[i]);
    return symbolic_part(node, axis, extent, starts[i], ends[i], steps[i]);
  };
  bool takes_rows = operand.is_matrix() && starts.size() == 1 && node.axis(axes[0], 2) == 0;
  if ((operand.is_folded() && operand.rank == 1 && starts.size() == 1) || takes_rows) {
    node.axis(axes[0], operand.rank);
    int64_t columns = takes_rows ? operand.columns : 1;
    Part part = part_of(0, 0, node.builder.getAffineConstantExpr(static_cast<int64_t>(operand.elements->size()) / columns));
    auto count = tx::static_extent(part.count), first = tx::static_extent(part.start);
    if (!count || !first)
      node.fail("the number of elements that it takes of a shape depends on a symbolic dimension", HEDDLE_STATUS_UNIMPLEMENTED);
    std::vector<AffineExpr> elements;
    for (int64_t i = 0; i < *count; ++i) {
      auto row = operand.elements->begin() + (*first + i * steps[0]) * columns;
      elements.insert(elements.end(), row, row + columns);
    }
    Operand taken = operand;
    taken.value = {};
    taken.elements = std::move(elements);
    node.set_operand(std::move(taken));
    return;
  }
  Value input = node.input(0);
  Extents extents = Node::extents_of(input);
  for (size_t i = 0; i < starts.size(); ++i) {
    const bool is_known =
        tx::static_extent(extents[node.axis(axes[i], extents.size())]) && tx::static_extent(starts[i]) && tx::static_extent(ends[i]);
    if (steps[i] < 0 && !is_known && !takes_all_backwards(starts[i], ends[i])) return slice_by_data(node);
  }
  SmallVector<int64_t> all_starts(extents.size(), 0), all_strides(extents.size(), 1);
  Type element = Node::type_of(input).getElementType();
  llvm::SmallSet<int64_t, 8> seen;
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = node.axis(axes[i], extents.size());
    expect_first(node, seen, axis);
    Part part = part_of(i, axis, Node::extents_of(input)[axis]);
    if (part.is_one || part.is_looked_up) {
      input = looked_up(node, input, axis, part, steps[i]);
      extents[axis] = part.count;
      continue;
    }
    all_starts[axis] = *tx::static_extent(part.start);
    all_strides[axis] = steps[i];
    extents[axis] = part.count;
  }
  node.set_result(node.make<tx::SliceOp>(node.tensor_type(extents, element), input, all_starts, all_strides));
}

// The indices of the elements of a padded dimension: its own elements, and others beyond its ends, as the mode says. `low`: i64 of rank 0.
Value padded_places(Node& node, const std::string& mode, AffineExpr extent, AffineExpr padded, Value low) {
  RankedTensorType type = node.tensor_type({padded}, node.builder.getI64Type());
  auto number = [&](AffineExpr value) { return node.broadcast(node.extent_value(value), {padded}); };
  Value last = number(node.computed(difference(extent, node.builder.getAffineConstantExpr(1)))), zero = node.splat(type, 0);
  Value place = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0));
  place = node.make<tx::SubOp>(type, place, node.broadcast(low, {padded}));
  if (mode == "edge") return node.make<tx::MinOp>(type, node.make<tx::MaxOp>(type, place, zero), last);
  if (mode == "reflect") {  // once at each end
    Value behind = node.make<tx::AbsOp>(type, node.make<tx::SubOp>(type, last, node.make<tx::AbsOp>(type, place)));
    return node.make<tx::SubOp>(type, last, behind);
  }
  // wrap: a place before the first one counts from the end by itself
  Value size = number(extent),
        bools = node.make<tx::CompareOp>(tx::with_element_type(type, node.builder.getI1Type()), tx::CompareKind::gt, place, last);
  return node.make<tx::SelectOp>(type, bools, node.make<tx::SubOp>(type, place, size), place);
}

// The value around a tensor, as a scalar of its element type.
Value pad_value(Node& node, Type element) {
  const RankedTensorType scalar = RankedTensorType::get({}, element);
  if (!node.has_input(2)) return node.splat(scalar, 0);
  return node.reshape(node.converted(node.input(2), element), {});
}

}  // namespace

Value shifted(Node& node, Value value, const Integers& shifts, ArrayRef<AffineExpr> to, Value filler, ArrayRef<bool> is_changed) {
  Extents extents = Node::extents_of(value);
  const Type element = Node::type_of(value).getElementType();
  Value inside;
  for (int64_t i = 0; i < static_cast<int64_t>(extents.size()); ++i) {
    AffineExpr& extent = extents[static_cast<size_t>(i)];
    const AffineExpr wanted = to[static_cast<size_t>(i)];
    if (!is_changed.empty() && !is_changed[static_cast<size_t>(i)]) continue;
    RankedTensorType type = node.tensor_type({wanted}, node.builder.getI64Type()),
                     bools = tx::with_element_type(type, node.builder.getI1Type());
    auto spread = [&](Value one) { return node.broadcast(one, {wanted}); };
    Value counted = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0));
    const Integers place{node, node.make<tx::AddOp>(type, counted, spread(node.reshape(shifts.at(i).value(), {})))};
    const Integers last{node, node.make<tx::SubOp>(type, spread(node.extent_value(extent)), node.splat(type, 1))};
    const Integers nearest = max(min(place, last), place.number(0));
    Value is_inside = node.make<tx::CompareOp>(bools, tx::CompareKind::eq, nearest.value(), place.value());
    RankedTensorType mask = node.tensor_type(to, node.builder.getI1Type());
    is_inside = node.make<tx::BroadcastOp>(mask, is_inside, ArrayRef<int64_t>{i});
    inside = inside ? node.make<tx::SelectOp>(mask, inside, is_inside, node.splat(mask, 0)) : is_inside;
    extent = wanted;
    value = node.make<tx::GatherOp>(node.tensor_type(extents, element), value, nearest.value(), node.builder.getI64IntegerAttr(i));
  }
  return inside ? node.make<tx::SelectOp>(Node::type_of(value), inside, value, node.broadcast(filler, extents)) : value;
}

namespace {

// Pads, axes or a constant value that are data: elements are looked up at places that are computed, and replaced where there are none. A pad below
// 0 cuts elements off.
void pad_by_data(Node& node, Value input, const std::string& mode) {
  Extents extents = Node::extents_of(input);
  const Type element = Node::type_of(input).getElementType();
  const auto rank = static_cast<int64_t>(extents.size());
  const Integers pads = vector_of(node, 1);
  const bool has_axes = node.opset() >= 18 && node.has_input(3);
  const int64_t count = has_axes ? Node::type_of(vector_of(node, 3).value()).getNumElements() : rank;
  if (Node::type_of(pads.value()).getNumElements() != 2 * count)
    node.fail("pads has " + std::to_string(Node::type_of(pads.value()).getNumElements()) + " values for " + std::to_string(count) +
              " dimensions");
  if (count == 0) return node.set_operand(node.operand(0));
  std::optional<Integers> axes;
  if (has_axes) axes = axes_from(node, 3, rank);
  auto half = [&](int64_t first) {
    SmallVector<int64_t> start{first}, stride{1};
    return Integers(node, node.make<tx::SliceOp>(RankedTensorType::get({count}, node.builder.getI64Type()), pads.value(), start, stride));
  };
  const Integers size = numbers_of(node, extents), zero = size.number(0), far = size.number(2 * largest_extent);
  auto of_all = [&](const Integers& values) {
    return max(min(for_dimensions(node, values, axes ? &*axes : nullptr, zero), far), zero - far);
  };
  const Integers low = of_all(half(0)), high = of_all(half(count));
  std::vector<AffineExpr> padded(extents.begin(), extents.end());
  SmallVector<bool> is_padded(extents.size(), true);
  if (node.operand(1).is_shape() && (!has_axes || node.operand(3).is_shape())) {  // extents are known although they depend on symbols
    const std::vector<AffineExpr> known = node.elements(1);
    is_padded.assign(extents.size(), false);
    llvm::SmallSet<int64_t, 8> seen;
    for (int64_t i = 0; i < count; ++i) {
      const auto axis = static_cast<size_t>(node.axis(has_axes ? node.integers(3)[static_cast<size_t>(i)] : i, rank));
      AffineExpr first = known[static_cast<size_t>(i)], last = known[static_cast<size_t>(count + i)],
                 nothing = node.builder.getAffineConstantExpr(0);
      expect_first(node, seen, static_cast<int64_t>(axis));
      is_padded[axis] = first != nothing || last != nothing;
      padded[axis] = node.computed(sum(extents[axis], node.computed(sum(first, last))));
      if (!node.graph.symbols.require(padded[axis], nothing, node.describe()))
        node.fail("its pads cut off more of dimension " + std::to_string(axis) + " than there is");
    }
  } else {
    padded = read_extents(node, low + size + high, "extent of the result");
  }
  if (mode != "constant") {  // each takes its elements from the dimension once
    const Integers most = max(max(low, high) - size.number(mode == "reflect" ? 0 : 1), zero);
    for (int64_t i = 0; i < rank; ++i) {
      const AffineExpr extent = extents[static_cast<size_t>(i)];
      if (!is_padded[static_cast<size_t>(i)]) continue;
      if (!node.graph.symbols.require(extent, node.builder.getAffineConstantExpr(1), node.describe()))
        node.fail("it repeats elements of an input that has none", HEDDLE_STATUS_UNIMPLEMENTED);
      if (mode != "edge")
        node.graph.expected.push_back({most.at(i).value(), {}, extent, "the larger pad of dimension " + std::to_string(i)});
    }
  }
  if (mode == "constant") return node.set_result(shifted(node, input, zero - low, padded, pad_value(node, element), is_padded));
  Value value = input;
  for (int64_t i = 0; i < rank; ++i) {
    const AffineExpr to = padded[static_cast<size_t>(i)];
    if (!is_padded[static_cast<size_t>(i)]) continue;
    Value places = padded_places(node, mode, extents[static_cast<size_t>(i)], to, node.reshape(low.at(i).value(), {}));
    extents[static_cast<size_t>(i)] = to;
    value = node.make<tx::GatherOp>(node.tensor_type(extents, element), value, places, node.builder.getI64IntegerAttr(i));
  }
  node.set_result(value);
}

void pad(Node& node) {
  Value input = node.input(0);
  std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") node.fail("mode '" + mode + "' is not known");
  if (node.opset() >= 11) {
    const bool is_number_known = mode != "constant" || !node.has_input(2) || known_elements(node.input(2));
    if (is_data(node, 1) || (node.opset() >= 18 && is_data(node, 3)) || !is_number_known) {
      if (!is_number_known) node.graph.need_elements(node.input(2));
      return pad_by_data(node, input, mode);
    }
    if (!llvm::all_of(node.elements(1), [](AffineExpr pad) { return tx::static_extent(pad).has_value(); }))
      return pad_by_data(node, input, mode);
  }
  Extents extents = Node::extents_of(input);
  auto rank = static_cast<int64_t>(extents.size());
  std::vector<int64_t> axes, pads = node.opset() < 11 ? node.integer_list(node.opset() < 2 ? "paddings" : "pads") : node.integers(1);
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  if (node.opset() >= 18 && node.has_input(3)) axes = node.integers(3);
  if (pads.size() != 2 * axes.size())
    node.fail("pads has " + std::to_string(pads.size()) + " values for " + std::to_string(axes.size()) + " dimensions");
  SmallVector<int64_t> low(extents.size(), 0), high(extents.size(), 0);
  llvm::SmallSet<int64_t, 8> seen;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = node.axis(axes[i], rank);
    expect_first(node, seen, axis);
    low[axis] = pads[i];
    high[axis] = pads[axes.size() + i];
  }
  double value = node.opset() < 11 ? node.number("value", 0.0) : 0.0;
  if (mode == "constant" && node.has_input(2)) {
    DenseElementsAttr constant = known_elements(node.input(2));
    if (!constant) node.graph.need_elements(node.input(2));
    if (!constant || constant.getNumElements() != 1)
      node.fail("the constant value must be known when the model is compiled", HEDDLE_STATUS_UNIMPLEMENTED);
    value = number_of(*constant.getValues<Attribute>().begin());
  }
  Type element = Node::type_of(input).getElementType();
  Extents sliced = extents;
  SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
  for (size_t i = 0; i < extents.size(); ++i) {
    auto is_beyond = [](int64_t pad) { return pad > largest_extent || pad < -largest_extent; };
    if (is_beyond(low[i]) || is_beyond(high[i]))
      node.fail("a pad on dimension " + std::to_string(i) + " is beyond " + std::to_string(largest_extent));
    starts[i] = std::max<int64_t>(0, -low[i]);
    sliced[i] =
        node.computed(sum(extents[i], node.builder.getAffineConstantExpr(std::min<int64_t>(0, low[i]) + std::min<int64_t>(0, high[i]))));
    low[i] = std::max<int64_t>(0, low[i]);
    high[i] = std::max<int64_t>(0, high[i]);
  }
  if (sliced != extents) input = node.make<tx::SliceOp>(node.tensor_type(sliced, element), input, starts, strides);
  Extents to = sliced;
  for (size_t i = 0; i < to.size(); ++i) to[i] = node.computed(sum(sliced[i], node.builder.getAffineConstantExpr(low[i] + high[i])));
  if (mode == "constant") {
    node.set_result(node.make<tx::PadOp>(node.tensor_type(to, element), input, low, high, llvm::APFloat(value)));
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == sliced[i]) continue;
    auto size = tx::static_extent(sliced[i]);
    int64_t most = size ? *size - (mode == "reflect" ? 1 : 0) : largest_extent;
    if (size && (mode == "edge" ? *size == 0 : std::max(low[i], high[i]) > most))
      node.fail("dimension " + std::to_string(i) + " has " + std::to_string(*size) + " elements, which are too few for its pads",
                HEDDLE_STATUS_UNIMPLEMENTED);
    if (!size && mode != "edge") {  // as many are needed when it runs
      AffineExpr needed = node.builder.getAffineConstantExpr(std::max(low[i], high[i]) + (mode == "reflect" ? 1 : 0));
      if (!node.graph.symbols.require(sliced[i], needed, node.describe()))
        node.fail("dimension " + std::to_string(i) + " never has as many elements as its pads take");
    }
    Value below = node.splat(RankedTensorType::get({}, node.builder.getI64Type()), static_cast<double>(low[i]));
    Value places = padded_places(node, mode, sliced[i], to[i], below);
    sliced[i] = to[i];
    input =
        node.make<tx::GatherOp>(node.tensor_type(sliced, element), input, places, node.builder.getI64IntegerAttr(static_cast<int64_t>(i)));
  }
  node.set_result(input);
}

// Some dimensions are cut, or padded with zeros, to the given extents. An odd rest is at the end.
void center_crop_pad(Node& node) {
  Value value = node.input(0);
  std::vector<AffineExpr> wanted = extents_from(node, 1, "extent of the result");
  Extents extents = Node::extents_of(value);
  const auto rank = static_cast<int64_t>(extents.size());
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  axes = node.integer_list("axes", axes);
  if (axes.size() != wanted.size())
    node.fail("its shape has " + std::to_string(wanted.size()) + " extents for " + std::to_string(axes.size()) + " dimensions");
  SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1), low(extents.size(), 0), high(extents.size(), 0);
  Extents cut = extents, padded = extents;
  llvm::SmallSet<int64_t, 8> seen;
  bool is_symbolic = false;
  for (auto [i, given] : llvm::enumerate(axes)) {
    const int64_t axis = node.axis(given, rank);
    expect_first(node, seen, axis);
    auto from = tx::static_extent(extents[axis]), to = tx::static_extent(wanted[i]);
    padded[axis] = wanted[i];
    is_symbolic |= wanted[i] != extents[axis] && (!from || !to);
    if (wanted[i] == extents[axis] || is_symbolic) continue;
    if (*to < 0 || *to > largest_extent)
      node.fail("extent " + std::to_string(*to) + " of dimension " + std::to_string(axis) + " is out of range");
    starts[axis] = std::max<int64_t>(0, (*from - *to) / 2);
    const int64_t missing = std::max<int64_t>(0, *to - *from);
    low[axis] = missing / 2;
    high[axis] = missing - missing / 2;
    cut[axis] = node.builder.getAffineConstantExpr(std::min(*from, *to));
  }
  if (is_symbolic) {
    const Integers size = numbers_of(node, extents), shifts = (size - numbers_of(node, padded)) / size.number(2);
    Value filler = node.splat(RankedTensorType::get({}, Node::type_of(value).getElementType()), 0);
    return node.set_result(shifted(node, value, shifts, padded, filler));
  }
  Type element = Node::type_of(value).getElementType();
  value = node.builder.createOrFold<tx::SliceOp>(node.location(), node.tensor_type(cut, element), value, starts, strides);
  if (padded != cut) value = node.make<tx::PadOp>(node.tensor_type(padded, element), value, low, high, llvm::APFloat(0.0));
  node.set_result(value);
}

}  // namespace

const Table& slice_operators() {
  static const Table table = {{"CenterCropPad", center_crop_pad}, {"Pad", pad}, {"Slice", slice}, {"Split", split}};
  return table;
}

}  // namespace heddle::import
