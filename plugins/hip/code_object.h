// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a code object before AMD's loader sees it, which takes a pointer without a size, and reads what it says of its kernels. Pure.
// Source: LLVM, User Guide for AMDGPU Backend, "ELF Code Object", "Code Object Metadata" and "Kernel Descriptor".
#ifndef HEDDLE_HIP_CODE_OBJECT_H_
#define HEDDLE_HIP_CODE_OBJECT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/status.h"

namespace heddle::hip {

struct KernelArgument {
  uint64_t offset = 0, size = 0;
  bool is_hidden = false;  // the runtime library would fill it in
};

// Sizes are in bytes. The descriptor and the metadata agree about those that both state.
struct KernelFacts {
  uint64_t shared_bytes = 0, private_bytes = 0, arguments_bytes = 0;
  uint64_t wave_size = 0, most_threads = 0;
  uint64_t exact_threads[3] = {};  // of a workgroup; 0: not stated
  std::vector<KernelArgument> arguments;
};

struct CodeObject {
  std::string chip;  // "gfx90a"
  std::map<std::string, KernelFacts, std::less<>> kernels;
};

// DATA_LOSS for a file that is cut off, damaged, or that contradicts itself; INVALID_ARGUMENT for one that is no code object of version 4 or 5; and
// the reason. Tables, sections, segments and kernel descriptors are inside the file, and symbols that are loaded are defined.
heddle_status_code_t read_code_object(const void* bytes, uint64_t size, CodeObject* out, std::string* out_reason);

}  // namespace heddle::hip
#endif  // HEDDLE_HIP_CODE_OBJECT_H_
