// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products with the same left operand as one region.
#include "compiler/passes/fusion.h"

#include "compiler/ir/control.h"
#include "compiler/ir/read.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Limits of products that form one region: their number, and the number of ops between the first and the last one.
constexpr size_t most_siblings = 8;
constexpr unsigned farthest_sibling = 64;

// Whether the block has a read of extents between the two: the second one may depend on it.
bool reads_between(Operation* first, Operation* second) {
  for (Operation* op = first; op && op != second; op = op->getNextNode()) {
    if (llvm::isa<tx::ReadOp>(op)) return true;
    if (auto loop = llvm::dyn_cast<tx::LoopOp>(op); loop && loop.getVarying()) return true;
  }
  return false;
}

}  // namespace

void Fuser::join_siblings() {
  if (!devices_) return;
  llvm::MapVector<Value, SmallVector<Group*>> readers;
  for (auto& group : groups_) {
    auto matmul = group ? llvm::dyn_cast<tx::MatmulOp>(group->root) : tx::MatmulOp();
    if (matmul && !group->attends) readers[matmul.getLhs()].push_back(group.get());
  }
  for (auto& [lhs, groups] : readers) {
    if (groups.size() < 2) continue;
    llvm::erase_if(groups, [&](Group* group) { return !has_kernel(*group); });
    llvm::sort(groups, [&](Group* a, Group* b) { return position_[a->output] < position_[b->output]; });
    join_gates(groups);
    while (groups.size() > 1) join_first(groups);
  }
}

void Fuser::join_gates(SmallVector<Group*>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    Group* gate = groups[i];
    Value value = gate->output->getResult(0);
    auto* reader = value.hasOneUse() ? group_of_.lookup(*value.user_begin()) : nullptr;
    if (reader == gate || !llvm::is_contained(groups, reader)) continue;
    Group wider = *reader;
    wider.root = gate->root;
    wider.ops.insert(gate->ops.begin(), gate->ops.end());
    count_reads(wider);
    std::string reason;
    if (wider.reads.size() > most_reads_ || !has_kernel(wider, &reason)) {
      refuse("NoKernel", *gate, reader->output, reason);
      continue;
    }
    replace(*reader, std::move(wider), gate);
    groups.erase(groups.begin() + static_cast<ptrdiff_t>(i--));
  }
}

void Fuser::join_first(SmallVector<Group*>& groups) {
  Group* first = groups.front();
  Group wider = *first;
  std::vector<Group*> others;
  for (Group* other : ArrayRef(groups).drop_front()) {
    if (reads_between(first->root, other->root)) continue;
    bool is_near = others.size() + 1 < most_siblings && position_[other->root] <= position_[first->root] + farthest_sibling;
    if (!is_near || wider.reads.size() + wider.siblings.size() + other->reads.size() + 1 > most_reads_) continue;
    if (!llvm::all_of(other->reads, [&](Value read) { return is_known_before(read, first->root); })) continue;
    wider.ops.insert(other->ops.begin(), other->ops.end());
    wider.siblings.push_back(other->output);
    others.push_back(other);
    count_reads(wider);
  }
  llvm::erase_if(groups, [&](Group* group) { return group == first || llvm::is_contained(others, group); });
  if (others.empty()) return;
  std::string reason;
  if (!has_kernel(wider, &reason)) {
    refuse("NoKernel", wider, others.front()->output, reason);
    return;
  }
  for (Operation* op : wider.ops) {
    for (Value read : op->getOperands()) {
      if (wider.reads.contains(read)) raise(read, wider.output);
    }
  }
  replace(*first, std::move(wider), others);
}

void Fuser::raise(Value value, Operation* before) {
  Operation* from = value.getDefiningOp();
  if (!from || from->isBeforeInBlock(before)) return;
  for (Value operand : from->getOperands()) raise(operand, before);
  from->moveBefore(before);
}

}  // namespace heddle::passes
