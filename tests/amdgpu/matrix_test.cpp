// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix instructions against plain matrix products: layouts, modifiers, constants, what is forbidden.
#include <gtest/gtest.h>

#include "tests/amdgpu/matrix.h"
#include "tests/amdgpu/matrix_cases.h"

namespace heddle::amdgpu {
namespace {

TEST(AmdgpuMatrix, EveryLayout) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.processor) + ": " + text_of(c));
    Single single(c.processor, c.wave_size);
    Wave& w = single.wave();
    const bool mfma = w.size == 64 && c.wave_size == 0;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Matrices m(c, seed);
      single.machine().options.approximate = seed > 1;  // sums of integers are exact in any order
      single.machine().options.seed = seed;
      for (const char ab : {'v', 'a'}) {
        for (const char cd : {'v', 'a'}) {
          if (!mfma && (ab == 'a' || cd == 'a')) continue;
          const unsigned accumulators = single.machine().kernel.accum_offset;
          fill(w, c, m, ab == 'a' ? accumulators : 0, cd == 'a' ? accumulators : 0);
          if (mfma) w.set_exec(seed * 0x123456789abcdef);  // is ignored
          const auto before = w.vectors;
          single.run(text_of(c, ab, cd));
          EXPECT_EQ(wrong(w, c, cd == 'a' ? accumulators : 0, [&](const At& p) { return m.product(p); }), 0u);
          const unsigned first = (cd == 'a' ? accumulators : 0) + kD;
          for (unsigned r = 0; r < 256; ++r) {
            if (r >= first && r < first + c.registers_d) continue;
            ASSERT_TRUE(std::equal(&w.vectors[r * 64], &w.vectors[r * 64] + 64, &before[r * 64])) << "v" << r;
          }
        }
      }
      if (HasFailure()) return;
    }
  }
}

// A product does not show in which order the elements of a row lie, as long as A and B agree.
TEST(AmdgpuMatrix, EveryPlace) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.processor) + ": " + text_of(c));
    const Processor& processor = *find_processor(c.processor);
    const unsigned wave_size = c.wave_size != 0 ? c.wave_size : processor.gfx11 ? 32 : 64;
    MatrixPlan plan;
    plan.matrix = find_matrix(c.name);
    ASSERT_NE(plan.matrix, nullptr);
    place_matrix(plan, processor, wave_size, {}, false);
    EXPECT_EQ(plan.registers_ab, c.registers_ab);
    EXPECT_EQ(plan.registers_d, c.registers_d);
    size_t inputs = 0, outputs = 0;
    const bool repeats = std::string(c.processor) == "gfx1100";
    for (unsigned lane = 0; lane < wave_size; ++lane) {
      const auto is_here = [&](const Place& p, unsigned element) { return p.lane == lane && p.element == element; };
      for (unsigned e = 0; e < c.registers_ab * 32 / c.a.bits; ++e) {
        const At p = c.input(e, lane);
        if (p.block >= c.blocks || (repeats && lane >= 16)) continue;
        EXPECT_TRUE(is_here(plan.a[(p.block * c.size + p.line) * c.k + p.other], e)) << "A, lane " << lane << ", element " << e;
        EXPECT_TRUE(is_here(plan.b[(p.block * c.k + p.other) * c.size + p.line], e)) << "B, lane " << lane << ", element " << e;
        ++inputs;
      }
      for (unsigned e = 0; e < c.registers_d * 32 / c.d.bits; ++e) {
        const At p = c.output(e, lane);
        if (p.block >= c.blocks) continue;
        EXPECT_TRUE(is_here(plan.d[(p.block * c.size + p.line) * c.size + p.other], e)) << "D, lane " << lane << ", element " << e;
        ++outputs;
      }
    }
    EXPECT_EQ(inputs, plan.a.size());
    EXPECT_EQ(outputs, plan.d.size());
  }
}

// The other table of names: no instruction is without a case.
TEST(AmdgpuMatrix, EveryInstructionHasACase) {
  for (const std::string& name : implemented()) {
    if (name.rfind("v_mfma_", 0) != 0 && name.rfind("v_wmma_", 0) != 0) continue;
    EXPECT_TRUE(std::any_of(std::begin(kCases), std::end(kCases), [&](const Case& c) { return name == c.name; })) << name;
  }
}

// cbsz and abid: of each 2**cbsz blocks, all multiply the block `abid` of A.
TEST(AmdgpuMatrix, BroadcastBlocksOfA) {
  unsigned combinations = 0;
  for (const Case& c : kCases) {
    if (c.blocks == 1 || c.d.bits == 64) continue;
    SCOPED_TRACE(text_of(c));
    Single single(c.processor);
    const Matrices m(c, 5);
    for (unsigned cbsz = 1; 1u << cbsz <= c.blocks; ++cbsz) {
      for (unsigned abid = 0; abid < 1u << cbsz; ++abid) {
        fill(single.wave(), c, m, 0, 0);
        single.run(text_of(c, 'v', 'v', "cbsz:" + std::to_string(cbsz) + " abid:" + std::to_string(abid)));
        const auto expected = [&](const At& p) {
          const unsigned block = (p.block >> cbsz << cbsz) + abid;
          int sum = m.sums[m.at_d(p)];
          for (unsigned k = 0; k < c.k; ++k) sum += m.a[(block * c.size + p.line) * c.k + k] * m.b[(p.block * c.size + p.other) * c.k + k];
          return sum;
        };
        EXPECT_EQ(wrong(single.wave(), c, 0, expected), 0u) << "cbsz " << cbsz << ", abid " << abid;
        ++combinations;
      }
    }
    EXPECT_THROW(single.run(text_of(c, 'v', 'v', "cbsz:1 abid:2")), Fault);
    if (c.blocks < 16) {
      EXPECT_THROW(single.run(text_of(c, 'v', 'v', "cbsz:4")), Fault);
    }
  }
  EXPECT_GT(combinations, 200u);
}

// blgp: the same as without it on registers of B whose quarters are moved.
TEST(AmdgpuMatrix, PermuteLanesOfB) {
  static constexpr unsigned kFrom[8][4] = {{0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
                                           {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
  for (const Case& c : kCases) {
    if (c.processor[3] != '9' || c.d.bits == 64) continue;
    SCOPED_TRACE(text_of(c));
    Single single(c.processor);
    Wave& w = single.wave();
    for (unsigned blgp = 1; blgp < 8; ++blgp) {
      const Matrices m(c, blgp);
      fill(w, c, m, 0, 0);
      const auto original = w.vectors;
      single.run(text_of(c, 'v', 'v', "blgp:" + std::to_string(blgp)));
      const std::vector<uint32_t> with(&w.vectors[kD * 64], &w.vectors[(kD + c.registers_d) * 64]);
      w.vectors = original;
      for (unsigned r = kB; r < kB + c.registers_ab; ++r) {
        for (unsigned lane = 0; lane < 64; ++lane) w.vector(r, lane) = original[r * 64 + kFrom[blgp][lane / 16] * 16 + lane % 16];
      }
      single.run(text_of(c));
      EXPECT_TRUE(std::equal(with.begin(), with.end(), &w.vectors[kD * 64])) << "blgp " << blgp;
    }
  }
}

TEST(AmdgpuMatrix, Signs) {
  for (unsigned bits = 0; bits < 8; ++bits) {
    const auto list = [](unsigned b) {
      return "[" + std::to_string(b & 1) + "," + std::to_string(b >> 1 & 1) + "," + std::to_string(b >> 2) + "]";
    };
    const int sign = ((bits ^ bits >> 1) & 1) != 0 ? -1 : 1;
    {
      const Case& c = case_of("gfx942", "v_mfma_f64_16x16x4_f64");
      Single single(c.processor);
      const Matrices m(c, bits);
      fill(single.wave(), c, m, 0, 0);
      single.run(text_of(c, 'v', 'v', "neg:" + list(bits)));
      EXPECT_EQ(wrong(single.wave(), c, 0,
                      [&](const At& p) {
                        const int sum = m.sums[m.at_d(p)];
                        return sign * (m.product(p) - sum) + ((bits & 4) != 0 ? -sum : sum);
                      }),
                0u);
    }
    for (const char* processor : {"gfx1100", "gfx1201"}) {
      for (unsigned high = 0; high < 8; ++high) {
        const Case& c = case_of(processor, "v_wmma_f32_16x16x16_bf16");
        Single single(c.processor);
        const Matrices m(c, bits + 8 * high);
        fill(single.wave(), c, m, 0, 0);
        single.run(text_of(c, 'v', 'v', "neg_lo:" + list(bits) + " neg_hi:" + list(high)));
        const auto expected = [&](const At& p) {
          int sum = m.sums[m.at_d(p)];
          if ((high & 4) != 0) sum = std::abs(sum);
          if ((bits & 4) != 0) sum = -sum;
          for (unsigned k = 0; k < 16; ++k) {
            const unsigned flags = k % 2 == 0 ? bits : high;
            const int product = m.a[p.line * 16 + k] * m.b[p.other * 16 + k];
            sum += ((flags ^ flags >> 1) & 1) != 0 ? -product : product;
          }
          return sum;
        };
        EXPECT_EQ(wrong(single.wave(), c, 0, expected), 0u) << processor << " neg_lo " << bits << " neg_hi " << high;
      }
    }
  }
}

// Without a bit in neg_lo, A or B is unsigned: -1 counts as 255 or 15.
TEST(AmdgpuMatrix, UnsignedIntegersAndClamp) {
  for (const Case& c : kCases) {
    if (c.processor[3] != '1' || c.d.bits != 32 || c.d.exponent_bits != 0) continue;
    for (unsigned is_signed = 0; is_signed < 4; ++is_signed) {
      const std::string modifiers = std::string("neg_lo:[") + (is_signed & 1 ? "1," : "0,") + (is_signed & 2 ? "1,0]" : "0,0]");
      SCOPED_TRACE(text_of(c, 'v', 'v', modifiers));
      Single single(c.processor, c.wave_size);
      const Matrices m(c, is_signed);
      fill(single.wave(), c, m, 0, 0);
      single.run(text_of(c, 'v', 'v', modifiers));
      const auto expected = [&](const At& p) {
        int sum = m.sums[m.at_d(p)];
        const auto value = [&](int x, unsigned bit) { return (is_signed & bit) == 0 && x < 0 ? x + (1 << c.a.bits) : x; };
        for (unsigned k = 0; k < c.k; ++k) sum += value(m.a[p.line * c.k + k], 1) * value(m.b[p.other * c.k + k], 2);
        return sum;
      };
      EXPECT_EQ(wrong(single.wave(), c, 0, expected), 0u);
    }
    // C is the largest i32; 1 * 1 is added.
    Single single(c.processor, c.wave_size);
    Wave& w = single.wave();
    std::fill(w.vectors.begin(), w.vectors.end(), c.a.bits == 8 ? 0x01010101 : 0x11111111);
    for (unsigned r = kC; r < kC + c.registers_d; ++r) {
      for (unsigned lane = 0; lane < w.size; ++lane) w.vector(r, lane) = 0x7fffffff;
    }
    single.run(text_of(c, 'v', 'v', "neg_lo:[1,1,0] clamp"));
    EXPECT_EQ(w.vector(kD, 0), 0x7fffffffu);
    EXPECT_THROW(single.run(text_of(c, 'v', 'v', "neg_lo:[1,1,0]")), Fault);
  }
}

// RDNA3 writes one half of each register of a D of 16 bits, and reads C from the same half.
TEST(AmdgpuMatrix, UpperHalves) {
  for (const char* name : {"v_wmma_f16_16x16x16_f16", "v_wmma_bf16_16x16x16_bf16"}) {
    Case c = case_of("gfx1100", name);
    c.output = [](unsigned element, unsigned lane) {
      At p = output_rdna3_half(element, lane);
      p.block ^= 1;
      return p;
    };
    Single single(c.processor);
    const Matrices m(c, 3);
    fill(single.wave(), c, m, 0, 0);
    const auto before = single.wave().vectors;
    single.run(text_of(c, 'v', 'v', "op_sel:[0,0,1]"));
    EXPECT_EQ(wrong(single.wave(), c, 0, [&](const At& p) { return m.product(p); }), 0u);
    for (unsigned n = kD * 64; n < (kD + 8) * 64; ++n) EXPECT_EQ(single.wave().vectors[n] & 0xffff, before[n] & 0xffff);
  }
}

TEST(AmdgpuMatrix, Constants) {
  const std::tuple<const char*, const char*, const char*, int> kConstants[] = {
      {"gfx90a", "v_mfma_f32_32x32x8f16", "1.0", 1},    {"gfx90a", "v_mfma_f32_4x4x1f32", "-4.0", -4},
      {"gfx90a", "v_mfma_i32_32x32x8i8", "-16", -16},   {"gfx90a", "v_mfma_f64_16x16x4f64", "2.0", 2},
      {"gfx942", "v_mfma_f32_16x16x16_bf16", "0", 0},   {"gfx1100", "v_wmma_f32_16x16x16_f16", "2.0", 2},
      {"gfx1100", "v_wmma_i32_16x16x16_iu8", "64", 64}, {"gfx1201", "v_wmma_f16_16x16x16_f16", "4.0", 4},
      {"gfx1201", "v_wmma_bf16_16x16x16_bf16", "0", 0}, {"gfx1201", "v_wmma_f32_16x16x16_bf16", "-1.0", -1},
  };
  for (const auto& [processor, name, text, value] : kConstants) {
    const Case& c = case_of(processor, name);
    Single single(processor);
    const Matrices m(c, 8);
    fill(single.wave(), c, m, 0, 0);
    std::string instruction = text_of(c);
    const std::string registers_c = registers('v', kC, c.registers_d);
    instruction.replace(instruction.find(registers_c), registers_c.size(), text);
    SCOPED_TRACE(instruction);
    single.run(instruction);
    EXPECT_EQ(wrong(single.wave(), c, 0, [&, value = value](const At& p) { return m.product(p) - m.sums[m.at_d(p)] + value; }), 0u);
  }
}

// What the guides or LLVM forbid, as bytes where LLVM does not assemble it.
TEST(AmdgpuMatrix, WhatIsForbiddenIsAFault) {
  const auto found = [](Single& single, const std::string& what) {
    try {
      single.again();
    } catch (const Fault& fault) {
      EXPECT_NE(std::string(fault.what()).find(what), std::string::npos) << fault.what();
      return;
    }
    ADD_FAILURE() << "no fault: " << what;
  };
  const auto text = [&](const char* processor, const std::string& instruction, const std::string& what) {
    SCOPED_TRACE(instruction);
    Single single(processor);
    single.prepare(instruction);
    found(single, what);
  };
  const auto patched = [&](const char* processor, const std::string& instruction, size_t byte, uint8_t value, const std::string& what) {
    SCOPED_TRACE(instruction);
    Single single(processor);
    auto bytes = assemble(processor, instruction);
    bytes[byte] = static_cast<std::byte>(value);
    single.prepare(bytes);
    found(single, what);
  };
  text("gfx90a", "v_mfma_f32_32x32x1f32 v[0:31], v0, v40, v[0:31]", "overlaps 'v0'");
  text("gfx90a", "v_mfma_f32_32x32x1f32 v[0:31], v40, v31, v[0:31]", "overlaps 'v31'");
  text("gfx1100", "v_wmma_f32_16x16x16_f16 v[4:11], v[0:7], v[16:23], v[24:31]", "overlaps 'v[0:7]'");
  text("gfx1100", "v_wmma_f32_16x16x16_f16 v[24:31], v[0:7], v[16:23], v[25:32]", "overlaps a part of C");
  text("gfx1201", "v_wmma_i32_16x16x16_iu4 v[0:7], v8, v7, v[0:7]", "overlaps 'v7'");
  patched("gfx90a", "v_mfma_f32_32x32x1f32 v[2:33], v40, v41, v[2:33]", 0, 4, "overlaps a part of C");
  patched("gfx90a", "v_mfma_f32_16x16x4f32 v[2:5], v40, v41, v[2:5]", 0, 3, "even register");
  text("gfx90a", "v_mfma_f32_16x16x4f32 a[124:127], v40, v41, 0\nv_mfma_f32_16x16x4f32 a[128:131], v40, v41, 0", "a131 is not among");
  text("gfx942", "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10", "does not know");
  text("gfx1201", "v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[12:19], v20", "does not know");
  text("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mfma_f32_16x16x4_f32 v[2:5], v40, v41, 0", "flushes denormals");
  // Small results may overlap.
  for (const char* allowed : {"v_mfma_f32_4x4x1f32 v[0:3], v0, v1, v[0:3]", "v_mfma_f32_16x16x4f32 v[2:5], v2, v3, v[4:7]"}) {
    Single single("gfx90a");
    EXPECT_NO_THROW(single.run(allowed)) << allowed;
  }
}

TEST(AmdgpuMatrix, WmmaNeedsAllLanesReplicasAndAGap) {
  const Case& c = case_of("gfx1100", "v_wmma_f32_16x16x16_f16");
  const Matrices m(c, 2);
  Single single(c.processor);
  Wave& w = single.wave();
  fill(w, c, m, 0, 0);
  w.set_exec(0xfffffffe);
  EXPECT_THROW(single.run(text_of(c)), Fault);
  w.set_exec(0xffffffff);
  w.vector(kB + 3, 20) ^= 1;
  EXPECT_THROW(single.run(text_of(c)), Fault);
  w.vector(kB + 3, 20) ^= 1;
  EXPECT_NO_THROW(single.run(text_of(c)));
  // The result of one as B of the next.
  const std::string first = "v_wmma_f16_16x16x16_f16 v[64:71], v[0:7], v[16:23], v[32:39]\n";
  const std::string next = "v_wmma_f32_16x16x16_f16 v[80:87], v[0:7], v[64:71], v[80:87]\n";
  const std::string spread = "v_permlanex16_b32 v64, v64, s0, s0\n";  // any other vector instruction
  std::fill(w.vectors.begin(), w.vectors.end(), 0);
  EXPECT_THROW(single.run(first + next), Fault);
  for (const std::string& between : {std::string("v_nop\n"), spread}) EXPECT_NO_THROW(single.run(first + between + next));
  EXPECT_THROW(single.run(first + "s_nop 0\n" + next), Fault) << "a scalar instruction does not help";
  EXPECT_NO_THROW(single.run(first + "v_wmma_f32_16x16x16_f16 v[80:87], v[0:7], v[16:23], v[80:87]\n" + next));
  EXPECT_NO_THROW(single.run(first + "v_wmma_f16_16x16x16_f16 v[64:71], v[0:7], v[16:23], v[64:71]")) << "as C";
}

// The wait states between an MFMA and what uses its result, one fewer of which is a fault.
TEST(AmdgpuMatrix, ResultsOfMfmaTakeTime) {
  const auto nops = [](unsigned states) {
    std::string text;
    for (; states > 16; states -= 16) text += "s_nop 15\n";
    return states == 0 ? text : text + "s_nop " + std::to_string(states - 1) + "\n";
  };
  const struct {
    const char *processor, *first, *use;
    unsigned states;
  } cases[] = {
      {"gfx90a", "v_mfma_f32_4x4x1f32 v[64:67], v0, v1, 0", "v_mov_b32 v2, v66", 5},
      {"gfx90a", "v_mfma_f32_16x16x4f32 v[64:67], v0, v1, 0", "v_mov_b32 v66, v2", 11},
      {"gfx90a", "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], 0", "v_accvgpr_read_b32 v2, a15", 19},
      {"gfx90a", "v_mfma_f32_32x32x2f32 v[64:79], v0, v1, 0", "ds_bpermute_b32 v2, v3, v79\ns_waitcnt lgkmcnt(0)", 19},
      {"gfx90a", "v_mfma_f64_4x4x4f64 v[64:65], v[0:1], v[2:3], 0", "v_mov_b32 v2, v64", 6},
      {"gfx90a", "v_mfma_f64_16x16x4f64 v[64:71], v[0:1], v[2:3], 0", "v_mov_b32 v2, v71", 11},
      {"gfx90a", "v_mfma_i32_16x16x16i8 v[64:67], v0, v1, 0", "v_mfma_i32_16x16x16i8 v[64:67], v0, v1, v[64:67]", 0},
      {"gfx90a", "v_mfma_i32_16x16x16i8 v[64:67], v0, v1, 0", "v_mfma_i32_16x16x16i8 v[4:7], v0, v64, 0", 11},
      {"gfx90a", "v_mfma_f32_32x32x2f32 v[64:79], v0, v1, 0", "v_mfma_f32_16x16x4f32 v[4:7], v0, v1, v[76:79]", 16},
      {"gfx90a", "v_mfma_f32_4x4x1f32 v[64:67], v0, v1, 0", "v_mfma_f64_16x16x4f64 v[4:11], v[0:1], v[2:3], v[66:73]", 3},
      {"gfx90a", "v_mfma_f64_4x4x4f64 v[64:65], v[0:1], v[2:3], 0", "v_mfma_f64_4x4x4f64 v[64:65], v[0:1], v[2:3], v[64:65]", 4},
      {"gfx942", "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], 0", "v_accvgpr_read_b32 v2, a0", 11},
      {"gfx942", "v_mfma_f32_16x16x16_bf16 v[64:67], v[0:1], v[2:3], 0", "v_mov_b32 v2, v64", 7},
      {"gfx942", "v_mfma_f32_16x16x4_f32 v[64:67], v0, v1, 0", "v_mov_b32 v2, v64", 10},
      {"gfx942", "v_mfma_f32_32x32x2_f32 v[64:79], v0, v1, 0", "v_mov_b32 v2, v64", 18},
      {"gfx942", "v_mfma_f32_32x32x4_2b_f16 v[64:95], v[0:1], v[2:3], 0", "v_mov_b32 v2, v64", 19},
      {"gfx942", "v_mfma_f32_4x4x4_16b_f16 v[64:67], v[0:1], v[2:3], 0", "v_mov_b32 v2, v64", 5},
      {"gfx942", "v_mfma_f32_4x4x4_16b_f16 v[64:67], v[0:1], v[2:3], 0", "v_mfma_f32_4x4x4_16b_f16 v[64:67], v[0:1], v[2:3], v[64:67]", 2},
      {"gfx942", "v_mfma_f32_16x16x16_f16 v[64:67], v[0:1], v[2:3], 0", "v_mfma_f32_16x16x16_f16 v[4:7], v[64:65], v[2:3], 0", 7},
      {"gfx942", "v_mfma_f32_32x32x8_f16 v[64:79], v[0:1], v[2:3], 0", "v_mfma_f32_16x16x16_f16 v[4:7], v[0:1], v[2:3], v[64:67]", 9},
      {"gfx942", "v_mfma_f32_32x32x2_f32 v[64:79], v0, v1, 0", "v_mfma_f32_16x16x4_f32 v[4:7], v0, v1, v[64:67]", 16},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.processor) + ": " + c.first + "; " + c.use);
    Single single(c.processor);
    EXPECT_NO_THROW(single.run(std::string(c.first) + "\n" + nops(c.states) + c.use));
    single.run(nops(32));
    if (c.states == 0) continue;
    EXPECT_THROW(single.run(std::string(c.first) + "\n" + nops(c.states - 1) + c.use), Fault);
    single.run(nops(32));
    EXPECT_NO_THROW(single.run(std::string(c.first) + "\nv_mov_b32 v100, v101\n" + nops(c.states - 1) + c.use)) << "any instruction counts";
  }
}

// A result of a load as any of the operands needs its wait.
TEST(AmdgpuMatrix, LoadsAreWaitedFor) {
  std::array<uint32_t, 64> data{};
  for (const char* operand : {"v0", "v16", "v32", "v64"}) {
    const Case& c = case_of("gfx90a", "v_mfma_f32_32x32x2f32");
    Single single(c.processor);
    Wave& w = single.wave();
    w.set_scalar64(0, uint64_t{1} << 40);
    single.machine().memory.map(uint64_t{1} << 40, data.data(), sizeof(data), false, "data");
    const std::string load = std::string("global_load_dword ") + operand + ", v100, s[0:1]\n";
    EXPECT_THROW(single.run(load + text_of(c)), Fault) << operand;
    single.run("s_waitcnt vmcnt(0)\ns_nop 15\ns_nop 15");
    EXPECT_NO_THROW(single.run(load + "s_waitcnt vmcnt(0)\n" + text_of(c))) << operand;
  }
}

}  // namespace
}  // namespace heddle::amdgpu
