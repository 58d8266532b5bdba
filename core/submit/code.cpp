// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes code to drivers, and finds code that is loaded already.
// Called through code.h.
#include "core/submit/code.h"

namespace heddle::submit {

namespace mf = module_format;

Result<Shared<Code>> load_code(SharedTable& table, const memory::Ref<memory::Device>& device,
                               const std::shared_ptr<const open::OpenModule>& module, const route::ChosenCode& chosen) {
  const mf::Executable* executable = module->metadata().executables()->Get(chosen.executable);
  const mf::Variant* variant = executable->variants()->Get(chosen.variant);
  auto fresh = std::make_unique<Code>();
  fresh->device = device;
  fresh->module = module;
  fresh->bytes = module->file().code(*variant->code());
  // All that the driver is given besides the bytes.
  auto add = [&](const void* bytes, uint64_t count) { fresh->key.append(static_cast<const char*>(bytes), count); };
  auto add_text = [&](heddle_string_t text) {
    add(&text.size, sizeof(text.size));
    add(text.data, text.size);
    return text;
  };

  heddle_executable_params_t params{};
  params.struct_size = sizeof(params);
  params.format = add_text(to_c(variant->format()->string_view()));
  params.target = add_text(to_c(variant->target()->string_view()));
  params.code = fresh->bytes.data();
  params.code_bytes = fresh->bytes.size();
  params.entry_stride = sizeof(heddle_entry_params_t);
  params.name = add_text(to_c(executable->name()->string_view()));
  params.own_kernels = add_text(to_c(chosen.own_kernels));
  const memory::Device* const on = device.get();
  add(&on, sizeof(on));
  // Only the entries that the programs dispatch are loaded onto the device: the rest of the executable is for other programs.
  params.entry_count = static_cast<uint32_t>(chosen.entries.size());
  size_t argument_count = 0;
  for (uint32_t entry : chosen.entries) argument_count += executable->entries()->Get(entry)->arguments()->size();
  const auto arguments = std::make_unique<heddle_argument_t[]>(argument_count);
  const auto entries = std::make_unique<heddle_entry_params_t[]>(params.entry_count);
  heddle_argument_t* next_argument = arguments.get();
  heddle_entry_params_t* next_entry = entries.get();
  for (uint32_t index : chosen.entries) {
    const mf::Entry* entry = executable->entries()->Get(index);
    const mf::EntryResources* resources = variant->resources()->Get(index);
    heddle_entry_params_t& made = *next_entry++;
    made.struct_size = sizeof(made);
    made.binding_count = entry->binding_count();
    made.constants_bytes = entry->constants_bytes();
    made.argument_count = entry->arguments()->size();
    for (uint32_t j = 0; j < 3; ++j) {
      made.workgroup_size[j] = j < resources->workgroup_size()->size() ? resources->workgroup_size()->Get(j) : 1;
    }
    made.subgroup_size = resources->subgroup_size();
    made.shared_memory_bytes = resources->shared_memory_bytes();
    made.workspace_bytes = resources->workspace_bytes();
    made.cost = resources->cost();
    made.flags = resources->flags().value_or(0);
    add(&made, sizeof(made));
    made.name = add_text(to_c(entry->name()->string_view()));
    made.arguments = next_argument;
    for (const mf::Argument* argument : *entry->arguments()) {
      heddle_argument_t& one = *next_argument++;
      one.kind = argument->kind();
      one.index = argument->index();
      one.size_bytes = argument->size_bytes();
      add(&one, sizeof(one));
      one.payload = add_text({reinterpret_cast<const char*>(argument->payload()->data()), argument->payload()->size()}).data;
      one.payload_bytes = argument->payload()->size();
    }
  }
  params.entries = entries.get();

  Shared<Code> code = table.find_or_add(std::move(fresh));
  std::lock_guard lock(code->making);
  if (table.is_made(*code)) return code;
  const heddle_dispatch_interface_t& dispatch = *device->api().dispatch;
  if (!code->executable) HEDDLE_RETURN_IF_ERROR(device->noted(Status(dispatch.executable_load(device->get(), &params, &code->executable))));
  code->entries = std::make_unique<heddle_entry_t*[]>(params.entry_count);
  for (uint32_t i = 0; i < params.entry_count; ++i) HEDDLE_RETURN_IF_ERROR(Status(dispatch.entry(code->executable, i, &code->entries[i])));
  code->is_made = true;
  return code;
}

}  // namespace heddle::submit
