// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What memory a module needs, said before its code or data is loaded: weights and state, and what calls of given shapes need beside them.
// Called by core/api.cpp; the same arithmetic as that of instances and plans, and nothing is allocated.
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
  std::optional<InstanceRequest> binding;  // how slots get their devices; none: each slot is looked at by itself
  uint32_t function = 0;                   // its index
  uint32_t call_count = 0;
  const heddle_shape_t* shapes = nullptr;  // call_count times one for each argument
};

// JSON, as heddle_module_memory says. [any] [may-block]
Result<std::string> memory_needs(const std::shared_ptr<Runtime>& runtime, const std::shared_ptr<const open::OpenModule>& module,
                                 MemoryRequest request);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_MEMORY_NEEDS_H_
