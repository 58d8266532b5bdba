// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two regions are equal if their text without names and locations is the same.
#include "compiler/emit/kernels.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::emit {

std::string text_of(tx::DispatchOp region) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.useLocalScope().elideLargeElementsAttrs(-1);
  stream << symbol_count(region) << '\n';
  if (auto claim = region->getAttrOfType<StringAttr>(claim_attr)) stream << "claim " << claim.getValue() << '\n';
  if (auto tied = region.getTied()) llvm::interleaveComma(*tied, stream);
  if (auto pitch = region.getPitch()) stream << "pitch " << *pitch << '\n';
  if (region.getAlternativeAttr()) stream << "alternative\n";  // whose operands are all bindings
  // values are numbered from the region's start on, regardless of the surrounding function
  llvm::DenseMap<Value, unsigned> number;
  auto name = [&](Value value) -> unsigned { return number.try_emplace(value, number.size()).first->second; };
  for (Value argument : region.getBody().getArguments()) stream << '%' << name(argument) << ": " << argument.getType() << '\n';
  for (Operation& op : region.getBody().front()) {
    for (Value result : op.getResults()) stream << '%' << name(result) << ": " << result.getType() << ' ';
    stream << op.getName() << ' ' << op.getAttrDictionary();
    for (Value operand : op.getOperands()) stream << " %" << name(operand);
    stream << '\n';
  }
  return text;
}

bool is_for_own_code(tx::DispatchOp region) {
  return !region->hasAttr(claim_attr) || region->hasAttr(partly_claimed_attr);
}

uint32_t symbol_count(Operation* op) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto symbols = function ? function->getAttrOfType<ArrayAttr>(tx::symbols_attr) : ArrayAttr();
  return symbols ? symbols.size() : 0;
}

void Kernels::add(ModuleOp model, StringRef family, llvm::function_ref<bool(tx::DispatchOp)> takes) {
  model.walk([&](tx::DispatchOp region) {
    if (tx::family_of(model, region.getSlot().value_or("")) != family || (takes && !takes(region))) return;
    std::string text = text_of(region);
    auto [it, is_new] = known_.try_emplace(text, kernels_.size());
    if (is_new) {
      Block& ops = region.getBody().front();
      auto root = llvm::find_if(ops, [](Operation& op) { return tx::is_contraction(&op); });
      Operation& named = root == ops.end() ? ops.front() : *root;
      Kernel kernel;
      kernel.region = region;
      kernel.symbol = "k" + std::to_string(it->second) + "_" + named.getName().stripDialect().str();
      kernel.text = std::move(text);
      kernel.binding_count = region.getInputs().size() + region.getOutputs().size();
      kernel.symbol_count = symbol_count(region);
      kernels_.push_back(std::move(kernel));
    }
    index_[region] = it->second;
  });
}

void Kernels::plan(std::vector<targets::Plans> plans, ArrayRef<std::optional<targets::Workspace>> workspaces) {
  std::vector<Kernel> planned;
  for (auto [index, kernel, its_plans] : llvm::enumerate(kernels_, plans)) {
    if (!workspaces.empty()) kernel.workspace = workspaces[index];
    if (kernel.workspace) ++kernel.binding_count;
    const size_t first = planned.size();
    std::vector<Candidate>& candidates = candidates_.emplace_back();
    for (targets::KernelPlan& plan : its_plans) {
      auto same = std::find_if(planned.begin() + static_cast<ptrdiff_t>(first), planned.end(),
                               [&](const Kernel& other) { return other.plan.choice.numbers == plan.choice.numbers; });
      candidates.push_back({plan.guards, static_cast<uint32_t>(same - planned.begin()), static_cast<bool>(plan.workgroups)});
      if (same != planned.end()) continue;
      planned.push_back(kernel);
      planned.back().plan = std::move(plan);
    }
    // The usual kernel has the plain name.
    unsigned special = 0;
    for (size_t i = first; i < planned.size(); ++i) {
      if (i != candidates.back().kernel) planned[i].symbol += "_" + std::to_string(++special);
    }
  }
  kernels_ = std::move(planned);
}

}  // namespace heddle::emit
