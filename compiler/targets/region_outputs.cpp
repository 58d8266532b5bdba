// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See region_outputs.h.
#include "compiler/targets/region_outputs.h"

#include <map>

using namespace mlir;

namespace heddle::targets {

namespace {

// The contraction that the value is computed from by element-wise ops only.
Operation* root_behind(Value value, llvm::DenseSet<Value>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || !seen.insert(value).second) return nullptr;
  if (tx::is_contraction(op)) return op;
  if (!tx::is_elementwise(op)) return nullptr;
  for (Value operand : op->getOperands()) {
    if (Operation* root = root_behind(operand, seen)) return root;
  }
  return nullptr;
}

// Another contraction that is reached without passing the root.
Operation* other_root(Value value, Operation* root, llvm::DenseSet<Value>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || !seen.insert(value).second) return nullptr;
  if (op != root && tx::is_contraction(op)) return op;
  for (Value operand : op->getOperands()) {
    if (Operation* other = other_root(operand, root, seen)) return other;
  }
  return nullptr;
}

// Divides the yielded values into groups.
class Grouping {
 public:
  explicit Grouping(tx::DispatchOp region) : region_(region) {
    for (auto [i, yielded] : llvm::enumerate(region.getBody().front().getTerminator()->getOperands())) {
      Value value = yielded;
      while (auto reshape = value.getDefiningOp<tx::ReshapeOp>()) value = reshape.getInput();
      outputs_.push_back({value, static_cast<unsigned>(i)});
      extents_.push_back(tx::extents(tx::tensor(value)));
      group_.push_back(i);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) visit(i);
  }

  std::vector<std::vector<Output>> groups() {
    std::vector<std::vector<Output>> groups(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) groups[find(i)].push_back(outputs_[i]);
    llvm::erase_if(groups, [](const std::vector<Output>& group) { return group.empty(); });
    return groups;
  }

 private:
  size_t find(size_t i) {
    while (group_[i] != i) i = group_[i] = group_[group_[i]];
    return i;
  }
  // The first output is the group's number.
  void unite(size_t a, size_t b) {
    a = find(a);
    b = find(b);
    group_[std::max(a, b)] = std::min(a, b);
  }
  // Whether another output with these extents was met here already.
  bool meet(Value value, size_t output) {
    auto& met = met_[value];
    for (size_t other : met) {
      if (extents_[other] != extents_[output]) continue;
      unite(other, output);
      return true;
    }
    met.push_back(output);
    return false;
  }
  void visit(size_t output) {
    SmallVector<Value> waiting = {outputs_[output].value};
    while (!waiting.empty()) {
      Value value = waiting.pop_back_val();
      if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
        const std::optional<size_t> tied = result_over(argument);
        if (tied && extents_[*tied] == extents_[output]) unite(*tied, output);
        if (tied || tx::static_extent(tx::element_count(tx::tensor(value))) != 1) meet(value, output);
      } else if (!value.getDefiningOp<tx::ConstantOp>() && !meet(value, output)) {
        llvm::append_range(waiting, value.getDefiningOp()->getOperands());
      }
    }
  }
  std::optional<size_t> result_over(BlockArgument argument) {
    for (auto [result, operand] : llvm::enumerate(region_.getTied().value_or(ArrayRef<int64_t>()))) {
      if (operand == static_cast<int64_t>(argument.getArgNumber())) return result;
    }
    return std::nullopt;
  }

  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  std::vector<SmallVector<AffineExpr>> extents_;
  std::vector<size_t> group_;
  llvm::DenseMap<Value, SmallVector<size_t, 1>> met_;  // outputs with different extents that depend on the value
};

using GroupKey = std::vector<uintptr_t>;

// What outputs are computed from, without the bindings, and the bindings. Equal keys mean equal code. The key is empty if there is anything but
// element-wise ops and movement.
std::pair<GroupKey, SmallVector<unsigned>> describe(tx::DispatchOp region, ArrayRef<Output> outputs) {
  GroupKey key;
  SmallVector<unsigned> bindings;
  llvm::DenseMap<Value, uintptr_t> numbers;
  bool is_simple = true;
  auto add = [&](const void* unique) { key.push_back(reinterpret_cast<uintptr_t>(unique)); };
  const std::optional<ArrayRef<int64_t>> tied = region.getTied();
  const unsigned operands = region.getNumOperands();
  std::function<uintptr_t(Value)> number_of = [&](Value value) -> uintptr_t {
    if (auto known = numbers.find(value); known != numbers.end()) return known->second;
    if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
      bindings.push_back(argument.getArgNumber());
      key.push_back(tied && llvm::is_contained(*tied, argument.getArgNumber()) ? 2 : 1);
    } else {
      Operation* op = value.getDefiningOp();
      is_simple &= op->getNumResults() == 1 && op->getNumRegions() == 0 &&
                   (tx::is_elementwise(op) || tx::is_view(op) ||
                    llvm::isa<tx::ConstantOp, tx::BroadcastOp, tx::TransposeOp, tx::SliceOp, tx::PadOp>(op));
      SmallVector<uintptr_t> read;
      for (Value operand : op->getOperands()) read.push_back(number_of(operand));
      add(op->getName().getAsOpaquePointer());
      add(op->getAttrDictionary().getAsOpaquePointer());
      llvm::append_range(key, read);
    }
    add(value.getType().getAsOpaquePointer());
    return numbers[value] = numbers.size();
  };
  for (const Output& output : outputs) {
    const uintptr_t number = number_of(output.value);
    key.push_back(number);
    const int64_t over = tied ? (*tied)[output.result] : -1;
    key.push_back(over < 0 ? 0 : number_of(region.getBody().getArgument(static_cast<unsigned>(over))) + 1);
    bindings.push_back(operands + output.result);
  }
  if (!is_simple) key.clear();
  return {std::move(key), std::move(bindings)};
}

}  // namespace

FailureOr<Operation*> find_root(ArrayRef<Output> outputs) {
  Operation* root = nullptr;
  llvm::DenseSet<Value> seen, reached;
  for (const Output& output : outputs) {
    if (!root) root = root_behind(output.value, seen);
  }
  for (const Output& output : outputs) {
    Operation* other = other_root(output.value, root, reached);
    if (!other) continue;
    other->emitError() << other->getName() << " cannot be computed inside this region; it needs a region of its own";
    return failure();
  }
  return root;
}

std::vector<OutputGroup> output_groups(tx::DispatchOp region) {
  Grouping grouping(region);
  std::vector<OutputGroup> groups;
  std::map<GroupKey, size_t> known;
  for (std::vector<Output>& outputs : grouping.groups()) {
    auto [key, bindings] = describe(region, outputs);
    auto [first, is_first] = key.empty() ? std::pair(known.end(), true) : known.try_emplace(key, groups.size());
    if (is_first) {
      groups.push_back({std::move(outputs), std::move(bindings)});
    } else {
      groups[first->second].repetitions.push_back(std::move(bindings));
    }
  }
  return groups;
}

LogicalResult emit_repetitions(KernelBuilder& k, const OutputGroup& group, AffineExpr workgroups, Value block,
                               const std::function<LogicalResult(Value)>& body) {
  Value each = k.extent(workgroups), which = k.div(block, each);
  SmallVector<std::pair<unsigned, Value>> replaced;
  SmallVector<Value> is_it;
  for (size_t i = 0; i < group.repetitions.size(); ++i)
    is_it.push_back(k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, which, k.index(static_cast<int64_t>(i) + 1)));
  for (auto [position, binding] : llvm::enumerate(group.bindings)) {
    Value chosen = k.binding(binding);
    for (auto [repetition, is_own] : llvm::zip_equal(group.repetitions, is_it)) {
      if (repetition[position] != binding) chosen = k.make<arith::SelectOp>(is_own, k.binding(repetition[position]), chosen);
    }
    if (chosen != k.binding(binding)) replaced.emplace_back(binding, chosen);
  }
  LogicalResult all = success();
  k.with_bindings(replaced, [&] { all = body(k.sub(block, k.mul(which, each))); });
  return all;
}

LogicalResult store_outputs(KernelBuilder& k, ElementEvaluator& evaluator, ArrayRef<Output> outputs, const Point& point) {
  SmallVector<Value> values;
  for (const Output& output : outputs) values.push_back(output.value);
  SmallVector<Value> elements = evaluator.elements(values, point);
  for (auto [output, value] : llvm::zip_equal(outputs, elements)) {
    if (!value) return failure();
    evaluator.store(value, k.result(output.result), tx::tensor(output.value), point);
  }
  return success();
}

}  // namespace heddle::targets
