// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the results of a region have to be, from two evaluators that share nothing: that of its tx ops (reference.h), and that of its stages
// (compiler/stage/interpreter.h). Used by tests of targets; knows none.
#pragma once

#include <string>
#include <vector>

#include "tests/compiler/kernel_run.h"

namespace heddle::tests {

struct Expected {
  std::vector<Tensor> by_ops;
  std::vector<Tensor> by_stages;  // empty where the region has no stages, or more indices than are interpreted
};

// Stages of a region are interpreted if their domains have at most so many indices together, reduced dimensions included. An index takes about
// a microsecond, those of regions with folds three times that.
inline constexpr int64_t most_interpreted = 200000;

// EXPECTs that the stages mean the same however their folds are gone through, so that `merge` is right.
Expected expected_results(tx::DispatchOp region, const std::vector<Tensor>& operands, const CheckOptions& options);

// EXPECTs that a kernel's results agree with both within the options' tolerances.
void expect_results(const std::vector<Tensor>& got, const Expected& wanted, const CheckOptions& options, const std::string& what);

// EXPECTs that the region gives these results at every level of x86-64, in one call and in one call per workgroup, and on devices.
void check_results(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options);

}  // namespace heddle::tests
