// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creating a state: allocation and zeros.
#include "core/submit/state.h"

namespace heddle::submit {

namespace mf = module_format;

Result<memory::Ref<State>> State::create(const mf::Module& module, const Machine& machine,
                                         std::span<const memory::Ref<memory::Device>> devices, const std::vector<bool>& used,
                                         uint64_t owner) {
  memory::Ref<State> state = memory::Ref<State>::adopt(new State(owner));
  std::vector<std::vector<heddle_command_t>> fills(devices.size());
  for (uint32_t i = 0; i < module.globals()->size(); ++i) {
    const mf::Global* global = module.globals()->Get(i);
    if (global->kind() != mf::GlobalKind::State) continue;
    heddle_block_t& block = state->blocks_.emplace_back();
    if (!used[i]) continue;
    memory::Device& device = *devices[machine.globals[i].device];
    Status allocated = device.allocate(global->size_bytes(), 64, memory::kState, &block);
    if (!allocated.ok()) {
      return wrap(std::move(allocated), fmt::format("heddle: allocating {} bytes for state '{}' on device '{}' failed",
                                                    global->size_bytes(), global->name()->string_view(), device.alias()));
    }
    state->memory_.push_back(std::make_unique<memory::Weight>(memory::Ref<memory::Device>(&device), block));
    if (global->size_bytes() == 0) continue;
    heddle_command_t fill{};
    fill.kind = HEDDLE_COMMAND_FILL;
    fill.as.fill = {block.buffer, block.offset, global->size_bytes(), 0, 1, 0};
    fills[machine.globals[i].device].push_back(fill);
  }
  for (size_t i = 0; i < fills.size(); ++i) {
    if (!fills[i].empty()) HEDDLE_RETURN_IF_ERROR(devices[i]->submit_and_wait(fills[i].data(), static_cast<uint32_t>(fills[i].size())));
  }
  return state;
}

}  // namespace heddle::submit
