// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds programs of other packages: first in the directory of this program, then on PATH.
#pragma once

#include <string>

namespace heddle::tool {

// Path of an executable file of that name, or empty. Never in the current directory.
std::string find_program(const std::string& name);

}  // namespace heddle::tool
