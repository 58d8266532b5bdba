// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See kernel_builder.h.
#include "kernel_builder.h"

#include <string>
#include <utility>

#include "case.h"
#include "heddle/sdk/portable/ops.h"

namespace heddle::conformance {

using portable::Expression;
using portable::Op;
using portable::Scalar;

uint32_t Builder::add(const Expression& expression) {
  const auto key = std::tuple(static_cast<int>(expression.kind), expression.value, expression.a, expression.b);
  const auto [found, is_new] = known_.try_emplace(key, static_cast<uint32_t>(kernel_->expressions.size()));
  if (is_new) kernel_->expressions.push_back(expression);
  return found->second;
}

uint32_t Builder::extent(Extent of) {
  return of >= 0 ? number(of) : add({Expression::kSymbol, -1 - of, 0, 0});
}

std::vector<uint32_t> Builder::extents(const Shape& shape) {
  std::vector<uint32_t> out;
  for (Extent each : shape) out.push_back(extent(each));
  return out;
}

uint32_t Builder::tensor(heddle_element_type_t type, const Shape& shape) {
  kernel_->tensors.push_back({type, extents(shape)});
  return static_cast<uint32_t>(kernel_->tensors.size() - 1);
}

namespace {

// A contraction of two factors, whose node has its domain and the places of both, in that order.
class Contraction {
 public:
  Contraction(const char* name, heddle_element_type_t type, uint32_t symbols, bool has_tail)
      : builder(&kernel), type_(type), has_tail_(has_tail) {
    kernel.name = name;
    kernel.symbols = symbols;
    kernel.inputs = has_tail ? 3 : 2;
    kernel.outputs = 1;
    node.kind = portable::NodeKind::kContract;
    node.reads.resize(2);
    node.reads[1].tensor = 1;
    node.first_reads = 2;
  }
  void tensors(const Shape& left, const Shape& right, const Shape& result) {
    builder.tensor(type_, left);
    builder.tensor(type_, right);
    if (has_tail_) builder.tensor(type_, {result.back()});
    node.results = {builder.tensor(type_, result)};
  }
  portable::Kernel finish(std::vector<portable::Attribute> attributes) {
    const bool is_wide = type_ == HEDDLE_TYPE_F32;
    const uint32_t rank = node.rank(), outer = node.parallel_rank();
    portable::Body factors{{}, {}, {rank, rank + 1}}, finish{{}, {}, {}};
    if (!is_wide) {
      factors.instructions = {{Op::kExtF, Scalar::kF32, rank, 0, 0, 0}, {Op::kExtF, Scalar::kF32, rank + 1, 0, 0, 0}};
      factors.yields = {rank + 2, rank + 3};
    }
    uint32_t arguments = outer + 1, value = outer;
    if (has_tail_) {
      portable::Read bias;
      bias.tensor = 2;
      bias.place = {builder.dimension(outer - 1)};
      node.reads.push_back(std::move(bias));
      value = outer + 1, arguments = outer + 2;
    }
    auto add = [&](Op op, Scalar scalar, uint32_t a, uint32_t b) {
      finish.instructions.push_back({op, scalar, a, b, 0, 0});
      return arguments + static_cast<uint32_t>(finish.instructions.size()) - 1;
    };
    if (has_tail_) {
      const uint32_t bias = is_wide ? outer : add(Op::kExtF, Scalar::kF32, outer, 0);
      value = add(Op::kAddF, Scalar::kF32, value, bias);
      value = add(Op::kMaximumF, Scalar::kF32, value, add(Op::kConstant, Scalar::kF32, 0, 0));
    }
    if (!is_wide) value = add(Op::kTruncF, type_ == HEDDLE_TYPE_F16 ? Scalar::kF16 : Scalar::kBf16, value, 0);
    finish.yields = {value};
    node.bodies = {std::move(factors), std::move(finish)};
    kernel.nodes = {std::move(node)};
    if (is_wide) name(std::move(attributes), outer);
    std::string error;
    REQUIRE(portable::verify(&kernel, &error), "the kit has made a wrong kernel of a %s: %s", kernel.name.c_str(), error.c_str());
    return std::move(kernel);
  }

  portable::Kernel kernel;
  Builder builder;
  portable::Node node;

 private:
  void name(std::vector<portable::Attribute> attributes, uint32_t outer) {
    const portable::Tensor result = kernel.tensors.back();
    auto add = [&](const char* op, std::vector<portable::Attribute> with, std::vector<uint32_t> operands) {
      kernel.ops.push_back({op, portable::known_op(op)->version, std::move(with), {result}, std::move(operands)});
      return kernel.inputs + static_cast<uint32_t>(kernel.ops.size()) - 1;
    };
    uint32_t value = add(kernel.name.c_str(), std::move(attributes), {0, 1});
    if (has_tail_) {
      const uint32_t bias = add("broadcast", {{"dimensions", std::vector<int64_t>{outer - 1}}}, {2});
      value = add("relu", {}, {add("add", {}, {value, bias})});
    }
    kernel.named_outputs = {value};
    for (const portable::NamedOp& op : kernel.ops) {
      std::string error;
      REQUIRE(portable::is_as_known(op, &error), "the kit names an op wrongly: %s", error.c_str());
    }
  }

  const heddle_element_type_t type_;
  const bool has_tail_;
};

}  // namespace

portable::Kernel product_kernel(const ProductShape& of, uint32_t symbols) {
  Contraction made("matmul", of.type, symbols, of.has_tail);
  Shape batch;
  if (of.batch != 0) batch = {of.batch};
  auto with_batch = [&](Extent first, Extent second, bool is_transposed) {
    Shape shape = batch;
    shape.push_back(is_transposed ? second : first);
    shape.push_back(is_transposed ? first : second);
    return shape;
  };
  made.tensors(with_batch(of.rows, of.depth, of.is_left_transposed), with_batch(of.depth, of.columns, of.is_right_transposed),
               with_batch(of.rows, of.columns, false));
  const auto row = static_cast<int64_t>(batch.size()), column = row + 1, depth = row + 2;
  made.node.extents = made.builder.extents(with_batch(of.rows, of.columns, false));
  made.node.extents.push_back(made.builder.extent(of.depth));
  made.node.reduced = 1;
  auto read = [&](uint32_t which, int64_t first, int64_t second, bool is_transposed) {
    std::vector<uint32_t>& place = made.node.reads[which].place;
    if (row > 0) place.push_back(made.builder.dimension(0));
    place.push_back(made.builder.dimension(is_transposed ? second : first));
    place.push_back(made.builder.dimension(is_transposed ? first : second));
  };
  read(0, row, depth, of.is_left_transposed);
  read(1, depth, column, of.is_right_transposed);
  std::vector<portable::Attribute> attributes;
  if (of.is_left_transposed) attributes.push_back({"transpose_lhs", true});
  if (of.is_right_transposed) attributes.push_back({"transpose_rhs", true});
  return made.finish(std::move(attributes));
}

portable::Kernel convolution_kernel(const ConvolutionShape& of, uint32_t symbols) {
  Contraction made("conv", of.type, symbols, of.has_tail);
  const Shape result = {of.images, of.out(0), of.out(1), of.filters};
  made.tensors({of.images, of.in[0], of.in[1], of.channels}, {of.window[0], of.window[1], of.channels, of.filters}, result);
  Builder& builder = made.builder;
  Shape domain = result;
  domain.insert(domain.end(), {of.window[0], of.window[1], of.channels});
  made.node.extents = builder.extents(domain);
  made.node.reduced = 3;
  std::vector<uint32_t> image = {builder.dimension(0)};
  for (size_t side = 0; side < 2; ++side) {
    const auto dim = static_cast<int64_t>(side);
    const uint32_t window = builder.times(builder.dimension(4 + dim), of.dilations[side]);
    const uint32_t inside = builder.sum(builder.times(builder.dimension(1 + dim), of.strides[side]), window);
    image.push_back(builder.sum(inside, builder.number(-of.low[side])));
    made.node.within.push_back({image.back(), builder.number(of.in[side])});
  }
  image.push_back(builder.dimension(6));
  made.node.reads[0].place = std::move(image);
  made.node.reads[1].place = {builder.dimension(4), builder.dimension(5), builder.dimension(6), builder.dimension(3)};
  auto list = [](const std::array<int64_t, 2>& values) { return std::vector<int64_t>{values[0], values[1]}; };
  return made.finish({{"dilations", list(of.dilations)},
                      {"groups", int64_t{1}},
                      {"pads_high", list(of.high)},
                      {"pads_low", list(of.low)},
                      {"strides", list(of.strides)}});
}

}  // namespace heddle::conformance
