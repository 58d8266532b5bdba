// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of portable code on several neighbors at once. Called by the evaluator of bodies; knows no tensors.
#pragma once

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

// The values of one scalar for a number of lanes, or one value that is the same for all.
struct Lanes {
  const void* data = nullptr;
  bool is_uniform = false;
};

// Computes `count` lanes of the result into `out`, which has space for them. All operands are uniform, or none is; count is 1 for uniform ones.
// `from` is the type of the first operand.
void compute(const Instruction& at, Scalar from, const Lanes* operands, int64_t count, void* out);

// Copies the one value to all lanes.
void spread(Scalar type, const void* value, int64_t count, void* out);

float f32_of_f16(uint16_t bits);
uint16_t f16_of_f32(float value);

// Calls the function with an unsigned integer of as many bytes as the type has.
template <typename Function>
void with_bits(Scalar type, Function function) {
  switch (bytes_of(type)) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

}  // namespace heddle::sdk::portable
