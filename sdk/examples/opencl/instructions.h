// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars and instructions of portable code as OpenCL C. Values are unsigned integers of their size, float and double; f16 and bf16 are their bits.
#ifndef OPENCL_EXAMPLE_INSTRUCTIONS_H_
#define OPENCL_EXAMPLE_INSTRUCTIONS_H_

#include "heddle/sdk/portable/code.h"

namespace opencl {

const char* type_of(heddle::sdk::portable::Scalar scalar);
const char* signed_type(heddle::sdk::portable::Scalar scalar);
// Of elements; those of a bool are bytes.
inline const char* type_in_memory(heddle::sdk::portable::Scalar scalar) {
  return type_of(scalar);
}
std::string constant(heddle::sdk::portable::Scalar scalar, uint64_t bits);
// An expression for the result; `from` is the type of the first operand. Operands are names, which may be repeated.
std::string instruction(const heddle::sdk::portable::Instruction& at, heddle::sdk::portable::Scalar from, const std::string& a,
                        const std::string& b, const std::string& c);

// The functions that these expressions call. The driver defines BLOCK, the elements that a work-item takes, LANES, the parts of a fold that it adds up
// beside each other, HAS_F64 if the device has double, and WIDTH, the floats of a vector. erf_f32 has no branch, so that loops with it become vectors: a quotient of
// polynomials that was fitted to erf(x) / x in x * x up to 3.92; its relative error is 4e-7 at most.
inline constexpr char kPrelude[] = R"(#ifdef HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL FP_CONTRACT OFF
long floor_div(long a, long b) { return b <= 0 ? 0 : a / b - (a % b < 0); }
long ceil_div(long a, long b) { return b <= 0 ? 0 : a / b + (a % b > 0); }
long modulo(long a, long b) { return b <= 0 ? 0 : a % b + (a % b < 0 ? b : 0); }
long gathered(long i, long size) { return clamp(i < 0 ? i + size : i, 0L, max(size - 1, 0L)); }
float f32_of_f16(ushort bits) { return vload_half(0, (const private half*)&bits); }
ushort f16_of_f32(float value) { ushort bits; vstore_half_rte(value, 0, (private half*)&bits); return bits; }
float f32_of_bf16(ushort bits) { return as_float((uint)bits << 16); }
float erf_f32(float x) {
  const float c = x > 3.92f ? 3.92f : x < -3.92f ? -3.92f : x, s = c * c;
  const float above = ((((((1.9924432e-8f * s - 1.9577087e-6f) * s + 1.4182342e-4f) * s + 3.7005490e-3f) * s + 5.0570041e-2f) * s + 0.19990018f) * s + 1.1283791f);
  const float below = (((9.5577643e-4f * s + 1.4351081e-2f) * s + 0.11498829f) * s + 0.51048857f) * s + 1.0f;
  return c * above / below;
}
ushort bf16_of_f32(float value) {
  const uint bits = as_uint(value);
  return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
)";

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_INSTRUCTIONS_H_
