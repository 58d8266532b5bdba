// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain --memory`: the memory that a module will need, for the shapes on the command line or for a few sizes of its symbols.
#pragma once

#include <map>
#include <optional>

#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {

// --memory, --dim, --input
struct MemoryFlags {
  bool wanted = false;
  std::vector<std::string> dims, inputs;
  void add_to(Flags& flags);
};

// Adds one report per function that `module` names, or for `function` alone; returns an exit code after reporting a failure. is_bound: report per
// device that slots are bound to.
std::optional<int> find_memory(const Flags& flags, heddle_module_t* handle, const ModuleFlags& module, const Json& module_report,
                               const MemoryFlags& memory, bool is_bound, Json& out);

}  // namespace heddle::tool
