// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The content of a module as JSON: for `heddle explain`, for tools that list functions, for people.
// Called through OpenModule::report; the field names are part of the runtime's stable interface. Written without a tree: the report of a large module
// has a megabyte.
#include "core/open/module.h"
#include "core/open/parameter_files.h"
#include "heddle/ext/library.h"
#include "sdk/module/element_types.h"
#include "sdk/module/json.h"

namespace heddle::open {

namespace {

using module::JsonWriter;
namespace mf = module_format;

// others: the results for arguments, the arguments for results.
void write_types(JsonWriter& out, const Signature& signature, const std::vector<TensorSignature>& list,
                 const std::vector<TensorSignature>& others) {
  out.open('[');
  for (const TensorSignature& type : list) {
    out.open('{').key("name").text(type.name);
    out.key("type").text(type_text(signature, type));
    out.key("element_type").text(module::element_type_name(type.element_type));
    out.key("dims").open('[');
    for (const Extent& extent : type.extents) {
      if (extent.symbol >= 0) {
        out.text(signature.symbols[static_cast<size_t>(extent.symbol)].name);
      } else if (extent.value >= 0) {
        out.number(extent.value);
      } else {
        out.null();
      }
    }
    out.close(']').key("slot").number(type.slot);
    if (type.is_consumed) out.key("consumed").boolean(true);
    if (type.alias >= 0) out.key("alias").text(others[static_cast<size_t>(type.alias)].name);
    out.close('}');
  }
  out.close(']');
}

void write_strings(JsonWriter& out, const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>& list) {
  out.open('[');
  for (const flatbuffers::String* text : list) out.text(text->string_view());
  out.close(']');
}

void write_attributes(JsonWriter& out, const mf::Operation& operation) {
  out.open('{');
  for (const mf::OperationAttribute* attribute : *operation.attributes()) {
    out.key(attribute->name()->string_view());
    switch (attribute->kind()) {
      case HEDDLE_ATTRIBUTE_INT:
        out.number(attribute->ints()->Get(0));
        break;
      case HEDDLE_ATTRIBUTE_FLOAT:
        out.real(attribute->floats()->Get(0));
        break;
      case HEDDLE_ATTRIBUTE_STRING:
        out.text({reinterpret_cast<const char*>(attribute->text()->data()), attribute->text()->size()});
        break;
      case HEDDLE_ATTRIBUTE_INTS:
        out.open('[');
        for (int64_t one : *attribute->ints()) out.number(one);
        out.close(']');
        break;
      default:
        out.open('[');
        for (double one : *attribute->floats()) out.real(one);
        out.close(']');
    }
  }
  out.close('}');
}

// Operators that library plugins must provide, or may run although the module has kernels for them; one entry per site.
void write_operations(JsonWriter& out, const mf::Program& program) {
  bool is_open = false;
  for (const mf::DispatchSite* site : *program.dispatches()) {
    const mf::Operation* operation = site->operation();
    if (!operation) continue;
    if (!is_open) out.key("operations").open('[');
    is_open = true;
    out.open('{').key("region").text(site->name()->string_view());
    out.key("operator")
        .text(fmt::format("{}::{}/{}", operation->domain()->string_view(), operation->name()->string_view(), operation->version()));
    out.key("attributes");
    write_attributes(out, *operation);
    out.key("slot").number(site->slot()).key("required").boolean(site->candidates()->size() == 0).close('}');
  }
  if (is_open) out.close(']');
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
  void write_transient_bytes(JsonWriter& out) const {
    out.open('[');
    for (const mf::Transient* transient : *program_.transients()) write_known(out, transient->size_register());
    out.close(']');
  }

  void write_list(JsonWriter& out) const {
    out.open('[');
    for (const mf::Instruction* one : *program_.code()) {
      if (mf::Op(one->op()) == mf::Op::Dispatch) {
        const mf::DispatchSite& site = *program_.dispatches()->Get(one->a());
        begin(out, "dispatch");
        int64_t dim = 0;
        const bool is_typed = site.binding_types() && site.binding_types()->size() == site.bindings()->size();
        for (uint32_t i = 0; i < site.bindings()->size(); ++i) {
          begin_binding(out, *site.bindings()->Get(i), site.bindings()->Get(i)->access());
          if (is_typed) {
            const mf::BindingType& type = *site.binding_types()->Get(i);
            out.key("type").text(module::shape_text(type.element_type(), {site.binding_dims()->data() + dim, type.rank()}));
            dim += type.rank();
          }
          out.close('}');
        }
        out.close(']').key("region").text(site.name()->string_view()).key("slot").number(site.slot()).close('}');
      } else if (mf::Op(one->op()) == mf::Op::Copy) {
        const mf::CopySite& site = *program_.copies()->Get(one->a());
        begin(out, "copy");
        begin_binding(out, site.source(), kRead);
        out.close('}');
        begin_binding(out, site.target(), kWrite);
        out.close('}').close(']').close('}');
      } else if (mf::Op(one->op()) == mf::Op::Fill) {
        begin(out, "fill");
        begin_binding(out, program_.fills()->Get(one->a())->target(), kWrite);
        out.close('}').close(']').close('}');
      } else if (mf::Op(one->op()) == mf::Op::ReadScalar) {
        begin(out, "read");
        begin_binding(out, {one->b(), one->c(), UINT32_MAX, kRead}, kRead);
        out.key("bytes").number(sizeof(int64_t)).close('}').close(']').close('}');
      }
    }
    out.close(']');
  }

 private:
  static constexpr uint32_t kRead = 1, kWrite = 2;  // of BindingRef.access

  static void begin(JsonWriter& out, const char* command) { out.open('{').key("command").text(command).key("bindings").open('['); }

  void write_known(JsonWriter& out, uint32_t index) const {
    const int64_t value = index < literals_.size() ? literals_[index] : -1;
    if (value < 0) {
      out.null();
    } else {
      out.number(value);
    }
  }

  // Without "offset" it starts at the value's start, without "bytes" it ends at its end; null for what is known only at the call. The caller closes it.
  void begin_binding(JsonWriter& out, const mf::BindingRef& ref, uint32_t access) const {
    static constexpr const char* kKinds[] = {"argument", "result", "transient", "global", "verdict"};
    static constexpr const char* kAccess[] = {"none", "read", "write", "both"};
    const mf::Value& value = *program_.values()->Get(ref.value());
    const auto kind = static_cast<uint32_t>(value.kind());
    out.open('{').key("value").text(kind < 5 ? kKinds[kind] : "unknown").key("index").number(value.index());
    out.key("access").text(kAccess[access & 3]);
    if (ref.offset_register() != UINT32_MAX) write_known(out.key("offset"), ref.offset_register());
    if (ref.length_register() != UINT32_MAX) write_known(out.key("bytes"), ref.length_register());
  }

  const mf::Program& program_;
  std::vector<int64_t> literals_;  // of registers that are written once, by a literal; -1 for others
};

void write_programs(JsonWriter& out, const flatbuffers::Vector<flatbuffers::Offset<mf::Program>>& list, bool with_commands) {
  out.open('[');
  for (const mf::Program* program : list) {
    out.open('{').key("families");
    write_strings(out, *program->families());
    out.key("instructions").number(program->code()->size()).key("transients").number(program->transients()->size());
    out.key("regions").open('[');
    for (const mf::DispatchSite* site : *program->dispatches()) out.text(site->name()->string_view());
    out.close(']');
    if (with_commands) {
      const Commands commands(*program);
      commands.write_transient_bytes(out.key("transient_bytes"));
      commands.write_list(out.key("commands"));
    }
    write_operations(out, *program);
    out.close('}');
  }
  out.close(']');
}

void write_functions(JsonWriter& out, const mf::Module& meta, const std::vector<Signature>& signatures) {
  out.key("functions").open('[');
  for (uint32_t i = 0; i < signatures.size(); ++i) {
    const Signature& signature = signatures[i];
    out.open('{').key("name").text(signature.name);
    write_types(out.key("arguments"), signature, signature.arguments, signature.results);
    write_types(out.key("results"), signature, signature.results, signature.arguments);
    out.key("symbols").open('[');
    for (const SymbolRange& symbol : signature.symbols) {
      out.open('{').key("name").text(symbol.name).key("min").number(symbol.min);
      out.key("max").number(symbol.max).key("divisor").number(symbol.divisor).close('}');
    }
    write_programs(out.close(']').key("programs"), *meta.functions()->Get(i)->programs(), true);
    out.close('}');
  }
  write_programs(out.close(']').key("initializer"), *meta.initializer(), false);
}

void write_executables(JsonWriter& out, const mf::Module& meta) {
  out.key("executables").open('[');
  for (const mf::Executable* executable : *meta.executables()) {
    out.open('{').key("name").text(executable->name()->string_view()).key("entries").open('[');
    for (const mf::Entry* entry : *executable->entries()) {
      out.open('{').key("name").text(entry->name()->string_view()).key("bindings").number(entry->binding_count());
      out.key("constants_bytes").number(entry->constants_bytes()).close('}');
    }
    out.close(']').key("variants").open('[');
    for (const mf::Variant* variant : *executable->variants()) {
      out.open('{').key("format").text(variant->format()->string_view()).key("target").text(variant->target()->string_view());
      out.key("family").text(variant->family()->string_view()).key("code_bytes").number(variant->code()->length());
      out.key("resources").open('[');
      for (const mf::EntryResources* one : *variant->resources()) {
        out.open('{').key("workspace_bytes").number(one->workspace_bytes()).key("shared_memory_bytes").number(one->shared_memory_bytes());
        out.key("cost_ns").number(one->cost());
        if (one->rung()->size() != 0) out.key("rung").text(one->rung()->string_view());
        out.close('}');
      }
      out.close(']').close('}');
    }
    out.close(']').close('}');
  }
  out.close(']');
}

void write_parameters_and_globals(JsonWriter& out, const mf::Module& meta) {
  out.key("parameters").open('[');
  for (const mf::Parameter* parameter : *meta.parameters()) {
    out.open('{').key("scope").text(parameter->scope()->string_view()).key("name").text(parameter->name()->string_view());
    out.key("type").text(parameter_text(*parameter));
    out.key("size_bytes").number(parameter->size_bytes()).key("stored").boolean(parameter->stored()).close('}');
  }
  out.close(']').key("globals").open('[');
  for (const mf::Global* global : *meta.globals()) {
    static constexpr const char* kKinds[] = {"parameter", "constant", "derived", "state"};
    const auto kind = static_cast<uint32_t>(global->kind());
    out.open('{').key("name").text(global->name()->string_view()).key("kind").text(kind < 4 ? kKinds[kind] : "unknown");
    out.key("size_bytes").number(global->size_bytes()).key("slot").number(global->slot());
    out.key("initializer_only").boolean(global->initializer_only()).close('}');
  }
  out.close(']');
}

}  // namespace

std::string OpenModule::report() const {
  const mf::Module& meta = metadata();
  JsonWriter out;
  out.open('{').key("path").text(path()).key("name").text(meta.name()->string_view());
  out.key("producer").text(meta.producer()->string_view());
  std::string hash;
  for (uint8_t byte : file_->content_hash()) hash += fmt::format("{:02x}", byte);
  out.key("content_hash").text(hash).key("slots").open('[');
  for (const mf::Slot* slot : *meta.slots()) out.text(slot->name()->string_view());
  out.close(']');
  write_functions(out, meta, signatures_);
  write_executables(out, meta);
  write_parameters_and_globals(out, meta);
  // The compiler's report is itself JSON; any other text is passed on as a string, also if it is nested deeper than 64 levels: readers recurse, and the
  // file is not trusted.
  if (const std::string_view report = meta.report()->string_view(); !report.empty()) {
    out.key("compiler_report");
    if (module::is_json(report)) {
      out.json(report);
    } else {
      out.text(report);
    }
  }
  return out.close('}').take();
}

}  // namespace heddle::open
