// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of types, and whole blocks by the definitions in block_values.h; compiled without contraction of multiplications and additions, for that
// reason given there. What follows is compiled twice, since AVX2 is twice as fast or more; results are the same.
#include "sdk/module/block_types.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "sdk/module/block_values.h"

namespace heddle::module {
namespace {

template <class Type>
[[gnu::always_inline]] inline void decode_all(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += Type::kBytes) {
    for (uint32_t first = 0; first < Type::kElements; first += Type::kAlike, out += Type::kAlike)
      Type::template decode<Type::kAlike>(block, first, out);
  }
}

template <class Type>
[[gnu::flatten]] void decode_portable(const uint8_t* blocks, size_t count, float* out) {
  decode_all<Type>(blocks, count, out);
}

template <class Type>
[[gnu::flatten, gnu::target("avx2")]] void decode_avx2(const uint8_t* blocks, size_t count, float* out) {
  decode_all<Type>(blocks, count, out);
}

#define DECODED(name) {#name, blocks::name::kElements, blocks::name::kBytes, decode_portable<blocks::name>, decode_avx2<blocks::name>}
#define LISTED(name, elements, bytes) {name, elements, bytes, nullptr, nullptr}
constexpr BlockType kTypes[] = {
    DECODED(Q4_0),
    DECODED(Q4_1),
    DECODED(Q5_0),
    DECODED(Q5_1),
    DECODED(Q8_0),
    LISTED("Q8_1", 32, 40),
    DECODED(Q2_K),
    DECODED(Q3_K),
    DECODED(Q4_K),
    DECODED(Q5_K),
    DECODED(Q6_K),
    LISTED("Q8_K", 256, 292),
    LISTED("IQ2_XXS", 256, 66),
    LISTED("IQ2_XS", 256, 74),
    LISTED("IQ3_XXS", 256, 98),
    LISTED("IQ1_S", 256, 50),
    DECODED(IQ4_NL),
    LISTED("IQ3_S", 256, 110),
    LISTED("IQ2_S", 256, 82),
    DECODED(IQ4_XS),
    LISTED("IQ1_M", 256, 56),
    LISTED("TQ1_0", 256, 54),
    LISTED("TQ2_0", 256, 66),
    DECODED(MXFP4),
    DECODED(NVFP4),
    LISTED("Q1_0", 128, 18),
};
#undef DECODED
#undef LISTED

template <uint16_t (*round)(float)>
[[gnu::always_inline]] inline void round_all(const float* values, size_t count, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t narrow = round(values[i]);
    std::memcpy(out + 2 * i, &narrow, 2);
  }
}

template <uint16_t (*round)(float)>
[[gnu::flatten]] void round_portable(const float* values, size_t count, std::byte* out) {
  round_all<round>(values, count, out);
}

template <uint16_t (*round)(float)>
[[gnu::flatten, gnu::target("avx2")]] void round_avx2(const float* values, size_t count, std::byte* out) {
  round_all<round>(values, count, out);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

}  // namespace

const BlockType* block_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const BlockType& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

bool decodes_to(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_F32 || type == HEDDLE_TYPE_F16 || type == HEDDLE_TYPE_BF16;
}

void decode_blocks(const BlockType& block, const std::byte* blocks, size_t count, heddle_element_type_t type, std::byte* out) {
  const bool fast = has_avx2();
  const auto decode = fast ? block.decode_avx2 : block.decode;
  if (type == HEDDLE_TYPE_F32 && reinterpret_cast<uintptr_t>(out) % alignof(float) == 0) {
    return decode(reinterpret_cast<const uint8_t*>(blocks), count, reinterpret_cast<float*>(out));
  }
  const auto round = type == HEDDLE_TYPE_F16 ? fast ? round_avx2<blocks::to_f16> : round_portable<blocks::to_f16>
                     : fast ? round_avx2<blocks::to_bf16>
                                             : round_portable<blocks::to_bf16>;
  float values[4 * kMostBlockElements];  // stays in the first-level cache
  const size_t most = std::size(values) / block.elements, width = type == HEDDLE_TYPE_F32 ? 4 : 2;
  while (count > 0) {
    const size_t now = std::min(count, most), elements = now * block.elements;
    decode(reinterpret_cast<const uint8_t*>(blocks), now, values);
    if (type == HEDDLE_TYPE_F32) {
      std::memcpy(out, values, elements * 4);
    } else {
      round(values, elements, out);
    }
    blocks += now * block.bytes;
    out += elements * width;
    count -= now;
  }
}

}  // namespace heddle::module
