// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every program's main does around its work.
#pragma once

#include <functional>
#include <string>

namespace heddle::tool {

// Runs `work`, which gives an exit code; exceptions end here, and what was printed reaches stdout. `who` is "heddle compile"; `small` says
// what could be smaller where memory ends: "compiling failed: out of memory; free memory, or SMALL".
int run_program(const std::string& who, const std::string& doing, const std::string& small, const std::function<int()>& work);

}  // namespace heddle::tool
