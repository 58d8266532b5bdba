// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions of extents as the compiler's report writes them.
#include <gtest/gtest.h>

#include "tools/profile/extent_expression.h"

namespace heddle::tool {
namespace {

const std::map<std::string, int64_t> kSymbols{{"n", 7}, {"n + 1", 100}, {"batch", 3}, {"batch_size", 5}, {"x.0", 2}, {"most", INT64_MAX}};

TEST(Extents, AreEvaluated) {
  const std::pair<const char*, int64_t> cases[] = {{"12", 12},
                                                   {"batch * 2048", 6144},
                                                   {"batch * 2 + batch_size * 10", 56},
                                                   {"(n floordiv 2) * 4 - 1", 11},
                                                   {"n ceildiv 2 + n mod 4", 7},
                                                   {"-n + 10", 3},
                                                   {"(-n) floordiv 2", -4},
                                                   {"(-n) mod 4", 1},
                                                   {"x.0 * (batch + n)", 20},
                                                   {"n + 1", 100}};  // the longest name
  for (const auto& [text, value] : cases) EXPECT_EQ(evaluate_extent(text, kSymbols), value) << text;
}

TEST(Extents, AreRefused) {
  for (const char* text : {"", "m", "n *", "n * ", "n 2", "(n", "n)", "most + most", "most * 2", "n floordiv 0", "n mod m", "1.5"})
    EXPECT_EQ(evaluate_extent(text, kSymbols), std::nullopt) << text;
  EXPECT_EQ(evaluate_extent(std::string(100'000, '('), kSymbols), std::nullopt);
  EXPECT_EQ(evaluate_extent(std::string(100'000, '-'), kSymbols), std::nullopt);
}

}  // namespace
}  // namespace heddle::tool
