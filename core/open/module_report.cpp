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

// The commands of a program in the order of its code, each with the values that it reads and writes: the edges of its data flow.
class Commands {
 public:
  explicit Commands(const mf::Program& program) : program_(program), literals_(program.register_count(), -1) {
    std::vector<bool> is_set(literals_.size(), false);
    auto is_written = [](mf::Op op) {
      return (op >= mf::Op::Literal && op <= mf::Op::LessEqual) || op == mf::Op::ArgumentDim || op == mf::Op::ReadScalar ||
             op == mf::Op::ComputeUnits;
    };
    for (const mf::Instruction* one : *program.code()) {
      if (!is_written(mf::Op(one->op())) || one->a() >= literals_.size()) continue;
      const bool is_literal = mf::Op(one->op()) == mf::Op::Literal && !is_set[one->a()];
      literals_[one->a()] = is_literal ? program.literals()->Get(one->b()) : -1;
      is_set[one->a()] = true;
    }
  }

  // Bytes of each transient; null if they are known only at the call.
  Json transient_bytes() const {
    Json out = Json::array();
    for (const mf::Transient* transient : *program_.transients()) out.push_back(known(transient->size_register()));
    return out;
  }

  Json list() const {
    Json out = Json::array();
    for (const mf::Instruction* one : *program_.code()) {
      if (mf::Op(one->op()) == mf::Op::Dispatch) {
        const mf::DispatchSite& site = *program_.dispatches()->Get(one->a());
        Json bindings = Json::array();
        int64_t dim = 0;
        const bool is_typed = site.binding_types() && site.binding_types()->size() == site.bindings()->size();
        for (uint32_t i = 0; i < site.bindings()->size(); ++i) {
          bindings.push_back(binding(*site.bindings()->Get(i), site.bindings()->Get(i)->access()));
          if (!is_typed) continue;
          const mf::BindingType& type = *site.binding_types()->Get(i);
          bindings.back()["type"] = module::shape_text(type.element_type(), {site.binding_dims()->data() + dim, type.rank()});
          dim += type.rank();
        }
        add(out, "dispatch", std::move(bindings));
        out.back()["region"] = site.name()->str();
        out.back()["slot"] = site.slot();
      } else if (mf::Op(one->op()) == mf::Op::Copy) {
        const mf::CopySite& site = *program_.copies()->Get(one->a());
        Json bindings = Json::array();
        bindings.push_back(binding(site.source(), kRead));
        bindings.push_back(binding(site.target(), kWrite));
        add(out, "copy", std::move(bindings));
      } else if (mf::Op(one->op()) == mf::Op::Fill) {
        Json bindings = Json::array();
        bindings.push_back(binding(program_.fills()->Get(one->a())->target(), kWrite));
        add(out, "fill", std::move(bindings));
      } else if (mf::Op(one->op()) == mf::Op::ReadScalar) {
        Json bindings = Json::array();
        bindings.push_back(binding({one->b(), one->c(), UINT32_MAX, kRead}, kRead));
        bindings.back()["bytes"] = sizeof(int64_t);
        add(out, "read", std::move(bindings));
      }
    }
    return out;
  }

 private:
  static constexpr uint32_t kRead = 1, kWrite = 2;  // of BindingRef.access

  static void add(Json& out, const char* command, Json bindings) {
    Json one;
    one["command"] = command;
    one["bindings"] = std::move(bindings);
    out.push_back(std::move(one));
  }

  Json known(uint32_t index) const {
    const int64_t value = index < literals_.size() ? literals_[index] : -1;
    return value < 0 ? Json() : Json(value);
  }

  // Without "offset" it starts at the value's start, without "bytes" it ends at its end; null for what is known only at the call.
  Json binding(const mf::BindingRef& ref, uint32_t access) const {
    static constexpr const char* kKinds[] = {"argument", "result", "transient", "global", "verdict"};
    static constexpr const char* kAccess[] = {"none", "read", "write", "both"};
    const mf::Value& value = *program_.values()->Get(ref.value());
    const auto kind = static_cast<uint32_t>(value.kind());
    Json out;
    out["value"] = kind < 5 ? kKinds[kind] : "unknown";
    out["index"] = value.index();
    out["access"] = kAccess[access & 3];
    if (ref.offset_register() != UINT32_MAX) out["offset"] = known(ref.offset_register());
    if (ref.length_register() != UINT32_MAX) out["bytes"] = known(ref.length_register());
    return out;
  }

  const mf::Program& program_;
  std::vector<int64_t> literals_;  // of registers that are written once, by a literal; -1 for others
};

Json programs(const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& list, bool with_commands) {
  Json out = Json::array();
  for (const mf::Program* program : list) {
    Json regions = Json::array();
    for (const mf::DispatchSite* site : *program->dispatches()) regions.push_back(site->name()->str());
    out.push_back({{"families", strings(*program->families())},
                   {"instructions", program->code()->size()},
                   {"transients", program->transients()->size()},
                   {"regions", std::move(regions)}});
    if (with_commands) {
      const Commands commands(*program);
      out.back()["transient_bytes"] = commands.transient_bytes();
      out.back()["commands"] = commands.list();
    }
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
                                {"programs", programs(*meta.functions()->Get(i)->programs(), true)}});
  }
  out["initializer"] = programs(*meta.initializer(), false);

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
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle::open
