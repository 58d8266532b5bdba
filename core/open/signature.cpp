// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signatures: built from a module's metadata, checked against arguments, and explained on a mismatch.
// Called through signature.h, which has the code that every call runs.
#include "core/open/signature.h"

#include "sdk/module/element_types.h"

namespace heddle::open {

namespace {

Result<std::vector<TensorSignature>> make_types(const flatbuffers::Vector<flatbuffers::Offset<module_format::TensorType>>& types,
                                                std::string_view function) {
  std::vector<TensorSignature> made;
  made.reserve(types.size());
  for (const module_format::TensorType* type : types) {
    TensorSignature one;
    one.name = type->name()->str();
    one.element_type = type->element_type();
    one.slot = type->slot();
    if (type->dims()->size() > HEDDLE_MAX_RANK) {
      return error(HEDDLE_STATUS_UNIMPLEMENTED, "heddle: opening function '{}' failed: '{}' has rank {}; this runtime supports up to {}",
                   function, one.name, type->dims()->size(), HEDDLE_MAX_RANK);
    }
    for (const module_format::Dim* dim : *type->dims()) one.extents.push_back({dim->symbol() >= 0 ? -1 : dim->value(), dim->symbol()});
    made.push_back(std::move(one));
  }
  return made;
}

// "dimension 0 of input 'x'": where a symbol got its value before dimension `dim` of an argument; empty for its first use.
std::string first_use(const Signature& signature, int32_t symbol, uint32_t argument, uint32_t dim) {
  for (uint32_t i = 0; i <= argument; ++i) {
    const TensorSignature& type = signature.arguments[i];
    const size_t count = i < argument ? type.extents.size() : dim;
    for (size_t d = 0; d < count; ++d) {
      if (type.extents[d].symbol == symbol) return fmt::format("dimension {} of input '{}'", d, type.name);
    }
  }
  return {};
}

}  // namespace

Result<Signature> make_signature(const module_format::Function& function) {
  Signature signature;
  signature.name = function.name()->str();
  Result<std::vector<TensorSignature>> arguments = make_types(*function.arguments(), signature.name);
  if (!arguments.ok()) return arguments.take_status();
  signature.arguments = std::move(*arguments);
  Result<std::vector<TensorSignature>> results = make_types(*function.results(), signature.name);
  if (!results.ok()) return results.take_status();
  signature.results = std::move(*results);
  for (const module_format::Symbol* symbol : *function.symbols()) {
    signature.symbols.push_back({symbol->name()->str(), symbol->min(), symbol->max(), symbol->divisor() > 0 ? symbol->divisor() : 1});
  }
  if (function.donations()) {
    for (const module_format::Donation* donation : *function.donations()->all()) {
      TensorSignature& argument = signature.arguments[donation->argument()];
      argument.is_consumed = signature.consumes = true;
      argument.alias = donation->result();
      if (argument.alias >= 0) signature.results[static_cast<size_t>(argument.alias)].alias = static_cast<int32_t>(donation->argument());
    }
  }
  return signature;
}

const Signature& initializer_signature() {
  static const Signature signature{"initializer", {}, {}, {}, false};
  return signature;
}

std::optional<std::vector<std::vector<int64_t>>> static_dims(const Signature& signature) {
  if (!signature.symbols.empty()) return std::nullopt;
  std::vector<std::vector<int64_t>> dims;
  for (const TensorSignature& argument : signature.arguments) {
    std::vector<int64_t>& extents = dims.emplace_back();
    for (const Extent& extent : argument.extents) extents.push_back(extent.value);
  }
  return dims;
}

std::string explain_argument(const Signature& signature, uint32_t argument, const ActualShape& actual, std::span<const int64_t> symbols) {
  const TensorSignature& expected = signature.arguments[argument];
  std::string text = "input '" + expected.name + "' expects " + type_text(signature, expected) + ", got " +
                     module::shape_text(actual.element_type, {actual.dims, actual.rank});
  if (actual.element_type != expected.element_type || actual.rank != expected.extents.size()) return text;
  for (uint32_t i = 0; i < actual.rank; ++i) {
    const Extent& extent = expected.extents[i];
    const int64_t dim = actual.dims[i];
    if (extent.symbol < 0) {
      if (extent.value >= 0 && extent.value != dim) {
        return text + fmt::format(": dimension {} is {} and must be {}", i, dim, extent.value);
      }
      continue;
    }
    const SymbolRange& range = signature.symbols[static_cast<size_t>(extent.symbol)];
    const int64_t known = symbols[static_cast<size_t>(extent.symbol)];
    const std::string found = fmt::format(": dimension {} ('{}') is {} and must be ", i, range.name, dim);
    if (known >= 0 && known != dim) {
      const std::string from = first_use(signature, extent.symbol, argument, i);
      return text + found + std::to_string(known) + (from.empty() ? "" : ", as " + from);
    }
    if (dim < range.min) return text + found + "at least " + std::to_string(range.min);
    if (dim > range.max) return text + found + "at most " + std::to_string(range.max);
    if (range.divisor > 1 && dim % range.divisor != 0) return text + found + "a multiple of " + std::to_string(range.divisor);
  }
  return text;
}

std::string type_text(const Signature& signature, const TensorSignature& type) {
  std::vector<std::string> extents;
  for (const Extent& extent : type.extents) {
    const bool is_symbol = extent.symbol >= 0;
    extents.push_back(is_symbol           ? signature.symbols[static_cast<size_t>(extent.symbol)].name
                      : extent.value >= 0 ? std::to_string(extent.value)
                                          : "?");
  }
  return module::type_text(module::element_type_name(type.element_type), extents);
}

}  // namespace heddle::open
