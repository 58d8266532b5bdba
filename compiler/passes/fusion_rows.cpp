// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of the same rows, with the ops between and around them.
#include "compiler/passes/fusion.h"

#include <set>

using namespace mlir;

namespace heddle::passes {
namespace {

// Limit of a region of rows. Each fold needs memory.
constexpr unsigned most_folds = 6;

SmallVector<AffineExpr> without_ones(ArrayRef<AffineExpr> extents) {
  SmallVector<AffineExpr> others(extents);
  llvm::erase_if(others, [](AffineExpr extent) { return tx::static_extent(extent) == 1; });
  return others;
}

// The rows that such an op goes through: the extents of its input, and those without the dimensions of a row.
struct Rows {
  SmallVector<AffineExpr> whole, reduced;
  SmallVector<int64_t> axes;

  static Rows of(Operation* op) {
    Rows rows;
    rows.whole = tx::extents(tx::tensor(op->getOperand(0)));
    rows.axes = llvm::cast<tx::RowsOp>(op).getRowAxes();
    for (auto [d, extent] : llvm::enumerate(rows.whole)) {
      if (!llvm::is_contained(rows.axes, static_cast<int64_t>(d))) rows.reduced.push_back(extent);
    }
    rows.reduced = without_ones(rows.reduced);
    return rows;
  }

  // Whether the op, which reads a value of these rows, goes on with them.
  bool take(Operation* op) const {
    if (op->getNumResults() != 1 || !llvm::isa<RankedTensorType>(op->getResult(0).getType())) return false;
    SmallVector<AffineExpr> result = tx::extents(tx::tensor(op->getResult(0)));
    auto is_per_row = [&](ArrayRef<AffineExpr> extents) { return without_ones(extents) == reduced; };
    if (op->hasTrait<tx::JoinsRows>()) {
      Rows other = of(op);
      return other.whole == whole && other.axes == axes;
    }
    if (tx::is_elementwise(op)) return result == whole || is_per_row(result);
    if (!tx::is_view(op)) return false;
    return is_per_row(tx::extents(tx::tensor(op->getOperand(0)))) && (is_per_row(result) || result == whole);
  }
};

}  // namespace

// Whether each of its rows is one of a table, so that it is read from there as fast as from a copy.
static bool looks_up_rows(Operation* op) {
  if (auto gather = llvm::dyn_cast<tx::GatherOp>(op)) return gather.getAxis() == 0 && !gather.getBlocks();
  auto gather = llvm::dyn_cast<tx::GatherNdOp>(op);
  return gather && gather.getBatchDims() == 0 && tx::tensor(gather.getIndices()).getShape().back() == 1;
}

bool Fuser::is_known_before(Value value, Operation* op) const {
  Operation* from = value.getDefiningOp();
  while (from && tx::is_view(from)) from = from->getOperand(0).getDefiningOp();
  return !from || llvm::isa<tx::ConstantOp, tx::ParameterOp>(from) || position_.lookup(from) < position_.lookup(op);
}

std::vector<Operation*> Fuser::ops_of_rows(Operation* first) const {
  Rows rows = Rows::of(first);
  auto later = [&](Operation* a, Operation* b) { return position_.lookup(a) < position_.lookup(b); };
  std::set<Operation*, decltype(later)> waiting(later);
  llvm::DenseSet<Operation*> inside = {first};
  std::vector<Operation*> found = {first};
  waiting.insert(first->user_begin(), first->user_end());
  unsigned folds = 1;
  while (!waiting.empty() && found.size() < most_ops_of_rows) {
    Operation* op = *waiting.begin();
    waiting.erase(waiting.begin());
    // Its other operands were made before the first op: a region does not wait for anything else.
    bool is_early = llvm::all_of(
        op->getOperands(), [&](Value operand) { return inside.contains(operand.getDefiningOp()) || is_known_before(operand, first); });
    bool goes_on = is_early && !group_of_.contains(op) && rows.take(op);
    if (goes_on && op->hasTrait<tx::JoinsRows>() && ++folds > most_folds) break;
    if (!goes_on) continue;
    found.push_back(op);
    inside.insert(op);
    waiting.insert(op->user_begin(), op->user_end());
  }
  for (size_t last = found.size(); last-- > 0;) {
    if (tx::is_view(found[last])) continue;
    llvm::DenseSet<Operation*> needed = {found[last]};
    std::vector<Operation*> ops;
    bool is_closed = true;
    for (size_t i = last + 1; i-- > 0;) {
      if (!needed.contains(found[i])) continue;
      ops.insert(ops.begin(), found[i]);
      is_closed &= i == last || llvm::all_of(found[i]->getUsers(), [&](Operation* user) { return needed.contains(user); });
      for (Value operand : found[i]->getOperands()) {
        if (inside.contains(operand.getDefiningOp())) needed.insert(operand.getDefiningOp());
      }
    }
    if (is_closed && needed.contains(first)) return ops;
  }
  return {};
}

void Fuser::go_through_rows(Group& group) {
  const std::vector<Operation*> ops = ops_of_rows(group.root);
  StringRef refusal;
  std::string reason;
  Operation* last = group.root;
  for (unsigned most_levels : {8u, 1u}) {
    std::vector<Group*> absorbed;
    unsigned levels = 0;
    Group wider = group;
    wider.has_rows = true;
    wider.ops.insert(ops.begin(), ops.end());
    while (levels < most_levels && absorb_producers(group, wider, absorbed)) ++levels;
    count_reads(wider);
    if (!ops.empty()) wider.output = ops.back();
    const bool has_many = wider.reads.size() > most_reads_;
    reason.clear();
    if (!has_many && (wider.ops.size() == 1 || !devices_ || has_kernel(wider, &reason))) {
      replace(group, std::move(wider), absorbed);
      return;
    }
    refusal = has_many ? "TooManyBindings" : "NoKernel";
    last = wider.ops.back();
    if (levels < 2) break;
  }
  refuse(refusal, group, last, reason);
}

bool Fuser::absorb_producers(Group& group, Group& wider, std::vector<Group*>& absorbed) {
  const size_t before = absorbed.size();
  size_t count = wider.ops.size();
  for (Operation* op : wider.ops.getArrayRef()) {
    if (op->hasTrait<tx::LookUp>()) continue;
    for (Value operand : op->getOperands()) {
      Group* other = producer(operand);
      if (!other || other == &group || llvm::is_contained(absorbed, other)) continue;
      if (!tx::is_elementwise(other->root) && !looks_up_rows(other->root)) continue;
      const bool is_last = other->output == operand.getDefiningOp(), fits = count + other->ops.size() <= most_ops_of_rows;
      if (!is_last || !fits || !llvm::all_of(operand.getUsers(), [&](Operation* user) { return wider.ops.contains(user); })) continue;
      absorbed.push_back(other);
      count += other->ops.size();
    }
  }
  for (Group* other : ArrayRef(absorbed).drop_front(before)) wider.ops.insert(other->ops.begin(), other->ops.end());
  return absorbed.size() > before;
}

}  // namespace heddle::passes
