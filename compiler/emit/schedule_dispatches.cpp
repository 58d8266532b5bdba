// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dispatches of kernels, operations of plugins, and the memory that they are bound to.
#include <algorithm>

#include "compiler/emit/scheduler.h"
#include "heddle/ext/library.h"

using namespace mlir;

namespace heddle::emit {

LogicalResult Scheduler::find_parts() {
  for (auto concat : function_.getOps<tx::ConcatOp>()) {
    const RankedTensorType whole = tx::tensor(concat.getResult());
    const bool has_ranges = tx::has_ranges(concat), has_rows = concat.getAxis() + 1 == static_cast<uint64_t>(whole.getRank());
    AffineExpr start = getAffineConstantExpr(0, concat.getContext());
    for (Value part : concat.getInputs()) {
      const RankedTensorType type = tx::tensor(part);
      auto maker = part.getDefiningOp<tx::DispatchOp>();
      const bool is_range = maker && !maker.getPitchAttr();
      const bool is_stored = maker && part.hasOneUse() && !maker.getTied() &&
                             (is_range ? has_ranges : has_rows && maker.getPitchAttr().getInt() == whole.getShape().back());
      if (!is_stored) return concat.emitError("is outside of regions, and no region can store part '") << type << "' in its memory";
      AffineExpr bytes = (is_range ? tx::element_count(type) : tx::extents(type).back()) * element_bytes(type);
      parts_[part] = {concat.getResult(), start, is_range ? bytes : AffineExpr()};
      start = start + bytes;
    }
  }
  for (auto region : function_.getOps<tx::DispatchOp>()) {
    if (region.getPitchAttr() && !parts_.contains(region.getResult(0)))
      return region.emitError("has a `pitch`, and its result is not a part of a tx.concat outside of regions");
  }
  return success();
}

void Scheduler::bind(mf::DispatchSiteT& site, ValueRange inputs, ValueRange outputs) {
  for (Value input : inputs) {
    uint32_t value = locate(tx::storage_of(input));
    synchronize(value);
    site.bindings.emplace_back(value, whole, whole, read);
    note_type(input, site);
  }
  for (Value output : outputs) {
    uint32_t start = whole, length = whole;
    if (auto part = parts_.find(output); part != parts_.end()) {
      location_[output] = locate(part->second.concat);
      start = start_of(part->second);
      if (part->second.length) length = registers_.value_of(part->second.length);
    }
    if (read_.contains(locate(output))) add_barrier();
    wait_for_readers(locate(output));
    site.bindings.emplace_back(locate(output), start, length, write);
    note_type(output, site);
  }
  for (const mf::BindingRef& binding : site.bindings) {
    note_use(binding.value());
    (binding.access() == write ? written_ : read_).insert(binding.value());
  }
}

void Scheduler::bind_workspace(const Kernel& kernel, mf::DispatchSiteT& site) {
  if (!kernel.workspace) return;
  uint32_t bytes = registers_.value_of(kernel.workspace->bytes);
  for (const targets::Workspace::OfThreads& each : kernel.workspace->threads) {
    const uint32_t threads = registers_.least(registers_.value_of(each.most), registers_.compute_units(site.slot));
    bytes = registers_.sum(bytes, registers_.product(threads, registers_.value_of(each.bytes)));
  }
  const uint32_t value = add_transient(bytes);
  site.bindings.emplace_back(value, whole, whole, write);
  site.binding_types.emplace_back(HEDDLE_TYPE_UNDEFINED, 0);
  if (site.binding_pitches) site.binding_pitches->all.push_back(0);
  note_use(value);
}

uint32_t Scheduler::start_of(const Part& part) {
  const RankedTensorType type = tx::tensor(part.concat);
  if (part.start == getAffineConstantExpr(0, type.getContext())) return whole;
  const uint32_t start = registers_.value_of(part.start);
  AffineExpr size = tx::element_count(type) * element_bytes(type);
  return part.length || tx::is_never_zero(size) ? start : registers_.least(start, registers_.value_of(size));
}

void Scheduler::note_pitch(tx::DispatchOp dispatch, mf::DispatchSiteT& site) {
  if (!dispatch.getPitchAttr()) return;
  site.binding_pitches = std::make_unique<mf::PitchesT>();
  site.binding_pitches->all.assign(dispatch.getInputs().size(), 0);
  site.binding_pitches->all.push_back(dispatch.getPitchAttr().getInt());
}

LogicalResult Scheduler::take_places(tx::DispatchOp dispatch) {
  for (auto [result, operand] : llvm::enumerate(dispatch.getTied().value_or(ArrayRef<int64_t>()))) {
    if (operand < 0) continue;
    Value value = dispatch.getInputs()[operand];
    if (!tx::dies_with(dispatch, value))
      return dispatch.emitError("overwrites operand ")
             << operand << ", which no region on its slot makes, or which is read later; remove `tied`, or read it earlier";
    if (!tx::is_read_in_place(dispatch.getBody().getArgument(static_cast<unsigned>(operand))))
      return dispatch.emitError("overwrites operand ")
             << operand << ", but reads elements other than the one that it overwrites; remove `tied`";
    if (const std::optional<unsigned> alias = tx::alias_of(tx::storage_of(value))) {
      auto place = location_.find(dispatch.getResult(static_cast<unsigned>(result)));
      if (place == location_.end() || place->second != result_value(*alias))
        return dispatch.emitError("overwrites operand ") << operand << ", whose memory is for result " << *alias << "; remove `tied`";
      continue;
    }
    location_[dispatch.getResult(static_cast<unsigned>(result))] = locate(tx::storage_of(value));
  }
  return success();
}

LogicalResult Scheduler::add_operation(tx::CustomOp custom) {
  auto slot = slot_of_op(custom);
  if (!slot) return failure();
  auto site = std::make_unique<mf::DispatchSiteT>();
  site->slot = *slot;
  site->name = function_.getName().str() + ".custom." + std::to_string(operations_++) + "." + custom.getName().str();
  if (auto name = llvm::dyn_cast<NameLoc>(custom.getLoc())) site->name += " " + name.getName().str();
  add_operation_of(custom, custom.getDomain(), custom.getName(), custom.getVersion(), custom.getRecord(), *site);
  bind(*site, custom.getInputs(), custom.getOutputs());
  program_->dispatches.push_back(std::move(site));
  command(mf::Op::Dispatch, program_->dispatches.size() - 1);
  return success();
}

void Scheduler::add_operation_of(Operation* op, StringRef domain, StringRef name, uint64_t version, DictionaryAttr record,
                                 mf::DispatchSiteT& site) {
  site.operation = std::make_unique<mf::OperationT>();
  site.operation->domain = domain.str();
  site.operation->name = name.str();
  site.operation->version = static_cast<uint32_t>(version);
  site.operation->input_count = op->getNumOperands();
  for (NamedAttribute named : record) site.operation->attributes.push_back(describe(named));  // sorted by name already
  for (Value operand : op->getOperands()) add_operand(operand, site);
  for (Value result : op->getResults()) add_operand(result, site);
}

void Scheduler::add_operand(Value value, mf::DispatchSiteT& site) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  site.operation->operands.emplace_back(tx::element_type_code(type.getElementType()), static_cast<uint32_t>(type.getRank()));
  for (AffineExpr extent : tx::extents(type)) site.constants.push_back(registers_.value_of(extent));
}

std::unique_ptr<mf::OperationAttributeT> Scheduler::describe(NamedAttribute named) {
  auto attribute = std::make_unique<mf::OperationAttributeT>();
  attribute->name = named.getName().str();
  if (auto one = llvm::dyn_cast<IntegerAttr>(named.getValue())) {
    attribute->kind = HEDDLE_ATTRIBUTE_INT;
    attribute->ints = {one.getInt()};
  } else if (auto number = llvm::dyn_cast<FloatAttr>(named.getValue())) {
    attribute->kind = HEDDLE_ATTRIBUTE_FLOAT;
    attribute->floats = {number.getValueAsDouble()};
  } else if (auto text = llvm::dyn_cast<StringAttr>(named.getValue())) {
    attribute->kind = HEDDLE_ATTRIBUTE_STRING;
    attribute->text.assign(text.getValue().bytes_begin(), text.getValue().bytes_end());
  } else if (auto ints = llvm::dyn_cast<DenseI64ArrayAttr>(named.getValue())) {
    attribute->kind = HEDDLE_ATTRIBUTE_INTS;
    attribute->ints.assign(ints.asArrayRef().begin(), ints.asArrayRef().end());
  } else {
    auto floats = llvm::cast<DenseF64ArrayAttr>(named.getValue());
    attribute->kind = HEDDLE_ATTRIBUTE_FLOATS;
    attribute->floats.assign(floats.asArrayRef().begin(), floats.asArrayRef().end());
  }
  return attribute;
}

void Scheduler::note_type(Value value, mf::DispatchSiteT& site) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  site.binding_types.emplace_back(tx::element_type_code(type.getElementType()), type.getRank());
  for (int64_t extent : type.getShape()) site.binding_dims.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
}

void Scheduler::check_empty_values(tx::DispatchOp dispatch, const targets::KernelPlan& plan) {
  auto look_at = [&](Value value) {
    for (auto [dim, extent] : llvm::enumerate(tx::extents(tx::tensor(value)))) {
      llvm::DenseSet<Value> seen;
      if (tx::static_extent(extent) || tx::is_never_zero(extent) || empties_all(value, extent, plan, seen)) continue;
      if (!checked_.insert(extent - 1).second) continue;
      check(extent, refusal(dispatch, "a value in", static_cast<unsigned>(dim), extent, ", which is 0") + "; give larger inputs", 1);
    }
  };
  for (Value argument : dispatch.getBody().getArguments()) look_at(argument);
  for (Operation& op : dispatch.getBody().front().without_terminator()) {
    for (Value result : op.getResults()) look_at(result);
  }
}

bool Scheduler::empties_all(Value value, AffineExpr extent, const targets::KernelPlan& plan, llvm::DenseSet<Value>& seen) {
  if (!seen.insert(value).second) return true;
  return llvm::all_of(value.getUsers(), [&](Operation* user) {
    // An empty sum is 0, an empty maximum is the smallest number.
    if (user->hasTrait<OpTrait::IsTerminator>() || llvm::isa<tx::ReduceOp>(user)) return true;
    // Without updates there is nothing to do.
    if (auto scatter = llvm::dyn_cast<tx::ScatterOp>(user); scatter && value != scatter.getInput()) return true;
    if (tx::is_contraction(user) && plan.sums_nothing) return true;
    if (llvm::isa<tx::ConcatOp>(user) && plan.copies_by_operand && tx::stays_in_place(user->getResult(0))) return true;
    return llvm::all_of(user->getResults(), [&](Value result) {
      return tx::is_empty_with(tx::tensor(result), extent) && empties_all(result, extent, plan, seen);
    });
  });
}

LogicalResult Scheduler::add_dispatch(tx::DispatchOp dispatch) {
  auto found = slot_of_op(dispatch);
  if (!found) return failure();
  uint32_t slot = *found;
  const SlotTarget::Code& code = target_[slot].of(dispatch);
  const Kernels& kernels = *code.kernels;
  const Kernel& usual = kernels.usual(dispatch);
  auto site = std::make_unique<mf::DispatchSiteT>();
  site->slot = slot;
  site->executable = code.executable;
  site->name = dispatch.getName().str();
  if (auto name = llvm::dyn_cast<NameLoc>(dispatch.getLoc())) site->name += " " + name.getName().str();
  if (failed(take_places(dispatch))) return failure();
  bind(*site, dispatch.getInputs(), dispatch.getOutputs());
  note_pitch(dispatch, *site);
  check_limits(dispatch, usual.plan);
  const SlotTarget::Code* own = target_[slot].rest_of(dispatch);
  // Before its workspace, which is the kernel's own.
  std::unique_ptr<mf::DispatchSiteT> rest;
  if (own) {
    rest = std::make_unique<mf::DispatchSiteT>();
    rest->bindings = site->bindings;
    rest->binding_types = site->binding_types;
    rest->binding_dims = site->binding_dims;
  }
  bind_workspace(usual, *site);
  for (uint32_t symbol = 0; symbol < usual.symbol_count; ++symbol) {
    site->constants.push_back(registers_.value_of(getAffineSymbolExpr(symbol, dispatch.getContext())));
  }
  for (const Candidate& each : kernels.candidates(dispatch))
    site->candidates.push_back(candidate_of(each, kernels, each.kernel, each.runs, slot));
  if (own) {
    // Two dispatches with the same bindings, of which one has no workgroups.
    rest->slot = slot;
    rest->executable = own->executable;
    rest->name = site->name;
    rest->constants = site->constants;
    const Kernel& other = own->kernels->usual(dispatch);
    bind_workspace(other, *rest);
    check_limits(dispatch, other.plan);
    const ArrayRef<Candidate> own_candidates = own->kernels->candidates(dispatch);
    for (const Candidate& each : kernels.candidates(dispatch).drop_back())
      rest->candidates.push_back(candidate_of(each, *own->kernels, own_candidates.back().kernel, !each.runs, slot));
    for (const Candidate& each : own_candidates) rest->candidates.push_back(candidate_of(each, *own->kernels, each.kernel, true, slot));
  }
  if (tx::OperationAttr other = dispatch.getAlternativeAttr())
    add_operation_of(dispatch, other.getDomain(), other.getName(), other.getVersion(), other.getRecord(), *site);
  program_->dispatches.push_back(std::move(site));
  command(mf::Op::Dispatch, program_->dispatches.size() - 1);
  if (rest) {
    program_->dispatches.push_back(std::move(rest));
    command(mf::Op::Dispatch, program_->dispatches.size() - 1);
  }
  return success();
}

void Scheduler::check_limits(tx::DispatchOp dispatch, const targets::KernelPlan& plan) {
  check_empty_values(dispatch, plan);
  for (const targets::Limit& limit : plan.limits) {
    if (!checked_.insert(limit.most - limit.value).second) continue;
    check_condition(registers_.at_most(registers_.value_of(limit.value), registers_.literal(limit.most)),
                    "region '" + dispatch.getName().str() + "' has more than " + std::to_string(limit.most) + " " + limit.what +
                        ", more than its kernel can hold; give smaller inputs");
  }
}

std::unique_ptr<mf::CandidateT> Scheduler::candidate_of(const Candidate& when, const Kernels& kernels, uint32_t kernel, bool runs,
                                                        uint32_t slot) {
  auto candidate = std::make_unique<mf::CandidateT>();
  candidate->entry = kernel;
  for (const targets::Guard& guard : when.guards) {
    uint32_t value = guard.value ? registers_.value_of(guard.value) : registers_.compute_units(slot);
    candidate->guards.emplace_back(value, 0, guard.min, guard.max, 1);
  }
  const uint32_t workgroups = runs ? registers_.value_of(kernels.all()[kernel].plan.workgroups) : registers_.literal(0);
  candidate->grid = {workgroups, registers_.literal(1), registers_.literal(1)};
  return candidate;
}

}  // namespace heddle::emit
