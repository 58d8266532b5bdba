// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of heddle.blocks/1 for one type, HEDDLE_BLOCK_TYPE: compiled for NVIDIA's, AMD's and Intel's GPUs by clang at build time
// (HeddleBlockKernels.cmake), for Intel's as C++ for OpenCL, and loaded by sdk/cpp/stream/blocks.cpp. Each thread decodes 8 values, which have one scale.
// A grid has at most 2^31-1 workgroups of 256 threads, so 2^42 values.
#include "sdk/module/block_values.h"

namespace {

using Type = heddle::module::blocks::HEDDLE_BLOCK_TYPE;

constexpr uint32_t kValues = 8, kThreads = 256;

#ifdef __OPENCL_CPP_VERSION__
#define KERNEL kernel
#define GLOBAL global
#define RESTRICT
typedef float Floats __attribute__((ext_vector_type(4)));
typedef uint32_t Words __attribute__((ext_vector_type(4)));
}  // namespace
unsigned long get_group_id(unsigned int dimension);
unsigned long get_local_id(unsigned int dimension);
namespace {
inline uint32_t workgroup() {
  return static_cast<uint32_t>(get_group_id(0));
}
inline uint32_t thread_in_workgroup() {
  return static_cast<uint32_t>(get_local_id(0));
}
#else
#define GLOBAL
#define RESTRICT __restrict
typedef float Floats __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));
#ifdef __NVPTX__
#define KERNEL __attribute__((nvptx_kernel))
inline uint32_t workgroup() {
  return static_cast<uint32_t>(__nvvm_read_ptx_sreg_ctaid_x());
}
inline uint32_t thread_in_workgroup() {
  return static_cast<uint32_t>(__nvvm_read_ptx_sreg_tid_x());
}
#else
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))
inline uint32_t workgroup() {
  return __builtin_amdgcn_workgroup_id_x();
}
inline uint32_t thread_in_workgroup() {
  return __builtin_amdgcn_workitem_id_x();
}
#endif
#endif

// Decodes the thread's values; their index in the target, or false after the last one.
inline bool decode(heddle::module::blocks::Bytes blocks, uint64_t count, HEDDLE_BLOCK_VALUES float (&values)[kValues],
                   HEDDLE_BLOCK_VALUES uint64_t* out_index) {
  constexpr uint32_t kThreadsPerBlock = Type::kElements / kValues;
  const uint64_t thread = uint64_t{workgroup()} * kThreads + thread_in_workgroup();
  const uint64_t block = thread / kThreadsPerBlock;
  if (block >= count) return false;
  Type::decode<kValues>(blocks + block * Type::kBytes, static_cast<uint32_t>(thread % kThreadsPerBlock) * kValues, values);
  *out_index = thread * kValues;
  return true;
}

// Of values that are rounded to 16 bits already.
inline void store_short(HEDDLE_BLOCK_VALUES const uint32_t (&values)[kValues], GLOBAL uint16_t* out) {
  Words words;
  for (uint32_t i = 0; i < kValues / 2; ++i) words[i] = values[2 * i] | values[2 * i + 1] << 16;
  *reinterpret_cast<GLOBAL Words*>(out) = words;
}

}  // namespace

extern "C" {

KERNEL void decode_f32(GLOBAL const uint8_t* RESTRICT blocks, GLOBAL float* RESTRICT out, uint64_t count) {
  float values[kValues];
  uint64_t index;
  if (!decode(blocks, count, values, &index)) return;
  auto* target = reinterpret_cast<GLOBAL Floats*>(out + index);
  target[0] = Floats{values[0], values[1], values[2], values[3]};
  target[1] = Floats{values[4], values[5], values[6], values[7]};
}

KERNEL void decode_f16(GLOBAL const uint8_t* RESTRICT blocks, GLOBAL uint16_t* RESTRICT out, uint64_t count) {
  float values[kValues];
  uint32_t rounded[kValues];
  uint64_t index;
  if (!decode(blocks, count, values, &index)) return;
  for (uint32_t i = 0; i < kValues; ++i) rounded[i] = heddle::module::blocks::to_f16(values[i]);
  store_short(rounded, out + index);
}

KERNEL void decode_bf16(GLOBAL const uint8_t* RESTRICT blocks, GLOBAL uint16_t* RESTRICT out, uint64_t count) {
  float values[kValues];
  uint32_t rounded[kValues];
  uint64_t index;
  if (!decode(blocks, count, values, &index)) return;
  for (uint32_t i = 0; i < kValues; ++i) rounded[i] = heddle::module::blocks::to_bf16(values[i]);
  store_short(rounded, out + index);
}
}
