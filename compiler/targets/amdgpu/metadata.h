// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The metadata of AMDGPU code objects: what the code generator says of each kernel (LLVM's AMDGPUUsage, "Code Object V4 Metadata"). Called where
// images are linked and inspected; knows no MLIR.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace heddle::targets::amdgpu {

struct KernelMetadata {
  std::string name;               // of the entry; its descriptor is NAME.kd
  uint64_t registers = 0;         // vector registers of a thread, with accumulation registers where both are in one file
  uint64_t accumulators = 0;      // accumulation registers of a thread
  uint64_t scalar_registers = 0;  // of a wave
  uint64_t spilled_registers = 0;
  uint64_t spilled_scalar_registers = 0;
  uint64_t shared_bytes = 0;   // local memory of a workgroup
  uint64_t private_bytes = 0;  // scratch memory of a thread
  uint64_t kernarg_bytes = 0;
  uint64_t wave_size = 0;
  uint64_t workgroup_size = 0;  // at most
  struct Argument {
    uint64_t offset, size;
    std::string kind;
  };
  std::vector<Argument> arguments;
};

struct CodeObject {
  std::string target;  // "amdgcn-amd-amdhsa--gfx90a"
  std::vector<KernelMetadata> kernels;
};

// The metadata of an object or an image, which must have one such note. Any bytes may be given.
llvm::Expected<CodeObject> read_metadata(llvm::StringRef elf);

// A note section with the metadata of all these objects, which have one kernel each; the kernels get these names.
llvm::Expected<std::string> join_metadata(llvm::ArrayRef<llvm::StringRef> objects, llvm::ArrayRef<llvm::StringRef> names);

}  // namespace heddle::targets::amdgpu
