// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops with extents that are computed, and integers that extents follow from, which are computed here as far as they can be. Other extents are read
// while the call runs; static ones that the program declares are taken.
#include <limits>
#include <set>

#include "compiler/import/onnx_data.h"
#include "compiler/import/stablehlo_program.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

using Elements = std::vector<AffineExpr>;

// ------------------------------------------------------------------------------------------------- integers of extents

AffineExpr constant(Op& op, int64_t value) {
  return op.builder.getAffineConstantExpr(value);
}

// Whether the integer can be one of the type. Symbols are extents, which fit every type that programs have for them.
bool fits(AffineExpr value, Type type) {
  if (!value) return false;
  auto known = tx::static_extent(value);
  auto integer = llvm::dyn_cast<IntegerType>(type);
  if (!known || !integer) return integer != nullptr;
  if (integer.getWidth() == 1) return *known == 0 || *known == 1;
  if (integer.isUnsigned()) return *known >= 0 && (integer.getWidth() >= 63 || *known < int64_t{1} << integer.getWidth());
  const int64_t limit = integer.getWidth() >= 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (integer.getWidth() - 1)) - 1;
  return *known <= limit && *known >= -limit - 1;
}

AffineExpr flag(Op& op, std::optional<bool> value) {
  return value ? constant(op, *value ? 1 : 0) : AffineExpr();
}

AffineExpr compared(Op& op, AffineExpr a, AffineExpr b) {
  const Symbols& symbols = op.program.graph.symbols;
  const std::string direction = op.word("comparison_direction", "");
  auto negated = [](std::optional<bool> value) { return value ? std::optional(!*value) : std::nullopt; };
  if (direction == "EQ") return flag(op, symbols.equal(a, b));
  if (direction == "NE") return flag(op, negated(symbols.equal(a, b)));
  if (direction == "GE") return flag(op, symbols.at_least(a, b));
  if (direction == "LT") return flag(op, negated(symbols.at_least(a, b)));
  if (direction == "LE") return flag(op, symbols.at_least(b, a));
  if (direction == "GT") return flag(op, negated(symbols.at_least(b, a)));
  return {};
}

// Null for what cannot be stated.
AffineExpr binary(Op& op, StringRef name, AffineExpr a, AffineExpr b, bool of_bools) {
  Symbols& symbols = op.program.graph.symbols;
  const auto x = tx::static_extent(a), y = tx::static_extent(b);
  if (name == "and" && of_bools) return x == 0 || y == 0 ? constant(op, 0) : x == 1 ? b : y == 1 ? a : AffineExpr();
  if (name == "or" && of_bools) return x == 1 || y == 1 ? constant(op, 1) : x == 0 ? b : y == 0 ? a : AffineExpr();
  if (of_bools) return {};
  if (name == "add") return sum(a, b);
  if (name == "subtract") return difference(a, b);
  if (name == "multiply") return product(a, b);
  if (name == "maximum" || name == "minimum") {
    const bool is_max = name == "maximum";
    if (auto larger = symbols.at_least(a, b)) return *larger == is_max ? a : b;
    return symbols.defined(is_max ? "max" : "min", a, b);
  }
  // Quotients and remainders are rounded towards 0: only of numbers that are not negative.
  if (name != "divide" && name != "remainder") return {};
  if (x && y && *y != 0 && *x >= 0 && *y > 0) return constant(op, name == "divide" ? *x / *y : *x % *y);
  if (symbols.at_least(a, constant(op, 0)) != true || !y || *y < 1) return {};
  AffineExpr whole = quotient(a, *y);
  if (name == "divide" || !whole) return whole;
  AffineExpr covered = product(whole, b);
  return covered ? difference(a, covered) : AffineExpr();
}

AffineExpr unary(Op& op, StringRef name, AffineExpr a, bool of_bools) {
  const Symbols& symbols = op.program.graph.symbols;
  if (name == "not" && of_bools) {
    auto known = tx::static_extent(a);
    return known ? constant(op, 1 - *known) : AffineExpr();
  }
  if (of_bools) return {};
  if (name == "negate") return difference(constant(op, 0), a);
  if (name == "abs") return symbols.at_least(a, constant(op, 0)) == true ? a : AffineExpr();
  if (name != "sign") return {};
  if (symbols.at_least(a, constant(op, 1)) == true) return constant(op, 1);
  return symbols.equal(a, constant(op, 0)) == true ? constant(op, 0) : AffineExpr();
}

// The elements of all operands; none if one of them is not known.
std::optional<std::vector<const Data*>> known_operands(Op& op) {
  std::vector<const Data*> all;
  for (unsigned i = 0; i < op.input_count(); ++i) {
    const Data& data = op.data(i);
    if (!data.elements || data.tuple || data.rank > 1) return {};
    all.push_back(&data);
  }
  return all;
}

// The elements of the result; none if they cannot be stated.
std::optional<Elements> folded(Op& op, StringRef name, ArrayRef<const Data*> operands, RankedTensorType type) {
  const bool of_bools = llvm::cast<RankedTensorType>(op.source().getOperand(0).getType()).getElementType().isInteger(1);
  const Elements& first = *operands[0]->elements;
  Elements result;
  if (name == "reshape" || name == "optimization_barrier") return first;
  if (name == "convert") {
    if (!llvm::isa<IntegerType>(type.getElementType()) || (type.getElementType().isInteger(1) != of_bools)) return {};
    return first;
  }
  if (name == "broadcast_in_dim") {
    if (first.size() == 1) return Elements(static_cast<size_t>(type.getNumElements()), first[0]);
    return static_cast<int64_t>(first.size()) == type.getNumElements() ? std::optional(first) : std::nullopt;
  }
  if (name == "concatenate") {
    for (const Data* one : operands) result.insert(result.end(), one->elements->begin(), one->elements->end());
    return result;
  }
  if (name == "slice") {
    const std::vector<int64_t> starts = op.integers("start_indices"), limits = op.integers("limit_indices"),
                               strides = op.integers("strides");
    if (starts.size() != 1 || limits.size() != 1 || strides.size() != 1 || starts[0] < 0 || strides[0] < 1 ||
        limits[0] > static_cast<int64_t>(first.size()))
      return {};
    for (int64_t i = starts[0]; i < limits[0]; i += strides[0]) result.push_back(first[static_cast<size_t>(i)]);
    return result;
  }
  if (operands.size() == 1) {
    for (AffineExpr one : first) result.push_back(unary(op, name, one, of_bools));
    return result;
  }
  if (operands.size() == 3 && name == "select") {
    const Elements &a = *operands[1]->elements, &b = *operands[2]->elements;
    if (a.size() != b.size() || (first.size() != 1 && first.size() != a.size())) return {};
    for (size_t i = 0; i < a.size(); ++i) {
      auto known = tx::static_extent(first[first.size() == 1 ? 0 : i]);
      result.push_back(known ? (*known != 0 ? a[i] : b[i]) : a[i] == b[i] ? a[i] : AffineExpr());
    }
    return result;
  }
  if (operands.size() != 2 || operands[1]->elements->size() != first.size()) return {};
  for (auto [a, b] : llvm::zip(first, *operands[1]->elements)) {
    if (name == "compare" && of_bools) return {};
    result.push_back(name == "compare" ? compared(op, a, b) : binary(op, name, a, b, of_bools));
  }
  return result;
}

// -------------------------------------------------------------------------------------------------------------- ops

// A vector of i64 from an operand.
Integers vector_of(Op& op, unsigned index) {
  Value value = op.input(index);
  if (!llvm::isa<IntegerType>(tx::element_of(value)) || Op::rank_of(value) > 1 || !Op::type_of(value).hasStaticShape())
    op.fail("operand " + std::to_string(index) + " is no list of integers of static length");
  return {op.node, op.converted(op.reshape(value, ArrayRef<int64_t>{Op::type_of(value).getNumElements()}), op.builder.getI64Type())};
}

// The extents of the result: those that are declared, else these.
Extents declared_or(Op& op, llvm::function_ref<AffineExpr(size_t)> computed) {
  auto type = llvm::cast<RankedTensorType>(op.source().getResult(0).getType());
  Extents extents;
  for (int64_t i = 0; i < type.getRank(); ++i)
    extents.push_back(type.isDynamicDim(i) ? computed(static_cast<size_t>(i)) : constant(op, type.getDimSize(i)));
  return extents;
}

bool is_declared(Op& op) {
  return llvm::cast<RankedTensorType>(op.source().getResult(0).getType()).hasStaticShape();
}

// The extents of the result, which an operand gives.
Extents extents_from(Op& op, unsigned index) {
  const auto rank = static_cast<size_t>(llvm::cast<RankedTensorType>(op.source().getResult(0).getType()).getRank());
  const Data& data = op.data(index);
  Elements elements;
  if (data.elements) {
    elements = *data.elements;
  } else if (!is_declared(op)) {
    elements = read_extents(op.node, vector_of(op, index), "extent of the result");
  } else {
    return declared_or(op, [](size_t) { return AffineExpr(); });
  }
  if (elements.size() != rank)
    op.fail("operand " + std::to_string(index) + " has " + std::to_string(elements.size()) + " elements for rank " + std::to_string(rank));
  Extents extents = declared_or(op, [&](size_t i) { return elements[i]; });
  if (std::string cause = refuse_extents(extents); !cause.empty()) op.fail(cause);
  return extents;
}

void get_dimension_size(Op& op) {
  op.expect(1);
  const int64_t dimension = op.integer("dimension");
  Extents extents;
  const Data& data = op.data(0);
  if (data.parts.empty() && data.elements) {
    if (data.rank == 1) extents.push_back(constant(op, static_cast<int64_t>(data.elements->size())));
  } else if (!data.parts.empty()) {
    extents = Op::extents_of(data.parts[0]);
  }
  if (dimension < 0 || dimension >= static_cast<int64_t>(extents.size()))
    op.fail("its operand has no dimension " + std::to_string(dimension));
  op.set_elements({extents[static_cast<size_t>(dimension)]}, 0);
}

// Without bounded dimensions, a tensor has one size only.
void set_dimension_size(Op& op) {
  op.expect(2);
  Value x = op.input(0);
  const int64_t dimension = op.integer("dimension");
  if (dimension < 0 || dimension >= Op::rank_of(x)) op.fail("its operand has no dimension " + std::to_string(dimension));
  const Data& size = op.data(1);
  const AffineExpr own = Op::extents_of(x)[static_cast<size_t>(dimension)];
  if (!size.elements || size.elements->size() != 1 || !op.node.are_equal(size.elements->front(), own))
    op.unsupported("it sets another size than the dimension has; bounded dimensions are not supported");
  op.set_result(x);
}

void dynamic_reshape(Op& op) {
  op.expect(2);
  Value x = op.input(0);
  const Extents extents = extents_from(op, 1);
  op.set_result(reshape_to(op.node, x, extents));
}

void dynamic_broadcast_in_dim(Op& op) {
  op.expect(2);
  Value x = op.input(0);
  const Extents to = extents_from(op, 1), from = Op::extents_of(x);
  const std::vector<int64_t> dimensions = op.integers("broadcast_dimensions");
  if (dimensions.size() != from.size())
    op.fail("broadcast_dimensions has " + std::to_string(dimensions.size()) + " numbers for rank " + std::to_string(from.size()));
  SmallVector<int64_t> order(from.size()), sorted;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  llvm::sort(order, [&](int64_t a, int64_t b) { return dimensions[static_cast<size_t>(a)] < dimensions[static_cast<size_t>(b)]; });
  Extents kept;
  for (int64_t i : order) {
    const int64_t d = dimensions[static_cast<size_t>(i)];
    if (d < 0 || d >= static_cast<int64_t>(to.size()) || (!sorted.empty() && sorted.back() == d))
      op.fail("broadcast_dimensions are not different dimensions of its result");
    const AffineExpr own = from[static_cast<size_t>(i)], wanted = to[static_cast<size_t>(d)];
    if (!tx::is_one(own) && !op.node.are_equal(own, wanted))
      op.fail("dimension " + std::to_string(i) + " of its operand is neither 1 nor that of dimension " + std::to_string(d) +
              " of its result");
    sorted.push_back(d);
    kept.push_back(tx::is_one(own) ? own : wanted);
  }
  op.set_result(op.broadcast(op.node.with_extents(op.transpose(x, order), kept), to, sorted));
}

void dynamic_iota(Op& op) {
  op.expect(1);
  const Extents extents = extents_from(op, 0);
  const int64_t dimension = op.integer("iota_dimension");
  if (dimension < 0 || dimension >= static_cast<int64_t>(extents.size()))
    op.fail("iota_dimension " + std::to_string(dimension) + " is no dimension of its result");
  const Type element = op.result_element();
  const bool is_wide = element.isF32() || element.isF64();
  Value value = op.make<tx::IotaOp>(op.node.tensor_type(extents, is_wide ? element : Type(op.builder.getI64Type())),
                                    op.builder.getI64IntegerAttr(dimension));
  Data data;
  data.parts.push_back(op.converted(value, element));
  if (llvm::isa<ComplexType>(llvm::cast<RankedTensorType>(op.source().getResult(0).getType()).getElementType()))
    data.parts.push_back(op.number(data.parts[0], 0));
  op.set_data(std::move(data));
}

void real_dynamic_slice(Op& op) {
  op.expect(4);
  Value x = op.input(0);
  const auto rank = static_cast<size_t>(Op::rank_of(x));
  if (rank == 0) return op.set_result(x);
  auto known = [&](unsigned index) { return op.data(index).elements; };
  const Integers starts = vector_of(op, 1), limits = vector_of(op, 2), strides = vector_of(op, 3);
  for (const Integers* one : {&starts, &limits, &strides}) {
    if (Op::type_of(one->value()).getNumElements() != static_cast<int64_t>(rank))
      op.fail("its bounds and strides need one number for each dimension");
  }
  Elements counts(rank);
  bool is_known = known(1) && known(2) && known(3);
  for (size_t i = 0; is_known && i < rank; ++i) {
    auto stride = tx::static_extent((*known(3))[i]);
    AffineExpr reach = difference((*known(2))[i], (*known(1))[i]);
    if (stride && *stride > 1 && reach) reach = sum(reach, constant(op, *stride - 1));
    counts[i] = !stride || *stride < 1 || !reach ? AffineExpr() : *stride == 1 ? reach : quotient(reach, *stride);
    is_known = static_cast<bool>(counts[i]);
  }
  if (!is_known && !is_declared(op))
    counts = read_extents(op.node, (limits - starts + strides - strides.number(1)) / strides, "extent of the result");
  const Extents extents = declared_or(op, [&](size_t i) { return counts[i]; });
  if (std::string cause = refuse_extents(extents); !cause.empty()) op.fail(cause);
  for (size_t i = 0; i < rank; ++i) {
    const auto d = static_cast<int64_t>(i);
    auto element = [&](unsigned index) { return known(index) ? tx::static_extent((*known(index))[i]) : std::nullopt; };
    const auto start = element(1), stride = element(3);
    if (start == 0 && stride == 1 && op.program.graph.symbols.equal(extents[i], Op::extents_of(x)[i]) == true) continue;
    x = gather_from(op.node, x, d, starts.at(d), strides.at(d), extents[i]);
  }
  op.set_result(x);
}

// Element i of a dimension is element (i - low) / (interior + 1) of the operand's, where that is whole and inside, and else the padding value.
void dynamic_pad(Op& op) {
  op.expect(5);
  Value x = op.input(0), filler = op.input(1);
  const auto rank = static_cast<size_t>(Op::rank_of(x));
  if (Op::rank_of(filler) != 0 || tx::element_of(filler) != tx::element_of(x))
    op.fail("its padding value is no scalar of its operand's element type");
  if (rank == 0) return op.set_result(x);
  const Integers low = vector_of(op, 2), high = vector_of(op, 3), interior = vector_of(op, 4);
  for (const Integers* one : {&low, &high, &interior}) {
    if (Op::type_of(one->value()).getNumElements() != static_cast<int64_t>(rank))
      op.fail("its paddings need one number for each dimension");
  }
  Elements counts(rank);
  if (!is_declared(op)) {
    const Integers own = numbers_of(op.node, Op::extents_of(x));
    const Integers between = max(own - own.number(1), own.number(0)) * interior;
    counts = read_extents(op.node, low + high + own + between, "extent of the result");
  }
  const Extents extents = declared_or(op, [&](size_t i) { return counts[i]; });
  for (size_t i = 0; i < rank; ++i) {
    const auto d = static_cast<int64_t>(i);
    auto scalar = [&](const Integers& all) { return op.reshape(all.at(d).value(), ArrayRef<int64_t>()); };
    x = padded_by(op, x, filler, d, scalar(low), scalar(interior), extents[i]);
  }
  op.set_result(x);
}

}  // namespace

Value padded_by(Op& op, Value x, Value filler, int64_t dimension, Value low, Value interior, AffineExpr extent) {
  Extents shape = Op::extents_of(x);
  const AffineExpr own = shape[static_cast<size_t>(dimension)];
  shape[static_cast<size_t>(dimension)] = extent;
  if (tx::static_extent(own) == 0) return op.broadcast(filler, shape, {});
  const RankedTensorType type = op.node.tensor_type({extent}, op.builder.getI64Type());
  auto spread = [&](Value one) { return Integers(op.node, op.broadcast(op.reshape(one, ArrayRef<int64_t>()), {extent}, {})); };
  const Integers place = Integers(op.node, op.make<tx::IotaOp>(type, op.builder.getI64IntegerAttr(0))) - spread(low);
  const Integers one = place.number(1), zero = place.number(0), step = spread(interior) + one, whole = place / step;
  const Integers count = spread(numbers_of(op.node, {own}).value());
  // `whole` is rounded towards 0, so that places in front of the first element need a test of their own.
  const Integers inside = (zero < place + one) * (whole < count) * (whole * step == place);
  Value taken = op.make<tx::GatherOp>(op.node.tensor_type(shape, tx::element_of(x)), x, max(min(whole, count - one), zero).value(),
                                      op.builder.getI64IntegerAttr(dimension));
  Value is_inside = op.compare(tx::CompareKind::ne, inside.value(), zero.value());
  return op.select(op.broadcast(is_inside, shape, {dimension}), taken, op.broadcast(filler, shape, {}));
}

bool fold_extents(Op& op) {
  static const std::set<StringRef> names = {
      "abs",    "add",       "and",     "broadcast_in_dim", "compare", "concatenate", "convert",
      "divide", "maximum",   "minimum", "multiply",         "negate",  "not",         "optimization_barrier",
      "or",     "remainder", "reshape", "select",           "sign",    "slice",       "subtract"};
  StringRef name = op.source().getName().getStringRef();
  if (!name.consume_front("stablehlo.") || !names.contains(name) || op.source().getNumResults() != 1 || op.input_count() == 0) return false;
  auto type = llvm::dyn_cast<RankedTensorType>(op.source().getResult(0).getType());
  if (!type || type.getRank() > 1 || !type.hasStaticShape() || type.getNumElements() > static_cast<int64_t>(most_shape_elements) ||
      !llvm::isa<IntegerType>(type.getElementType()))
    return false;
  auto operands = known_operands(op);
  if (!operands) return false;
  auto elements = folded(op, name, *operands, type);
  if (!elements || static_cast<int64_t>(elements->size()) != type.getNumElements()) return false;
  if (!llvm::all_of(*elements, [&](AffineExpr one) { return fits(one, type.getElementType()); })) return false;
  op.set_elements(std::move(*elements), type.getRank());
  return true;
}

const Table& dynamic_ops() {
  static const Table table = {{"stablehlo.dynamic_broadcast_in_dim", {dynamic_broadcast_in_dim, kByParts}},
                              {"stablehlo.dynamic_iota", {dynamic_iota, kComplex | kNarrow}},
                              {"stablehlo.dynamic_pad", {dynamic_pad, kByParts}},
                              {"stablehlo.dynamic_reshape", {dynamic_reshape, kByParts}},
                              {"stablehlo.get_dimension_size", {get_dimension_size, kComplex | kNarrow}},
                              {"stablehlo.real_dynamic_slice", {real_dynamic_slice, kByParts}},
                              {"stablehlo.set_dimension_size", {set_dimension_size, kByParts}}};
  return table;
}

}  // namespace heddle::import::stablehlo
