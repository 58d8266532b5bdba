// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Batch normalization and its gradient, by the formulas of StableHLO's specification. Statistics of narrower floats are computed in f32.
#include "compiler/import/stablehlo_program.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

// The operand, and what belongs to its feature dimension.
class Features {
 public:
  explicit Features(Op& op) : op_(op), x_(wide(op.input(0))), dimension_(op.integer("feature_index")) {
    if (dimension_ < 0 || dimension_ >= Op::rank_of(x_))
      op.fail("feature_index " + std::to_string(dimension_) + " is no dimension of its operand");
    auto epsilon = llvm::dyn_cast_or_null<FloatAttr>(op.attribute("epsilon"));
    if (!epsilon) op.fail("attribute 'epsilon' must be a float");
    epsilon_ = epsilon.getValueAsDouble();
  }

  Value x() const { return x_; }
  Value wide(Value value) const {
    const Type element = tx::element_of(value);
    if (!llvm::isa<FloatType>(element)) op_.fail("its operands are no floats");
    return element.isF64() ? value : op_.converted(value, op_.builder.getF32Type());
  }
  // An operand with a number for each feature.
  Value each(unsigned index) const {
    Value value = wide(op_.input(index));
    if (Op::rank_of(value) != 1) op_.fail("operand " + std::to_string(index) + " is no vector");
    return value;
  }
  Value spread(Value vector) const { return op_.broadcast(vector, Op::extents_of(x_), {dimension_}); }
  Value sum(Value value) const {
    SmallVector<int64_t> axes;
    for (int64_t i = 0; i < Op::rank_of(value); ++i) {
      if (i != dimension_) axes.push_back(i);
    }
    return op_.make<tx::ReduceOp>(op_.node.tensor_type({Op::extents_of(value)[static_cast<size_t>(dimension_)]}, tx::element_of(value)),
                                  tx::ReduceKind::sum, value, axes);
  }
  // How many elements a feature has, everywhere in a tensor like this one.
  Value count(Value like) const {
    Extents others = Op::extents_of(x_);
    others.erase(others.begin() + dimension_);
    Value number = op_.reshape(op_.node.numbers({op_.node.count_of(others)}), ArrayRef<int64_t>{});
    return op_.broadcast(op_.converted(number, tx::element_of(like)), Op::extents_of(like), {});
  }
  // The root of the variance with epsilon.
  Value with_epsilon(Value variance) const { return add(variance, op_.number(variance, epsilon_)); }
  Value root(Value value) const { return op_.make<tx::SqrtOp>(Op::type_of(value), value); }
  Value add(Value a, Value b) const { return op_.binary<tx::AddOp>(a, b); }
  Value sub(Value a, Value b) const { return op_.binary<tx::SubOp>(a, b); }
  Value mul(Value a, Value b) const { return op_.binary<tx::MulOp>(a, b); }
  Value div(Value a, Value b) const { return op_.binary<tx::DivOp>(a, b); }
  Value normalized(Value mean, Value variance, Value scale, Value offset) const {
    Value factor = div(scale, root(with_epsilon(variance)));
    return add(mul(sub(x_, spread(mean)), spread(factor)), spread(offset));
  }
  void set_result(Value value, unsigned index = 0) const { op_.set_result(op_.converted(value, op_.result_element(index)), index); }

 private:
  Op& op_;
  Value x_;
  int64_t dimension_;
  double epsilon_ = 0;
};

void inference(Op& op) {
  op.expect(5);
  const Features f(op);
  f.set_result(f.normalized(f.each(3), f.each(4), f.each(1), f.each(2)));
}

void training(Op& op) {
  op.expect(3, 3);
  const Features f(op);
  Value total = f.sum(f.x()), count = f.count(total), mean = f.div(total, count);
  Value centered = f.sub(f.x(), f.spread(mean)), variance = f.div(f.sum(f.mul(centered, centered)), count);
  f.set_result(f.normalized(mean, variance, f.each(1), f.each(2)), 0);
  f.set_result(mean, 1);
  f.set_result(variance, 2);
}

void gradient(Op& op) {
  op.expect(5, 3);
  const Features f(op);
  Value scale = f.each(1), mean = f.each(2), variance = f.with_epsilon(f.each(3)), given = f.wide(op.input(4));
  Value centered = f.sub(f.x(), f.spread(mean)), deviation = f.root(variance);
  Value of_offset = f.sum(given), with_centered = f.sum(f.mul(given, centered));
  Value count = f.count(of_offset);
  Value rest = f.sub(f.sub(f.mul(given, f.spread(count)), f.spread(of_offset)), f.mul(centered, f.spread(f.div(with_centered, variance))));
  f.set_result(f.mul(rest, f.spread(f.div(scale, f.mul(deviation, count)))), 0);
  f.set_result(f.div(with_centered, deviation), 1);
  f.set_result(of_offset, 2);
}

}  // namespace

const Table& batch_norm_ops() {
  static const Table table = {{"stablehlo.batch_norm_grad", {gradient, 0}},
                              {"stablehlo.batch_norm_inference", {inference, 0}},
                              {"stablehlo.batch_norm_training", {training, 0}}};
  return table;
}

}  // namespace heddle::import::stablehlo
