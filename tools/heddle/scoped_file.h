// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of parameters on a command line, "[SCOPE=]FILE". Used by all commands that take them; opens nothing.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

struct ScopedFile {
  std::string scope, path;
};
// If a file with the whole text as its name exists, it has the empty scope: paths may contain '='.
ScopedFile split_scope(const std::string& text);
// "SCOPE=FILE" for each, also for the empty scope, as heddle/compiler.h takes them.
std::vector<std::string> with_scopes(const std::vector<std::string>& texts);

}  // namespace heddle::tool
