// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The frame of every program's main.
#pragma once

#include <functional>
#include <string>

namespace heddle::tool {

// Runs `work`, which returns an exit code; catches exceptions and flushes stdout. `who` is for example "heddle compile"; `small` suggests what to
// make smaller if memory runs out: "compiling failed: out of memory; free memory, or SMALL".
int run_program(const std::string& who, const std::string& doing, const std::string& small, const std::function<int()>& work);

}  // namespace heddle::tool
