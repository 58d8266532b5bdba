// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// That the tests of this program execute every instruction that covered_names.h lists, after all of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/amdgpu/covered.h"
#include "tests/amdgpu/covered_names.h"

namespace heddle::amdgpu {
namespace {

class Covered : public testing::Environment {
 public:
  void TearDown() override {
    if (const char* path = std::getenv("HEDDLE_AMDGPU_COVERED")) {  // to write the list again
      std::ofstream file(path);
      for (const std::string& name : covered_instructions()) file << name << "\n";
    }
    if (testing::GTEST_FLAG(filter) != "*") return;  // only some tests ran
    for (const std::string& name : covered_names())
      EXPECT_TRUE(covered_instructions().contains(name)) << name << " is not executed by any test";
  }
};
const testing::Environment* const kCovered = testing::AddGlobalTestEnvironment(new Covered);

}  // namespace
}  // namespace heddle::amdgpu
