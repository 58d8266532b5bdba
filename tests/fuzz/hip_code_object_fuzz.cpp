// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes as a code object for the HIP driver: refused with a reason, or read, with every kernel's arguments inside of its segment.
#include <cstdint>
#include <cstdlib>

#include "hip/code_object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::hip::CodeObject object;
  std::string reason;
  if (heddle::hip::read_code_object(data, size, &object, &reason) != HEDDLE_STATUS_OK) {
    if (reason.empty()) std::abort();
    return 0;
  }
  if (object.chip.empty()) std::abort();
  for (const auto& [name, kernel] : object.kernels) {
    for (const heddle::hip::KernelArgument& argument : kernel.arguments) {
      if (argument.offset + argument.size > kernel.arguments_bytes) std::abort();
    }
  }
  return 0;
}
