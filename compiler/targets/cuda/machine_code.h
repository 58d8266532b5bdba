// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine code of PTX, made by NVIDIA's ptxas, a program of the user's that nothing else here needs. Called by the pipeline for each chip,
// and by tests for what ptxas says of a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llvm/Support/Error.h"

namespace heddle::targets {

// What ptxas says of one kernel.
struct AssembledKernel {
  std::string name;
  uint32_t registers = 0;      // of a thread
  uint64_t spilled_bytes = 0;  // of a thread, in memory because the registers do not suffice
  uint64_t shared_bytes = 0;   // of a workgroup, beside what is asked for at launch
};

struct MachineCode {
  std::vector<char> code;  // "cubin/1"
  std::vector<AssembledKernel> kernels;
};

// ptxas: its path, or its name if it is on PATH. chip: as of make_cuda_target. The error says what ptxas printed.
llvm::Expected<MachineCode> assemble_ptx(const std::string& ptxas, std::string_view chip, const std::vector<char>& ptx);

}  // namespace heddle::targets
