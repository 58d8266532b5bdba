// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of floats against the conversions one by one, which tool_tensor_test compares with what the formats say.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tools/heddle/float_formats.h"
#include "tools/params/element_blocks.h"

namespace heddle::tool {
namespace {

struct Short {
  heddle_element_type_t type;
  FloatFormat format;
};
constexpr Short kShort[] = {{HEDDLE_TYPE_F16, kF16}, {HEDDLE_TYPE_BF16, kBF16}};

TEST(ElementBlocks, DecodeEveryShortFloat) {
  for (const Short& one : kShort) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto narrow = static_cast<uint16_t>(bits);
      double value = 0;
      decode_block(one.type, reinterpret_cast<const std::byte*>(&narrow), {&value, 1});
      const double expected = decode_float(bits, one.format);
      ASSERT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected))) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
  for (const Short& one : {Short{HEDDLE_TYPE_F8E4M3, kF8E4M3}, Short{HEDDLE_TYPE_F8E5M2, kF8E5M2}}) {
    for (uint32_t bits = 0; bits < 256; ++bits) {
      const auto narrow = static_cast<std::byte>(bits);
      double value = 0;
      decode_block(one.type, &narrow, {&value, 1});
      const double expected = decode_float(bits, one.format);
      ASSERT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected))) << bits;
    }
  }
}

// Rounding once, also from double, where two roundings would end elsewhere; ties, subnormals, overflow.
TEST(ElementBlocks, EncodeRoundsAsOneByOne) {
  std::vector<double> values{0.0,
                             -0.0,
                             1,
                             65504,
                             65519.99,
                             65520,
                             1e-8,
                             5.9604644775390625e-8,
                             2.98e-8,
                             3e38,
                             3.4e38,
                             1e300,
                             -1e300,
                             0x1p-133,
                             0x1p-134,
                             1 + 0x1p-8,
                             1 + 0x1p-8 + 0x1p-40,
                             1 + 3 * 0x1p-8,
                             1 + 0x1p-11,
                             1 + 0x1p-11 + 0x1p-45,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
  std::mt19937_64 random(5);
  for (int i = 0; i < 200'000; ++i) {
    values.push_back(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(random()))));
    values.push_back(std::ldexp(static_cast<double>(random()) * 0x1p-64 + 0.5, static_cast<int>(random() % 60) - 30));
  }
  std::vector<uint16_t> bits(values.size());
  for (const Short& one : kShort) {
    encode_block(one.type, values, reinterpret_cast<std::byte*>(bits.data()));
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(decode_float(bits[i], one.format))) << i;
      } else {
        ASSERT_EQ(bits[i], encode_float(values[i], one.format)) << values[i];
      }
    }
  }
}

TEST(ElementBlocks, F32IsTheProcessorsOwn) {
  const double values[] = {0.1, 1e300, -2.5};
  float out[3];
  encode_block(HEDDLE_TYPE_F32, values, reinterpret_cast<std::byte*>(out));
  EXPECT_EQ(out[0], 0.1f);
  EXPECT_TRUE(std::isinf(out[1]));
  double back[3];
  decode_block(HEDDLE_TYPE_F32, reinterpret_cast<const std::byte*>(out), back);
  EXPECT_EQ(back[2], -2.5);
}

}  // namespace
}  // namespace heddle::tool
