// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposes, against the reference: tiles, narrow dimensions, merged dimensions, ops around them.
#include <gtest/gtest.h>

#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

struct TransposeCase {
  const char* in;
  const char* permutation;
  const char* out;
};

class Transpose : public ::testing::TestWithParam<TransposeCase> {};

TEST_P(Transpose, AgreesWithTheReference) {
  const TransposeCase& c = GetParam();
  CheckOptions options;
  options.relative = options.absolute = 0;
  SCOPED_TRACE(std::string(c.in) + " by " + c.permutation);
  check_region(region_text({c.in}, {c.out},
                           std::string("%x = tx.transpose %0 {permutation = array<i64: ") + c.permutation + ">} : tensor<" + c.in +
                               "> -> tensor<" + c.out + ">\n tx.yield %x : tensor<" + c.out + ">"),
               options);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Transpose,
                         ::testing::Values(TransposeCase{"32x48xf32", "1, 0", "48x32xf32"}, TransposeCase{"33x47xf32", "1, 0", "47x33xf32"},
                                           TransposeCase{"100x9xf32", "1, 0", "9x100xf32"}, TransposeCase{"9x100xf32", "1, 0", "100x9xf32"},
                                           TransposeCase{"1x3x20x31xf32", "0, 2, 3, 1", "1x20x31x3xf32"},
                                           TransposeCase{"2x20x31x3xf32", "0, 3, 1, 2", "2x3x20x31xf32"},
                                           TransposeCase{"1x64x14x14xf32", "0, 2, 3, 1", "1x14x14x64xf32"},
                                           TransposeCase{"2x14x14x40xf32", "0, 3, 1, 2", "2x40x14x14xf32"},
                                           TransposeCase{"32x20x3x3xf32", "2, 3, 1, 0", "3x3x20x32xf32"},
                                           TransposeCase{"3x5x7x11xf32", "3, 2, 1, 0", "11x7x5x3xf32"},
                                           TransposeCase{"1x7x7x4x34xf32", "0, 1, 2, 4, 3", "1x7x7x34x4xf32"},
                                           TransposeCase{"1x7x7x34x4xf32", "0, 1, 2, 4, 3", "1x7x7x4x34xf32"},
                                           TransposeCase{"5x6x40xf32", "1, 0, 2", "6x5x40xf32"},
                                           TransposeCase{"1x1x8x1xf32", "3, 2, 1, 0", "1x8x1x1xf32"},
                                           TransposeCase{"33x47xf64", "1, 0", "47x33xf64"}, TransposeCase{"33x47xi8", "1, 0", "47x33xi8"},
                                           TransposeCase{"33x47xf16", "1, 0", "47x33xf16"},
                                           TransposeCase{"33x47xbf16", "1, 0", "47x33xbf16"}, TransposeCase{"33x7xi1", "1, 0", "7x33xi1"}));

TEST(TransposeRegion, AppliesOpsInFrontAndBehind) {
  check_region(region_text({"1x19x6x7xf32", "19xf32", "1x6x7x19xf32"}, {"1x6x7x19xf32"},
                           "%n = tx.neg %0 : tensor<1x19x6x7xf32>\n"
                           "%t = tx.transpose %n {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x19x6x7xf32> -> tensor<1x6x7x19xf32>\n"
                           "%b = tx.broadcast %1 {dimensions = array<i64: 3>} : tensor<19xf32> -> tensor<1x6x7x19xf32>\n"
                           "%s = tx.mul %t, %b : tensor<1x6x7x19xf32>\n%r = tx.add %s, %2 : tensor<1x6x7x19xf32>\n"
                           "tx.yield %r : tensor<1x6x7x19xf32>"));
}

TEST(TransposeRegion, TakesASymbolicBatch) {
  std::string in = "?x3x8x8xf32, #tx.dims<()[s0] -> (s0, 3, 8, 8)>", out = "?x8x8x3xf32, #tx.dims<()[s0] -> (s0, 8, 8, 3)>";
  std::string last = "8x8x3x?xf32, #tx.dims<()[s0] -> (8, 8, 3, s0)>";
  for (int64_t batch : {1, 5, 37, 0}) {
    CheckOptions options;
    options.symbols = {batch};
    check_region(region_text({in}, {out},
                             "%t = tx.transpose %0 {permutation = array<i64: 0, 2, 3, 1>} : tensor<" + in + "> -> tensor<" + out +
                                 ">\ntx.yield %t : tensor<" + out + ">",
                             "", {"batch"}),
                 options);
    check_region(region_text({in}, {last},
                             "%t = tx.transpose %0 {permutation = array<i64: 2, 3, 1, 0>} : tensor<" + in + "> -> tensor<" + last +
                                 ">\ntx.yield %t : tensor<" + last + ">",
                             "", {"batch"}),
                 options);
  }
}

}  // namespace
}  // namespace heddle::tests
