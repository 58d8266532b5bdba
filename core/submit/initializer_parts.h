// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The initializer in parts, so that not all that it reads is in memory at once: what a part needs is loaded before it, and goes when no later one reads it.
// Used when an instance is made, and to say what memory that takes. Knows no device.
#ifndef HEDDLE_CORE_SUBMIT_INITIALIZER_PARTS_H_
#define HEDDLE_CORE_SUBMIT_INITIALIZER_PARTS_H_

#include <heddle_module/module_generated.h>

#include <cstdint>
#include <vector>

namespace heddle::submit {

struct InitializerPart {
  uint32_t first_instruction = 0;
  // Globals: parameters that no function reads.
  std::vector<uint32_t> loaded;  // before it
  std::vector<uint32_t> freed;   // behind it
};

// At least one part. Each loads at most `most_bytes`, or what one instruction reads. A program with jumps is one part.
std::vector<InitializerPart> parts_of_initializer(const module_format::Module& module, const module_format::Program& initializer,
                                                  const std::vector<bool>& read_by_functions, uint64_t most_bytes);
// The bound that is used: small against the rest, and not too many parts.
uint64_t usual_part_bytes(const module_format::Module& module);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INITIALIZER_PARTS_H_
