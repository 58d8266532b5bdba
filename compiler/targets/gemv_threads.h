// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a few rows with a matrix, which each takes as long as it takes to read the matrix once, on machines of threads: as a step of decoding has them. The matrix is
// spread over all workgroups, and what each thread has of a sum is summed up in the same order every time.
#pragma once

#include "compiler/targets/generic_threads.h"

namespace heddle::targets {

// For a machine whose threads work together.
std::unique_ptr<Strategy> gemv_on_threads(ThreadMachine machine);

}  // namespace heddle::targets
