// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled for speed, where block_types.cpp is compiled for size. Only these functions may use AVX2, since the linker keeps one copy of functions that
// others use too.
#include "sdk/module/block_types_avx2.h"

#include "sdk/module/block_values.h"

namespace heddle::module::blocks {

template <class Type>
[[gnu::flatten, gnu::target("avx2")]] void decode_avx2(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += Type::kBytes) {
    for (uint32_t first = 0; first < Type::kElements; first += Type::kAlike, out += Type::kAlike)
      Type::template decode<Type::kAlike>(block, first, out);
  }
}

template void decode_avx2<Q4_0>(const uint8_t*, size_t, float*);
template void decode_avx2<Q8_0>(const uint8_t*, size_t, float*);
template void decode_avx2<Q4_K>(const uint8_t*, size_t, float*);
template void decode_avx2<Q6_K>(const uint8_t*, size_t, float*);

[[gnu::flatten, gnu::target("avx2")]] void to_f16_avx2(const float* values, size_t count, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t narrow = to_f16(values[i]);
    __builtin_memcpy(out + 2 * i, &narrow, 2);
  }
}

[[gnu::flatten, gnu::target("avx2")]] void to_bf16_avx2(const float* values, size_t count, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t narrow = to_bf16(values[i]);
    __builtin_memcpy(out + 2 * i, &narrow, 2);
  }
}

}  // namespace heddle::module::blocks
