// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of a module's metadata, from the outside in: structure, slots, executables, parameters, globals, functions, initializers.
#include "sdk/module/verifier.h"

#include <heddle_module/module_generated.h>

#include <string>
#include <unordered_set>
#include <utility>

#include "heddle/driver.h"
#include "sdk/module/element_types.h"
#include "sdk/module/layout.h"
#include "sdk/module/utf8.h"
#include "sdk/module/verify_program.h"

namespace heddle::module {
namespace {

namespace mf = module_format;

template <typename... Parts>
Status broken(const Parts&... parts) {
  return Error{HEDDLE_STATUS_DATA_LOSS, concat(parts...)};
}

// Checks that the range is inside a section of `size` bytes and starts at a multiple of `alignment`.
Status verify_range(const mf::Range* range, uint64_t size, uint64_t alignment, std::string_view section) {
  if (range == nullptr) return broken("its range in section ", section, " is missing");
  if (range->offset() > size || range->length() > size - range->offset()) {
    return broken("its ", range->length(), " bytes from byte ", range->offset(), " are outside section ", section, " of ", size, " bytes");
  }
  if (range->offset() % alignment != 0)
    return broken("its start, byte ", range->offset(), " of section ", section, ", is not a multiple of ", alignment);
  return std::nullopt;
}

Status in(std::string_view what, Status inner) {
  if (inner) inner->message = concat(what, ": ", inner->message);
  return inner;
}

class ModuleChecker {
 public:
  ModuleChecker(const mf::Module& module, const SectionSizes& sizes, uint64_t metadata_bytes)
      : module_(module), sizes_(sizes), budget_(metadata_bytes) {}

  Status run() {
    if (!all_usable(module_.slots(), module_.functions(), module_.initializer(), module_.executables(), module_.parameters(),
                    module_.globals()) ||
        !module_.report()) {
      return broken("module: a vector is missing or misaligned");
    }
    if (Status bad = verify_name(module_.producer(), true, "producer", budget_)) return bad;
    if (Status bad = verify_name(module_.name(), true, "module name", budget_)) return bad;
    if (!is_utf8_text(module_.report()->string_view())) return broken("report: it is not UTF-8 text");
    if (!budget_.take(uint64_t{4} * (module_.functions()->size() + uint64_t{module_.executables()->size()} + module_.parameters()->size() +
                                     module_.globals()->size()))) {
      return broken("module: its vectors are shared");
    }
    if (Status bad = slots()) return bad;
    for (uint32_t i = 0; i < module_.executables()->size(); ++i) {
      if (Status bad = executable(*module_.executables()->Get(i))) return in(concat("executable ", i), bad);
    }
    if (Status bad = parameters()) return bad;
    bool has_derived = false;
    for (uint32_t i = 0; i < module_.globals()->size(); ++i) {
      if (Status bad = global(*module_.globals()->Get(i))) return in(concat("global ", i), bad);
      has_derived |= module_.globals()->Get(i)->kind() == mf::GlobalKind::Derived;
    }
    if (has_derived && module_.initializer()->size() == 0) return broken("initializer: there is none, but derived globals need one");
    if (Status bad = functions()) return bad;
    for (uint32_t i = 0; i < module_.initializer()->size(); ++i) {
      if (Status bad = verify_program(module_, nullptr, *module_.initializer()->Get(i), concat("initializer ", i), budget_)) return bad;
    }
    return std::nullopt;
  }

 private:
  Status slots() {
    const uint32_t count = module_.slots()->size();
    if (count == 0 || count > kMaxSlots) return broken("slots: there are ", count, ", expected 1..", kMaxSlots);
    std::unordered_set<std::string_view> names;
    for (uint32_t i = 0; i < count; ++i) {
      const flatbuffers::String* name = module_.slots()->Get(i)->name();
      if (Status bad = verify_name(name, true, "name", budget_)) return in(concat("slot ", i), bad);
      if (!names.insert(name->string_view()).second)
        return broken("slot ", i, ": the name ", in_quotes(name->string_view()), " is a duplicate");
    }
    return std::nullopt;
  }

  Status entry(const mf::Entry& entry) {
    if (!all_usable(entry.arguments())) return broken("a vector is missing or misaligned");
    if (!budget_.take(uint64_t{4} * entry.arguments()->size())) return broken("its vectors are shared with others");
    if (Status bad = verify_name(entry.name(), false, "name", budget_)) return bad;
    if (entry.binding_count() > kMaxBindings) return broken("binding count ", entry.binding_count(), " is above ", kMaxBindings);
    if (entry.constants_bytes() > kMaxConstantsBytes || entry.constants_bytes() % 8 != 0) {
      return broken("constants of ", entry.constants_bytes(), " bytes are not a multiple of 8 up to ", kMaxConstantsBytes);
    }
    for (uint32_t i = 0; i < entry.arguments()->size(); ++i) {
      const mf::Argument* argument = entry.arguments()->Get(i);
      if (!argument->payload()) return broken("argument ", i, ": its payload is missing");
      switch (argument->kind()) {
        case 0:    // HEDDLE_ARGUMENT_BINDING
        case 2: {  // HEDDLE_ARGUMENT_TENSOR_MAP
          if (argument->index() >= entry.binding_count()) {
            return broken("argument ", i, ": binding ", argument->index(), " is not one of ", entry.binding_count());
          }
          break;
        }
        case 1:  // HEDDLE_ARGUMENT_CONSTANT
          if (argument->size_bytes() > entry.constants_bytes() || argument->index() > entry.constants_bytes() - argument->size_bytes()) {
            return broken("argument ", i, ": ", argument->size_bytes(), " bytes from byte ", argument->index(),
                          " are outside the constants of ", entry.constants_bytes(), " bytes");
          }
          break;
        default:
          return broken("argument ", i, ": kind ", argument->kind(), " is not known");
      }
    }
    return std::nullopt;
  }

  Status variant(const mf::Variant& variant, uint32_t entry_count) {
    if (!all_usable(variant.resources())) return broken("a vector is missing or misaligned");
    if (!budget_.take(uint64_t{4} * variant.resources()->size())) return broken("its vectors are shared with others");
    if (Status bad = verify_name(variant.format(), false, "format", budget_)) return bad;
    if (Status bad = verify_name(variant.target(), false, "target", budget_)) return bad;
    if (Status bad = verify_name(variant.family(), false, "family", budget_)) return bad;
    if (Status bad = verify_range(variant.code(), sizes_.code, kPageAlignment, "code")) return bad;
    if (variant.code()->length() == 0) return broken("its code is empty");
    if (variant.resources()->size() != entry_count)
      return broken("resources of ", variant.resources()->size(), " entries, there are ", entry_count);
    for (uint32_t i = 0; i < entry_count; ++i) {
      const mf::EntryResources* need = variant.resources()->Get(i);
      const std::string where = concat("resources of entry ", i);
      if (!all_usable(need->workgroup_size())) return in(where, broken("a vector is missing or misaligned"));
      if (Status bad = verify_name(need->rung(), true, "rung", budget_)) return in(where, bad);
      const uint32_t axes = need->workgroup_size()->size();
      if (axes != 0 && axes != 3) return in(where, broken("workgroup size of ", axes, " numbers, not 0 or 3"));
      uint64_t threads = 1;
      for (uint32_t extent : *need->workgroup_size()) {
        if (extent == 0 || extent > kMaxWorkgroupSize)
          return in(where, broken("workgroup extent ", extent, " is outside 1..", kMaxWorkgroupSize));
        threads *= extent;
      }
      if (threads > kMaxWorkgroupSize) return in(where, broken("workgroup of ", threads, " threads is above ", kMaxWorkgroupSize));
      if (need->subgroup_size() > kMaxWorkgroupSize)
        return in(where, broken("subgroup size ", need->subgroup_size(), " is above ", kMaxWorkgroupSize));
      if (need->workspace_bytes() > kMaxWorkspaceBytes)
        return in(where, broken("workspace of ", need->workspace_bytes(), " bytes is above ", kMaxWorkspaceBytes));
      if (const uint32_t flags = need->flags().value_or(0); flags > HEDDLE_ENTRY_IN_ORDER)
        return in(where, broken("flags ", flags, " are unknown"));
      if (need->shared_memory_bytes() > kMaxWorkspaceBytes) {
        return in(where, broken("shared memory of ", need->shared_memory_bytes(), " bytes is above ", kMaxWorkspaceBytes));
      }
    }
    return std::nullopt;
  }

  Status executable(const mf::Executable& executable) {
    if (!all_usable(executable.entries(), executable.variants())) return broken("a vector is missing or misaligned");
    if (!budget_.take(uint64_t{4} * (uint64_t{executable.entries()->size()} + executable.variants()->size()))) {
      return broken("its vectors are shared with others");
    }
    if (Status bad = verify_name(executable.name(), true, "name", budget_)) return bad;
    if (executable.entries()->size() == 0) return broken("it has no entry");
    if (executable.variants()->size() == 0) return broken("it has no variant");
    for (uint32_t i = 0; i < executable.entries()->size(); ++i) {
      if (Status bad = entry(*executable.entries()->Get(i))) return in(concat("entry ", i), bad);
    }
    for (uint32_t i = 0; i < executable.variants()->size(); ++i) {
      if (Status bad = variant(*executable.variants()->Get(i), executable.entries()->size())) return in(concat("variant ", i), bad);
    }
    return std::nullopt;
  }

  Status parameter(const mf::Parameter& parameter) {
    if (!all_usable(parameter.dims())) return broken("a vector is missing or misaligned");
    if (!budget_.take(uint64_t{8} * parameter.dims()->size())) return broken("its vectors are shared with others");
    if (Status bad = verify_name(parameter.scope(), true, "scope", budget_)) return bad;
    if (Status bad = verify_name(parameter.name(), false, "name", budget_)) return bad;
    if (!element_type_exists(parameter.element_type())) return broken("element type ", parameter.element_type(), " is not known");
    if (parameter.dims()->size() > HEDDLE_MAX_RANK) return broken("rank ", parameter.dims()->size(), " is above ", HEDDLE_MAX_RANK);
    const std::vector<int64_t> dims(parameter.dims()->begin(), parameter.dims()->end());
    const std::optional<uint64_t> bytes = tensor_bytes(HEDDLE_TYPE_BITS(parameter.element_type()), dims);
    if (!bytes || *bytes > kMaxSizeBytes)
      return broken("its shape ", shape_text(parameter.element_type(), dims), " has no size up to ", kMaxSizeBytes, " bytes");
    if (parameter.size_bytes() != *bytes) {
      return broken("size of ", parameter.size_bytes(), " bytes, its shape ", shape_text(parameter.element_type(), dims), " has ", *bytes);
    }
    if (parameter.blocks()) {
      if (Status bad = verify_name(parameter.blocks()->type(), false, "type of blocks", budget_)) return bad;
      if (parameter.stored() || parameter.element_type() != HEDDLE_TYPE_U8 || dims.size() != 2)
        return broken("it has blocks, and is stored or has ", shape_text(parameter.element_type(), dims),
                      "; blocks are rows of u8 in a file");
      if (static_cast<uint64_t>(dims[1]) > kMaxSizeBytes) return broken("its rows of ", dims[1], " bytes are above ", kMaxSizeBytes);
    }
    if (!parameter.stored()) return std::nullopt;
    if (Status bad = verify_range(parameter.data(), sizes_.parameters, kSectionAlignment, "parameters")) return bad;
    if (parameter.data()->length() != *bytes) return broken(parameter.data()->length(), " of ", *bytes, " bytes are stored");
    return std::nullopt;
  }

  Status parameters() {
    struct Hash {
      size_t operator()(const std::pair<std::string_view, std::string_view>& name) const {
        return std::hash<std::string_view>()(name.first) * 31 + std::hash<std::string_view>()(name.second);
      }
    };
    std::unordered_set<std::pair<std::string_view, std::string_view>, Hash> names;  // views into the metadata
    for (uint32_t i = 0; i < module_.parameters()->size(); ++i) {
      const mf::Parameter& at = *module_.parameters()->Get(i);
      if (Status bad = parameter(at)) return in(concat("parameter ", i), bad);
      if (!names.emplace(at.scope()->string_view(), at.name()->string_view()).second)
        return broken("parameter ", i, ": the name ", in_quotes(at.name()->string_view()), " is a duplicate");
    }
    return std::nullopt;
  }

  Status global(const mf::Global& global) {
    if (Status bad = verify_name(global.name(), true, "name", budget_)) return bad;
    if (global.slot() >= module_.slots()->size()) return broken("slot ", global.slot(), " is not one of ", module_.slots()->size());
    if (global.size_bytes() > kMaxSizeBytes) return broken("size of ", global.size_bytes(), " bytes is above ", kMaxSizeBytes);
    switch (global.kind()) {
      case mf::GlobalKind::Parameter: {
        if (global.index() >= module_.parameters()->size())
          return broken("parameter ", global.index(), " is not one of ", module_.parameters()->size());
        const uint64_t bytes = module_.parameters()->Get(global.index())->size_bytes();
        if (global.size_bytes() != bytes) return broken("size of ", global.size_bytes(), " bytes, its parameter has ", bytes);
        return std::nullopt;
      }
      case mf::GlobalKind::Constant:
        if (Status bad = verify_range(global.data(), sizes_.constants, kSectionAlignment, "constants")) return bad;
        if (global.size_bytes() != global.data()->length()) {
          return broken("size of ", global.size_bytes(), " bytes, its constant has ", global.data()->length());
        }
        return std::nullopt;
      case mf::GlobalKind::Derived:
      case mf::GlobalKind::State:
        return std::nullopt;
    }
    return broken("kind ", static_cast<uint32_t>(global.kind()), " is not known");
  }

  Status tensor(const mf::TensorType& type, uint32_t symbols, bool is_result) {
    if (!all_usable(type.dims())) return broken("a vector is missing or misaligned");
    if (!budget_.take(sizeof(mf::Dim) * uint64_t{type.dims()->size()})) return broken("its vectors are shared with others");
    if (Status bad = verify_name(type.name(), true, "name", budget_)) return bad;
    if (!element_type_exists(type.element_type())) return broken("element type ", type.element_type(), " is not known");
    if (type.dims()->size() > HEDDLE_MAX_RANK) return broken("rank ", type.dims()->size(), " is above ", HEDDLE_MAX_RANK);
    if (type.slot() >= module_.slots()->size()) return broken("slot ", type.slot(), " is not one of ", module_.slots()->size());
    std::vector<int64_t> known;
    for (uint32_t i = 0; i < type.dims()->size(); ++i) {
      const mf::Dim* dim = type.dims()->Get(i);
      if (dim->symbol() >= 0) {
        if (static_cast<uint32_t>(dim->symbol()) >= symbols)
          return broken("dimension ", i, ": symbol ", dim->symbol(), " is not one of ", symbols);
      } else if (dim->symbol() != -1) {
        return broken("dimension ", i, ": symbol ", dim->symbol(), " is below -1");
      } else if (dim->value() >= 0) {
        known.push_back(dim->value());
      } else if (!is_result || dim->value() != -1) {
        return broken("dimension ", i, ": extent ", dim->value(), " is negative");
      }
    }
    const std::optional<uint64_t> bytes = tensor_bytes(HEDDLE_TYPE_BITS(type.element_type()), known);
    if (!bytes || *bytes > kMaxSizeBytes) return broken("its shape has no size up to ", kMaxSizeBytes, " bytes");
    return std::nullopt;
  }

  Status function(const mf::Function& function) {
    if (!all_usable(function.arguments(), function.results(), function.symbols(), function.programs()))
      return broken("a vector is missing or misaligned");
    const uint32_t arguments = function.arguments()->size(), results = function.results()->size(), symbols = function.symbols()->size();
    const uint32_t programs = function.programs()->size();
    if (!budget_.take(uint64_t{4} * (uint64_t{arguments} + results + symbols + programs)))
      return broken("its vectors are shared with others");
    if (arguments > kMaxArguments) return broken("argument count ", arguments, " is above ", kMaxArguments);
    if (results > kMaxArguments) return broken("result count ", results, " is above ", kMaxArguments);
    if (programs == 0 || programs > kMaxPrograms) return broken("program count ", programs, " is outside 1..", kMaxPrograms);
    for (uint32_t i = 0; i < symbols; ++i) {
      const mf::Symbol* symbol = function.symbols()->Get(i);
      if (Status bad = verify_name(symbol->name(), true, "name", budget_)) return in(concat("symbol ", i), bad);
      if (symbol->min() < 0 || symbol->min() > symbol->max())
        return broken("symbol ", i, ": range ", symbol->min(), "..", symbol->max(), " is empty or negative");
      if (symbol->divisor() <= 0) return broken("symbol ", i, ": divisor ", symbol->divisor(), " is not positive");
    }
    for (uint32_t i = 0; i < arguments; ++i) {
      if (Status bad = tensor(*function.arguments()->Get(i), symbols, false)) return in(concat("argument ", i), bad);
    }
    for (uint32_t i = 0; i < results; ++i) {
      if (Status bad = tensor(*function.results()->Get(i), symbols, true)) return in(concat("result ", i), bad);
    }
    if (Status bad = donations(function)) return bad;
    for (uint32_t i = 0; i < programs; ++i) {
      const mf::Program& program = *function.programs()->Get(i);
      if (Status bad = verify_program(module_, &function, program, concat("program ", i), budget_)) return bad;
    }
    return std::nullopt;
  }

  static bool same_type(const mf::TensorType& a, const mf::TensorType& b) {
    auto same_dim = [](const mf::Dim* one, const mf::Dim* other) {
      return one->symbol() == other->symbol() && (one->symbol() >= 0 || one->value() == other->value());
    };
    return a.element_type() == b.element_type() && a.slot() == b.slot() &&
           std::equal(a.dims()->begin(), a.dims()->end(), b.dims()->begin(), b.dims()->end(), same_dim);
  }

  Status donations(const mf::Function& function) {
    if (!function.donations()) return std::nullopt;
    const auto* donations = function.donations()->all();
    if (!usable(donations)) return broken("the vector of donations is missing or misaligned");
    if (!budget_.take(sizeof(mf::Donation) * uint64_t{donations->size()})) return broken("its vectors are shared with others");
    std::vector<bool> taken(function.results()->size(), false);
    for (uint32_t i = 0; i < donations->size(); ++i) {
      const mf::Donation& donation = *donations->Get(i);
      auto wrong = [&](const auto&... parts) { return broken("donation ", i, ": ", parts...); };
      if (donation.argument() >= function.arguments()->size())
        return wrong("argument ", donation.argument(), " is not one of ", function.arguments()->size());
      if (i != 0 && donation.argument() <= donations->Get(i - 1)->argument())
        return wrong("argument ", donation.argument(), " is not in order");
      if (donation.result() == -1) continue;
      if (donation.result() < 0 || static_cast<uint32_t>(donation.result()) >= function.results()->size())
        return wrong("result ", donation.result(), " is not one of ", function.results()->size());
      const auto result = static_cast<uint32_t>(donation.result());
      if (taken[result]) return wrong("result ", result, " takes the memory of two arguments");
      taken[result] = true;
      if (!same_type(*function.arguments()->Get(donation.argument()), *function.results()->Get(result)))
        return wrong("argument ", donation.argument(), " and result ", result, " differ in type or slot");
    }
    return std::nullopt;
  }

  Status functions() {
    std::unordered_set<std::string_view> names;
    for (uint32_t i = 0; i < module_.functions()->size(); ++i) {
      const mf::Function& at = *module_.functions()->Get(i);
      if (Status bad = verify_name(at.name(), false, "name", budget_)) return in(concat("function ", i), bad);
      if (!names.insert(at.name()->string_view()).second)
        return broken("function ", i, ": the name ", in_quotes(at.name()->string_view()), " is a duplicate");
      if (Status bad = function(at)) return in(concat("function ", in_quotes(at.name()->string_view())), bad);
    }
    return std::nullopt;
  }

  const mf::Module& module_;
  const SectionSizes& sizes_;
  WorkBudget budget_;
};

}  // namespace

Status verify_name(const flatbuffers::String* text, bool may_be_empty, std::string_view what, WorkBudget& budget) {
  if (text == nullptr) return broken(what, ": it is missing");
  if (text->size() == 0 && !may_be_empty) return broken(what, ": it is empty");
  if (text->size() > kMaxNameBytes) return broken(what, ": ", text->size(), " bytes are above ", kMaxNameBytes);
  if (!budget.take(text->size())) return broken(what, ": its ", text->size(), " bytes are shared with others");
  if (!is_utf8_text(text->string_view())) return broken(what, ": it is not UTF-8 text");
  return std::nullopt;
}

Status verify_metadata(std::span<const std::byte> metadata, const SectionSizes& sizes) {
  // FlatBuffers counts in 32 bits, and its verifier asserts instead of failing beyond that.
  if (metadata.size() < 16 || metadata.size() > kMaxMetadataBytes)
    return broken("metadata: ", metadata.size(), " bytes are outside 16..", kMaxMetadataBytes);
  // A table without sharing takes at least 8 bytes (its vtable reference and the reference to it): a bound that sharing cannot exceed.
  const uint32_t tables = static_cast<uint32_t>(metadata.size() / 8);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(metadata.data()), metadata.size(), 16, tables);
  if (!mf::VerifyModuleBuffer(verifier)) return broken("metadata: its structure is damaged");
  return ModuleChecker(*mf::GetModule(metadata.data()), sizes, metadata.size()).run();
}

}  // namespace heddle::module
