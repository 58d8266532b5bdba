// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers. rng_bit_generator gives those of XLA for the same state: ThreeFry with 20 rounds and Philox with 10 (Salmon et al., Parallel Random
// Numbers: As Easy as 1, 2, 3, 2011), whose order of numbers in the result is that of XLA's xla/hlo/builder/lib/prng.cc. The specification leaves
// the numbers of rng open: they are those of ONNX's random operators.
#include <array>

#include "compiler/import/stablehlo_program.h"
#include "compiler/ir/bits.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

using Pair = std::array<Value, 2>;
using Four = std::array<Value, 4>;

// Arithmetic on unsigned integers of 32 and 64 bits, modulo their size.
class Bits {
 public:
  explicit Bits(Op& op) : op_(op), u32_(op.builder.getIntegerType(32, false)), u64_(op.builder.getIntegerType(64, false)) {}

  Type u32() const { return u32_; }
  Type u64() const { return u64_; }
  Value number(Value like, uint64_t value) const {
    const RankedTensorType type = Op::type_of(like);
    if (!type.hasStaticShape()) op_.unsupported("random numbers whose count is not static are not supported");
    return op_.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, APInt(type.getElementTypeBitWidth(), value)));
  }
  Value add(Value a, Value b) const { return op_.binary<tx::AddOp>(a, b); }
  Value mul(Value a, Value b) const { return op_.binary<tx::MulOp>(a, b); }
  Value lxor(Value a, Value b) const { return op_.binary<tx::BitXorOp>(a, b); }
  Value right(Value a, unsigned distance) const { return op_.binary<tx::DivOp>(a, number(a, uint64_t{1} << distance)); }
  Value left(Value a, unsigned distance) const { return mul(a, number(a, uint64_t{1} << distance)); }
  Value rotated(Value a, unsigned distance) const { return op_.binary<tx::BitOrOp>(left(a, distance), right(a, 32 - distance)); }
  // The lower and the upper half of 64 bits, and back.
  Pair halves(Value a) const {
    Value upper = right(a, 32), lower = op_.binary<tx::SubOp>(a, left(upper, 32));
    return {op_.converted(lower, u32_), op_.converted(upper, u32_)};
  }
  Value whole(Value lower, Value upper) const { return add(op_.converted(lower, u64_), left(op_.converted(upper, u64_), 32)); }
  Value spread(Value scalar, ArrayRef<int64_t> extents) const { return op_.broadcast(scalar, extents, {}); }
  // 0, 1, .. in row-major order.
  Value counted(ArrayRef<int64_t> extents) const {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    Value flat = op_.iota({count}, 0, op_.builder.getI64Type());
    return op_.reshape(op_.converted(flat, u64_), extents);
  }

 private:
  Op& op_;
  Type u32_, u64_;
};

Pair three_fry(const Bits& m, Pair x, Pair key) {
  constexpr std::array<std::array<unsigned, 4>, 2> rotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<Value, 3> keys = {key[0], key[1], m.lxor(m.lxor(key[0], key[1]), m.number(key[0], 0x1BD11BDA))};
  x = {m.add(x[0], keys[0]), m.add(x[1], keys[1])};
  for (unsigned group = 0; group < 5; ++group) {
    for (unsigned distance : rotations[group % 2]) {
      x[0] = m.add(x[0], x[1]);
      x[1] = m.lxor(x[0], m.rotated(x[1], distance));
    }
    x[0] = m.add(x[0], keys[(group + 1) % 3]);
    x[1] = m.add(m.add(x[1], keys[(group + 2) % 3]), m.number(x[1], group + 1));
  }
  return x;
}

Four philox(const Bits& m, Op& op, Four x, Pair key) {
  auto product = [&](Value a, uint64_t factor) {
    Value wide = op.converted(a, m.u64());
    return m.halves(m.mul(wide, m.number(wide, factor)));
  };
  for (int round = 0; round < 10; ++round) {
    const Pair first = product(x[0], 0xD2511F53), second = product(x[2], 0xCD9E8D57);
    x = {m.lxor(m.lxor(second[1], x[1]), key[0]), second[0], m.lxor(m.lxor(first[1], x[3]), key[1]), first[0]};
    key = {m.add(key[0], m.number(key[0], 0x9E3779B9)), m.add(key[1], m.number(key[1], 0xBB67AE85))};
  }
  return x;
}

int64_t product_of(ArrayRef<int64_t> extents) {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

// A scalar of the state.
Value state_at(Op& op, Value state, int64_t index) {
  return op.reshape(op.slice(state, 0, index, index + 1), ArrayRef<int64_t>{});
}

Value as_vector(Op& op, Value scalar) {
  return op.reshape(scalar, ArrayRef<int64_t>{1});
}

// Numbers of 32 or 64 bits, and the counter after them. For 32 bits, each pair is split along a dimension, the first of even extent, or the largest one.
std::pair<Value, Value> three_fry_numbers(Op& op, const Bits& m, Value key, Value counter, std::vector<int64_t> extents, bool is_wide) {
  auto generate = [&](ArrayRef<int64_t> shape) {
    Value inputs = m.add(m.spread(counter, shape), m.counted(shape));
    const Pair keys = m.halves(key);
    return three_fry(m, m.halves(inputs), {m.spread(keys[0], shape), m.spread(keys[1], shape)});
  };
  if (is_wide) {
    const Pair made = generate(extents);
    return {m.whole(made[0], made[1]), m.add(counter, m.number(counter, static_cast<uint64_t>(product_of(extents))))};
  }
  const bool is_scalar = extents.empty();
  if (is_scalar) extents = {1};
  auto even = llvm::find_if(extents, [](int64_t extent) { return extent % 2 == 0; });
  const auto dimension =
      static_cast<int64_t>((even != extents.end() ? even : std::max_element(extents.begin(), extents.end())) - extents.begin());
  std::vector<int64_t> half = extents, whole = extents;
  int64_t& extent = half[static_cast<size_t>(dimension)];
  extent = (extent + 1) / 2;
  whole[static_cast<size_t>(dimension)] = 2 * extent;
  half.insert(half.begin() + dimension + 1, 1);
  const Pair made = generate(half);
  Value numbers = op.reshape(op.concat({made[0], made[1]}, dimension + 1), whole);
  numbers = op.slice(numbers, dimension, 0, extents[static_cast<size_t>(dimension)]);
  if (is_scalar) numbers = op.reshape(numbers, ArrayRef<int64_t>{});
  return {numbers, m.add(counter, m.number(counter, static_cast<uint64_t>(product_of(half))))};
}

// The same for Philox, whose counter has 128 bits, in two parts.
std::pair<Value, Pair> philox_numbers(Op& op, const Bits& m, Value key, Pair counter, ArrayRef<int64_t> extents, bool is_wide) {
  const int64_t count = product_of(extents), each = is_wide ? 2 : 4, groups = (count + each - 1) / each;
  const std::array<int64_t, 1> shape = {groups};
  auto sum = [&](const Pair& a, Value b) -> Pair {
    Value lower = m.add(a[0], b);
    Value carry = op.compare(tx::CompareKind::lt, lower, a[0]);
    return {lower, op.select(carry, m.add(a[1], m.number(a[1], 1)), a[1])};
  };
  const Pair inputs = sum({m.spread(counter[0], shape), m.spread(counter[1], shape)}, m.counted(shape));
  const Pair low = m.halves(inputs[0]), high = m.halves(inputs[1]), keys = m.halves(key);
  const Four made = philox(m, op, {low[0], low[1], high[0], high[1]}, {m.spread(keys[0], shape), m.spread(keys[1], shape)});
  SmallVector<Value> columns;
  if (is_wide) columns = {m.whole(made[0], made[1]), m.whole(made[2], made[3])};
  if (!is_wide) columns.append(made.begin(), made.end());
  for (Value& column : columns) column = op.reshape(column, ArrayRef<int64_t>{groups, 1});
  Value numbers = op.slice(op.reshape(op.concat(columns, 1), ArrayRef<int64_t>{groups * each}), 0, 0, count);
  return {op.reshape(numbers, extents), sum(counter, m.number(counter[0], static_cast<uint64_t>(groups)))};
}

void rng_bit_generator(Op& op) {
  op.expect(1, 2);
  const Bits m(op);
  Value given = op.input(0), state = given;
  const Type own = tx::element_of(given);
  if (!llvm::isa<IntegerType>(own) || Op::rank_of(given) != 1) op.fail("its state is no list of integers");
  const bool is_split = own.getIntOrFloatBitWidth() == 32;
  int64_t words = op.extent(given, 0);
  if (is_split) {
    if (words % 2 != 0) op.fail("its state has an odd number of 32-bit words");
    words /= 2;
    Value pairs = op.reshape(op.converted(given, m.u32()), ArrayRef<int64_t>{words, 2});
    auto word = [&](int64_t at) { return op.reshape(op.slice(pairs, 1, at, at + 1), ArrayRef<int64_t>{words}); };
    state = m.whole(word(0), word(1));
  } else {
    state = op.converted(given, m.u64());
  }
  const RankedTensorType type = op.result_type(1);
  const Type element = type.getElementType();
  if (!element.isIntOrFloat() || element.isInteger(1)) op.unsupported("random bits of " + text_of(element) + " are not supported");
  if (!type.hasStaticShape()) op.unsupported("random numbers whose count is not static are not supported");
  const std::vector<int64_t> extents = type.getShape().vec();
  const unsigned width = element.getIntOrFloatBitWidth();
  const std::string algorithm = op.word("rng_algorithm", "DEFAULT");
  Value numbers, key = state_at(op, state, 0);
  SmallVector<Value> next = {as_vector(op, key)};
  if (type.getNumElements() == 0) {
    op.set_result(given, 0);
    return op.set_result(op.splat(type, 0), 1);
  }
  if (algorithm == "THREE_FRY") {
    if (words != 2) op.fail("its state has " + std::to_string(words) + " words of 64 bits; 2 were expected");
    auto [made, counter] = three_fry_numbers(op, m, key, state_at(op, state, 1), extents, width == 64);
    numbers = made;
    next.push_back(as_vector(op, counter));
  } else if (algorithm == "PHILOX" || algorithm == "DEFAULT") {
    if (words != 2 && words != 3) op.fail("its state has " + std::to_string(words) + " words of 64 bits; 2 or 3 were expected");
    Value low = state_at(op, state, 1), high = words == 3 ? state_at(op, state, 2) : key;  // as XLA has it: two words, turned around
    auto [made, counter] = philox_numbers(op, m, key, {low, high}, extents, width == 64);
    numbers = made;
    for (int64_t i = 0; i + 1 < words; ++i) next.push_back(as_vector(op, counter[static_cast<size_t>(i)]));
  } else {
    op.fail("attribute 'rng_algorithm' is " + algorithm + ", which is none of DEFAULT, THREE_FRY and PHILOX");
  }
  if (width < 32) {
    const uint64_t size = uint64_t{1} << width;
    numbers = op.binary<tx::SubOp>(numbers, m.mul(op.binary<tx::DivOp>(numbers, m.number(numbers, size)), m.number(numbers, size)));
    numbers = op.converted(numbers, op.builder.getIntegerType(width, false));
  }
  if (tx::element_of(numbers) != element) numbers = op.make<tx::BitCastOp>(type, numbers);
  Value after = op.concat(next, 0);
  if (is_split) {
    const Pair parts = m.halves(after);
    SmallVector<Value> columns;
    for (Value part : parts) columns.push_back(op.reshape(part, ArrayRef<int64_t>{words, 1}));
    after = op.reshape(op.concat(columns, 1), ArrayRef<int64_t>{2 * words});
  }
  if (tx::element_of(after) != own) after = op.make<tx::BitCastOp>(Op::type_of(given), after);
  op.set_result(after, 0);
  op.set_result(numbers, 1);
}

// Numbers between two others, or of a normal distribution with that mean and deviation.
void rng(Op& op) {
  op.expect(3);
  Value a = op.input(0), b = op.input(1);
  const RankedTensorType type = op.result_type();
  const Type element = type.getElementType();
  if (Op::rank_of(a) != 0 || Op::rank_of(b) != 0) op.fail("its operands are no scalars");
  if (!type.hasStaticShape()) op.unsupported("random numbers whose count is not static are not supported");
  const std::string kind = op.word("rng_distribution", "UNIFORM");
  if (kind != "UNIFORM" && kind != "NORMAL") op.fail("attribute 'rng_distribution' is " + kind + ", which is neither UNIFORM nor NORMAL");
  const bool is_float = llvm::isa<FloatType>(element);
  if (!is_float && kind == "NORMAL") op.fail("numbers of a normal distribution are no integers");
  const bool is_wide = element.isF64() || !is_float;
  const Type computed = is_wide ? op.builder.getF64Type() : op.builder.getF32Type();
  Value numbers = op.by_onnx(kind == "NORMAL" ? "RandomNormal" : "RandomUniform", {}, 1, [&](onnx::NodeProto& proto) {
    auto* shape = proto.add_attribute();
    shape->set_name("shape");
    shape->set_type(onnx::AttributeProto::INTS);
    for (int64_t extent : type.getShape()) shape->add_ints(extent);
    auto* dtype = proto.add_attribute();
    dtype->set_name("dtype");
    dtype->set_type(onnx::AttributeProto::INT);
    dtype->set_i(is_wide ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
  })[0];
  auto spread = [&](Value scalar) { return op.broadcast(op.converted(scalar, computed), Op::extents_of(numbers), {}); };
  Value first = spread(a), second = spread(b);
  Value scale = kind == "NORMAL" ? second : op.binary<tx::SubOp>(second, first);
  numbers = op.binary<tx::AddOp>(first, op.binary<tx::MulOp>(numbers, scale));
  if (!is_float) numbers = op.make<tx::FloorOp>(Op::type_of(numbers), numbers);
  op.set_result(op.converted(numbers, element));
}

}  // namespace

const Table& random_ops() {
  static const Table table = {{"stablehlo.rng", {rng, kComplex}}, {"stablehlo.rng_bit_generator", {rng_bit_generator, kComplex}}};
  return table;
}

}  // namespace heddle::import::stablehlo
