// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that a module needs, computed before its code or data is loaded: weights and state, and the needs of calls with given shapes.
// Called by core/api.cpp; uses the same arithmetic as instances and plans, and allocates nothing.
#ifndef HEDDLE_CORE_SUBMIT_MEMORY_NEEDS_H_
#define HEDDLE_CORE_SUBMIT_MEMORY_NEEDS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/submit/instance.h"
#include "heddle/runtime.h"

namespace heddle::submit {

struct MemoryRequest {
  std::optional<InstanceRequest> binding;  // how slots are bound to devices; none: each slot is considered separately
  uint32_t function = 0;                   // index of the function
  uint32_t call_count = 0;
  const heddle_shape_t* shapes = nullptr;  // call_count groups of one shape per argument
};

// JSON, as described at heddle_module_memory. [any] [may-block]
Result<std::string> memory_needs(const std::shared_ptr<Runtime>& runtime, const std::shared_ptr<const open::OpenModule>& module,
                                 MemoryRequest request);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_MEMORY_NEEDS_H_
