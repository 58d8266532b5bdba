// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants, ops that move elements, and ops that compute nothing: tuples, calls, barriers.
#include <complex>

#include "compiler/import/onnx_narrow.h"
#include "compiler/import/stablehlo_program.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

// Constants up to this size are in the IR; larger ones are parameters.
constexpr uint64_t largest_dense_bytes = 64 * 1024;

// A parameter whose bytes live as long as the context, or in `held`.
Value parameter(Op& op, RankedTensorType type, ArrayRef<char> bytes, std::shared_ptr<std::vector<char>> held) {
  tx::ParameterStore& parameters = op.program.graph.parameters;
  std::string base = llvm::cast<NameLoc>(op.location()).getName().str(), name = base;
  if (StringRef(name).starts_with(tx::derived_prefix)) name = "stablehlo." + name;
  for (int i = 2; parameters.count(name); ++i) name = base + "#" + std::to_string(i);
  parameters[name] = {type, [bytes, held, name](uint64_t offset, uint64_t size, char* target) -> std::string {
                        if (offset > bytes.size() || size > bytes.size() - offset)
                          return "stablehlo: reading constant '" + name + "' failed: it has " + std::to_string(bytes.size()) + " bytes";
                        std::memcpy(target, bytes.data() + offset, size);
                        return {};
                      }};
  return op.builder.create<tx::ParameterOp>(op.location(), type, op.builder.getStringAttr(name), StringAttr());
}

// From row-major bytes: one for a bool or an element of 8 bits or less.
Value from_bytes(Op& op, RankedTensorType type, ArrayRef<char> bytes, std::shared_ptr<std::vector<char>> held) {
  const bool is_weight = op.program.graph.all_weights && type.getRank() > 0 && llvm::isa<FloatType>(type.getElementType());
  if (bytes.size() > largest_dense_bytes || is_weight) return parameter(op, type, bytes, std::move(held));
  if (!type.getElementType().isInteger(1)) return op.make<tx::ConstantOp>(type, DenseElementsAttr::getFromRawBuffer(type, bytes));
  SmallVector<bool> flags(bytes.begin(), bytes.end());
  return op.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, flags));
}

Value stored_as(Op& op, Value integers, Type narrow) {
  return op.make<tx::StoredOp>(tx::with_element_type(Op::type_of(integers), narrow), integers);
}

// Elements of 4 or 2 bits in bytes of their own.
Value narrow_integers(Op& op, DenseElementsAttr value, Type narrow) {
  const tx::NarrowFormat& format = *tx::narrow_format(narrow);
  RankedTensorType type = RankedTensorType::get(value.getType().getShape(), tx::stored_type(format, op.builder.getContext()));
  auto bytes = std::make_shared<std::vector<char>>();
  for (const APInt& element : value.getValues<APInt>())
    bytes->push_back(static_cast<char>(format.is_unsigned() ? element.getZExtValue() : static_cast<uint64_t>(element.getSExtValue())));
  return stored_as(op, from_bytes(op, type, *bytes, bytes), narrow);
}

// Each part of complex numbers.
Value complex_part(Op& op, DenseElementsAttr value, RankedTensorType type, bool imaginary) {
  auto part = [&](const std::complex<APFloat>& number) { return imaginary ? number.imag() : number.real(); };
  if (value.isSplat()) {
    const APFloat number = part(*value.value_begin<std::complex<APFloat>>());
    return op.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, number));
  }
  auto bytes = std::make_shared<std::vector<char>>();
  for (const std::complex<APFloat>& number : value.getValues<std::complex<APFloat>>()) {
    const APInt bits = part(number).bitcastToAPInt();
    const uint64_t word = bits.getZExtValue();
    const char* first = reinterpret_cast<const char*>(&word);
    bytes->insert(bytes->end(), first, first + bits.getBitWidth() / 8);
  }
  return from_bytes(op, type, *bytes, bytes);
}

// The elements of small tensors of integers and bools, for extents that are computed from them.
void note_elements(Op& op, DenseElementsAttr value, Data& data) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  auto integer = llvm::dyn_cast<IntegerType>(type.getElementType());
  if (!integer || type.getRank() > 1 || type.getNumElements() > static_cast<int64_t>(most_shape_elements) || integer.getWidth() > 64)
    return;
  const bool is_unsigned = integer.isUnsigned() || integer.getWidth() == 1;
  data.rank = type.getRank();
  data.elements.emplace();
  for (const APInt& element : value.getValues<APInt>()) {
    if (is_unsigned && element.getActiveBits() > 63) {
      data.elements.reset();
      return;
    }
    data.elements->push_back(
        op.builder.getAffineConstantExpr(is_unsigned ? static_cast<int64_t>(element.getZExtValue()) : element.getSExtValue()));
  }
}

Value with_lead(Op& op, Value value) {
  if (op.lead().empty()) return value;
  Extents extents(op.lead().begin(), op.lead().end());
  SmallVector<int64_t> dimensions;
  for (AffineExpr extent : Op::extents_of(value)) {
    dimensions.push_back(static_cast<int64_t>(extents.size()));
    extents.push_back(extent);
  }
  return op.broadcast(value, extents, dimensions);
}

}  // namespace

Data constant(Op& op, ElementsAttr value) {
  auto declared = llvm::dyn_cast<RankedTensorType>(value.getType());
  if (!declared || !declared.hasStaticShape()) op.fail("its value is no tensor with static extents");
  const Type element = op.program.element_type(declared.getElementType(), op.describe());
  SmallVector<AffineExpr> extents;
  for (int64_t extent : declared.getShape()) extents.push_back(op.builder.getAffineConstantExpr(extent));
  RankedTensorType type = op.node.tensor_type(extents, element);
  Data data;
  if (auto resource = llvm::dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob* blob = resource.getRawHandle().getBlob();
    if (!blob) op.fail("the bytes of its value (dense_resource<" + resource.getRawHandle().getKey().str() + ">) are not in the file");
    if (llvm::isa<ComplexType>(declared.getElementType()) || tx::narrow_format(element))
      op.unsupported("values of " + text_of(declared) + " in a resource are not supported");
    if (blob->getData().size() != tx::byte_size(type))
      op.fail("its value has " + std::to_string(blob->getData().size()) + " bytes, and " + text_of(declared) + " has " +
              std::to_string(tx::byte_size(type)));
    data.parts.push_back(from_bytes(op, type, blob->getData(), {}));
    return data;
  }
  auto dense = llvm::dyn_cast<DenseElementsAttr>(value);
  if (!dense) op.unsupported("only dense values are supported");
  note_elements(op, dense, data);
  if (llvm::isa<ComplexType>(declared.getElementType())) {
    if (!llvm::isa<FloatType>(element)) op.unsupported("complex numbers of integers are not supported");
    // MLIR's parser takes real literals, too, and then the value has too few bytes.
    const size_t numbers = dense.isSplat() ? 1 : static_cast<size_t>(dense.getNumElements());
    if (dense.getRawData().size() != numbers * 2 * element.getIntOrFloatBitWidth() / 8)
      op.fail("its value is not of complex numbers; write dense<(1.0, 0.0)> for " + text_of(declared));
    for (bool imaginary : {false, true}) data.parts.push_back(complex_part(op, dense, type, imaginary));
  } else if (const tx::NarrowFormat* narrow = tx::narrow_format(element)) {
    if (!narrow->is_float()) {
      data.parts.push_back(narrow_integers(op, dense, element));
    } else {
      RankedTensorType stored = tx::with_element_type(type, op.builder.getIntegerType(8, false));
      auto bytes = std::make_shared<std::vector<char>>();
      for (const APFloat& number : dense.getValues<APFloat>()) bytes->push_back(static_cast<char>(number.bitcastToAPInt().getZExtValue()));
      data.parts.push_back(stored_as(op, from_bytes(op, stored, *bytes, bytes), element));
    }
  } else if (dense.isSplat()) {
    data.parts.push_back(op.make<tx::ConstantOp>(type, dense));
  } else if (element.isInteger(1)) {
    auto bytes = std::make_shared<std::vector<char>>();
    for (bool flag : dense.getValues<bool>()) bytes->push_back(flag ? 1 : 0);
    data.parts.push_back(from_bytes(op, type, *bytes, bytes));
  } else {
    data.parts.push_back(from_bytes(op, type, dense.getRawData(), {}));
  }
  return data;
}

namespace {

void make_constant(Op& op) {
  op.expect(0);
  auto value = llvm::dyn_cast_or_null<ElementsAttr>(op.attribute("value"));
  if (!value) op.fail("attribute 'value' must be a tensor");
  Data data = constant(op, value);
  for (Value& part : data.parts) part = with_lead(op, part);
  if (!op.lead().empty()) data.elements.reset();
  op.set_data(std::move(data));
}

void iota(Op& op) {
  op.expect(0);
  const int64_t dimension = op.integer("iota_dimension");
  const bool is_complex = llvm::isa<ComplexType>(getElementTypeOrSelf(op.source().getResult(0).getType()));
  RankedTensorType type = op.result_type();
  if (dimension < 0 || dimension >= type.getRank())
    op.fail("iota_dimension " + std::to_string(dimension) + " is outside of rank " + std::to_string(type.getRank()));
  const Type element = type.getElementType();
  const bool is_narrow = tx::narrow_format(element) != nullptr;
  const Type computed =
      is_narrow || llvm::isa<IntegerType>(element) || element.getIntOrFloatBitWidth() < 32 ? Type(op.builder.getI64Type()) : element;
  Value value = op.converted(op.make<tx::IotaOp>(tx::with_element_type(type, computed), op.builder.getI64IntegerAttr(dimension)), element);
  Data data;
  data.parts.push_back(value);
  if (is_complex) data.parts.push_back(op.number(value, 0));
  op.set_data(std::move(data));
}

// Dimensions may be named in any order.
void broadcast_in_dim(Op& op) {
  op.expect(1);
  Value x = op.input(0);
  const std::vector<int64_t> dimensions = op.integers("broadcast_dimensions");
  RankedTensorType type = op.result_type();
  const Extents from = Op::extents_of(x), to = tx::extents(type);
  if (dimensions.size() != from.size())
    op.fail("broadcast_dimensions has " + std::to_string(dimensions.size()) + " numbers for rank " + std::to_string(from.size()));
  SmallVector<int64_t> order(from.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  llvm::sort(order, [&](int64_t a, int64_t b) { return dimensions[static_cast<size_t>(a)] < dimensions[static_cast<size_t>(b)]; });
  SmallVector<int64_t> sorted;
  Extents kept;
  for (int64_t i : order) {
    const int64_t d = dimensions[static_cast<size_t>(i)];
    if (d < 0 || d >= type.getRank() || (!sorted.empty() && sorted.back() == d))
      op.fail("broadcast_dimensions are not different dimensions of its result");
    const AffineExpr own = from[static_cast<size_t>(i)], wanted = to[static_cast<size_t>(d)];
    if (!tx::is_one(own) && !op.node.are_equal(own, wanted))
      op.fail("dimension " + std::to_string(i) + " of its operand is neither 1 nor that of dimension " + std::to_string(d) +
              " of its result");
    sorted.push_back(d);
    kept.push_back(tx::is_one(own) ? own : wanted);
  }
  x = op.node.with_extents(op.transpose(x, order), kept);
  op.set_result(op.broadcast(x, to, sorted));
}

// With the new dimensions in front.
void plain_broadcast(Op& op) {
  op.expect(1);
  Value x = op.input(0);
  const std::vector<int64_t> sizes = op.integers("broadcast_sizes");
  RankedTensorType type = op.result_type();
  if (type.getRank() != Op::rank_of(x) + static_cast<int64_t>(sizes.size()))
    op.fail("its result does not have the rank of broadcast_sizes and its operand");
  SmallVector<int64_t> dimensions;
  for (int64_t i = 0; i < Op::rank_of(x); ++i) dimensions.push_back(static_cast<int64_t>(sizes.size()) + i);
  op.set_result(op.broadcast(x, tx::extents(type), dimensions));
}

void reshape(Op& op) {
  op.expect(1);
  Value x = op.input(0);
  RankedTensorType type = op.result_type();
  if (Op::type_of(x).hasStaticShape() && type.hasStaticShape() && Op::type_of(x).getNumElements() != type.getNumElements())
    op.fail("its operand has " + std::to_string(Op::type_of(x).getNumElements()) + " elements, and its result " +
            std::to_string(type.getNumElements()));
  op.set_result(op.reshape(x, tx::extents(type)));
}

void transpose(Op& op) {
  op.expect(1);
  Value x = op.input(0);
  const std::vector<int64_t> permutation = op.integers("permutation");
  SmallVector<bool> seen(permutation.size(), false);
  for (int64_t p : permutation) {
    if (p < 0 || p >= Op::rank_of(x) || seen[static_cast<size_t>(p)]) op.fail("permutation does not name each dimension once");
    seen[static_cast<size_t>(p)] = true;
  }
  if (static_cast<int64_t>(permutation.size()) != Op::rank_of(x)) op.fail("permutation does not name each dimension once");
  op.set_result(op.transpose(x, permutation));
}

void slice(Op& op) {
  op.expect(1);
  Value x = op.input(0);
  const std::vector<int64_t> starts = op.integers("start_indices"), limits = op.integers("limit_indices"), strides = op.integers("strides");
  const auto rank = static_cast<size_t>(Op::rank_of(x));
  if (starts.size() != rank || limits.size() != rank || strides.size() != rank)
    op.fail("start_indices, limit_indices and strides need one number for each dimension");
  for (size_t i = 0; i < rank; ++i) {
    const auto d = static_cast<int64_t>(i);
    const bool is_whole = starts[i] == 0 && strides[i] == 1 && Op::type_of(x).isDynamicDim(d);
    if (is_whole) op.unsupported("dimension " + std::to_string(i) + " of its operand is not static");
    const int64_t extent = op.extent(x, d);
    if (starts[i] < 0 || limits[i] < starts[i] || limits[i] > extent || strides[i] < 1 || strides[i] > largest_extent)
      op.fail("the part from " + std::to_string(starts[i]) + " to " + std::to_string(limits[i]) + " by " + std::to_string(strides[i]) +
              " of dimension " + std::to_string(i) + " with extent " + std::to_string(extent) + " is none");
    x = op.slice(x, d, starts[i], limits[i], strides[i]);
  }
  op.set_result(x);
}

void concatenate(Op& op) {
  if (op.input_count() == 0) op.fail("it has no operands");
  const int64_t dimension = op.integer("dimension");
  SmallVector<Value> values;
  for (unsigned i = 0; i < op.input_count(); ++i) values.push_back(op.input(i));
  for (Value value : values) {
    if (dimension < 0 || dimension >= Op::rank_of(value))
      op.fail("dimension " + std::to_string(dimension) + " is outside of rank " + std::to_string(Op::rank_of(value)));
    if (tx::element_of(value) != tx::element_of(values[0])) op.fail("its operands have different element types");
  }
  // Parts without elements have no memory.
  SmallVector<Value> parts;
  for (Value value : values) {
    if (!llvm::is_contained(Op::type_of(value).getShape(), 0)) parts.push_back(value);
  }
  op.set_result(parts.empty() ? op.node.splat(op.result_type(), 0) : op.concat(parts, dimension));
}

// Repeats a scalar along a dimension, with the other extents of a value.
Value filled(Op& op, Value like, int64_t dimension, int64_t count, Value scalar) {
  Extents extents = Op::extents_of(like);
  extents[static_cast<size_t>(dimension)] = op.builder.getAffineConstantExpr(count);
  return op.broadcast(scalar, extents, {});
}

void reverse(Op& op) {
  op.expect(1);
  Value x = op.input(0);
  for (int64_t dimension : op.integers("dimensions")) {
    const int64_t extent = op.extent(x, dimension);
    if (extent > 1) x = op.slice(x, dimension, extent - 1, -1, -1);
  }
  op.set_result(x);
}

}  // namespace

Value padded(Op& op, Value x, Value filler, int64_t dimension, int64_t low, int64_t high, int64_t interior) {
  const int64_t extent = op.extent(x, dimension);
  constexpr int64_t most = largest_extent;
  if (interior < 0 || interior > most || std::abs(low) > most || std::abs(high) > most) op.fail("its padding is out of range");
  int64_t now = extent;
  if (interior > 0 && extent > 1) {
    int64_t all = 0;
    if (__builtin_mul_overflow(extent, interior + 1, &all) || all > most) op.fail("its padding is out of range");
    Extents own = Op::extents_of(x), split = own;
    split.insert(split.begin() + dimension + 1, op.builder.getAffineConstantExpr(1));
    Value spread = op.reshape(x, split);
    Value between = filled(op, spread, dimension + 1, interior, filler);
    own[static_cast<size_t>(dimension)] = op.builder.getAffineConstantExpr(all);
    x = op.slice(op.reshape(op.concat({spread, between}, dimension + 1), own), dimension, 0, all - interior);
    now = all - interior;
  }
  if (now + low + high < 0) op.fail("its padding removes more elements of dimension " + std::to_string(dimension) + " than there are");
  const int64_t before = std::max<int64_t>(low, 0), after = std::max<int64_t>(high, 0), all = now + before + after;
  if (before > 0 || after > 0) {
    Extents extents = Op::extents_of(x);
    extents[static_cast<size_t>(dimension)] = op.builder.getAffineConstantExpr(all);
    DenseElementsAttr known = known_elements(filler);
    if (known && known.isSplat() && llvm::isa<FloatType>(known.getElementType()) && now > 0) {
      SmallVector<int64_t> lows(extents.size(), 0), highs = lows;
      lows[static_cast<size_t>(dimension)] = before;
      highs[static_cast<size_t>(dimension)] = after;
      llvm::APFloat value = known.getSplatValue<APFloat>();
      bool loses = false;
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
      x = op.make<tx::PadOp>(op.node.tensor_type(extents, tx::element_of(x)), x, lows, highs, value);
    } else {
      SmallVector<Value> parts;
      if (before > 0) parts.push_back(filled(op, x, dimension, before, filler));
      if (now > 0) parts.push_back(x);
      if (after > 0) parts.push_back(filled(op, x, dimension, after, filler));
      x = op.concat(parts, dimension);
    }
  }
  const int64_t from = std::max<int64_t>(-low, 0), to = all - std::max<int64_t>(-high, 0);
  return from == 0 && to == all ? x : op.slice(x, dimension, from, to);
}

namespace {

void pad(Op& op) {
  op.expect(2);
  Value x = op.input(0), filler = op.input(1);
  const auto rank = static_cast<size_t>(Op::rank_of(x));
  if (Op::rank_of(filler) != 0 || tx::element_of(filler) != tx::element_of(x))
    op.fail("its padding value is no scalar of its operand's element type");
  const std::vector<int64_t> low = op.integers("edge_padding_low"), high = op.integers("edge_padding_high"),
                             interior = op.integers("interior_padding");
  if (low.size() != rank || high.size() != rank || interior.size() != rank) op.fail("its paddings need one number for each dimension");
  for (size_t i = 0; i < rank; ++i) {
    if (low[i] != 0 || high[i] != 0 || interior[i] != 0) x = padded(op, x, filler, static_cast<int64_t>(i), low[i], high[i], interior[i]);
  }
  op.set_result(x);
}

void make_tuple(Op& op) {
  std::vector<Data> members;
  for (unsigned i = 0; i < op.input_count(); ++i) members.push_back(op.data(i));
  Data data;
  data.tuple = std::make_shared<const std::vector<Data>>(std::move(members));
  op.set_data(std::move(data));
}

void get_tuple_element(Op& op) {
  op.expect(1);
  const Data& data = op.data(0);
  const int64_t index = op.integer("index");
  if (!data.tuple || index < 0 || index >= static_cast<int64_t>(data.tuple->size()))
    op.fail("its operand has no member " + std::to_string(index));
  op.set_data((*data.tuple)[static_cast<size_t>(index)]);
}

// Results that are the operands.
void pass(Op& op) {
  if (op.input_count() != op.source().getNumResults()) op.fail("it has other numbers of operands and results");
  for (unsigned i = 0; i < op.input_count(); ++i) op.set_data(op.data(i), i);
}

void token(Op& op) {
  for (unsigned i = 0; i < op.source().getNumResults(); ++i) op.set_data({}, i);
}

// A module runs as one process of one partition and one replica, so both are number 0.
void process_id(Op& op) {
  op.expect(0);
  const RankedTensorType type = op.result_type();
  if (type.getRank() != 0 || !llvm::isa<IntegerType>(type.getElementType())) op.fail("its result is no scalar of integers");
  op.set_result(op.node.splat(type, 0));
}

void set_all(Op& op, std::vector<Data> results) {
  if (results.size() != op.source().getNumResults())
    op.fail("what it calls gives " + std::to_string(results.size()) + " results, and it has " +
            std::to_string(op.source().getNumResults()));
  for (size_t i = 0; i < results.size(); ++i) op.set_data(std::move(results[i]), static_cast<unsigned>(i));
}

std::vector<Data> all_inputs(Op& op) {
  std::vector<Data> all;
  for (unsigned i = 0; i < op.input_count(); ++i) all.push_back(op.data(i));
  return all;
}

void call(Op& op) {
  auto callee = llvm::dyn_cast_or_null<FlatSymbolRefAttr>(op.attribute("callee"));
  if (!callee) op.fail("attribute 'callee' must name a function");
  set_all(op, op.program.call(op, callee.getValue(), all_inputs(op)));
}

void composite(Op& op) {
  auto body = llvm::dyn_cast_or_null<FlatSymbolRefAttr>(op.attribute("decomposition"));
  if (!body) op.fail("attribute 'decomposition' must name a function");
  set_all(op, op.program.call(op, body.getValue(), all_inputs(op)));
}

// What is called is code of another system. Only notes for its partitioner do nothing on one device.
void custom_call(Op& op) {
  auto target = llvm::dyn_cast_or_null<StringAttr>(op.attribute("call_target_name"));
  if (!target) op.fail("attribute 'call_target_name' must be a text");
  const StringRef name = target.getValue();
  if (name == "Sharding" || name == "SPMDFullToShardShape" || name == "SPMDShardToFullShape" || name == "annotate_device_placement" ||
      name == "LayoutConstraint" || name == "xla.sdy.FuncResultSharding")
    return pass(op);
  if (name == "shape_assertion") return;
  op.unsupported("it calls '" + name.str() +
                 "', a function of another runtime; export the model so that it is computed by ops, such as with "
                 "jax.export for platforms=['cpu'] and without a custom kernel");
}

}  // namespace

const Table& shape_ops() {
  static const Table table = {
      {"chlo.constant", {make_constant, kEach | kComplex | kNarrow}},
      {"func.call", {call, kEach | kComplex | kNarrow}},
      {"stablehlo.after_all", {token, kComplex}},
      {"stablehlo.broadcast", {plain_broadcast, kByParts}},
      {"stablehlo.broadcast_in_dim", {broadcast_in_dim, kByParts}},
      {"stablehlo.composite", {composite, kEach | kComplex | kNarrow}},
      {"stablehlo.concatenate", {concatenate, kByParts}},
      {"stablehlo.constant", {make_constant, kEach | kComplex | kNarrow}},
      {"stablehlo.create_token", {token, kComplex}},
      {"stablehlo.custom_call", {custom_call, kComplex | kNarrow}},
      {"stablehlo.get_tuple_element", {get_tuple_element, kEach | kComplex | kNarrow}},
      {"stablehlo.iota", {iota, kComplex | kNarrow}},
      {"stablehlo.optimization_barrier", {pass, kEach | kComplex | kNarrow}},
      {"stablehlo.pad", {pad, kByParts}},
      {"stablehlo.partition_id", {process_id, 0}},
      {"stablehlo.replica_id", {process_id, 0}},
      {"stablehlo.reshape", {reshape, kByParts}},
      {"stablehlo.reverse", {reverse, kByParts}},
      {"stablehlo.slice", {slice, kByParts}},
      {"stablehlo.transpose", {transpose, kByParts}},
      {"stablehlo.tuple", {make_tuple, kEach | kComplex | kNarrow}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
