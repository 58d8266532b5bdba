// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads, branches and loops: the commands of the functions that they name, between jumps.
#include <tuple>
#include <utility>

#include "compiler/emit/scheduler.h"

using namespace mlir;

namespace heddle::emit {

uint32_t Scheduler::read_number(Value number) {
  const uint32_t value = locate(tx::storage_of(number)), target = new_register();
  add_barrier();
  note_use(value);
  command(mf::Op::ReadScalar, target, value, registers_.literal(0));
  return target;
}

LogicalResult Scheduler::add_read(tx::ReadOp read) {
  const uint32_t value = locate(tx::storage_of(read.getValue()));
  add_barrier();
  note_use(value);
  for (auto [i, symbol] : llvm::enumerate(read.getSymbols())) {
    if (symbol < 0) continue;
    const auto position = static_cast<unsigned>(symbol);
    if (!unread_.remove(position)) return read.emitError("reads symbol ") << symbol << ", which the function does not define as read";
    command(mf::Op::ReadScalar, registers_.value_of(getAffineSymbolExpr(position, read.getContext())), value,
            registers_.literal(static_cast<int64_t>(i * sizeof(int64_t))));
  }
  read_ends_.push_back(commands_.size());
  return success();
}

size_t Scheduler::jump(mf::Op op, uint32_t condition) {
  command(op, 0, condition);
  return commands_.size() - 1;
}

void Scheduler::land(size_t at) {
  const mf::Instruction& from = commands_[at];
  commands_[at] = mf::Instruction(from.op(), 0, static_cast<uint32_t>(commands_.size()), from.b(), from.c());
}

LogicalResult Scheduler::add_nested(Operation* op, FlatSymbolRefAttr name, StringRef slot, ArrayRef<uint32_t> arguments,
                                    ArrayRef<uint32_t> results) {
  auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name);
  for (unsigned i = 0; i < function.getNumArguments() + own_result_count(function); ++i) {
    const bool is_argument = i < function.getNumArguments();
    DictionaryAttr attributes = is_argument ? function.getArgAttrDict(i) : function.getResultAttrDict(i - function.getNumArguments());
    if (StringRef other = tx::affinity_of(attributes); other != slot)
      return op->emitError("is on ") << slot << ", and a value of " << name << " on " << other << "; place all of it on one slot";
  }
  const Nested nested{results};
  const auto kept = std::make_tuple(function_, nested_, std::exchange(alias_of_result_, llvm::DenseMap<unsigned, BlockArgument>()),
                                    checked_, first_check_);
  const auto unread = unread_;  // what a part reads is for itself
  function_ = function;
  nested_ = &nested;
  for (auto [argument, value] : llvm::zip_equal(function.getArguments(), arguments)) location_[argument] = value;
  bool is_good = succeeded(verify_checks()) && succeeded(check_given_extents()) && succeeded(find_parts());
  if (is_good) {
    check_extents();
    is_good = succeeded(find_aliases()) && succeeded(add_ops());
  }
  std::tie(function_, nested_, alias_of_result_, checked_, first_check_) = kept;
  unread_ = unread;
  return success(is_good);
}

SmallVector<uint32_t> Scheduler::locate_all(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return locate(tx::storage_of(value)); });
}

LogicalResult Scheduler::add_branch(tx::IfOp branch) {
  if (!slot_of_op(branch)) return failure();
  const SmallVector<uint32_t> inputs = locate_all(branch.getInputs()), results = locate_all(branch.getOutputs());
  for (uint32_t result : results) wait_for_readers(result);
  const size_t taken = jump(mf::Op::BranchIf, read_number(branch.getCondition()));
  auto add_case = [&](FlatSymbolRefAttr function) {
    if (failed(add_nested(branch, function, *branch.getSlot(), inputs, results))) return failure();
    add_barrier();
    command(mf::Op::Submit, 0);
    return success();
  };
  if (failed(add_case(branch.getElseFunctionAttr()))) return failure();
  const size_t over = jump(mf::Op::Branch);
  land(taken);
  if (failed(add_case(branch.getThenFunctionAttr()))) return failure();
  land(over);
  return success();
}

LogicalResult Scheduler::set_symbols(Operation* op, ArrayRef<std::pair<unsigned, uint32_t>> symbols) {
  if (symbols.empty()) return success();
  for (auto [symbol, value] : symbols) {
    if (!unread_.remove(symbol)) return op->emitError("gives symbol ") << symbol << ", which the function does not define as read";
    command(mf::Op::Move, registers_.value_of(getAffineSymbolExpr(symbol, op->getContext())), value);
  }
  read_ends_.push_back(commands_.size());
  return success();
}

void Scheduler::copy_bytes(uint32_t source, uint32_t target, uint32_t bytes) {
  add_copy(mf::BindingRef(source, whole, bytes, read), mf::BindingRef(target, whole, bytes, write));
}

LogicalResult Scheduler::add_loop(tx::LoopOp loop) {
  if (!slot_of_op(loop)) return failure();
  const size_t carried_count = loop.getInit().size(), scanned_count = loop.getScanned().size();
  SmallVector<uint32_t> carried, extents;  // `extents`: the registers of varying ones, for the next step
  for (const tx::LoopOp::Varying& one : loop.varying()) {
    extents.push_back(new_register());
    command(mf::Op::Move, extents.back(), registers_.value_of(one.first));
  }
  SmallVector<Varying> varying;
  for (auto [i, init, output] : llvm::enumerate(loop.getInit(), loop.getOutputs().take_front(carried_count))) {
    const uint32_t source = locate(tx::storage_of(init));
    uint32_t target = 0;
    if (loop.inside_type(output.getType()) != output.getType()) {
      const uint32_t size = new_register(), bytes = registers_.value_of(bytes_of(tx::tensor(init)));
      command(mf::Op::Move, size, bytes);
      target = add_transient(size);
      varying.push_back({i, target, size, 0, 0});
      synchronize(source);
      copy_bytes(source, target, bytes);
    } else {
      target = locate(output);
      wait_for_readers(target);
      synchronize(source);
      add_copy(source, target);
    }
    carried.push_back(target);
    read_.insert(source);
    written_.insert(target);
  }
  SmallVector<uint32_t> wholes = locate_all(loop.getScanned());
  for (uint32_t stacked : locate_all(loop.getOutputs().drop_front(carried_count))) {
    wait_for_readers(stacked);
    wholes.push_back(stacked);
  }
  const SmallVector<uint32_t> inputs = locate_all(loop.getInputs());
  const uint32_t zero = registers_.literal(0), one = registers_.literal(1);
  std::optional<uint32_t> steps, goes_on;
  if (loop.getCount()) steps = registers_.value_of(loop.getCount()->getResult(0));
  if (loop.getTrips()) steps = read_number(loop.getTrips());
  if (loop.getCondition()) goes_on = read_number(loop.getCondition());
  if (loop.getConditional() && !goes_on) command(mf::Op::Move, *(goes_on = new_register()), one);
  const uint32_t step = new_register(), is_over = new_register();
  command(mf::Op::Move, step, zero);
  add_barrier();
  command(mf::Op::Submit, 0);

  const uint32_t begin = commands_.size();
  SmallVector<size_t> exits;
  if (steps) {
    command(mf::Op::LessEqual, is_over, *steps, step);
    exits.push_back(jump(mf::Op::BranchIf, is_over));
  }
  if (goes_on) {
    command(mf::Op::Equal, is_over, *goes_on, zero);
    exits.push_back(jump(mf::Op::BranchIf, is_over));
  }
  SmallVector<std::pair<unsigned, uint32_t>> inside, after;
  for (auto [one, extent] : llvm::zip_equal(loop.varying(), extents)) {
    inside.push_back({one.inside, extent});
    after.push_back({one.after, extent});
  }
  if (failed(set_symbols(loop, inside))) return failure();
  auto body = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(loop, loop.getBodyAttr());
  std::optional<uint32_t> place_from_end;
  SmallVector<Slice> slices;
  for (auto [i, whole_value] : llvm::enumerate(wholes)) {
    const unsigned position = static_cast<unsigned>(i < scanned_count ? carried_count + i : i - scanned_count);
    auto type =
        llvm::cast<RankedTensorType>(i < scanned_count ? body.getArgumentTypes()[position]
                                                       : body.getResultTypes()[position + carried_count + (loop.getConditional() ? 1 : 0)]);
    uint32_t place = step;
    if (loop.goes_back(i)) {
      if (!place_from_end) {
        place_from_end = new_register();
        command(mf::Op::Sub, *place_from_end, registers_.value_of(loop.getCount()->getResult(0) - 1), step);
      }
      place = *place_from_end;
    }
    const uint32_t bytes = registers_.value_of(bytes_of(type)), offset = new_register();
    command(mf::Op::Mul, offset, place, bytes);
    slices.push_back({whole_value, add_transient(type), offset, bytes});
  }
  SmallVector<uint32_t> arguments = carried, results;
  for (const Slice& slice : ArrayRef(slices).take_front(scanned_count)) {
    add_copy(mf::BindingRef(slice.whole, slice.offset, slice.bytes, read), mf::BindingRef(slice.own, whole, whole, write));
    written_.insert(slice.own);
    arguments.push_back(slice.own);
  }
  llvm::append_range(arguments, inputs);
  if (loop.getConditional()) results.push_back(add_transient(llvm::cast<RankedTensorType>(body.getResultTypes().front())));
  const size_t first = results.size();
  llvm::append_range(results, carried);
  for (Varying& one : varying) {
    const RankedTensorType next = loop.next_type(loop.getOutputs()[one.index].getType());
    one.next = results[first + one.index] = add_transient(next);
    one.next_size = registers_.value_of(bytes_of(next));
  }
  for (const Slice& slice : ArrayRef(slices).drop_front(scanned_count)) results.push_back(slice.own);
  if (failed(add_nested(loop, loop.getBodyAttr(), *loop.getSlot(), arguments, results))) return failure();
  add_barrier();
  for (const Slice& slice : ArrayRef(slices).drop_front(scanned_count))
    add_copy(mf::BindingRef(slice.own, whole, whole, read), mf::BindingRef(slice.whole, slice.offset, slice.bytes, write));
  add_barrier();
  if (loop.getConditional()) {
    note_use(results.front());
    command(mf::Op::ReadScalar, *goes_on, results.front(), zero);
  } else {
    command(mf::Op::Submit, 0);
  }
  // In a piece of their own: where a value has grown, its old memory was needed until here.
  for (const Varying& one : varying) command(mf::Op::Move, one.size, one.next_size);
  for (const Varying& one : varying) copy_bytes(one.next, one.value, one.next_size);
  if (!varying.empty()) {
    add_barrier();
    command(mf::Op::Submit, 0);
  }
  for (auto [one, extent] : llvm::zip_equal(loop.varying(), extents)) {
    command(mf::Op::Move, extent, registers_.value_of(one.next));
    unread_.insert(one.inside);
  }
  command(mf::Op::Add, step, step, one);  // behind the piece, so that this is only commands
  command(mf::Op::Branch, begin);
  for (size_t exit : exits) land(exit);
  add_barrier();
  // What is older than the loop, and used in it, is needed until its last step.
  for (auto& [first, last] : uses_) {
    if (first < begin && last >= begin) last = static_cast<uint32_t>(commands_.size() - 1);
  }
  if (failed(set_symbols(loop, after))) return failure();
  for (const Varying& one : varying) {
    Value output = loop.getOutputs()[one.index];
    const auto [place, is_free] = location_.try_emplace(output, one.value);
    if (is_free) continue;
    wait_for_readers(place->second);
    copy_bytes(one.value, place->second, registers_.value_of(bytes_of(tx::tensor(output))));
    written_.insert(place->second);
  }
  return success();
}

void Scheduler::insert_code_after_reads() {
  if (read_ends_.empty()) return;
  std::vector<mf::Instruction> whole;
  std::vector<uint32_t> moved;  // where each instruction, and the end, is in `whole`
  unsigned read = 0;
  for (size_t i = 0; i <= commands_.size(); ++i) {
    while (read < read_ends_.size() && read_ends_[read] == i) {
      if (const auto* code = registers_.code_after(++read)) whole.insert(whole.end(), code->begin(), code->end());
    }
    moved.push_back(static_cast<uint32_t>(whole.size()));
    if (i < commands_.size()) whole.push_back(commands_[i]);
  }
  for (mf::Instruction& at : whole) {
    if (at.op() == static_cast<uint16_t>(mf::Op::Branch) || at.op() == static_cast<uint16_t>(mf::Op::BranchIf))
      at = mf::Instruction(at.op(), 0, moved[at.a()], at.b(), at.c());
  }
  for (uint32_t& barrier : barriers_) barrier = moved[barrier];
  for (auto& [first, last] : uses_) std::tie(first, last) = std::make_pair(moved[first], moved[last]);
  commands_ = std::move(whole);
}

}  // namespace heddle::emit
