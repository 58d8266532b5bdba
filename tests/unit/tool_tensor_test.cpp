// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors as the commands read, print, make up and compare them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "../temporary_folder.h"
#include "tools/heddle/comparison.h"
#include "tools/heddle/float_formats.h"
#include "tools/heddle/json_text.h"
#include "tools/heddle/random_values.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {
namespace {

using ::testing::HasSubstr;

HostTensor tensor(const std::string& text) {
  TensorArgument argument;
  EXPECT_EQ(parse_tensor_argument(text, argument), "");
  HostTensor out;
  EXPECT_EQ(load_tensor(argument, {}, out), "") << text;
  return out;
}

TEST(ShapeText, ReadsWhatItWrites) {
  for (const char* text : {"2x3xf32", "f64", "0xi8", "1x2x3x4x5x6x7x8x9x10x11x12x13x14x15x16xbool", "4xf8e4m3"}) {
    Shape shape;
    ASSERT_EQ(parse_shape(text, shape), "");
    EXPECT_EQ(shape_text(shape), text);
  }
}

TEST(ShapeText, RefusesWhatIsNone) {
  for (const char* text : {"", "x", "2x", "2xf31", "2f32", "-1xf32", "2xxf32", "99999999999999999999xf32", "2x3", "f32x2",
                           "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32"}) {
    Shape shape;
    EXPECT_NE(parse_shape(text, shape), "") << text;
  }
}

TEST(ShapeText, CountsWithoutOverflow) {
  Shape shape;
  ASSERT_EQ(parse_shape("4294967296x4294967296xf32", shape), "");
  EXPECT_EQ(element_count(shape), std::nullopt);
  EXPECT_EQ(byte_count(shape), std::nullopt);
  ASSERT_EQ(parse_shape("4294967296x4294967296x0xf32", shape), "");
  EXPECT_EQ(byte_count(shape), 0u);
  ASSERT_EQ(parse_shape("3xi4", shape), "");
  EXPECT_EQ(byte_count(shape), 2u);
}

TEST(TensorArgument, OutputsAreFiles) {
  TensorArgument output;
  ASSERT_EQ(parse_output_argument("@a=b.npy", output), "");
  EXPECT_EQ(output.name + "|" + output.path, "|a=b.npy");
  ASSERT_EQ(parse_output_argument("scores=@s.bin", output), "");
  EXPECT_EQ(output.name + "|" + output.path, "scores|s.bin");
  const std::pair<const char*, const char*> wrong[] = {{"s.npy", "such as @s.npy"},       {"scores=s.npy", "such as @s.npy"},
                                                       {"", "such as @scores.npy"},       {"scores=", "such as @scores.npy"},
                                                       {"=@s.npy", "no name before '='"}, {"@", "no file after '@'"},
                                                       {"scores=@", "no file after '@'"}};
  for (const auto& [text, words] : wrong) EXPECT_THAT(parse_output_argument(text, output), HasSubstr(words)) << text;
}

TEST(TensorText, NoValuesAtAllHaveNoComma) {
  EXPECT_EQ(tensor_text(tensor("2xf32=1,2"), 0), "2xf32=...");
  EXPECT_EQ(tensor_text(tensor("2xf32=1,2"), 1), "2xf32=1,...");
  EXPECT_EQ(tensor_text(tensor("2xf32=1,2"), 2), "2xf32=1,2");
}

TEST(TensorArgument, KnowsAllForms) {
  TensorArgument argument;
  ASSERT_EQ(parse_tensor_argument("x=2xf32=1,2", argument), "");
  EXPECT_EQ(argument.name, "x");
  EXPECT_EQ(argument.values, "1,2");
  ASSERT_EQ(parse_tensor_argument("2xf32=1,2", argument), "");
  EXPECT_EQ(argument.name, "");
  ASSERT_EQ(parse_tensor_argument("image=@a=b.npy", argument), "");
  EXPECT_EQ(argument.name, "image");
  EXPECT_EQ(argument.path, "a=b.npy");
  ASSERT_EQ(parse_tensor_argument("@a=b.npy", argument), "");
  EXPECT_EQ(argument.name, "");
  EXPECT_EQ(argument.path, "a=b.npy");
  ASSERT_EQ(parse_tensor_argument("x=2x3xf32=@x.bin", argument), "");
  EXPECT_EQ(argument.path, "x.bin");
  EXPECT_EQ(argument.shape.dims.size(), 2u);
}

TEST(TensorArgument, RefusesWhatIsNone) {
  for (const char* text : {"", "x=", "@", "x=@", "=2xf32=1", "2xf32", "x=2xf32", "x=y=2xf32=1", "2xf32=@"}) {
    TensorArgument argument;
    EXPECT_NE(parse_tensor_argument(text, argument), "") << text;
  }
}

TEST(TensorText, ReadsWhatItWritesForEveryType) {
  for (const char* text :
       {"3xbool=true,false,true", "3xi4=-8,7,-1", "3xu4=0,15,8", "2xi8=-128,127", "2xu8=0,255", "2xi16=-32768,32767", "2xu16=0,65535",
        "2xi32=-2147483648,2147483647", "2xu32=0,4294967295", "2xi64=-9223372036854775808,9223372036854775807",
        "2xu64=0,18446744073709551615", "4xf16=0.5,-65504,inf,nan", "3xbf16=1,-0.0078125,inf", "3xf8e4m3=448,-0.001953125,nan",
        "3xf8e5m2=57344,inf,0.25", "4xf32=0.1,-1e-45,inf,nan", "3xf64=0.1,1e+300,-inf", "f32=7", "0xf32="}) {
    EXPECT_EQ(tensor_text(tensor(text), 100), text);
  }
}

TEST(TensorText, OneValueFillsAll) {
  EXPECT_EQ(tensor_text(tensor("2x2xf32=1.5"), 100), "2x2xf32=1.5,1.5,1.5,1.5");
  EXPECT_EQ(tensor_text(tensor("5xi4=-3"), 100), "5xi4=-3,-3,-3,-3,-3");
  EXPECT_EQ(tensor_text(tensor("2x2xf32=1.5"), 2), "2x2xf32=1.5,1.5,...");
}

TEST(TensorText, RefusesValuesThatDoNotFit) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {{"3xf32=1,2", "2 values for 3xf32, which has 3"},
               {"2xi8=1,128", "value 1: '128' is outside the range of i8"},
               {"2xu8=1,-1", "value 1: '-1' is outside the range of u8"},
               {"1xi32=1.5", "'1.5' is not an integer of type i32"},
               {"1xu64=18446744073709551616", "is not an integer"},
               {"2xf32=1,", "value 1: '' is not a number"},
               {"1xf32=one", "'one' is not a number"},
               {"4294967296x4294967296xf32=1", "is too large"},
               {"1xf32=", "0 values"}};
  for (const auto& one : cases) {
    TensorArgument argument;
    ASSERT_EQ(parse_tensor_argument(one.text, argument), "");
    HostTensor out;
    EXPECT_THAT(load_tensor(argument, {}, out), HasSubstr(one.words)) << one.text;
  }
}

TEST(TensorText, RawFileTakesTheExpectedShape) {
  heddle::testing::TemporaryFolder folder;
  const float values[2] = {1, 2};
  heddle::testing::write_file(folder.path("x.bin"), {reinterpret_cast<const char*>(values), sizeof(values)});
  TensorArgument argument;
  ASSERT_EQ(parse_tensor_argument("@" + folder.path("x.bin"), argument), "");
  HostTensor out;
  ASSERT_EQ(load_tensor(argument, {HEDDLE_TYPE_F32, {2}}, out), "");
  EXPECT_EQ(tensor_text(out, 9), "2xf32=1,2");
  EXPECT_THAT(load_tensor(argument, {HEDDLE_TYPE_F32, {3}}, out), HasSubstr("it has 8 bytes, 3xf32 needs 12"));
  EXPECT_THAT(load_tensor(argument, {HEDDLE_TYPE_F32, {-1}}, out), HasSubstr("its shape is not known"));
}

// Every bit pattern of the short formats decodes and encodes to itself (NaNs to a NaN).
TEST(FloatFormats, EveryPatternSurvives) {
  const struct {
    FloatFormat format;
    uint32_t patterns;
  } cases[] = {{kF16, 65536}, {kBF16, 65536}, {kF8E5M2, 256}, {kF8E4M3, 256}};
  for (const auto& one : cases) {
    for (uint32_t bits = 0; bits < one.patterns; ++bits) {
      const double value = decode_float(bits, one.format);
      const uint32_t again = encode_float(value, one.format);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(decode_float(again, one.format))) << bits;
      } else {
        ASSERT_EQ(again, bits) << value;
      }
    }
  }
}

TEST(FloatFormats, BF16IsTheUpperHalfOfF32) {
  for (uint32_t bits = 0; bits < 65536; bits += 7) {
    const uint32_t wide = bits << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    if (!std::isnan(value)) {
      ASSERT_EQ(decode_float(bits, kBF16), static_cast<double>(value));
    }
  }
}

TEST(FloatFormats, RoundsToNearestEven) {
  EXPECT_EQ(encode_float(1 + 0x1p-11, kF16), encode_float(1, kF16));
  EXPECT_EQ(decode_float(encode_float(1 + 3 * 0x1p-11, kF16), kF16), 1 + 0x1p-9);
  EXPECT_EQ(decode_float(encode_float(65519, kF16), kF16), 65504);
  EXPECT_TRUE(std::isinf(decode_float(encode_float(65520, kF16), kF16)));
  EXPECT_EQ(decode_float(encode_float(0x1p-25, kF16), kF16), 0);
  EXPECT_EQ(decode_float(encode_float(0x1.8p-25, kF16), kF16), 0x1p-24);
  EXPECT_EQ(decode_float(encode_float(448, kF8E4M3), kF8E4M3), 448);
  EXPECT_TRUE(std::isnan(decode_float(encode_float(480, kF8E4M3), kF8E4M3)));
}

TEST(Compare, TakesToleranceAsNumpyDoes) {
  EXPECT_TRUE(compare(tensor("2xf32=1,2"), tensor("2xf32=1,2.1"), 0.1, 0).equal);
  EXPECT_FALSE(compare(tensor("2xf32=1,2"), tensor("2xf32=1,2.1"), 0.01, 0).equal);
  EXPECT_TRUE(compare(tensor("2xf32=1,2"), tensor("2xf32=1,2.1"), 0, 0.2).equal);
  EXPECT_TRUE(compare(tensor("3xf32=nan,inf,-inf"), tensor("3xf32=nan,inf,-inf"), 0, 0).equal);
  EXPECT_FALSE(compare(tensor("1xf32=nan"), tensor("1xf32=1"), 1e9, 1e9).equal);
  EXPECT_FALSE(compare(tensor("1xf32=inf"), tensor("1xf32=1"), 1e9, 1e9).equal);
  EXPECT_FALSE(compare(tensor("1xf32=1e38"), tensor("1xf32=inf"), 1, 1).equal);
  EXPECT_TRUE(compare(tensor("1xf32=-0"), tensor("1xf32=0"), 0, 0).equal);
}

TEST(Compare, NamesTheWorstElement) {
  const Comparison result = compare(tensor("2x3xf32=1,2,3,4,5,6"), tensor("2x3xf32=1,2,3.5,4,9,6"), 0, 0.1);
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.wrong, 2u);
  EXPECT_THAT(result.explanation, HasSubstr("2 of 6 elements differ; the worst is [1, 1]: got 5, expected 9"));
}

TEST(Compare, WorstIsTheLargestWithoutTolerance) {
  EXPECT_THAT(compare(tensor("3xf32=1,2,3"), tensor("3xf32=2,9,4"), 0, 0).explanation, HasSubstr("[1]: got 2, expected 9"));
}

TEST(Compare, ShapesAndTypesMustAgree) {
  EXPECT_THAT(compare(tensor("2xf32=1,2"), tensor("1x2xf32=1,2"), 9, 9).explanation, HasSubstr("it is 2xf32, expected 1x2xf32"));
  EXPECT_THAT(compare(tensor("2xf32=1,2"), tensor("2xf64=1,2"), 9, 9).explanation, HasSubstr("expected 2xf64"));
}

TEST(Compare, LargeIntegersAreExact) {
  EXPECT_FALSE(compare(tensor("1xi64=9223372036854775807"), tensor("1xi64=9223372036854775806"), 0, 0).equal);
}

TEST(Random, IsSeededAndInRange) {
  HostTensor a, b, c;
  a.shape = b.shape = c.shape = Shape{HEDDLE_TYPE_F32, {1000}};
  ASSERT_EQ(fill_random(a, 1), "");
  ASSERT_EQ(fill_random(b, 1), "");
  ASSERT_EQ(fill_random(c, 2), "");
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_NE(a.bytes, c.bytes);
  double sum = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_GE(element(a, i), -1);
    ASSERT_LE(element(a, i), 1);
    sum += element(a, i);
  }
  EXPECT_NEAR(sum / 1000, 0, 0.1);
  HostTensor index;
  index.shape = Shape{HEDDLE_TYPE_I64, {100}};
  ASSERT_EQ(fill_random(index, 1), "");
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(element(index, i) == 0 || element(index, i) == 1);
}

TEST(ResultJson, QuotesWhatJsonHasNoNumberFor) {
  EXPECT_EQ(result_json("a\"b", tensor("4xf32=1.5,nan,inf,-inf"), 9),
            R"({"name":"a\"b","shape":[4],"type":"f32","values":[1.5,"nan","inf","-inf"]})");
}

}  // namespace
}  // namespace heddle::tool
