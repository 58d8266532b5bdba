// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Submits commands of the stand-in, waits for them, and reports broken rules. All functions are called with state().mutex locked.
#pragma once

#include <functional>

#include "tests/level_zero/objects.h"

namespace heddle::level_zero_stand_in {

using Lock = std::unique_lock<std::mutex>;

// Level Zero's time of the devices: 19.2 MHz, as many GPUs have it. It starts one second before its lower 32 bits are 0 again.
uint64_t ticks_now();
constexpr uint64_t kTicksPerSecond = 19'200'000;
constexpr uint32_t kTimestampBits = 36, kKernelTimestampBits = 32;

// The application did what the specification forbids: writes the text to stderr and loses the device, or all if it is NULL.
void broken_rule(Device* device, const std::string& text);
// Writes to stderr that a part of the interface does not exist here.
ze_result_t unsupported(const char* what);
bool is_any_lost();
// Whether submitted commands use the object. Those of a lost device do not count.
bool is_in_use(const Object& object);
// From now on, no command of the device's root ends, and waiting for them fails.
void lose(Device* device);

// The allocation that has these bytes; NULL if none has them all.
Allocation* find_memory(const void* address, size_t size);
// Empty if commands of the device may access the bytes, else why not. Memory of `other` is allowed beside that of `context`.
std::string check_access(const Device& device, const Context* context, const Context* other, const void* address, size_t size);

// A function of Intel's extension for memory of the application; NULL if it has none of that name.
void* import_function(const char* name);
// Whether the bytes are in one import.
bool is_imported(const void* address, size_t size);

void submit(Stream* stream, std::shared_ptr<const Command> command, List* list);
// Ends what a stream still has.
void drop(Stream* stream);
// A submitted command that uses one of the bytes; NULL if there is none.
const Command* find_user(uintptr_t address, size_t size);
// Waits until `done` or the device is lost. A timeout of UINT64_MAX never passes.
ze_result_t wait_until(Lock& lock, Device* device, uint64_t timeout_ns, const std::function<bool()>& done);

}  // namespace heddle::level_zero_stand_in
