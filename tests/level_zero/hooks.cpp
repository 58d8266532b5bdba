// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See hooks.h.
#include "tests/level_zero/hooks.h"

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace {

Device* root_of(uint32_t number) {
  for (const auto& device : state().driver.all) {
    if (device->index == number && device->part < 0) return device.get();
  }
  return nullptr;
}

}  // namespace

void heddle_level_zero_lose(uint32_t device) {
  const Lock lock(state().mutex);
  if (Device* root = root_of(device)) lose(root);
}

void heddle_level_zero_unload() {
  const Lock lock(state().mutex);
  state().loss = ZE_RESULT_ERROR_UNINITIALIZED;
  for (const auto& device : state().driver.all) {
    if (device->part < 0) lose(device.get());
  }
}

void heddle_level_zero_hold(bool held) {
  const Lock lock(state().mutex);
  state().held = held;
  state().work.notify_one();
}

void heddle_level_zero_refuse_lists(uint64_t count) {
  const Lock lock(state().mutex);
  state().refused_lists = count;
}

uint64_t heddle_level_zero_commands(uint32_t device) {
  const Lock lock(state().mutex);
  const Device* root = root_of(device);
  return root == nullptr ? 0 : root->commands;
}

uint64_t heddle_level_zero_allocations() {
  const Lock lock(state().mutex);
  return state().memory.size();
}
