// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entries of the cache of kernels: what was written is read, and what is damaged is not.
#include "compiler/code/code_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/temporary_folder.h"

namespace heddle::compiler {
namespace {

CachedCode sample() {
  CachedCode code;
  code.resources.workspace_bytes = uint64_t{5} << 32;
  code.resources.workgroup_size = 256;
  code.resources.subgroup_size = 32;
  code.resources.shared_memory_bytes = 7;
  code.resources.registers = 64;
  code.resources.spilled_bytes = 8;
  code.resources.rung = "tile 64x64";
  code.calls = {"tile_6x64", ""};
  code.bytes = {'\0', 'a', '\xff'};
  return code;
}

void expect_sample(const std::optional<CachedCode>& got) {
  ASSERT_TRUE(got);
  const CachedCode wanted = sample();
  EXPECT_EQ(got->resources.workspace_bytes, wanted.resources.workspace_bytes);
  EXPECT_EQ(got->resources.workgroup_size, wanted.resources.workgroup_size);
  EXPECT_EQ(got->resources.subgroup_size, wanted.resources.subgroup_size);
  EXPECT_EQ(got->resources.shared_memory_bytes, wanted.resources.shared_memory_bytes);
  EXPECT_EQ(got->resources.registers, wanted.resources.registers);
  EXPECT_EQ(got->resources.spilled_bytes, wanted.resources.spilled_bytes);
  EXPECT_EQ(got->resources.rung, wanted.resources.rung);
  EXPECT_EQ(got->calls, wanted.calls);
  EXPECT_EQ(got->bytes, wanted.bytes);
}

TEST(CodeCache, ReadsWhatItWrote) {
  expect_sample(CodeCache::decode(CodeCache::encode(sample())));
}

TEST(CodeCache, ReadsNothingDamaged) {
  const std::string text = CodeCache::encode(sample());
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(CodeCache::decode(text.substr(0, size))) << size;
  EXPECT_FALSE(CodeCache::decode(text + "x"));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_FALSE(CodeCache::decode(damaged)) << i;
  }
}

TEST(CodeCache, HasEntriesByAllThatTheyDependOn) {
  ASSERT_FALSE(code_generators().empty()) << "libraries without build IDs";
  EXPECT_EQ(CodeCache::key_of("a"), CodeCache::key_of("a"));
  EXPECT_NE(CodeCache::key_of("a"), CodeCache::key_of("b"));
  testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "kernels").string(), key = CodeCache::key_of("a");
  CodeCache first(path), second(path);
  EXPECT_FALSE(first.find(key));
  first.keep(key, sample());
  first.trim();
  expect_sample(second.find(key));
  EXPECT_EQ(second.hits(), 1u);
  EXPECT_FALSE(second.find(CodeCache::key_of("b")));
  std::filesystem::resize_file(std::filesystem::path(path) / key, 20);
  EXPECT_FALSE(second.find(key));
}

}  // namespace
}  // namespace heddle::compiler
