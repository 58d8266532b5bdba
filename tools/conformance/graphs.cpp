// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See graphs.h.
#include "graphs.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "case.h"
#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/ops.h"
#include "kernel_builder.h"

namespace heddle::conformance {
namespace {

using portable::Expression;
using portable::Op;
using portable::Scalar;

struct Value {
  heddle_element_type_t type;
  Shape shape;
  uint32_t number;
};

class Maker {
 public:
  Maker(std::mt19937_64& random, uint32_t node_count) : random_(random), node_count_(node_count) {}

  MadeGraph make() {
    target::Graph& graph = made_.graph;
    for (const Shape& shape : {Shape{symbol(0), 8}, Shape{symbol(0), 8}, Shape{8, symbol(1)}, Shape{1, 1}, Shape{symbol(0), symbol(1)}}) {
      add_value(HEDDLE_TYPE_F32, shape, chance(3) == 0 ? HEDDLE_TARGET_VALUE_KNOWN : 0);
    }
    add_value(HEDDLE_TYPE_I32, {symbol(0), 8}, 0);
    while (graph.nodes.size() < node_count_) add_node();
    return finished();
  }

  MadeGraph make_product(const ProductShape& of) {
    const Value left = given(of.is_left_transposed ? Shape{of.depth, of.rows} : Shape{of.rows, of.depth});
    const Value right =
        given(of.is_right_transposed ? Shape{of.columns, of.depth} : Shape{of.depth, of.columns}, HEDDLE_TARGET_VALUE_KNOWN);
    kernel_ = product_kernel(of, kSymbols);
    return with_tail("matmul", {left, right}, {of.rows, of.columns});
  }

  MadeGraph make_convolution(const ConvolutionShape& of) {
    const Value image = given({of.images, of.in[0], of.in[1], of.channels});
    const Value filter = given({of.window[0], of.window[1], of.channels, of.filters}, HEDDLE_TARGET_VALUE_KNOWN);
    kernel_ = convolution_kernel(of, kSymbols);
    return with_tail("conv", {image, filter}, {of.images, of.out(0), of.out(1), of.filters});
  }

 private:
  Value given(const Shape& shape, uint32_t flags = 0) {
    add_value(HEDDLE_TYPE_F32, shape, flags);
    return values_.back();
  }

  // kernel_, then the sum with a vector, then what is not negative of it; all in one group.
  MadeGraph with_tail(const char* name, const std::vector<Value>& inputs, const Shape& shape) {
    const Value bias = given({shape.back()}, HEDDLE_TARGET_VALUE_KNOWN);
    add_made(name, inputs, HEDDLE_TYPE_F32, shape, true);
    const auto rank = static_cast<uint32_t>(shape.size());
    const std::vector<Value> added = {values_.back(), bias};
    Builder builder = begin(added, HEDDLE_TYPE_F32, shape);
    portable::Node node;
    node.extents = builder.extents(shape);
    node.reads = {read_of(builder, 0, own_place(rank)), read_of(builder, 1, {rank - 1})};
    node.bodies = {{{}, {{Op::kAddF, Scalar::kF32, rank, rank + 1, 0, 0}}, {rank + 2}}};
    this->name("add", {0, this->name("broadcast", {1}, {{"dimensions", std::vector<int64_t>{rank - 1}}})});
    finish("add", added, HEDDLE_TYPE_F32, shape, std::move(node), false);
    relu(values_.back());
    return finished();
  }

  MadeGraph finished() {
    target::Graph& graph = made_.graph;
    graph.function = "main";
    graph.symbol_count = kSymbols;
    std::vector<bool> is_read(graph.values.size());
    for (const target::Node& node : graph.nodes) {
      for (uint32_t input : node.inputs) is_read[input] = true;
    }
    for (const target::Node& node : graph.nodes) {
      for (uint32_t output : node.outputs) {
        if (!is_read[output] || chance(5) == 0) graph.values[output].flags |= HEDDLE_TARGET_VALUE_LEAVES;
      }
    }
    std::vector<std::pair<std::string_view, std::string_view>> named;
    for (size_t i = 0; i < names_.size(); ++i) named.emplace_back(names_[i], codes_[i]);
    graph.code = portable::write_image(named);
    return std::move(made_);
  }

  uint64_t chance(uint64_t of) { return random_() % of; }

  uint32_t add_value(heddle_element_type_t type, const Shape& shape, uint32_t flags) {
    target::Value value;
    value.type = type;
    value.flags = flags;
    for (Extent each : shape) {
      const target::Expression one = {each >= 0 ? HEDDLE_TARGET_CONSTANT : HEDDLE_TARGET_SYMBOL, 0, 0, 0, each >= 0 ? each : -1 - each};
      auto& all = made_.graph.expressions;
      const auto at = std::find_if(all.begin(), all.end(),
                                   [&](const target::Expression& other) { return other.kind == one.kind && other.value == one.value; });
      value.extents.push_back(static_cast<uint32_t>(at - all.begin()));
      if (at == all.end()) all.push_back(one);
    }
    const auto number = static_cast<uint32_t>(made_.graph.values.size());
    made_.graph.values.push_back(std::move(value));
    values_.push_back({type, shape, number});
    return number;
  }

  // A recent value, so that graphs are deep.
  Value pick() { return values_[values_.size() - 1 - chance(std::min<uint64_t>(values_.size(), 8))]; }
  // One with that shape and type, `otherwise` if there is none but it.
  Value alike(const Value& otherwise) {
    std::vector<Value> found;
    for (const Value& each : values_) {
      if (each.type == otherwise.type && each.shape == otherwise.shape) found.push_back(each);
    }
    return found[chance(found.size())];
  }

  void add_node() {
    const Value first = pick();
    switch (chance(8)) {
      case 0:
        return first.type == HEDDLE_TYPE_F32 ? unary(first) : binary(first, alike(first));
      case 1:
        return first.type == HEDDLE_TYPE_F32 ? binary(first, values_[3]) : binary(first, alike(first));
      case 2:
        return transposition(first);
      case 3:
        return sums(first);
      case 4:
        return product(first);
      default:
        return binary(first, alike(first));
    }
  }

  // kernel_ gets its tensors.
  Builder begin(const std::vector<Value>& inputs, heddle_element_type_t type, const Shape& result) {
    kernel_ = {};
    kernel_.name = "kernel";
    kernel_.symbols = kSymbols;
    kernel_.inputs = static_cast<uint32_t>(inputs.size());
    kernel_.outputs = 1;
    Builder builder(&kernel_);
    for (const Value& input : inputs) builder.tensor(input.type, input.shape);
    builder.tensor(type, result);
    return builder;
  }

  portable::Read read_of(Builder& builder, uint32_t tensor, const std::vector<int64_t>& dims) {
    portable::Read read;
    read.tensor = tensor;
    for (int64_t dim : dims) read.place.push_back(dim >= 0 ? builder.dimension(dim) : builder.extent(0));
    return read;
  }

  std::vector<int64_t> own_place(size_t rank) {
    std::vector<int64_t> dims;
    for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
    return dims;
  }

  // Adds an op to those of the kernel, and gives its value.
  uint32_t name(const char* name, std::vector<uint32_t> operands, std::vector<portable::Attribute> attributes = {}) {
    portable::NamedOp op = {name, portable::known_op(name)->version, std::move(attributes), {kernel_.tensors.back()}, std::move(operands)};
    std::string error;
    REQUIRE(portable::is_as_known(op, &error), "the kit names an op wrongly: %s", error.c_str());
    kernel_.ops.push_back(std::move(op));
    return kernel_.inputs + static_cast<uint32_t>(kernel_.ops.size()) - 1;
  }

  // kernel_ has everything but its node. If no ops are named, it is this one, without attributes.
  void finish(const char* name, const std::vector<Value>& inputs, heddle_element_type_t type, const Shape& shape, portable::Node node,
              bool begins_group) {
    node.results = {kernel_.inputs};
    kernel_.nodes = {std::move(node)};
    if (kernel_.ops.empty()) this->name(name, inputs.size() == 1 ? std::vector<uint32_t>{0} : std::vector<uint32_t>{0, 1});
    kernel_.named_outputs = {kernel_.inputs + static_cast<uint32_t>(kernel_.ops.size()) - 1};
    std::string error;
    REQUIRE(portable::verify(&kernel_, &error), "the kit has made a wrong kernel of %s: %s", name, error.c_str());
    add_made(name, inputs, type, shape, begins_group);
  }

  // A node of the graph, of kernel_, which has everything.
  void add_made(const char* name, const std::vector<Value>& inputs, heddle_element_type_t type, const Shape& shape, bool begins_group) {
    const std::string code = portable::write_kernel(kernel_);
    const auto [found, is_new] = known_.try_emplace(code, static_cast<uint32_t>(codes_.size()));
    if (is_new) {
      names_.push_back("n" + std::to_string(codes_.size()));
      codes_.push_back(code);
      made_.kernels.push_back(kernel_);
    }
    target::Node made;
    made.kernel = found->second;
    made.name = name;
    made.location = "node " + std::to_string(made_.graph.nodes.size());
    for (const Value& input : inputs) made.inputs.push_back(input.number);
    made.outputs = {add_value(type, shape, 0)};
    // Element-wise ops are in the group of what they read first, as long as it is convex.
    made.group = made_.graph.group_count;
    if (!begins_group && group_of_.contains(inputs[0].number)) made.group = group_of_[inputs[0].number];
    made_.graph.nodes.push_back(made);
    std::vector<uint32_t> together;
    for (uint32_t i = 0; i < made_.graph.nodes.size() && made.group < made_.graph.group_count; ++i) {
      if (made_.graph.nodes[i].group == made.group) together.push_back(i);
    }
    if (together.size() > 1 && !why_not_claimed(made_.graph, together).empty()) made.group = made_.graph.group_count;
    made_.graph.nodes.back().group = made.group;
    made_.graph.group_count = std::max(made_.graph.group_count, made.group + 1);
    group_of_[made.outputs[0]] = made.group;
  }

  void binary(const Value& left, const Value& right) {
    std::vector<Value> inputs = {left};
    if (right.number != left.number) inputs.push_back(right);
    Builder builder = begin(inputs, left.type, left.shape);
    const bool is_single = right.shape != left.shape;
    portable::Node node;
    node.extents = builder.extents(left.shape);
    node.reads.push_back(read_of(builder, 0, own_place(left.shape.size())));
    if (inputs.size() > 1)
      node.reads.push_back(read_of(builder, 1, is_single ? std::vector<int64_t>(right.shape.size(), -1) : own_place(left.shape.size())));
    const bool is_float = left.type == HEDDLE_TYPE_F32;
    static const std::pair<Op, const char*> floats[] = {{Op::kAddF, "add"},     {Op::kSubF, "sub"},     {Op::kMulF, "mul"},
                                                        {Op::kMaximumF, "max"}, {Op::kMinimumF, "min"}, {Op::kDivF, "div"}};
    static const std::pair<Op, const char*> integers[] = {
        {Op::kAddI, "add"}, {Op::kSubI, "sub"}, {Op::kMulI, "mul"}, {Op::kMaxSI, "max"}, {Op::kAndI, "bit_and"}};
    const auto& [op, name] = is_float ? floats[chance(std::size(floats))] : integers[chance(std::size(integers))];
    uint32_t second = static_cast<uint32_t>(inputs.size()) - 1;
    if (is_single) second = this->name("broadcast", {second}, {{"dimensions", std::vector<int64_t>{0, 1}}});
    const auto rank = static_cast<uint32_t>(left.shape.size());
    const uint32_t b = rank + static_cast<uint32_t>(inputs.size()) - 1;
    node.bodies = {{{}, {{op, is_float ? Scalar::kF32 : Scalar::kI32, rank, b, 0, 0}}, {b + 1}}};
    if (op == Op::kDivF) {  // by 1 + |right|, so that rounding stays rounding
      node.bodies[0].instructions = {{Op::kConstant, Scalar::kF32, 0, 0, 0, 0x3f800000},
                                     {Op::kAbsF, Scalar::kF32, b, 0, 0, 0},
                                     {Op::kAddF, Scalar::kF32, b + 1, b + 2, 0, 0},
                                     {Op::kDivF, Scalar::kF32, rank, b + 3, 0, 0}};
      node.bodies[0].yields = {b + 4};
      const uint32_t one = this->name("constant", {}, {{"real", 1.0}});
      second = this->name("add", {one, this->name("abs", {second})});
    }
    this->name(name, {0, second});
    finish(name, inputs, left.type, left.shape, std::move(node), false);
  }

  void unary(const Value& of) {
    Builder builder = begin({of}, of.type, of.shape);
    portable::Node node;
    node.extents = builder.extents(of.shape);
    node.reads.push_back(read_of(builder, 0, own_place(of.shape.size())));
    const auto rank = static_cast<uint32_t>(of.shape.size());
    const uint64_t which = chance(5);
    if (which == 0) return relu(of);
    if (which == 3) {  // of -|x|
      node.bodies = {{{},
                      {{Op::kAbsF, Scalar::kF32, rank, 0, 0, 0},
                       {Op::kNegF, Scalar::kF32, rank + 1, 0, 0, 0},
                       {Op::kExpF, Scalar::kF32, rank + 2, 0, 0, 0}},
                      {rank + 3}}};
      name("exp", {name("neg", {name("abs", {0})})});
    } else if (which == 4) {  // of |x|
      node.bodies = {{{}, {{Op::kAbsF, Scalar::kF32, rank, 0, 0, 0}, {Op::kSqrtF, Scalar::kF32, rank + 1, 0, 0, 0}}, {rank + 2}}};
      name("sqrt", {name("abs", {0})});
    } else {
      node.bodies = {{{}, {{which == 1 ? Op::kTanhF : Op::kNegF, Scalar::kF32, rank, 0, 0, 0}}, {rank + 1}}};
    }
    static constexpr const char* kNames[] = {"relu", "tanh", "neg", "exp", "sqrt"};
    finish(kNames[which], {of}, of.type, of.shape, std::move(node), false);
  }

  void relu(const Value& of) {
    Builder builder = begin({of}, of.type, of.shape);
    const auto rank = static_cast<uint32_t>(of.shape.size());
    portable::Node node;
    node.extents = builder.extents(of.shape);
    node.reads.push_back(read_of(builder, 0, own_place(rank)));
    node.bodies = {{{}, {{Op::kConstant, Scalar::kF32, 0, 0, 0, 0}, {Op::kMaximumF, Scalar::kF32, rank, rank + 1, 0, 0}}, {rank + 2}}};
    finish("relu", {of}, of.type, of.shape, std::move(node), false);
  }

  void transposition(const Value& of) {
    const Shape shape(of.shape.rbegin(), of.shape.rend());
    Builder builder = begin({of}, of.type, shape);
    portable::Node node;
    node.extents = builder.extents(shape);
    std::vector<int64_t> dims = own_place(shape.size());
    std::reverse(dims.begin(), dims.end());
    node.reads.push_back(read_of(builder, 0, dims));
    node.bodies = {{{}, {}, {static_cast<uint32_t>(shape.size())}}};
    name("transpose", {0}, {{"permutation", dims}});
    finish("transpose", {of}, of.type, shape, std::move(node), true);
  }

  // Along the last dimension, which stays with extent 1.
  void sums(const Value& of) {
    const Shape shape = {of.shape[0], 1};
    Builder builder = begin({of}, of.type, shape);
    portable::Node node;
    node.kind = portable::NodeKind::kFold;
    node.extents = builder.extents({of.shape[0], 1, of.shape[1]});
    node.reduced = 1;
    node.reads.push_back(read_of(builder, 0, {0, 2}));
    node.first_reads = 1;
    const Scalar scalar = of.type == HEDDLE_TYPE_F32 ? Scalar::kF32 : Scalar::kI32;
    const Op add = of.type == HEDDLE_TYPE_F32 ? Op::kAddF : Op::kAddI;
    node.bodies = {{{}, {{Op::kConstant, scalar, 0, 0, 0, 0}}, {0}},
                   {{}, {{add, scalar, 3, 4, 0, 0}}, {5}},  // three indices, the element, the accumulator
                   {{}, {{add, scalar, 0, 1, 0, 0}}, {2}},
                   {{}, {}, {2}}};  // two indices, the accumulator
    const uint32_t sum = name("reduce", {0}, {{"axes", std::vector<int64_t>{1}}, {"kind", "sum"}});
    kernel_.ops[0].results = {{of.type, {builder.extent(of.shape[0])}}};
    name("reshape", {sum});
    finish("reduce", {of}, of.type, shape, std::move(node), true);
  }

  void product(const Value& left) {
    if (left.type != HEDDLE_TYPE_F32) return binary(left, alike(left));
    std::vector<Value> rights;
    for (const Value& each : values_) {
      if (each.type == HEDDLE_TYPE_F32 && each.shape[0] == left.shape[1] && each.number != left.number) rights.push_back(each);
    }
    if (rights.empty()) return unary(left);
    const Value right = rights[chance(rights.size())];
    const Shape shape = {left.shape[0], right.shape[1]};
    Builder builder = begin({left, right}, left.type, shape);
    portable::Node node;
    node.kind = portable::NodeKind::kContract;
    node.extents = builder.extents({shape[0], shape[1], left.shape[1]});
    node.reduced = 1;
    node.reads = {read_of(builder, 0, {0, 2}), read_of(builder, 1, {2, 1})};
    node.first_reads = 2;
    node.bodies = {{{}, {}, {3, 4}}, {{}, {}, {2}}};
    finish("matmul", {left, right}, left.type, shape, std::move(node), true);
  }

  std::mt19937_64& random_;
  const uint32_t node_count_;
  MadeGraph made_;
  std::vector<Value> values_;
  portable::Kernel kernel_;
  std::map<std::string, uint32_t> known_;
  std::vector<std::string> names_, codes_;
  std::map<uint32_t, uint32_t> group_of_;
};

// Puts the body of a map, whose result is read, in place of that read.
bool splice(portable::Kernel& kernel, portable::Node& into, uint32_t read, const portable::Node& from) {
  if (into.kind != portable::NodeKind::kMap || from.kind != portable::NodeKind::kMap || into.extents != from.extents) return false;
  for (size_t d = 0; d < into.extents.size(); ++d) {
    const Expression& at = kernel.expressions[into.reads[read].place[d]];
    if (at.kind != Expression::kDimension || at.value != static_cast<int64_t>(d)) return false;
  }
  const auto rank = static_cast<uint32_t>(into.extents.size());
  const auto kept = static_cast<uint32_t>(into.reads.size() - 1), added = static_cast<uint32_t>(from.reads.size());
  const portable::Body &outer = into.bodies[0], &inner = from.bodies[0];
  const uint32_t arguments = rank + kept + added, inner_count = static_cast<uint32_t>(inner.instructions.size());
  auto of_inner = [&](uint32_t value) {
    if (value < rank) return value;
    if (value < rank + added) return kept + value;
    return arguments + value - rank - added;
  };
  const uint32_t replaced = of_inner(inner.yields[0]);
  auto of_outer = [&](uint32_t value) {
    if (value < rank + read) return value;
    if (value == rank + read) return replaced;
    if (value < rank + kept + 1) return value - 1;
    return arguments + inner_count + value - rank - kept - 1;
  };
  portable::Body body;
  for (const bool is_inner : {true, false}) {
    for (portable::Instruction at : is_inner ? inner.instructions : outer.instructions) {
      const uint32_t count = portable::operand_count(at.op);
      if (count > 0) at.a = is_inner ? of_inner(at.a) : of_outer(at.a);
      if (count > 1) at.b = is_inner ? of_inner(at.b) : of_outer(at.b);
      if (count > 2) at.c = is_inner ? of_inner(at.c) : of_outer(at.c);
      body.instructions.push_back(at);
    }
  }
  body.yields = {of_outer(outer.yields[0])};
  into.reads.erase(into.reads.begin() + read);
  into.reads.insert(into.reads.end(), from.reads.begin(), from.reads.end());
  into.bodies = {std::move(body)};
  return true;
}

int64_t extent_of(const target::Graph& graph, uint32_t expression, const std::vector<int64_t>& symbols) {
  const target::Expression& one = graph.expressions[expression];
  return one.kind == HEDDLE_TARGET_CONSTANT ? one.value : symbols[static_cast<size_t>(one.value)];
}

}  // namespace

MadeGraph make_graph(std::mt19937_64& random, uint32_t node_count) {
  return Maker(random, node_count).make();
}

std::vector<MadeGraph> make_fused_products(std::mt19937_64& random) {
  std::vector<MadeGraph> out;
  for (const ProductShape& of :
       {ProductShape{0, symbol(0), 70, 290}, {0, 5, 37, 19, false, true}, {0, symbol(0), symbol(1), 33, true, false}})
    out.push_back(Maker(random, 0).make_product(of));
  return out;
}

std::vector<MadeGraph> make_fused_convolutions(std::mt19937_64& random) {
  std::vector<MadeGraph> out;
  for (const ConvolutionShape& of : {ConvolutionShape{symbol(0), {13, 11}, 6, 10, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 2}},
                                     {2, {9, 10}, 5, 7, {3, 2}, {2, 2}, {1, 2}, {2, 1}, {0, 1}},
                                     {symbol(0), {6, 6}, 33, 20, {1, 1}}})
    out.push_back(Maker(random, 0).make_convolution(of));
  return out;
}

std::string why_not_claimed(const target::Graph& graph, const std::vector<uint32_t>& nodes) {
  if (nodes.empty()) return "it has no nodes";
  std::set<uint32_t> own;
  for (uint32_t node : nodes) {
    if (node >= graph.nodes.size()) return "there is no node " + std::to_string(node) + "; there are " + std::to_string(graph.nodes.size());
    if (!own.insert(node).second) return "node " + std::to_string(node) + " is in it twice";
  }
  std::set<uint32_t> made, later;  // values of the claim, and those that depend on it without being part of it
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const target::Node& node = graph.nodes[i];
    auto reads = [&](const std::set<uint32_t>& values) {
      return std::any_of(node.inputs.begin(), node.inputs.end(), [&](uint32_t input) { return values.contains(input); });
    };
    const bool is_own = own.contains(i);
    if (is_own && reads(later))
      return "it is not convex: something that node " + std::to_string(i) + " reads depends on it, and is not claimed";
    if (!is_own && !reads(made) && !reads(later)) continue;
    for (uint32_t output : node.outputs) (is_own ? made : later).insert(output);
  }
  return {};
}

bool join(const MadeGraph& made, const target::Claim& claim, uint32_t number, ClaimedKernel* out) {
  const target::Graph& graph = made.graph;
  const std::set<uint32_t> own(claim.nodes.begin(), claim.nodes.end());
  *out = {};
  std::set<uint32_t> is_made;
  std::vector<uint32_t> between;
  for (uint32_t i : own) {
    for (uint32_t input : graph.nodes[i].inputs) {
      if (!is_made.contains(input) && std::find(out->inputs.begin(), out->inputs.end(), input) == out->inputs.end())
        out->inputs.push_back(input);
    }
    is_made.insert(graph.nodes[i].outputs.begin(), graph.nodes[i].outputs.end());
  }
  for (uint32_t value : is_made) {
    bool leaves = (graph.values[value].flags & HEDDLE_TARGET_VALUE_LEAVES) != 0;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const std::vector<uint32_t>& inputs = graph.nodes[i].inputs;
      leaves |= !own.contains(i) && std::find(inputs.begin(), inputs.end(), value) != inputs.end();
    }
    (leaves ? out->outputs : between).push_back(value);
  }
  if (out->outputs.empty()) return false;
  portable::Kernel& kernel = out->kernel;
  kernel.symbols = kSymbols;
  kernel.inputs = static_cast<uint32_t>(out->inputs.size());
  kernel.outputs = static_cast<uint32_t>(out->outputs.size());
  Builder builder(&kernel);
  std::map<uint32_t, uint32_t> tensors;  // by value
  const std::vector<uint32_t>* const lists[] = {&out->inputs, &out->outputs, &between};
  for (const std::vector<uint32_t>* list : lists) {
    for (uint32_t value : *list) {
      Shape shape;
      for (uint32_t extent : graph.values[value].extents) {
        const target::Expression& one = graph.expressions[extent];
        shape.push_back(one.kind == HEDDLE_TARGET_CONSTANT ? one.value : symbol(one.value));
      }
      tensors[value] = builder.tensor(graph.values[value].type, shape);
    }
  }
  std::map<uint32_t, uint32_t> values;  // as named ops have them
  for (uint32_t i = 0; i < out->inputs.size(); ++i) values[out->inputs[i]] = i;
  std::string root = "";
  for (uint32_t i : own) {
    const target::Node& node = graph.nodes[i];
    const portable::Kernel& from = made.kernels[node.kernel];
    std::vector<uint32_t> expressions;
    for (const Expression& each : from.expressions) {
      Expression copy = each;
      if (each.kind > Expression::kSymbol) copy.a = expressions[each.a], copy.b = expressions[each.b];
      expressions.push_back(builder.add(copy));
    }
    portable::Node copy = from.nodes[0];
    for (uint32_t& extent : copy.extents) extent = expressions[extent];
    for (portable::Within& within : copy.within) within = {expressions[within.index], expressions[within.bound]};
    for (portable::Read& read : copy.reads) {
      read.tensor = tensors[node.inputs[read.tensor]];
      for (uint32_t& place : read.place) place = expressions[place];
    }
    copy.results = {tensors[node.outputs[0]]};
    for (uint32_t r = 0; r < copy.reads.size();) {
      const auto maker = std::find_if(kernel.nodes.begin(), kernel.nodes.end(),
                                      [&](const portable::Node& other) { return other.results[0] == copy.reads[r].tensor; });
      const portable::Node inner = maker == kernel.nodes.end() ? portable::Node() : *maker;
      if (maker == kernel.nodes.end() || !splice(kernel, copy, r, inner)) ++r;
    }
    kernel.nodes.push_back(std::move(copy));
    const auto first = static_cast<uint32_t>(kernel.ops.size());
    const auto named = [&](uint32_t value) {
      return value < from.inputs ? values[node.inputs[value]] : kernel.inputs + first + value - from.inputs;
    };
    for (portable::NamedOp op : from.ops) {
      for (uint32_t& operand : op.operands) operand = named(operand);
      for (portable::Tensor& result : op.results) {
        for (uint32_t& extent : result.extents) extent = expressions[extent];
      }
      kernel.ops.push_back(std::move(op));
    }
    values[node.outputs[0]] = named(from.named_outputs[0]);
    if (root.empty() || node.name == "matmul" || node.name == "conv") root = node.name;
  }
  for (uint32_t output : out->outputs) kernel.named_outputs.push_back(values[output]);
  // What is computed where it is read is not computed alone, unless something else needs it.
  for (size_t i = kernel.nodes.size(); i-- > 0;) {
    const uint32_t result = kernel.nodes[i].results[0];
    const bool is_read = std::any_of(kernel.nodes.begin(), kernel.nodes.end(), [&](const portable::Node& other) {
      return std::any_of(other.reads.begin(), other.reads.end(), [&](const portable::Read& read) { return read.tensor == result; });
    });
    if (!is_read && result >= kernel.inputs + kernel.outputs) kernel.nodes.erase(kernel.nodes.begin() + static_cast<long>(i));
  }
  // Tensors between nodes that are left, without gaps.
  std::vector<uint32_t> names(kernel.tensors.size());
  std::vector<portable::Tensor> kept;
  for (uint32_t t = 0; t < kernel.tensors.size(); ++t) {
    const bool stays =
        t < kernel.inputs + kernel.outputs ||
        std::any_of(kernel.nodes.begin(), kernel.nodes.end(), [&](const portable::Node& node) { return node.results[0] == t; });
    names[t] = static_cast<uint32_t>(kept.size());
    if (stays) kept.push_back(kernel.tensors[t]);
  }
  kernel.tensors = std::move(kept);
  for (portable::Node& node : kernel.nodes) {
    node.results[0] = names[node.results[0]];
    for (portable::Read& read : node.reads) read.tensor = names[read.tensor];
  }
  kernel.name = "c" + std::to_string(number) + "_" + root;
  std::string error;
  REQUIRE(portable::verify(&kernel, &error), "the kit has joined nodes to a wrong kernel: %s", error.c_str());
  const std::string code = portable::write_kernel(kernel);
  out->asked = {kernel.name, claim.name, portable::write_image({{kernel.name, code}}), kernel.symbols, kernel.inputs, kernel.outputs};
  return true;
}

std::vector<std::vector<char>> evaluate(const MadeGraph& made, const std::vector<int64_t>& symbols, std::mt19937_64& random) {
  const target::Graph& graph = made.graph;
  std::vector<std::vector<char>> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t count = 1;
    for (uint32_t extent : graph.values[i].extents) count *= static_cast<uint64_t>(extent_of(graph, extent, symbols));
    values[i].resize(count * 4);
    for (uint64_t j = 0; j < count; ++j) {
      const auto bits = static_cast<int32_t>(random());
      const float number = static_cast<float>(bits) * 0x1p-31f;
      std::memcpy(values[i].data() + j * 4, graph.values[i].type == HEDDLE_TYPE_F32 ? static_cast<const void*>(&number) : &bits, 4);
    }
  }
  for (const target::Node& node : graph.nodes) {
    std::vector<portable::Memory> bindings;
    for (uint32_t value : node.inputs) bindings.push_back({values[value].data(), values[value].size()});
    bindings.push_back({values[node.outputs[0]].data(), values[node.outputs[0]].size()});
    std::string error;
    const portable::Program program(made.kernels[node.kernel]);
    REQUIRE(program.run(bindings, symbols.data(), symbols.size(), &error), "the kit's node %s failed: %s", node.name.c_str(),
            error.c_str());
  }
  return values;
}

}  // namespace heddle::conformance
