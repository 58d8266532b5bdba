// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults that are planted into compiled kernels, by changing bytes of their code: each has to be found. And damaged code objects.
#include <algorithm>
#include <functional>

#include "tests/amdgpu/assemble.h"
#include "tests/amdgpu/harness.h"

namespace heddle::amdgpu {
namespace {

using testing::Test;

class AmdgpuFaults : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { bytes_ = read_code_object(std::string("kernels.") + GetParam() + ".hsaco"); }
  bool gfx11() const { return std::string(GetParam()) == "gfx1100"; }

  // The steps of the reduction with more than one wave: 128 and 64 of 256 values, and 32 with waves of 32.
  size_t needed_barriers() const { return gfx11() ? 3 : 2; }

  // Lines of a kernel whose text begins with one of the prefixes.
  std::vector<Line> find(const std::string& kernel, std::initializer_list<const char*> prefixes) {
    const auto code = CodeObject::load(bytes_);
    std::vector<Line> found;
    for (const Line& line : code->listing(kernel)) {
      for (const char* prefix : prefixes) {
        if (line.text.rfind(prefix, 0) == 0) found.push_back(line);
      }
    }
    return found;
  }
  void replace(const Line& line, const std::string& text) {
    auto code = assemble(GetParam(), text);
    ASSERT_LE(code.size(), line.bytes) << text;
    const auto nop = assemble(GetParam(), "s_nop 0");
    while (code.size() < line.bytes) code.insert(code.end(), nop.begin(), nop.end());
    std::copy(code.begin(), code.end(), bytes_.begin() + static_cast<ptrdiff_t>(line.file_offset));
  }

  // What a reduction says: the text of its fault, "wrong" if its result is, "" if all is well.
  std::string reduce(uint64_t seed = 0, const Options& options = {}) {
    const auto code = CodeObject::load(bytes_);
    std::vector<float> x(1024), y(4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
    Call c{*code, "reduce", {1024}, {256}};
    const Outcome o = c.array(x, false).array(y).run(seed, options);
    if (!o.ok()) return o.fault;
    for (size_t g = 0; g < 4; ++g) {
      float sum = 0;
      for (size_t i = 0; i < 256; ++i) sum += x[g * 256 + i];
      if (y[g] != sum) return "wrong";
    }
    return "";
  }
  std::string saxpy(size_t elements = 1000, uint64_t seed = 0, bool writable = true) {
    const auto code = CodeObject::load(bytes_);
    std::vector<float> x(elements, 2), y(1000, 3);
    Call c{*code, "saxpy", {1024}, {256}};
    const Outcome o = c.array(x, false).array(y, writable).value(10.0F).value(1000).run(seed);
    if (!o.ok()) return o.fault;
    return std::all_of(y.begin(), y.end(), [](float v) { return v == 23; }) ? "" : "wrong";
  }
  std::vector<std::byte> bytes_;
};
INSTANTIATE_TEST_SUITE_P(Processors, AmdgpuFaults, testing::Values("gfx90a", "gfx942", "gfx1100"),
                         [](const auto& info) { return std::string(info.param); });

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_P(AmdgpuFaults, NoneIsFoundWhereNoneIs) {
  EXPECT_EQ(reduce(), "");
  EXPECT_EQ(saxpy(), "");
}

// Each wait of the kernels in turn.
TEST_P(AmdgpuFaults, EveryRemovedWaitIsFound) {
  const auto original = bytes_;
  for (const char* kernel : {"saxpy", "reduce"}) {
    for (const Line& line : find(kernel, {"s_waitcnt"})) {
      if (line.text.rfind("s_waitcnt_vscnt", 0) == 0 || line.text.rfind("s_waitcnt_depctr", 0) == 0)
        continue;  // of stores that nobody reads
      bytes_ = original;
      // Before a barrier that orders nothing, because one wave does the rest alone.
      const auto barriers = find("reduce", {"s_barrier"});
      bool idle = false;
      for (size_t n = needed_barriers(); n < barriers.size(); ++n)
        idle = idle || (std::string(kernel) == "reduce" && line.address < barriers[n].address && barriers[n].address - line.address <= 12);
      if (idle) continue;
      replace(line, "s_nop 0");
      bool found = false;
      std::string first;
      for (uint64_t seed = 0; seed < 8 && !found; ++seed) {
        const std::string result = std::string(kernel) == "saxpy" ? saxpy(1000, seed) : reduce(seed);
        found = !result.empty();
        if (first.empty()) first = result;
      }
      EXPECT_TRUE(found) << kernel << ": '" << line.text << "' at " << std::hex << line.address;
      EXPECT_TRUE(contains(first, "is used before a wait for") || contains(first, "not waited for") || first == "wrong") << first;
    }
  }
}

TEST_P(AmdgpuFaults, EveryRemovedBarrierIsFound) {
  const auto original = bytes_;
  const auto barriers = find("reduce", {"s_barrier"});
  ASSERT_EQ(barriers.size(), 8u);
  for (const Line& line : barriers) {
    bytes_ = original;
    replace(line, "s_nop 0");
    bool found = false;
    for (uint64_t seed = 0; seed < 8 && !found; ++seed) found = !reduce(seed).empty();
    // After the steps that one wave does alone, a barrier has nothing to order.
    const size_t position = static_cast<size_t>(
        std::find_if(barriers.begin(), barriers.end(), [&](const Line& b) { return b.address == line.address; }) - barriers.begin());
    if (position < needed_barriers()) {
      EXPECT_TRUE(found) << "barrier " << position;
    }
  }
}

TEST_P(AmdgpuFaults, RaceWithoutABarrierNamesTheWaves) {
  replace(find("reduce", {"s_barrier"})[0], "s_nop 0");
  bool named = false;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::string result = reduce(seed);
    named = named || (contains(result, "of LDS, which wave") && contains(result, "kernel 'reduce'"));
  }
  EXPECT_TRUE(named);
  // Without the check, the result tells.
  bool wrong = false;
  Options options;
  options.check_races = false;
  for (uint64_t seed = 0; seed < 20; ++seed) wrong = wrong || reduce(seed, options) == "wrong";
  EXPECT_TRUE(wrong);
}

TEST_P(AmdgpuFaults, BarrierThatAPartReaches) {
  // The first branch around a step now jumps over the next barrier, too: it ends the program for waves without active lanes.
  const auto branches = find("reduce", {"s_cbranch_execz"});
  ASSERT_FALSE(branches.empty());
  const auto barriers = find("reduce", {"s_barrier"});
  for (const Line& b : branches) {
    if (b.address < barriers[0].address) continue;
    replace(b, "s_endpgm");
    break;
  }
  const std::string result = reduce();
  EXPECT_TRUE(contains(result, "barrier") || contains(result, "wrong")) << result;
}

TEST_P(AmdgpuFaults, BarrierInDivergentLanes) {
  // EXEC has half of the lanes when the second barrier comes.
  const auto lines = find("reduce", {"s_barrier"});
  const auto waits = find("reduce", {"s_waitcnt lgkmcnt(0)"});
  for (const Line& w : waits) {
    if (w.address + 4 == lines[1].address) replace(w, gfx11() ? "s_mov_b32 exec_lo, 3" : "s_mov_b64 exec, 3");
  }
  EXPECT_TRUE(contains(reduce(), "a barrier that only a part of the wave reaches")) << reduce();
}

TEST_P(AmdgpuFaults, LdsOutOfBounds) {
  const auto original = bytes_;
  const auto store = find("reduce", {"ds_write_b32", "ds_store_b32"});
  ASSERT_FALSE(store.empty());
  replace(store[0], store[0].text + " offset:1020");
  const std::string result = reduce();
  EXPECT_TRUE(contains(result, "of LDS, which has 1024 bytes")) << result;
  EXPECT_TRUE(contains(result, "kernel + 0x")) << result;
  bytes_ = original;
  const auto load = find("reduce", {"ds_read2", "ds_load_2addr"});
  ASSERT_FALSE(load.empty());
  replace(load[0], load[0].text.substr(0, load[0].text.find("offset")) + "offset1:255");
  EXPECT_TRUE(contains(reduce(), "of LDS, which has 1024 bytes")) << reduce();
}

TEST_P(AmdgpuFaults, LdsOffsetWithinBounds) {
  const auto load = find("reduce", {"ds_read2", "ds_load_2addr"});
  replace(load[0], load[0].text.substr(0, load[0].text.find("offset")) + "offset1:3");
  EXPECT_NE(reduce(), "");
}

TEST_P(AmdgpuFaults, SwappedRegisters) {
  // The product of the scalar with y, not with x; and an address made from the wrong pointer.
  const auto original = bytes_;
  const auto product = find("saxpy", {"v_mul_f32"});
  const auto sum = find("saxpy", {"v_add_f32"});
  ASSERT_EQ(product.size(), 1u);
  ASSERT_EQ(sum.size(), 1u);
  const auto last = [](const std::string& text) { return text.substr(text.rfind(", ") + 2); };
  replace(product[0], product[0].text.substr(0, product[0].text.rfind(", ")) + ", " + last(sum[0].text));
  EXPECT_NE(saxpy(), "");
  bytes_ = original;
  const auto address = find("saxpy", {"v_add_co_u32", "v_lshl_add_u64"});
  ASSERT_EQ(address.size(), 2u);
  replace(address[0], address[1].text.substr(0, address[1].text.find(' ')) +
                          address[0].text.substr(address[0].text.find(' '), address[0].text.find(',') - address[0].text.find(' ')) +
                          address[1].text.substr(address[1].text.find(',')));
  EXPECT_NE(saxpy(), "");
}

TEST_P(AmdgpuFaults, WrongArithmetic) {
  const auto sum = find("reduce", {"v_add_f32"});
  ASSERT_FALSE(sum.empty());
  std::string text = sum[0].text;
  replace(sum[0], text.replace(0, 9, "v_sub_f32"));
  EXPECT_EQ(reduce(), "wrong");
}

TEST_P(AmdgpuFaults, WrongBranch) {
  const auto branch = find("saxpy", {"s_cbranch_execz", "v_cmp_gt_i32", "v_cmpx_gt_i32"});
  ASSERT_FALSE(branch.empty());
  const auto compare = find("saxpy", {"v_cmp_gt_i32", "v_cmpx_gt_i32"});
  std::string text = compare[0].text;
  replace(compare[0], text.replace(text.find("_gt_"), 4, "_le_"));
  EXPECT_NE(saxpy(), "");
}

TEST_P(AmdgpuFaults, MissingMaskRestore) {
  const auto restore = find("reduce", {gfx11() ? "s_or_b32 exec_lo" : "s_or_b64 exec"});
  ASSERT_FALSE(restore.empty());
  replace(restore[0], "s_nop 0");
  EXPECT_NE(reduce(), "");
}

TEST_P(AmdgpuFaults, StrayAccess) {
  std::string result = saxpy(900);
  EXPECT_TRUE(contains(result, "outside of every allocation")) << result;
  EXPECT_TRUE(contains(result, "lane ")) << result;
  EXPECT_TRUE(contains(result, gfx11() ? "global_load_b32" : "global_load_dword")) << result;
  result = saxpy(1000, 0, false);
  EXPECT_TRUE(contains(result, "which is read-only")) << result;
}

TEST_P(AmdgpuFaults, RegisterThatIsNotAllocated) {
  const auto move = find("reduce", {"v_mov_b32", "v_dual_mov_b32", "v_lshlrev_b32"});
  ASSERT_FALSE(move.empty());
  replace(move[0], "v_mov_b32 v200, 0");
  EXPECT_TRUE(contains(reduce(), "v200 is not among")) << reduce();
}

TEST_P(AmdgpuFaults, UnknownInstructionAndEndlessLoop) {
  const auto original = bytes_;
  const auto nop = find("saxpy", {"s_endpgm"});
  ASSERT_FALSE(nop.empty());
  replace(nop[0], "s_sethalt 1");
  EXPECT_TRUE(contains(saxpy(), "does not know this instruction: 's_sethalt 1'")) << saxpy();
  bytes_ = original;
  const auto code = [&] { return CodeObject::load(bytes_); };
  replace(nop[0], "s_branch 65535");
  std::vector<float> x(1000), y(1000);
  const auto object = code();
  Call c{*object, "saxpy", {64}, {64}};
  Options options;
  options.max_instructions = 5000;
  EXPECT_TRUE(contains(c.array(x).array(y).value(1.0F).value(1000).run(0, options).fault, "has not ended after 5000 instructions"));
}

// GFX12 has other waits, and barriers of two halves.
class AmdgpuFaultsOfGfx12 : public AmdgpuFaults {};
INSTANTIATE_TEST_SUITE_P(Processors, AmdgpuFaultsOfGfx12, testing::Values("gfx1201"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AmdgpuFaultsOfGfx12, RemovedWaitsAndHalvesOfBarriers) {
  EXPECT_EQ(reduce(), "");
  EXPECT_EQ(saxpy(), "");
  const auto original = bytes_;
  const auto found = [&](const char* kernel) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const std::string result = std::string(kernel) == "saxpy" ? saxpy(1000, seed) : reduce(seed);
      if (!result.empty()) return true;
    }
    return false;
  };
  for (const Line& line : find("saxpy", {"s_wait_loadcnt", "s_wait_kmcnt"})) {
    bytes_ = original;
    replace(line, "s_nop 0");
    EXPECT_TRUE(found("saxpy")) << line.text;
  }
  // Up to the third barrier, which is the last with more than one active wave.
  const auto signals = find("reduce", {"s_barrier_signal"}), waits = find("reduce", {"s_barrier_wait"});
  ASSERT_EQ(signals.size(), 8u);
  ASSERT_EQ(waits.size(), 8u);
  for (const Line& line : find("reduce", {"s_wait_dscnt"})) {
    if (line.address > signals[2].address) break;
    bytes_ = original;
    replace(line, "s_nop 0");
    EXPECT_TRUE(found("reduce")) << line.text << " at " << line.address;
  }
  for (size_t n = 0; n < 3; ++n) {
    for (const int removed : {1, 2, 3}) {
      bytes_ = original;
      if ((removed & 1) != 0) replace(signals[n], "s_nop 0");
      if ((removed & 2) != 0) replace(waits[n], "s_nop 0");
      EXPECT_TRUE(found("reduce")) << "barrier " << n << ", halves " << removed;
    }
  }
}

TEST_P(AmdgpuFaults, Launches) {
  const auto code = CodeObject::load(bytes_);
  std::vector<float> x(1024), y(1024);
  Call c{*code, "saxpy", {4096}, {2048}};
  EXPECT_TRUE(contains(c.array(x).array(y).value(1.0F).value(0).run().fault, "the workgroup has 2048 work items"));
  Call d{*code, "saxpy", {0}, {64}};
  EXPECT_TRUE(contains(d.array(x).array(y).value(1.0F).value(0).run().fault, "is empty"));
  const Kernel* k = code->kernel("saxpy");
  EXPECT_TRUE(contains(run(*code, *k, {{64}, {64}, {}, 0}, {}).fault, "there are 0 bytes of arguments"));
  EXPECT_TRUE(contains(run(*code, *k, {{64}, {64}, c.kernarg, 70000}, {}).fault, "bytes of LDS; there are 65536"));
}

// Every byte of the headers and of the metadata, changed: an error with a text, or a file that still loads; never a crash.
TEST_P(AmdgpuFaults, DamagedCodeObjects) {
  const auto loads = [&](std::span<const std::byte> bytes) {
    try {
      CodeObject::load(bytes);
      return std::string();
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(loads(bytes_), "");
  size_t refused = 0;
  for (size_t at = 0; at < std::min<size_t>(bytes_.size(), 6000); at += at < 600 ? 1 : 7) {
    for (const std::byte change : {std::byte{0xff}, std::byte{0x80}, std::byte{1}}) {
      auto damaged = bytes_;
      damaged[at] ^= change;
      refused += loads(damaged).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 500u);
  for (size_t size = 0; size < bytes_.size(); size += 97) loads(std::span(bytes_).first(size));
  EXPECT_TRUE(contains(loads({}), "ends at byte 0"));
  // Metadata that lies about LDS.
  const auto code = CodeObject::load(bytes_);
  auto lie = bytes_;
  const std::string key = ".group_segment_fixed_size";
  const auto begin = reinterpret_cast<const char*>(lie.data());
  const std::string text(begin, lie.size());
  size_t at = text.find(key);
  while (at != std::string::npos && static_cast<uint8_t>(text[at + key.size()]) != 0xcd) at = text.find(key, at + 1);
  ASSERT_NE(at, std::string::npos) << "a kernel with more than 255 bytes of LDS";
  lie[at + key.size() + 1] ^= std::byte{2};
  EXPECT_TRUE(contains(loads(lie), "the descriptor says 1024")) << loads(lie);
  // Another chip.
  lie = bytes_;
  lie[48] = std::byte{0x4f};
  EXPECT_TRUE(contains(loads(lie), "processor 0x4f of e_flags is not gfx90a")) << loads(lie);
  lie[48] = gfx11() ? std::byte{0x3f} : std::byte{0x41};
  EXPECT_TRUE(contains(loads(lie), "the metadata is for '")) << loads(lie);
}

}  // namespace
}  // namespace heddle::amdgpu
