// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain --memory`: what a module will need, for the shapes that the command line says, or for a few sizes of its symbols.
#pragma once

#include <map>
#include <optional>

#include "tools/heddle/document.h"
#include "tools/heddle/session.h"

namespace heddle::tool {

// --memory, --dim, --input
struct MemoryFlags {
  bool wanted = false;
  std::vector<std::string> dims, inputs;
  void add_to(Flags& flags);
};

// One report for each function that `module` names, or for `function` alone; a failure's text and exit code are given out. is_bound: by the devices
// that slots are bound to.
std::optional<int> find_memory(const Flags& flags, heddle_module_t* handle, const ModuleFlags& module, const Json& module_report,
                               const MemoryFlags& memory, bool is_bound, Json& out);
void describe_memory(const Json& functions, Document& out);

}  // namespace heddle::tool
