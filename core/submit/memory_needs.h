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

namespace heddle::submit {

struct MemoryRequest {
  std::optional<InstanceRequest> binding;                 // how slots get their devices; none: each slot is looked at by itself
  std::string function;                                   // empty: the only one, or "main"
  std::vector<std::vector<std::vector<int64_t>>> shapes;  // per call, per argument, its extents; one for each argument there is
};

// JSON, as heddle_module_memory says. [any] [may-block]
Result<std::string> memory_needs(const std::shared_ptr<Runtime>& runtime, const std::shared_ptr<const open::OpenModule>& module,
                                 MemoryRequest request);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_MEMORY_NEEDS_H_
