// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See verification.h.
#include "compiler/plugins/verification.h"

#include "compiler/emit/kernels.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::plugins {

namespace {

// Why calls cannot be made up for the region: its extents must follow from symbols that arguments give. Empty: they can.
std::string why_not_called(tx::DispatchOp region, unsigned given) {
  auto function = region->getParentOfType<func::FuncOp>();
  if (auto defined = function->getAttrOfType<ArrayAttr>(tx::defined_symbols_attr)) {
    for (Attribute one : defined) {
      auto kind = llvm::cast<DictionaryAttr>(one).getAs<StringAttr>("kind");
      if (!kind || !llvm::is_contained({"min", "max", "floordiv", "mod"}, kind.getValue())) return "an extent is computed by a device";
    }
  }
  for (Value input : region.getInputs()) {
    for (AffineExpr extent : tx::extents(tx::tensor(input))) {
      auto symbol = llvm::dyn_cast<AffineSymbolExpr>(extent);
      if (!llvm::isa<AffineConstantExpr>(extent) && !(symbol && symbol.getPosition() < given))
        return "an extent of an operand is computed from others";
    }
  }
  return {};
}

}  // namespace

OwningOpRef<ModuleOp> verification_model(const TargetPlugin& plugin, MLIRContext& context, const Warn& warn) {
  Location at = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(at);
  Builder attributes(&context);
  module.get()->setAttr(tx::families_attr, attributes.getStrArrayAttr({StringRef(plugin.family())}));
  for (const TargetPlugin::Kept& kept : plugin.kept) {
    auto region = llvm::cast<tx::DispatchOp>(static_cast<Operation*>(kept.region));
    auto function = region->getParentOfType<func::FuncOp>();
    const unsigned given = tx::given_symbol_count(function);
    if (std::string wrong = why_not_called(region, given); !wrong.empty()) {
      if (warn) warn(plugin.who() + ": '" + kept.kernel + "' (" + kept.claim + ") is not verified: " + wrong);
      continue;
    }
    for (const bool is_claimed : {true, false}) {
      OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
      SmallVector<Type> types;
      for (unsigned i = 0; i < given; ++i) types.push_back(tx::tensor_type({getAffineSymbolExpr(i, &context)}, builder.getF32Type()));
      llvm::append_range(types, region.getInputs().getTypes());
      auto made = builder.create<func::FuncOp>(at, kept.kernel + (is_claimed ? "" : "_portable"),
                                               builder.getFunctionType(types, region.getOutputs().getTypes()));
      for (StringRef name : {StringRef(tx::symbols_attr), StringRef(tx::defined_symbols_attr)}) {
        if (Attribute known = function->getAttr(name)) made->setAttr(name, known);
      }
      for (unsigned i = 0; i < given; ++i) made.setArgAttr(i, tx::name_attr, builder.getStringAttr("symbol" + std::to_string(i)));
      Block* entry = made.addEntryBlock();
      builder.setInsertionPointToStart(entry);
      auto copy = llvm::cast<tx::DispatchOp>(builder.clone(*region));
      copy.getInputsMutable().assign(ValueRange(entry->getArguments().drop_front(given)));
      copy.setSlot(tx::default_slot);
      copy.setName(made.getName());
      if (!is_claimed) copy->removeAttr(emit::claim_attr);
      if (!is_claimed) copy->removeAttr(emit::partly_claimed_attr);
      builder.create<func::ReturnOp>(at, copy.getOutputs());
    }
  }
  return module;
}

std::vector<emit::FamilyCode> verification_code(const TargetPlugin& plugin, const emit::Combination& model) {
  std::vector<emit::FamilyCode> codes;
  for (const TargetPlugin::Kept& kept : plugin.kept) {
    auto is_its = [&](tx::DispatchOp region) { return region.getName() == kept.kernel && region->hasAttr(emit::claim_attr); };
    emit::FamilyCode made = code_of_claim(plugin, kept, {model}, is_its);
    if (!made.kernels.all().empty()) codes.push_back(std::move(made));
  }
  return codes;
}

}  // namespace heddle::plugins
