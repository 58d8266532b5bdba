// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes as a SPIR-V module for the Level Zero driver: refused with a reason, or read, with a parameter list for every kernel.
#include <cstdint>
#include <cstdlib>

#include "level_zero/spirv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::level_zero::SpirvModule module;
  std::string reason;
  if (heddle::level_zero::read_spirv(data, size, &module, &reason) != HEDDLE_STATUS_OK) {
    if (reason.empty()) std::abort();
    return 0;
  }
  for (const auto& [name, kernel] : module.kernels) {
    if (!kernel.parameters || kernel.parameters->size() > size / 4) std::abort();
  }
  for (uint32_t capability : module.capabilities) {
    if (heddle::level_zero::capability_name(capability).empty()) std::abort();
  }
  return 0;
}
