// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See region_outputs.h.
#include "compiler/targets/region_outputs.h"

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

std::vector<std::vector<Output>> output_groups(tx::DispatchOp region) {
  std::vector<std::vector<Output>> groups;
  for (auto [i, yielded] : llvm::enumerate(region.getBody().front().getTerminator()->getOperands())) {
    Value value = yielded;
    while (auto reshape = value.getDefiningOp<tx::ReshapeOp>()) value = reshape.getInput();
    auto extents = tx::extents(tx::tensor(value));
    auto group =
        llvm::find_if(groups, [&](const std::vector<Output>& known) { return tx::extents(tx::tensor(known.front().value)) == extents; });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<Output>{});
    group->push_back({value, static_cast<unsigned>(i)});
  }
  return groups;
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
