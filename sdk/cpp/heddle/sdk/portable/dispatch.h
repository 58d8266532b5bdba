// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads portable code, and runs a dispatch of it, for drivers on the base classes of driver.h.
#ifndef HEDDLE_SDK_PORTABLE_DISPATCH_H_
#define HEDDLE_SDK_PORTABLE_DISPATCH_H_

#include "heddle/sdk/driver.h"
#include "heddle/sdk/portable/interpreter.h"

namespace heddle::sdk::portable {

// Reads and verifies portable code for Device::load, and compares its kernels with the module's description of its entries. `own`, if any, is offered each
// node. On failure, a status that names the executable or the kernel.
heddle_status_t* load_code(const Device* device, const Code& code, std::vector<Program>* out,
                           const std::shared_ptr<const OwnKernels>& own = nullptr) noexcept;

// Runs `program` with the bindings and constants of a kDispatch, in the calling thread and those of `workers`, if any. If one of its buffers has no
// host_address(), all are staged (staging.h) through Device::read and write. Adds to the device's counters interpreted, interpreted_ns, kernel_ns and
// staged_bytes. On failure, a status that names the kernel and the region.
heddle_status_t* run_dispatch(Device* device, const Operation& dispatch, const Program& program, Workers* workers,
                              const Limits& limits = {}) noexcept;

// Answers Device::portable_parts from the code alone: what `own`, NULL if there is none, says of each node.
heddle_status_t* tell_parts(const Device* device, const heddle_portable_query_t& query, const OwnKernels* own,
                            const std::function<void(const heddle_portable_part_t&)>& part) noexcept;

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_DISPATCH_H_
