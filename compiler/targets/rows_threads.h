// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of rows (rows.h) on machines of threads: a subgroup or a workgroup goes through a row that is contiguous in memory. For rows across memory,
// neighboring threads have neighboring rows, and long rows are divided among the subgroups of a workgroup.
#pragma once

#include "compiler/targets/generic_threads.h"

namespace heddle::targets {

// For a machine whose threads work together.
std::unique_ptr<Strategy> rows_on_threads(ThreadMachine machine);

}  // namespace heddle::targets
