// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sums of matrix instructions: what has been measured on the hardware, and the error of whatever a seed chooses.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/amdgpu/matrix_cases.h"

namespace heddle::amdgpu {
namespace {

__extension__ using Quad = __float128;

float f(uint32_t x) {
  return std::bit_cast<float>(x);
}
double value_of(const Format& t, uint64_t bits) {
  if (t.bits == 64) return std::bit_cast<double>(bits);
  const uint64_t mantissa = bits & ((uint64_t{1} << t.mantissa_bits) - 1),
                 exponent = bits >> t.mantissa_bits & ((1u << t.exponent_bits) - 1);
  const double magnitude = exponent == 0 ? static_cast<double>(mantissa) : static_cast<double>(mantissa + (uint64_t{1} << t.mantissa_bits));
  const double v = std::ldexp(magnitude, std::max(static_cast<int>(exponent), 1) - t.bias - static_cast<int>(t.mantissa_bits));
  return (bits >> (t.bits - 1) & 1) != 0 ? -v : v;
}
// Random values between 2**-8 and 2**4, and of some types a little less precise ones.
uint64_t random_bits(const Format& t, Random& random) {
  const uint64_t exponent = static_cast<uint64_t>(std::max(t.bias - 8, 1)) + random.below(12);
  const uint64_t sign = random.next() & 1, mantissa = random.next() & ((uint64_t{1} << t.mantissa_bits) - 1);
  const uint64_t largest = (uint64_t{1} << t.exponent_bits) - 2;
  return sign << (t.bits - 1) | std::min(exponent, largest) << t.mantissa_bits | mantissa;
}
// All of A, B and C random.
void fill_random(Wave& w, const Case& c, uint64_t seed) {
  Random random{seed};
  for (unsigned lane = 0; lane < w.size; ++lane) {
    for (unsigned e = 0; e < c.registers_ab * 32 / c.a.bits; ++e) {
      for (const auto& [first, type] : {std::pair(kA, c.a), std::pair(kB, c.b)}) {
        put(w, first, type.bits, e, lane,
            c.processor == std::string("gfx1100") && lane >= 16 ? get(w, first, type.bits, e, lane % 16) : random_bits(type, random));
      }
    }
    for (unsigned e = 0; e < c.registers_d * 32 / c.d.bits; ++e) put(w, kC, c.d.bits, e, lane, random_bits(c.d, random));
  }
}
struct Sources {
  std::vector<double> a, b;
  double c;
};
// What one element of D is the sum of.
Sources sources_of(Wave& w, const Case& c, unsigned element, unsigned lane) {
  const At d = c.output(element, lane);
  Sources s{std::vector<double>(c.k), std::vector<double>(c.k), value_of(c.d, get(w, kC, c.d.bits, element, lane))};
  for (unsigned l = 0; l < w.size; ++l) {
    for (unsigned e = 0; e < c.registers_ab * 32 / c.a.bits; ++e) {
      const At p = c.input(e, l);
      if (p.block != d.block) continue;
      if (p.line == d.line) s.a[p.other] = value_of(c.a, get(w, kA, c.a.bits, e, l));
      if (p.line == d.other) s.b[p.other] = value_of(c.b, get(w, kB, c.b.bits, e, l));
    }
  }
  return s;
}

// Whatever a seed chooses, the error is that of a sum in the type of D (of Xf32: of factors of 10 bits). Seeds differ, one seed always does the same.
TEST(AmdgpuMatrixSums, ErrorsOfEverySeed) {
  for (const Case& c : kCases) {
    if (c.d.exponent_bits == 0) continue;
    SCOPED_TRACE(std::string(c.processor) + ": " + text_of(c));
    const double ulp = std::ldexp(1.0, -static_cast<int>(c.d.mantissa_bits));
    const bool xf32 = std::string(c.name).find("xf32") != std::string::npos;
    Single single(c.processor, c.wave_size);
    Wave& w = single.wave();
    fill_random(w, c, 1);
    single.prepare(text_of(c));
    std::set<std::vector<uint32_t>> results;
    for (uint64_t seed = 0; seed < 24; ++seed) {
      single.machine().options.seed = seed;
      single.machine().options.approximate = seed != 0;
      single.again();
      std::vector<uint32_t> once(&w.vectors[kD * 64], &w.vectors[(kD + c.registers_d) * 64]);
      single.again();
      EXPECT_TRUE(std::equal(once.begin(), once.end(), &w.vectors[kD * 64]));
      results.insert(once);
      for (const unsigned lane : {0u, 5u, 17u, w.size - 1}) {
        for (unsigned e = 0; e < c.registers_d * 32 / c.d.bits; ++e) {
          if (c.output(e, lane).block >= c.blocks) continue;
          const Sources s = sources_of(w, c, e, lane);
          Quad exact = s.c, size = std::fabs(s.c);
          for (unsigned k = 0; k < c.k; ++k) {
            exact += Quad{s.a[k]} * s.b[k];
            size += std::fabs(s.a[k] * s.b[k]);
          }
          const double bound = static_cast<double>(size) * (ulp * (c.k + 4) + (xf32 ? 0x1p-9 : 0));
          const Quad error = value_of(c.d, get(w, kD, c.d.bits, e, lane)) - exact;
          EXPECT_LE(std::fabs(static_cast<double>(error)), bound) << "seed " << seed << ", lane " << lane << ", element " << e;
        }
      }
      if (HasFailure()) return;
    }
    EXPECT_GE(results.size(), c.k == 1 ? 1u : 2u);
  }
}

__extension__ using Wide = __int128;
Wide floor_shift(Wide x, int left) {
  if (left >= 0) return x << left;
  return left < -126 ? (x < 0 ? -1 : 0) : x >> -left;
}
int leading(double x, int smallest) {  // the exponent of the leading bit
  return x == 0 ? smallest : std::max(std::ilogb(x), smallest);
}

// The sum that was measured on CDNA3, in integers: eight products cut to 24 bits below the largest of the sums of their exponents, and so on (see
// matrix_arithmetic.cpp).
float measured_on_cdna3(const Case& c, const Sources& s, unsigned group) {
  const int smallest = c.a.bits == 32 ? -126 : 1 - c.a.bias;
  double sum = s.c;
  for (unsigned at = 0; at < c.k; at += group) {
    int largest = -1000;
    std::vector<int> exponents;
    for (unsigned k = at; k < std::min(at + group, c.k); ++k) {
      const double product = s.a[k] * s.b[k];
      exponents.push_back(product == 0 ? -126 : leading(s.a[k], smallest) + leading(s.b[k], smallest));
      largest = std::max(largest, exponents.back());
    }
    Wide products = 0;  // in units of 2**(largest - 24)
    for (unsigned k = at; k < std::min(at + group, c.k); ++k) {
      const double in_units = std::ldexp(s.a[k] * s.b[k], 24 - largest);
      products += static_cast<int64_t>(in_units);  // toward zero
    }
    const int together = std::max(largest, leading(sum, -126));
    const Wide fine = floor_shift(products, largest - 24 - (together - 31));  // in units of 2**(together - 31)
    const auto significand = static_cast<int64_t>(std::ldexp(sum, 24 - leading(sum, -126)));
    const Wide coarse = floor_shift(significand, leading(sum, -126) - together);  // in units of 2**(together - 24)
    const Wide total = fine + (coarse << 7);
    sum = static_cast<double>(static_cast<float>(std::ldexp(static_cast<double>(total), together - 31)));
  }
  return static_cast<float>(sum);
}
TEST(AmdgpuMatrixSums, SumsMeasuredOnCdna3) {
  for (const char* name : {"v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_32x32x8_bf16",
                           "v_mfma_f32_16x16x16_bf16", "v_mfma_f32_32x32x4_2b_bf16", "v_mfma_f32_16x16x8_xf32"}) {
    const Case& c = case_of("gfx942", name);
    SCOPED_TRACE(name);
    Single single(c.processor);
    Wave& w = single.wave();
    single.machine().options.approximate = false;
    single.prepare(text_of(c));
    unsigned different = 0;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      fill_random(w, c, seed);
      Random random{seed};
      for (unsigned n = 0; n < (kB + c.registers_ab) * 64; ++n) {  // other exponents, zeros, denormals
        const uint32_t r = static_cast<uint32_t>(random.next());
        if (seed % 2 == 1 && r % 4 == 0)
          w.vectors[n] = r >> 4 & (c.a.bits == 32 ? 0x87ffffff : c.a.exponent_bits == 5 ? 0x8fff8fff : 0xc4ffc4ff);
        if (r % 64 == 1) w.vectors[n] = 0;
        if (r % 64 == 2) w.vectors[n] &= c.a.bits == 32 ? 0x807fffff : c.a.exponent_bits == 5 ? 0x83ff83ff : 0x807f807f;
      }
      for (unsigned n = kC * 64; n < (kC + c.registers_d) * 64; ++n) {
        const uint32_t r = static_cast<uint32_t>(random.next());
        if (r % 8 == 0) w.vectors[n] = (w.vectors[n] & 0x807fffff) | (r >> 3 & 15) << 23;  // tiny
        if (r % 8 == 1) w.vectors[n] = (w.vectors[n] & 0x807fffff) | (100u + (r >> 3 & 63)) << 23;
      }
      single.again();
      for (unsigned lane = seed; lane < 64; lane += 7) {
        for (unsigned e = 0; e < c.registers_d; ++e) {
          Sources s = sources_of(w, c, e, lane);
          if (c.a.bits == 32) {
            for (auto* line : {&s.a, &s.b}) {
              for (double& x : *line) x = static_cast<double>(f(std::bit_cast<uint32_t>(static_cast<float>(x)) & 0xffffe000));
            }
          }
          const float expected = measured_on_cdna3(c, s, c.a.bits == 32 ? 4 : 8);
          ASSERT_EQ(w.vector(kD + e, lane), std::bit_cast<uint32_t>(expected) & (expected == 0 ? 0 : ~0u))
              << "lane " << lane << ", element " << e << ": " << f(w.vector(kD + e, lane)) << ", expected " << expected;
          double exact = s.c;
          for (unsigned k = 0; k < c.k; ++k) exact += s.a[k] * s.b[k];
          different += static_cast<float>(exact) != expected ? 1 : 0;
        }
      }
    }
    EXPECT_GT(different, 20u) << "the cuts should show";
  }
}

// The sum that was measured on CDNA2: each product and each sum rounded, denormals flushed.
TEST(AmdgpuMatrixSums, SumsMeasuredOnCdna2) {
  const auto flushed = [](Quad x) {
    const auto rounded = static_cast<float>(x);
    return std::fabs(rounded) < 0x1p-126F ? 0.0F : rounded;
  };
  for (const char* name : {"v_mfma_f32_32x32x8f16", "v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x8bf16", "v_mfma_f32_4x4x2bf16"}) {
    const Case& c = case_of("gfx90a", name);
    SCOPED_TRACE(name);
    Single single(c.processor);
    Wave& w = single.wave();
    single.machine().options.approximate = false;
    single.prepare(text_of(c));
    const bool fours = c.a.exponent_bits == 5 || std::string(name).find("_1k") != std::string::npos;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      fill_random(w, c, seed);
      for (unsigned n = 0; n < (kB + c.registers_ab) * 64; n += 5) w.vectors[n] &= c.a.exponent_bits == 5 ? 0x83ff83ff : 0x807f807f;
      for (unsigned n = kC * 64; n < (kC + c.registers_d) * 64; n += 3) w.vectors[n] &= n % 2 == 0 ? 0x807fffff : 0x80ffffff;
      single.again();
      const double smallest = std::ldexp(1.0, 1 - c.a.bias);
      for (unsigned lane = 0; lane < 64; lane += 5) {
        for (unsigned e = 0; e < c.registers_d; ++e) {
          const Sources s = sources_of(w, c, e, lane);
          float sum = flushed(s.c);
          const auto product = [&](unsigned k) {
            return std::fabs(s.a[k]) < smallest || std::fabs(s.b[k]) < smallest ? 0.0F : flushed(Quad{s.a[k]} * s.b[k]);
          };
          for (unsigned k = 0; k < c.k; k += fours ? 4 : 2) {
            float part = flushed(Quad{product(k)} + product(k + 1));
            if (fours) part = flushed(Quad{part} + flushed(Quad{product(k + 2)} + product(k + 3)));
            sum = flushed(Quad{sum} + part);
          }
          ASSERT_EQ(f(w.vector(kD + e, lane)), sum) << "lane " << lane << ", element " << e;
        }
      }
    }
  }
}

// MI200 flushes denormals of f16 and bf16 and of their sums; MI300 and the instructions of f32 do not.
TEST(AmdgpuMatrixSums, Denormals) {
  const std::tuple<const char*, const char*, bool> kInstructions[] = {
      {"gfx90a", "v_mfma_f32_32x32x8f16", true},     {"gfx90a", "v_mfma_f32_16x16x16bf16_1k", true},
      {"gfx90a", "v_mfma_f32_16x16x4f32", false},    {"gfx942", "v_mfma_f32_32x32x8_f16", false},
      {"gfx942", "v_mfma_f32_16x16x16_bf16", false}, {"gfx942", "v_mfma_f32_16x16x4_f32", false}};
  for (const auto& [processor, name, flushes] : kInstructions) {
    const Case& c = case_of(processor, name);
    SCOPED_TRACE(text_of(c));
    const uint32_t denormal = c.a.bits == 32 ? 0x00400000 : 1u << (c.a.mantissa_bits - 1) | 1u << (c.a.mantissa_bits + 15);
    const auto one = static_cast<uint32_t>(encode(c.a, 1)), ones = c.a.bits == 32 ? one : one | one << 16;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Single single(processor);
      single.machine().options.seed = seed;
      Wave& w = single.wave();
      const auto all = [&](unsigned first, unsigned count, uint32_t value) {
        std::fill(&w.vectors[first * 64], &w.vectors[(first + count) * 64], value);
      };
      all(kA, c.registers_ab, denormal);
      all(kB, c.registers_ab, ones);
      all(kC, c.registers_d, 0);
      single.run(text_of(c));
      EXPECT_EQ(w.vector(kD, 3) == 0, flushes) << "A, seed " << seed;
      all(kA, c.registers_ab, 0);
      all(kC, c.registers_d, 0x00400000);
      single.run(text_of(c));
      EXPECT_EQ(w.vector(kD, 3), flushes ? 0 : 0x00400000u) << "C, seed " << seed;
    }
  }
}

TEST(AmdgpuMatrixSums, InfinitiesAndNans) {
  for (const Case& c : kCases) {
    if (c.a.exponent_bits != 5 && c.a.exponent_bits != 8) continue;
    if (c.a.bits < 16) continue;
    SCOPED_TRACE(std::string(c.processor) + ": " + text_of(c));
    const uint64_t infinity = ((uint64_t{1} << c.a.exponent_bits) - 1) << c.a.mantissa_bits;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Single single(c.processor, c.wave_size);
      single.machine().options.seed = seed;
      Wave& w = single.wave();
      const Matrices m(c, 1);
      const auto result = [&](uint64_t a, int b) {
        fill(w, c, m, 0, 0);
        for (unsigned lane = 0; lane < w.size; ++lane) {
          for (unsigned e = 0; e < c.registers_ab * 32 / c.a.bits; ++e) {
            put(w, kA, c.a.bits, e, lane, c.input(e, lane).other == 0 ? a : 0);
            put(w, kB, c.b.bits, e, lane, encode(c.b, b));
          }
        }
        single.run(text_of(c));
        return get(w, kD, c.d.bits, 0, 0);
      };
      const uint64_t sign = uint64_t{1} << (c.d.bits - 1), infinite = ((uint64_t{1} << c.d.exponent_bits) - 1) << c.d.mantissa_bits;
      EXPECT_EQ(result(infinity, 2), infinite);
      EXPECT_EQ(result(infinity, -2), infinite | sign);
      EXPECT_GT(result(infinity, 0) & ~sign, infinite);
      EXPECT_GT(result(infinity | 1, 1) & ~sign, infinite);
    }
  }
}

}  // namespace
}  // namespace heddle::amdgpu
