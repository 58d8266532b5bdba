// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The levels of x86-64 that code is made for. Read by every emitter of this directory; knows no op.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle::targets::x86_64 {

struct Level {
  std::string_view name;   // as code.h spells it, and LLVM's name of the CPU
  int64_t register_bytes;  // one vector register
  int64_t register_count;

  // Lanes of a register for elements of this width.
  int64_t lanes(int64_t element_bits) const { return register_bytes * 8 / element_bits; }
  int64_t f32_lanes() const { return lanes(32); }
};

inline constexpr Level level_v3{"x86-64-v3", 32, 16};
inline constexpr Level level_v4{"x86-64-v4", 64, 32};

}  // namespace heddle::targets::x86_64
