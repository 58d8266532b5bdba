// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain` without flags: a summary of a module, then one row per region.
#pragma once

#include <string>

#include "tools/heddle/document.h"

namespace heddle::tool {

// `whole`: the module's report with "file_bytes" added. Describes `function` alone if it is not empty.
Document summarize(const Json& whole, const std::string& function);

// The kind of each region ("contraction", "movement", ...) by the first word of its name. Modules of older compilers do not state it.
class RegionKinds {
 public:
  explicit RegionKinds(const Json& module_report);
  // Empty if it is unknown.
  std::string of(const std::string& region) const;

 private:
  std::vector<std::pair<std::string, std::string>> kinds_;  // sorted by name
};

}  // namespace heddle::tool
