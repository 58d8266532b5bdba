// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels may do to floats: one policy per module. Read by the pipeline, the report and the targets; knows none of them.
#pragma once

#include <cstdint>

namespace heddle::targets {

// Strict: products and sums in the type of the operands or a wider one. Fast: products of f32 may round their operands to TF32, which has 10 bits of
// mantissa; sums stay f32. Fast convolutions: only those of convolutions may.
enum class Math : uint8_t { strict, fast_convolutions, fast };

inline const char* name_of(Math math) {
  return math == Math::fast ? "fast" : math == Math::fast_convolutions ? "fast-convolutions" : "strict";
}

}  // namespace heddle::targets
