// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_unrolled.h"

#include <algorithm>
#include <set>

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The names that a graph defines.
std::set<std::string> own_names(const onnx::GraphProto& part) {
  std::set<std::string> names;
  for (const auto& input : part.input()) names.insert(input.name());
  for (const auto& tensor : part.initializer()) names.insert(tensor.name());
  for (const auto& tensor : part.sparse_initializer()) names.insert(tensor.values().name());
  for (const auto& node : part.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

// Nodes of all unrolled steps of a model together.
constexpr int64_t most_unrolled = 100'000;

// Of a graph, and of those in its nodes.
int64_t nodes_in(const onnx::GraphProto& part) {
  int64_t count = part.node_size() + 1;
  for (const auto& node : part.node()) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count += nodes_in(attribute.g());
    }
  }
  return count;
}

void count_unrolled(const Node& node, const onnx::GraphProto& part, Parts& parts) {
  parts.unrolled += nodes_in(part);
  if (parts.unrolled > most_unrolled)
    node.fail("its steps, one after the other, are more than " + std::to_string(most_unrolled) + " nodes, which is not supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
}

// A loop that carries sequences or optionals: its steps one after the other. How many there are is known, or the user stated what the loop gives; then
// calls with another number are refused.
class Unrolled {
 public:
  Unrolled(Node& node, const onnx::GraphProto& body, int carried, int rows, Parts& parts)
      : node_(node), body_(body), rows_(static_cast<size_t>(rows)), parts_(parts) {
    for (int i = 0; i < carried; ++i) state_.push_back(node.any_operand(2 + i));
  }

  void run() {
    read_limits();
    if (is_open_ && !has_stated()) {
      node_.fail(
          "it carries a sequence or an optional, and how many steps it has is known only when it runs; compile the model for one "
          "number of elements, such as --specialize '" +
              node_.output(open_output()) + "=3'",
          HEDDLE_STATUS_UNIMPLEMENTED);
    }
    int64_t steps = 0;
    bool has_ended = false;
    for (; !has_ended && steps != limit_ && !(is_open_ && is_as_stated()); ++steps) has_ended = !step(steps);
    if (is_open_) pin_steps(steps, has_ended);
    for (auto [i, value] : llvm::enumerate(state_)) node_.set_operand(value, static_cast<int>(i));
    for (auto [i, rows] : llvm::enumerate(rows_)) set_stacked(static_cast<int>(state_.size() + i), rows);
  }

 private:
  void read_limits() {
    if (node_.has_input(0)) {
      const Operand& given = node_.operand(0);
      const bool is_known = given.is_shape() && given.elements->size() == 1;
      if (is_known) count_ = given.elements->front();
      if (!is_known) trips_ = as_number(node_, node_.input(0), "the number of steps");
      auto known = is_known ? tx::static_extent(*count_) : std::nullopt;
      if (known) limit_ = std::max<int64_t>(*known, 0);
      is_open_ |= !known;
    }
    if (node_.has_input(1)) {
      const Operand& given = node_.operand(1);
      auto known = given.elements && given.elements->size() == 1 ? tx::static_extent(given.elements->front()) : std::nullopt;
      if (known == 0) {
        limit_ = 0;
        is_open_ = false;
      } else if (!known && limit_ != 0) {
        condition_ = as_number(node_, node_.input(1), "the condition");
        is_open_ = true;
      }
    }
  }

  // The first output that is a sequence or an optional.
  int open_output() const {
    for (size_t i = 0; i < state_.size(); ++i) {
      if (!state_[i].is_tensor() && node_.wants_output(static_cast<int>(i))) return static_cast<int>(i);
    }
    return 0;
  }

  bool has_stated() const {
    bool has = false;
    for (size_t i = 0; i < state_.size(); ++i) {
      const int output = static_cast<int>(i);
      if (node_.wants_output(output) && !state_[i].is_tensor())
        has |= node_.graph.stated_length(node_.output(output)) || node_.graph.stated_presence(node_.output(output));
    }
    return has;
  }

  bool is_as_stated() const {
    for (size_t i = 0; i < state_.size(); ++i) {
      const int output = static_cast<int>(i);
      if (node_.wants_output(output) && !is_stated(node_.graph, node_.output(output), form_of(state_[i]))) return false;
    }
    return true;
  }

  // False if the condition ends the loop.
  bool step(int64_t index) {
    count_unrolled(node_, body_, parts_);
    std::vector<Operand> inputs;
    for (int64_t number : {index, int64_t{1}}) {
      Operand one;
      one.elements = std::vector<AffineExpr>{node_.builder.getAffineConstantExpr(number)};
      const auto& type = body_.input(static_cast<int>(inputs.size())).type().tensor_type();
      one.rank = type.has_shape() && type.shape().dim_size() == 1 ? 1 : 0;
      one.bits = inputs.empty() ? 64 : 1;
      inputs.push_back(std::move(one));
    }
    llvm::append_range(inputs, state_);
    std::vector<Operand> results = inlined(node_, body_, inputs, parts_);
    const Operand& goes_on = results.front();
    auto known = goes_on.elements && goes_on.elements->size() == 1 ? tx::static_extent(goes_on.elements->front()) : std::nullopt;
    if (!known)
      node_.fail("it carries a sequence or an optional, and the condition of its body is data, which is not supported",
                 HEDDLE_STATUS_UNIMPLEMENTED);
    for (size_t i = 0; i < state_.size(); ++i) state_[i] = std::move(results[1 + i]);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Operand& row = results[1 + state_.size() + i];
      if (!row.is_tensor())
        node_.fail("output " + std::to_string(1 + state_.size() + i) + " of its body is " + kind_of(row) + ", which cannot be stacked");
      if (!rows_[i].empty() && kind_of_elements(node_, row) != kind_of_elements(node_, rows_[i].front()))
        node_.fail("output " + std::to_string(1 + state_.size() + i) + " of its body has another element type in each step");
      rows_[i].push_back(row);
    }
    return *known != 0;
  }

  // Refuses calls that have another number of steps.
  void pin_steps(int64_t steps, bool has_ended) {
    if (!is_as_stated())
      node_.fail("after " + std::to_string(steps) +
                 " steps, which are all, its outputs are not what the model is to be compiled for; "
                 "correct its --specialize");
    if (!condition_ && count_) {
      const AffineExpr wanted = node_.builder.getAffineConstantExpr(steps);
      if (has_ended ? node_.graph.symbols.require(*count_, wanted, node_.describe()) : node_.are_equal(*count_, wanted)) return;
      node_.fail("its number of steps is never " + std::to_string(steps));
    }
    Value number = trips_ ? trips_ : count_ ? node_.extent_value(*count_) : Value();
    if (!number) return pin(node_, condition_, steps > 0 ? 1 : 0, "the condition");
    Integers all{node_, number};
    all = max(min(all, all.number(largest_extent)), all.number(0));
    if (condition_) all = all * Integers(node_, condition_);
    pin(node_, all.value(), steps, "the number of steps", has_ended);
  }

  void set_stacked(int output, ArrayRef<Operand> rows) {
    if (rows.empty())
      node_.fail("it has no steps, so that the shape of output " + std::to_string(output) + " is not known, which is not supported",
                 HEDDLE_STATUS_UNIMPLEMENTED);
    SmallVector<Value> stacked;
    for (const Operand& row : rows) stacked.push_back(node_.value_of(row));
    const std::optional<int32_t> compound = kind_of_elements(node_, rows.front()).compound;
    align(node_, compound, stacked, /*by_data=*/true);
    for (Value& row : stacked) {
      Extents extents = Node::extents_of(row);
      extents.insert(extents.begin(), node_.builder.getAffineConstantExpr(1));
      row = node_.reshape(row, extents);
    }
    node_.set_operand(Operand::of(node_.concatenated(std::move(stacked), 0), compound), output);
  }

  Node& node_;
  const onnx::GraphProto& body_;
  std::vector<Operand> state_;
  std::vector<std::vector<Operand>> rows_;
  Parts& parts_;
  std::optional<AffineExpr> count_;  // of steps, if it is known or an expression of symbols
  Value trips_, condition_;          // as data; null if not
  std::optional<int64_t> limit_;
  bool is_open_ = false;  // how many steps there are is not known
};

}  // namespace

std::vector<Operand> inlined(Node& node, const onnx::GraphProto& part, ArrayRef<Operand> inputs, const Parts& parts) {
  Graph& graph = node.graph;
  const std::set<std::string> names = own_names(part);
  std::map<std::string, Operand> outer;
  for (const std::string& name : names) {
    if (auto found = graph.operands.find(name); found != graph.operands.end()) outer.insert(*found);
  }
  auto restore = llvm::make_scope_exit([&] {
    for (const std::string& name : names) graph.operands.erase(name);
    graph.operands.merge(outer);
  });
  for (auto [input, operand] : llvm::zip_equal(part.input(), inputs)) {
    const bool is_new = graph.operands.try_emplace(input.name(), operand).second;
    if (!is_new) node.fail("input '" + input.name() + "' of its graph is the name of another value");
    Operand& given = graph.operands[input.name()];
    if (input.type().has_optional_type() && given.optional == Optional::kNo) given.optional = Optional::kPresent;
  }
  parts.translate(part);
  onnx::NodeProto end;
  for (const auto& output : part.output()) *end.add_input() = output.name();
  end.set_op_type(outputs_operator);
  Node outputs(graph, end, node.location());
  std::vector<Operand> results;
  for (int i = 0; i < part.output_size(); ++i) results.push_back(outputs.any_operand(i));
  return results;
}

bool is_stated(const Graph& graph, const std::string& name, const Form& form) {
  const bool is_present = form.optional != Optional::kAbsent;
  const std::optional<int64_t> length = graph.stated_length(name);
  if (length && (!form.is_sequence || !is_present || form.count != static_cast<size_t>(*length))) return false;
  const std::optional<bool> presence = graph.stated_presence(name);
  return !presence || *presence == is_present;
}

void pin(Node& node, Value number, int64_t expected, const std::string& what, bool at_least) {
  const Integers one{node, node.reshape(number, {node.builder.getAffineConstantExpr(1)})};
  const AffineExpr read = read_extents(node, one, what).front(), wanted = node.builder.getAffineConstantExpr(expected);
  const std::string who = compiled_for(node, what + (at_least ? " is at least " : " is ") + std::to_string(expected));
  if (at_least ? node.graph.symbols.require(read, wanted, who) : node.graph.symbols.equate(read, wanted, who)) return;
  node.fail(what + " is not " + std::to_string(expected));
}

void unroll_loop(Node& node, const onnx::GraphProto& body, int carried, int rows, Parts& parts) {
  Unrolled(node, body, carried, rows, parts).run();
}

// The body for each element of the first sequence. Other inputs are sequences of the same length, or values for all steps.
void sequence_map(Node& node, const onnx::NodeProto& of_node, Parts& parts) {
  const onnx::GraphProto& body = part_of(node, of_node, "body");
  check_outputs(node, body, node.output_count(), "body");
  if (body.input_size() != node.input_count())
    node.fail("it has " + std::to_string(node.input_count()) + " inputs, and its body " + std::to_string(body.input_size()));
  std::vector<std::vector<Operand>> given;
  size_t count = 0;
  for (int i = 0; i < node.input_count(); ++i) {
    const Operand& operand = node.any_operand(i);
    if (!operand.sequence || operand.optional != Optional::kNo) {
      if (i == 0 || !operand.is_tensor())
        node.fail("input " + std::to_string(i) + " is " + kind_of(operand) + ", and has to be a sequence" + (i == 0 ? "" : " or a tensor"));
      given.push_back({operand});
      continue;
    }
    given.push_back(elements_of(node, *operand.sequence));
    if (i == 0) count = given.back().size();
    if (given.back().size() != count)
      node.fail("input " + std::to_string(i) + " is " + kind_of(operand) + ", and the first one has " + std::to_string(count));
  }
  std::vector<std::vector<Operand>> results(static_cast<size_t>(node.output_count()));
  for (size_t step = 0; step < count; ++step) {
    count_unrolled(node, body, parts);
    std::vector<Operand> inputs;
    for (const auto& [i, all] : llvm::enumerate(given))
      inputs.push_back(node.any_operand(static_cast<int>(i)).sequence ? all[step] : all[0]);
    std::vector<Operand> made = inlined(node, body, inputs, parts);
    for (auto [i, one] : llvm::enumerate(made)) {
      if (!one.is_tensor()) node.fail("output " + std::to_string(i) + " of its body is " + kind_of(one) + ", and has to be a tensor");
      results[i].push_back(std::move(one));
    }
  }
  for (auto [i, parts_of_one] : llvm::enumerate(results)) {
    const auto& type = body.output(static_cast<int>(i)).type();
    const ElementKind element = !parts_of_one.empty()
                                    ? kind_of_elements(node, parts_of_one.front())
                                    : element_kind(node.builder.getContext(), type.tensor_type().elem_type(), node.describe());
    node.set_operand(sequence_of(node, std::move(parts_of_one), element), static_cast<int>(i));
  }
}

}  // namespace heddle::import
