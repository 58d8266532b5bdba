// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a test can do to the stand-in for a Level Zero driver while it runs; found with dlsym in its library.
#pragma once

#include <cstdint>

extern "C" {

// The device with that number is lost: its commands do not end, and every wait for them fails.
void heddle_level_zero_lose(uint32_t device);
// The driver's library is unloaded, as at the end of a process: no command ends, and every call fails.
void heddle_level_zero_unload();
// While held, no command starts to run.
void heddle_level_zero_hold(bool held);
// The next `count` calls that submit command lists to a queue fail, for want of memory.
void heddle_level_zero_refuse_lists(uint64_t count);
// Commands that have run on the device with that number.
uint64_t heddle_level_zero_commands(uint32_t device);
// Allocations that are live, of all contexts.
uint64_t heddle_level_zero_allocations();
// Imports of memory of the application that are live.
uint64_t heddle_level_zero_imports();
// Imports or releases memory as another part of the application would.
void heddle_level_zero_import(void* memory, uint64_t bytes);
void heddle_level_zero_release(void* memory);
}
