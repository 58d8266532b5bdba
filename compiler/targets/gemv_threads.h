// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a few rows with a matrix, as in a decoding step, on machines of threads. Each takes as long as reading the matrix once, which is
// divided among all workgroups. The partial sums of threads are added in the same order every time.
#pragma once

#include "compiler/targets/generic_threads.h"

namespace heddle::targets {

// For a machine whose threads work together.
std::unique_ptr<Strategy> gemv_on_threads(ThreadMachine machine);

}  // namespace heddle::targets
