// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which products with a transposed matrix are dot products on CPUs, and which are for microkernels. Read by passes, which leave the matrix of the former
// as it lies, and by the strategies of both.
#pragma once

#include <cstdint>

namespace heddle::tx {

constexpr int64_t most_dot_rows = 8;  // in registers together; for more, packing the matrix takes less time than reading it again

}  // namespace heddle::tx
