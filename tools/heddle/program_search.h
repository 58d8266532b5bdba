// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds programs of other packages: first in the directory of this program, then on PATH.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

// Path of an executable file of that name, or empty. Never in the current directory.
std::string find_program(const std::string& name);
// Path of this program; empty if the system does not tell.
std::string own_program();
// What `PROGRAM ARGUMENT... --help` prints.
std::string help_of(const std::string& program, const std::vector<std::string>& arguments = {});

}  // namespace heddle::tool
