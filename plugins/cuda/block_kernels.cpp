// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of heddle.blocks/1 for one type, HEDDLE_BLOCK_TYPE: compiled to PTX by clang at build time, and loaded by blocks.cpp. Each thread
// decodes 8 values, which have one scale. A grid has at most 2^31-1 workgroups of 256 threads, so 2^42 values.
#include "sdk/module/block_values.h"

namespace {

using Type = heddle::module::blocks::HEDDLE_BLOCK_TYPE;

constexpr uint32_t kValues = 8;

typedef float Floats __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));

// Decodes the thread's values; their index in the target, or false after the last one.
inline bool decode(const uint8_t* blocks, uint64_t count, float (&values)[kValues], uint64_t* out_index) {
  constexpr uint32_t kThreadsPerBlock = Type::kElements / kValues;
  const uint64_t thread = static_cast<uint64_t>(__nvvm_read_ptx_sreg_ctaid_x()) * static_cast<uint32_t>(__nvvm_read_ptx_sreg_ntid_x()) +
                          static_cast<uint32_t>(__nvvm_read_ptx_sreg_tid_x());
  const uint64_t block = thread / kThreadsPerBlock;
  if (block >= count) return false;
  Type::decode<kValues>(blocks + block * Type::kBytes, static_cast<uint32_t>(thread % kThreadsPerBlock) * kValues, values);
  *out_index = thread * kValues;
  return true;
}

template <typename Round>
inline void store_short(const float (&values)[kValues], uint16_t* out, Round round) {
  Words words;
  for (uint32_t i = 0; i < kValues / 2; ++i) {
    words[i] = static_cast<uint32_t>(round(values[2 * i])) | static_cast<uint32_t>(round(values[2 * i + 1])) << 16;
  }
  *reinterpret_cast<Words*>(out) = words;
}

}  // namespace

extern "C" {

__attribute__((nvptx_kernel)) void decode_f32(const uint8_t* __restrict blocks, float* __restrict out, uint64_t count) {
  float values[kValues];
  uint64_t index;
  if (!decode(blocks, count, values, &index)) return;
  auto* target = reinterpret_cast<Floats*>(out + index);
  target[0] = Floats{values[0], values[1], values[2], values[3]};
  target[1] = Floats{values[4], values[5], values[6], values[7]};
}

__attribute__((nvptx_kernel)) void decode_f16(const uint8_t* __restrict blocks, uint16_t* __restrict out, uint64_t count) {
  float values[kValues];
  uint64_t index;
  if (decode(blocks, count, values, &index)) store_short(values, out + index, heddle::module::blocks::to_f16);
}

__attribute__((nvptx_kernel)) void decode_bf16(const uint8_t* __restrict blocks, uint16_t* __restrict out, uint64_t count) {
  float values[kValues];
  uint64_t index;
  if (decode(blocks, count, values, &index)) store_short(values, out + index, heddle::module::blocks::to_bf16);
}
}
