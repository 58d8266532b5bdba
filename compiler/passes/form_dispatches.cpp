// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-form-dispatches: cuts each function into regions, one kernel each. A region is one root (contraction, pooling, ...) with the
// element-wise chain behind it, reductions of the same rows with what is between and around them, a softmax between two products, or a cluster of
// element-wise ops. No region needs more bindings than every device has. Every refusal to fuse is recorded.
#include <set>

#include "compiler/passes/passes.h"
#include "compiler/passes/regions.h"

#include "compiler/ir/tx.h"
#include "compiler/passes/index_expression.h"
#include "compiler/passes/slots.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::passes {
namespace {

bool is_root(Operation* op) {
  return tx::is_contraction(op) || tx::has_only_stages(op) || llvm::isa<tx::PackOp>(op);
}

// Ops of which a region may have any number, each element from those that it reads.
bool is_map(Operation* op) {
  return tx::is_elementwise(op) || op->hasTrait<tx::LookUp>() || llvm::isa<tx::IotaOp>(op);
}

// Of so few parts that an element may be computed for each of them, which no part may be without.
bool is_narrow_concat(Operation* op) {
  auto concat = llvm::dyn_cast<tx::ConcatOp>(op);
  return concat && op->getNumOperands() <= 2 &&
         llvm::all_of(concat.getInputs(), [&](Value input) { return tx::is_never_zero(tx::extents(tx::tensor(input))[concat.getAxis()]); });
}

// A transpose that leaves the innermost dimension where it is.
bool keeps_neighbors(Operation* op) {
  auto transpose = llvm::dyn_cast<tx::TransposeOp>(op);
  return transpose && !transpose.getPermutation().empty() &&
         transpose.getPermutation().back() == static_cast<int64_t>(transpose.getPermutation().size()) - 1;
}

// A reshape that only moves dimensions of one element, as a transpose: the permutation, or nothing if it is none that leaves the innermost dimension where it is.
std::optional<SmallVector<int64_t>> permutation_of(tx::ReshapeOp reshape) {
  SmallVector<AffineExpr> from = tx::extents(tx::tensor(reshape.getInput())), to = tx::extents(tx::tensor(reshape.getResult()));
  if (from.size() != to.size() || from.empty() || from.back() != to.back()) return {};
  auto is_one = [](AffineExpr extent) { return tx::static_extent(extent) == 1; };
  SmallVector<int64_t> ones, others;
  for (auto [d, extent] : llvm::enumerate(from)) (is_one(extent) ? ones : others).push_back(static_cast<int64_t>(d));
  std::reverse(ones.begin(), ones.end());
  std::reverse(others.begin(), others.end());
  SmallVector<int64_t> permutation(to.size());
  for (size_t d = to.size(); d-- > 0;) {  // from the innermost one on, which stays
    SmallVector<int64_t>& left = is_one(to[d]) ? ones : others;
    if (left.empty() || from[left.front()] != to[d]) return {};
    permutation[d] = left.front();
    left.erase(left.begin());
  }
  return permutation;
}

SmallVector<AffineExpr> without_ones(ArrayRef<AffineExpr> extents) {
  SmallVector<AffineExpr> others(extents);
  llvm::erase_if(others, [](AffineExpr extent) { return tx::static_extent(extent) == 1; });
  return others;
}

// Of a region of rows, or of what is moved: more of them gain nothing. Each fold needs memory.
constexpr size_t most_ops_of_rows = 64;
constexpr unsigned most_folds = 6;

// Of parts that are joined or cut in one region: with each one an element may be computed at more places.
constexpr size_t most_parts = 12;

// Of products that are one region: how many, and how many ops may be between the first and the last one.
constexpr size_t most_siblings = 8;
constexpr unsigned farthest_sibling = 64;

// The rows that such an op goes through: the extents of its input, and without a row's dimensions.
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

  // Whether the op, which reads something of these rows, goes on with them.
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

// Constants, parameters, reshapes (views of the same bytes), broadcasts (repeated inside the regions that read them), transfers, operators of
// plugins, and nodes that are a region already since a plugin may run them.
bool stays_outside(Operation* op) {
  return tx::is_view(op) || llvm::isa<tx::ConstantOp, tx::ParameterOp, tx::TransferOp, tx::CustomOp, tx::DispatchOp>(op);
}

bool is_splat(Value value) {
  auto constant = value.getDefiningOp<tx::ConstantOp>();
  return constant && llvm::isa<SplatElementsAttr>(constant.getValue());
}

// Why a region ends between these two; `reason`: what the kind does not say.
using Log = SmallVector<Attribute>;
void note(Log& log, StringRef kind, Operation* producer, Operation* consumer, StringRef reason = {}) {
  Builder builder(consumer->getContext());
  SmallVector<NamedAttribute> fields;
  auto add = [&](StringRef name, StringRef text) { fields.push_back(builder.getNamedAttr(name, builder.getStringAttr(text))); };
  add("kind", kind);
  add("producer", tx::describe(producer));
  add("consumer", tx::describe(consumer));
  if (!reason.empty()) add("reason", reason);
  log.push_back(builder.getDictionaryAttr(fields));
}

// Every op has one result, which is a binding; the others are left for what it reads.
constexpr unsigned bindings_of_results = 1;

// A concat is the one op that may read more values than a kernel has bindings for: it becomes a concat of concats of its parts.
void split_wide_concats(func::FuncOp function, unsigned most_reads, Log& log) {
  for (Operation& op : llvm::make_early_inc_range(function.getBody().front())) {
    auto whole = llvm::dyn_cast<tx::ConcatOp>(op);
    while (whole && llvm::DenseSet<Value>(whole->operand_begin(), whole->operand_end()).size() > most_reads) {
      OpBuilder builder(whole);
      size_t count = whole.getInputs().size(), parts = llvm::divideCeil(count, most_reads);
      SmallVector<Value> joined;
      for (size_t p = 0; p < parts; ++p) {
        ValueRange inputs = whole.getInputs().slice(count * p / parts, count * (p + 1) / parts - count * p / parts);
        auto type = llvm::cast<RankedTensorType>(whole.getType());
        SmallVector<AffineExpr> extents = tx::extents(type);
        extents[whole.getAxis()] = builder.getAffineConstantExpr(0);
        for (Value input : inputs) {
          extents[whole.getAxis()] = extents[whole.getAxis()] + tx::extents(llvm::cast<RankedTensorType>(input.getType()))[whole.getAxis()];
        }
        auto part = builder.create<tx::ConcatOp>(whole.getLoc(), tx::tensor_type(extents, type.getElementType()), inputs, whole.getAxis());
        joined.push_back(part);
        note(log, "TooManyBindings", part, whole);
      }
      whole.getInputsMutable().assign(joined);
    }
  }
}

struct Group {
  Operation* root;                        // its first op
  llvm::SetVector<Operation*> ops;        // in program order once sorted
  Operation* output;                      // its last op; the only one whose result leaves the group, but for the siblings'
  llvm::DenseSet<Value> reads;            // from outside, at most a binding each
  bool has_rows = false;                  // several reductions of the same rows may be in it, and it reads any broadcast by itself
  bool attends = false;                   // a softmax between two products
  SmallVector<Operation*> siblings = {};  // outputs of groups that became part of this one, and need nothing of it
};

class Former {
 public:
  Former(func::FuncOp function, unsigned most_reads, Log& log, const Devices* devices)
      : function_(function), most_reads_(most_reads), log_(log), devices_(devices), slots_(function) {}

  LogicalResult run() {
    if (Operation* torn = slots_.torn()) return torn->emitError("has operands on several slots; run heddle-place-ops first");
    unsigned position = 0;
    for (Operation& op : function_.getBody().front()) position_[&op] = position++;
    for (Operation& op : function_.getBody().front()) {
      bool has_group = group_of_.contains(&op);  // joined ahead, with a value of several uses or of rows
      if (llvm::isa_and_nonnull<tx::TxDialect>(op.getDialect()) && !stays_outside(&op) && !has_group) place(&op);
      refuse_around_operations(&op);
    }
    materialize_broadcasts();
    take_in_producers();
    join_siblings();
    SmallVector<Group*> order;
    for (auto& group : groups_) {
      if (group) order.push_back(group.get());
    }
    llvm::sort(order, [&](Group* a, Group* b) { return position_[a->output] < position_[b->output]; });
    for (Group* group : order) outline(*group);
    name_regions();
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(function_.getBody().front()))) {
      if (isOpTriviallyDead(&op)) op.erase();
    }
    return success();
  }

 private:
  Group& open(Operation* op) {
    groups_.push_back(std::make_unique<Group>(Group{op, {}, op, {}}));
    Group& group = *groups_.back();
    for (Value operand : op->getOperands()) {
      if (Value read = binding_for(group, op, operand)) group.reads.insert(read);
    }
    group.ops.insert(op);
    group_of_[op] = &group;
    return group;
  }

  // Puts an op into the group of one of its producers, or into a group of its own.
  void place(Operation* op) {
    refuse_across_slots(op);
    if (is_root(op)) {
      auto matmul = llvm::dyn_cast<tx::MatmulOp>(op);
      if (matmul && attend(matmul)) return;
      Group* group = &open(op);
      if (auto pack = llvm::dyn_cast<tx::PackOp>(op)) take_transpose(*group, pack);
      if (op->hasTrait<tx::JoinsRows>()) go_through_rows(*group);
      for (Value operand : op->getOperands()) {
        if (producer(operand) != group) refuse_if_produced(operand, op, "RootAfterProducer");
      }
      return;
    }
    if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op); transpose && ends_contraction(transpose)) {
      join(*producer(transpose.getInput()), op);
      return;
    }
    if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op); transpose && ends_attention(transpose)) return;
    if (!tx::is_elementwise(op)) {  // other transposes, slices, pads and concats have kernels of their own
      for (Value operand : op->getOperands()) refuse_if_produced(operand, op, "DataMovement");
      open(op);
      return;
    }
    Group* best = nullptr;
    for (Value operand : op->getOperands()) {
      Group* candidate = producer(operand);
      if (!candidate) continue;
      if (!operand.hasOneUse() && join_all_uses(*candidate, operand, op)) return;
      if (!can_join(*candidate, operand, op)) continue;
      bool better = !best || std::make_pair(tx::is_contraction(candidate->root), position_[candidate->output]) >
                                 std::make_pair(tx::is_contraction(best->root), position_[best->output]);
      if (better) best = candidate;
    }
    if (!best) {
      open(op);
      return;
    }
    best->reads = reads_with(*best, op);
    join(*best, op);
    merge_other_producers(*best, op);
  }

  // Makes an op, which reads the group's output, its last one.
  void join(Group& group, Operation* op) {
    group.ops.insert(op);
    group.output = op;
    group_of_[op] = &group;
  }

  // The element-wise ops through which all uses of a value come together in one op again, which is the last of them, as in x * sigmoid(x); empty if they do
  // not. In program order.
  std::vector<Operation*> ops_to_one(Value value) const {
    constexpr size_t most = 64;
    std::vector<Operation*> found;
    auto later = [&](Operation* a, Operation* b) { return position_.lookup(a) < position_.lookup(b); };
    std::set<Operation*, decltype(later)> waiting(later);  // that read one of these values
    waiting.insert(value.user_begin(), value.user_end());
    while (found.size() < most) {
      Operation* op = *waiting.begin();
      waiting.erase(waiting.begin());
      if (!tx::is_elementwise(op) || group_of_.contains(op)) return {};
      found.push_back(op);
      if (waiting.empty()) return found;
      Value result = op->getResult(0);
      if (result.use_empty()) return {};
      waiting.insert(result.user_begin(), result.user_end());
    }
    return {};
  }

  // Whether the value is made before the op, or is a view of what is.
  bool is_known_before(Value value, Operation* op) const {
    Operation* from = value.getDefiningOp();
    while (from && tx::is_view(from)) from = from->getOperand(0).getDefiningOp();
    return !from || llvm::isa<tx::ConstantOp, tx::ParameterOp>(from) || position_.lookup(from) < position_.lookup(op);
  }

  // The ops that go on with the rows of the group's reduction, in program order, as many as leave one value for the others; nothing between two of them
  // is elsewhere.
  std::vector<Operation*> ops_of_rows(Operation* first) const {
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
      // What else it reads was there before the first one: a region does not wait for others than that.
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

  // Puts what goes on with the rows of the group's reduction into the group, and the element-wise groups that nothing else reads: those that these ops read, and what
  // such groups read in turn, as far as there is a kernel.
  void go_through_rows(Group& group) {
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

  // Adds the element-wise groups that only ops of this one read: the input of a root mean square, say, which is squared and divided. Not what a look-up reads, which is of
  // another shape. Whether there were any.
  bool absorb_producers(Group& group, Group& wider, std::vector<Group*>& absorbed) {
    const size_t before = absorbed.size();
    size_t count = wider.ops.size();
    for (Operation* op : wider.ops.getArrayRef()) {
      if (op->hasTrait<tx::LookUp>()) continue;
      for (Value operand : op->getOperands()) {
        Group* other = producer(operand);
        if (!other || other == &group || !tx::is_elementwise(other->root) || llvm::is_contained(absorbed, other)) continue;
        const bool is_last = other->output == operand.getDefiningOp(), fits = count + other->ops.size() <= most_ops_of_rows;
        if (!is_last || !fits || !llvm::all_of(operand.getUsers(), [&](Operation* user) { return wider.ops.contains(user); })) continue;
        absorbed.push_back(other);
        count += other->ops.size();
      }
    }
    for (Group* other : ArrayRef(absorbed).drop_front(before)) wider.ops.insert(other->ops.begin(), other->ops.end());
    return absorbed.size() > before;
  }

  void count_reads(Group& group) const {
    group.reads.clear();
    for (Operation* op : group.ops) {
      for (Value operand : op->getOperands()) {
        if (Value read = binding_for(group, op, operand)) group.reads.insert(read);
      }
    }
  }

  // The group becomes one that has all ops of these others.
  void replace(Group& group, Group wider, ArrayRef<Group*> others) {
    group = std::move(wider);
    for (Operation* op : group.ops) group_of_[op] = &group;
    for (auto& owned : groups_) {
      if (llvm::is_contained(others, owned.get())) owned.reset();
    }
  }

  // A product that reads a softmax of another product joins both, with what is only moved or computed for them, where there is a kernel for that.
  bool attend(tx::MatmulOp second) {
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
      for (size_t before = 0; before != whole.ops.size();) {  // what joins may be for masks that follow from indices
        before = whole.ops.size();
        take_index_expressions(whole, own);
        absorb_movement(whole, others, with_parts);
      }
      count_reads(whole);
      const bool has_many = whole.reads.size() > most_reads_;
      if (has_many)
        reason = "it would read " + std::to_string(whole.reads.size()) + " values, a kernel reads at most " + std::to_string(most_reads_);
      if (has_many || !has_kernel(whole, &reason)) {
        give_back(own);
        continue;
      }
      replace(*rows, std::move(whole), others);
      llvm::SetVector<Operation*> originals;
      for (auto& [use, original] : own.uses) originals.insert(original.getDefiningOp());
      for (Operation* original : originals) {
        if (position_.contains(original)) drop_unused(original);  // it may have gone with another one
      }
      return true;
    }
    return refuse("NoKernel", *rows, second, reason);
  }

  // A matrix is packed as it lies, whichever of its dimensions comes first.
  void take_transpose(Group& group, tx::PackOp pack) {
    auto transpose = pack.getInput().getDefiningOp<tx::TransposeOp>();
    Group* moved = producer(pack.getInput());
    if (!transpose || !moved || moved->ops.size() != 1 || !transpose->hasOneUse() || pack.getGroups() != 1) return;
    if (transpose.getPermutation() != ArrayRef<int64_t>{1, 0}) return;
    Group whole = group;
    whole.ops.insert(transpose);
    count_reads(whole);
    replace(group, std::move(whole), {moved});
  }

  // What a group computes of indices by itself, though others may do so, too.
  struct OwnIndices {
    SmallVector<Operation*> copies;
    SmallVector<std::pair<OpOperand*, Value>> uses;  // and what they read before
  };

  void take_index_expressions(Group& group, OwnIndices& own) {
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

  void give_back(OwnIndices& own) {
    for (auto& [use, original] : own.uses) use->set(original);
    for (Operation* copy : llvm::reverse(own.copies)) {
      position_.erase(copy);
      copy->erase();
    }
  }

  // Removes an op that nothing reads, with its group, and then those that it was for.
  void drop_unused(Operation* op) {
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
      group_of_.erase(one);
      position_.erase(one);
      one->erase();
    }
    for (Operation* source : sources) {
      if (position_.contains(source)) drop_unused(source);
    }
  }

  // Takes in what computes or moves elements for the group alone. Of parts that are joined or cut, every element is computed for each part, which
  // a few may be.
  void absorb_movement(Group& group, std::vector<Group*>& absorbed, bool with_parts) {
    auto is_simple = [&](Operation* op) {
      if (with_parts && (llvm::isa<tx::SliceOp>(op) || is_narrow_concat(op))) return true;
      return tx::is_elementwise(op) || tx::is_view(op) || llvm::isa<tx::TransposeOp>(op);
    };
    auto is_ours = [&](Value value) { return llvm::all_of(value.getUsers(), [&](Operation* user) { return group.ops.contains(user); }); };
    size_t parts = 0;
    for (size_t before = 0; before != group.ops.size();) {  // what several of its ops read is known to be its own when it has all of them
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

  static size_t parts_of(const Group& group) {
    return static_cast<size_t>(llvm::count_if(group.ops, [](Operation* op) { return llvm::isa<tx::SliceOp, tx::ConcatOp>(op); }));
  }

  // What only moves elements, and whatever else is computed for that or from that alone, is one region, where neighbors stay neighbors: a rotation
  // of halves, which is slices, a concat and products, or a part that is cut out of something and transposed. At the end there may be a concat of anything: each part is
  // computed where it is stored.
  void take_in_producers() {
    auto is_movement = [](Operation* op) { return llvm::isa<tx::SliceOp>(op) || is_narrow_concat(op) || keeps_neighbors(op); };
    auto is_simple = [&](Operation* op) { return tx::is_elementwise(op) || is_movement(op); };
    auto may_take = [&](const Group& group, const Group& other) {
      auto moves = [&](const Group& one) { return llvm::any_of(one.ops, is_movement) || llvm::isa<tx::ConcatOp>(one.output); };
      if (!(moves(group) || moves(other)) || !llvm::all_of(other.ops, is_simple)) return false;
      if (group.ops.size() + other.ops.size() > most_ops_of_rows || parts_of(group) + parts_of(other) > most_parts) return false;
      bool computes = llvm::any_of(group.ops, tx::is_elementwise) || llvm::any_of(other.ops, tx::is_elementwise);
      if (llvm::any_of(other.ops, is_narrow_concat) && !computes) return false;  // they would be copied twice
      // What a concat joins is computed for each of its parts, unless it is the last op, whose parts are stored one by one.
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
      if (wider.reads.size() > most_reads_ || (devices_ && !has_kernel(wider))) {
        give_back(moves);
      } else {
        replace(*groups_[g], std::move(wider), taken);
      }
    }
  }

  // Reshapes that became transposes, which a region may have inside.
  using UnitMoves = SmallVector<std::pair<tx::TransposeOp, tx::ReshapeOp>>;

  // Null if it is no transpose that keeps neighbors.
  Operation* move_by_transpose(tx::ReshapeOp reshape, UnitMoves& moves) {
    auto permutation = permutation_of(reshape);
    if (!permutation) return nullptr;
    OpBuilder builder(reshape);
    auto transpose = builder.create<tx::TransposeOp>(reshape.getLoc(), reshape.getType(), reshape.getInput(), *permutation);
    position_[transpose] = position_.lookup(reshape);
    reshape.getResult().replaceAllUsesWith(transpose);
    moves.emplace_back(transpose, reshape);
    return transpose;
  }

  void give_back(UnitMoves& moves) {
    for (auto [transpose, reshape] : llvm::reverse(moves)) {
      transpose.getResult().replaceAllUsesWith(reshape.getResult());
      position_.erase(transpose);
      transpose.erase();
    }
  }

  // Products with the same left operand, each with what is behind it, where all that they read is there before the first one, and the last one is not far.
  void join_siblings() {
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
      while (groups.size() > 1) join_first(groups);
    }
  }

  // Joins the first of these groups with those behind it that fit, and takes all of them out.
  void join_first(SmallVector<Group*>& groups) {
    Group* first = groups.front();
    Group wider = *first;
    std::vector<Group*> others;
    for (Group* other : ArrayRef(groups).drop_front()) {
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

  // Moves constants and views to before the op, where they are needed from now on.
  void raise(Value value, Operation* before) {
    Operation* from = value.getDefiningOp();
    if (!from || from->isBeforeInBlock(before)) return;
    for (Value operand : from->getOperands()) raise(operand, before);
    from->moveBefore(before);
  }

  // A transpose that alone reads such a group's result.
  bool ends_attention(tx::TransposeOp transpose) {
    Group* group = producer(transpose.getInput());
    if (!group || !group->attends || group->output != transpose.getInput().getDefiningOp() || !transpose.getInput().hasOneUse())
      return false;
    Group wider = *group;
    wider.ops.insert(transpose);
    wider.output = transpose;
    if (!has_kernel(wider)) return false;
    replace(*group, std::move(wider), {});
    return true;
  }

  // Whether devices that the group may run on have a kernel of its kind; why not.
  bool has_kernel(Group& group, std::string* why_not = nullptr) {
    if (!devices_) return false;
    tx::DispatchOp region = make_region(group);
    bool result = devices_->has_kernel(family_of(group), region, why_not);
    region.erase();
    return result;
  }

  // Puts all uses of the group's value, which are several, into the group if only one value leaves it then. No value that these ops read depends on the
  // group in another way: nothing else reads what is inside.
  bool join_all_uses(Group& group, Value value, Operation* op) {
    if (!may_go_on(group, value)) return false;
    std::vector<Operation*> ops = ops_to_one(value);
    if (ops.empty()) return false;
    if (!is_map(group.root)) {
      Type type = group.root->getResult(0).getType();
      for (Operation* member : ops) {
        bool is_bool = tx::tensor(member->getResult(0)).getElementType().isInteger(1) && member != ops.back();
        if (!is_bool && member->getResult(0).getType() != type) return false;
        for (Value operand : member->getOperands()) {
          Operation* from = operand.getDefiningOp();
          bool is_inside = from && llvm::is_contained(ops, from);
          if (!is_inside && operand.getType() != type) return false;
        }
      }
    }
    Group wider = group;
    for (Operation* member : ops) wider.ops.insert(member);
    for (Operation* member : ops) wider.reads = reads_with(wider, member);
    if (wider.reads.size() > most_reads_) return refuse("TooManyBindings", group, op);
    group.reads = std::move(wider.reads);
    for (Operation* member : ops) join(group, member);
    for (Operation* member : ops) merge_other_producers(group, member);
    return true;
  }

  // May a contraction store its result in the order that this transpose asks for, with rows, or pixels, innermost instead of columns? Where devices have a kernel
  // that does so, as those whose tiles lie in shared memory whole. What is read beside the contraction must not be in the other order.
  bool ends_contraction(tx::TransposeOp transpose) {
    Group* group = producer(transpose.getInput());
    if (!group || group->output != transpose.getInput().getDefiningOp() || !transpose.getInput().hasOneUse()) return false;
    if (!tx::is_contraction(group->root) || llvm::isa<tx::TransposeOp>(group->output)) return false;
    auto conv = llvm::dyn_cast<tx::ConvOp>(group->root);
    if ((conv && conv.getGroups() > 1) || !tx::puts_rows_last(transpose, group->root)) return false;
    bool is_in_order = llvm::all_of(group->ops, [&](Operation* op) {
      return op == group->root || llvm::all_of(op->getOperands(), [&](Value operand) {
               Operation* from = operand.getDefiningOp();
               return (from && group->ops.contains(from)) || clones(*group, op, operand);
             });
    });
    if (!is_in_order) return false;
    Group wider = *group;
    wider.ops.insert(transpose);
    wider.output = transpose;
    return has_kernel(wider);
  }

  // What a transfer brings was produced on another slot: there is no group to join, but a reason to give.
  void refuse_across_slots(Operation* op) {
    auto behind_views = [](Value value) {
      while (value.getDefiningOp() && tx::is_view(value.getDefiningOp())) value = value.getDefiningOp()->getOperand(0);
      return value;
    };
    for (Value operand : op->getOperands()) {
      auto transfer = behind_views(operand).getDefiningOp<tx::TransferOp>();
      if (transfer) refuse_if_produced(behind_views(transfer.getInput()), op, "SlotBoundary");
    }
  }

  // Nothing joins an operator of a plugin, or what one may run, on either side.
  void refuse_around_operations(Operation* op) {
    auto is_operation = [](Operation* one) {
      auto region = llvm::dyn_cast_or_null<tx::DispatchOp>(one);
      return llvm::isa_and_nonnull<tx::CustomOp>(one) || (region && region.getAlternative());
    };
    for (Value operand : op->getOperands()) {
      if (is_operation(op)) refuse_if_produced(operand, op, "LibraryBoundary");
      Operation* producer = operand.getDefiningOp();
      if (is_operation(producer) && group_of_.contains(op)) note(log_, "LibraryBoundary", producer, op);
    }
  }

  // Groups of maps that only this op reads become part of a group of maps.
  void merge_other_producers(Group& group, Operation* op) {
    if (!is_map(group.root)) return;
    for (Value operand : op->getOperands()) {
      Group* other = producer(operand);
      if (!other || other == &group || !is_map(other->root) || !operand.hasOneUse()) continue;
      llvm::DenseSet<Value> reads = group.reads;
      reads.erase(operand);
      reads.insert(other->reads.begin(), other->reads.end());
      if (reads.size() > most_reads_) {
        refuse("TooManyBindings", *other, op);
        continue;
      }
      group.reads = std::move(reads);
      for (Operation* member : other->ops) {
        group.ops.insert(member);
        group_of_[member] = &group;
      }
      for (auto& owned : groups_) {
        if (owned.get() == other) owned.reset();
      }
    }
  }

  Group* producer(Value value) const {
    Operation* op = value.getDefiningOp();
    auto it = op ? group_of_.find(op) : group_of_.end();
    return it == group_of_.end() ? nullptr : it->second;
  }

  // Whether element-wise ops on the group's last value may be part of it.
  static bool may_go_on(const Group& group, Value value) {
    if (group.output != value.getDefiningOp()) return false;
    if (tx::is_contraction(group.root) && llvm::isa<tx::TransposeOp>(group.output)) return false;
    if (group.has_rows) return false;  // it has all that it can have
    return is_root(group.root) ? group.root->hasTrait<tx::TakesEpilogue>() : is_map(group.root);
  }

  bool can_join(Group& group, Value value, Operation* op) {
    if (group.output != value.getDefiningOp()) return false;
    if (!value.hasOneUse()) return refuse("MultipleUses", group, op);
    if (tx::is_contraction(group.root) && llvm::isa<tx::TransposeOp>(group.output)) return refuse("DataMovement", group, op);
    if (group.has_rows) return refuse("IterationDomainMismatch", group, op);  // it has all that goes on with its rows
    if (is_root(group.root) && !is_map(group.root)) {
      if (!group.root->hasTrait<tx::TakesEpilogue>()) return refuse("NoEpilogue", group, op);
      if (op->getResult(0).getType() != group.root->getResult(0).getType()) return refuse("IterationDomainMismatch", group, op);
      for (Value other : op->getOperands()) {
        if (other.getType() != value.getType()) return refuse("IterationDomainMismatch", group, op);
      }
    } else if (!is_map(group.root)) {
      return refuse("DataMovement", group, op);
    }
    if (reads_with(group, op).size() > most_reads_) return refuse("TooManyBindings", group, op);
    return true;
  }

  // What the group reads if the op, which reads its output, joins it.
  llvm::DenseSet<Value> reads_with(const Group& group, Operation* op) const {
    llvm::DenseSet<Value> reads = group.reads;
    for (Value operand : op->getOperands()) {
      if (Value read = binding_for(group, op, operand)) reads.insert(read);
    }
    return reads;
  }

  bool refuse(StringRef kind, Group& group, Operation* op, StringRef reason = {}) {
    note(log_, kind, group.output, op, reason);
    return false;
  }

  void refuse_if_produced(Value value, Operation* op, StringRef kind) {
    if (Group* group = producer(value)) refuse(kind, *group, op);
  }

  // May this group read the broadcast by repeating it inside?
  bool reads_inside(const Group& group, tx::BroadcastOp broadcast) const {
    if (is_map(group.root) || group.has_rows) return true;
    if (!is_root(group.root)) return false;
    return !tx::is_contraction(group.root) || !devices_ || devices_->reads_behind_contraction(family_of(group), broadcast);
  }
  StringRef family_of(const Group& group) const {
    return tx::family_of(function_->getParentOfType<ModuleOp>(), slots_.of_or_default(group.root));
  }

  // Broadcasts that somebody needs as a tensor get kernels of their own.
  void materialize_broadcasts() {
    for (Operation& op : llvm::make_early_inc_range(function_.getBody().front())) {
      auto broadcast = llvm::dyn_cast<tx::BroadcastOp>(op);
      if (!broadcast) continue;
      bool needed = llvm::any_of(broadcast->getUses(), [&](OpOperand& use) {
        auto it = group_of_.find(use.getOwner());
        if (it == group_of_.end()) return true;
        const Group& group = *it->second;
        return !reads_inside(group, broadcast) || needs_tensors(group, use.getOwner());
      });
      if (needed) open(&op);
    }
  }

  // Does this op of the group read its operands at other places than its own result's?
  static bool needs_tensors(const Group& group, Operation* reader) {
    return !group.has_rows && ((reader == group.root && is_root(reader)) || reader->hasTrait<tx::LookUp>());
  }

  bool clones(const Group& group, Operation* reader, Value operand) const {
    Operation* op = operand.getDefiningOp();
    if (!op || group.ops.contains(op)) return false;
    if (needs_tensors(group, reader)) return false;
    if (is_splat(operand)) return true;
    auto broadcast = llvm::dyn_cast<tx::BroadcastOp>(op);
    return broadcast && reads_inside(group, broadcast);
  }

  // What the group needs a binding for, to read this operand of one of its ops; null for nothing. A broadcast counts as itself, whatever it repeats:
  // somebody else may need it as a tensor, and then all read that.
  Value binding_for(const Group& group, Operation* reader, Value operand) const {
    Operation* op = operand.getDefiningOp();
    bool is_made_inside = op && group.ops.contains(op);
    return is_made_inside || (is_splat(operand) && clones(group, reader, operand)) ? Value() : operand;
  }

  // "main.3.softmax": the function, a number in program order, and what it is built around or was a node of, which is its name until now. Regions
  // that somebody wrote have a name.
  void name_regions() {
    unsigned index = 0;
    for (auto region : function_.getBody().front().getOps<tx::DispatchOp>()) {
      if (!outlined_.contains(region) && !region.getAlternative()) continue;
      region.setName(function_.getName().str() + "." + std::to_string(index++) + "." + region.getName().str());
    }
  }

  void outline(Group& group) {
    tx::DispatchOp dispatch = make_region(group);
    outlined_.insert(dispatch);
    group.output->getResult(0).replaceAllUsesWith(dispatch.getResult(0));
    for (auto [i, sibling] : llvm::enumerate(group.siblings)) sibling->getResult(0).replaceAllUsesWith(dispatch.getResult(i + 1));
  }

  // A region of the group's ops, which nothing reads yet.
  tx::DispatchOp make_region(Group& group) {
    SmallVector<Operation*> ops(group.ops.begin(), group.ops.end());
    llvm::sort(ops, [&](Operation* a, Operation* b) { return position_[a] < position_[b]; });

    llvm::SetVector<Value> inputs;
    auto note = [&](Value value) {
      Operation* op = value.getDefiningOp();
      if (!op || !group.ops.contains(op)) inputs.insert(value);
    };
    for (Operation* op : ops) {
      for (Value operand : op->getOperands()) {
        if (!clones(group, op, operand)) {
          note(operand);
        } else if (auto broadcast = operand.getDefiningOp<tx::BroadcastOp>(); broadcast && !is_splat(broadcast.getInput())) {
          note(broadcast.getInput());
        }
      }
    }
    Operation* output = group.output;
    SmallVector<Value> results = {output->getResult(0)};
    for (Operation* sibling : group.siblings) results.push_back(sibling->getResult(0));
    OpBuilder builder(output);
    auto dispatch = builder.create<tx::DispatchOp>(group.root->getLoc(), ValueRange(results).getTypes(), inputs.getArrayRef(),
                                                   group.root->getName().stripDialect().str(), /*tied=*/nullptr,
                                                   slots_.of_or_default(group.root), /*alternative=*/nullptr);
    Block* block = builder.createBlock(&dispatch.getBody());
    IRMapping inside;
    for (Value input : inputs) inside.map(input, block->addArgument(input.getType(), input.getLoc()));
    for (Operation* op : ops) {
      for (Value operand : op->getOperands()) {
        if (inside.contains(operand)) continue;
        Operation* source = operand.getDefiningOp();
        if (auto broadcast = llvm::dyn_cast<tx::BroadcastOp>(source)) {
          if (!inside.contains(broadcast.getInput())) builder.clone(*broadcast.getInput().getDefiningOp(), inside);
        }
        builder.clone(*source, inside);
      }
      builder.clone(*op, inside);
    }
    builder.create<tx::YieldOp>(output->getLoc(), llvm::map_to_vector(results, [&](Value result) { return inside.lookup(result); }));
    for (Operation& op : *block) op.removeAttr(tx::slot_attr);  // regions that are alike share a kernel, whatever their slot
    return dispatch;
  }

  func::FuncOp function_;
  const unsigned most_reads_;  // of a region
  Log& log_;
  const Devices* devices_;  // null: none are asked
  Slots slots_;             // of the function as it was
  std::vector<std::unique_ptr<Group>> groups_;
  llvm::DenseMap<Operation*, Group*> group_of_;
  llvm::DenseMap<Operation*, unsigned> position_;
  llvm::DenseSet<Operation*> outlined_;
};

}  // namespace

LogicalResult form_regions(func::FuncOp function, unsigned most_bindings, SmallVector<Attribute>& log, const Devices* devices) {
  const unsigned most_reads = most_bindings - bindings_of_results;
  split_wide_concats(function, most_reads, log);
  return Former(function, most_reads, log, devices).run();
}

namespace {

struct FormDispatches : PassWrapper<FormDispatches, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FormDispatches)
  StringRef getArgument() const final { return "heddle-form-dispatches"; }
  StringRef getDescription() const final { return "relu(add(conv(x, w), broadcast b))  ->  dispatch(x, w, b) { the same }"; }
  void runOnOperation() override {
    constexpr unsigned fewest = 4;  // of tx.select
    if (most_bindings < fewest) {
      getOperation()->emitError("heddle-form-dispatches: most-bindings ") << most_bindings.getValue() << " is less than " << fewest;
      return signalPassFailure();
    }
    Log log;
    // Where no families are named there is nobody to ask.
    const Devices* devices = getOperation()->hasAttr(tx::families_attr) ? &devices_ : nullptr;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(form_regions(function, most_bindings, log, devices))) return signalPassFailure();
    }
    getOperation()->setAttr(tx::fusion_log_attr, ArrayAttr::get(&getContext(), log));
  }

  void getDependentDialects(DialectRegistry& registry) const override { devices_.register_dialects(registry); }

  explicit FormDispatches(const Devices& devices) : devices_(devices) {}
  FormDispatches(const FormDispatches& other) : PassWrapper(other), devices_(other.devices_) {}
  Option<unsigned> most_bindings{*this, "most-bindings", llvm::cl::desc("bindings of a region, at most"),
                                 llvm::cl::init(passes::most_bindings)};
  const Devices& devices_;
};

}  // namespace

std::unique_ptr<Pass> form_dispatches(const Devices& devices) {
  return std::make_unique<FormDispatches>(devices);
}

}  // namespace heddle::passes
