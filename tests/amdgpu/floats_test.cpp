// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single instructions of floats against exact arithmetic in wider types, rounded once, and approximations against their stated error.
#include <gtest/gtest.h>

#include <set>

#include "tests/amdgpu/values_of_tests.h"

namespace heddle::amdgpu {
namespace {

struct FloatCase {
  const char* text;
  std::function<float(float, float, float)> expected;
};
// In wider arithmetic, rounded once.
const FloatCase kFloats[] = {
    {"v_add_f32 v6, v0, v2", [](float a, float b, float) { return float(Quad{a} + Quad{b}); }},
    {"v_sub_f32 v6, v0, v2", [](float a, float b, float) { return float(Quad{a} - Quad{b}); }},
    {"v_subrev_f32 v6, v0, v2", [](float a, float b, float) { return float(Quad{b} - Quad{a}); }},
    {"v_mul_f32 v6, v0, v2", [](float a, float b, float) { return float(Quad{a} * Quad{b}); }},
    {"v_mul_f32_e64 v6, -|v0|, v2", [](float a, float b, float) { return float(-Quad{std::fabs(a)} * Quad{b}); }},
    {"v_add_f32_e64 v6, v0, v2 clamp",
     [](float a, float b, float) {
       const auto x = float(Quad{a} + Quad{b});
       return std::isnan(x) || x <= 0 ? 0.0F : std::min(x, 1.0F);
     }},
    {"v_trunc_f32 v6, v0", [](float a, float, float) { return std::trunc(a); }},
    {"v_rndne_f32 v6, v0",
     [](float a, float, float) {
       if (std::isnan(a) || std::fabs(a) >= 8388608) return a;
       const float x = std::floor(a);
       const float rest = a - x;
       return std::copysign(rest < 0.5F || (rest == 0.5F && std::fmod(x, 2.0F) == 0) ? x : x + 1, a);
     }},
    {"v_ldexp_f32 v6, v0, v2",
     [](float a, float b, float) {
       return float(std::ldexp(Quad{a} == 0 ? 0.0 * double(a) : double(a), int(std::clamp(int32_t(u(b)), -2000, 2000))));
     }},
    {"v_cvt_f32_u32 v6, v0", [](float a, float, float) { return float(Quad{double(u(a))}); }},
    {"v_cvt_f32_i32 v6, v0", [](float a, float, float) { return float(Quad{double(int32_t(u(a)))}); }},
    {"v_cvt_f32_ubyte2 v6, v0", [](float a, float, float) { return float(u(a) >> 16 & 255); }},
    {"v_max_f32 v6, v0, v2",
     [](float a, float b, float) {
       return std::isnan(a) ? b : std::isnan(b) ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
     }},
    {"v_min_f32 v6, v0, v2",
     [](float a, float b, float) {
       return std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b;
     }},
    {"v_floor_f32 v6, v0", [](float a, float, float) { return std::floor(a); }},
    {"v_ceil_f32 v6, v0", [](float a, float, float) { return std::ceil(a); }},
    {"v_cvt_f32_ubyte0 v6, v0", [](float a, float, float) { return float(u(a) & 255); }},
    {"v_cvt_f32_ubyte1 v6, v0", [](float a, float, float) { return float(u(a) >> 8 & 255); }},
    {"v_cvt_f32_ubyte3 v6, v0", [](float a, float, float) { return float(u(a) >> 24); }},
    {"v_med3_f32 v6, v0, v2, v4",
     [](float a, float b, float c) {
       if (std::isnan(a) || std::isnan(b) || std::isnan(c)) {  // the smallest
         float least = std::numeric_limits<float>::quiet_NaN();
         for (const float x : {a, b, c}) {
           if (!std::isnan(x) && (std::isnan(least) || x < least || (x == least && std::signbit(x)))) least = x;
         }
         return least;
       }
       std::array<float, 3> x = {a, b, c};
       std::sort(x.begin(), x.end(), [](float l, float r) { return l < r || (l == r && std::signbit(l) && !std::signbit(r)); });
       return x[1];
     }},
    {"v_cndmask_b32_e64 v6, -v0, |v2|, s[0:1]", [](float a, float, float) { return std::isnan(a) ? a : -a; }},
};

TEST(AmdgpuInstructions, F32) {
  for (const FloatCase& c : kFloats) {
    SCOPED_TRACE(c.text);
    Single single("gfx90a");
    single.prepare(c.text);
    Values values;
    for (unsigned round = 0; round < 100; ++round) {
      float in[64][3];
      for (unsigned lane = 0; lane < 64; ++lane) {
        for (unsigned n = 0; n < 3; ++n) {
          uint32_t x = values.bits32(static_cast<unsigned>(values.random.next()));
          if (std::isnan(f(x))) x |= 0x400000;
          single.wave().vector(2 * n, lane) = x;
          in[lane][n] = f(x);
        }
      }
      single.again();
      for (unsigned lane = 0; lane < 64; ++lane) {
        const float expected = c.expected(in[lane][0], in[lane][1], in[lane][2]), got = f(single.wave().vector(6, lane));
        ASSERT_TRUE(same(expected, got)) << in[lane][0] << " " << in[lane][1] << ": " << got << ", expected " << expected;
      }
    }
  }
}

// Fused multiply-add: bit by bit against an exact sum in integers would be long; the host's instruction is the reference, v_mad is not it.
TEST(AmdgpuInstructions, FusedMultiplyAdd) {
  Single single("gfx90a");
  Values values;
  single.prepare(
      "v_fma_f32 v6, v0, v2, v4\nv_mov_b32 v8, v4\nv_fmac_f32 v8, v0, v2\nv_mov_b32 v10, v0\nv_mov_b32 v11, v2\nv_mov_b32 v12, "
      "v2\nv_mov_b32 v13, v0\n"
      "v_pk_fma_f32 v[14:15], v[10:11], v[12:13], v[4:5] op_sel_hi:[1,1,0]");
  for (unsigned round = 0; round < 200; ++round) {
    float in[64][3];
    for (unsigned lane = 0; lane < 64; ++lane) {
      for (unsigned n = 0; n < 3; ++n) {
        const uint32_t x = values.bits32(static_cast<unsigned>(values.random.next()));
        single.wave().vector(2 * n, lane) = x;
        in[lane][n] = f(x);
      }
    }
    single.again();
    for (unsigned lane = 0; lane < 64; ++lane) {
      const float expected = __builtin_fmaf(in[lane][0], in[lane][1], in[lane][2]);
      for (const unsigned n : {6, 8, 14, 15}) ASSERT_TRUE(same(expected, f(single.wave().vector(n, lane)))) << n;
    }
  }
}

TEST(AmdgpuInstructions, DenormalsFollowTheMode) {
  Single single("gfx90a");
  single.wave().vector(0, 0) = 0x00400000;
  single.wave().vector(2, 0) = 0x3f800000;
  single.run("v_mul_f32 v6, v0, v2");
  EXPECT_EQ(single.wave().vector(6, 0), 0x00400000u);
  single.run("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mul_f32 v6, v0, v2");
  EXPECT_EQ(single.wave().vector(6, 0), 0u);
  single.run("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3\nv_mul_f32 v6, v0, v2\nv_mad_f32 v7, v0, v2, 0");
  EXPECT_EQ(single.wave().vector(6, 0), 0x00400000u);
  EXPECT_EQ(single.wave().vector(7, 0), 0u) << "v_mad_f32 has no denormals";
}

TEST(AmdgpuInstructions, F64) {
  Single single("gfx90a");
  Values values;
  single.prepare(
      "v_add_f64 v[6:7], v[0:1], v[2:3]\nv_mul_f64 v[8:9], v[0:1], -v[2:3]\nv_fma_f64 v[10:11], v[0:1], v[2:3], |v[4:5]|\n"
      "v_max_f64 v[12:13], v[0:1], v[2:3]\nv_ldexp_f64 v[14:15], v[0:1], v2\nv_cvt_f32_f64 v16, v[0:1]\nv_cvt_i32_f64 v17, v[0:1]\n"
      "v_frexp_mant_f64 v[18:19], v[0:1]\nv_fract_f64 v[20:21], v[0:1]\nv_add_f64 v[22:23], v[0:1], 1.0\n"
      "v_mul_f64 v[24:25], v[0:1], s[0:1]");
  single.wave().set_scalar64(0, std::bit_cast<uint64_t>(3.0));
  for (unsigned round = 0; round < 200; ++round) {
    double in[64][3];
    for (unsigned lane = 0; lane < 64; ++lane) {
      for (unsigned n = 0; n < 3; ++n) {
        uint64_t x = values.bits64(static_cast<unsigned>(values.random.next()));
        if (std::isnan(d(x))) x |= 0x8000000000000;
        single.set64(2 * n, lane, x);
        in[lane][n] = d(x);
      }
    }
    single.again();
    for (unsigned lane = 0; lane < 64; ++lane) {
      const double a = in[lane][0], b = in[lane][1], c = in[lane][2];
      ASSERT_TRUE(same(double(Quad{a} + Quad{b}), d(single.get64(6, lane))));
      ASSERT_TRUE(same(double(Quad{a} * -Quad{b}), d(single.get64(8, lane)))) << a << " " << b;
      ASSERT_TRUE(same(__builtin_fma(a, b, std::fabs(c)), d(single.get64(10, lane))));
      ASSERT_TRUE(same(std::isnan(a) ? b : std::isnan(b) ? a : a > b || (a == b && !std::signbit(a)) ? a : b, d(single.get64(12, lane))));
      ASSERT_TRUE(same(std::ldexp(a, std::clamp(int32_t(std::bit_cast<uint64_t>(b)), -5000, 5000)), d(single.get64(14, lane))));
      ASSERT_TRUE(same(float(Quad{a}), f(single.wave().vector(16, lane))));
      const double t = std::trunc(a);
      const int64_t whole = std::isnan(a)        ? 0
                            : t >= 2147483647.0  ? 2147483647
                            : t <= -2147483648.0 ? -2147483648LL
                                                 : static_cast<int64_t>(t);
      ASSERT_EQ(static_cast<int32_t>(single.wave().vector(17, lane)), whole);
      int e = 0;
      ASSERT_TRUE(same(std::isfinite(a) ? std::frexp(a, &e) : a, d(single.get64(18, lane))));
      if (std::isfinite(a)) {
        const double r = d(single.get64(20, lane));
        ASSERT_TRUE(r >= 0 && r < 1) << a;
        if (std::fabs(a) < 1e15 && std::fabs(a) > 1e-3) {
          ASSERT_NEAR(std::floor(a) + r, a, std::fabs(a) * 1e-13);
        }
      }
      ASSERT_TRUE(same(a + 1.0, d(single.get64(22, lane))));
      ASSERT_TRUE(same(a * 3.0, d(single.get64(24, lane))));
    }
  }
}

// Every f16 for functions of one value; random pairs for the others. The reference is exact and rounded by search.
TEST(AmdgpuInstructions, F16OfOneValue) {
  Single single("gfx90a");
  struct One {
    const char* name;
    std::function<Quad(double)> exact;
    double ulps;
  };
  const One cases[] = {
      {"v_floor_f16", [](double x) { return Quad{std::floor(x)}; }, 0.5},
      {"v_ceil_f16", [](double x) { return Quad{std::ceil(x)}; }, 0.5},
      {"v_trunc_f16", [](double x) { return Quad{std::trunc(x)}; }, 0.5},
      {"v_sqrt_f16", [](double x) { return Quad{std::sqrt(x)}; }, 0.5},
      {"v_rcp_f16", [](double x) { return Quad{1 / x}; }, 0.5},
      {"v_exp_f16", [](double x) { return Quad{std::exp2(x)}; }, 0.5},
      {"v_log_f16", [](double x) { return Quad{std::log2(x)}; }, 0.5},
      {"v_rsq_f16", [](double x) { return Quad{1 / std::sqrt(x)}; }, 0.5},
  };
  for (const One& c : cases) {
    SCOPED_TRACE(c.name);
    single.prepare(std::string(c.name) + " v6, v0");
    for (uint32_t start = 0; start < 65536; start += 64) {
      for (unsigned lane = 0; lane < 64; ++lane) single.wave().vector(0, lane) = (start + lane) | 0xabcd0000;
      single.again();
      for (unsigned lane = 0; lane < 64; ++lane) {
        const uint32_t h = start + lane, got = single.wave().vector(6, lane);
        ASSERT_EQ(got >> 16, 0u) << "the upper half is cleared";
        const Quad exact = c.exact(static_cast<double>(half(h)));
        if (exact != exact) {
          ASSERT_TRUE(std::isnan(half(got))) << h;
        } else {
          ASSERT_EQ(got & 0x7fff, nearest_half(exact) & 0x7fff) << h;
        }
      }
    }
  }
  single.prepare("v_cvt_f32_f16 v6, v0\nv_cvt_f16_f32 v7, v6");
  for (uint32_t start = 0; start < 65536; start += 64) {
    for (unsigned lane = 0; lane < 64; ++lane) single.wave().vector(0, lane) = start + lane;
    single.again();
    for (unsigned lane = 0; lane < 64; ++lane) {
      ASSERT_TRUE(same(half(start + lane), f(single.wave().vector(6, lane))));
      ASSERT_EQ(single.wave().vector(7, lane) & 0x7c00, (start + lane) & 0x7c00);
    }
  }
}

TEST(AmdgpuInstructions, F16OfIntegers) {
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    SCOPED_TRACE(processor);
    Single single(processor);
    single.prepare("v_cvt_f16_i16 v6, v0\nv_cvt_f16_u16 v7, v0");
    for (uint32_t start = 0; start < 65536; start += single.lanes()) {
      for (unsigned lane = 0; lane < single.lanes(); ++lane) single.wave().vector(0, lane) = 0xabcd0000 | (start + lane);
      single.again();
      for (unsigned lane = 0; lane < single.lanes(); ++lane) {
        const uint32_t number = start + lane;
        ASSERT_EQ(single.wave().vector(6, lane), nearest_half(Quad{double(static_cast<int16_t>(number))})) << number;
        ASSERT_EQ(single.wave().vector(7, lane), nearest_half(Quad{double(number)})) << number;
      }
    }
  }
}

TEST(AmdgpuInstructions, F16OfMoreValues) {
  Single single("gfx90a");
  Random random{11};
  single.prepare(
      "v_add_f16 v6, v0, v2\nv_mul_f16 v7, v0, v2\nv_mov_b32 v8, v4\nv_fma_f16 v8, v0, v2, v4\nv_pk_fma_f16 v9, v0, v2, v4\n"
      "v_pk_mul_f16 v10, v0, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0]\nv_cvt_f16_f32 v11, v5\nv_cvt_pkrtz_f16_f32 v12, v5, v5\n"
      "v_mov_b32 v13, 0\nv_fma_mix_f32 v13, v0, v5, v2 op_sel:[1,0,0] op_sel_hi:[1,0,1]");
  for (unsigned round = 0; round < 400; ++round) {
    std::array<std::array<uint32_t, 4>, 64> in{};
    for (unsigned lane = 0; lane < 64; ++lane) {
      for (unsigned n = 0; n < 3; ++n) single.wave().vector(2 * n, lane) = in[lane][n] = static_cast<uint32_t>(random.next());
      single.wave().vector(5, lane) = in[lane][3] =
          (static_cast<uint32_t>(random.next()) & 0x807fffff) | (96u + static_cast<uint32_t>(random.below(48))) << 23;
    }
    single.again();
    for (unsigned lane = 0; lane < 64; ++lane) {
      Wave& w = single.wave();
      const auto [a, b, c, x] = in[lane];
      const auto equal = [&](uint32_t got, Quad exact, const char* what) {
        if (exact != exact) {
          EXPECT_TRUE(std::isnan(half(got & 0xffff))) << what;
        } else if (exact == 0) {
          EXPECT_EQ(got & 0x7fff, 0u) << what;
        } else {
          EXPECT_EQ(got & 0xffff, nearest_half(exact))
              << what << " " << half(a & 0xffff) << " " << half(b & 0xffff) << " " << half(c & 0xffff);
        }
      };
      const auto low = [](uint32_t v) { return Quad{half(v & 0xffff)}; };
      const auto high = [](uint32_t v) { return Quad{half(v >> 16)}; };
      equal(w.vector(6, lane), low(a) + low(b), "add");
      equal(w.vector(7, lane), low(a) * low(b), "mul");
      equal(w.vector(8, lane), low(a) * low(b) + low(c), "fma");
      EXPECT_EQ(w.vector(8, lane) >> 16, c >> 16) << "v_fma_f16 keeps the upper half";
      equal(w.vector(9, lane), low(a) * low(b) + low(c), "pk_fma low");
      equal(w.vector(9, lane) >> 16, high(a) * high(b) + high(c), "pk_fma high");
      equal(w.vector(10, lane), -high(a) * low(b), "pk_mul low");
      equal(w.vector(10, lane) >> 16, low(a) * high(b), "pk_mul high");
      equal(w.vector(11, lane), Quad{f(x)}, "cvt");
      const float toward_zero = half(w.vector(12, lane) & 0xffff);
      EXPECT_LE(std::fabs(toward_zero), std::fabs(f(x)));
      EXPECT_TRUE(same(__builtin_fmaf(half(a >> 16), f(x), half(b & 0xffff)), f(w.vector(13, lane))));
    }
    if (HasFailure()) return;
  }
}

// The stated error of approximations, and that they make use of it.
TEST(AmdgpuInstructions, Approximations) {
  struct One {
    const char* name;
    std::function<Quad(double)> exact;
    double low, high;
  };
  const One cases[] = {
      {"v_rcp_f32", [](double x) { return Quad{1} / Quad{x}; }, 1e-30, 1e30},
      {"v_rsq_f32", [](double x) { return Quad{1 / std::sqrt(x)}; }, 1e-30, 1e30},
      {"v_sqrt_f32", [](double x) { return Quad{std::sqrt(x)}; }, 1e-30, 1e30},
      {"v_exp_f32", [](double x) { return Quad{std::exp2(x)}; }, 1e-3, 100},
      {"v_log_f32", [](double x) { return Quad{std::log2(x)}; }, 1.5, 1e30},
      {"v_sin_f32", [](double x) { return Quad{std::sin(2 * M_PI * x)}; }, 0.01, 0.24},
      {"v_cos_f32", [](double x) { return Quad{std::cos(2 * M_PI * x)}; }, 0.01, 0.24},
  };
  for (const One& c : cases) {
    SCOPED_TRACE(c.name);
    Single single("gfx90a");
    single.machine().options.approximate = true;
    single.prepare(std::string(c.name) + " v6, v0");
    Random random{3};
    unsigned not_nearest = 0;
    for (unsigned round = 0; round < 100; ++round) {
      std::array<float, 64> in{};
      for (unsigned lane = 0; lane < 64; ++lane) {
        const double at = std::log(c.low) + (std::log(c.high) - std::log(c.low)) * static_cast<double>(random.next() >> 11) * 0x1p-53;
        in[lane] = static_cast<float>(std::exp(at));
        single.wave().vector(0, lane) = u(in[lane]);
      }
      single.again();
      for (unsigned lane = 0; lane < 64; ++lane) {
        const float got = f(single.wave().vector(6, lane));
        const Quad exact = c.exact(static_cast<double>(in[lane]));
        const double ulp = std::ldexp(1.0, std::ilogb(static_cast<float>(exact)) - 23);
        const double error = std::fabs(static_cast<double>(Quad{got} - exact)) / ulp;
        ASSERT_LE(error, 1.0001) << in[lane];
        not_nearest += error > 0.5001 ? 1 : 0;
      }
    }
    EXPECT_GT(not_nearest, 1000u);
  }
}

// Beyond 256 turns, AMD's guides and LLVM disagree, so that each result is found among some seeds.
TEST(AmdgpuInstructions, AnglesOfManyTurns) {
  Single single("gfx1100");
  const std::array<float, 2> angles = {300.125F, -255.875F};
  std::set<float> sines, cosines;
  for (const bool approximate : {false, true, true, true, true, true, true, true, true}) {
    single.machine().options.approximate = approximate;
    ++single.machine().options.seed;
    for (size_t n = 0; n < angles.size(); ++n) single.wave().vector(0, static_cast<unsigned>(n)) = u(angles[n]);
    single.run("v_sin_f32 v6, v0\nv_cos_f32 v7, v0");
    const float sine = f(single.wave().vector(6, 0)), cosine = f(single.wave().vector(7, 0));
    EXPECT_TRUE(sine == 0 || std::fabs(sine - std::sqrt(0.5F)) < 1e-6F) << sine;
    EXPECT_TRUE(cosine == 1 || std::fabs(cosine - std::sqrt(0.5F)) < 1e-6F) << cosine;
    sines.insert(sine == 0 ? 0 : 1);
    cosines.insert(cosine == 1 ? 0 : 1);
    EXPECT_NEAR(f(single.wave().vector(6, 1)), std::sqrt(0.5F), 1e-6);
    EXPECT_NEAR(f(single.wave().vector(7, 1)), std::sqrt(0.5F), 1e-6);
  }
  EXPECT_EQ(sines.size(), 2u);
  EXPECT_EQ(cosines.size(), 2u);
}

TEST(AmdgpuInstructions, Comparisons) {
  struct One {
    const char* name;
    std::function<bool(float, float)> expected;
  };
  const One cases[] = {
      {"lt", [](float a, float b) { return a < b; }},           {"eq", [](float a, float b) { return a == b; }},
      {"le", [](float a, float b) { return a <= b; }},          {"gt", [](float a, float b) { return a > b; }},
      {"lg", [](float a, float b) { return a < b || a > b; }},  {"ge", [](float a, float b) { return a >= b; }},
      {"o", [](float a, float b) { return a == a && b == b; }}, {"u", [](float a, float b) { return a != a || b != b; }},
      {"nge", [](float a, float b) { return !(a >= b); }},      {"nlg", [](float a, float b) { return !(a < b || a > b); }},
      {"ngt", [](float a, float b) { return !(a > b); }},       {"nle", [](float a, float b) { return !(a <= b); }},
      {"neq", [](float a, float b) { return a != b; }},         {"nlt", [](float a, float b) { return !(a < b); }},
  };
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    for (const One& c : cases) {
      SCOPED_TRACE(c.name);
      Single single(processor);
      const bool wide = single.lanes() == 64;
      const std::string mask = wide ? "s[0:1]" : "s0", name = std::string("v_cmp_") + c.name + "_f32";
      single.prepare(name + "_e64 " + mask + ", v0, v2");
      Values values;
      for (unsigned round = 0; round < 20; ++round) {
        for (unsigned lane = 0; lane < single.lanes(); ++lane) {
          single.wave().vector(0, lane) = values.bits32(static_cast<unsigned>(values.random.next()));
          single.wave().vector(2, lane) =
              values.random.below(4) == 0 ? single.wave().vector(0, lane) : values.bits32(static_cast<unsigned>(values.random.next()));
        }
        single.wave().set_exec(0xf0f0f0f0f0f0f0f0 & single.wave().mask());
        single.again();
        for (unsigned lane = 0; lane < single.lanes(); ++lane) {
          const bool active = (lane & 4) != 0;
          const bool expected = active && c.expected(f(single.wave().vector(0, lane)), f(single.wave().vector(2, lane)));
          ASSERT_EQ((single.wave().read_mask(0) >> lane & 1) != 0, expected) << lane;
        }
      }
    }
  }
}

TEST(AmdgpuInstructions, Classes) {
  const struct {
    uint32_t bits;
    unsigned which;
  } cases[] = {{0x7f800001, 0}, {0x7fc00000, 1}, {0xff800000, 2}, {0xbf800000, 3}, {0x80000001, 4},
               {0x80000000, 5}, {0, 6},          {1, 7},          {0x3f800000, 8}, {0x7f800000, 9}};
  Single single("gfx90a");
  single.prepare("v_cmp_class_f32 vcc, v0, v2");
  for (const auto& c : cases) {
    for (unsigned lane = 0; lane < 64; ++lane) {
      single.wave().vector(0, lane) = c.bits;
      single.wave().vector(2, lane) = lane < 10 ? 1u << lane : 0;
    }
    single.again();
    EXPECT_EQ(single.wave().read_mask(kVcc), uint64_t{1} << c.which) << std::hex << c.bits;
  }
}

}  // namespace
}  // namespace heddle::amdgpu
