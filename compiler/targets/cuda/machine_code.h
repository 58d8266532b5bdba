// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine code from PTX, made by NVIDIA's ptxas, a program that the user provides and nothing else needs. Called by the pipeline for each chip, and
// by tests for what ptxas reports about a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "llvm/Support/Error.h"

namespace heddle::targets {

// What ptxas reports about one kernel.
struct AssembledKernel {
  std::string name;
  uint32_t registers = 0;      // of a thread
  uint64_t spilled_bytes = 0;  // of a thread, in memory because there are too few registers
  uint64_t shared_bytes = 0;   // of a workgroup, in addition to those requested at launch
};

struct MachineCode {
  std::vector<char> code;  // "cubin/1"
  std::vector<AssembledKernel> kernels;
};

// ptxas: its path, or its name if it is on PATH. chip: as for make_cuda_target. The error has the output of ptxas.
llvm::Expected<MachineCode> assemble_ptx(const std::string& ptxas, std::string_view chip, const std::vector<char>& ptx);

}  // namespace heddle::targets
