// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups: how ops join them, what prevents it, and how groups become regions.
#include "compiler/passes/fusion.h"
#include "compiler/ir/control.h"
#include "compiler/passes/join_regions.h"

#include <set>

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::passes {
namespace {

bool is_root(Operation* op) {
  return tx::is_contraction(op) || tx::has_only_stages(op) || llvm::isa<tx::PackOp>(op);
}

// Ops of which a region may have any number; each element depends only on the elements that it reads.
bool is_map(Operation* op) {
  return tx::is_elementwise(op) || op->hasTrait<tx::LookUp>() || llvm::isa<tx::IotaOp>(op);
}

// Constants, parameters, reshapes (views of the same bytes), broadcasts (repeated inside the regions that read them), transfers, operators of
// plugins, branches and loops, and nodes that are already a region because a plugin may run them.
bool stays_outside(Operation* op) {
  return tx::is_view(op) || tx::stays_apart(op) || llvm::isa<tx::ConstantOp, tx::ParameterOp, tx::TransferOp, tx::DispatchOp>(op);
}

}  // namespace

bool is_splat(Value value) {
  auto constant = value.getDefiningOp<tx::ConstantOp>();
  return constant && llvm::isa<SplatElementsAttr>(constant.getValue());
}

Attribute refusal(StringRef kind, Operation* producer, Operation* consumer, StringRef reason) {
  Builder builder(consumer->getContext());
  SmallVector<NamedAttribute> fields;
  auto add = [&](StringRef name, StringRef text) { fields.push_back(builder.getNamedAttr(name, builder.getStringAttr(text))); };
  add("kind", kind);
  add("producer", tx::describe(producer));
  add("consumer", tx::describe(consumer));
  if (!reason.empty()) add("reason", reason);
  return builder.getDictionaryAttr(fields);
}

LogicalResult Fuser::run() {
  if (Operation* torn = slots_.torn()) return torn->emitError("has operands on several slots; run heddle-place-ops first");
  unsigned position = 0;
  for (Operation& op : function_.getBody().front()) position_[&op] = position++;
  for (Operation& op : function_.getBody().front()) {
    bool has_group = group_of_.contains(&op);  // already joined, with a value of several uses or of rows
    if (llvm::isa_and_nonnull<tx::TxDialect>(op.getDialect()) && !stays_outside(&op) && !has_group) place(&op);
    refuse_around_operations(&op);
  }
  materialize_broadcasts();
  take_in_producers();
  join_siblings();
  take_in_slices();
  SmallVector<Group*> order;
  for (auto& group : groups_) {
    if (group) order.push_back(group.get());
  }
  llvm::sort(order, [&](Group* a, Group* b) { return position_[a->output] < position_[b->output]; });
  llvm::DenseMap<Group*, Operation*> regions;
  for (Group* group : order) regions[group] = outline(*group);
  for (Operation& op : llvm::make_early_inc_range(llvm::reverse(function_.getBody().front()))) {
    if (isOpTriviallyDead(&op)) op.erase();
  }
  if (devices_ && function_.getName() != tx::initializer_name) join_regions(regions);  // its steps are read one by one
  for (const Refusal& one : refusals_) {                                               // whose ops may be gone
    Operation* region = regions.lookup(group_of_.lookup(one.producer));
    if (!region || region != regions.lookup(group_of_.lookup(one.consumer))) log_.push_back(one.text);
  }
  name_regions();
  return success();
}

Group& Fuser::open(Operation* op) {
  groups_.push_back(std::make_unique<Group>(Group{op, {}, op, {}}));
  Group& group = *groups_.back();
  for (Value operand : op->getOperands()) {
    if (Value read = binding_for(group, op, operand)) group.reads.insert(read);
  }
  group.ops.insert(op);
  group_of_[op] = &group;
  return group;
}

void Fuser::place(Operation* op) {
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
  std::string why_not;
  if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op); transpose && ends_contraction(transpose, why_not)) {
    join(*producer(transpose.getInput()), op);
    return;
  }
  if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op); transpose && ends_attention(transpose, why_not)) return;
  if (!tx::is_elementwise(op)) {  // other transposes, slices, pads and concats have their own kernels
    for (Value operand : op->getOperands()) refuse_if_produced(operand, op, "DataMovement", why_not);
    open(op);
    return;
  }
  if (goes_on_with_attention(op)) return;
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

void Fuser::join(Group& group, Operation* op) {
  group.ops.insert(op);
  group.output = op;
  group_of_[op] = &group;
}

std::vector<Operation*> Fuser::ops_to_one(Value value) const {
  constexpr size_t most = 64;
  std::vector<Operation*> found;
  auto later = [&](Operation* a, Operation* b) { return position_.lookup(a) < position_.lookup(b); };
  std::set<Operation*, decltype(later)> waiting(later);  // ops that read one of these values
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

void Fuser::count_reads(Group& group) const {
  group.reads.clear();
  for (Operation* op : group.ops) {
    for (Value operand : op->getOperands()) {
      if (Value read = binding_for(group, op, operand)) group.reads.insert(read);
    }
  }
}

void Fuser::replace(Group& group, Group wider, ArrayRef<Group*> others) {
  group = std::move(wider);
  for (Operation* op : group.ops) group_of_[op] = &group;
  for (auto& owned : groups_) {
    if (llvm::is_contained(others, owned.get())) owned.reset();
  }
}

size_t Fuser::parts_of(const Group& group) {
  return static_cast<size_t>(llvm::count_if(group.ops, [](Operation* op) { return llvm::isa<tx::SliceOp, tx::ConcatOp>(op); }));
}

bool Fuser::has_kernel(Group& group, std::string* why_not) {
  if (!devices_) return false;
  tx::DispatchOp region = make_region(group);
  bool result = devices_->has_kernel(family_of(group), region, why_not);
  region.erase();
  return result;
}

bool Fuser::join_all_uses(Group& group, Value value, Operation* op) {
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

bool Fuser::ends_contraction(tx::TransposeOp transpose, std::string& why_not) {
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
  return has_kernel(wider, &why_not);
}

void Fuser::refuse_across_slots(Operation* op) {
  auto behind_views = [](Value value) {
    while (value.getDefiningOp() && tx::is_view(value.getDefiningOp())) value = value.getDefiningOp()->getOperand(0);
    return value;
  };
  for (Value operand : op->getOperands()) {
    auto transfer = behind_views(operand).getDefiningOp<tx::TransferOp>();
    if (transfer) refuse_if_produced(behind_views(transfer.getInput()), op, "SlotBoundary");
  }
}

void Fuser::refuse_around_operations(Operation* op) {
  auto is_operation = [](Operation* one) {
    auto region = llvm::dyn_cast_or_null<tx::DispatchOp>(one);
    return llvm::isa_and_nonnull<tx::CustomOp>(one) || (region && region.getAlternative());
  };
  for (Value operand : op->getOperands()) {
    if (is_operation(op)) refuse_if_produced(operand, op, "LibraryBoundary");
    Operation* producer = operand.getDefiningOp();
    if (is_operation(producer) && group_of_.contains(op)) refusals_.push_back({producer, op, refusal("LibraryBoundary", producer, op)});
  }
}

void Fuser::merge_other_producers(Group& group, Operation* op) {
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

Group* Fuser::producer(Value value) const {
  Operation* op = value.getDefiningOp();
  auto it = op ? group_of_.find(op) : group_of_.end();
  return it == group_of_.end() ? nullptr : it->second;
}

bool Fuser::may_go_on(const Group& group, Value value) {
  if (group.output != value.getDefiningOp()) return false;
  if (tx::is_contraction(group.root) && llvm::isa<tx::TransposeOp>(group.output)) return false;
  if (group.has_rows) return false;  // it is complete
  return is_root(group.root) ? group.root->hasTrait<tx::TakesEpilogue>() : is_map(group.root);
}

bool Fuser::can_join(Group& group, Value value, Operation* op) {
  if (group.output != value.getDefiningOp()) return false;
  if (!value.hasOneUse()) return refuse("MultipleUses", group, op);
  if (tx::is_contraction(group.root) && llvm::isa<tx::TransposeOp>(group.output)) return refuse("DataMovement", group, op);
  if (group.attends) return false;                                          // goes_on_with_attention has said why
  if (group.has_rows) return refuse("IterationDomainMismatch", group, op);  // it has all ops that go on with its rows
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

llvm::DenseSet<Value> Fuser::reads_with(const Group& group, Operation* op) const {
  llvm::DenseSet<Value> reads = group.reads;
  for (Value operand : op->getOperands()) {
    if (Value read = binding_for(group, op, operand)) reads.insert(read);
  }
  return reads;
}

bool Fuser::refuse(StringRef kind, Group& group, Operation* op, StringRef reason) {
  refusals_.push_back({group.output, op, refusal(kind, group.output, op, reason)});
  return false;
}

void Fuser::refuse_if_produced(Value value, Operation* op, StringRef kind, StringRef reason) {
  if (Group* group = producer(value)) refuse(kind, *group, op, reason);
}

bool Fuser::reads_inside(const Group& group, tx::BroadcastOp broadcast) const {
  if (is_map(group.root) || group.has_rows) return true;
  if (!is_root(group.root)) return false;
  return !tx::is_contraction(group.root) || !devices_ || devices_->reads_behind_contraction(family_of(group), broadcast);
}

StringRef Fuser::family_of(const Group& group) const {
  return tx::family_of(function_->getParentOfType<ModuleOp>(), slots_.of_or_default(group.root));
}

void Fuser::materialize_broadcasts() {
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

bool Fuser::needs_tensors(const Group& group, Operation* reader) {
  return !group.has_rows && ((reader == group.root && is_root(reader)) || reader->hasTrait<tx::LookUp>());
}

bool Fuser::clones(const Group& group, Operation* reader, Value operand) const {
  Operation* op = operand.getDefiningOp();
  if (!op || group.ops.contains(op)) return false;
  // The input of a scatter need not be in memory if it is one number.
  auto scatter = llvm::dyn_cast<tx::ScatterOp>(reader);
  if (scatter && is_splat(operand) && operand != scatter.getIndices() && operand != scatter.getUpdates()) return true;
  if (needs_tensors(group, reader)) return false;
  if (is_splat(operand)) return true;
  auto broadcast = llvm::dyn_cast<tx::BroadcastOp>(op);
  return broadcast && reads_inside(group, broadcast);
}

Value Fuser::binding_for(const Group& group, Operation* reader, Value operand) const {
  Operation* op = operand.getDefiningOp();
  bool is_made_inside = op && group.ops.contains(op);
  return is_made_inside || (is_splat(operand) && clones(group, reader, operand)) ? Value() : operand;
}

void Fuser::name_regions() {
  unsigned index = 0;
  for (auto region : function_.getBody().front().getOps<tx::DispatchOp>()) {
    if (!outlined_.contains(region) && !region.getAlternative()) continue;
    region.setName(function_.getName().str() + "." + std::to_string(index++) + "." + region.getName().str());
  }
}

void Fuser::join_regions(llvm::DenseMap<Group*, Operation*>& regions) {
  SmallVector<tx::DispatchOp> all;
  for (auto region : function_.getBody().front().getOps<tx::DispatchOp>()) {
    if (outlined_.contains(region)) all.push_back(region);
  }
  RegionJoiner joiner(function_, all, most_reads_ + 1, *devices_);
  joiner.run();
  for (auto& [group, region] : regions) region = joiner.now(region);
  outlined_.clear();
  outlined_.insert(joiner.regions().begin(), joiner.regions().end());
}

tx::DispatchOp Fuser::outline(Group& group) {
  tx::DispatchOp dispatch = make_region(group);
  outlined_.insert(dispatch);
  group.output->getResult(0).replaceAllUsesWith(dispatch.getResult(0));
  for (auto [i, sibling] : llvm::enumerate(group.siblings)) sibling->getResult(0).replaceAllUsesWith(dispatch.getResult(i + 1));
  return dispatch;
}

tx::DispatchOp Fuser::make_region(Group& group) {
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
                                                 group.root->getName().stripDialect(), slots_.of_or_default(group.root));
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
  for (Operation& op : *block) op.removeAttr(tx::slot_attr);  // equal regions share a kernel, whatever their slot
  return dispatch;
}

}  // namespace heddle::passes
