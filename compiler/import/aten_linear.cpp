// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of matrices, convolutions, and the gradients of convolutions.
#include "compiler/import/aten_program.h"
#include "compiler/import/onnx_matrices.h"
#include "compiler/import/onnx_writer.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

// Products of matrices with any equal batch dimensions.
Value product_of(Op& op, Value a, Value b) {
  const Matrices matrices = matrices_of(op.node, a, b);
  Value result = op.make<tx::MatmulOp>(op.node.tensor_type(matrices.extents, Op::element_of(a)), matrices.a, matrices.b);
  return matrices.result(op.node, result);
}
void product_named(Op& op) {
  const bool is_batch = op.has("mat2");
  op.set(product_of(op, op.tensor("self"), op.tensor(is_batch ? "mat2" : op.has("vec") ? "vec" : op.has("tensor") ? "tensor" : "other")));
}

bool is_factor(Op& op, const char* name, double value) {
  return op.number(name, 1) == value;
}
Value scaled(Op& op, Value value, const char* name) {
  if (is_factor(op, name, 1)) return value;
  return op.m.mul(value, op.m.number(value, op.number(name)));
}
// beta * self + alpha * a @ b. With beta 0, self does not count, not even its NaN.
void add_product(Op& op, const char* first, const char* second) {
  Value product = scaled(op, product_of(op, op.tensor(first), op.tensor(second)), "alpha");
  if (is_factor(op, "beta", 0)) return op.set(product);
  Value added = op.node.broadcast(scaled(op, op.tensor("self"), "beta"), Op::extents_of(product));
  op.set(op.m.add(product, added));
}
void addmm(Op& op) {
  add_product(op, "mat1", "mat2");
}
void baddbmm(Op& op) {
  add_product(op, "batch1", "batch2");
}
void addmv(Op& op) {
  add_product(op, "mat", "vec");
}

// ---------------------------------------------------------------------------------------------------- convolutions

struct Convolution {
  std::vector<int64_t> strides, pads, dilations, output_pads;
  int64_t groups;
  bool is_transposed;
};

// Lists of one number stand for all spatial dimensions.
Convolution read_convolution(Op& op, Value image) {
  const auto spatial = static_cast<size_t>(std::max<int64_t>(Op::rank_of(image) - 2, 0));
  if (spatial < 1 || spatial > 3) op.fail("the input needs rank 3, 4 or 5, has " + std::to_string(Op::rank_of(image)));
  auto list = [&](const char* name) {
    std::vector<int64_t> values = op.integers(name);
    if (values.size() == 1) values.resize(spatial, values[0]);
    if (values.size() != spatial) op.fail("argument '" + std::string(name) + "' does not have one number for each spatial dimension");
    return values;
  };
  Convolution c{list("stride"), list("padding"), list("dilation"), list("output_padding"), op.integer("groups"), op.flag("transposed")};
  for (const auto* values : {&c.strides, &c.pads, &c.dilations, &c.output_pads}) {
    for (int64_t value : *values) {
      if (value < 0 || value > 1 << 20) op.fail("stride, padding or dilation " + std::to_string(value) + " is out of range");
    }
  }
  if (c.groups < 1) op.fail("groups is " + std::to_string(c.groups));
  return c;
}

Value convolved(Op& op, Value image, Value filter, Value bias, const Convolution& c) {
  return op
      .by_onnx(c.is_transposed ? "ConvTranspose" : "Conv", {Operand{image, {}, 0}, Operand{filter, {}, 0}, Operand{bias, {}, 0}}, 1,
               [&](onnx::NodeProto& node) {
                 std::vector<int64_t> both = c.pads;
                 both.insert(both.end(), c.pads.begin(), c.pads.end());
                 NodeWriter::set(node, "strides", c.strides);
                 NodeWriter::set(node, "pads", both);
                 NodeWriter::set(node, "dilations", c.dilations);
                 NodeWriter::set(node, "group", c.groups);
                 if (c.is_transposed) NodeWriter::set(node, "output_padding", c.output_pads);
               })
      .front();
}

void convolution(Op& op) {
  Value image = op.tensor("input");
  const Convolution c = read_convolution(op, image);
  op.set(convolved(op, image, op.tensor("weight"), op.optional("bias"), c));
}

// Dimensions 0 and 1 change places.
Value swapped(Op& op, Value value) {
  SmallVector<int64_t> order{1, 0};
  for (int64_t i = 2; i < Op::rank_of(value); ++i) order.push_back(i);
  return op.node.transpose(value, order);
}
// [N, G * C, ...] as [C, G * N, ...]: examples are what is summed over.
Value channels_as_batch(Op& op, Value value, int64_t groups) {
  if (groups == 1) return swapped(op, value);
  Extents extents = Op::extents_of(value);
  const AffineExpr batch = extents[0], count = op.constant(groups);
  const AffineExpr channels = exact_quotient(extents[1], count, op.builder.getContext());
  if (!channels) op.fail("its channels are not a multiple of its groups");
  Extents split{batch, count, channels};
  split.append(extents.begin() + 2, extents.end());
  SmallVector<int64_t> order{2, 1, 0};
  for (int64_t i = 3; i < static_cast<int64_t>(split.size()); ++i) order.push_back(i);
  Extents joined{channels, op.node.computed(product(count, batch))};
  joined.append(extents.begin() + 2, extents.end());
  return op.node.reshape(op.node.transpose(op.node.reshape(value, split), order), joined);
}

// The gradient by the filter is a convolution of the input, examples as channels, with the gradient as a filter; strides and dilations change places.
Value filter_gradient(Op& op, Value image, Value gradient, const Extents& filter, const Convolution& c) {
  Convolution of = c;
  of.strides = c.dilations;
  of.dilations = c.strides;
  Value from = channels_as_batch(op, image, c.groups), by = swapped(op, gradient);
  Value all = swapped(op, convolved(op, from, by, {}, of));  // [F, C / groups, spatial...], spatial ones may be longer
  for (size_t i = 2; i < filter.size(); ++i) all = op.slice(all, static_cast<int64_t>(i), op.constant(0), filter[i]);
  return all;
}

void convolution_backward(Op& op) {
  Value gradient = op.tensor("grad_output"), image = op.tensor("input"), filter = op.tensor("weight");
  const Convolution c = read_convolution(op, image);
  const size_t spatial = c.strides.size();
  const Extents of_image = Op::extents_of(image), of_filter = Op::extents_of(filter), of_gradient = Op::extents_of(gradient);
  if (op.wants(0)) {
    Convolution of = c;
    of.is_transposed = !c.is_transposed;
    of.output_pads.assign(spatial, 0);
    if (!c.is_transposed) {
      // What the stride left over at the end of the input.
      for (size_t i = 0; i < spatial; ++i) {
        const int64_t input = op.extent(image, static_cast<int64_t>(2 + i)), output = op.extent(gradient, static_cast<int64_t>(2 + i)),
                      kernel = op.extent(filter, static_cast<int64_t>(2 + i));
        of.output_pads[i] = input - ((output - 1) * c.strides[i] - 2 * c.pads[i] + c.dilations[i] * (kernel - 1) + 1);
        if (of.output_pads[i] < 0) op.fail("the gradient's extents do not fit the input's");
      }
    }
    op.set(convolved(op, gradient, filter, {}, of), 0);
  }
  if (op.wants(1)) {
    // Of a transposed convolution, the roles of input and gradient change.
    Convolution of = c;
    of.is_transposed = false;
    op.set(c.is_transposed ? filter_gradient(op, gradient, image, of_filter, of) : filter_gradient(op, image, gradient, of_filter, of), 1);
  }
  if (op.wants(2)) {
    SmallVector<int64_t> axes{0};
    for (size_t i = 0; i < spatial; ++i) axes.push_back(static_cast<int64_t>(2 + i));
    op.set(op.reduced(tx::ReduceKind::sum, gradient, axes, /*keep=*/false), 2);
  }
}

}  // namespace

const Table& linear_ops() {
  static const Table table = {
      {"aten.addmm.default", addmm},
      {"aten.addmv.default", addmv},
      {"aten.baddbmm.default", baddbmm},
      {"aten.bmm.default", product_named},
      {"aten.convolution.default", convolution},
      {"aten.convolution_backward.default", convolution_backward},
      {"aten.dot.default", product_named},
      {"aten.mm.default", product_named},
      {"aten.mv.default", product_named},
  };
  return table;
}

}  // namespace heddle::import::aten
