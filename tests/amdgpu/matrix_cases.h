// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions as tests see them: which element of a matrix lies where, matrices of small integers, and registers that are filled with them. The
// layouts are stated the other way round than in the interpreter: by lane and register, as the tables of AMD's matrix instruction calculator have them.
#pragma once

#include <cmath>

#include "tests/amdgpu/single.h"

namespace heddle::amdgpu {

// The format of a float, or with 0 exponent bits of an integer.
struct Format {
  unsigned bits, exponent_bits, mantissa_bits;
  int bias;
};
inline constexpr Format kF64{64, 11, 52, 1023}, kF32{32, 8, 23, 127}, kF16{16, 5, 10, 15}, kBf16{16, 8, 7, 127}, kI32{32, 0, 0, 0},
    kI8{8, 0, 0, 0}, kI4{4, 0, 0, 0}, kFp8Fnuz{8, 4, 3, 8}, kBf8Fnuz{8, 5, 2, 16}, kFp8Ocp{8, 4, 3, 7}, kBf8Ocp{8, 5, 2, 15};

inline uint64_t encode(const Format& f, int value) {
  if (f.exponent_bits == 0)
    return static_cast<uint64_t>(static_cast<int64_t>(value)) & (f.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << f.bits) - 1);
  if (value == 0) return 0;
  const uint64_t magnitude = static_cast<uint64_t>(std::abs(value));
  const int exponent = 63 - std::countl_zero(magnitude);
  const uint64_t mantissa = (magnitude << f.mantissa_bits >> exponent) - (uint64_t{1} << f.mantissa_bits);
  return (value < 0 ? uint64_t{1} << (f.bits - 1) : 0) | static_cast<uint64_t>(exponent + f.bias) << f.mantissa_bits | mantissa;
}

struct At {
  unsigned line, other, block;  // row (of B: column), k; or row, column
};
using Layout = At (*)(unsigned element, unsigned lane);  // the element within a lane: that of 16 bits in the upper half of register 0 is 1

// A or B of MFMA: `together` elements of a line in a lane.
template <unsigned size, unsigned blocks, unsigned together>
inline At input(unsigned element, unsigned lane) {
  return {lane % size, lane / (size * blocks) * together + element, lane / size % blocks};
}
inline At output32(unsigned r, unsigned lane) {
  return {8 * (r % 16 / 4) + 4 * (lane / 32) + r % 4, lane % 32, r / 16};
}
inline At output16(unsigned r, unsigned lane) {
  return {4 * (lane / 16) + r % 4, lane % 16, r / 4};
}
inline At output4(unsigned r, unsigned lane) {
  return {r, lane % 4, lane / 4};
}
inline At output16_f64(unsigned r, unsigned lane) {
  return {4 * r + lane / 16, lane % 16, 0};
}
inline At output4_f64(unsigned, unsigned lane) {
  return {lane / 16, lane % 4, lane / 4 % 4};
}
// RDNA3, waves of 32 and of 64.
inline At input_rdna3(unsigned element, unsigned lane) {
  return {lane % 16, element, 0};
}
inline At output_rdna3(unsigned r, unsigned lane) {
  return {2 * r + lane / 16, lane % 16, 0};
}
inline At output_rdna3_half(unsigned element, unsigned lane) {
  return {element / 2 * 2 + lane / 16, lane % 16, element % 2};  // the upper halves: no block of the matrix
}
inline At output_rdna3_64(unsigned r, unsigned lane) {
  return {4 * r + lane / 16, lane % 16, 0};
}
// RDNA4
inline At input_rdna4_16(unsigned element, unsigned lane) {
  return {lane % 16, 8 * (element / 4) + 4 * (lane / 16) + element % 4, 0};
}
inline At input_rdna4_8(unsigned element, unsigned lane) {
  return {lane % 16, 8 * (lane / 16) + element, 0};
}
inline At input_rdna4_4(unsigned element, unsigned lane) {
  return {lane % 16, 16 * (lane / 16) + element, 0};
}
inline At output_rdna4(unsigned element, unsigned lane) {
  return {8 * (lane / 16) + element, lane % 16, 0};
}
inline At input_rdna4_16_64(unsigned element, unsigned lane) {
  return {lane % 16, 4 * (lane / 16) + element, 0};
}
inline At input_rdna4_8_64(unsigned element, unsigned lane) {
  return {lane % 16, 8 * (lane / 16 % 2) + 4 * (lane / 32) + element, 0};
}
inline At input_rdna4_4_64(unsigned element, unsigned lane) {
  return {lane % 16, 16 * (lane / 16 % 2) + 8 * (lane / 32) + element, 0};
}
inline At input_rdna4_4x16_64(unsigned element, unsigned lane) {
  return {lane % 16, 8 * (lane / 16) + element, lane / 32};  // the upper lanes: no block of the matrix
}
inline At output_rdna4_64(unsigned element, unsigned lane) {
  return {8 * (lane / 16 % 2) + 4 * (lane / 32) + element, lane % 16, 0};
}

struct Case {
  const char* processor;
  const char* name;
  unsigned size, k, blocks, registers_ab, registers_d;
  Format a, b, d;
  Layout input, output;
  const char* modifiers = "";
  unsigned wave_size = 0;
};
inline const Case kCases[] = {
    {"gfx90a", "v_mfma_f32_32x32x1f32", 32, 1, 2, 1, 32, kF32, kF32, kF32, input<32, 2, 1>, output32},
    {"gfx90a", "v_mfma_f32_16x16x1f32", 16, 1, 4, 1, 16, kF32, kF32, kF32, input<16, 4, 1>, output16},
    {"gfx90a", "v_mfma_f32_4x4x1f32", 4, 1, 16, 1, 4, kF32, kF32, kF32, input<4, 16, 1>, output4},
    {"gfx90a", "v_mfma_f32_32x32x2f32", 32, 2, 1, 1, 16, kF32, kF32, kF32, input<32, 1, 1>, output32},
    {"gfx90a", "v_mfma_f32_16x16x4f32", 16, 4, 1, 1, 4, kF32, kF32, kF32, input<16, 1, 1>, output16},
    {"gfx90a", "v_mfma_f32_32x32x4f16", 32, 4, 2, 2, 32, kF16, kF16, kF32, input<32, 2, 4>, output32},
    {"gfx90a", "v_mfma_f32_16x16x4f16", 16, 4, 4, 2, 16, kF16, kF16, kF32, input<16, 4, 4>, output16},
    {"gfx90a", "v_mfma_f32_4x4x4f16", 4, 4, 16, 2, 4, kF16, kF16, kF32, input<4, 16, 4>, output4},
    {"gfx90a", "v_mfma_f32_32x32x8f16", 32, 8, 1, 2, 16, kF16, kF16, kF32, input<32, 1, 4>, output32},
    {"gfx90a", "v_mfma_f32_16x16x16f16", 16, 16, 1, 2, 4, kF16, kF16, kF32, input<16, 1, 4>, output16},
    {"gfx90a", "v_mfma_f32_32x32x4bf16_1k", 32, 4, 2, 2, 32, kBf16, kBf16, kF32, input<32, 2, 4>, output32},
    {"gfx90a", "v_mfma_f32_16x16x4bf16_1k", 16, 4, 4, 2, 16, kBf16, kBf16, kF32, input<16, 4, 4>, output16},
    {"gfx90a", "v_mfma_f32_4x4x4bf16_1k", 4, 4, 16, 2, 4, kBf16, kBf16, kF32, input<4, 16, 4>, output4},
    {"gfx90a", "v_mfma_f32_32x32x8bf16_1k", 32, 8, 1, 2, 16, kBf16, kBf16, kF32, input<32, 1, 4>, output32},
    {"gfx90a", "v_mfma_f32_16x16x16bf16_1k", 16, 16, 1, 2, 4, kBf16, kBf16, kF32, input<16, 1, 4>, output16},
    {"gfx90a", "v_mfma_f32_32x32x2bf16", 32, 2, 2, 1, 32, kBf16, kBf16, kF32, input<32, 2, 2>, output32},
    {"gfx90a", "v_mfma_f32_16x16x2bf16", 16, 2, 4, 1, 16, kBf16, kBf16, kF32, input<16, 4, 2>, output16},
    {"gfx90a", "v_mfma_f32_4x4x2bf16", 4, 2, 16, 1, 4, kBf16, kBf16, kF32, input<4, 16, 2>, output4},
    {"gfx90a", "v_mfma_f32_32x32x4bf16", 32, 4, 1, 1, 16, kBf16, kBf16, kF32, input<32, 1, 2>, output32},
    {"gfx90a", "v_mfma_f32_16x16x8bf16", 16, 8, 1, 1, 4, kBf16, kBf16, kF32, input<16, 1, 2>, output16},
    {"gfx90a", "v_mfma_i32_32x32x4i8", 32, 4, 2, 1, 32, kI8, kI8, kI32, input<32, 2, 4>, output32},
    {"gfx90a", "v_mfma_i32_16x16x4i8", 16, 4, 4, 1, 16, kI8, kI8, kI32, input<16, 4, 4>, output16},
    {"gfx90a", "v_mfma_i32_4x4x4i8", 4, 4, 16, 1, 4, kI8, kI8, kI32, input<4, 16, 4>, output4},
    {"gfx90a", "v_mfma_i32_32x32x8i8", 32, 8, 1, 1, 16, kI8, kI8, kI32, input<32, 1, 4>, output32},
    {"gfx90a", "v_mfma_i32_16x16x16i8", 16, 16, 1, 1, 4, kI8, kI8, kI32, input<16, 1, 4>, output16},
    {"gfx90a", "v_mfma_f64_16x16x4f64", 16, 4, 1, 2, 8, kF64, kF64, kF64, input<16, 1, 1>, output16_f64},
    {"gfx90a", "v_mfma_f64_4x4x4f64", 4, 4, 4, 2, 2, kF64, kF64, kF64, input<4, 4, 1>, output4_f64},
    {"gfx942", "v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, 1, 32, kF32, kF32, kF32, input<32, 2, 1>, output32},
    {"gfx942", "v_mfma_f32_16x16x1_4b_f32", 16, 1, 4, 1, 16, kF32, kF32, kF32, input<16, 4, 1>, output16},
    {"gfx942", "v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, 1, 4, kF32, kF32, kF32, input<4, 16, 1>, output4},
    {"gfx942", "v_mfma_f32_32x32x2_f32", 32, 2, 1, 1, 16, kF32, kF32, kF32, input<32, 1, 1>, output32},
    {"gfx942", "v_mfma_f32_16x16x4_f32", 16, 4, 1, 1, 4, kF32, kF32, kF32, input<16, 1, 1>, output16},
    {"gfx942", "v_mfma_f32_32x32x4_2b_f16", 32, 4, 2, 2, 32, kF16, kF16, kF32, input<32, 2, 4>, output32},
    {"gfx942", "v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, 2, 16, kF16, kF16, kF32, input<16, 4, 4>, output16},
    {"gfx942", "v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, 2, 4, kF16, kF16, kF32, input<4, 16, 4>, output4},
    {"gfx942", "v_mfma_f32_32x32x8_f16", 32, 8, 1, 2, 16, kF16, kF16, kF32, input<32, 1, 4>, output32},
    {"gfx942", "v_mfma_f32_16x16x16_f16", 16, 16, 1, 2, 4, kF16, kF16, kF32, input<16, 1, 4>, output16},
    {"gfx942", "v_mfma_f32_32x32x4_2b_bf16", 32, 4, 2, 2, 32, kBf16, kBf16, kF32, input<32, 2, 4>, output32},
    {"gfx942", "v_mfma_f32_16x16x4_4b_bf16", 16, 4, 4, 2, 16, kBf16, kBf16, kF32, input<16, 4, 4>, output16},
    {"gfx942", "v_mfma_f32_4x4x4_16b_bf16", 4, 4, 16, 2, 4, kBf16, kBf16, kF32, input<4, 16, 4>, output4},
    {"gfx942", "v_mfma_f32_32x32x8_bf16", 32, 8, 1, 2, 16, kBf16, kBf16, kF32, input<32, 1, 4>, output32},
    {"gfx942", "v_mfma_f32_16x16x16_bf16", 16, 16, 1, 2, 4, kBf16, kBf16, kF32, input<16, 1, 4>, output16},
    {"gfx942", "v_mfma_i32_32x32x4_2b_i8", 32, 4, 2, 1, 32, kI8, kI8, kI32, input<32, 2, 4>, output32},
    {"gfx942", "v_mfma_i32_16x16x4_4b_i8", 16, 4, 4, 1, 16, kI8, kI8, kI32, input<16, 4, 4>, output16},
    {"gfx942", "v_mfma_i32_4x4x4_16b_i8", 4, 4, 16, 1, 4, kI8, kI8, kI32, input<4, 16, 4>, output4},
    {"gfx942", "v_mfma_i32_32x32x16_i8", 32, 16, 1, 2, 16, kI8, kI8, kI32, input<32, 1, 8>, output32},
    {"gfx942", "v_mfma_i32_16x16x32_i8", 16, 32, 1, 2, 4, kI8, kI8, kI32, input<16, 1, 8>, output16},
    {"gfx942", "v_mfma_f32_32x32x4_xf32", 32, 4, 1, 2, 16, kF32, kF32, kF32, input<32, 1, 2>, output32},
    {"gfx942", "v_mfma_f32_16x16x8_xf32", 16, 8, 1, 2, 4, kF32, kF32, kF32, input<16, 1, 2>, output16},
    {"gfx942", "v_mfma_f64_16x16x4_f64", 16, 4, 1, 2, 8, kF64, kF64, kF64, input<16, 1, 1>, output16_f64},
    {"gfx942", "v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, 2, 2, kF64, kF64, kF64, input<4, 4, 1>, output4_f64},
    {"gfx942", "v_mfma_f32_32x32x16_fp8_fp8", 32, 16, 1, 2, 16, kFp8Fnuz, kFp8Fnuz, kF32, input<32, 1, 8>, output32},
    {"gfx942", "v_mfma_f32_32x32x16_bf8_fp8", 32, 16, 1, 2, 16, kBf8Fnuz, kFp8Fnuz, kF32, input<32, 1, 8>, output32},
    {"gfx942", "v_mfma_f32_32x32x16_fp8_bf8", 32, 16, 1, 2, 16, kFp8Fnuz, kBf8Fnuz, kF32, input<32, 1, 8>, output32},
    {"gfx942", "v_mfma_f32_32x32x16_bf8_bf8", 32, 16, 1, 2, 16, kBf8Fnuz, kBf8Fnuz, kF32, input<32, 1, 8>, output32},
    {"gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16, 32, 1, 2, 4, kFp8Fnuz, kFp8Fnuz, kF32, input<16, 1, 8>, output16},
    {"gfx942", "v_mfma_f32_16x16x32_bf8_fp8", 16, 32, 1, 2, 4, kBf8Fnuz, kFp8Fnuz, kF32, input<16, 1, 8>, output16},
    {"gfx942", "v_mfma_f32_16x16x32_fp8_bf8", 16, 32, 1, 2, 4, kFp8Fnuz, kBf8Fnuz, kF32, input<16, 1, 8>, output16},
    {"gfx942", "v_mfma_f32_16x16x32_bf8_bf8", 16, 32, 1, 2, 4, kBf8Fnuz, kBf8Fnuz, kF32, input<16, 1, 8>, output16},
    {"gfx1100", "v_wmma_f32_16x16x16_f16", 16, 16, 1, 8, 8, kF16, kF16, kF32, input_rdna3, output_rdna3},
    {"gfx1100", "v_wmma_f32_16x16x16_bf16", 16, 16, 1, 8, 8, kBf16, kBf16, kF32, input_rdna3, output_rdna3},
    {"gfx1100", "v_wmma_f16_16x16x16_f16", 16, 16, 1, 8, 8, kF16, kF16, kF16, input_rdna3, output_rdna3_half},
    {"gfx1100", "v_wmma_bf16_16x16x16_bf16", 16, 16, 1, 8, 8, kBf16, kBf16, kBf16, input_rdna3, output_rdna3_half},
    {"gfx1100", "v_wmma_i32_16x16x16_iu8", 16, 16, 1, 4, 8, kI8, kI8, kI32, input_rdna3, output_rdna3, "neg_lo:[1,1,0]"},
    {"gfx1100", "v_wmma_i32_16x16x16_iu4", 16, 16, 1, 2, 8, kI4, kI4, kI32, input_rdna3, output_rdna3, "neg_lo:[1,1,0]"},
    {"gfx1100", "v_wmma_f32_16x16x16_f16", 16, 16, 1, 8, 4, kF16, kF16, kF32, input_rdna3, output_rdna3_64, "", 64},
    {"gfx1100", "v_wmma_i32_16x16x16_iu8", 16, 16, 1, 4, 4, kI8, kI8, kI32, input_rdna3, output_rdna3_64, "neg_lo:[1,1,0]", 64},
    {"gfx1201", "v_wmma_f32_16x16x16_f16", 16, 16, 1, 4, 8, kF16, kF16, kF32, input_rdna4_16, output_rdna4},
    {"gfx1201", "v_wmma_f32_16x16x16_bf16", 16, 16, 1, 4, 8, kBf16, kBf16, kF32, input_rdna4_16, output_rdna4},
    {"gfx1201", "v_wmma_f16_16x16x16_f16", 16, 16, 1, 4, 4, kF16, kF16, kF16, input_rdna4_16, output_rdna4},
    {"gfx1201", "v_wmma_bf16_16x16x16_bf16", 16, 16, 1, 4, 4, kBf16, kBf16, kBf16, input_rdna4_16, output_rdna4},
    {"gfx1201", "v_wmma_i32_16x16x16_iu8", 16, 16, 1, 2, 8, kI8, kI8, kI32, input_rdna4_8, output_rdna4, "neg_lo:[1,1,0]"},
    {"gfx1201", "v_wmma_i32_16x16x16_iu4", 16, 16, 1, 1, 8, kI4, kI4, kI32, input_rdna4_8, output_rdna4, "neg_lo:[1,1,0]"},
    {"gfx1201", "v_wmma_i32_16x16x32_iu4", 16, 32, 1, 2, 8, kI4, kI4, kI32, input_rdna4_4, output_rdna4, "neg_lo:[1,1,0]"},
    {"gfx1201", "v_wmma_f32_16x16x16_fp8_fp8", 16, 16, 1, 2, 8, kFp8Ocp, kFp8Ocp, kF32, input_rdna4_8, output_rdna4},
    {"gfx1201", "v_wmma_f32_16x16x16_bf8_bf8", 16, 16, 1, 2, 8, kBf8Ocp, kBf8Ocp, kF32, input_rdna4_8, output_rdna4},
    {"gfx1201", "v_wmma_f32_16x16x16_fp8_bf8", 16, 16, 1, 2, 8, kFp8Ocp, kBf8Ocp, kF32, input_rdna4_8, output_rdna4},
    {"gfx1201", "v_wmma_f32_16x16x16_bf8_fp8", 16, 16, 1, 2, 8, kBf8Ocp, kFp8Ocp, kF32, input_rdna4_8, output_rdna4},
    {"gfx1201", "v_wmma_f32_16x16x16_bf16", 16, 16, 1, 2, 4, kBf16, kBf16, kF32, input_rdna4_16_64, output_rdna4_64, "", 64},
    {"gfx1201", "v_wmma_f16_16x16x16_f16", 16, 16, 1, 2, 2, kF16, kF16, kF16, input_rdna4_16_64, output_rdna4_64, "", 64},
    {"gfx1201", "v_wmma_i32_16x16x16_iu8", 16, 16, 1, 1, 4, kI8, kI8, kI32, input_rdna4_8_64, output_rdna4_64, "neg_lo:[1,1,0]", 64},
    {"gfx1201", "v_wmma_i32_16x16x16_iu4", 16, 16, 1, 1, 4, kI4, kI4, kI32, input_rdna4_4x16_64, output_rdna4_64, "neg_lo:[1,1,0]", 64},
    {"gfx1201", "v_wmma_i32_16x16x32_iu4", 16, 32, 1, 1, 4, kI4, kI4, kI32, input_rdna4_4_64, output_rdna4_64, "neg_lo:[1,1,0]", 64},
};

inline constexpr unsigned kA = 0, kB = 16, kC = 32, kD = 64;  // first registers

inline std::string registers(char file, unsigned first, unsigned count) {
  if (count == 1) return file + std::to_string(first);
  return std::string(1, file) + "[" + std::to_string(first) + ":" + std::to_string(first + count - 1) + "]";
}
inline std::string text_of(const Case& c, char ab = 'v', char cd = 'v', const std::string& modifiers = "") {
  return std::string(c.name) + " " + registers(cd, kD, c.registers_d) + ", " + registers(ab, kA, c.registers_ab) + ", " +
         registers(ab, kB, c.registers_ab) + ", " + registers(cd, kC, c.registers_d) + " " + (modifiers.empty() ? c.modifiers : modifiers);
}

// Matrices of small integers, whose products and sums are exact in each type.
struct Matrices {
  const Case& c;
  std::vector<int> a, b, sums;
  unsigned at_ab(const At& p) const { return (p.block * c.size + p.line) * c.k + p.other; }
  unsigned at_d(const At& p) const { return (p.block * c.size + p.line) * c.size + p.other; }
  explicit Matrices(const Case& the_case, uint64_t seed) : c(the_case) {
    Random random{seed};
    const auto fill = [&](std::vector<int>& to, size_t count) {
      for (size_t n = 0; n < count; ++n) to.push_back(static_cast<int>(random.below(9)) - 4);
    };
    fill(a, size_t{c.blocks} * c.size * c.k);
    fill(b, size_t{c.blocks} * c.size * c.k);
    fill(sums, size_t{c.blocks} * c.size * c.size);
  }
  int product(const At& p) const {
    int sum = sums[at_d(p)];
    for (unsigned k = 0; k < c.k; ++k) sum += a[(p.block * c.size + p.line) * c.k + k] * b[(p.block * c.size + p.other) * c.k + k];
    return sum;
  }
};

inline void put(Wave& w, unsigned first, unsigned bits, unsigned element, unsigned lane, uint64_t value) {
  if (bits == 64) {
    w.vector(first + 2 * element, lane) = static_cast<uint32_t>(value);
    w.vector(first + 2 * element + 1, lane) = static_cast<uint32_t>(value >> 32);
    return;
  }
  uint32_t& r = w.vector(first + element * bits / 32, lane);
  const unsigned shift = element * bits % 32;
  const auto part = static_cast<uint32_t>((uint64_t{1} << bits) - 1) << shift;
  r = (r & ~part) | (static_cast<uint32_t>(value) << shift & part);
}
inline uint64_t get(Wave& w, unsigned first, unsigned bits, unsigned element, unsigned lane) {
  if (bits == 64) return w.vector(first + 2 * element, lane) | uint64_t{w.vector(first + 2 * element + 1, lane)} << 32;
  return (w.vector(first + element * bits / 32, lane) >> element * bits % 32) & ((uint64_t{1} << bits) - 1);
}
inline void fill(Wave& w, const Case& c, const Matrices& m, unsigned ab, unsigned cd) {
  Random random{99};
  for (unsigned r = 0; r < 256; ++r) {
    for (unsigned lane = 0; lane < 64; ++lane) w.vector(r, lane) = static_cast<uint32_t>(random.next());
  }
  for (unsigned lane = 0; lane < w.size; ++lane) {
    for (unsigned e = 0; e < c.registers_ab * 32 / c.a.bits; ++e) {
      const At p = c.input(e, lane);
      if (p.block >= c.blocks) continue;
      put(w, ab + kA, c.a.bits, e, lane, encode(c.a, m.a[m.at_ab(p)]));
      put(w, ab + kB, c.b.bits, e, lane, encode(c.b, m.b[m.at_ab(p)]));
    }
    for (unsigned e = 0; e < c.registers_d * 32 / c.d.bits; ++e) {
      const At p = c.output(e, lane);
      if (p.block < c.blocks) put(w, cd + kC, c.d.bits, e, lane, encode(c.d, m.sums[m.at_d(p)]));
    }
  }
}
// The number of elements of D that are not what `expected` says.
template <class Expected>
inline unsigned wrong(Wave& w, const Case& c, unsigned cd, const Expected& expected) {
  unsigned count = 0;
  for (unsigned lane = 0; lane < w.size; ++lane) {
    for (unsigned e = 0; e < c.registers_d * 32 / c.d.bits; ++e) {
      const At p = c.output(e, lane);
      if (p.block >= c.blocks) continue;
      count += get(w, cd + kD, c.d.bits, e, lane) != encode(c.d, expected(p)) ? 1 : 0;
    }
  }
  return count;
}

inline const Case& case_of(const std::string& processor, const std::string& name, unsigned wave_size = 0) {
  for (const Case& c : kCases) {
    if (processor == c.processor && name == c.name && wave_size == c.wave_size) return c;
  }
  throw std::runtime_error("no case " + name);
}

}  // namespace heddle::amdgpu
