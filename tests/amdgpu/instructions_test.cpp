// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single instructions against references that share no code with the interpreter: exact arithmetic in wider types, or a definition in plain words.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/amdgpu/single.h"

namespace heddle::amdgpu {
namespace {

__extension__ using Quad = __float128;
__extension__ using Wide = __int128;

// Values at which arithmetic goes wrong, then random ones.
struct Values {
  Random random{7};
  uint32_t bits32(unsigned n) {
    static const uint32_t kSpecial[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff,
                                        0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001,
                                        0x4b000000, 0x4b7fffff, 0x4effffff, 0x4f000000, 0x4f800000, 0xcf000000, 0x7fffffff, 0xffffffff,
                                        31,         32,         0xffff,     0x10000,    0x3f000000, 0x40490fdb};
    const uint64_t r = random.next();
    if (n % 3 == 0) return kSpecial[r % std::size(kSpecial)];
    if (n % 3 == 1) return static_cast<uint32_t>(r);
    return (static_cast<uint32_t>(r) & 0x807fffff) | (112u + static_cast<uint32_t>(r >> 40) % 32) << 23;  // near 1
  }
  uint64_t bits64(unsigned n) {
    static const uint64_t kSpecial[] = {0,
                                        1,
                                        uint64_t{1} << 63,
                                        0x000fffffffffffff,
                                        0x0010000000000000,
                                        0x7fefffffffffffff,
                                        0x7ff0000000000000,
                                        0xfff0000000000000,
                                        0x7ff8000000000000,
                                        0x3ff0000000000000,
                                        0xbff0000000000000,
                                        0xffffffffffffffff};
    const uint64_t r = random.next();
    if (n % 3 == 0) return kSpecial[r % std::size(kSpecial)];
    if (n % 3 == 1) return r;
    return (r & 0x800fffffffffffff) | (1000 + (random.next() % 48)) << 52;
  }
};

float f(uint32_t x) {
  return std::bit_cast<float>(x);
}
double d(uint64_t x) {
  return std::bit_cast<double>(x);
}
uint32_t u(float x) {
  return std::bit_cast<uint32_t>(x);
}
bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : u(a) == u(b);
}
bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
float half(uint32_t h) {  // from the definition of the format
  const uint32_t e = h >> 10 & 31, m = h & 1023;
  const float sign = (h & 0x8000) != 0 ? -1.0F : 1.0F;
  if (e == 31) return m != 0 ? NAN : sign * INFINITY;
  return sign * (e == 0 ? std::ldexp(static_cast<float>(m), -24) : std::ldexp(static_cast<float>(m + 1024), static_cast<int>(e) - 25));
}
// The nearest f16 of an exact value, by search among all of them.
uint32_t nearest_half(Quad x) {
  if (x != x) return 0x7e00;
  const bool negative = x < 0;
  if (negative) x = -x;
  uint32_t low = 0, high = 0x7c00;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (Quad{half(middle)} <= x ? low : high) = middle;
  }
  const Quad below = Quad{half(low)}, above = high == 0x7c00 ? Quad{65536} : Quad{half(high)};
  uint32_t result = low;
  if (x - below > above - x || (x - below == above - x && (low & 1) != 0)) result = high;
  if (low == 0x7bff && x >= Quad{65520}) result = 0x7c00;
  return result | (negative ? 0x8000 : 0);
}

struct Case {
  const char* text;  // destination v6 or v[6:7], sources v0, v2, v4 or their pairs
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> expected;
};
uint64_t s32(int64_t x) {
  return static_cast<uint32_t>(x);
}
int64_t i(uint64_t x) {
  return static_cast<int32_t>(x);
}

const Case kIntegers[] = {
    {"v_add_u32 v6, v0, v2", [](auto a, auto b, auto) { return s32(i(a) + i(b)); }},
    {"v_sub_u32 v6, v0, v2", [](auto a, auto b, auto) { return s32(i(a) - i(b)); }},
    {"v_subrev_u32 v6, v0, v2", [](auto a, auto b, auto) { return s32(i(b) - i(a)); }},
    {"v_mul_lo_u32 v6, v0, v2", [](auto a, auto b, auto) { return s32(static_cast<int64_t>(uint64_t{uint32_t(a)} * uint32_t(b))); }},
    {"v_mul_hi_u32 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t{uint32_t(a)} * uint32_t(b) / (uint64_t{1} << 32); }},
    {"v_mul_hi_i32 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t(uint32_t(uint64_t((i(a) * i(b)) >> 32))); }},
    {"v_mul_u32_u24 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t(uint32_t((a % 16777216) * (b % 16777216))); }},
    {"v_mad_u32_u24 v6, v0, v2, v4", [](auto a, auto b, auto c) { return uint64_t(uint32_t((a % 16777216) * (b % 16777216) + c)); }},
    {"v_mul_i32_i24 v6, v0, v2",
     [](auto a, auto b, auto) {
       const int64_t x = (a & 0x800000) != 0 ? int64_t(a & 0xffffff) - 16777216 : int64_t(a & 0xffffff);
       const int64_t y = (b & 0x800000) != 0 ? int64_t(b & 0xffffff) - 16777216 : int64_t(b & 0xffffff);
       return s32(x * y);
     }},
    {"v_min_i32 v6, v0, v2", [](auto a, auto b, auto) { return s32(i(a) < i(b) ? i(a) : i(b)); }},
    {"v_max_u32 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t{uint32_t(a) > uint32_t(b) ? uint32_t(a) : uint32_t(b)}; }},
    {"v_med3_i32 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       std::array<int64_t, 3> x = {i(a), i(b), i(c)};
       std::sort(x.begin(), x.end());
       return s32(x[1]);
     }},
    {"v_lshlrev_b32 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t{uint32_t(b << a % 32)}; }},
    {"v_ashrrev_i32 v6, v0, v2",
     [](auto a, auto b, auto) { return s32(static_cast<int64_t>(std::floor(std::ldexp(double(i(b)), -int(a % 32))))); }},
    {"v_bfe_i32 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       const unsigned offset = b % 32, width = c % 32;
       int64_t v = 0;
       for (unsigned n = 0; n < width; ++n) v |= int64_t((offset + n < 32 ? uint32_t(a) >> (offset + n) : uint32_t(a) >> 31) & 1) << n;
       if (width != 0 && (v >> (width - 1) & 1) != 0) v -= int64_t{1} << width;
       return s32(v);
     }},
    {"v_bfe_u32 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       uint64_t v = 0;
       for (unsigned n = 0; n < c % 32; ++n) v |= (b % 32 + n < 32 ? uint64_t{uint32_t(a)} >> (b % 32 + n) & 1 : 0) << n;
       return v;
     }},
    {"v_bfi_b32 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       uint64_t v = 0;
       for (unsigned n = 0; n < 32; ++n) v |= ((a >> n & 1) != 0 ? b : c) & uint64_t{1} << n;
       return v;
     }},
    {"v_perm_b32 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       uint64_t v = 0;
       for (unsigned n = 0; n < 4; ++n) {
         const unsigned s = c >> 8 * n & 255;
         const auto byte = [&](unsigned k) { return k < 4 ? b >> 8 * k & 255 : a >> 8 * (k - 4) & 255; };
         const uint64_t x = s < 8 ? byte(s) : s < 12 ? (byte((s - 8) * 2 + 1) >= 128 ? 255 : 0) : s == 12 ? 0 : 255;
         v |= x << 8 * n;
       }
       return v;
     }},
    {"v_alignbit_b32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return uint64_t{uint32_t((a << 32 | uint32_t(b)) >> c % 32)}; }},
    {"v_lshl_add_u32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return uint64_t{uint32_t((a << b % 32) + c)}; }},
    {"v_add3_u32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return uint64_t{uint32_t(a + b + c)}; }},
    {"v_bcnt_u32_b32 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t{uint32_t(b + uint64_t(__builtin_popcount(uint32_t(a))))}; }},
    {"v_ffbh_u32 v6, v0",
     [](auto a, auto, auto) {
       for (unsigned n = 0; n < 32; ++n) {
         if ((a >> (31 - n) & 1) != 0) return uint64_t{n};
       }
       return uint64_t{0xffffffff};
     }},
    {"v_ffbh_i32 v6, v0",
     [](auto a, auto, auto) {
       for (unsigned n = 1; n < 32; ++n) {
         if ((a >> (31 - n) & 1) != (a >> 31 & 1)) return uint64_t{n};
       }
       return uint64_t{0xffffffff};
     }},
    {"v_sad_u8 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       for (unsigned n = 0; n < 32; n += 8) c += uint64_t(std::abs(int(a >> n & 255) - int(b >> n & 255)));
       return uint64_t{uint32_t(c)};
     }},
    {"v_mad_i32_i24 v6, v0, v2, v4 clamp",
     [](auto a, auto b, auto c) {
       const int64_t v = int64_t(int32_t(a << 8) >> 8) * (int32_t(b << 8) >> 8) + i(c);
       return s32(std::min<int64_t>(std::max<int64_t>(v, INT32_MIN), INT32_MAX));
     }},
    {"v_add_u32_e64 v6, v0, v2 clamp",
     [](auto a, auto b, auto) { return std::min<uint64_t>(uint64_t{uint32_t(a)} + uint32_t(b), 0xffffffff); }},
    {"v_pk_add_u16 v6, v0, v2",
     [](auto a, auto b, auto) { return uint64_t{uint16_t(a + b)} | uint64_t{uint16_t((a >> 16) + (b >> 16))} << 16; }},
    {"v_pk_add_i16 v6, v0, v2 clamp",
     [](auto a, auto b, auto) {
       const auto add = [](int x, int y) { return uint64_t{uint16_t(std::clamp(x + y, -32768, 32767))}; };
       return add(int16_t(a), int16_t(b)) | add(int16_t(a >> 16), int16_t(b >> 16)) << 16;
     }},
    {"v_pk_mad_i16 v6, v0, v2, v4 op_sel:[1,0,0] op_sel_hi:[0,1,1]",
     [](auto a, auto b, auto c) { return uint64_t{uint16_t((a >> 16) * b + c)} | uint64_t{uint16_t(a * (b >> 16) + (c >> 16))} << 16; }},
    {"v_pk_lshlrev_b16 v6, v0, v2",
     [](auto a, auto b, auto) { return uint64_t{uint16_t(b << a % 16)} | uint64_t{uint16_t((b >> 16) << (a >> 16) % 16)} << 16; }},
    {"v_dot4_i32_i8 v6, v0, v2, v4",
     [](auto a, auto b, auto c) {
       int64_t sum = i(c);
       for (unsigned n = 0; n < 32; n += 8) sum += int64_t{int8_t(a >> n)} * int8_t(b >> n);
       return s32(sum);
     }},
    {"v_cvt_pk_i16_i32 v6, v0, v2",
     [](auto a, auto b, auto) {
       const auto cut = [](int64_t x) { return uint64_t{uint16_t(std::clamp<int64_t>(x, -32768, 32767))}; };
       return cut(i(a)) | cut(i(b)) << 16;
     }},
    {"v_add_u16 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t{uint16_t(a + b)}; }},
    {"v_mul_lo_u16 v6, v0, v2", [](auto a, auto b, auto) { return uint64_t{uint16_t(uint16_t(a) * uint32_t{uint16_t(b)})}; }},
    // SDWA: parts of registers
    {"v_add_u32_sdwa v6, v0, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1",
     [](auto a, auto b, auto) { return uint64_t{uint32_t((a >> 8 & 255) + (b >> 16 & 0xffff))}; }},
    {"v_mul_i32_i24_sdwa v6, sext(v0), sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:WORD_0",
     [](auto a, auto b, auto) { return s32(int64_t{int8_t(a >> 24)} * int16_t(b)); }},
    {"v_mov_b32 v6, v4\nv_or_b32_sdwa v6, v0, v2 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
     [](auto a, auto b, auto c) { return (c & 0xff00ffff) | ((a | b) & 255) << 16; }},
};

const Case kWideIntegers[] = {
    {"v_lshlrev_b64 v[6:7], v2, v[0:1]", [](auto a, auto b, auto) { return a << b % 64; }},
    {"v_lshrrev_b64 v[6:7], v2, v[0:1]", [](auto a, auto b, auto) { return a >> b % 64; }},
    {"v_ashrrev_i64 v[6:7], v2, v[0:1]", [](auto a, auto b, auto) { return uint64_t(int64_t(a) >> b % 64); }},
    {"v_mad_u64_u32 v[6:7], vcc, v0, v2, v[4:5]", [](auto a, auto b, auto c) { return uint64_t{uint32_t(a)} * uint32_t(b) + c; }},
    {"v_mad_i64_i32 v[6:7], vcc, v0, v2, v[4:5]", [](auto a, auto b, auto c) { return uint64_t(i(a) * i(b)) + c; }},
    {"v_add_co_u32 v6, vcc, v0, v2\nv_addc_co_u32 v7, vcc, v1, v3, vcc", [](auto a, auto b, auto) { return a + b; }},
    {"v_sub_co_u32 v6, vcc, v0, v2\nv_subb_co_u32 v7, vcc, v1, v3, vcc", [](auto a, auto b, auto) { return a - b; }},
    {"v_subrev_co_u32 v6, vcc, v0, v2\nv_subbrev_co_u32 v7, vcc, v1, v3, vcc", [](auto a, auto b, auto) { return b - a; }},
};

void check(const Case& c, bool wide, unsigned rounds) {
  SCOPED_TRACE(c.text);
  Single single("gfx90a");
  single.prepare(c.text);
  Values values;
  for (unsigned round = 0; round < rounds; ++round) {
    std::array<std::array<uint64_t, 3>, 64> in{};
    for (unsigned lane = 0; lane < 64; ++lane) {
      for (unsigned n = 0; n < 3; ++n) {
        in[lane][n] =
            wide ? values.bits64(static_cast<unsigned>(values.random.next())) : values.bits32(static_cast<unsigned>(values.random.next()));
        single.set64(2 * n, lane, in[lane][n]);
      }
    }
    single.again();
    for (unsigned lane = 0; lane < 64; ++lane) {
      const uint64_t got = wide ? single.get64(6, lane) : single.wave().vector(6, lane);
      ASSERT_EQ(got, c.expected(in[lane][0], in[lane][1], in[lane][2]))
          << std::hex << in[lane][0] << " " << in[lane][1] << " " << in[lane][2];
    }
  }
}

TEST(AmdgpuInstructions, Integers) {
  for (const Case& c : kIntegers) check(c, false, 50);
}
TEST(AmdgpuInstructions, WideIntegers) {
  for (const Case& c : kWideIntegers) check(c, true, 50);
}

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

// DPP: lane l holds the value l; the result names the lane that was read.
TEST(AmdgpuInstructions, Dpp) {
  struct One {
    const char* modifier;
    std::function<int(int)> from;  // -1: no lane
    const char* processor;
  };
  const One cases[] = {
      {"quad_perm:[2,0,3,1]", [](int l) { return (l & ~3) + std::array{2, 0, 3, 1}[size_t(l & 3)]; }, "both"},
      {"row_shl:3", [](int l) { return l % 16 + 3 < 16 ? l + 3 : -1; }, "both"},
      {"row_shr:5", [](int l) { return l % 16 >= 5 ? l - 5 : -1; }, "both"},
      {"row_ror:4", [](int l) { return l / 16 * 16 + (l + 12) % 16; }, "both"},
      {"row_mirror", [](int l) { return l / 16 * 16 + 15 - l % 16; }, "both"},
      {"row_half_mirror", [](int l) { return l / 8 * 8 + 7 - l % 8; }, "both"},
      {"wave_shr:1", [](int l) { return l - 1; }, "gfx90a"},
      {"wave_rol:1", [](int l) { return (l + 1) % 64; }, "gfx90a"},
      {"row_bcast:15", [](int l) { return l < 16 ? -1 : l / 16 * 16 - 1; }, "gfx90a"},
      {"row_bcast:31", [](int l) { return l < 32 ? -1 : 31; }, "gfx90a"},
      {"row_newbcast:5", [](int l) { return l / 16 * 16 + 5; }, "gfx90a"},
      {"row_share:6", [](int l) { return l / 16 * 16 + 6; }, "gfx1100"},
      {"row_xmask:5", [](int l) { return l / 16 * 16 + (l % 16 ^ 5); }, "gfx1100"},
  };
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    for (const One& c : cases) {
      if (std::string(c.processor) != "both" && std::string(c.processor) != processor) continue;
      SCOPED_TRACE(c.modifier);
      for (const bool zero : {false, true}) {
        Single single(processor);
        const int lanes = static_cast<int>(single.lanes());
        for (unsigned lane = 0; lane < single.lanes(); ++lane) {
          single.wave().vector(0, lane) = lane + 1000;
          single.wave().vector(6, lane) = 7;
        }
        const uint64_t exec = 0xffffffdfffffffdf & single.wave().mask();  // lane 5 is off
        single.wave().set_exec(exec);
        single.run(std::string("v_mov_b32_dpp v6, v0 ") + c.modifier + " row_mask:0xf bank_mask:0x7" + (zero ? " bound_ctrl:1" : ""));
        for (int l = 0; l < lanes; ++l) {
          const int from = c.from(l);
          uint32_t expected = 7;
          if ((exec >> l & 1) != 0 && l % 16 < 12) {
            if (from >= 0 && (exec >> from & 1) != 0) {
              expected = static_cast<uint32_t>(from) + 1000;
            } else if (zero) {
              expected = 0;
            }
          }
          EXPECT_EQ(single.wave().vector(6, static_cast<unsigned>(l)), expected) << "lane " << l;
        }
      }
    }
  }
  Single eight("gfx1100");
  for (unsigned lane = 0; lane < 32; ++lane) eight.wave().vector(0, lane) = lane;
  eight.run("v_mov_b32_dpp v6, v0 dpp8:[7,6,5,4,3,2,1,0]");
  for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(eight.wave().vector(6, lane), lane ^ 7);
}

TEST(AmdgpuInstructions, LanesAndExchanges) {
  Single single("gfx90a");
  Wave& w = single.wave();
  for (unsigned lane = 0; lane < 64; ++lane) {
    w.vector(0, lane) = lane * 3;
    w.vector(2, lane) = (63 - lane) * 4;
  }
  w.scalars[4] = 17;
  single.run(
      "v_readlane_b32 s0, v0, s4\nv_readfirstlane_b32 s1, v0\nv_mbcnt_lo_u32_b32 v4, -1, 0\nv_mbcnt_hi_u32_b32 v4, -1, v4\n"
      "ds_bpermute_b32 v5, v2, v0\nds_permute_b32 v6, v2, v0\nds_swizzle_b32 v7, v0 offset:swizzle(BITMASK_PERM, \"01pip\")\n"
      "ds_swizzle_b32 v8, v0 offset:swizzle(QUAD_PERM, 3, 2, 1, 0)\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v9, v5");
  EXPECT_EQ(w.scalars[0], 51u);
  EXPECT_EQ(w.scalars[1], 0u);
  for (unsigned lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(w.vector(4, lane), lane);
    EXPECT_EQ(w.vector(5, lane), (63 - lane) * 3);
    EXPECT_EQ(w.vector(6, lane), (63 - lane) * 3);
    // "01pip": bit 4 is 0, bit 3 is 1, bit 2 is kept, bit 1 is inverted, bit 0 is kept.
    EXPECT_EQ(w.vector(7, lane), ((lane & 32) | 8 | (lane & 4) | ((lane & 2) ^ 2) | (lane & 1)) * 3);
    EXPECT_EQ(w.vector(8, lane), (lane ^ 3) * 3);
  }
  w.scalars[5] = 99;
  single.run("v_writelane_b32 v0, s5, 3");
  EXPECT_EQ(w.vector(0, 3), 99u);
  EXPECT_EQ(w.vector(0, 2), 6u);
  // An inactive lane delivers 0.
  w.set_exec(~uint64_t{1});
  single.run("ds_bpermute_b32 v5, v2, v0\ns_waitcnt lgkmcnt(0)");
  EXPECT_EQ(w.vector(5, 63), 0u);
}

TEST(AmdgpuInstructions, Scalar) {
  Single single("gfx90a");
  Wave& w = single.wave();
  Values values;
  for (unsigned round = 0; round < 500; ++round) {
    const uint64_t a = values.bits64(static_cast<unsigned>(values.random.next())),
                   b = values.bits64(static_cast<unsigned>(values.random.next()));
    w.set_scalar64(0, a);
    w.set_scalar64(2, b);
    if (round == 0) {
      single.prepare(
          "s_add_u32 s4, s0, s2\ns_addc_u32 s5, s1, s3\ns_sub_u32 s6, s0, s2\ns_subb_u32 s7, s1, s3\ns_mul_i32 s8, s0, s2\ns_mul_hi_u32 "
          "s9, s0, s2\n"
          "s_lshl_b64 s[10:11], s[0:1], s2\ns_ashr_i64 s[12:13], s[0:1], s2\ns_andn2_b64 s[14:15], s[0:1], s[2:3]\ns_bcnt1_i32_b64 s16, "
          "s[0:1]\n"
          "s_ff1_i32_b64 s17, s[0:1]\ns_flbit_i32_b32 s18, s0\ns_bfe_u32 s19, s0, 0x80004\ns_bfe_i64 s[20:21], s[0:1], 0x200004\n"
          "s_cmp_gt_i32 s0, s2\ns_cselect_b32 s22, s0, s2\ns_cmp_lg_u64 s[0:1], s[2:3]\ns_cselect_b64 s[24:25], s[0:1], -1\ns_brev_b32 "
          "s26, s0\n"
          "s_sext_i32_i8 s27, s0\ns_lshl2_add_u32 s28, s0, s2\ns_absdiff_i32 s29, s0, s2\ns_pack_lh_b32_b16 s30, s0, s2\ns_min_i32 s31, "
          "s0, s2\n"
          "s_movk_i32 s32, 0x8000\ns_mov_b64 s[34:35], 0xffffffff\ns_add_i32 s36, s0, s2\ns_cselect_b32 s37, 1, 0");
    }
    single.again();
    const auto a32 = static_cast<uint32_t>(a), b32 = static_cast<uint32_t>(b);
    EXPECT_EQ(w.scalar64(4), a + b);
    EXPECT_EQ(w.scalar64(6), a - b);
    EXPECT_EQ(w.scalars[8], a32 * b32);
    EXPECT_EQ(w.scalars[9], uint64_t{a32} * b32 >> 32);
    EXPECT_EQ(w.scalar64(10), a << b % 64);
    EXPECT_EQ(w.scalar64(12), static_cast<uint64_t>(static_cast<int64_t>(a) >> b % 64));
    EXPECT_EQ(w.scalar64(14), a & ~b);
    EXPECT_EQ(w.scalars[16], static_cast<uint32_t>(__builtin_popcountll(a)));
    EXPECT_EQ(w.scalars[17], a == 0 ? 0xffffffffu : static_cast<uint32_t>(__builtin_ctzll(a)));
    EXPECT_EQ(w.scalars[18], a32 == 0 ? 0xffffffffu : static_cast<uint32_t>(__builtin_clz(a32)));
    EXPECT_EQ(w.scalars[19], a32 / 16 % 256);
    EXPECT_EQ(static_cast<int64_t>(w.scalar64(20)), static_cast<int32_t>(a >> 4));
    EXPECT_EQ(w.scalars[22], static_cast<int32_t>(a32) > static_cast<int32_t>(b32) ? a32 : b32);
    EXPECT_EQ(w.scalar64(24), a != b ? a : ~uint64_t{0});
    for (unsigned n = 0; n < 32; ++n) EXPECT_EQ(w.scalars[26] >> n & 1, a32 >> (31 - n) & 1);
    EXPECT_EQ(static_cast<int32_t>(w.scalars[27]), static_cast<int8_t>(a));
    EXPECT_EQ(w.scalars[28], a32 * 4 + b32);
    EXPECT_EQ(w.scalars[30], (a32 & 0xffff) | (b32 & 0xffff0000));
    EXPECT_EQ(static_cast<int32_t>(w.scalars[31]), std::min(static_cast<int32_t>(a32), static_cast<int32_t>(b32)));
    EXPECT_EQ(w.scalars[32], 0xffff8000u);
    EXPECT_EQ(w.scalar64(34), 0xffffffffu);
    const Wide sum = Wide{static_cast<int32_t>(a32)} + static_cast<int32_t>(b32);
    EXPECT_EQ(w.scalars[37], sum > INT32_MAX || sum < INT32_MIN ? 1u : 0u);
    if (HasFailure()) return;
  }
}

TEST(AmdgpuInstructions, Gfx11NamesAndPairs) {
  Single single("gfx1100");
  Wave& w = single.wave();
  for (unsigned lane = 0; lane < 32; ++lane) {
    w.vector(0, lane) = u(static_cast<float>(lane));
    w.vector(1, lane) = u(2.5F);
    w.vector(2, lane) = lane;
  }
  // Both halves of a pair read before either writes.
  single.run("v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v3, v0, v1");
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(f(w.vector(3, lane)), static_cast<float>(lane) + 2.5F);
    EXPECT_EQ(f(w.vector(0, lane)), 2.5F);
  }
  single.run(
      "v_add_nc_u32 v4, v2, v2\nv_cmpx_gt_u32 16, v2\nv_mov_b32 v4, 5\ns_mov_b32 exec_lo, -1\nv_dot4_i32_iu8 v6, v2, -1, v2 "
      "neg_lo:[0,1,0]");
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(w.vector(4, lane), lane < 16 ? 5u : 2 * lane);
    EXPECT_EQ(w.vector(6, lane), 0u) << "lane - lane";
  }
  // 16-bit results keep the upper half.
  w.vector(5, 0) = 0x12340000;
  w.vector(2, 0) = 0x3c003c00;
  single.run("v_add_f16 v5, v2, v2");
  EXPECT_EQ(w.vector(5, 0), 0x12344000u);
}

TEST(AmdgpuInstructions, ConstantsOfPackedF32) {
  Single single("gfx90a");
  Wave& w = single.wave();
  for (unsigned lane = 0; lane < 64; ++lane) {
    w.vector(0, lane) = u(static_cast<float>(lane) + 1);
    w.vector(1, lane) = u(-3.5F);
    for (unsigned n = 4; n < 12; ++n) w.vector(n, lane) = 7;
  }
  single.run(
      "v_pk_mov_b32 v[4:5], 0, 0\nv_pk_mov_b32 v[6:7], 1.0, 2\nv_pk_add_f32 v[8:9], v[0:1], 0 neg_lo:[1,1] neg_hi:[1,1]\n"
      "v_pk_mul_f32 v[10:11], v[0:1], 2.0 op_sel_hi:[1,0]\nv_pk_mov_b32 v[12:13], v[0:1], 0 op_sel:[1,0]");
  for (unsigned lane = 0; lane < 64; ++lane) {
    const float x = static_cast<float>(lane) + 1;
    EXPECT_EQ(single.get64(4, lane), 0u);
    EXPECT_EQ(w.vector(6, lane), u(1.0F));
    EXPECT_EQ(w.vector(7, lane), 2u);
    EXPECT_EQ(f(w.vector(8, lane)), -x);
    EXPECT_EQ(f(w.vector(9, lane)), 3.5F);
    EXPECT_EQ(f(w.vector(10, lane)), 2 * x);
    EXPECT_EQ(f(w.vector(11, lane)), -7.0F);
    EXPECT_EQ(w.vector(12, lane), u(-3.5F));
    EXPECT_EQ(w.vector(13, lane), 0u);
  }
  // What the upper half of another constant is, nobody says.
  for (const char* text : {"v_pk_add_f32 v[8:9], v[0:1], 1.0", "v_pk_mul_f32 v[8:9], v[0:1], 2.0 op_sel:[0,1] op_sel_hi:[1,0]",
                           "v_pk_mov_b32 v[4:5], v[0:1], 1.0 op_sel:[0,1]"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(single.run(text), Fault);
  }
}

// GFX12: functions of floats in scalar registers, whatever EXEC is.
TEST(AmdgpuInstructions, ScalarFunctions) {
  Single single("gfx1201");
  Wave& w = single.wave();
  w.set_exec(0);
  single.prepare(
      "v_s_exp_f32 s2, s0\nv_s_log_f32 s3, |s0|\nv_s_rcp_f32 s4, -s0\nv_s_rsq_f32 s5, |s0|\nv_s_sqrt_f32 s6, |s0|\nv_s_exp_f32 s7, s0 "
      "clamp\n"
      "v_s_exp_f16 s8, s1\nv_s_log_f16 s9, |s1|\nv_s_rcp_f16 s10, -s1\nv_s_rsq_f16 s11, |s1|\nv_s_sqrt_f16 s12, |s1|");
  Random random{5};
  for (unsigned round = 0; round < 2000; ++round) {
    const auto bits = static_cast<uint32_t>(random.next());
    w.scalars[0] = (bits & 0x807fffff) | (120u + bits % 12) << 23;                 // 2**-7 to 2**5
    w.scalars[1] = static_cast<uint32_t>(random.next()) & 0xffff83ff;              // the upper half is not looked at
    w.scalars[1] |= (10u + static_cast<uint32_t>(random.next() >> 40) % 9) << 10;  // 2**-5 to 2**4
    const float x = f(w.scalars[0]), h = half(w.scalars[1] & 0xffff);
    single.again();
    const double a = std::fabs(double(x)), b = std::fabs(double(h));
    const auto is = [&](unsigned n, double exact) { EXPECT_EQ(f(w.scalars[n]), static_cast<float>(exact)) << "s" << n << " of " << x; };
    is(2, std::exp2(double(x)));
    is(3, std::log2(a));
    is(4, 1 / -double(x));
    is(5, 1 / std::sqrt(a));
    is(6, std::sqrt(a));
    is(7, std::min(std::exp2(double(x)), 1.0));
    const auto is_half = [&](unsigned n, double exact) { EXPECT_EQ(w.scalars[n], nearest_half(Quad{exact})) << "s" << n << " of " << h; };
    is_half(8, std::exp2(double(h)));
    if (b != 1) is_half(9, std::log2(b));
    is_half(10, 1 / -double(h));
    is_half(11, 1 / std::sqrt(b));
    is_half(12, std::sqrt(b));
    if (HasFailure()) return;
  }
  EXPECT_THROW(single.run("v_s_exp_f32 s2, s0 mul:2"), Fault) << "denormals are enabled";
}

// GFX12: scalar loads of less than a dword. Every byte of the rest of the register is written.
TEST(AmdgpuInstructions, ScalarLoadsOfBytes) {
  Single single("gfx1201");
  Wave& w = single.wave();
  std::array<uint8_t, 9> data = {0x11, 0x92, 0x33, 0xf4, 0x55, 0x76, 0x77, 0x88, 0x99};
  constexpr uint64_t address = uint64_t{1} << 40;
  single.machine().memory.map(address, data.data(), data.size(), false, "data");
  w.set_scalar64(0, address);
  w.set_scalar64(2, address + 3);
  w.scalars[4] = 2;
  for (unsigned n = 8; n < 20; ++n) w.scalars[n] = 0x5a5a5a5a;
  single.run(
      "s_load_u8 s8, s[0:1], 0x1\ns_load_i8 s9, s[0:1], 0x1\ns_load_u16 s10, s[0:1], 0x2\ns_load_i16 s11, s[0:1], 0x2\n"
      "s_load_i8 s12, s[0:1], 0x5\ns_load_i16 s13, s[0:1], 0x4\ns_load_u8 s14, s[2:3], 0x0\ns_load_u16 s15, s[2:3], 0x1\n"
      "s_load_u8 s16, s[0:1], s4 offset:0x6\ns_load_u16 s17, s[2:3], s4 offset:0x1\ns_load_i8 s18, s[2:3], -0x2\ns_wait_kmcnt 0x0");
  const std::array<uint32_t, 11> expected = {0x92, 0xffffff92, 0xf433, 0xfffff433, 0x76, 0x7655, 0xf4, 0x7655, 0x99, 0x8877, 0xffffff92};
  for (unsigned n = 0; n < expected.size(); ++n) EXPECT_EQ(w.scalars[8 + n], expected[n]) << "s" << 8 + n;
  for (const char* text : {"s_load_u16 s8, s[0:1], 0x1", "s_load_u16 s8, s[0:1], 0x8", "s_load_u8 s8, s[0:1], 0x9",
                           "s_load_u8 s8, s[0:1], 0x0\ns_mov_b32 s9, s8"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(single.run(text), Fault);
    single.run("s_wait_kmcnt 0x0");
  }
}

// Whatever the bytes are: an instruction that is executed, or a fault.
TEST(AmdgpuInstructions, RandomBytes) {
  for (const char* processor : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    SCOPED_TRACE(processor);
    Random random{17};
    std::vector<std::byte> bytes(size_t{4} * 4000);
    for (size_t at = 0; at < bytes.size(); at += 4) {
      const auto word = static_cast<uint32_t>(random.next());
      std::memcpy(bytes.data() + at, &word, 4);
    }
    const auto instructions = make_instructions(processor, find_processor(processor)->gfx11 ? 32 : 64, bytes);
    size_t executed = 0, faults = 0;
    for (size_t at = 0; at < bytes.size(); at += 4) {
      Single single(processor);
      for (uint32_t& v : single.wave().vectors) v = static_cast<uint32_t>(random.next());
      for (size_t n = 0; n < 100; ++n) single.wave().scalars[n] = static_cast<uint32_t>(random.next());
      try {
        step(single.wave(), instructions->at(at));
        ++executed;
      } catch (const Fault&) {
        ++faults;
      }
    }
    EXPECT_GT(executed, 300u);
    EXPECT_GT(faults, 300u);
  }
}

TEST(AmdgpuInstructions, WhatIsNotImplementedIsAFault) {
  for (const char* text :
       {"s_sendmsg sendmsg(MSG_INTERRUPT)", "v_cubeid_f32 v0, s0, v1, v2 mul:2", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1",
        "buffer_load_dword off, s[0:3], 0 lds", "s_trap 2", "ds_gws_barrier v0 gds"}) {
    SCOPED_TRACE(text);
    Single single("gfx90a");
    EXPECT_THROW(single.run(text), Fault);
  }
}

}  // namespace
}  // namespace heddle::amdgpu
