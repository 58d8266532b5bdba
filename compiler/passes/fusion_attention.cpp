// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax between two products.
#include "compiler/passes/fusion.h"

#include "compiler/passes/index_expression.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::passes {

bool Fuser::attend(tx::MatmulOp second) {
  Group* rows = producer(second.getLhs());
  if (!rows || !rows->has_rows || rows->attends || !llvm::isa<tx::SoftmaxOp>(rows->root)) return false;
  if (rows->output != second.getLhs().getDefiningOp() || !second.getLhs().hasOneUse()) return false;
  Group* first = nullptr;
  for (Operation* op : rows->ops) {
    for (Value read : op->getOperands()) {
      Group* other = producer(read);
      bool is_product = other && llvm::isa<tx::MatmulOp>(other->root) && other->output == read.getDefiningOp();
      bool is_ours = llvm::all_of(read.getUsers(), [&](Operation* user) { return rows->ops.contains(user); });
      if (!first && is_product && is_ours) first = other;
    }
  }
  if (!first) return false;
  std::string reason;
  for (bool with_parts : {true, false}) {
    Group whole = *rows;
    whole.attends = true;
    whole.ops.insert(first->ops.begin(), first->ops.end());
    whole.ops.insert(second);
    whole.output = second;
    std::vector<Group*> others = {first};
    OwnIndices own;
    for (size_t before = 0; before != whole.ops.size();) {  // the groups that join may be for masks computed from indices
      before = whole.ops.size();
      take_index_expressions(whole, own);
      absorb_movement(whole, others, with_parts);
    }
    count_reads(whole);
    const bool has_many = whole.reads.size() > most_reads_;
    if (has_many)
      reason = "it would read " + std::to_string(whole.reads.size()) + " values, and a kernel reads at most " + std::to_string(most_reads_);
    if (has_many || !has_kernel(whole, &reason)) {
      give_back(own);
      continue;
    }
    replace(*rows, std::move(whole), others);
    llvm::SetVector<Operation*> originals;
    for (auto& [use, original] : own.uses) originals.insert(original.getDefiningOp());
    for (Operation* original : originals) {
      if (position_.contains(original)) drop_unused(original);  // it may have been removed with another one
    }
    return true;
  }
  return refuse("NoKernel", *rows, second, reason);
}

void Fuser::take_index_expressions(Group& group, OwnIndices& own) {
  IRMapping copies;
  for (Operation* op : SmallVector<Operation*>(group.ops.begin(), group.ops.end())) {
    for (OpOperand& operand : op->getOpOperands()) {
      Operation* from = operand.get().getDefiningOp();
      if (!from || group.ops.contains(from) || is_splat(operand.get())) continue;
      for (Operation* part : index_expression(operand.get())) {
        if (copies.contains(part->getResult(0)) || llvm::isa<tx::ConstantOp>(part)) continue;
        OpBuilder builder(part);
        Operation* copy = builder.clone(*part, copies);
        position_[copy] = position_.lookup(part);
        own.copies.push_back(copy);
        group.ops.insert(copy);
      }
      if (Value copy = copies.lookupOrNull(operand.get())) {
        own.uses.emplace_back(&operand, operand.get());
        operand.set(copy);
      }
    }
  }
}

void Fuser::give_back(OwnIndices& own) {
  for (auto& [use, original] : own.uses) use->set(original);
  for (Operation* copy : llvm::reverse(own.copies)) {
    position_.erase(copy);
    copy->erase();
  }
}

void Fuser::drop_unused(Operation* op) {
  if (!op->use_empty()) return;
  SmallVector<Operation*> dead = {op};
  if (Group* group = group_of_.lookup(op)) {
    if (group->output != op || !group->siblings.empty()) return;
    dead.assign(group->ops.begin(), group->ops.end());
    llvm::sort(dead, [&](Operation* a, Operation* b) { return position_.lookup(a) > position_.lookup(b); });
    for (auto& owned : groups_) {
      if (owned.get() == group) owned.reset();
    }
  }
  llvm::SetVector<Operation*> sources;
  for (Operation* one : dead) {
    for (Value operand : one->getOperands()) {
      if (Operation* from = operand.getDefiningOp(); from && !llvm::is_contained(dead, from)) sources.insert(from);
    }
  }
  for (Operation* one : dead) {
    llvm::erase_if(refusals_, [&](const Refusal& refusal) { return refusal.producer == one || refusal.consumer == one; });
    group_of_.erase(one);
    position_.erase(one);
    one->erase();
  }
  for (Operation* source : sources) {
    if (position_.contains(source)) drop_unused(source);
  }
}

void Fuser::absorb_movement(Group& group, std::vector<Group*>& absorbed, bool with_parts) {
  auto is_simple = [&](Operation* op) {
    if (with_parts && (llvm::isa<tx::SliceOp>(op) || is_narrow_concat(op))) return true;
    return tx::is_elementwise(op) || tx::is_view(op) || llvm::isa<tx::TransposeOp>(op);
  };
  auto is_ours = [&](Value value) { return llvm::all_of(value.getUsers(), [&](Operation* user) { return group.ops.contains(user); }); };
  size_t parts = 0;
  // Repeated, since a value with several readers belongs to this group only when all of them are in it.
  for (size_t before = 0; before != group.ops.size();) {
    before = group.ops.size();
    for (size_t i = 0; i < group.ops.size(); ++i) {
      for (Value operand : group.ops[i]->getOperands()) {
        Operation* from = operand.getDefiningOp();
        if (!from || group.ops.contains(from) || !is_ours(operand) || !is_simple(from)) continue;
        Group* other = producer(operand);
        if (!other) {
          if (tx::is_view(from)) group.ops.insert(from);
        } else if (other->output == from && llvm::all_of(other->ops, is_simple) && parts + parts_of(*other) <= most_parts) {
          parts += parts_of(*other);
          group.ops.insert(other->ops.begin(), other->ops.end());
          absorbed.push_back(other);
        }
      }
    }
  }
}

bool Fuser::goes_on_with_attention(Operation* op) {
  Group* group = nullptr;
  for (Value operand : op->getOperands()) {
    Group* other = producer(operand);
    if (!other || other->output != operand.getDefiningOp()) continue;
    if (other->attends && !group) {
      group = other;
    } else if (operand.hasOneUse() && llvm::all_of(other->ops, tx::is_elementwise)) {
      return false;  // the two make one region
    }
  }
  if (!group || !group->output->getResult(0).hasOneUse()) return false;
  Group wider = *group;
  wider.ops.insert(op);
  wider.output = op;
  wider.reads = reads_with(*group, op);
  if (wider.reads.size() > most_reads_) return refuse("TooManyBindings", *group, op);
  std::string reason;
  if (!has_kernel(wider, &reason)) return refuse("NoKernel", *group, op, reason);
  replace(*group, std::move(wider), {});
  return true;
}

bool Fuser::ends_attention(tx::TransposeOp transpose, std::string& why_not) {
  Group* group = producer(transpose.getInput());
  if (!group || !group->attends || group->output != transpose.getInput().getDefiningOp() || !transpose.getInput().hasOneUse()) return false;
  Group wider = *group;
  wider.ops.insert(transpose);
  wider.output = transpose;
  if (!has_kernel(wider, &why_not)) return false;
  replace(*group, std::move(wider), {});
  return true;
}

}  // namespace heddle::passes
