// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of memory instructions share: the kinds of atomic operations, the queues of a wave, and what executes each kind of instruction.
#pragma once

#include "tests/amdgpu/machine.h"

namespace heddle::amdgpu {

enum Atomic : uint8_t {
  Swap,
  CompareSwap,
  Add,
  Sub,
  ReverseSub,
  MinI,
  MinU,
  MaxI,
  MaxU,
  And,
  Or,
  Xor,
  Inc,
  Dec,
  AddF,
  MinF,
  MaxF,
  PackedAddF16,
  PackedAddBf16
};

inline bool starts(std::string_view s, std::string_view prefix) {
  return s.substr(0, prefix.size()) == prefix;
}

// memory_order.cpp: operations on their way.
unsigned loaded_registers(const Memo& m);
void mark(Wave& w, const Access& a, int sign);  // that the registers are (1) or are no longer (-1) to be loaded
void issue(Wave& w, AccessQueue& queue);        // its next operation

// memory.cpp: executed instructions.
void execute_vector_memory(Wave&, const Instruction&);
void execute_lds(Wave&, const Instruction&);
void execute_scalar_memory(Wave&, const Instruction&);
void execute_bpermute(Wave&, const Instruction&);
void execute_permute(Wave&, const Instruction&);
void execute_swizzle(Wave&, const Instruction&);
void execute_memtime(Wave&, const Instruction&);

}  // namespace heddle::amdgpu
