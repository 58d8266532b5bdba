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
// beta * self + alpha * a @ b. With beta 0, self does not count, not even its NaN, nor does the product with alpha 0.
void add_product(Op& op, const char* first, const char* second) {
  Value product = product_of(op, op.tensor(first), op.tensor(second));
  product = is_factor(op, "alpha", 0) ? op.m.number(product, 0) : scaled(op, product, "alpha");
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

bool is_static(ArrayRef<AffineExpr> extents) {
  return llvm::all_of(extents, [](AffineExpr extent) { return tx::static_extent(extent).has_value(); });
}

// Zeros around the spatial dimensions of a channels-last image, as many before as behind.
Value with_zeros(Op& op, Value image, ArrayRef<int64_t> pads) {
  if (llvm::all_of(pads, [](int64_t pad) { return pad == 0; })) return image;
  Extents extents = Op::extents_of(image);
  SmallVector<int64_t> around(extents.size(), 0);
  for (size_t i = 0; i < pads.size(); ++i) {
    around[1 + i] = pads[i];
    extents[1 + i] = op.node.computed(sum(extents[1 + i], op.constant(2 * pads[i])));
  }
  return op.make<tx::PadOp>(op.node.tensor_type(extents, Op::element_of(image)), image, around, around, llvm::APFloat(0.0));
}

// The gradient by the filter as a product: what of the image each of its elements met, times the gradient. The images may have symbolic extents, which a
// filter cannot have.
Value filter_gradient_by_product(Op& op, Value image, Value gradient, const Extents& filter, const Convolution& c) {
  const size_t spatial = c.strides.size();
  if (!is_static(filter)) op.unsupported("filters of symbolic extents are not supported");
  const int64_t filters = *tx::static_extent(filter[0]), inputs = *tx::static_extent(filter[1]);
  if (filters % c.groups != 0) op.fail("its filters are not a multiple of its groups");
  Value x = with_zeros(op, op.node.channels_last(image), c.pads), dy = op.node.channels_last(gradient);
  const Extents of_dy = Op::extents_of(dy);
  if (tx::static_extent(Op::extents_of(x).back()) != inputs * c.groups || tx::static_extent(of_dy.back()) != filters)
    op.fail("the channels of the image or of the gradient do not fit the filter's");
  // Each spatial dimension becomes two: elements of the filter, and positions of the gradient.
  SmallVector<int64_t> order{0};
  int64_t count = 1;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t kernel = *tx::static_extent(filter[2 + i]), axis = static_cast<int64_t>(1 + 2 * i);
    Extents extents = Op::extents_of(x);
    const AffineExpr outputs = of_dy[1 + i], reach = op.constant(c.dilations[i] * (kernel - 1) + 1);
    const AffineExpr needed = op.node.computed(
        sum(op.node.computed(product(op.node.computed(difference(outputs, op.constant(1))), op.constant(c.strides[i]))), reach));
    if (kernel < 1 || !op.program.graph.symbols.require(extents[static_cast<size_t>(axis)], needed, op.describe()))
      op.fail("the gradient's extents do not fit the input's");
    Value element = op.m.iota({op.constant(kernel), outputs}, 0, op.builder.getI64Type());
    Value position = op.m.iota({op.constant(kernel), outputs}, 1, op.builder.getI64Type());
    Value places = op.m.add(op.m.mul(element, op.m.number(element, static_cast<double>(c.dilations[i]))),
                            op.m.mul(position, op.m.number(position, static_cast<double>(c.strides[i]))));
    extents[static_cast<size_t>(axis)] = op.constant(kernel);
    extents.insert(extents.begin() + axis + 1, outputs);
    x = op.make<tx::GatherOp>(op.node.tensor_type(extents, Op::element_of(x)), x, places, axis);
    order.push_back(axis + 1);
    count *= kernel;
  }
  for (size_t i = 0; i < spatial; ++i) order.push_back(static_cast<int64_t>(1 + 2 * i));
  order.push_back(static_cast<int64_t>(1 + 2 * spatial));
  x = op.node.transpose(x, order);  // [N, positions..., elements..., C]
  const AffineExpr positions = op.node.count_of(ArrayRef<AffineExpr>(of_dy).drop_back());
  const AffineExpr elements = op.constant(count), groups = op.constant(c.groups);
  Extents spread(filter.begin() + 2, filter.end());
  if (inputs == 1 && filters == c.groups) {  // each channel is alone
    const Extents all{positions, elements, filter[0]};
    Value met = op.m.mul(op.node.reshape(x, all), op.m.spread(op.node.reshape(dy, {positions, filter[0]}), all, {0, 2}));
    Value made = op.reduced(tx::ReduceKind::sum, op.computing(met), {0}, /*keep=*/false);
    return op.node.reshape(op.node.transpose(made, {1, 0}), filter);
  }
  const AffineExpr of_group = op.constant(filters / c.groups), width = op.constant(count * inputs);
  Value made;
  if (c.groups == 1) {
    made = product_of(op, op.node.transpose(op.node.reshape(dy, {positions, of_group}), {1, 0}), op.node.reshape(x, {positions, width}));
  } else {
    x = op.node.transpose(op.node.reshape(x, {positions, elements, groups, filter[1]}), {2, 0, 1, 3});
    dy = op.node.transpose(op.node.reshape(dy, {positions, groups, of_group}), {1, 2, 0});
    made = product_of(op, dy, op.node.reshape(x, {groups, positions, width}));
  }
  spread.insert(spread.begin(), filter[0]);
  spread.push_back(filter[1]);
  SmallVector<int64_t> back{0, static_cast<int64_t>(spatial) + 1};
  for (size_t i = 0; i < spatial; ++i) back.push_back(static_cast<int64_t>(1 + i));
  return op.node.transpose(op.node.reshape(made, spread), back);
}

// The gradient by the filter is a convolution of the input, examples as channels, with the gradient as a filter; strides and dilations change places.
Value filter_gradient(Op& op, Value image, Value gradient, const Extents& filter, const Convolution& c) {
  if (!is_static(ArrayRef<AffineExpr>(Op::extents_of(image)).drop_front(2)) || !is_static(Op::extents_of(gradient)))
    return filter_gradient_by_product(op, image, gradient, filter, c);
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
      // What the stride left over at the end of the input; where it is not known, the most that it can be.
      for (size_t i = 0; i < spatial; ++i) {
        const auto dimension = static_cast<int64_t>(2 + i);
        const std::optional<int64_t> input = tx::static_extent(of_image[2 + i]), output = tx::static_extent(of_gradient[2 + i]);
        of.output_pads[i] = c.strides[i] - 1;
        if (!input || !output) continue;
        of.output_pads[i] =
            *input - ((*output - 1) * c.strides[i] - 2 * c.pads[i] + c.dilations[i] * (op.extent(filter, dimension) - 1) + 1);
        if (of.output_pads[i] < 0) op.fail("the gradient's extents do not fit the input's");
      }
    }
    Value made = convolved(op, gradient, filter, {}, of);
    for (size_t i = 2; i < of_image.size(); ++i) made = op.part(made, static_cast<int64_t>(i), 0, of_image[i]);
    op.set(made, 0);
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
