// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// safetensors: what is written is read back; every rule of the format has a file that breaks it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "../temporary_folder.h"
#include "sdk/module/safetensors.h"

namespace heddle::module {
namespace {

using ::heddle::testing::read_file;
using ::heddle::testing::TemporaryFolder;
using ::heddle::testing::write_file;
using ::testing::HasSubstr;

Result<SafetensorsIndex> read_index(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const uint64_t size = static_cast<uint64_t>(lseek(descriptor, 0, SEEK_END));
  auto index = read_safetensors_index(descriptor, size, path);
  close(descriptor);
  return index;
}

std::string file_of(std::string_view json, size_t data_bytes) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(json.size() >> (8 * i)));
  return bytes.append(json).append(data_bytes, 'd');
}

Result<SafetensorsIndex> parse(std::string_view json, size_t data_bytes) {
  TemporaryFolder folder;
  write_file(folder.path("w.safetensors"), file_of(json, data_bytes));
  return read_index(folder.path("w.safetensors"));
}

TEST(Safetensors, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  const std::vector<std::byte> a(24, std::byte{1}), b(3, std::byte{2});
  std::vector<SafetensorsTensor> tensors(3);
  tensors[0] = {"z \"quoted\"\n", HEDDLE_TYPE_F32, {2, 3}, {a.size(), a, nullptr}};
  tensors[1] = {"b", HEDDLE_TYPE_BOOL, {3}, {b.size(), b, nullptr}};
  tensors[2] = {"empty", HEDDLE_TYPE_I64, {0, 7}, {}};
  Status failed = write_safetensors(tensors, folder.path("w.safetensors"));
  ASSERT_FALSE(failed) << failed->message;
  auto index = read_index(folder.path("w.safetensors"));
  ASSERT_TRUE(index) << index.error().message;
  const SafetensorsEntry* z = index.value().find("z \"quoted\"\n");
  ASSERT_NE(z, nullptr);
  EXPECT_EQ(z->element_type, HEDDLE_TYPE_F32);
  EXPECT_EQ(z->dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(z->offset % 8, 0u);
  const std::string bytes = read_file(folder.path("w.safetensors"));
  EXPECT_EQ(bytes.substr(z->offset, z->length), std::string(24, '\1'));
  const SafetensorsEntry* second = index.value().find("b");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(bytes.substr(second->offset, second->length), std::string(3, '\2'));
  EXPECT_EQ(index.value().find("empty")->length, 0u);
  EXPECT_EQ(index.value().find("absent"), nullptr);
}

TEST(Safetensors, KeepsMetadataAndTypesThatHeddleHasNoneFor) {
  TemporaryFolder folder;
  const std::vector<std::byte> scales(6, std::byte{7});
  const SafetensorsMetadata metadata{{"format", "pt"}, {"z", "\"quoted\"\n"}};
  std::vector<SafetensorsTensor> tensors(1);
  tensors[0] = {"scales", HEDDLE_TYPE_UNDEFINED, {2, 3}, {scales.size(), scales, nullptr}, "F8_E8M0"};
  Status failed = write_safetensors(tensors, folder.path("w.safetensors"), metadata);
  ASSERT_FALSE(failed) << failed->message;
  auto index = read_index(folder.path("w.safetensors"));
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index.value().metadata(), metadata);
  EXPECT_EQ(index.value().entries().at(0).dtype, "F8_E8M0");
  tensors[0].dtype = "F9";
  failed = write_safetensors(tensors, folder.path("w.safetensors"));
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->message, HasSubstr("the format has no name for"));
}

TEST(Safetensors, WriterRefusesWhatTheFormatCannotHold) {
  TemporaryFolder folder;
  const std::vector<std::byte> data(4);
  const ParameterSource source{4, data, nullptr};
  auto write = [&](std::vector<SafetensorsTensor> tensors) { return write_safetensors(tensors, folder.path("w.safetensors")); };
  EXPECT_EQ(write({{"a", HEDDLE_TYPE_I4, {8}, source}})->code, HEDDLE_STATUS_UNIMPLEMENTED);
  EXPECT_EQ(write({{"a", HEDDLE_TYPE_F32, {2}, source}})->code, HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(write({{"a", HEDDLE_TYPE_F32, {1}, source}, {"a", HEDDLE_TYPE_F32, {1}, source}})->code, HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(write({{"__metadata__", HEDDLE_TYPE_F32, {1}, source}})->code, HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(Safetensors, AllowsRankZeroWhiteSpaceMetadataAndTypesThatHeddleLacks) {
  auto index = parse(R"(  {"__metadata__":{"format":"pt"},"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},
                         "e":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[8,10]}}   )",
                     10);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_TRUE(index.value().find("s")->dims.empty());
  EXPECT_EQ(index.value().find("s")->length, 8u);
  EXPECT_EQ(index.value().find("e")->element_type, HEDDLE_TYPE_UNDEFINED);
  EXPECT_EQ(index.value().find("e")->dtype, "F8_E8M0");
}

struct Broken {
  const char* name;
  std::string json;
  size_t data_bytes;
  const char* words;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

std::string entry(const char* name, const char* shape, const char* offsets) {
  return std::string("\"") + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

const Broken kBroken[] = {
    {"Json", "{", 0, "header"},
    {"NotAnObject", "[]", 0, "not an object"},
    {"TextBehindTheObject", "{} x", 0, "header"},
    {"BadUtf8", "{\"\xff\":{}}", 0, "header"},
    {"MetadataNotStrings", R"({"__metadata__":{"a":1}})", 0, "'__metadata__' is not an object of strings"},
    {"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", 0, "'__metadata__' is a duplicate key"},
    {"EntryNotAnObject", R"({"a":1})", 0, "tensor 'a': it is not an object"},
    {"MissingShape", R"({"a":{"dtype":"F32","data_offsets":[0,0]}})", 0, "is missing"},
    {"UnknownKey", R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":1}})", 0, "key 'x' is not known"},
    {"KeyTwice", R"({"a":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0, "dtype is not one string"},
    {"UnknownType", R"({"a":{"dtype":"F31","shape":[0],"data_offsets":[0,0]}})", 0, "dtype 'F31' is not known"},
    {"NegativeExtent", "{" + entry("a", "[-1]", "[0,4]") + "}", 4, "not a size"},
    {"FractionalExtent", "{" + entry("a", "[1.5]", "[0,4]") + "}", 4, "not a size"},
    {"HugeExtent", "{" + entry("a", "[9223372036854775808]", "[0,4]") + "}", 4, "not a size"},
    {"ShapeOverflow", "{" + entry("a", "[4294967296,4294967296]", "[0,0]") + "}", 0, "its shape overflows"},
    {"BitsOverflow", "{" + entry("a", "[2305843009213693952]", "[0,0]") + "}", 0, "its shape overflows"},
    {"HalfByte", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "12 bits are not whole bytes"},
    {"SizeDiffers", "{" + entry("a", "[2]", "[0,4]") + "}", 4, "do not fit 8 bytes"},
    {"OffsetsBackward", "{" + entry("a", "[1]", "[4,0]") + "}", 4, "do not fit"},
    {"OffsetsThree", "{" + entry("a", "[1]", "[0,4,8]") + "}", 4, "data_offsets is not one array"},
    {"Hole", "{" + entry("a", "[1]", "[0,4]") + "," + entry("b", "[1]", "[8,12]") + "}", 12,
     "tensor 'b': it starts at data byte 8, expected 4"},
    {"Overlap", "{" + entry("a", "[2]", "[0,8]") + "," + entry("b", "[1]", "[4,8]") + "}", 8,
     "tensor 'b': it starts at data byte 4, expected 8"},
    {"BeyondTheFile", "{" + entry("a", "[2]", "[0,8]") + "}", 7, "tensor 'a': its bytes [62, 70) are beyond the file's 69"},
    {"BytesBehind", "{" + entry("a", "[2]", "[0,8]") + "}", 9, "tensors end at data byte 8, the data has 9 bytes"},
    {"NameTwice", "{" + entry("a", "[1]", "[0,4]") + "," + entry("a", "[1]", "[4,8]") + "}", 8, "tensor 'a': the name is a duplicate"},
    {"NameTwiceForTheSameBytes", "{" + entry("a", "[1]", "[0,4]") + "," + entry("a", "[1]", "[0,4]") + "}", 4,
     "tensor 'a': the name is a duplicate"},
    {"KeyOfMetadataTwice", R"({"__metadata__":{"x\ny":"1","b":"2","x\ny":"3"}})", 0, "key 'x y' of '__metadata__' is a duplicate"},
    {"DeepNesting", "{\"a\":" + std::string(2000, '[') + std::string(2000, ']') + "}", 0, "header"},
};

class SafetensorsFormat : public ::testing::TestWithParam<Broken> {};

TEST_P(SafetensorsFormat, Refuses) {
  auto index = parse(GetParam().json, GetParam().data_bytes);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, HEDDLE_STATUS_DATA_LOSS);
  EXPECT_THAT(index.error().message, HasSubstr(GetParam().words));
  EXPECT_THAT(index.error().message, HasSubstr("w.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Cases, SafetensorsFormat, ::testing::ValuesIn(kBroken), [](const auto& info) { return info.param.name; });

TEST(Safetensors, RefusesAHeaderBeyondTheFileOrTheLimit) {
  TemporaryFolder folder;
  for (std::string bytes : {std::string("\x01\0\0", 3), file_of("{}", 0).substr(0, 9), std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
                            std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)}) {
    write_file(folder.path("w.safetensors"), bytes);
    auto index = read_index(folder.path("w.safetensors"));
    ASSERT_FALSE(index);
    EXPECT_EQ(index.error().code, HEDDLE_STATUS_DATA_LOSS);
  }
}

}  // namespace
}  // namespace heddle::module
