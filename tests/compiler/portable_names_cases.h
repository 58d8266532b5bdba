// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions whose names portable_names_test.cpp compares with their nodes: each op that portable code names, and several together.
#pragma once

#include <string>
#include <vector>

namespace heddle::tests {

struct Case {
  const char* name;
  std::vector<std::string> operands;
  std::string result, body;  // the body defines %x
};

const std::vector<Case>& cases();

}  // namespace heddle::tests
