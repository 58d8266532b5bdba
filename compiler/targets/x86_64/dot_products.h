// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which products with a transposed matrix are dot products, and which are for microkernels. Read by both strategies.
#pragma once

#include <cstdint>

namespace heddle::targets::x86_64 {

constexpr int64_t most_dot_rows = 8;  // in registers together; for more, packing the matrix takes less time than reading it again

}  // namespace heddle::targets::x86_64
