// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// --validate and --dump of `heddle run`: as text of a configuration, and what the layer saw in the end.
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
  // Sets `text` to what a heddle.toml would say; says what is wrong with the flags.
  Wrong to_config(std::string& text) const;
};

// How many rules were broken, each of which is in the log already; the status where that is not to be had.
heddle_status_t* count_violations(heddle_runtime_t* runtime, uint64_t& out);

}  // namespace heddle::tool
