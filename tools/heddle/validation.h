// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --validate and --dump of `heddle run`: converts them to configuration text, and reads the number of violations at the end.
#pragma once

#include <string>
#include <vector>

#include "tools/heddle/session.h"

namespace heddle::tool {

struct ValidationFlags {
  std::string validate;
  std::vector<std::string> dump;
  std::string dump_folder;
  void add_to(Flags& flags);
  // Sets `text` to the equivalent heddle.toml text; returns an error text for wrong flags.
  Wrong to_config(std::string& text) const;
};

// Counts the violations, each of which is already in the log; returns the status if the count is not available.
heddle_status_t* count_violations(heddle_runtime_t* runtime, uint64_t& out);

}  // namespace heddle::tool
