// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The check of cubins, on two that ptxas wrote, and on what damage makes of them.
#include "cuda/cubin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace heddle::test {
namespace {

// Offsets of ELF64's header, sections and segments.
constexpr size_t kMachine = 18, kPrograms = 32, kSections = 40, kProgramSize = 54, kProgramCount = 56, kSectionSize = 58,
                 kSectionCount = 60, kNames = 62;
constexpr size_t kSectionBytes = 64, kSectionOffset = 24, kSegmentBytes = 56, kSegmentOffset = 8, kSegmentFileBytes = 32;

template <typename T>
T get(const std::vector<char>& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <typename T>
void set(std::vector<char>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// The code of a module's two variants, each up to the end of its tables.
std::vector<std::vector<char>> cubins() {
  std::ifstream file(HEDDLE_TEST_CUBIN, std::ios::binary);
  const std::vector<char> module{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::vector<char>> found;
  for (size_t at = 0; at + 64 <= module.size(); at += 4096) {
    if (std::memcmp(module.data() + at, "\177ELF", 4) != 0) continue;
    std::vector<char> code(module.begin() + static_cast<long>(at), module.end());
    const size_t sections = get<uint64_t>(code, kSections) + kSectionBytes * get<uint16_t>(code, kSectionCount);
    const size_t programs = get<uint64_t>(code, kPrograms) + kSegmentBytes * get<uint16_t>(code, kProgramCount);
    code.resize(std::max(sections, programs));
    found.push_back(std::move(code));
  }
  return found;
}

heddle_status_code_t check(const std::vector<char>& code, std::string* out_reason) {
  return cuda::check_cubin(code.data(), code.size(), out_reason);
}
void expect_damaged(const std::vector<char>& code, const std::string& part) {
  std::string reason;
  EXPECT_EQ(check(code, &reason), HEDDLE_STATUS_DATA_LOSS);
  EXPECT_NE(reason.find(part), std::string::npos) << reason;
}

TEST(CudaCubin, AcceptsWhatPtxasWrites) {
  const auto all = cubins();
  ASSERT_EQ(all.size(), 2u);
  for (const std::vector<char>& code : all) {
    std::string reason;
    EXPECT_EQ(check(code, &reason), HEDDLE_STATUS_OK) << reason;
  }
}

TEST(CudaCubin, RefusesEveryPrefix) {
  for (const std::vector<char>& code : cubins()) {
    for (size_t size = 0; size < code.size(); ++size) {
      std::string reason;
      // A copy of its own, so that a sanitizer sees a read beyond the end.
      EXPECT_EQ(check(std::vector<char>(code.begin(), code.begin() + static_cast<long>(size)), &reason), HEDDLE_STATUS_DATA_LOSS) << size;
    }
  }
}

TEST(CudaCubin, SaysWhatIsWrong) {
  for (const std::vector<char>& code : cubins()) {
    std::string reason;
    std::vector<char> other = code;
    set<uint16_t>(other, kMachine, 62);
    EXPECT_EQ(check(other, &reason), HEDDLE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(reason, "its code is not a 64-bit ELF file for CUDA");
    auto changed = [&](auto change, const std::string& part) {
      std::vector<char> copy = code;
      change(copy);
      expect_damaged(copy, part);
    };
    const size_t sections = get<uint64_t>(code, kSections), programs = get<uint64_t>(code, kPrograms);
    const uint16_t segments = get<uint16_t>(code, kProgramCount);
    changed([](auto& c) { set<uint16_t>(c, kSectionCount, 0); }, "its cubin has 0 sections");
    changed([](auto& c) { set<uint16_t>(c, kSectionCount, 0xff00); }, "its cubin has 65280 sections");
    changed([](auto& c) { set<uint16_t>(c, kProgramCount, 0xffff); }, "and 65535 segments");
    changed([](auto& c) { set<uint16_t>(c, kNames, 0xffff); }, "section 65535, the names of its cubin, does not exist");
    changed([](auto& c) { set<uint16_t>(c, kSectionSize, 40); }, "the tables of its cubin end after its ");
    changed([](auto& c) { set<uint16_t>(c, kProgramSize, 32); }, "the tables of its cubin end after its ");
    changed([](auto& c) { set<uint64_t>(c, kSections, UINT64_MAX - 8); }, "the tables of its cubin end after its ");
    changed([](auto& c) { set<uint64_t>(c, kPrograms, UINT64_MAX - 8); }, "the tables of its cubin end after its ");
    changed([&](auto& c) { set<uint64_t>(c, sections + kSectionBytes + kSectionOffset, UINT64_MAX - 1); },
            "section 1 of its cubin ends after its ");
    const size_t last = programs + kSegmentBytes * (segments - 1);
    changed([&](auto& c) { set<uint64_t>(c, last + kSegmentFileBytes, UINT64_MAX); },
            "segment " + std::to_string(segments - 1) + " of its cubin ends after its ");
    changed([&](auto& c) { set<uint64_t>(c, programs + kSegmentOffset, c.size() + 1); }, "segment 0 of its cubin ends after its ");
  }
}

}  // namespace
}  // namespace heddle::test
