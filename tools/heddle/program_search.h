// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where programs of other packages are: beside this one, then on PATH.
#pragma once

#include <string>

namespace heddle::tool {

// Path of an executable file of that name, or empty. Never the current folder.
std::string find_program(const std::string& name);

}  // namespace heddle::tool
