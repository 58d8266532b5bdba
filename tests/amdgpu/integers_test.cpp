// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single instructions of integers against definitions in wider ones.
#include <gtest/gtest.h>

#include "tests/amdgpu/values_of_tests.h"

namespace heddle::amdgpu {
namespace {

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
    {"v_pk_mad_u16 v6, v0, v2, v4 op_sel:[1,0,0] op_sel_hi:[0,1,1]",
     [](auto a, auto b, auto c) { return uint64_t{uint16_t((a >> 16) * b + c)} | uint64_t{uint16_t(a * (b >> 16) + (c >> 16))} << 16; }},
    {"v_pk_max_i16 v6, v0, v2",
     [](auto a, auto b, auto) {
       const auto larger = [](int x, int y) { return uint64_t{uint16_t(x > y ? x : y)}; };
       return larger(int16_t(a), int16_t(b)) | larger(int16_t(a >> 16), int16_t(b >> 16)) << 16;
     }},
    {"v_pk_min_i16 v6, v0, v2",
     [](auto a, auto b, auto) {
       const auto smaller = [](int x, int y) { return uint64_t{uint16_t(x < y ? x : y)}; };
       return smaller(int16_t(a), int16_t(b)) | smaller(int16_t(a >> 16), int16_t(b >> 16)) << 16;
     }},
    {"v_pk_max_u16 v6, v0, v2",
     [](auto a, auto b, auto) { return std::max(a & 0xffff, b & 0xffff) | std::max(a >> 16 & 0xffff, b >> 16 & 0xffff) << 16; }},
    {"v_pk_min_u16 v6, v0, v2",
     [](auto a, auto b, auto) { return std::min(a & 0xffff, b & 0xffff) | std::min(a >> 16 & 0xffff, b >> 16 & 0xffff) << 16; }},
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
    {"v_and_b32 v6, v0, v2", [](auto a, auto b, auto) { return a & b; }},
    {"v_or_b32 v6, v0, v2", [](auto a, auto b, auto) { return a | b; }},
    {"v_xor_b32 v6, v0, v2", [](auto a, auto b, auto) { return a ^ b; }},
    {"v_or3_b32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return a | b | c; }},
    {"v_and_or_b32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return (a & b) | c; }},
    {"v_lshl_or_b32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return uint64_t{uint32_t(a << b % 32)} | c; }},
    {"v_add_lshl_u32 v6, v0, v2, v4", [](auto a, auto b, auto c) { return uint64_t{uint32_t((a + b) << c % 32)}; }},
    {"v_lshrrev_b32 v6, v0, v2", [](auto a, auto b, auto) { return b >> a % 32; }},
    {"v_lshrrev_b16 v6, v0, v2", [](auto a, auto b, auto) { return b % 65536 >> a % 16; }},
    {"v_lshlrev_b16 v6, v0, v2", [](auto a, auto b, auto) { return (b << a % 16) % 65536; }},
    {"v_ashrrev_i16 v6, v0, v2",
     [](auto a, auto b, auto) { return static_cast<uint64_t>(std::floor(std::ldexp(double(int16_t(b)), -int(a % 16))) + 65536) % 65536; }},
    {"v_sub_u16 v6, v0, v2", [](auto a, auto b, auto) { return (a - b) % 65536; }},
    {"v_subrev_u16 v6, v0, v2", [](auto a, auto b, auto) { return (b - a) % 65536; }},
    {"v_mad_legacy_u16 v6, v0, v2, v4", [](auto a, auto b, auto c) { return (a * b + c) % 65536; }},
    {"v_mul_hi_u32_u24 v6, v0, v2", [](auto a, auto b, auto) { return (a % 16777216) * (b % 16777216) / (uint64_t{1} << 32); }},
    {"v_mul_hi_i32_i24 v6, v0, v2",
     [](auto a, auto b, auto) {
       const int64_t x = (a & 0x800000) != 0 ? int64_t(a & 0xffffff) - 16777216 : int64_t(a & 0xffffff);
       const int64_t y = (b & 0x800000) != 0 ? int64_t(b & 0xffffff) - 16777216 : int64_t(b & 0xffffff);
       return s32(static_cast<int64_t>(std::floor(std::ldexp(static_cast<double>(x * y), -32))));
     }},
    {"v_max_i32 v6, v0, v2", [](auto a, auto b, auto) { return s32(i(a) > i(b) ? i(a) : i(b)); }},
    {"v_min_u32 v6, v0, v2", [](auto a, auto b, auto) { return a < b ? a : b; }},
    {"v_bfrev_b32 v6, v0",
     [](auto a, auto, auto) {
       uint64_t v = 0;
       for (unsigned n = 0; n < 32; ++n) v |= (a >> n & 1) << (31 - n);
       return v;
     }},
    {"v_cvt_i32_f32 v6, v0",  // toward zero; out of range, the nearest
     [](auto a, auto, auto) {
       const float x = f(uint32_t(a));
       if (std::isnan(x)) return uint64_t{0};
       return s32(x >= 2147483648.F ? INT32_MAX : x < -2147483648.F ? INT32_MIN : static_cast<int64_t>(std::trunc(x)));
     }},
    {"v_cvt_u32_f32 v6, v0",
     [](auto a, auto, auto) {
       const float x = f(uint32_t(a));
       return std::isnan(x) || x < 0 ? 0 : x >= 4294967296.F ? uint64_t{0xffffffff} : static_cast<uint64_t>(std::trunc(x));
     }},
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

}  // namespace
}  // namespace heddle::amdgpu
