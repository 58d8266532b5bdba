// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The AMD GPUs that code is made for, with the limits of a kernel on them. Read by every file of this directory; knows no op.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle::targets::amdgpu {

// Generations of matrix instructions, which differ in types and in the layout of operands.
enum class MatrixUnit : uint8_t { mfma_cdna2, mfma_cdna3, wmma_rdna3, wmma_rdna4 };

// MFMA of waves of 64 threads, or WMMA of waves of 32.
constexpr bool is_mfma(MatrixUnit unit) {
  return unit == MatrixUnit::mfma_cdna2 || unit == MatrixUnit::mfma_cdna3;
}

// Numbers are from LLVM's AMDGPUUsage and AMD's instruction set documents (CDNA2, CDNA3, RDNA3, RDNA4).
struct Chip {
  std::string_view name;  // as code.h spells it, and LLVM's name of the CPU
  uint32_t wave_size;     // threads of a wave
  MatrixUnit matrix_unit;
  uint32_t most_registers;      // vector registers of a thread, with accumulation registers where both are in one file
  uint32_t register_file;       // vector registers of a SIMD, in units of one per thread of a wave
  uint32_t register_block;      // they are allocated in multiples of this
  uint32_t most_waves;          // of a SIMD
  uint32_t simds;               // that share `shared_file_bytes`
  uint64_t shared_file_bytes;   // local memory of the compute units on which a workgroup runs
  uint64_t most_private_bytes;  // of a thread
  bool has_scalar_count;        // descriptors state the number of scalar registers; otherwise these bits are 0
};

inline constexpr uint64_t most_shared_bytes = 64 << 10;  // of a workgroup
inline constexpr uint32_t most_workgroup_size = 1024;
inline constexpr uint32_t most_scalar_registers = 112;  // of a wave, with those that have names

// A workgroup of RDNA runs on two compute units that share local memory (WGP mode, LLVM's default).
inline constexpr Chip chips[] = {
    {"gfx90a", 64, MatrixUnit::mfma_cdna2, 512, 512, 8, 8, 4, 64 << 10, 131'056, true},
    {"gfx942", 64, MatrixUnit::mfma_cdna3, 512, 512, 8, 8, 4, 64 << 10, 131'056, true},
    {"gfx1100", 32, MatrixUnit::wmma_rdna3, 256, 1536, 24, 16, 4, 128 << 10, 262'136, false},
    {"gfx1201", 32, MatrixUnit::wmma_rdna4, 256, 1536, 24, 16, 4, 128 << 10, 2'097'144, false},
};

// Threads of a subgroup, as kernels use it: a wave, or a half of one. The same for all chips, since the grid depends on it.
inline constexpr int64_t subgroup_size = 32;

}  // namespace heddle::targets::amdgpu
