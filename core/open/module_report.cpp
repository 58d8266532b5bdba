// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The content of a module as JSON: for `heddle explain`, for tools that list functions, for people.
// Called through OpenModule::report; the field names are part of the runtime's stable interface.
#include <nlohmann/json.hpp>

#include "core/open/module.h"
#include "heddle/ext/library.h"
#include "sdk/module/element_types.h"

namespace heddle::open {

namespace {

using Json = nlohmann::ordered_json;
namespace mf = module_format;

Json types(const Signature& signature, const std::vector<TensorSignature>& list) {
  Json out = Json::array();
  for (const TensorSignature& type : list) {
    Json dims = Json::array();
    for (const Extent& extent : type.extents) {
      if (extent.symbol >= 0) {
        dims.push_back(signature.symbols[static_cast<size_t>(extent.symbol)].name);
      } else if (extent.value >= 0) {
        dims.push_back(extent.value);
      } else {
        dims.push_back(nullptr);
      }
    }
    out.push_back({{"name", type.name},
                   {"type", type_text(signature, type)},
                   {"element_type", module::element_type_name(type.element_type)},
                   {"dims", std::move(dims)},
                   {"slot", type.slot}});
  }
  return out;
}

Json strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>& list) {
  Json out = Json::array();
  for (const flatbuffers::String* text : list) out.push_back(text->str());
  return out;
}

Json attributes(const mf::Operation& operation) {
  Json out = Json::object();
  for (const mf::OperationAttribute* attribute : *operation.attributes()) {
    Json& value = out[attribute->name()->str()];
    const std::vector<int64_t> ints(attribute->ints()->begin(), attribute->ints()->end());
    const std::vector<double> floats(attribute->floats()->begin(), attribute->floats()->end());
    switch (attribute->kind()) {
      case HEDDLE_ATTRIBUTE_INT:
        value = ints[0];
        break;
      case HEDDLE_ATTRIBUTE_FLOAT:
        value = floats[0];
        break;
      case HEDDLE_ATTRIBUTE_STRING:
        value = std::string(attribute->text()->begin(), attribute->text()->end());
        break;
      case HEDDLE_ATTRIBUTE_INTS:
        value = ints;
        break;
      default:
        value = floats;
    }
  }
  return out;
}

// Operators that library plugins must provide, or may run although the module has kernels for them; one entry per site.
Json operations(const mf::Program& program) {
  Json out = Json::array();
  for (const mf::DispatchSite* site : *program.dispatches()) {
    const mf::Operation* operation = site->operation();
    if (!operation) continue;
    out.push_back(
        {{"region", site->name()->str()},
         {"operator", fmt::format("{}::{}/{}", operation->domain()->string_view(), operation->name()->string_view(), operation->version())},
         {"attributes", attributes(*operation)},
         {"slot", site->slot()},
         {"required", site->candidates()->size() == 0}});
  }
  return out;
}

Json programs(const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& list) {
  Json out = Json::array();
  for (const mf::Program* program : list) {
    Json regions = Json::array();
    for (const mf::DispatchSite* site : *program->dispatches()) regions.push_back(site->name()->str());
    out.push_back({{"families", strings(*program->families())},
                   {"instructions", program->code()->size()},
                   {"transients", program->transients()->size()},
                   {"regions", std::move(regions)}});
    if (Json used = operations(*program); !used.empty()) out.back()["operations"] = std::move(used);
  }
  return out;
}

}  // namespace

std::string OpenModule::report() const {
  const mf::Module& meta = metadata();
  Json out;
  out["path"] = path();
  out["name"] = meta.name()->str();
  out["producer"] = meta.producer()->str();
  std::string hash;
  for (uint8_t byte : file_->content_hash()) hash += fmt::format("{:02x}", byte);
  out["content_hash"] = hash;
  out["slots"] = Json::array();
  for (const mf::Slot* slot : *meta.slots()) out["slots"].push_back(slot->name()->str());

  out["functions"] = Json::array();
  for (uint32_t i = 0; i < signatures_.size(); ++i) {
    const Signature& signature = signatures_[i];
    Json symbols = Json::array();
    for (const SymbolRange& symbol : signature.symbols) {
      symbols.push_back({{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}, {"divisor", symbol.divisor}});
    }
    out["functions"].push_back({{"name", signature.name},
                                {"arguments", types(signature, signature.arguments)},
                                {"results", types(signature, signature.results)},
                                {"symbols", std::move(symbols)},
                                {"programs", programs(*meta.functions()->Get(i)->programs())}});
  }
  out["initializer"] = programs(*meta.initializer());

  out["executables"] = Json::array();
  for (const mf::Executable* executable : *meta.executables()) {
    Json entries = Json::array(), variants = Json::array();
    for (const mf::Entry* entry : *executable->entries()) {
      entries.push_back(
          {{"name", entry->name()->str()}, {"bindings", entry->binding_count()}, {"constants_bytes", entry->constants_bytes()}});
    }
    for (const mf::Variant* variant : *executable->variants()) {
      Json resources = Json::array();
      for (const mf::EntryResources* one : *variant->resources()) {
        Json record{
            {"workspace_bytes", one->workspace_bytes()}, {"shared_memory_bytes", one->shared_memory_bytes()}, {"cost_ns", one->cost()}};
        if (one->rung()->size() != 0) record["rung"] = one->rung()->str();
        resources.push_back(std::move(record));
      }
      variants.push_back({{"format", variant->format()->str()},
                          {"target", variant->target()->str()},
                          {"family", variant->family()->str()},
                          {"code_bytes", variant->code()->length()},
                          {"resources", std::move(resources)}});
    }
    out["executables"].push_back({{"name", executable->name()->str()}, {"entries", std::move(entries)}, {"variants", std::move(variants)}});
  }

  out["parameters"] = Json::array();
  for (const mf::Parameter* parameter : *meta.parameters()) {
    std::vector<int64_t> dims(parameter->dims()->begin(), parameter->dims()->end());
    out["parameters"].push_back({{"scope", parameter->scope()->str()},
                                 {"name", parameter->name()->str()},
                                 {"type", module::shape_text(parameter->element_type(), dims)},
                                 {"size_bytes", parameter->size_bytes()},
                                 {"stored", parameter->stored()}});
  }
  out["globals"] = Json::array();
  for (const mf::Global* global : *meta.globals()) {
    static constexpr const char* kKinds[] = {"parameter", "constant", "derived", "state"};
    uint32_t kind = static_cast<uint32_t>(global->kind());
    out["globals"].push_back({{"name", global->name()->str()},
                              {"kind", kind < 4 ? kKinds[kind] : "unknown"},
                              {"size_bytes", global->size_bytes()},
                              {"slot", global->slot()},
                              {"initializer_only", global->initializer_only()}});
  }
  // The compiler's report is itself JSON; any other text is passed on as a string. Anything nested deeper than 64 levels is left out: writing JSON
  // recurses, and the file is not trusted.
  if (meta.report()->size() != 0) {
    auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 64; };
    Json report = Json::parse(meta.report()->str(), shallow, false);
    out["compiler_report"] = report.is_discarded() ? Json(meta.report()->str()) : std::move(report);
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle::open
