// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the kernels of a target plugin and portable code for the same, on a device of the target's family, with made-up inputs, and compares the results.
// Knows the module that the compiler writes for this (target_verification in compiler.h), and the runtime.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

struct Verified {
  size_t compared = 0;                // kernels
  size_t entries = 0, unreached = 0;  // of those kernels: all, and those whose guards did not hold with the made-up inputs
  struct Wrong {
    std::string kernel, reason;
  };
  std::vector<Wrong> wrong;
  size_t failed = 0;           // of these: the call failed, or did not end
  std::vector<Wrong> skipped;  // portable code for the same fails with the made-up inputs
  std::string failure;         // nothing more could be compared: why
  bool has_no_device = false;  // the failure: no device takes the code, or there is no driver
};

// In a process of its own, since a wrong kernel may end it, or never end. kernels: those that the module may have, in order. seconds: for a call.
Verified verify_target(const std::string& module, const std::vector<std::string>& kernels, unsigned seconds);

}  // namespace heddle::tool
