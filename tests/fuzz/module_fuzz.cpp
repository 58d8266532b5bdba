// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A .heddle file of any bytes, hash check off: it is refused with an error, or everything that the verifier promises holds. An input
// without the file's magic is taken as metadata alone, so that a fuzzer need not keep the header's sizes right.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "heddle/ext/library.h"
#include "sdk/module/layout.h"
#include "sdk/module/reader.h"
#include "sdk/module/verifier.h"

namespace {

namespace mf = heddle::module_format;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "module_fuzz: the verifier let pass: %s\n", what);
  std::abort();
}

void follow_program(const mf::Module& module, const mf::Function* function, const mf::Program& program) {
  require(program.families()->size() == module.slots()->size(), "families");
  const uint32_t registers = program.register_count();
  auto value_exists = [&](uint32_t value) { require(value < program.values()->size(), "value of a binding"); };
  for (const mf::Value* value : *program.values()) {
    switch (value->kind()) {
      case mf::ValueKind::Argument:
        require(function && value->index() < function->arguments()->size(), "argument");
        break;
      case mf::ValueKind::Result:
        require(function && value->index() < function->results()->size(), "result");
        break;
      case mf::ValueKind::Transient:
        require(value->index() < program.transients()->size(), "transient");
        break;
      case mf::ValueKind::Global:
        require(value->index() < module.globals()->size(), "global");
        break;
      case mf::ValueKind::Verdict:
        require(function && program.checks() && value->index() < program.checks()->all()->size(), "verdict");
        break;
    }
  }
  for (uint32_t i = 0; program.checks() && i < program.checks()->all()->size(); ++i) {
    const mf::KernelCheck* check = program.checks()->all()->Get(i);
    require(check->verdict() <= i && check->slot() < module.slots()->size() && check->limit_register() < registers, "check");
    require(check->message() < program.messages()->size(), "message of a check");
  }
  for (const mf::DispatchSite* site : *program.dispatches()) {
    if (const mf::Operation* operation = site->operation()) {
      uint64_t extents = 0;
      for (const mf::BindingType* type : *operation->operands()) extents += type->rank();
      const bool alone = site->candidates()->size() == 0;
      require(extents <= site->constants()->size() && (!alone || extents == site->constants()->size()), "extents");
      require(operation->operands()->size() == site->bindings()->size(), "operands");
      require(operation->input_count() < operation->operands()->size(), "inputs");
      for (const mf::OperationAttribute* attribute : *operation->attributes()) {
        const bool one = attribute->kind() == HEDDLE_ATTRIBUTE_INT || attribute->kind() == HEDDLE_ATTRIBUTE_FLOAT;
        require(!one || attribute->ints()->size() + attribute->floats()->size() == 1, "attribute");
      }
    } else {
      require(site->candidates()->size() > 0, "candidates");
    }
    require(site->candidates()->size() == 0 || site->executable() < module.executables()->size(), "executable");
    for (const mf::Candidate* candidate : *site->candidates()) {
      const auto* entries = module.executables()->Get(site->executable())->entries();
      require(entries->Get(candidate->entry())->binding_count() == site->bindings()->size(), "binding count");
      require(candidate->grid()->size() == 3, "grid");
      for (uint32_t r : *candidate->grid()) require(r < registers, "grid register");
      for (const mf::Guard* guard : *candidate->guards()) require(guard->register_() < registers && guard->divisor() > 0, "guard");
    }
    for (const mf::BindingRef* binding : *site->bindings()) value_exists(binding->value());
    if (const auto* types = site->binding_types()) {
      require(types->size() == 0 || types->size() == site->bindings()->size(), "types of bindings");
      uint64_t rank = 0;
      for (const mf::BindingType* type : *types) rank += type->rank();
      require(rank == site->binding_dims()->size(), "dimensions of bindings");
    }
    if (site->binding_pitches()) {
      const auto* pitches = site->binding_pitches()->all();
      const auto* types = site->binding_types();
      require(types && pitches->size() == types->size() && types->size() == site->bindings()->size(), "pitches of bindings");
      for (uint32_t k = 0; k < pitches->size(); ++k) {
        const int64_t pitch = pitches->Get(k);
        require(pitch >= 0 && pitch <= INT64_MAX / 16, "pitch of a binding");
        require(pitch == 0 || HEDDLE_TYPE_BITS(types->Get(k)->element_type()) > 0, "type of a binding with a pitch");
      }
    }
    for (uint32_t r : *site->constants()) require(r < registers, "constant register");
  }
  for (const mf::CopySite* site : *program.copies()) {
    value_exists(site->source().value());
    value_exists(site->target().value());
  }
  for (const mf::FillSite* site : *program.fills()) value_exists(site->target().value());
  require(program.code()->size() > 0, "code");
}

void follow(const mf::Module& module) {
  size_t text = module.producer()->size() + module.name()->size() + module.report()->size();
  for (const mf::Executable* executable : *module.executables()) {
    for (const mf::Variant* variant : *executable->variants()) {
      require(variant->code() != nullptr && variant->resources()->size() == executable->entries()->size(), "variant");
      text += variant->format()->size() + variant->target()->size() + variant->family()->size();
    }
    for (const mf::Entry* entry : *executable->entries()) text += entry->name()->size() + entry->arguments()->size();
  }
  for (const mf::Parameter* parameter : *module.parameters()) {
    text += parameter->name()->size() + parameter->scope()->size() + parameter->dims()->size();
    if (parameter->stored()) require(parameter->data()->length() == parameter->size_bytes(), "parameter");
  }
  for (const mf::Global* global : *module.globals()) {
    require(global->slot() < module.slots()->size(), "slot of a global");
    if (global->kind() == mf::GlobalKind::Constant) require(global->data()->length() == global->size_bytes(), "constant");
  }
  for (const mf::Function* function : *module.functions()) {
    for (const mf::TensorType* type : *function->arguments()) require(type->slot() < module.slots()->size(), "slot of an argument");
    for (const mf::TensorType* type : *function->results()) require(type->slot() < module.slots()->size(), "slot of a result");
    for (const mf::Program* program : *function->programs()) follow_program(module, function, *program);
  }
  for (const mf::Program* program : *module.initializer()) follow_program(module, nullptr, *program);
  volatile size_t sink = text;
  (void)sink;
}

void as_file(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("module_fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::string(1, static_cast<char>('0' + descriptor % 10));
  require(descriptor >= 0 && descriptor < 10, "a descriptor for the input");
  require(ftruncate(descriptor, 0) == 0 && pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size), "writing the input");
  auto opened = heddle::module::open_module(path, heddle::module::kOpenNoHash);
  if (!opened) {
    require(!opened.error().message.empty(), "an error without a text");
    return;
  }
  const heddle::module::Module& module = *opened.value();
  follow(module.metadata());
  for (const mf::Executable* executable : *module.metadata().executables()) {
    for (const mf::Variant* variant : *executable->variants()) {
      require(module.code(*variant->code()).size() == variant->code()->length(), "code range");
    }
  }
  (void)heddle::module::verify_parameters(module);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= sizeof(heddle::module::kMagic) && std::memcmp(data, heddle::module::kMagic, sizeof(heddle::module::kMagic)) == 0) {
    as_file(data, size);
    return 0;
  }
  // A copy of exactly that size, aligned as the reader's is.
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> copy(nullptr);
  void* raw = nullptr;
  require(posix_memalign(&raw, 64, size ? size : 1) == 0, "memory");
  copy.reset(raw);
  if (size > 0) std::memcpy(raw, data, size);
  const std::span<const std::byte> metadata(static_cast<const std::byte*>(raw), size);
  if (heddle::module::verify_metadata(metadata, {4096, 65536, 65536})) return 0;
  follow(*mf::GetModule(raw));
  return 0;
}
