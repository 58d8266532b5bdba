// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy files: NumPy's own bytes, every version, and files that are not what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ostream>

#include "../temporary_folder.h"
#include "tools/heddle/npy.h"

namespace heddle::tool {
namespace {

using ::heddle::testing::read_file;
using ::heddle::testing::TemporaryFolder;
using ::heddle::testing::write_file;
using ::testing::HasSubstr;

std::string file_of(std::string header, std::string_view data, int version = 1) {
  std::string out("\x93NUMPY", 6);
  out.push_back(static_cast<char>(version));
  out.push_back(0);
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out.push_back(static_cast<char>(header.size() >> (8 * i)));
  return out.append(header).append(data);
}

Wrong read(const std::string& bytes, HostTensor& out) {
  TemporaryFolder folder;
  write_file(folder.path("x.npy"), bytes);
  return read_npy(folder.path("x.npy"), out);
}

constexpr const char kGood[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";

TEST(Npy, ReadsWhatItWrites) {
  TemporaryFolder folder;
  for (const char* text :
       {"f32[2,3]=1,2,3,4,5,6", "f64[]=0.1", "bool[3]=true,false,true", "i64[2]=-1,5", "u16[0,3]=", "f16[2]=1,2", "i8[1,1,2]=-3,3"}) {
    TensorArgument argument;
    ASSERT_EQ(parse_tensor_argument(text, argument), "");
    HostTensor tensor, again;
    ASSERT_EQ(load_tensor(argument, {}, tensor), "");
    ASSERT_EQ(save_tensor(folder.path("x.npy"), tensor), "");
    EXPECT_EQ(read_file(folder.path("x.npy")).find('\n') % 64, 63u);
    ASSERT_EQ(read_npy(folder.path("x.npy"), again), "");
    EXPECT_EQ(tensor_text(again, 100), text);
  }
}

// What numpy.save(numpy.array([[1, 2]], '<f4')) of NumPy 1.24 writes.
TEST(Npy, WritesNumpysOwnBytes) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  header.append(118 - header.size() - 1, ' ').push_back('\n');
  const std::string expected = file_of(header, std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  TensorArgument argument;
  ASSERT_EQ(parse_tensor_argument("f32[1,2]=1,2", argument), "");
  HostTensor tensor;
  ASSERT_EQ(load_tensor(argument, {}, tensor), "");
  TemporaryFolder folder;
  ASSERT_EQ(save_tensor(folder.path("x.npy"), tensor), "");
  EXPECT_EQ(read_file(folder.path("x.npy")), expected);
}

TEST(Npy, ReadsVersionsOneToThree) {
  for (int version : {1, 2, 3}) {
    HostTensor tensor;
    EXPECT_EQ(read(file_of(kGood, "12345678", version), tensor), "") << version;
    EXPECT_EQ(tensor.shape.dims, std::vector<int64_t>{2});
  }
}

TEST(Npy, ReadsKeysInAnyOrderAndBothQuotes) {
  HostTensor tensor;
  EXPECT_EQ(read(file_of("{\"shape\": (1, 2), 'fortran_order': False, 'descr': '|b1'}", std::string_view("\1\0", 2)), tensor), "");
  EXPECT_EQ(shape_text(tensor.shape), "bool[1,2]");
}

TEST(Npy, FailedWriteNamesTheFile) {
  HostTensor tensor;
  tensor.shape = Shape{HEDDLE_TYPE_F32, {}};
  tensor.bytes.resize(4);
  EXPECT_THAT(save_tensor("/nonexistent/x.npy", tensor), HasSubstr("/nonexistent/x.npy"));
  tensor.shape.element_type = HEDDLE_TYPE_BF16;
  EXPECT_THAT(save_tensor("/nonexistent/x.npy", tensor), HasSubstr("NumPy has no type for bf16"));
}

struct Broken {
  const char* name;
  std::string bytes;
  const char* words;
};
void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

std::string with(const char* header, std::string_view data = "12345678") {
  return file_of(header, data);
}

const Broken kBroken[] = {
    {"Empty", "", "does not start like an .npy file"},
    {"Magic", std::string(20, 'x'), "does not start like an .npy file"},
    {"Version", file_of(kGood, "12345678", 4), "its version is 4.0"},
    {"CutInPrefix", file_of(kGood, "", 2).substr(0, 11), "ends inside its header"},
    {"CutInHeader", file_of(kGood, "").substr(0, 30), "ends inside its header"},
    {"HeaderTooLong", file_of(std::string(10001, ' '), ""), "its header of 10001 bytes is above 10000"},
    {"HeaderHuge", std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12) + std::string(50, ' '), "is above 10000"},
    {"DataShort", with(kGood, "1234567"), "its data has 7 bytes, its shape f32[2] needs 8"},
    {"DataLong", with(kGood, "123456789"), "its data has 9 bytes"},
    {"NotADictionary", with("[1, 2]"), "it is not a dictionary"},
    {"Call", with("{'descr': __import__('os'), }"), "descr is not a string"},
    {"Fortran", with("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }"), "Fortran order"},
    {"BigEndian", with("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"), "big-endian"},
    {"Structured", with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "descr is not a string"},
    {"Object", with("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"), "type '|O' is not supported"},
    {"Complex", with("{'descr': '<c32', 'fortran_order': False, 'shape': (1,), }"), "type '<c32' is not supported"},
    {"ComplexShort", with("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }"),
     "its data has 8 bytes, its shape f64[1,2] needs 16"},
    {"MissingKey", with("{'descr': '<f4', 'shape': (2,), }"), "is missing"},
    {"UnknownKey", with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"), "key 'x' is unknown or duplicate"},
    {"KeyTwice", with("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), "unknown or duplicate"},
    {"NegativeExtent", with("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }"), "expected an extent"},
    {"HugeExtent", with("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"), "expected an extent"},
    {"Overflow", with("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"), "more than fit"},
    {"TooManyDims", with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }"),
     "more than 16 dimensions"},
    {"TextBehind", with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x"), "text after the dictionary"},
    {"NoComma", with("{'descr': '<f4' 'fortran_order': False, 'shape': (2,), }"), "expected ',' or '}'"},
    {"OpenString", with("{'descr"), "expected a key"},
};

class NpyFormat : public ::testing::TestWithParam<Broken> {};

TEST_P(NpyFormat, Refuses) {
  HostTensor tensor;
  const Wrong wrong = read(GetParam().bytes, tensor);
  EXPECT_THAT(wrong, HasSubstr(GetParam().words));
  EXPECT_THAT(wrong, HasSubstr("x.npy"));
}

INSTANTIATE_TEST_SUITE_P(Cases, NpyFormat, ::testing::ValuesIn(kBroken), [](const auto& info) { return info.param.name; });

TEST(Npy, DoesNotWaitForAFifo) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.path("x.npy").c_str(), 0600), 0);
  HostTensor tensor;
  EXPECT_THAT(read_npy(folder.path("x.npy"), tensor), HasSubstr("not a regular file"));
}

TEST(Npy, RefusesAFolder) {
  TemporaryFolder folder;
  HostTensor tensor;
  EXPECT_THAT(read_npy(folder.path(""), tensor), HasSubstr("not a regular file"));
  EXPECT_THAT(read_npy(folder.path("absent.npy"), tensor), HasSubstr("No such file"));
}

}  // namespace
}  // namespace heddle::tool
