// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GGUF: what a file states is read; every rule of the format has a file that breaks it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../temporary_folder.h"
#include "sdk/module/gguf.h"

namespace heddle::module {
namespace {

using ::heddle::testing::TemporaryFolder;
using ::heddle::testing::write_file;
using ::testing::HasSubstr;

enum : uint32_t { kF32 = 0, kQ4_0 = 2, kQ8_1 = 9, kI16 = 25 };
enum : uint32_t { kU8 = 0, kU32 = 4, kBool = 7, kString = 8, kArray = 9, kU64 = 10 };

class Bytes {
 public:
  Bytes& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Bytes& u32(uint64_t value) { return number(value, 4); }
  Bytes& u64(uint64_t value) { return number(value, 8); }
  Bytes& string(std::string_view value) {
    u64(value.size());
    text.append(value);
    return *this;
  }
  Bytes& info(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    string(name).u32(dims.size());
    for (uint64_t extent : dims) u64(extent);
    return u32(type).u64(offset);
  }
  std::string text;
};

Bytes head(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
  Bytes out;
  out.text = "GGUF";
  out.u32(version).u64(tensors).u64(pairs);
  return out;
}
// With `data` bytes after the padding.
std::string with_data(Bytes bytes, size_t data, size_t alignment = 32) {
  bytes.text.resize((bytes.text.size() + alignment - 1) / alignment * alignment);
  return bytes.text.append(data, 'd');
}

Result<ParameterIndex> parse(const std::string& bytes) {
  TemporaryFolder folder;
  const std::string path = folder.path("w.gguf");
  write_file(path, bytes);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto index = read_gguf_index(descriptor, bytes.size(), path);
  close(descriptor);
  return index;
}

void expect_fails(const std::string& bytes, std::string_view text, heddle_status_code_t code = HEDDLE_STATUS_DATA_LOSS) {
  auto index = parse(bytes);
  ASSERT_FALSE(index) << "expected: " << text;
  EXPECT_EQ(index.error().code, code) << index.error().message;
  EXPECT_THAT(index.error().message, HasSubstr(std::string(text)));
  EXPECT_THAT(index.error().message, HasSubstr("w.gguf"));
  EXPECT_THAT(index.error().message, HasSubstr("; "));  // a next step
}

TEST(Gguf, ReadsTensorsAndMetadata) {
  Bytes file = head(4, 6);
  file.string("general.alignment").u32(kU32).u32(64);
  file.string("a.text").u32(kString).string("w\xC3\xB6rd");
  file.string("a.bool").u32(kBool).number(1, 1);
  file.string("a.strings").u32(kArray).u32(kString).u64(2).string("x").string("");
  file.string("a.numbers").u32(kArray).u32(kU8).u64(3).number(0, 3);
  file.string("a.nested").u32(kArray).u32(kArray).u64(2).u32(kU8).u64(1).number(0, 1).u32(kU64).u64(0);
  file.info("z", {64, 3}, kQ4_0, 0).info("b", {5, 2}, kF32, 128).info("none", {0, 7}, kI16, 192).info("scalar", {}, kI16, 192);
  auto index = parse(with_data(file, 194, 64));
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index.value().metadata(), (ParameterMetadata{{"general.alignment", "64"}, {"a.text", "w\xC3\xB6rd"}, {"a.bool", "true"}}));
  ASSERT_EQ(index.value().entries().size(), 4u);
  const ParameterEntry* b = index.value().find("b");
  ASSERT_TRUE(b);
  const uint64_t begin = b->offset - 128;
  EXPECT_EQ(begin % 64, 0u);
  EXPECT_EQ(b->dims, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(b->element_type, HEDDLE_TYPE_F32);
  EXPECT_EQ(b->length, 40u);
  EXPECT_EQ(b->block, nullptr);
  const ParameterEntry* z = index.value().find("z");
  ASSERT_TRUE(z && z->block);
  EXPECT_EQ(z->dtype, "Q4_0");
  EXPECT_EQ(z->element_type, HEDDLE_TYPE_UNDEFINED);
  EXPECT_EQ(z->length, 6u * 18);
  EXPECT_EQ(z->offset, begin);
  EXPECT_EQ(index.value().find("none")->length, 0u);
  EXPECT_EQ(index.value().find("scalar")->length, 2u);
  EXPECT_EQ(index.value().find("absent"), nullptr);
  ASSERT_TRUE(parse(head(0, 0).text));
}

TEST(Gguf, RefusesOtherVersionsByName) {
  expect_fails(head(0, 0, 2).text, "it is a GGUF file of version 2, and only version 3 is supported; convert the model to GGUF again",
               HEDDLE_STATUS_UNIMPLEMENTED);
  expect_fails(head(0, 0, 1).text, "version 1", HEDDLE_STATUS_UNIMPLEMENTED);
  expect_fails(head(0, 0, 4).text, "version 4, and only version 3 is supported; use a newer version", HEDDLE_STATUS_UNIMPLEMENTED);
  expect_fails(head(0, 0, 3u << 24).text, "it is a big-endian GGUF file", HEDDLE_STATUS_UNIMPLEMENTED);
  expect_fails("GGML" + std::string(20, '\0'), "it does not begin with GGUF");
}

TEST(Gguf, RefusesEveryTruncation) {
  Bytes file = head(2, 3);
  file.string("a").u32(kString).string("text");
  file.string("b").u32(kArray).u32(kString).u64(1).string("x");
  file.string("c").u32(kU32).u32(5);
  file.info("z", {32}, kQ4_0, 0).info("y", {3}, kF32, 32);
  const std::string whole = with_data(file, 44);
  ASSERT_TRUE(parse(whole));
  for (size_t size = 0; size < whole.size(); ++size) {
    auto index = parse(whole.substr(0, size));
    ASSERT_FALSE(index) << size;
    EXPECT_EQ(index.error().code, HEDDLE_STATUS_DATA_LOSS) << index.error().message;
  }
}

TEST(Gguf, RefusesCountsAboveTheFile) {
  const uint64_t huge = UINT64_MAX;
  expect_fails(head(huge, 0).text, "it states 18446744073709551615 tensors, and its 24 bytes have room for 0");
  expect_fails(head(0, huge).text, "it states 18446744073709551615 key-value pairs");
  expect_fails(head(0, 1).u64(huge).text + std::string(99, 'x'), "a key at byte 24 has 18446744073709551615 bytes");
  auto pair = [&](auto&& value) {
    Bytes file = head(0, 1);
    value(file.string("k"));
    return file.text + std::string(64, '\0');
  };
  expect_fails(pair([&](Bytes& b) { b.u32(kString).u64(huge); }), "a text at byte");
  expect_fails(pair([&](Bytes& b) { b.u32(kArray).u32(kU64).u64(huge / 8 + 2); }), "its array states 2305843009213693953 values");
  expect_fails(pair([&](Bytes& b) { b.u32(kArray).u32(kString).u64(huge); }), "its array states 18446744073709551615 values");
  expect_fails(pair([&](Bytes& b) { b.u32(kArray).u32(kString).u64(1).u64(huge); }), "a text at byte");
  expect_fails(pair([&](Bytes& b) { b.u32(kArray).u32(13).u64(1); }), "its array has type 13");
  expect_fails(pair([&](Bytes& b) { b.u32(13); }), "its value has type 13");
  expect_fails(pair([&](Bytes& b) { b.u32(kBool).number(2, 1); }), "a boolean is 2");
  expect_fails(pair([&](Bytes& b) {
                 b.u32(kArray);
                 for (int i = 0; i < 20; ++i) b.u32(kArray).u64(1);
               }),
               "arrays nest deeper than 8");
}

TEST(Gguf, RefusesWrongTensors) {
  const uint64_t big = uint64_t{1} << 62;
  auto one = [](std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset = 0) {
    return with_data(head(1, 0).info(name, dims, type, offset), 64);
  };
  expect_fails(one(std::string(65, 'n'), {4}, kF32), "a tensor's name at byte 24 has 65 bytes, and at most 64 are possible");
  expect_fails(one("n\xFF", {4}, kF32), "its name is not UTF-8");
  expect_fails(one("n", {1, 1, 1, 1, 1}, kF32), "it has 5 dimensions, and at most 4 are possible");
  expect_fails(one("n", {big, 8}, kF32), "the product of its extents is above 2^64-1");
  expect_fails(one("n", {big, 2}, kF32), "its size in bytes is above 2^64-1");
  expect_fails(one("n", {uint64_t{1} << 63}, kF32), "an extent is 9223372036854775808, above 2^63-1");
  expect_fails(one("n", {33}, kQ4_0), "its first extent is 33, and blocks of Q4_0 have 32 elements");
  expect_fails(one("n", {4}, 31), "its type has the number 31, which this version does not know", HEDDLE_STATUS_UNIMPLEMENTED);
  expect_fails(one("n", {4}, kF32, 32), "it begins at data byte 32, expected 0");
  expect_fails(one("n", {17}, kF32), "its 68 bytes from byte");
  // Overlaps, holes, duplicates.
  auto two = [](std::string_view second, uint64_t offset) {
    return with_data(head(2, 0).info("a", {9}, kF32, 0).info(second, {1}, kF32, offset), 96);
  };
  ASSERT_TRUE(parse(two("b", 64)));
  expect_fails(two("b", 32), "tensor 'b': it begins at data byte 32, expected 64");
  expect_fails(two("b", 96), "tensor 'b': it begins at data byte 96, expected 64");
  expect_fails(two("a", 64), "tensor 'a': the name is a duplicate");
  expect_fails(head(0, 2).string("k").u32(kU8).number(1, 1).string("k").u32(kU8).number(1, 1).text, "key 'k': it is a duplicate");
  for (uint64_t alignment : {0, 4, 48}) {
    expect_fails(head(0, 1).string("general.alignment").u32(kU32).u32(alignment).text,
                 "general.alignment is " + std::to_string(alignment) + ", expected a power of two from 8 on");
  }
  expect_fails(head(0, 1).string("general.alignment").u32(kU64).u64(32).text, "general.alignment has type 10, expected 4");
}

TEST(BlockTypes, RoundToShortFloatsOnce) {
  // One block of Q8_0 per scale: the f32 values are scale * n, exactly.
  const BlockType* q8 = block_type("Q8_0");
  ASSERT_TRUE(q8);
  for (uint32_t scale = 0; scale < 0x7C00; scale += 7) {
    uint8_t block[34] = {static_cast<uint8_t>(scale), static_cast<uint8_t>(scale >> 8)};
    for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<uint8_t>(i * 8 - 127);
    float wide[32];
    _Float16 half[32];
    uint16_t brain[32];
    const auto* bytes = reinterpret_cast<const std::byte*>(block);
    decode_blocks(*q8, bytes, 1, HEDDLE_TYPE_F32, reinterpret_cast<std::byte*>(wide));
    decode_blocks(*q8, bytes, 1, HEDDLE_TYPE_F16, reinterpret_cast<std::byte*>(half));
    decode_blocks(*q8, bytes, 1, HEDDLE_TYPE_BF16, reinterpret_cast<std::byte*>(brain));
    for (int i = 0; i < 32; ++i) {
      ASSERT_EQ(half[i], static_cast<_Float16>(wide[i])) << scale << " " << i;
      const uint32_t bits = std::bit_cast<uint32_t>(wide[i]);
      const uint32_t down = bits >> 16, above = bits & 0xFFFF;
      const uint32_t expected = down + (above > 0x8000 || (above == 0x8000 && down % 2 == 1));
      ASSERT_EQ(brain[i], expected) << scale << " " << i;
    }
  }
}

}  // namespace
}  // namespace heddle::module
