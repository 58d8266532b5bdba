// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The optimizers of the domain ai.onnx.preview.training, each a step for any number of tensors: formulas of ONNX's operator documentation.
#include <cmath>

#include "compiler/import/onnx_arithmetic.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Inputs are the rate R, the step number T, and `kinds` tensors for each parameter: all parameters, all gradients, then the states.
class Optimizer {
 public:
  Optimizer(Node& node, int kinds) : node_(node), m_(node), count_((node.input_count() - 2) / kinds) {
    if (count_ < 1 || node.input_count() != 2 + count_ * kinds)
      node.fail("it has " + std::to_string(node.input_count()) + " inputs; 2 and a multiple of " + std::to_string(kinds) +
                " were expected");
    for (int index : {0, 1}) {
      RankedTensorType type = Node::type_of(node.input(index));
      if (!type.hasStaticShape() || type.getNumElements() != 1)
        node.refuse_inputs("the rate and the number of steps are not one number each");
    }
  }

  int count() const { return count_; }

  // Tensor `which` of a parameter, which all have one type.
  Value tensor(int kind, int which) {
    Value parameter = node_.input(2 + which), value = node_.input(2 + kind * count_ + which);
    if (!llvm::isa<FloatType>(Node::type_of(parameter).getElementType())) node_.refuse_inputs("its tensors need elements that are floats");
    const Extents wanted = Node::extents_of(parameter), given = Node::extents_of(value);
    bool fits = wanted.size() == given.size() && Node::type_of(value).getElementType() == Node::type_of(parameter).getElementType();
    for (size_t i = 0; fits && i < wanted.size(); ++i) fits = node_.are_equal(wanted[i], given[i]);
    if (!fits) node_.refuse_inputs("the tensors of parameter " + std::to_string(which) + " have different types");
    return node_.with_extents(value, wanted);
  }

  // The gradient of a parameter, with that of the norm of the parameter.
  Value gradient(int which) {
    Value value = tensor(1, which), norm = tensor(0, which);
    return m_.add(m_.mul(m_.number(norm, node_.number("norm_coefficient", 0)), norm), value);
  }

  // Rate and number of steps, as numbers of the type of a tensor.
  Value rate(Value like) { return scalar(0, like); }
  Value steps(Value like) { return scalar(1, like); }
  Value spread(Value scalar, Value like) { return node_.broadcast(scalar, Node::extents_of(like)); }
  // The first number if there were steps, or the second.
  Value by_steps(Value steps, Value some, Value none) {
    return m_.select(m_.compare(tx::CompareKind::gt, steps, m_.number(steps, 0)), some, none);
  }

  void set(int kind, int which, Value value) {
    if (node_.wants_output(kind * count_ + which)) node_.set_result(value, kind * count_ + which);
  }

 private:
  Value scalar(int index, Value like) {
    return node_.converted(node_.reshape(node_.input(index), {}), Node::type_of(like).getElementType());
  }

  Node& node_;
  Arithmetic m_;
  const int count_;
};

void adagrad(Node& node) {
  Optimizer optimizer(node, 3);
  const Arithmetic m(node);
  for (int i = 0; i < optimizer.count(); ++i) {
    Value x = optimizer.tensor(0, i), gradient = optimizer.gradient(i), squares = m.add(optimizer.tensor(2, i), m.mul(gradient, gradient));
    Value steps = optimizer.steps(x), decay = m.add(m.mul(steps, m.number(steps, node.number("decay_factor", 0))), m.number(steps, 1));
    Value rate = optimizer.spread(m.div(optimizer.rate(x), decay), x);
    Value divisor = m.add(m.sqrt(squares), m.number(squares, node.number("epsilon", 1e-6)));
    optimizer.set(0, i, m.sub(x, m.div(m.mul(rate, gradient), divisor)));
    optimizer.set(1, i, squares);
  }
}

void adam(Node& node) {
  Optimizer optimizer(node, 4);
  const Arithmetic m(node);
  const double alpha = node.number("alpha", 0.9), beta = node.number("beta", 0.999);
  for (int i = 0; i < optimizer.count(); ++i) {
    Value x = optimizer.tensor(0, i), gradient = optimizer.gradient(i), square = m.mul(gradient, gradient);
    auto mixed = [&](Value old, Value now, double by) { return m.add(m.mul(m.number(old, by), old), m.mul(m.number(now, 1 - by), now)); };
    Value means = mixed(optimizer.tensor(2, i), gradient, alpha), squares = mixed(optimizer.tensor(3, i), square, beta);
    Value steps = optimizer.steps(x), rate = optimizer.rate(x), one = m.number(steps, 1);
    auto rest = [&](double base) {  // 1 - base^steps
      Value power = m.mul(steps, m.number(steps, std::log(base)));
      return m.sub(one, node.make<tx::ExpOp>(Node::type_of(power), power));
    };
    rate = optimizer.by_steps(steps, m.div(m.mul(rate, m.sqrt(rest(beta))), rest(alpha)), rate);
    Value divisor = m.add(m.sqrt(squares), m.number(squares, node.number("epsilon", 1e-6)));
    Value next = m.sub(x, m.div(m.mul(optimizer.spread(rate, x), means), divisor));
    optimizer.set(0, i, m.mul(next, m.number(next, 1 - node.number("norm_coefficient_post", 0))));
    optimizer.set(1, i, means);
    optimizer.set(2, i, squares);
  }
}

void momentum(Node& node) {
  Optimizer optimizer(node, 3);
  const Arithmetic m(node);
  const std::string mode = node.text("mode", "");
  if (mode != "standard" && mode != "nesterov") node.fail("mode '" + mode + "' is neither standard nor nesterov");
  for (const char* name : {"alpha", "beta", "norm_coefficient"}) {
    if (!node.has_attribute(name)) node.fail(std::string("it lacks attribute '") + name + "'");
  }
  for (int i = 0; i < optimizer.count(); ++i) {
    Value x = optimizer.tensor(0, i), gradient = optimizer.gradient(i), steps = optimizer.steps(x);
    Value alpha = m.number(x, node.number("alpha", 0));
    Value beta = optimizer.by_steps(steps, m.number(steps, node.number("beta", 0)), m.number(steps, 1));
    Value speed = m.add(m.mul(alpha, optimizer.tensor(2, i)), m.mul(optimizer.spread(beta, x), gradient));
    Value by = mode == "standard" ? speed : m.add(gradient, m.mul(alpha, speed));
    optimizer.set(0, i, m.sub(x, m.mul(optimizer.spread(optimizer.rate(x), x), by)));
    optimizer.set(1, i, speed);
  }
}

}  // namespace

const Table& training_operators() {
  static const Table table = {{"Adagrad", adagrad}, {"Adam", adam}, {"Momentum", momentum}};
  return table;
}

}  // namespace heddle::import
