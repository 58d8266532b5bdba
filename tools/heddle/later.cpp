// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands that are planned. They say so, so that they are not taken for a typing mistake.
#include <cstdio>
#include <string>

#include "tools/heddle/command.h"

namespace heddle::tool {

bool is_later_command(const std::string& name) {
  return name == "reduce";
}

int refuse_later(const std::string& name) {
  std::fprintf(stderr, "heddle %s: this command is not in version " HEDDLE_VERSION "; see heddle --help for those that are\n",
               name.c_str());
  return kUsage;
}

}  // namespace heddle::tool
