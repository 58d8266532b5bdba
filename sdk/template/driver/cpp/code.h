// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code format of the sample driver, "sample-stack/1": text, one kernel after the other, each a program for a stack of 64-bit words that
// runs once per workgroup. It stands for a vendor's binary format: code that is checked when it is loaded, looked up by name, and run
// with bindings and constants. Replace it with your own; device.cpp only needs to load, find and run kernels.
//
//   kernel NAME BINDINGS CONSTANTS_BYTES      begins a kernel
//   group           pushes the workgroup's number, x fastest      const N     pushes the N-th 64-bit constant
//   push N          pushes N                                      add, mul    of the two on top
//   addf            of the two on top, as f32                     less        1 if the second is less than the top, else 0
//   load32 B        pops an index, pushes word [index] of binding B; load64 likewise
//   store32 B       pops a value, then an index, stores it there; store64 likewise
//   require         pops; ends this workgroup if it was 0
//   fail N          the kernel fails with number N
//   lose            the device is gone
#ifndef SAMPLE_CODE_H_
#define SAMPLE_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sample {

inline constexpr std::string_view kFormat = "sample-stack/1";
inline constexpr std::string_view kTarget = "generic";

enum class Op : uint32_t { kGroup, kConst, kPush, kAdd, kMul, kAddF, kLess, kLoad32, kLoad64, kStore32, kStore64, kRequire, kFail, kLose };

struct Instruction {
  Op op;
  uint64_t operand;
};

struct Kernel {
  std::string name;
  uint32_t bindings = 0;
  uint32_t constants_bytes = 0;
  std::vector<Instruction> instructions;
};

// Reads the code and checks every operand, and the depth of the stack at every instruction. On failure *out_error says what is wrong.
bool read_program(std::string_view text, std::vector<Kernel>* out_kernels, std::string* out_error);

struct Memory {
  char* data;
  uint64_t bytes;
};

enum class Outcome { kDone, kFailed, kOutOfBounds, kLost };

// Runs all workgroups in order. For kFailed *out_number is the kernel's number, for kOutOfBounds the index that it used.
Outcome run_kernel(const Kernel& kernel, const std::vector<Memory>& bindings, const std::vector<char>& constants, uint64_t workgroups,
                   uint64_t* out_number);

}  // namespace sample
#endif  // SAMPLE_CODE_H_
