// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An exception that leaves a plugin, which none may. Linked into the fake plugins that throw.
#include <stdexcept>

extern "C" void heddle_test_throw();
extern "C" void heddle_test_throw() {
  throw std::runtime_error("the firmware is out of paper");
}
