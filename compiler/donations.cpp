// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/donations.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/narrow.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sdk/module/nearest.h"

using namespace mlir;

namespace heddle::compiler {
namespace {

// "f32[batch,4]"
std::string type_text(func::FuncOp function, Type type) {
  auto names = function->getAttrOfType<ArrayAttr>(tx::symbols_attr);
  auto tensor = llvm::cast<RankedTensorType>(type);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (const tx::NarrowFormat* narrow = tx::narrow_format(tensor.getElementType())) {
    stream << narrow->name << "[";
  } else {
    stream << tensor.getElementType() << "[";
  }
  llvm::interleave(
      tx::extents(tensor), stream,
      [&](AffineExpr extent) {
        auto symbol = llvm::dyn_cast<AffineSymbolExpr>(extent);
        if (symbol && names && symbol.getPosition() < names.size()) {
          stream << llvm::cast<StringAttr>(names[symbol.getPosition()]).getValue();
        } else {
          stream << extent;
        }
      },
      ",");
  stream << "]";
  return text;
}

std::string name_of(DictionaryAttr attributes, const std::string& otherwise) {
  auto name = attributes ? attributes.getAs<StringAttr>(tx::name_attr) : StringAttr();
  return name ? name.str() : otherwise;
}

std::optional<unsigned> position(const std::vector<std::string>& names, llvm::StringRef name) {
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<unsigned>(found - names.begin()));
}

std::string unknown(llvm::StringRef kind, llvm::StringRef name, const std::vector<std::string>& names) {
  const std::string meant = module::nearest(name.str(), names);
  std::string text = "the model has no " + kind.str() + " '" + llvm::json::fixUTF8(name) + "'";
  if (!meant.empty()) return text + "; did you mean '" + meant + "'?";
  text += "; it has";
  constexpr size_t most = 8;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i == 0 ? " '" : ", '") + names[i] + "'";
  return text + (names.size() > most ? " and others" : "");
}

}  // namespace

std::string apply_donations(ModuleOp module, const std::vector<std::string>& donations, const std::vector<std::string>& states) {
  if (donations.empty() && states.empty()) return "";
  auto functions = module.getOps<func::FuncOp>();
  func::FuncOp function = *functions.begin();
  std::vector<std::string> inputs, outputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    inputs.push_back(name_of(function.getArgAttrDict(i), "input" + std::to_string(i)));
  auto checks = function->getAttrOfType<ArrayAttr>(tx::checks_attr);
  const unsigned own = function.getNumResults() - (checks ? static_cast<unsigned>(checks.size()) : 0);  // the others are verdicts
  for (unsigned i = 0; i < own; ++i) outputs.push_back(name_of(function.getResultAttrDict(i), "output" + std::to_string(i)));
  Builder builder(module.getContext());
  std::vector<bool> taken(outputs.size(), false);
  for (size_t i = 0; i < donations.size() + states.size(); ++i) {
    const bool is_state = i >= donations.size();
    const std::string& text = is_state ? states[i - donations.size()] : donations[i];
    auto wrong = [&](const std::string& cause) {
      return (is_state ? "compiler: state '" : "compiler: donating '") + llvm::json::fixUTF8(text) + "' is not possible: " + cause;
    };
    if (is_state && text.find('=') == std::string::npos) return wrong("it has to be INPUT=OUTPUT");
    if (const auto input = position(inputs, text); input && !is_state) {
      function.setArgAttr(*input, tx::donated_attr, builder.getUnitAttr());
      continue;
    }
    // A name may contain '='.
    size_t split = text.find('=');
    while (split != std::string::npos && !position(inputs, llvm::StringRef(text).take_front(split))) split = text.find('=', split + 1);
    if (split == std::string::npos) return wrong(unknown("input", llvm::StringRef(text).split('=').first, inputs));
    const unsigned input = *position(inputs, llvm::StringRef(text).take_front(split));
    const auto output = position(outputs, llvm::StringRef(text).substr(split + 1));
    if (!output) return wrong(unknown("output", llvm::StringRef(text).substr(split + 1), outputs));
    const Type from = function.getArgumentTypes()[input], to = function.getResultTypes()[*output];
    if (from != to) {
      return wrong("the input is " + type_text(function, from) + " and the output " + type_text(function, to) +
                   "; an output takes the memory of an input of the same type and extents");
    }
    if (is_state && !llvm::cast<RankedTensorType>(from).hasStaticShape()) {
      return wrong("the input is " + type_text(function, from) + ", and the extents of a state have to be static");
    }
    if (auto known = function.getArgAttrOfType<IntegerAttr>(input, tx::alias_attr)) {
      // The user and the model file may say the same.
      if (known.getInt() == *output && is_state == static_cast<bool>(function.getArgAttr(input, tx::state_attr))) continue;
      return wrong("output '" + outputs[static_cast<size_t>(known.getInt())] + "' takes the memory of this input already");
    }
    if (taken[*output]) return wrong("the output takes the memory of another input already");
    taken[*output] = true;
    function.setArgAttr(input, tx::alias_attr, builder.getI64IntegerAttr(*output));
    if (is_state) function.setArgAttr(input, tx::state_attr, builder.getUnitAttr());
  }
  return "";
}

}  // namespace heddle::compiler
