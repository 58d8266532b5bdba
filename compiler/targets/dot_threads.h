// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products and convolutions of integers of 8 bits on machines of threads, four products at a time. A workgroup computes a tile of the result
// from shared memory.
#pragma once

#include "compiler/targets/generic_threads.h"

namespace heddle::targets {

inline constexpr llvm::StringLiteral dot_strategy = "dots";

// For a machine whose threads work together. Without ThreadMachine::dot, the four products are computed one by one.
std::unique_ptr<Strategy> dots_on_threads(ThreadMachine machine);

}  // namespace heddle::targets
