// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that only move elements, with the ops that are computed only for or from them.
#include "compiler/passes/fusion.h"

#include "compiler/ir/filter_order.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// A transpose that keeps the innermost dimension.
bool keeps_neighbors(Operation* op) {
  auto transpose = llvm::dyn_cast<tx::TransposeOp>(op);
  return transpose && !transpose.getPermutation().empty() &&
         transpose.getPermutation().back() == static_cast<int64_t>(transpose.getPermutation().size()) - 1;
}

// The permutation of a reshape that only moves dimensions of extent 1, or nothing if it does not keep the innermost dimension.
std::optional<SmallVector<int64_t>> permutation_of(tx::ReshapeOp reshape) {
  SmallVector<AffineExpr> from = tx::extents(tx::tensor(reshape.getInput())), to = tx::extents(tx::tensor(reshape.getResult()));
  if (from.size() != to.size() || from.empty() || from.back() != to.back()) return {};
  SmallVector<int64_t> ones, others;
  for (auto [d, extent] : llvm::enumerate(from)) (tx::is_one(extent) ? ones : others).push_back(static_cast<int64_t>(d));
  std::reverse(ones.begin(), ones.end());
  std::reverse(others.begin(), others.end());
  SmallVector<int64_t> permutation(to.size());
  for (size_t d = to.size(); d-- > 0;) {  // from the innermost dimension on, which stays
    SmallVector<int64_t>& left = tx::is_one(to[d]) ? ones : others;
    if (left.empty() || from[left.front()] != to[d]) return {};
    permutation[d] = left.front();
    left.erase(left.begin());
  }
  return permutation;
}

}  // namespace

bool is_narrow_concat(Operation* op) {
  auto concat = llvm::dyn_cast<tx::ConcatOp>(op);
  return concat && op->getNumOperands() <= 2 &&
         llvm::all_of(concat.getInputs(), [&](Value input) { return tx::is_never_zero(tx::extents(tx::tensor(input))[concat.getAxis()]); });
}

void Fuser::take_transpose(Group& group, tx::PackOp pack) {
  auto transpose = pack.getInput().getDefiningOp<tx::TransposeOp>();
  Group* moved = producer(pack.getInput());
  if (!transpose || !moved || moved->ops.size() != 1 || !transpose->hasOneUse() || pack.getWinograd()) return;
  if (!tx::stores_channels_first(transpose)) return;
  Group whole = group;
  whole.ops.insert(transpose);
  count_reads(whole);
  replace(group, std::move(whole), {moved});
}

void Fuser::take_in_producers() {
  auto is_movement = [](Operation* op) { return llvm::isa<tx::SliceOp>(op) || is_narrow_concat(op) || keeps_neighbors(op); };
  auto is_simple = [&](Operation* op) { return tx::is_elementwise(op) || is_movement(op); };
  auto may_take = [&](const Group& group, const Group& other) {
    auto moves = [&](const Group& one) { return llvm::any_of(one.ops, is_movement) || llvm::isa<tx::ConcatOp>(one.output); };
    if (!(moves(group) || moves(other)) || !llvm::all_of(other.ops, is_simple)) return false;
    if (group.ops.size() + other.ops.size() > most_ops_of_rows || parts_of(group) + parts_of(other) > most_parts) return false;
    bool computes = llvm::any_of(group.ops, tx::is_elementwise) || llvm::any_of(other.ops, tx::is_elementwise);
    if (llvm::any_of(other.ops, is_narrow_concat) && !computes) return false;  // they would be copied twice
    // The input of a concat is computed for each of its parts, unless the concat is the last op, whose parts are stored one by one.
    auto repeats = [&](Operation* op) { return op != group.output && is_narrow_concat(op); };
    return llvm::none_of(group.ops, repeats) || llvm::none_of(other.ops, tx::is_costly);
  };
  for (size_t g = groups_.size(); g-- > 0;) {
    if (!groups_[g]) continue;
    bool joins = groups_[g]->ops.size() == 1 && llvm::isa<tx::ConcatOp>(groups_[g]->output);
    if (!joins && !llvm::all_of(groups_[g]->ops, is_simple)) continue;
    Group wider = *groups_[g];
    std::vector<Group*> taken;
    UnitMoves moves;
    auto is_ours = [&](Value value) { return llvm::all_of(value.getUsers(), [&](Operation* user) { return wider.ops.contains(user); }); };
    for (size_t before = 0; before != wider.ops.size();) {
      before = wider.ops.size();
      for (size_t i = 0; i < wider.ops.size(); ++i) {
        for (unsigned o = 0; o < wider.ops[i]->getNumOperands(); ++o) {
          Value operand = wider.ops[i]->getOperand(o);
          auto reshape = operand.getDefiningOp<tx::ReshapeOp>();
          if (reshape && (!is_ours(operand) || !reshape.getInput().hasOneUse())) continue;
          Group* other = producer(reshape ? reshape.getInput() : operand);
          if (!other || other == groups_[g].get() || llvm::is_contained(taken, other) || !may_take(wider, *other)) continue;
          if (other->output != (reshape ? reshape.getInput() : operand).getDefiningOp()) continue;
          if (reshape) {
            Operation* moved = move_by_transpose(reshape, moves);
            if (!moved) continue;
            wider.ops.insert(moved);
          } else if (!is_ours(operand)) {
            continue;
          }
          wider.ops.insert(other->ops.begin(), other->ops.end());
          taken.push_back(other);
        }
      }
    }
    if (taken.empty()) continue;
    auto computed = llvm::find_if(wider.ops, tx::is_elementwise);
    if (computed != wider.ops.end()) wider.root = *computed;
    count_reads(wider);
    const bool has_many = wider.reads.size() > most_reads_;
    std::string reason;
    if (has_many || (devices_ && !has_kernel(wider, &reason))) {
      give_back(moves);
      refuse(has_many ? "TooManyBindings" : "NoKernel", *taken.front(), groups_[g]->output, reason);
    } else {
      replace(*groups_[g], std::move(wider), taken);
    }
  }
}

void Fuser::take_in_slices() {
  if (!devices_) return;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g] || groups_[g]->attends || !tx::is_contraction(groups_[g]->root)) continue;
    for (Operation* reader : llvm::to_vector(groups_[g]->ops)) {
      if (!tx::is_contraction(reader)) continue;
      for (Value operand : reader->getOperands().take_front(2)) take_in_slice(*groups_[g], operand);
    }
  }
}

void Fuser::take_in_slice(Group& group, Value operand) {
  Group wider = group;
  auto is_ours = [&] { return llvm::all_of(operand.getUsers(), [&](Operation* user) { return wider.ops.contains(user); }); };
  while (auto reshape = operand.getDefiningOp<tx::ReshapeOp>()) {
    if (!is_ours()) return;
    wider.ops.insert(reshape);
    operand = reshape.getInput();
  }
  auto slice = operand.getDefiningOp<tx::SliceOp>();
  Group* moved = producer(operand);
  if (!slice || !moved || moved == &group) return;
  if (moved->ops.size() > 1 || !is_ours()) {
    refuse(moved->ops.size() > 1 ? "DataMovement" : "MultipleUses", *moved, group.output);
    return;
  }
  wider.ops.insert(slice);
  count_reads(wider);
  std::string reason;
  if (has_kernel(wider, &reason)) {
    replace(group, std::move(wider), {moved});
  } else {
    refuse("NoKernel", *moved, group.output, reason);
  }
}

Operation* Fuser::move_by_transpose(tx::ReshapeOp reshape, UnitMoves& moves) {
  auto permutation = permutation_of(reshape);
  if (!permutation) return nullptr;
  OpBuilder builder(reshape);
  auto transpose = builder.create<tx::TransposeOp>(reshape.getLoc(), reshape.getType(), reshape.getInput(), *permutation);
  position_[transpose] = position_.lookup(reshape);
  reshape.getResult().replaceAllUsesWith(transpose);
  moves.emplace_back(transpose, reshape);
  return transpose;
}

void Fuser::give_back(UnitMoves& moves) {
  for (auto [transpose, reshape] : llvm::reverse(moves)) {
    transpose.getResult().replaceAllUsesWith(reshape.getResult());
    position_.erase(transpose);
    transpose.erase();
  }
}

}  // namespace heddle::passes
