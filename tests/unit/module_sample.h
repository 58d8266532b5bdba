// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small module that uses every construct of the format, built by hand. Used by the tests of sdk/module, the frozen artifact of
// tests/compat and the fuzzer's seeds. Its code is no code: nothing here executes it.
#pragma once

#include <heddle_module/module_generated.h>

#include <memory>
#include <string>
#include <vector>

#include "sdk/module/writer.h"

namespace heddle::module::sample {

namespace mf = module_format;

inline std::vector<std::byte> bytes_of(size_t count, uint8_t first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i * 7);
  return bytes;
}

inline const std::vector<std::byte>& code_v3() {
  static const std::vector<std::byte> bytes = bytes_of(5000, 3);
  return bytes;
}
inline const std::vector<std::byte>& code_v4() {
  static const std::vector<std::byte> bytes = bytes_of(100, 4);
  return bytes;
}
inline const std::vector<std::byte>& constant() {
  static const std::vector<std::byte> bytes = bytes_of(24, 9);
  return bytes;
}
inline const std::vector<std::byte>& weight() {  // 4x8 f32
  static const std::vector<std::byte> bytes = bytes_of(128, 1);
  return bytes;
}
inline const std::vector<std::byte>& bias() {  // 8 f32
  static const std::vector<std::byte> bytes = bytes_of(32, 200);
  return bytes;
}

inline mf::Instruction op(mf::Op code, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0) {
  return mf::Instruction(static_cast<uint16_t>(code), 0, a, b, c);
}

constexpr uint32_t kAll = 0xFFFFFFFFu;
constexpr uint32_t kReadOnly = 1, kWriteOnly = 2;

inline std::unique_ptr<mf::DispatchSiteT> site(std::string name, std::vector<mf::BindingRef> bindings, std::vector<uint32_t> constants) {
  auto made = std::make_unique<mf::DispatchSiteT>();
  made->name = std::move(name);
  made->bindings = std::move(bindings);
  made->constants = std::move(constants);
  auto guarded = std::make_unique<mf::CandidateT>();
  guarded->entry = 1;
  guarded->guards = {mf::Guard(0, 0, 1, 1, 1)};
  guarded->grid = {1, 1, 1};
  made->candidates.push_back(std::move(guarded));
  auto general = std::make_unique<mf::CandidateT>();
  general->entry = 0;
  general->grid = {0, 1, 1};
  made->candidates.push_back(std::move(general));
  return made;
}

// y[n, 8] = f(x[n, 4]), n = 1..64; a packed weight, a constant, a step counter.
inline mf::ModuleT make(ModuleWriter& writer) {
  mf::ModuleT module;
  module.producer = "sample";
  module.name = "every construct";
  module.report = R"({"passes":[]})";
  auto slot = std::make_unique<mf::SlotT>();
  module.slots.push_back(std::move(slot));

  auto executable = std::make_unique<mf::ExecutableT>();
  executable->name = "dense";
  for (const char* name : {"dense_any", "dense_one"}) {
    auto entry = std::make_unique<mf::EntryT>();
    entry->name = name;
    entry->binding_count = 3;
    entry->constants_bytes = 8;
    for (uint32_t kind : {0u, 1u}) {
      auto argument = std::make_unique<mf::ArgumentT>();
      argument->kind = kind;
      argument->size_bytes = 8;
      entry->arguments.push_back(std::move(argument));
    }
    executable->entries.push_back(std::move(entry));
  }
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    auto variant = std::make_unique<mf::VariantT>();
    variant->format = "x86_64-elf/1";
    variant->target = target;
    variant->family = "cpu";
    variant->code = std::make_unique<mf::Range>(writer.add_code(std::string(target) == "x86-64-v3" ? code_v3() : code_v4()));
    for (int i = 0; i < 2; ++i) {
      auto need = std::make_unique<mf::EntryResourcesT>();
      need->workgroup_size = {1, 1, 1};
      need->workspace_bytes = 256;
      need->cost = 100;
      variant->resources.push_back(std::move(need));
    }
    executable->variants.push_back(std::move(variant));
  }
  module.executables.push_back(std::move(executable));

  const struct {
    const char* name;
    std::vector<int64_t> dims;
    const std::vector<std::byte>* data;
  } parameters[] = {{"dense.weight", {4, 8}, &weight()}, {"dense.bias", {8}, &bias()}, {"outside", {2}, nullptr}};
  for (uint32_t i = 0; i < 3; ++i) {
    auto parameter = std::make_unique<mf::ParameterT>();
    parameter->name = parameters[i].name;
    parameter->element_type = HEDDLE_TYPE_F32;
    parameter->dims = parameters[i].dims;
    parameter->size_bytes = parameters[i].data ? parameters[i].data->size() : 8;
    module.parameters.push_back(std::move(parameter));
    if (parameters[i].data) writer.set_parameter(i, ParameterSource{parameters[i].data->size(), *parameters[i].data, nullptr});
  }

  const struct {
    const char* name;
    mf::GlobalKind kind;
    uint32_t index;
    uint64_t size_bytes;
    bool initializer_only;
  } globals[] = {{"weight", mf::GlobalKind::Parameter, 0, 0, true},
                 {"bias", mf::GlobalKind::Parameter, 1, 0, false},
                 {"table", mf::GlobalKind::Constant, 0, 0, false},
                 {"packed", mf::GlobalKind::Derived, 0, 256, false},
                 {"steps", mf::GlobalKind::State, 0, 8, false}};
  for (const auto& from : globals) {
    auto global = std::make_unique<mf::GlobalT>();
    global->name = from.name;
    global->kind = from.kind;
    global->index = from.index;
    global->size_bytes = from.size_bytes;
    global->initializer_only = from.initializer_only;
    if (from.kind == mf::GlobalKind::Constant) global->data = std::make_unique<mf::Range>(writer.add_constant(constant()));
    module.globals.push_back(std::move(global));
  }

  auto function = std::make_unique<mf::FunctionT>();
  function->name = "main";
  auto symbol = std::make_unique<mf::SymbolT>();
  symbol->name = "n";
  symbol->max = 64;
  function->symbols.push_back(std::move(symbol));
  auto x = std::make_unique<mf::TensorTypeT>();
  x->name = "x";
  x->element_type = HEDDLE_TYPE_F32;
  x->dims = {mf::Dim(0, 0, 0), mf::Dim(4, -1, 0)};
  function->arguments.push_back(std::move(x));
  auto y = std::make_unique<mf::TensorTypeT>();
  y->name = "y";
  y->element_type = HEDDLE_TYPE_F32;
  y->dims = {mf::Dim(-1, -1, 0), mf::Dim(8, -1, 0)};
  function->results.push_back(std::move(y));

  auto program = std::make_unique<mf::ProgramT>();
  program->families = {"cpu"};
  program->register_count = 6;
  program->literals = {1, 32, 64};
  program->messages = {"x: extent 0 is above 64"};
  program->values = {mf::Value(mf::ValueKind::Argument, 0), mf::Value(mf::ValueKind::Result, 0), mf::Value(mf::ValueKind::Transient, 0),
                     mf::Value(mf::ValueKind::Global, 3),   mf::Value(mf::ValueKind::Global, 4), mf::Value(mf::ValueKind::Global, 2)};
  program->transients = {mf::Transient(3, 64, 8, 12)};
  program->dispatches.push_back(site(
      "dense", {mf::BindingRef(0, kAll, kAll, kReadOnly), mf::BindingRef(3, kAll, kAll, kReadOnly), mf::BindingRef(2, kAll, 3, kWriteOnly)},
      {0}));
  program->dispatches[0]->binding_types = {mf::BindingType(HEDDLE_TYPE_F32, 2), mf::BindingType(HEDDLE_TYPE_F32, 2),
                                           mf::BindingType(HEDDLE_TYPE_F32, 2)};
  program->dispatches[0]->binding_dims = {-1, 4, 8, 8, -1, 8};
  program->copies = {mf::CopySite(mf::BindingRef(2, kAll, 3, kReadOnly), mf::BindingRef(1, kAll, 3, kWriteOnly))};
  program->fills = {mf::FillSite(mf::BindingRef(4, kAll, kAll, kWriteOnly), 0, 8, 0)};
  program->code = {
      op(mf::Op::ArgumentDim, 0, 0, 0),  // r0 = n
      op(mf::Op::Literal, 1, 0),         // r1 = 1
      op(mf::Op::Literal, 2, 1),         // r2 = 32
      op(mf::Op::Mul, 3, 0, 2),          // r3 = bytes of y
      op(mf::Op::Literal, 4, 2),         // r4 = 64
      op(mf::Op::LessEqual, 5, 0, 4),    //
      op(mf::Op::Check, 0, 5),           //
      op(mf::Op::ResultDim, 0, 0, 0),    // y is n x 8
      op(mf::Op::Dispatch, 0),           //
      op(mf::Op::Barrier),               //
      op(mf::Op::BranchIf, 12, 5),       //
      op(mf::Op::Fill, 0),               //
      op(mf::Op::Copy, 0),               //
      op(mf::Op::ReadScalar, 4, 4, 4),   // values[4], the step counter, at byte r4
      op(mf::Op::Return),
  };
  function->programs.push_back(std::move(program));
  module.functions.push_back(std::move(function));

  auto initializer = std::make_unique<mf::ProgramT>();
  initializer->families = {"cpu"};
  initializer->register_count = 2;
  initializer->literals = {1};
  initializer->values = {mf::Value(mf::ValueKind::Global, 0), mf::Value(mf::ValueKind::Global, 1), mf::Value(mf::ValueKind::Global, 3)};
  initializer->dispatches.push_back(
      site("pack",
           {mf::BindingRef(0, kAll, kAll, kReadOnly), mf::BindingRef(1, kAll, kAll, kReadOnly), mf::BindingRef(2, kAll, kAll, kWriteOnly)},
           {0}));
  initializer->code = {op(mf::Op::Literal, 1, 0), op(mf::Op::Dispatch, 0), op(mf::Op::Return)};
  module.initializer.push_back(std::move(initializer));
  return module;
}

}  // namespace heddle::module::sample
