// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores of each width, LDS, and the single instructions that compiled kernels have besides those of the other tests.
#include <gtest/gtest.h>

#include "tests/amdgpu/values_of_tests.h"

namespace heddle::amdgpu {
namespace {

constexpr uint64_t address = uint64_t{1} << 40;

TEST(AmdgpuMoves, GlobalLoads) {
  struct One {
    const char *processor, *text;  // v[6:9] of the address in v[0:1]
    unsigned bytes;
    bool is_signed, in_high_half, in_low_half = false;
  };
  const One cases[] = {
      {"gfx90a", "global_load_ubyte v6, v[0:1], off", 1, false, false},
      {"gfx90a", "global_load_sbyte v6, v[0:1], off", 1, true, false},
      {"gfx90a", "global_load_ushort v6, v[0:1], off", 2, false, false},
      {"gfx90a", "global_load_sshort v6, v[0:1], off", 2, true, false},
      {"gfx90a", "global_load_dword v6, v[0:1], off", 4, false, false},
      {"gfx90a", "global_load_dwordx2 v[6:7], v[0:1], off", 8, false, false},
      {"gfx90a", "global_load_dwordx3 v[6:8], v[0:1], off", 12, false, false},
      {"gfx90a", "global_load_dwordx4 v[6:9], v[0:1], off", 16, false, false},
      {"gfx1100", "global_load_u8 v6, v[0:1], off", 1, false, false},
      {"gfx1100", "global_load_i8 v6, v[0:1], off", 1, true, false},
      {"gfx1100", "global_load_u16 v6, v[0:1], off", 2, false, false},
      {"gfx1100", "global_load_i16 v6, v[0:1], off", 2, true, false},
      {"gfx1100", "global_load_d16_hi_b16 v6, v[0:1], off", 2, false, true},
      {"gfx1100", "global_load_d16_b16 v6, v[0:1], off", 2, false, false, true},
      {"gfx1100", "global_load_b32 v6, v[0:1], off", 4, false, false},
      {"gfx1100", "global_load_b64 v[6:7], v[0:1], off", 8, false, false},
      {"gfx1100", "global_load_b96 v[6:8], v[0:1], off", 12, false, false},
      {"gfx1100", "global_load_b128 v[6:9], v[0:1], off", 16, false, false},
  };
  std::array<uint8_t, 64 * 16> data{};
  Random random{3};
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random.next());
  for (const One& c : cases) {
    SCOPED_TRACE(c.text);
    Single single(c.processor);
    Wave& w = single.wave();
    single.machine().memory.map(address, data.data(), data.size(), false, "data");
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      single.set64(0, lane, address + lane * c.bytes);
      for (unsigned n = 6; n < 10; ++n) w.vector(n, lane) = 0x5a5a5a5a;
    }
    single.run(std::string(c.text) + "\ns_waitcnt vmcnt(0)");
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      uint64_t words[2] = {0x5a5a5a5a5a5a5a5a, 0x5a5a5a5a5a5a5a5a};
      std::memcpy(words, &data[lane * c.bytes], c.bytes);
      uint64_t small = 0;
      std::memcpy(&small, &data[lane * c.bytes], std::min(c.bytes, 8u));
      if (c.bytes < 4) {
        if (c.is_signed)
          small = c.bytes == 1 ? static_cast<uint64_t>(static_cast<int8_t>(small)) : static_cast<uint64_t>(static_cast<int16_t>(small));
        if (c.in_high_half) small = small << 16 | 0x5a5a;  // the other half is kept
        if (c.in_low_half) small |= 0x5a5a0000;
        words[0] = (small & 0xffffffff) | 0x5a5a5a5a00000000;
      }
      EXPECT_EQ(single.get64(6, lane), words[0]) << lane;
      EXPECT_EQ(single.get64(8, lane), words[1]) << lane;
    }
  }
}

TEST(AmdgpuMoves, GlobalStores) {
  struct One {
    const char *processor, *text;
    unsigned bytes;
  };
  const One cases[] = {
      {"gfx90a", "global_store_byte v[0:1], v6, off", 1},         {"gfx90a", "global_store_short v[0:1], v6, off", 2},
      {"gfx90a", "global_store_dword v[0:1], v6, off", 4},        {"gfx90a", "global_store_dwordx2 v[0:1], v[6:7], off", 8},
      {"gfx90a", "global_store_dwordx4 v[0:1], v[6:9], off", 16}, {"gfx1100", "global_store_b8 v[0:1], v6, off", 1},
      {"gfx1100", "global_store_b16 v[0:1], v6, off", 2},         {"gfx1100", "global_store_b32 v[0:1], v6, off", 4},
      {"gfx1100", "global_store_b64 v[0:1], v[6:7], off", 8},     {"gfx1100", "global_store_b128 v[0:1], v[6:9], off", 16},
      {"gfx90a", "global_store_dwordx3 v[0:1], v[6:8], off", 12}, {"gfx1100", "global_store_b96 v[0:1], v[6:8], off", 12},
  };
  for (const One& c : cases) {
    SCOPED_TRACE(c.text);
    Single single(c.processor);
    Random random{4};
    std::array<uint8_t, 64 * 32> data{}, expected{};
    single.machine().memory.map(address, data.data(), data.size(), true, "data");
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      single.set64(0, lane, address + lane * 32);
      uint64_t words[2] = {random.next(), random.next()};
      single.set64(6, lane, words[0]);
      single.set64(8, lane, words[1]);
      std::memcpy(&expected[lane * 32], words, c.bytes);
    }
    single.run(std::string(c.text) + (std::string(c.processor) == "gfx90a" ? "\ns_waitcnt vmcnt(0)" : "\ns_waitcnt_vscnt null, 0x0"));
    EXPECT_EQ(data, expected);
  }
}

// 16 bytes, and two times 8 bytes at offsets in units of 8.
TEST(AmdgpuMoves, Lds) {
  for (const bool is_new : {false, true}) {
    Single single(is_new ? "gfx1100" : "gfx90a");
    single.machine().options.check_races = false;
    single.wave().group->lds.resize(64 * 64);
    Random random{5};
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      single.wave().vector(0, lane) = lane * 64;
      for (unsigned n = 4; n < 12; ++n) single.wave().vector(n, lane) = static_cast<uint32_t>(random.next());
    }
    single.run(is_new
                   ? "ds_store_b128 v0, v[4:7]\nds_store_2addr_b64 v0, v[8:9], v[10:11] offset0:3 offset1:6\ns_waitcnt lgkmcnt(0)\n"
                     "ds_load_b128 v[12:15], v0\nds_load_b64 v[16:17], v0 offset:24\nds_load_2addr_b64 v[18:21], v0 offset0:1 offset1:6\n"
                     "s_waitcnt lgkmcnt(0)"
                   : "ds_write_b128 v0, v[4:7]\nds_write2_b64 v0, v[8:9], v[10:11] offset0:3 offset1:6\ns_waitcnt lgkmcnt(0)\n"
                     "ds_read_b128 v[12:15], v0\nds_read_b64 v[16:17], v0 offset:24\nds_read2_b64 v[18:21], v0 offset0:1 offset1:6\n"
                     "s_waitcnt lgkmcnt(0)");
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      EXPECT_EQ(single.get64(12, lane), single.get64(4, lane));
      EXPECT_EQ(single.get64(14, lane), single.get64(6, lane));
      EXPECT_EQ(single.get64(16, lane), single.get64(8, lane));
      EXPECT_EQ(single.get64(18, lane), single.get64(6, lane));
      EXPECT_EQ(single.get64(20, lane), single.get64(10, lane));
      uint64_t word = 0;
      std::memcpy(&word, &single.wave().group->lds[lane * 64 + 48], 8);
      EXPECT_EQ(word, single.get64(10, lane));
    }
  }
}

// Fewer bytes, and pairs whose offsets are in units of 64 elements.
TEST(AmdgpuMoves, NarrowAndDistantLds) {
  constexpr unsigned size = 4096;
  for (const bool is_new : {false, true}) {
    Single single(is_new ? "gfx1100" : "gfx90a");
    Wave& w = single.wave();
    single.machine().options.check_races = false;
    w.group->lds.resize(size);
    std::vector<uint8_t> expected(size);
    std::memcpy(expected.data(), w.group->lds.data(), size);
    Random random{6};
    const auto stored = [&](unsigned lane, unsigned at, unsigned first, unsigned bytes) {
      const uint64_t word = single.get64(first, lane);
      std::memcpy(&expected[lane * 8 + at], &word, bytes);
    };
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      w.vector(0, lane) = lane * 8;
      for (unsigned n = 4; n < 16; ++n) w.vector(n, lane) = static_cast<uint32_t>(random.next());
    }
    const std::string write = is_new ? "ds_store_" : "ds_write_", pair = is_new ? "ds_store_2addr_stride64_" : "ds_write2st64_";
    single.run(write + "b64 v0, v[4:5]\n" + write + "b8 v0, v6 offset:1\n" + write + "b16 v0, v7 offset:6\n" + write +
               "b16_d16_hi v0, v11 offset:4\n" + pair + "b32 v0, v8, v10 offset0:2 offset1:5\n" + pair +
               "b64 v0, v[12:13], v[14:15] offset0:4 offset1:6\ns_waitcnt lgkmcnt(0)");
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      stored(lane, 0, 4, 8);
      stored(lane, 1, 6, 1);
      stored(lane, 6, 7, 2);
      const uint32_t upper_half = w.vector(11, lane) >> 16;
      std::memcpy(&expected[lane * 8 + 4], &upper_half, 2);
      stored(lane, 2 * 256, 8, 4);
      stored(lane, 5 * 256, 10, 4);
      stored(lane, 4 * 512, 12, 8);
      stored(lane, 6 * 512, 14, 8);
    }
    EXPECT_EQ(std::memcmp(expected.data(), w.group->lds.data(), size), 0);
  }
}

TEST(AmdgpuMoves, ScalarLoadsOfSixteen) {
  std::array<uint32_t, 20> data{};
  for (unsigned n = 0; n < data.size(); ++n) data[n] = n * 0x01010101;
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    Single single(processor);
    single.machine().memory.map(address, data.data(), sizeof data, false, "data");
    single.wave().set_scalar64(0, address);
    single.run(std::string(processor) == "gfx90a" ? "s_load_dwordx16 s[16:31], s[0:1], 0x8\ns_waitcnt lgkmcnt(0)"
                                                  : "s_load_b512 s[16:31], s[0:1], 0x8\ns_waitcnt lgkmcnt(0)");
    for (unsigned n = 0; n < 16; ++n) EXPECT_EQ(single.wave().scalars[16 + n], data[n + 2]);
  }
}

TEST(AmdgpuMoves, MasksAndBranches) {
  for (const bool is_wide : {true, false}) {
    Single single(is_wide ? "gfx90a" : "gfx1100");
    Wave& w = single.wave();
    const uint64_t exec = 0x00ff00ff00ff00ff & w.mask();
    w.set_exec(exec);
    w.set_scalar64(0, 0x0f0f0f0f0f0f0f0f);
    single.run(is_wide ? "s_or_saveexec_b64 s[4:5], s[0:1]" : "s_or_saveexec_b32 s4, s0");
    EXPECT_EQ(w.scalar64(4) & w.mask(), exec);
    EXPECT_EQ(w.exec(), (exec | 0x0f0f0f0f0f0f0f0f) & w.mask());
    EXPECT_TRUE(w.scc);
    const std::string vcc = is_wide ? "s_mov_b64 vcc, " : "s_mov_b32 vcc_lo, ";
    single.run("s_mov_b32 s6, 0\n" + vcc + "0\ns_cbranch_vccz 1\ns_add_u32 s6, s6, 1\ns_cbranch_vccnz 1\ns_add_u32 s6, s6, 2\n" + vcc +
               "4\ns_cbranch_vccz 1\ns_add_u32 s6, s6, 4\ns_cbranch_vccnz 1\ns_add_u32 s6, s6, 8");
    EXPECT_EQ(w.scalars[6], 6u) << "only the two branches that are not taken";
  }
}

TEST(AmdgpuMoves, Scalars) {
  Single old("gfx90a"), single("gfx1201");
  old.prepare(
      "s_mov_b32 s4, s0\ns_addk_i32 s4, 0x8001\ns_bfe_i32 s5, s0, 0x80004\ns_flbit_i32 s6, s0\ns_cmp_lt_u32 s0, s2\ns_cselect_b32 s7, 1, "
      "0");
  single.prepare("s_sub_nc_u64 s[4:5], s[0:1], s[2:3]");
  Values values;
  for (unsigned round = 0; round < 500; ++round) {
    const uint64_t a = values.bits64(static_cast<unsigned>(values.random.next())),
                   b = values.bits64(static_cast<unsigned>(values.random.next()));
    for (Single* one : {&old, &single}) {
      one->wave().set_scalar64(0, a);
      one->wave().set_scalar64(2, b);
      one->again();
    }
    const auto x = static_cast<uint32_t>(a);
    Wave& w = old.wave();
    EXPECT_EQ(w.scalars[4], x - 0x7fff);
    EXPECT_EQ(static_cast<int32_t>(w.scalars[5]), static_cast<int8_t>(x >> 4));
    unsigned same_bits = 1;
    while (same_bits < 32 && (x >> (31 - same_bits) & 1) == x >> 31) ++same_bits;
    EXPECT_EQ(w.scalars[6], same_bits == 32 ? 0xffffffffu : same_bits);
    EXPECT_EQ(w.scalars[7], x < static_cast<uint32_t>(b) ? 1u : 0u);
    EXPECT_EQ(single.wave().scalar64(4), a - b);
    if (HasFailure()) return;
  }
}

// The constant of a comparison without a sign has none either. GFX12 has no such instructions.
TEST(AmdgpuMoves, ComparisonsWithConstants) {
  struct One {
    const char* name;
    bool (*wanted)(int64_t a, int64_t b);
  };
  const One cases[] = {{"eq", [](int64_t a, int64_t b) { return a == b; }}, {"lg", [](int64_t a, int64_t b) { return a != b; }},
                       {"gt", [](int64_t a, int64_t b) { return a > b; }},  {"ge", [](int64_t a, int64_t b) { return a >= b; }},
                       {"lt", [](int64_t a, int64_t b) { return a < b; }},  {"le", [](int64_t a, int64_t b) { return a <= b; }}};
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    Single single(processor);
    for (const One& c : cases) {
      for (const bool has_sign : {true, false}) {
        for (const uint32_t constant : {0u, 1u, 0x7fffu, 0x8000u, 0xfffeu, 0xffffu}) {
          const std::string text = std::string("s_cmpk_") + c.name + (has_sign ? "_i32" : "_u32") + " s0, " + std::to_string(constant);
          SCOPED_TRACE(text);
          single.prepare(text);
          const int64_t b = has_sign ? static_cast<int16_t>(constant) : static_cast<int64_t>(constant);
          for (const int64_t difference : {-1, 0, 1}) {
            const auto value = static_cast<uint32_t>(b + difference);
            single.wave().scalars[0] = value;
            single.again();
            EXPECT_EQ(single.wave().scc, c.wanted(has_sign ? static_cast<int32_t>(value) : int64_t{value}, b)) << value;
          }
        }
      }
    }
  }
}

// GFX12: one wait for loads, or stores, and LDS.
TEST(AmdgpuMoves, WaitsForTwoCounters) {
  Single single("gfx1201");
  single.machine().options.check_races = false;
  single.wave().group->lds.resize(64);
  std::array<uint32_t, 2> data{0x12345678, 0};
  single.machine().memory.map(address, data.data(), sizeof(data), true, "data");
  for (unsigned lane = 0; lane < single.lanes(); ++lane) {
    single.set64(0, lane, address);
    single.wave().vector(2, lane) = 0;
    single.wave().vector(3, lane) = 0x9abcdef0;
  }
  const std::string load = "ds_store_b32 v2, v3\ns_wait_dscnt 0x0\nglobal_load_b32 v4, v[0:1], off\nds_load_b32 v5, v2\n",
                    store = "global_store_b32 v[0:1], v3, off offset:4\nds_load_b32 v5, v2\n", add = "\nv_add_nc_u32 v6, v4, v5",
                    move = "\nv_mov_b32 v7, v5";
  single.run(load + "s_wait_loadcnt_dscnt 0x0" + add);
  EXPECT_EQ(single.wave().vector(6, 0), 0x12345678u + 0x9abcdef0u);
  single.run(store + "s_wait_storecnt_dscnt 0x0" + move);
  EXPECT_EQ(single.wave().vector(7, 0), 0x9abcdef0u);
  EXPECT_EQ(data[1], 0x9abcdef0u);
  // The count of loads, or stores, is in bits 13:8, and that of LDS in bits 5:0.
  for (const std::string& text : {load + "s_wait_loadcnt_dscnt 0x100" + add, load + "s_wait_loadcnt_dscnt 0x1" + add,
                                  load + "s_wait_storecnt_dscnt 0x0" + add, store + "s_wait_storecnt_dscnt 0x1" + move}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(single.run(text), Fault);
    single.run("s_wait_loadcnt_dscnt 0x0\ns_wait_storecnt 0x0");
  }
  data[1] = 0;
  single.run(store + "s_wait_storecnt_dscnt 0x100" + move);
  EXPECT_EQ(single.wave().vector(7, 0), 0x9abcdef0u) << "LDS is waited for, the store is not";
  single.run("s_wait_storecnt 0x0");
}

// A field wider than the operand, for which the guides' expression is not clear.
TEST(AmdgpuMoves, FieldsThatAreTooWide) {
  Single single("gfx90a");
  single.wave().set_scalar64(0, 0xfedcba9876543210);
  single.run("s_bfe_u32 s4, s0, 0x200000\ns_bfe_u64 s[6:7], s[0:1], 0x400000\ns_bfe_i32 s5, s1, 0x200004");
  EXPECT_EQ(single.wave().scalars[4], 0x76543210u);
  EXPECT_EQ(single.wave().scalar64(6), 0xfedcba9876543210u);
  EXPECT_EQ(single.wave().scalars[5], 0xffedcba9u);
  for (const char* text : {"s_bfe_u32 s4, s0, 0x210000", "s_bfe_i32 s4, s0, 0x7f0000", "s_bfe_u64 s[6:7], s[0:1], 0x410000",
                           "s_bfe_i64 s[6:7], s[0:1], 0x410000"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(single.run(text), Fault);
  }
}

// GFX12: arithmetic of floats in scalar registers.
TEST(AmdgpuMoves, ScalarFloats) {
  Single single("gfx1201");
  Wave& w = single.wave();
  single.prepare(
      "s_add_f32 s4, s0, s1\ns_mul_f32 s5, s0, s1\ns_mov_b32 s6, s2\ns_fmac_f32 s6, s0, s1\ns_fmamk_f32 s7, s0, 0x40490fdb, s1\n"
      "s_trunc_f32 s8, s0\ns_cvt_f32_i32 s9, s3\ns_cvt_f32_u32 s10, s3\ns_cvt_u32_f32 s11, s0\ns_sub_f32 s12, s0, s1\n"
      "s_cvt_i32_f32 s13, s0\ns_fmaak_f32 s14, s0, s1, 0x40490fdb\ns_rndne_f32 s15, s0\ns_floor_f32 s16, s0\ns_ceil_f32 s17, s0");
  Values values;
  for (unsigned round = 0; round < 1000; ++round) {
    for (unsigned n = 0; n < 4; ++n) {
      w.scalars[n] = values.bits32(static_cast<unsigned>(values.random.next()));
      if (n < 3 && std::isnan(f(w.scalars[n]))) w.scalars[n] |= 0x400000;
    }
    single.again();
    const float a = f(w.scalars[0]), b = f(w.scalars[1]), c = f(w.scalars[2]);
    EXPECT_TRUE(same(a + b, f(w.scalars[4])));
    EXPECT_TRUE(same(a * b, f(w.scalars[5])));
    EXPECT_TRUE(same(__builtin_fmaf(a, b, c), f(w.scalars[6])));
    EXPECT_TRUE(same(__builtin_fmaf(a, f(0x40490fdb), b), f(w.scalars[7])));
    EXPECT_TRUE(same(std::trunc(a), f(w.scalars[8])));
    EXPECT_EQ(f(w.scalars[9]), static_cast<float>(static_cast<int32_t>(w.scalars[3])));
    EXPECT_EQ(f(w.scalars[10]), static_cast<float>(w.scalars[3]));
    const uint32_t whole = !(a > 0) ? 0u : a >= 0x1p32F ? 0xffffffffu : static_cast<uint32_t>(a);
    EXPECT_EQ(w.scalars[11], whole) << a;
    EXPECT_TRUE(same(a - b, f(w.scalars[12])));
    const int32_t toward_zero = std::isnan(a) ? 0 : a >= 0x1p31F ? INT32_MAX : a < -0x1p31F ? INT32_MIN : static_cast<int32_t>(a);
    EXPECT_EQ(static_cast<int32_t>(w.scalars[13]), toward_zero) << a;
    EXPECT_TRUE(same(__builtin_fmaf(a, b, f(0x40490fdb)), f(w.scalars[14])));
    EXPECT_TRUE(same(__builtin_roundevenf(a), f(w.scalars[15]))) << a;
    EXPECT_TRUE(same(std::floor(a), f(w.scalars[16]))) << a;
    EXPECT_TRUE(same(std::ceil(a), f(w.scalars[17]))) << a;
    if (HasFailure()) return;
  }
}

TEST(AmdgpuMoves, Vectors) {
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    SCOPED_TRACE(processor);
    Single single(processor);
    Wave& w = single.wave();
    const bool is_new = std::string(processor) == "gfx1100";
    single.prepare(
        std::string("v_cvt_f64_f32 v[6:7], v0\nv_cvt_f64_i32 v[8:9], v0\nv_cvt_f64_u32 v[10:11], v0\nv_dot4_u32_u8 v12, v0, v2, v4\n"
                    "v_max_i16 v13, v0, v2\nv_min_i16 v14, v0, v2\nv_max_u16 v15, v0, v2\nv_min_u16 v16, v0, v2\n"
                    "v_max3_i16 v17, v0, v2, v4\nv_mad_u16 v18, v0, v2, v4") +
        (is_new ? "\nv_fmaak_f32 v19, v0, v2, 0x40490fdb" : ""));
    Values values;
    for (unsigned round = 0; round < 100; ++round) {
      for (unsigned lane = 0; lane < single.lanes(); ++lane) {
        for (const unsigned n : {0u, 2u, 4u}) {
          w.vector(n, lane) = values.bits32(static_cast<unsigned>(values.random.next()));
          if (std::isnan(f(w.vector(n, lane)))) w.vector(n, lane) |= 0x400000;
        }
      }
      single.again();
      for (unsigned lane = 0; lane < single.lanes(); ++lane) {
        const uint32_t a = w.vector(0, lane), b = w.vector(2, lane), c = w.vector(4, lane);
        ASSERT_TRUE(same(double{f(a)}, d(single.get64(6, lane))));
        ASSERT_EQ(d(single.get64(8, lane)), static_cast<double>(static_cast<int32_t>(a)));
        ASSERT_EQ(d(single.get64(10, lane)), static_cast<double>(a));
        uint32_t sum = c;
        for (unsigned n = 0; n < 32; n += 8) sum += (a >> n & 255) * (b >> n & 255);
        ASSERT_EQ(w.vector(12, lane), sum);
        const auto i = [](uint32_t x) { return static_cast<int16_t>(x); };
        const auto low = [&](unsigned n) { return static_cast<uint16_t>(w.vector(n, lane)); };
        ASSERT_EQ(i(low(13)), std::max(i(a), i(b)));
        ASSERT_EQ(i(low(14)), std::min(i(a), i(b)));
        ASSERT_EQ(low(15), std::max<uint16_t>(static_cast<uint16_t>(a), static_cast<uint16_t>(b)));
        ASSERT_EQ(low(16), std::min<uint16_t>(static_cast<uint16_t>(a), static_cast<uint16_t>(b)));
        ASSERT_EQ(i(low(17)), std::max({i(a), i(b), i(c)}));
        ASSERT_EQ(low(18), static_cast<uint16_t>((a & 0xffff) * (b & 0xffff) + c));
        if (is_new) {
          ASSERT_TRUE(same(__builtin_fmaf(f(a), f(b), f(0x40490fdb)), f(w.vector(19, lane))));
        }
      }
    }
  }
}

TEST(AmdgpuMoves, VectorsOfDoubles) {
  Single single("gfx90a");
  Wave& w = single.wave();
  single.prepare(
      "v_floor_f64 v[6:7], v[0:1]\nv_ceil_f64 v[8:9], v[0:1]\nv_trunc_f64 v[10:11], v[0:1]\nv_rndne_f64 v[12:13], v[0:1]\n"
      "v_cvt_u32_f64 v14, v[0:1]\nv_min_f64 v[16:17], v[0:1], v[2:3]");
  Values values;
  for (unsigned round = 0; round < 200; ++round) {
    for (unsigned lane = 0; lane < 64; ++lane) {
      for (const unsigned n : {0u, 2u}) {
        uint64_t x = values.bits64(static_cast<unsigned>(values.random.next()));
        if (std::isnan(d(x))) x |= 0x8000000000000;
        single.set64(n, lane, x);
      }
    }
    single.again();
    for (unsigned lane = 0; lane < 64; ++lane) {
      const double a = d(single.get64(0, lane)), b = d(single.get64(2, lane));
      ASSERT_TRUE(same(std::floor(a), d(single.get64(6, lane))));
      ASSERT_TRUE(same(std::ceil(a), d(single.get64(8, lane))));
      ASSERT_TRUE(same(std::trunc(a), d(single.get64(10, lane))));
      ASSERT_TRUE(same(std::nearbyint(a), d(single.get64(12, lane))));
      ASSERT_EQ(w.vector(14, lane), !(a > 0) ? 0u : a >= 0x1p32 ? 0xffffffffu : static_cast<uint32_t>(a)) << a;
      ASSERT_TRUE(same(std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b, d(single.get64(16, lane))));
    }
  }
}

TEST(AmdgpuMoves, SmallAndThree) {
  Single single("gfx1100");
  Wave& w = single.wave();
  single.prepare(
      "v_min3_i16 v6, v0, v2, v4\nv_min3_u16 v7, v0, v2, v4\nv_max3_u16 v8, v0, v2, v4\nv_min3_i32 v9, v0, v2, v4\n"
      "v_max3_i32 v10, v0, v2, v4\nv_min3_u32 v11, v0, v2, v4\nv_max3_u32 v12, v0, v2, v4\nv_pack_b32_f16 v13, v0, v2\n"
      "v_not_b32 v14, v0\nv_xor3_b32 v15, v0, v2, v4\nv_mov_b32 v16, v5\nv_fma_mixhi_f16 v16, v18, v19, v20\nv_mad_i16 v17, v0, v2, v4");
  Values values;
  for (unsigned round = 0; round < 200; ++round) {
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      for (const unsigned n : {0u, 2u, 4u, 5u}) w.vector(n, lane) = values.bits32(static_cast<unsigned>(values.random.next()));
      // Parts of v_pack are no signaling NaN or denormal number, which it may change.
      for (const unsigned n : {0u, 2u}) {
        if ((w.vector(n, lane) & 0x7c00) == 0x7c00 || (w.vector(n, lane) & 0x7c00) == 0)
          w.vector(n, lane) = (w.vector(n, lane) & ~0x7c00u) | 0x400;
      }
      for (const unsigned n : {18u, 19u, 20u})
        w.vector(n, lane) = u(static_cast<float>(static_cast<int64_t>(values.random.below(4001)) - 2000) / 64);
    }
    single.again();
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      const uint32_t a = w.vector(0, lane), b = w.vector(2, lane), c = w.vector(4, lane);
      const auto i16 = [](uint32_t x) { return static_cast<int16_t>(x); };
      const auto u16 = [](uint32_t x) { return static_cast<uint16_t>(x); };
      const auto i32 = [](uint32_t x) { return static_cast<int32_t>(x); };
      ASSERT_EQ(i16(w.vector(6, lane)), std::min({i16(a), i16(b), i16(c)}));
      ASSERT_EQ(u16(w.vector(7, lane)), std::min({u16(a), u16(b), u16(c)}));
      ASSERT_EQ(u16(w.vector(8, lane)), std::max({u16(a), u16(b), u16(c)}));
      ASSERT_EQ(i32(w.vector(9, lane)), std::min({i32(a), i32(b), i32(c)}));
      ASSERT_EQ(i32(w.vector(10, lane)), std::max({i32(a), i32(b), i32(c)}));
      ASSERT_EQ(w.vector(11, lane), std::min({a, b, c}));
      ASSERT_EQ(w.vector(12, lane), std::max({a, b, c}));
      ASSERT_EQ(w.vector(13, lane), (a & 0xffff) | b << 16);
      ASSERT_EQ(w.vector(14, lane), ~a);
      ASSERT_EQ(w.vector(15, lane), a ^ b ^ c);
      const Quad exact = Quad{f(w.vector(18, lane))} * Quad{f(w.vector(19, lane))} + Quad{f(w.vector(20, lane))};
      ASSERT_EQ(w.vector(16, lane), nearest_half(exact) << 16 | (w.vector(5, lane) & 0xffff));
      ASSERT_EQ(u16(w.vector(17, lane)), u16((a & 0xffff) * (b & 0xffff) + c));
    }
  }
}

TEST(AmdgpuMoves, LdsBytes) {
  for (const bool is_new : {false, true}) {
    Single single(is_new ? "gfx1100" : "gfx90a");
    Wave& w = single.wave();
    single.machine().options.check_races = false;
    w.group->lds.resize(1024);
    Random random{8};
    for (std::byte& byte : w.group->lds) byte = static_cast<std::byte>(random.next());
    for (unsigned lane = 0; lane < single.lanes(); ++lane) w.vector(0, lane) = lane * 4;
    const std::string read = is_new ? "ds_load_" : "ds_read_";
    single.run(read + "u8 v4, v0 offset:1\n" + read + "i8 v5, v0 offset:2\n" + read + "u16 v6, v0 offset:2\n" + read +
               "i16 v7, v0\ns_waitcnt lgkmcnt(0)");
    for (unsigned lane = 0; lane < single.lanes(); ++lane) {
      const auto byte = [&](unsigned at) { return std::to_integer<uint32_t>(w.group->lds[lane * 4 + at]); };
      EXPECT_EQ(w.vector(4, lane), byte(1));
      EXPECT_EQ(static_cast<int32_t>(w.vector(5, lane)), static_cast<int8_t>(byte(2)));
      EXPECT_EQ(w.vector(6, lane), byte(2) | byte(3) << 8);
      EXPECT_EQ(static_cast<int32_t>(w.vector(7, lane)), static_cast<int16_t>(byte(0) | byte(1) << 8));
    }
  }
}

TEST(AmdgpuMoves, ScalarComparisonsAndLogic) {
  Single single("gfx90a");
  Wave& w = single.wave();
  std::string text;
  unsigned to = 8;
  for (const char* name : {"eq_i32", "lg_i32", "le_i32", "ge_i32", "eq_u32", "lg_u32", "le_u32", "gt_u32"})
    text += std::string("s_cmp_") + name + " s0, s2\ns_cselect_b32 s" + std::to_string(to++) + ", 1, 0\n";
  single.prepare(text +
                 "s_not_b32 s16, s0\ns_nand_b32 s17, s0, s2\ns_nor_b32 s18, s0, s2\ns_xnor_b32 s19, s0, s2\ns_orn2_b32 s20, s0, s2\n"
                 "s_max_u32 s21, s0, s2\ns_abs_i32 s22, s0\ns_mul_hi_i32 s23, s0, s2\ns_not_b64 s[24:25], s[0:1]\ns_bfm_b32 s26, s0, s2\n"
                 "s_orn2_b64 s[28:29], s[0:1], s[2:3]\ns_mov_b32 s30, s0\ns_bitset0_b32 s30, s2\ns_mov_b32 s31, s0\ns_bitset1_b32 s31, s2\n"
                 "s_mov_b64 s[32:33], s[0:1]\ns_bitset0_b64 s[32:33], s2\ns_mov_b64 s[34:35], s[0:1]\ns_bitset1_b64 s[34:35], s2");
  Values values;
  for (unsigned round = 0; round < 500; ++round) {
    const uint32_t a = values.bits32(static_cast<unsigned>(values.random.next())),
                   b = values.random.below(4) == 0 ? a : values.bits32(static_cast<unsigned>(values.random.next()));
    w.scalars[0] = a;
    w.scalars[1] = b;
    w.scalars[2] = b;
    w.scalars[3] = b ^ round;
    single.again();
    const auto x = static_cast<int32_t>(a), y = static_cast<int32_t>(b);
    const bool expected[] = {x == y, x != y, x <= y, x >= y, a == b, a != b, a <= b, a > b};
    for (unsigned n = 0; n < std::size(expected); ++n) EXPECT_EQ(w.scalars[8 + n], expected[n] ? 1u : 0u) << n;
    EXPECT_EQ(w.scalars[16], ~a);
    EXPECT_EQ(w.scalars[17], ~(a & b));
    EXPECT_EQ(w.scalars[18], ~(a | b));
    EXPECT_EQ(w.scalars[19], ~(a ^ b));
    EXPECT_EQ(w.scalars[20], a | ~b);
    EXPECT_EQ(w.scalars[21], std::max(a, b));
    EXPECT_EQ(w.scalars[22], x < 0 ? 0u - a : a);
    EXPECT_EQ(w.scalars[23], static_cast<uint32_t>((int64_t{x} * y) >> 32));
    EXPECT_EQ(w.scalar64(24), ~(a | uint64_t{b} << 32));
    EXPECT_EQ(w.scalars[26], ((1u << a % 32) - 1) << b % 32);
    const uint64_t both = a | uint64_t{b} << 32;
    EXPECT_EQ(w.scalar64(28), both | ~(b | uint64_t{b ^ round} << 32));
    EXPECT_EQ(w.scalars[30], a & ~(1u << b % 32));
    EXPECT_EQ(w.scalars[31], a | 1u << b % 32);
    EXPECT_EQ(w.scalar64(32), both & ~(uint64_t{1} << b % 64));
    EXPECT_EQ(w.scalar64(34), both | uint64_t{1} << b % 64);
    if (HasFailure()) return;
  }
  Single newer("gfx1201");
  newer.prepare("s_cvt_f16_f32 s4, s0\ns_cvt_f32_f16 s5, s4");
  for (unsigned round = 0; round < 500; ++round) {
    const float x = f(newer.wave().scalars[0] = (values.bits32(2) & 0x807fffff) | (112u + static_cast<uint32_t>(round) % 30) << 23);
    newer.again();
    EXPECT_EQ(newer.wave().scalars[4], nearest_half(Quad{x})) << x;
    EXPECT_EQ(f(newer.wave().scalars[5]), half(newer.wave().scalars[4])) << x;
  }
}

}  // namespace
}  // namespace heddle::amdgpu
