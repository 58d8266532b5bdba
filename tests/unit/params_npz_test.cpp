// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npz files: written and read again, also beyond 32 bits, and every way in which an archive can say something that is not so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../temporary_folder.h"
#include "sdk/module/npz_directory.h"
#include "tools/heddle/npy.h"
#include "tools/params/checkpoint.h"
#include "tools/params/npz_writer.h"

namespace heddle::tool {
namespace {

using ::heddle::testing::read_file;
using ::heddle::testing::TemporaryFolder;
using ::heddle::testing::write_file;
using ::testing::HasSubstr;

class Npz : public ::testing::Test {
 protected:
  // Two arrays, "a" of 4 bytes and "b" of none; b's bytes follow a's.
  std::string small() {
    static const std::vector<std::byte> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    const std::vector<NpzArray> arrays{{"a", {HEDDLE_TYPE_U8, {2, 2}}, {4, bytes, nullptr}}, {"b", {HEDDLE_TYPE_F32, {0}}, {}}};
    EXPECT_EQ(wrong_of(write_npz(arrays, path_)), "");
    return read_file(path_);
  }
  Wrong open(const std::string& bytes) {
    write_file(path_, bytes);
    checkpoint_ = Checkpoint();
    return checkpoint_.open(path_);
  }
  // The small file with something else at one place of its `which`-th record of that kind.
  Wrong open_changed(const std::string& signature, size_t which, size_t offset, const std::string& bytes) {
    std::string file = small();
    size_t at = file.find(signature);
    for (; which > 0; --which) at = file.find(signature, at + 1);
    return open(file.replace(at + offset, bytes.size(), bytes));
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path("x.npz");
  Checkpoint checkpoint_;
};

const std::string kLocal = "PK\3\4", kCentral = "PK\1\2", kEnd = "PK\5\6";

TEST_F(Npz, IsReadAsItWasWritten) {
  ASSERT_EQ(open(small()), "");
  ASSERT_EQ(checkpoint_.tensors().size(), 2u);
  const StoredTensor* a = checkpoint_.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shape_text(), "u8[2,2]");
  std::byte data[4];
  ASSERT_EQ(checkpoint_.read(*a, 0, data), "");
  EXPECT_EQ(data[3], std::byte{4});
  EXPECT_EQ(checkpoint_.find("b")->length, 0u);
  EXPECT_EQ(checkpoint_.find("c"), nullptr);
}

// More members than 16 bits count: ZIP64's end record. Sizes beyond 32 bits: tests/e2e/params_test.py.
TEST_F(Npz, HoldsMoreThan65535Members) {
  std::vector<NpzArray> arrays(65536);
  for (size_t i = 0; i < arrays.size(); ++i) arrays[i] = {std::to_string(i), {HEDDLE_TYPE_U8, {0}}, {}};
  ASSERT_EQ(wrong_of(write_npz(arrays, path_)), "");
  ASSERT_EQ(checkpoint_.open(path_), "");
  EXPECT_EQ(checkpoint_.tensors().size(), 65536u);
  // And where ZIP64's records are damaged.
  std::string file = read_file(path_);
  const size_t locator = file.rfind("PK\6\7"), end = file.rfind("PK\6\6");
  std::string damaged = file;
  damaged[locator + 15] = '\x7f';
  EXPECT_THAT(open(damaged), HasSubstr("overlaps the records after it"));
  damaged = file;
  damaged[locator + 8] -= 1;
  EXPECT_THAT(open(damaged), HasSubstr("there is no ZIP64 end record"));
  damaged = file;
  damaged[end + 40] ^= 1;
  EXPECT_THAT(open(damaged), HasSubstr("does not end at byte"));
  damaged = file;
  damaged[locator] = 'X';
  EXPECT_THAT(open(damaged), HasSubstr("does not end at byte"));
}

TEST_F(Npz, WhatItSaysMustBeSo) {
  struct {
    const char* what;
    std::string signature;
    size_t which, offset;
    std::string bytes;
    const char* message;
  } cases[] = {
      {"method", kCentral, 0, 10, "\x08", "member 'a.npy': it is deflated, and only stored members can be read"},
      {"another method", kCentral, 0, 10, "\x0c", "it is compressed by method 12"},
      {"method in the local header", kLocal, 1, 8, "\x08", "member 'b.npy': it is deflated"},
      {"encryption", kCentral, 0, 8, "\x01", "member 'a.npy': it is encrypted"},
      {"stored and whole size", kCentral, 0, 20, "\x01", "bytes stored"},
      {"local size", kLocal, 0, 22, "\x01", "says"},
      {"local name", kLocal, 0, 30, "x", "the header at byte 0 has a different name"},
      {"twice the name", kCentral, 1, 46, "a", "the name is a duplicate"},
      {"place of a member", kCentral, 1, 42, std::string("\1\0\0\0", 4), "inside another member"},
      {"place behind the end", kCentral, 1, 42, "\xfe\xff\xff\xff", "is not before the directory"},
      {"local signature", kLocal, 1, 0, "XXXX", "there is no header at byte"},
      {"signature of the directory", kCentral, 0, 0, "XXXX", "its directory is damaged"},
      {"length of a name", kCentral, 1, 28, "\xff\xff", "its directory is damaged"},
      {"size of the directory", kEnd, 0, 12, "\x01", "does not end at byte"},
      {"members", kEnd, 0, 8, std::string("\3\0\3\0", 4), "its directory has 2 members, its end record says 3"},
      {"disks", kEnd, 0, 4, "\x01", "one part of a multi-part archive"},
      {"comment", kEnd, 0, 20, "\x01", "it has no end record"},
      {"ZIP64 that is not there", kCentral, 0, 42, "\xff\xff\xff\xff", "ZIP64's sizes are missing in the directory"},
      {"a name that is no array's", kCentral, 0, 46, "a.npx", "a different name"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(open_changed(one.signature, one.which, one.offset, one.bytes), HasSubstr(one.message)) << one.what;
  }
}

TEST_F(Npz, EveryBeginningOfAFileIsRefused) {
  const std::string whole = small();
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(open(whole.substr(0, length)), "") << length;
  EXPECT_NE(open(whole + "x"), "");
  EXPECT_NE(open("x" + whole), "");
}

TEST_F(Npz, ACommentAtTheEndIsNoError) {
  std::string file = small();
  file[file.size() - 2] = 5;
  EXPECT_EQ(open(file + "hello"), "");
}

TEST_F(Npz, MembersThatAreNoArraysAreNamed) {
  std::string file = small();
  for (size_t at; (at = file.find("b.npy")) != std::string::npos;) file.replace(at, 5, "b.txt");
  EXPECT_THAT(open(file), HasSubstr("member 'b.txt': it is not an array"));
  file = small();
  file[file.find("fortran")] = 'F';
  EXPECT_THAT(open(file), HasSubstr("member 'a.npy': header"));
}

}  // namespace
}  // namespace heddle::tool
