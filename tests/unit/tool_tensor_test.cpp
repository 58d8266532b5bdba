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
  for (const char* text : {"f32[2,3]", "f64[]", "i8[0]", "bool[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "f8e4m3[4]"}) {
    Shape shape;
    ASSERT_EQ(parse_shape(text, shape), "");
    EXPECT_EQ(shape_text(shape), text);
  }
}

TEST(ShapeText, ReadsTheOlderNotation) {
  const std::pair<const char*, const char*> cases[] = {
      {"2x3xf32", "f32[2,3]"},
      {"f64", "f64[]"},
      {"0xi8", "i8[0]"},
      {"1x2x3x4x5x6x7x8x9x10x11x12x13x14x15x16xbool", "bool[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"},
      {"4xf8e4m3", "f8e4m3[4]"}};
  for (const auto& [older, text] : cases) {
    Shape shape;
    ASSERT_EQ(parse_shape(older, shape), "");
    EXPECT_EQ(shape_text(shape), text);
  }
}

TEST(ShapeText, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "x",
                           "2x",
                           "2xf31",
                           "2f32",
                           "-1xf32",
                           "2xxf32",
                           "99999999999999999999xf32",
                           "2x3",
                           "f32x2",
                           "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32",
                           "[]",
                           "[2]",
                           "f31[2]",
                           "f32[",
                           "f32[2",
                           "f32[2,",
                           "f32[2,]",
                           "f32[,2]",
                           "f32[2]]",
                           "f32[2]x",
                           "f32[2][3]",
                           "f32[-1]",
                           "f32[?]",
                           "f32[2, 3]",
                           "f32[2x3]",
                           "2xf32[3]",
                           "f32[99999999999999999999]",
                           "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"}) {
    Shape shape;
    EXPECT_NE(parse_shape(text, shape), "") << text;
  }
  Shape shape;
  EXPECT_EQ(parse_shape("f32[batch,3]", shape), "'f32[batch,3]': 'batch' is not an extent; expected a number");
  EXPECT_EQ(parse_shape("f32[2,3", shape), "'f32[2,3': expected an element type and extents, as in 'f32[2,3]'");
  EXPECT_EQ(parse_shape("2x3", shape), "'2x3': expected an element type and extents, as in 'f32[2,3]'");
}

TEST(TensorArgument, IsQuotedForAShell) {
  EXPECT_EQ(in_shell_quotes("x=f32[2]=1"), "'x=f32[2]=1'");
  EXPECT_EQ(in_shell_quotes("it's"), "'it'\\''s'");
}

TEST(ShapeText, CountsWithoutOverflow) {
  Shape shape;
  ASSERT_EQ(parse_shape("f32[4294967296,4294967296]", shape), "");
  EXPECT_EQ(element_count(shape), std::nullopt);
  EXPECT_EQ(byte_count(shape), std::nullopt);
  ASSERT_EQ(parse_shape("f32[4294967296,4294967296,0]", shape), "");
  EXPECT_EQ(byte_count(shape), 0u);
  ASSERT_EQ(parse_shape("i4[3]", shape), "");
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
  EXPECT_EQ(tensor_text(tensor("f32[2]=1,2"), 0), "f32[2]=...");
  EXPECT_EQ(tensor_text(tensor("f32[2]=1,2"), 1), "f32[2]=1,...");
  EXPECT_EQ(tensor_text(tensor("f32[2]=1,2"), 2), "f32[2]=1,2");
}

TEST(TensorArgument, KnowsAllForms) {
  TensorArgument argument;
  ASSERT_EQ(parse_tensor_argument("x=f32[2]=1,2", argument), "");
  EXPECT_EQ(argument.name, "x");
  EXPECT_EQ(argument.values, "1,2");
  ASSERT_EQ(parse_tensor_argument("f32[2]=1,2", argument), "");
  EXPECT_EQ(argument.name, "");
  ASSERT_EQ(parse_tensor_argument("image=@a=b.npy", argument), "");
  EXPECT_EQ(argument.name, "image");
  EXPECT_EQ(argument.path, "a=b.npy");
  ASSERT_EQ(parse_tensor_argument("@a=b.npy", argument), "");
  EXPECT_EQ(argument.name, "");
  EXPECT_EQ(argument.path, "a=b.npy");
  ASSERT_EQ(parse_tensor_argument("x=f32[2,3]=@x.bin", argument), "");
  EXPECT_EQ(argument.path, "x.bin");
  EXPECT_EQ(argument.shape.dims.size(), 2u);
}

TEST(TensorArgument, RefusesWhatIsNone) {
  for (const char* text : {"", "x=", "@", "x=@", "=f32[2]=1", "f32[2]", "x=f32[2]", "x=y=f32[2]=1", "f32[2]=@"}) {
    TensorArgument argument;
    EXPECT_NE(parse_tensor_argument(text, argument), "") << text;
  }
}

TEST(TensorText, ReadsWhatItWritesForEveryType) {
  for (const char* text : {"bool[3]=true,false,true",
                           "i4[3]=-8,7,-1",
                           "u4[3]=0,15,8",
                           "i8[2]=-128,127",
                           "u8[2]=0,255",
                           "i16[2]=-32768,32767",
                           "u16[2]=0,65535",
                           "i32[2]=-2147483648,2147483647",
                           "u32[2]=0,4294967295",
                           "i64[2]=-9223372036854775808,9223372036854775807",
                           "u64[2]=0,18446744073709551615",
                           "f16[4]=0.5,-65504,inf,nan",
                           "bf16[3]=1,-0.0078125,inf",
                           "f8e4m3[3]=448,-0.001953125,nan",
                           "f8e5m2[3]=57344,inf,0.25",
                           "f8e4m3fnuz[3]=240,-0.0009765625,nan",
                           "f8e5m2fnuz[3]=-57344,7.6293945e-06,nan",
                           "f8e8m0[3]=1,0.25,nan",
                           "f4e2m1[3]=6,-0.5,1.5",
                           "i2[5]=-2,1,0,-1,1",
                           "u2[3]=3,0,2",
                           "f32[4]=0.1,-1e-45,inf,nan",
                           "f64[3]=0.1,1e+300,-inf",
                           "f32[]=7",
                           "f32[0]="}) {
    EXPECT_EQ(tensor_text(tensor(text), 100), text);
  }
}

TEST(TensorText, OneValueFillsAll) {
  EXPECT_EQ(tensor_text(tensor("f32[2,2]=1.5"), 100), "f32[2,2]=1.5,1.5,1.5,1.5");
  EXPECT_EQ(tensor_text(tensor("i4[5]=-3"), 100), "i4[5]=-3,-3,-3,-3,-3");
  EXPECT_EQ(tensor_text(tensor("u2[6]=2"), 100), "u2[6]=2,2,2,2,2,2");
  EXPECT_EQ(tensor_text(tensor("u8[7]=9"), 100), "u8[7]=9,9,9,9,9,9,9");
  EXPECT_EQ(tensor_text(tensor("i64[3]=-5"), 100), "i64[3]=-5,-5,-5");
  EXPECT_EQ(tensor_text(tensor("f32[2,2]=1.5"), 2), "f32[2,2]=1.5,1.5,...");
}

TEST(TensorText, RefusesValuesThatDoNotFit) {
  const struct {
    const char* text;
    const char* words;
  } cases[] = {{"f32[3]=1,2", "2 values for f32[3], which has 3"},
               {"i8[2]=1,128", "value 1: '128' is outside the range of i8"},
               {"u8[2]=1,-1", "value 1: '-1' is outside the range of u8"},
               {"i32[1]=1.5", "'1.5' is not an integer of type i32"},
               {"u64[1]=18446744073709551616", "is not an integer"},
               {"f32[2]=1,", "value 1: '' is not a number"},
               {"f32[1]=one", "'one' is not a number"},
               {"f32[4294967296,4294967296]=1", "is too large"},
               {"f32[1]=", "0 values"}};
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
  EXPECT_EQ(tensor_text(out, 9), "f32[2]=1,2");
  EXPECT_THAT(load_tensor(argument, {HEDDLE_TYPE_F32, {3}}, out), HasSubstr("it has 8 bytes, f32[3] needs 12"));
  EXPECT_THAT(load_tensor(argument, {HEDDLE_TYPE_F32, {-1}}, out), HasSubstr("whose shape is not known"));
}

// Every bit pattern of the short formats decodes and encodes to itself (NaNs to a NaN).
TEST(FloatFormats, EveryPatternSurvives) {
  const struct {
    FloatFormat format;
    uint32_t patterns;
  } cases[] = {{kF16, 65536},      {kBF16, 65536},     {kF8E5M2, 256}, {kF8E4M3, 256},
               {kF8E5M2FNUZ, 256}, {kF8E4M3FNUZ, 256}, {kF8E8M0, 256}, {kF4E2M1, 16}};
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
  EXPECT_EQ(encode_float(247, kF8E4M3FNUZ), 0x7F);
  EXPECT_EQ(encode_float(248, kF8E4M3FNUZ), 0x80);  // a NaN
  EXPECT_EQ(encode_float(-0.0, kF8E4M3FNUZ), 0);
  EXPECT_EQ(encode_float(-1e9, kF4E2M1), 0xF);
  EXPECT_EQ(decode_float(encode_float(2.5, kF4E2M1), kF4E2M1), 2);
  EXPECT_EQ(encode_float(1.5, kF8E8M0), 128);
  EXPECT_EQ(encode_float(0, kF8E8M0), 0);
  EXPECT_EQ(encode_float(-1, kF8E8M0), 255);
}

TEST(Compare, TakesToleranceAsNumpyDoes) {
  EXPECT_TRUE(compare(tensor("f32[2]=1,2"), tensor("f32[2]=1,2.1"), 0.1, 0).equal);
  EXPECT_FALSE(compare(tensor("f32[2]=1,2"), tensor("f32[2]=1,2.1"), 0.01, 0).equal);
  EXPECT_TRUE(compare(tensor("f32[2]=1,2"), tensor("f32[2]=1,2.1"), 0, 0.2).equal);
  EXPECT_TRUE(compare(tensor("f32[3]=nan,inf,-inf"), tensor("f32[3]=nan,inf,-inf"), 0, 0).equal);
  EXPECT_FALSE(compare(tensor("f32[1]=nan"), tensor("f32[1]=1"), 1e9, 1e9).equal);
  EXPECT_FALSE(compare(tensor("f32[1]=inf"), tensor("f32[1]=1"), 1e9, 1e9).equal);
  EXPECT_FALSE(compare(tensor("f32[1]=1e38"), tensor("f32[1]=inf"), 1, 1).equal);
  EXPECT_TRUE(compare(tensor("f32[1]=-0"), tensor("f32[1]=0"), 0, 0).equal);
}

TEST(Compare, NamesTheWorstElement) {
  const Comparison result = compare(tensor("f32[2,3]=1,2,3,4,5,6"), tensor("f32[2,3]=1,2,3.5,4,9,6"), 0, 0.1);
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.wrong, 2u);
  EXPECT_THAT(result.explanation, HasSubstr("2 of 6 elements differ; the worst is [1, 1]: got 5, expected 9"));
}

TEST(Compare, WorstIsTheLargestWithoutTolerance) {
  EXPECT_THAT(compare(tensor("f32[3]=1,2,3"), tensor("f32[3]=2,9,4"), 0, 0).explanation, HasSubstr("[1]: got 2, expected 9"));
}

TEST(Compare, ShapesAndTypesMustAgree) {
  EXPECT_THAT(compare(tensor("f32[2]=1,2"), tensor("f32[1,2]=1,2"), 9, 9).explanation, HasSubstr("it is f32[2], expected f32[1,2]"));
  EXPECT_THAT(compare(tensor("f32[2]=1,2"), tensor("f64[2]=1,2"), 9, 9).explanation, HasSubstr("expected f64[2]"));
}

TEST(Compare, LargeIntegersAreExact) {
  EXPECT_FALSE(compare(tensor("i64[1]=9223372036854775807"), tensor("i64[1]=9223372036854775806"), 0, 0).equal);
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
  EXPECT_EQ(result_json("a\"b", tensor("f32[4]=1.5,nan,inf,-inf"), 9),
            R"({"name":"a\"b","shape":[4],"type":"f32","values":[1.5,"nan","inf","-inf"]})");
}

}  // namespace
}  // namespace heddle::tool
