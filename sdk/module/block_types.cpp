// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of types, and whole blocks by the definitions in block_values.h; compiled without contraction of multiplications and additions, for the
// reason given there.
#include "sdk/module/block_types.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "sdk/module/block_types_avx2.h"
#include "sdk/module/block_values.h"

namespace heddle::module {
namespace {

template <class Type>
void decode_portable(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += Type::kBytes) {
    for (uint32_t first = 0; first < Type::kElements; first += Type::kAlike, out += Type::kAlike)
      Type::template decode<Type::kAlike>(block, first, out);
  }
}

#define DECODED(name) {#name, blocks::name::kElements, blocks::name::kBytes, decode_portable<blocks::name>, nullptr}
#define DECODED_FAST(name) \
  {#name, blocks::name::kElements, blocks::name::kBytes, decode_portable<blocks::name>, blocks::decode_avx2<blocks::name>}
#define LISTED(name, elements, bytes) {name, elements, bytes, nullptr, nullptr}
constexpr BlockType kTypes[] = {
    DECODED_FAST(Q4_0),
    DECODED(Q4_1),
    DECODED(Q5_0),
    DECODED(Q5_1),
    DECODED_FAST(Q8_0),
    LISTED("Q8_1", 32, 40),
    DECODED(Q2_K),
    DECODED(Q3_K),
    DECODED_FAST(Q4_K),
    DECODED(Q5_K),
    DECODED_FAST(Q6_K),
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
#undef DECODED_FAST
#undef LISTED

void round_portable(const float* values, size_t count, heddle_element_type_t type, std::byte* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t narrow = type == HEDDLE_TYPE_F16 ? blocks::to_f16(values[i]) : blocks::to_bf16(values[i]);
    std::memcpy(out + 2 * i, &narrow, 2);
  }
}

// __builtin_cpu_supports would bring 4 kB of code for all processors.
bool has_avx2() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0, low = 0, high = 0;
    constexpr unsigned kOsxsave = 1u << 27, kAvx2 = 1u << 5, kVectorState = 6;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kOsxsave) == 0) return false;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // which registers the system saves
    return (low & kVectorState) == kVectorState && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & kAvx2) != 0;
  }();
  return has;
}

}  // namespace

std::span<const BlockType> block_types() {
  return kTypes;
}

const BlockType* block_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const BlockType& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

bool decodes_to(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_F32 || type == HEDDLE_TYPE_F16 || type == HEDDLE_TYPE_BF16;
}

void decode_blocks(const BlockType& block, const std::byte* blocks, size_t count, heddle_element_type_t type, std::byte* out) {
  const bool fast = has_avx2();
  const auto decode = fast && block.decode_avx2 ? block.decode_avx2 : block.decode;
  if (type == HEDDLE_TYPE_F32 && reinterpret_cast<uintptr_t>(out) % alignof(float) == 0) {
    return decode(reinterpret_cast<const uint8_t*>(blocks), count, reinterpret_cast<float*>(out));
  }
  float values[4 * kMostBlockElements];  // stays in the first-level cache
  const size_t most = std::size(values) / block.elements, width = type == HEDDLE_TYPE_F32 ? 4 : 2;
  while (count > 0) {
    const size_t now = std::min(count, most), elements = now * block.elements;
    decode(reinterpret_cast<const uint8_t*>(blocks), now, values);
    if (type == HEDDLE_TYPE_F32) {
      std::memcpy(out, values, elements * 4);
    } else if (!fast) {
      round_portable(values, elements, type, out);
    } else if (type == HEDDLE_TYPE_F16) {
      blocks::to_f16_avx2(values, elements, out);
    } else {
      blocks::to_bf16_avx2(values, elements, out);
    }
    blocks += now * block.bytes;
    out += elements * width;
    count -= now;
  }
}

}  // namespace heddle::module
