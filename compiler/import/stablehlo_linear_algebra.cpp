// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decompositions, solvers and transforms. A matrix is decomposed, and a system solved, column by column in a loop; each step is element-wise.
#include "compiler/import/stablehlo_part.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

using TensorParts = SmallVector<Value, 2>;

// Real or complex matrices [batch, rows, columns], and vectors [batch, elements], a tensor for each part of a number.
class Matrices {
 public:
  explicit Matrices(Op& op) : op_(op) {}

  TensorParts each(const TensorParts& a, const TensorParts& b, llvm::function_ref<Value(Value, Value)> make) const {
    TensorParts result;
    for (auto [x, y] : llvm::zip(a, b)) result.push_back(make(x, y));
    return result;
  }
  TensorParts each(const TensorParts& a, llvm::function_ref<Value(Value)> make) const {
    TensorParts result;
    for (Value x : a) result.push_back(make(x));
    return result;
  }
  Value add(Value a, Value b) const { return op_.binary<tx::AddOp>(a, b); }
  Value sub(Value a, Value b) const { return op_.binary<tx::SubOp>(a, b); }
  Value mul(Value a, Value b) const { return op_.binary<tx::MulOp>(a, b); }
  Value div(Value a, Value b) const { return op_.binary<tx::DivOp>(a, b); }
  TensorParts sub(const TensorParts& a, const TensorParts& b) const {
    return each(a, b, [&](Value x, Value y) { return sub(x, y); });
  }
  TensorParts mul(const TensorParts& a, const TensorParts& b) const {
    if (a.size() == 1) return {mul(a[0], b[0])};
    return {sub(mul(a[0], b[0]), mul(a[1], b[1])), add(mul(a[0], b[1]), mul(a[1], b[0]))};
  }
  TensorParts div(const TensorParts& a, const TensorParts& b) const {
    if (a.size() == 1) return {div(a[0], b[0])};
    Value size = add(mul(b[0], b[0]), mul(b[1], b[1]));
    return each(mul(a, conjugate(b)), [&](Value x) { return div(x, size); });
  }
  TensorParts conjugate(const TensorParts& a) const {
    if (a.size() == 1) return a;
    return {a[0], op_.make<tx::NegOp>(Op::type_of(a[1]), a[1])};
  }
  TensorParts transposed(const TensorParts& a) const {
    return each(a, [&](Value x) { return op_.transpose(x, {0, 2, 1}); });
  }
  TensorParts select(Value condition, const TensorParts& a, const TensorParts& b) const {
    return each(a, b, [&](Value x, Value y) { return op_.select(condition, x, y); });
  }
  TensorParts zeros(const TensorParts& like) const {
    return each(like, [&](Value x) { return op_.number(x, 0); });
  }
  // A vector in each row (dimension 1) or in each column (dimension 2) of a matrix of that shape.
  TensorParts spread(const TensorParts& vector, int64_t along, Value like) const {
    return each(vector, [&](Value x) { return op_.broadcast(x, Op::extents_of(like), {0, 3 - along}); });
  }
  // Positions along a dimension of `like`, and whether they stand in this relation to the number, an i64 of rank 0.
  Value where(Value like, int64_t dimension, tx::CompareKind kind, Value number) const {
    const Type i64 = op_.builder.getI64Type();
    Value places = op_.make<tx::IotaOp>(tx::with_element_type(Op::type_of(like), i64), op_.builder.getI64IntegerAttr(dimension));
    return op_.compare(kind, places, op_.broadcast(number, Op::extents_of(like), {}));
  }
  // The vector of a matrix, or the number of a vector, at that position along the dimension.
  TensorParts at(const TensorParts& from, int64_t dimension, Value number) const {
    TensorParts kept = select(where(from[0], dimension, tx::CompareKind::eq, number), from, zeros(from));
    return each(kept, [&](Value x) {
      Extents extents = Op::extents_of(x);
      extents.erase(extents.begin() + dimension);
      return op_.make<tx::ReduceOp>(op_.node.tensor_type(extents, tx::element_of(x)), tx::ReduceKind::sum, x, ArrayRef<int64_t>{dimension});
    });
  }
  // The numbers in `vector`, each of a batch's element, for each element of vectors of that shape.
  TensorParts for_each(const TensorParts& numbers, Value like) const {
    return each(numbers, [&](Value x) { return op_.broadcast(x, Op::extents_of(like), {0}); });
  }

  // An operand [.., rows, columns] with one dimension in front of these, in f32 or f64.
  TensorParts operand(unsigned index) const {
    TensorParts parts;
    const Data& data = op_.data(index);
    if (data.parts.empty() || Op::rank_of(data.parts[0]) < 2) op_.fail("operand " + std::to_string(index) + " is no matrix");
    for (Value part : data.parts) {
      const Type own = tx::element_of(part);
      if (!llvm::isa<FloatType>(own)) op_.fail("operand " + std::to_string(index) + " has no floating-point or complex numbers");
      Value x = own.isF64() ? part : op_.converted(part, op_.builder.getF32Type());
      const Extents extents = Op::extents_of(x);
      parts.push_back(op_.reshape(x, {op_.node.count_of(ArrayRef(extents).drop_back(2)), extents[extents.size() - 2], extents.back()}));
    }
    return parts;
  }
  void set_result(const TensorParts& parts, const Data& like) const {
    Data data;
    for (auto [part, shape] : llvm::zip(parts, like.parts))
      data.parts.push_back(op_.converted(op_.reshape(part, Op::extents_of(shape)), tx::element_of(shape)));
    op_.set_data(std::move(data));
  }

 private:
  Op& op_;
};

TensorParts parts_of(ArrayRef<Value> values) {
  return TensorParts(values.begin(), values.end());
}

// A = L L^H. Step j takes column j of what is left, divided by the root of its diagonal element, and subtracts its product with itself.
void cholesky(Op& op) {
  op.expect(1);
  const Matrices m(op);
  TensorParts a = m.operand(0);
  const int64_t count = op.extent(a[0], 1);
  if (count != op.extent(a[0], 2)) op.fail("its operand is not square");
  const bool lower = op.flag("lower");
  if (!lower) a = m.conjugate(m.transposed(a));
  const size_t parts = a.size();
  SmallVector<Value> first(a.begin(), a.end());
  for (Value zero : m.zeros(a)) first.push_back(zero);
  SmallVector<Value> last = stepped(op, "cholesky", count, first, {}, [&](Value j, ArrayRef<Value> before, ArrayRef<Value>) {
    const TensorParts left = parts_of(before.take_front(parts)), found = parts_of(before.drop_front(parts));
    TensorParts column = m.at(left, 2, j);
    Value root = m.at({column[0]}, 1, j)[0];
    root = m.for_each({op.make<tx::SqrtOp>(Op::type_of(root), root)}, column[0])[0];
    column = m.each(column, [&](Value x) { return m.div(x, root); });
    column = m.select(m.where(column[0], 1, tx::CompareKind::ge, j), column, m.zeros(column));
    TensorParts in_columns = m.spread(column, 2, left[0]), in_rows = m.spread(m.conjugate(column), 1, left[0]);
    SmallVector<Value> next;
    llvm::append_range(next, m.sub(left, m.mul(in_columns, in_rows)));
    llvm::append_range(next, m.select(m.where(left[0], 2, tx::CompareKind::eq, j), in_columns, found));
    return next;
  });
  TensorParts result = parts_of(ArrayRef(last).drop_front(parts));
  if (!lower) result = m.conjugate(m.transposed(result));
  m.set_result(result, op.data(0));
}

// op(A) X = B or X op(A) = B for a triangular A. Every case becomes a system with A on the left: step by step, one row of X is known, and its part of
// the other rows is subtracted.
void triangular_solve(Op& op) {
  op.expect(2);
  const Matrices m(op);
  TensorParts a = m.operand(0), b = m.operand(1);
  const bool left = op.flag("left_side"), is_unit = op.flag("unit_diagonal");
  bool lower = op.flag("lower");
  const std::string kind = op.word("transpose_a", "NO_TRANSPOSE");
  if (kind == "TRANSPOSE" || kind == "ADJOINT") {
    a = m.transposed(a);
    if (kind == "ADJOINT") a = m.conjugate(a);
    lower = !lower;
  } else if (kind != "NO_TRANSPOSE") {
    op.fail("attribute 'transpose_a' is " + kind + ", which is neither NO_TRANSPOSE, TRANSPOSE nor ADJOINT");
  }
  if (!left) {
    a = m.transposed(a);
    b = m.transposed(b);
    lower = !lower;
  }
  if (a.size() != b.size()) op.fail("one of its operands is complex, and the other is not");
  const int64_t count = op.extent(a[0], 1);
  if (count != op.extent(a[0], 2) || count != op.extent(b[0], 1)) op.fail("its operands do not fit together");
  const size_t parts = a.size();
  SmallVector<Value> first(b.begin(), b.end()), outside(a.begin(), a.end());
  SmallVector<Value> last = stepped(op, "solve", count, first, outside, [&](Value number, ArrayRef<Value> before, ArrayRef<Value> matrix) {
    const TensorParts x = parts_of(before), of = parts_of(matrix);
    Value j = lower ? number : m.sub(op.number(number, static_cast<double>(count - 1)), number);
    TensorParts column = m.at(of, 2, j), row = m.at(x, 1, j);
    if (!is_unit) row = m.div(row, m.for_each(m.at(column, 1, j), row[0]));
    column = m.select(m.where(column[0], 1, lower ? tx::CompareKind::gt : tx::CompareKind::lt, j), column, m.zeros(column));
    TensorParts in_rows = m.spread(row, 1, x[0]);
    TensorParts rest = m.sub(x, m.mul(m.spread(column, 2, x[0]), in_rows));
    TensorParts next = m.select(m.where(x[0], 1, tx::CompareKind::eq, j), in_rows, rest);
    return SmallVector<Value>(next.begin(), next.end());
  });
  TensorParts result = parts_of(ArrayRef(last).take_front(parts));
  if (!left) result = m.transposed(result);
  m.set_result(result, op.data(1));
}

// Transforms over the last dimensions, one after the other, by DFT of ONNX: numbers with their parts in a last dimension.
void fft(Op& op) {
  op.expect(1);
  const std::string kind = op.word("fft_type", "");
  const std::vector<int64_t> lengths = op.integers("fft_length");
  const Data& given = op.data(0);
  if (given.parts.empty()) op.fail("its operand is not a tensor");
  const int64_t rank = Op::rank_of(given.parts[0]), dimensions = static_cast<int64_t>(lengths.size());
  const bool is_real = kind == "RFFT", to_real = kind == "IRFFT", inverse = kind == "IFFT" || to_real;
  if (!is_real && !inverse && kind != "FFT") op.fail("attribute 'fft_type' is none of FFT, IFFT, RFFT and IRFFT");
  if (given.is_complex() == is_real || dimensions < 1 || dimensions > rank) op.fail("its operand and its attributes do not fit together");
  auto element = [&](int64_t value) {
    Operand operand;
    operand.elements = std::vector<AffineExpr>{op.builder.getAffineConstantExpr(value)};
    return operand;
  };
  if (llvm::is_contained(Op::type_of(given.parts[0]).getShape(), 0) || llvm::is_contained(lengths, 0)) {
    Data data;
    const RankedTensorType type = op.result_type(0);
    for (int part = 0; part < (to_real ? 1 : 2); ++part) data.parts.push_back(op.splat(type, 0));
    return op.set_data(std::move(data));
  }
  SmallVector<Value> parts;
  for (Value part : given.parts) {
    Extents extents = Op::extents_of(part);
    extents.push_back(op.builder.getAffineConstantExpr(1));
    parts.push_back(op.reshape(part, extents));
  }
  Value signal = parts.size() == 1 ? parts[0] : op.concat(parts, rank);
  auto along = [&](int64_t axis, int64_t length, bool one_sided) {
    Operand operand;
    operand.value = signal;
    signal = op.by_onnx("DFT", {operand, element(length), element(axis)}, 1, [&](onnx::NodeProto& proto) {
      for (auto [name, value] : {std::pair{"inverse", inverse}, std::pair{"onesided", one_sided}}) {
        auto* attribute = proto.add_attribute();
        attribute->set_name(name);
        attribute->set_type(onnx::AttributeProto::INT);
        attribute->set_i(value ? 1 : 0);
      }
    })[0];
  };
  if (!to_real) along(rank - 1, lengths.back(), is_real);
  for (int64_t i = 0; i + 1 < dimensions; ++i) along(rank - dimensions + i, lengths[static_cast<size_t>(i)], false);
  if (to_real) along(rank - 1, lengths.back(), true);
  Data data;
  const Extents extents(ArrayRef(Op::extents_of(signal)).drop_back());
  for (int64_t part = 0; part < (to_real ? 1 : 2); ++part)
    data.parts.push_back(op.reshape(op.slice(signal, rank, part, part + 1), extents));
  op.set_data(std::move(data));
}

}  // namespace

const Table& linear_algebra_ops() {
  static const Table table = {{"stablehlo.cholesky", {cholesky, kComplex}},
                              {"stablehlo.fft", {fft, kComplex}},
                              {"stablehlo.triangular_solve", {triangular_solve, kComplex}}};
  return table;
}

}  // namespace heddle::import::stablehlo
