// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Splits the initializer into parts, so that not all of its inputs are in memory at once: the inputs of a part are loaded before it, and freed when
// no later part reads them. Used when an instance is created, and to compute its memory need.
#ifndef HEDDLE_CORE_SUBMIT_INITIALIZER_PARTS_H_
#define HEDDLE_CORE_SUBMIT_INITIALIZER_PARTS_H_

#include <heddle_module/module_generated.h>

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "core/submit/plan.h"

namespace heddle::submit {

struct InitializerPart {
  uint32_t first_instruction = 0;
  // Globals: parameters that no function reads.
  std::vector<uint32_t> loaded;  // loaded before the part
  std::vector<uint32_t> freed;   // freed after the part
};

// What has to run again when some parameters have new values: the instructions that read one, and those that share values with them, directly or
// through others. Other instructions have no effect on what these compute.
struct Rerun {
  std::vector<bool> instructions;  // empty: all, since the program has jumps, checks or state
  std::vector<bool> globals;       // those that changed or that these instructions write
};
Rerun rerun_of_initializer(const module_format::Module& module, const module_format::Program& initializer,
                           const std::vector<bool>& changed);

// At least one part. Each loads at most `most_bytes`, or the inputs of one instruction. A program with jumps is one part. runs: the instructions that
// run; empty: all.
std::vector<InitializerPart> parts_of_initializer(const module_format::Module& module, const module_format::Program& initializer,
                                                  const std::vector<bool>& read_by_functions, uint64_t most_bytes,
                                                  const std::vector<bool>& runs = {});
// The default limit: small compared with the rest, without creating too many parts.
uint64_t usual_part_bytes(const module_format::Module& module);

// Where the parts' parameters are read to: places in one block per device. Parameters that are not needed in the same part may share bytes, so a part
// is read into memory that earlier ones have used.
struct InitializerStage {
  std::vector<uint64_t> offsets;          // per global; of the parts' parameters only
  std::vector<uint64_t> bytes_of_device;  // 0: no block
};
// elsewhere: the globals whose bytes are on the device anyway.
Result<InitializerStage> stage_of_initializer(const module_format::Module& module, const std::vector<InitializerPart>& parts,
                                              const Machine& machine, const std::vector<bool>& elsewhere);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INITIALIZER_PARTS_H_
