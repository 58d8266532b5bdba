// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Single instructions that are neither integers nor floats of one lane: exchanges between lanes, scalars, pairs, and bytes that are no instruction.
#include <gtest/gtest.h>

#include "tests/amdgpu/values_of_tests.h"

namespace heddle::amdgpu {
namespace {

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
          "s_movk_i32 s32, 0x8000\ns_mov_b64 s[34:35], 0xffffffff\ns_add_i32 s36, s0, s2\ns_cselect_b32 s37, 1, 0\ns_sub_i32 s38, s0, "
          "s2\ns_cselect_b32 s39, 1, 0\ns_lshl_b32 s40, s0, s2\n"
          "s_lshr_b32 s41, s0, s2\ns_ashr_i32 s42, s0, s2\ns_and_b32 s43, s0, s2\ns_xor_b64 s[44:45], s[0:1], s[2:3]\n"
          "s_or_b64 s[46:47], s[0:1], s[2:3]\ns_max_i32 s48, s0, s2\ns_min_u32 s49, s0, s2\ns_bcnt1_i32_b32 s50, s0\n"
          "s_ff1_i32_b32 s51, s0\ns_sext_i32_i16 s52, s0\ns_mov_b32 s53, s0\ns_mulk_i32 s53, 0xfffd\n"
          "s_cmp_ge_u32 s0, s2\ns_cselect_b32 s54, 1, 0\ns_cmp_lt_i32 s0, s2\ns_cselect_b32 s55, 1, 0\n"
          "s_cmp_eq_u64 s[0:1], s[2:3]\ns_cselect_b32 s56, 1, 0\ns_xor_b32 s57, s0, s2\ns_lshr_b64 s[58:59], s[0:1], s2");
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
    const int64_t x = static_cast<int32_t>(a32), y = static_cast<int32_t>(b32);
    EXPECT_EQ(w.scalars[38], a32 - b32);
    EXPECT_EQ(w.scalars[39], x - y > INT32_MAX || x - y < INT32_MIN ? 1u : 0u);
    EXPECT_EQ(w.scalars[40], static_cast<uint32_t>(uint64_t{a32} << b32 % 32));
    EXPECT_EQ(w.scalars[41], a32 >> b32 % 32);
    EXPECT_EQ(w.scalars[42], static_cast<uint32_t>(x >> b32 % 32));
    EXPECT_EQ(w.scalars[43], a32 & b32);
    EXPECT_EQ(w.scalar64(44), a ^ b);
    EXPECT_EQ(w.scalar64(46), a | b);
    EXPECT_EQ(w.scalars[48], static_cast<uint32_t>(std::max(x, y)));
    EXPECT_EQ(w.scalars[49], std::min(a32, b32));
    EXPECT_EQ(w.scalars[50], static_cast<uint32_t>(__builtin_popcount(a32)));
    EXPECT_EQ(w.scalars[51], a32 == 0 ? 0xffffffffu : static_cast<uint32_t>(__builtin_ctz(a32)));
    EXPECT_EQ(static_cast<int32_t>(w.scalars[52]), static_cast<int16_t>(a));
    EXPECT_EQ(w.scalars[53], static_cast<uint32_t>(x * -3));
    EXPECT_EQ(w.scalars[54], a32 >= b32 ? 1u : 0u);
    EXPECT_EQ(w.scalars[55], x < y ? 1u : 0u);
    EXPECT_EQ(w.scalars[56], a == b ? 1u : 0u);
    EXPECT_EQ(w.scalars[57], a32 ^ b32);
    EXPECT_EQ(w.scalar64(58), a >> b % 64);
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
