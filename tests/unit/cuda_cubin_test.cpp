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
constexpr size_t kSectionBytes = 64, kSectionType = 4, kSectionFlags = 8, kSectionOffset = 24, kSectionSizeInFile = 32, kSectionLink = 40,
                 kSectionInfo = 44, kSectionEntrySize = 56, kSegmentBytes = 56, kSegmentOffset = 8, kSegmentFileBytes = 32;

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

// Each of these ends the process inside of CUDA's loader.
TEST(CudaCubin, RefusesNamesTablesAndIndicesThatLeadOutOfIt) {
  for (const std::vector<char>& code : cubins()) {
    const size_t count = get<uint16_t>(code, kSectionCount), names = get<uint16_t>(code, kNames);
    auto header = [&](size_t section) { return static_cast<size_t>(get<uint64_t>(code, kSections)) + kSectionBytes * section; };
    auto first = [&](auto is_wanted) {
      size_t section = 0;
      while (section < count && !is_wanted(header(section))) ++section;
      EXPECT_LT(section, count);
      return section;
    };
    auto of_type = [&](uint32_t type) { return first([&](size_t at) { return get<uint32_t>(code, at + kSectionType) == type; }); };
    const size_t symbols = of_type(2);
    const size_t relocations = first([&](size_t at) {
      const auto type = get<uint32_t>(code, at + kSectionType);
      return type == 4 || type == 9;
    });
    const size_t kernel = first([&](size_t at) { return (get<uint64_t>(code, at + kSectionFlags) & 4) != 0; });
    const uint64_t symbol_count = get<uint64_t>(code, header(symbols) + kSectionSizeInFile) / 24;
    auto changed = [&](size_t section, size_t member, auto value, const std::string& part) {
      std::vector<char> copy = code;
      set(copy, header(section) + member, value);
      expect_damaged(copy, part);
    };
    auto number = [](uint64_t value) { return std::to_string(value); };
    const std::string no_names = "section " + number(names) + " of its cubin does not hold the names of the others";
    changed(names, kSectionType, uint32_t{8}, no_names);
    changed(names, kSectionSizeInFile, uint64_t{0}, no_names);
    changed(names, kSectionSizeInFile, get<uint64_t>(code, header(names) + kSectionSizeInFile) - 1, no_names);
    changed(2, 0, uint32_t{0x7fffffff}, "the name of section 2 of its cubin is 2147483647, but should be below ");
    for (size_t table : {symbols, relocations}) {
      const std::string before = "section " + number(table) + " of its cubin has ";
      changed(table, kSectionEntrySize, uint64_t{0}, before);
      changed(table, kSectionEntrySize, uint64_t{8}, " in entries of 8, but should have whole entries of ");
      changed(table, kSectionSizeInFile, get<uint64_t>(code, header(table) + kSectionSizeInFile) - 1, before);
    }
    for (size_t section = 0; section < count; ++section) {
      changed(section, kSectionLink, static_cast<uint32_t>(count),
              "the link of section " + number(section) + " of its cubin is " + number(count) + ", but should be below " + number(count));
    }
    changed(relocations, kSectionInfo, static_cast<uint32_t>(count), "the info of section " + number(relocations) + " of its cubin is ");
    changed(of_type(0x70000000), kSectionInfo, uint32_t{0xfffff0}, " of its cubin is 16777200, but should be below " + number(count));
    changed(symbols, kSectionInfo, static_cast<uint32_t>(symbol_count + 1), "the first global symbol of section ");
    changed(kernel, kSectionInfo, static_cast<uint32_t>(0x0c000000 | symbol_count), "the symbol of section " + number(kernel));
    std::string reason;
    std::vector<char> fine = code;
    set(fine, header(kernel) + kSectionInfo, static_cast<uint32_t>(0x0c000000 | (symbol_count - 1)));
    EXPECT_EQ(check(fine, &reason), HEDDLE_STATUS_OK) << reason;
  }
}

}  // namespace
}  // namespace heddle::test
