// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index of shards: what it says, and every rule that it can break.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "../temporary_folder.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/safetensors_shards.h"

namespace heddle::module {
namespace {

using ::heddle::testing::TemporaryFolder;
using ::heddle::testing::write_file;
using ::testing::HasSubstr;

Result<ShardIndex> parse(const std::string& text) {
  TemporaryFolder folder;
  const std::string path = folder.path("model.safetensors.index.json");
  write_file(path, text);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto index = read_shard_index(descriptor, text.size(), path);
  close(descriptor);
  return index;
}

TEST(Shards, AreNumberedAndTensorsSorted) {
  auto index = parse(R"({"metadata": {"total_size": 12, "more": [1]}, "weight_map": {"z": "b.st", "a": "c.st", "m": "b.st"}, "other": 1})");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index.value().shards, (std::vector<std::string>{"b.st", "c.st"}));
  ASSERT_EQ(index.value().entries.size(), 3u);
  EXPECT_EQ(index.value().entries[0].name, "a");
  EXPECT_EQ(index.value().entries[0].shard, 1u);
  EXPECT_EQ(index.value().entries[2].shard, 0u);
  EXPECT_EQ(index.value().total_bytes, 12u);
}

TEST(Shards, ATotalThatIsNoneIsNone) {
  for (const char* text :
       {R"({"weight_map": {}})", R"({"metadata": 3, "weight_map": {}})", R"({"metadata": {"total_size": -1}, "weight_map": {}})",
        R"({"metadata": {"total_size": "9"}, "weight_map": {}})"}) {
    auto index = parse(text);
    ASSERT_TRUE(index) << text << index.error().message;
    EXPECT_FALSE(index.value().total_bytes) << text;
  }
}

TEST(Shards, WhatIsWrongIsSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "it is not an object"},
      {"{}", "there is no weight_map"},
      {"{\"weight_map\": {}", "failed"},
      {"{\"weight_map\": []}", "weight_map is not one object"},
      {R"({"weight_map": {}, "weight_map": {}})", "weight_map is not one object"},
      {R"({"weight_map": {"a": 1}})", "'a': its file is not a string"},
      {R"({"weight_map": {"a": "x/y.st"}})", "'x/y.st' is not the name of a file in the index's directory"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "is not the name of a file"},
      {R"({"weight_map": {"a": ".."}})", "'..' is not the name of a file"},
      {R"({"weight_map": {"a": ""}})", "'' is not the name of a file"},
      {R"({"weight_map": {"a": "x\u0000y"}})", "is not the name of a file"},
      {R"({"weight_map": {"a": "x\nheddle run: ok"}})", "'x heddle run: ok' is not the name of a file"},
      {R"({"weight_map": {"a": "x", "a": "y"}})", "'a': the name is a duplicate"},
      {"{\"weight_map\": {\"\xff\": \"x\"}}", "failed"},
  };
  for (const auto& [text, message] : cases) {
    auto index = parse(text);
    ASSERT_FALSE(index) << text;
    EXPECT_EQ(index.error().code, HEDDLE_STATUS_DATA_LOSS);
    EXPECT_THAT(index.error().message, HasSubstr(message)) << text;
  }
  std::string many = "{\"weight_map\": {";
  for (uint32_t i = 0; i <= kMaxShards; ++i) many += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"" + std::to_string(i) + ".st\"";
  auto index = parse(many + "}}");
  ASSERT_FALSE(index);
  EXPECT_THAT(index.error().message, HasSubstr("4097 shards are above 4096"));
}

// Names of shards would be other descriptors of the process.
TEST(Shards, AnIndexWithoutADirectoryIsRefused) {
  TemporaryFolder folder;
  const std::string text = R"({"weight_map": {"a": "0"}})";
  write_file(folder.path("i.json"), text);
  const int descriptor = open(folder.path("i.json").c_str(), O_RDONLY | O_CLOEXEC);
  const std::string number = std::to_string(descriptor), process = std::to_string(getpid());
  for (const std::string& directory : {std::string("/proc/self/fd/"), std::string("/dev/fd/"), "/proc/" + process + "/fd/",
                                       std::string("/proc/thread-self/fd/"), std::string("/dev/fd/../fd/")}) {
    auto index = read_shard_index(descriptor, text.size(), directory + number);
    ASSERT_FALSE(index) << directory;
    EXPECT_EQ(index.error().code, HEDDLE_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(index.error().message, HasSubstr("give the path of the index"));
  }
  EXPECT_TRUE(read_shard_index(descriptor, text.size(), folder.path("i.json")));
  close(descriptor);
}

TEST(Shards, AnIndexIsNoSafetensorsFile) {
  EXPECT_TRUE(is_shard_index("{\"weight"));
  EXPECT_TRUE(is_shard_index("\n  {\n  \""));
  EXPECT_FALSE(is_shard_index(std::string_view("{\1\0\0\0\0\0\0", 8)));  // a header of 379 bytes
  EXPECT_FALSE(is_shard_index("PK\3\4abcd"));
  EXPECT_FALSE(is_shard_index("{}"));
  EXPECT_EQ(shard_path("folder/model.json", "a.st"), "folder/a.st");
  EXPECT_EQ(shard_path("model.json", "a.st"), "a.st");
}

}  // namespace
}  // namespace heddle::module
