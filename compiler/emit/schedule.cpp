// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pass over the function in program order. Commands between two barriers may overlap in time, so a slice of the arena is in use from the
// barrier before its first use to the barrier after its last.
#include "compiler/emit/schedule.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "compiler/emit/scheduler.h"

using namespace mlir;

namespace heddle::emit {

FailureOr<std::unique_ptr<mf::ProgramT>> Scheduler::run() {
  for (const SlotTarget& slot : target_) program_->families.push_back(slot.family);
  if (failed(bind_symbols()) || failed(verify_checks()) || failed(check_given_extents()) || failed(find_parts())) return failure();
  check_extents();
  if (failed(find_aliases())) return failure();
  result_dims();
  add_fills();
  if (failed(add_ops())) return failure();
  if (!globals_.mistake().empty()) return function_.emitError(globals_.mistake());
  finish();
  return std::move(program_);
}

LogicalResult Scheduler::add_ops() {
  Block& block = function_.getBody().front();
  auto return_op = llvm::cast<func::ReturnOp>(block.getTerminator());
  assign_results(return_op);
  for (Operation& op : block) {
    for (auto symbol : unread_) {
      auto loop = llvm::dyn_cast<tx::LoopOp>(op);
      const bool is_own = loop && llvm::any_of(loop.varying(), [&](const auto& one) { return one.after == symbol; });
      if (!is_own && tx::mentions(&op, symbol)) return op.emitError("has an extent s") << symbol << ", which is read later";
    }
    if (auto dispatch = llvm::dyn_cast<tx::DispatchOp>(op)) {
      if (failed(add_dispatch(dispatch))) return failure();
    } else if (auto custom = llvm::dyn_cast<tx::CustomOp>(op)) {
      if (failed(add_operation(custom))) return failure();
    } else if (auto branch = llvm::dyn_cast<tx::IfOp>(op)) {
      if (failed(add_branch(branch))) return failure();
    } else if (auto loop = llvm::dyn_cast<tx::LoopOp>(op)) {
      if (failed(add_loop(loop))) return failure();
    } else if (auto read = llvm::dyn_cast<tx::ReadOp>(op)) {
      if (failed(add_read(read))) return failure();
    } else if (auto transfer = llvm::dyn_cast<tx::TransferOp>(op)) {
      add_transfer(transfer);
    } else if (!tx::has_same_bytes(&op) && !llvm::isa<tx::ConcatOp, tx::ConstantOp, tx::ParameterOp, func::ReturnOp>(op)) {
      return op.emitError("is in no dispatch");
    }
  }
  return copy_results(return_op);
}

uint32_t Scheduler::add_value(mf::ValueKind kind, uint32_t index) {
  auto [it, is_new] = values_.try_emplace({static_cast<uint32_t>(kind), index}, program_->values.size());
  if (is_new) program_->values.emplace_back(kind, index);
  return it->second;
}

uint32_t Scheduler::result_value(unsigned index) {
  if (nested_) return nested_->results[index];
  if (!initializer_ && !places_.results[index]) return locate(alias_of_result_.find(index)->second);
  if (!initializer_) return add_value(mf::ValueKind::Result, *places_.results[index]);
  auto name = llvm::cast<StringAttr>(function_.getResultAttr(index, tx::name_attr));
  auto type = llvm::cast<RankedTensorType>(function_.getFunctionType().getResult(index));
  uint32_t slot = slot_index(target_, tx::affinity_of(function_.getResultAttrDict(index)));
  return add_value(mf::ValueKind::Global, globals_.derived(name, slot, tx::byte_size(type)));
}

LogicalResult Scheduler::find_aliases() {
  if (initializer_) return success();
  for (BlockArgument argument : function_.getArguments()) {
    const std::optional<unsigned> result = tx::alias_of(argument);
    if (!result && tx::is_state(argument)) return function_.emitError("has state without ") << tx::alias_attr;
    if (!result) continue;
    auto name = [](DictionaryAttr attributes) { return attributes ? attributes.getAs<StringAttr>(tx::name_attr) : StringAttr(); };
    DictionaryAttr of_argument = function_.getArgAttrDict(argument.getArgNumber());
    if (*result >= own_result_count(function_) || function_.getResultTypes()[*result] != argument.getType() ||
        !alias_of_result_.try_emplace(*result, argument).second)
      return function_.emitError("has a malformed ") << tx::alias_attr;
    DictionaryAttr of_result = function_.getResultAttrDict(*result);
    if (tx::affinity_of(of_argument) != tx::affinity_of(of_result)) {
      return function_.emitError("input ") << name(of_argument) << " is on " << tx::affinity_of(of_argument) << " and output "
                                           << name(of_result) << " on " << tx::affinity_of(of_result)
                                           << ", so that they cannot have the same memory; place both on one slot, or remove "
                                           << (tx::is_state(argument) ? "--state" : "--alias");
    }
  }
  return success();
}

bool Scheduler::may_take_place(Value value, BlockArgument argument) {
  SmallVector<Operation*> makers;
  auto concat = value.getDefiningOp<tx::ConcatOp>();
  for (Value part : concat ? ValueRange(concat.getInputs()) : ValueRange(value)) {
    if (!part.getDefiningOp()) return false;
    makers.push_back(part.getDefiningOp());
  }
  SmallVector<Value> views = {argument};
  while (!views.empty()) {
    for (Operation* user : views.pop_back_val().getUsers()) {
      if (tx::has_same_bytes(user)) {
        views.push_back(user->getResult(0));
        continue;
      }
      auto region = llvm::dyn_cast<tx::DispatchOp>(user);
      bool in_place = false;
      if (region && region.getTied() && region == value.getDefiningOp()) {
        const int64_t overwritten = (*region.getTied())[llvm::cast<OpResult>(value).getResultNumber()];
        in_place = overwritten >= 0 && tx::storage_of(region.getInputs()[overwritten]) == argument;
      }
      if (!in_place && !llvm::all_of(makers, [user](Operation* maker) { return user->isBeforeInBlock(maker); })) return false;
    }
  }
  return true;
}

bool Scheduler::knows_extents(Value result, Value storage) {
  unsigned needed = 0;
  for (AffineExpr extent : tx::extents(tx::tensor(result))) needed = std::max(needed, registers_.read_of(registers_.value_of(extent)));
  if (needed == 0 || nested_) return true;
  Operation* last = reads_[needed - 1].op;
  auto concat = storage.getDefiningOp<tx::ConcatOp>();
  return llvm::all_of(concat ? ValueRange(concat.getInputs()) : ValueRange(storage), [last](Value part) {
    Operation* maker = part.getDefiningOp();
    return maker && last->isBeforeInBlock(maker);
  });
}

void Scheduler::wait_for_readers(uint32_t value) {
  const mf::Value described = program_->values[value];
  for (auto [result, argument] : alias_of_result_) {
    const bool is_it = !nested_ && places_.results[result]
                           ? described.kind() == mf::ValueKind::Result && described.index() == *places_.results[result]
                           : value == locate(argument);
    if (is_it && read_.contains(locate(argument))) return add_barrier();
  }
}

void Scheduler::assign_results(func::ReturnOp return_op) {
  for (auto [index, operand] : llvm::enumerate(return_op.getOperands())) {
    Value storage = tx::storage_of(operand);
    if (index == own_result_count(function_)) note_checks(return_op.getOperands().drop_front(index));
    if (index >= own_result_count(function_)) break;
    auto alias = alias_of_result_.find(static_cast<unsigned>(index));
    if (alias != alias_of_result_.end() && !may_take_place(storage, alias->second)) continue;
    if (!knows_extents(operand, storage)) continue;
    if (llvm::isa_and_nonnull<tx::ConcatOp, tx::DispatchOp, tx::TransferOp, tx::CustomOp, tx::IfOp, tx::LoopOp>(storage.getDefiningOp()) &&
        !location_.contains(storage))
      location_[storage] = result_value(index);
  }
}

void Scheduler::note_checks(ValueRange verdicts) {
  auto checks = function_->getAttrOfType<ArrayAttr>(tx::checks_attr);
  unsigned first = own_result_count(function_);
  if (!program_->checks) program_->checks = std::make_unique<mf::KernelChecksT>();
  first_check_ = static_cast<uint32_t>(program_->checks->all.size());
  for (auto [position, value, attribute] : llvm::enumerate(verdicts, checks)) {
    const uint32_t i = first_check_ + static_cast<uint32_t>(position);
    auto check = llvm::cast<DictionaryAttr>(attribute);
    auto [verdict, is_first] = verdicts_.try_emplace(value, i);
    Value storage = tx::storage_of(value);
    // A value that is also read elsewhere is copied: a program does not read verdicts.
    bool is_alone = llvm::all_of(value.getUsers(), [](Operation* user) { return llvm::isa<func::ReturnOp>(user); });
    if (is_first && storage == value && is_alone && llvm::isa_and_nonnull<tx::DispatchOp>(storage.getDefiningOp()) &&
        !location_.contains(storage))
      location_[storage] = add_value(mf::ValueKind::Verdict, i);
    bool is_index = check.getAs<StringAttr>("kind").getValue() == "index";
    uint32_t slot = slot_index(target_, tx::affinity_of(function_.getResultAttrDict(first + static_cast<unsigned>(position))));
    uint32_t limit = registers_.value_of(check.getAs<AffineMapAttr>("limit").getValue().getResult(0));
    std::string message = "node '" + shortened(check.getAs<StringAttr>("node").getValue()).str() + "'";
    if (auto where = check.getAs<StringAttr>("where")) message += ", " + where.str();
    if (!is_index) message += ": an integer is divided by zero";
    program_->checks->all.emplace_back(verdict->second, slot, is_index ? mf::CheckKind::Index : mf::CheckKind::Divisor, limit,
                                       static_cast<uint32_t>(program_->messages.size()));
    program_->messages.push_back(std::move(message));
  }
}

LogicalResult Scheduler::copy_results(func::ReturnOp return_op) {
  SmallVector<std::pair<uint32_t, uint32_t>> last;  // copies to memory of arguments
  for (auto [index, operand] : llvm::enumerate(return_op.getOperands())) {
    bool is_own = index < own_result_count(function_);
    if (!is_own && verdicts_.lookup(operand) != first_check_ + index - own_result_count(function_)) continue;  // for another check
    uint32_t target = is_own ? result_value(index) : add_value(mf::ValueKind::Verdict, verdicts_.lookup(operand));
    Value storage = tx::storage_of(operand);
    uint32_t source = locate(storage);
    if (source == target) continue;
    auto alias = is_own ? alias_of_result_.find(static_cast<unsigned>(index)) : alias_of_result_.end();
    const bool is_aliased = alias != alias_of_result_.end();
    if (is_aliased && alias->second == storage) continue;  // the argument itself
    if (is_aliased && llvm::isa<BlockArgument>(storage) && tx::alias_of(storage)) {
      // Another argument whose memory is overwritten, perhaps before this one's.
      const uint32_t kept = add_transient(llvm::cast<RankedTensorType>(storage.getType()));
      add_copy(source, kept);
      source = kept;
    } else if (!is_aliased) {
      synchronize(source);
      add_copy(source, target);
      continue;
    }
    last.emplace_back(source, target);
  }
  // After the last reader of each argument.
  if (!last.empty()) add_barrier();
  for (auto [source, target] : last) add_copy(source, target);
  return success();
}

void Scheduler::add_copy(uint32_t source, uint32_t target) {
  add_copy(mf::BindingRef(source, whole, whole, read), mf::BindingRef(target, whole, whole, write));
}

void Scheduler::add_copy(const mf::BindingRef& source, const mf::BindingRef& target) {
  program_->copies.emplace_back(source, target);
  note_use(source.value());
  note_use(target.value());
  command(mf::Op::Copy, program_->copies.size() - 1);
}

void Scheduler::add_transfer(tx::TransferOp transfer) {
  uint32_t source = locate(tx::storage_of(transfer.getInput()));
  synchronize(source);
  uint32_t target = locate(transfer.getResult());
  wait_for_readers(target);
  add_copy(source, target);
  read_.insert(source);
  written_.insert(target);
}

void Scheduler::add_fills() {
  while (initializer_ && program_->fills.size() < globals_.fills().size()) {
    const Globals::Fill& fill = globals_.fills()[program_->fills.size()];
    uint32_t target = add_value(mf::ValueKind::Global, fill.global);
    program_->fills.emplace_back(mf::BindingRef(target, whole, whole, write), fill.pattern, fill.pattern_bytes, 0);
    written_.insert(target);
    command(mf::Op::Fill, program_->fills.size() - 1);
  }
}

uint32_t Scheduler::locate(Value storage) {
  if (auto it = location_.find(storage); it != location_.end()) return it->second;
  uint32_t value = 0;
  if (auto argument = llvm::dyn_cast<BlockArgument>(storage)) {
    const std::optional<uint32_t> place = places_.arguments[argument.getArgNumber()];
    value = place ? add_value(mf::ValueKind::Argument, *place) : add_value(mf::ValueKind::Global, state_of(argument));
  } else if (auto parameter = storage.getDefiningOp<tx::ParameterOp>()) {
    value = add_value(mf::ValueKind::Global, globals_.parameter(parameter, slot_of(parameter), initializer_));
  } else if (auto constant = storage.getDefiningOp<tx::ConstantOp>()) {
    value = add_value(mf::ValueKind::Global, globals_.constant(constant, slot_of(constant), initializer_));
    add_fills();
  } else {
    value = add_transient(llvm::cast<RankedTensorType>(storage.getType()));
  }
  location_[storage] = value;
  return value;
}

uint32_t Scheduler::state_of(BlockArgument argument) {
  DictionaryAttr attributes = function_.getArgAttrDict(argument.getArgNumber());
  auto name = attributes.getAs<StringAttr>(tx::name_attr);
  return globals_.state(function_.getName(), name ? name.str() : "input" + std::to_string(argument.getArgNumber()),
                        slot_index(target_, tx::affinity_of(attributes)), tx::byte_size(tx::tensor(argument)));
}

uint32_t Scheduler::add_transient(RankedTensorType type) {
  const AffineExpr bytes = bytes_of(type);
  const uint32_t value = add_transient(registers_.value_of(bytes));
  if (const std::optional<int64_t> known = tx::static_extent(bytes))
    static_bytes_[program_->values[value].index()] = static_cast<uint64_t>(*known);
  return value;
}

uint32_t Scheduler::add_transient(uint32_t size_register) {
  uint32_t index = program_->transients.size();
  program_->transients.emplace_back(size_register, slice_alignment, 0, 0);
  uses_.emplace_back(commands_.size(), commands_.size());
  return add_value(mf::ValueKind::Transient, index);
}

uint32_t Scheduler::slot_of(Operation* leaf) const {
  auto slot = leaf->getAttrOfType<StringAttr>(tx::slot_attr);
  return slot_index(target_, slot ? slot.getValue() : StringRef(tx::default_slot));
}

void Scheduler::note_use(uint32_t value) {
  const mf::Value& described = program_->values[value];
  if (described.kind() == mf::ValueKind::Transient) uses_[described.index()].second = commands_.size();
  if (described.kind() == mf::ValueKind::Argument) argument_uses_[value] = commands_.size();
}

void Scheduler::synchronize(uint32_t value) {
  if (written_.contains(value)) add_barrier();
}

void Scheduler::add_barrier() {
  command(mf::Op::Barrier, 0);
  barriers_.push_back(commands_.size() - 1);
  written_.clear();
  read_.clear();
}

std::pair<uint32_t, uint32_t> Scheduler::lifetime(std::pair<uint32_t, uint32_t> use) const {
  auto before = llvm::lower_bound(barriers_, use.first), behind = llvm::upper_bound(barriers_, use.second);
  return {before == barriers_.begin() ? 0 : *std::prev(before) + 1,
          behind == barriers_.end() ? static_cast<uint32_t>(commands_.size()) : *behind};
}

void Scheduler::finish() {
  reuse_donated_arguments();
  insert_code_after_reads();
  uint32_t shift = registers_.code().size();
  for (mf::Instruction& at : commands_) {
    if (at.op() == static_cast<uint16_t>(mf::Op::Branch) || at.op() == static_cast<uint16_t>(mf::Op::BranchIf))
      at = mf::Instruction(at.op(), 0, at.a() + shift, at.b(), at.c());
  }
  for (auto [transient, use] : llvm::zip(program_->transients, uses_)) {
    const auto [first, last] = lifetime(use);
    transient = mf::Transient(transient.size_register(), transient.alignment(), shift + first, shift + last);
  }
  program_->code = registers_.code();
  program_->code.insert(program_->code.end(), commands_.begin(), commands_.end());
  program_->code.emplace_back(static_cast<uint16_t>(mf::Op::Return), 0, 0, 0, 0);
}

unsigned own_result_count(func::FuncOp function) {
  auto checks = function->getAttrOfType<ArrayAttr>(tx::checks_attr);
  unsigned all = function.getNumResults();
  return checks ? all - std::min(all, static_cast<unsigned>(checks.size())) : all;
}

Places::Places(func::FuncOp function) {
  llvm::SmallSet<unsigned, 4> kept;
  uint32_t next = 0;
  for (BlockArgument argument : function.getArguments()) {
    const bool is_state = tx::is_state(argument);
    if (const std::optional<unsigned> alias = tx::alias_of(argument); is_state && alias) kept.insert(*alias);
    arguments.push_back(is_state ? std::nullopt : std::optional(next++));
  }
  next = 0;
  for (unsigned i = 0; i < function.getNumResults(); ++i) results.push_back(kept.contains(i) ? std::nullopt : std::optional(next++));
}

uint32_t slot_index(const ProgramTarget& target, StringRef name) {
  auto it = llvm::find_if(target, [&](const SlotTarget& slot) { return slot.name == name; });
  return it == target.end() ? 0 : it - target.begin();
}

FailureOr<std::unique_ptr<mf::ProgramT>> schedule(func::FuncOp function, const ProgramTarget& target, Globals& globals, bool initializer) {
  return Scheduler(function, target, globals, initializer).run();
}

}  // namespace heddle::emit
