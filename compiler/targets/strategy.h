// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One way to make the kernel of a region, and what it says of it. A target has a list of these.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/tx.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets {

// A strategy that was asked for a region and did not take it.
struct Refusal {
  std::string strategy;
  std::string reason;
};

// What a call must not exceed.
struct Limit {
  mlir::AffineExpr value;  // over the function's symbols
  int64_t most;
  std::string what;  // "keys of attention"
};

// A condition on a call, or on the device that runs it.
struct Guard {
  mlir::AffineExpr value;  // over the function's symbols; null: the device's compute units
  int64_t min = 0, max = INT64_MAX;
  bool operator==(const Guard&) const = default;
};

// Which of a strategy's ways to make a kernel it is.
struct Choice {
  std::string text;              // as reports and files of choices have it: "4 bands, 2 blocks"; empty: there is one way
  std::vector<int64_t> numbers;  // the strategy's own
};

// How a region is cut into workgroups. The same for all variants of a family, since the host program holds the grid.
struct KernelPlan {
  mlir::AffineExpr workgroups;  // number of workgroups (x; y = z = 1) over the function's symbols
  uint64_t cost_ns = 0;         // estimate for one workgroup on one core
  Choice choice = {};
  std::vector<Guard> guards = {};  // of calls that it is for
  double estimate_ns = 0;          // for the whole region in such a call, to compare plans with the same guards; 0: none
  std::string strategy = {};       // whose plan it is
  std::vector<Refusal> refusals = {};
  std::vector<Limit> limits = {};
  // A result may take the place of an operand (tied of tx.dispatch) that each of its elements reads at its own place alone, and the kernel is as fast.
  bool works_in_place = false;
  // Each operand of a concat that only element-wise ops are behind has workgroups of its own, so that it may be empty.
  bool copies_by_operand = false;
  // Products over no elements are sums of nothing.
  bool sums_nothing = false;
};

using Plans = std::vector<KernelPlan>;

// What a strategy that was asked says of a region.
struct Answer {
  std::string strategy;
  Plans plans;         // none: it does not take the region
  std::string reason;  // why it does not; empty: it never does the like
};

// What one variant needs for one kernel.
struct KernelResources {
  uint64_t workspace_bytes = 0;
  uint32_t workgroup_size = 1;       // threads
  uint32_t subgroup_size = 0;        // threads that exchange values without memory; 0: none do
  uint64_t shared_memory_bytes = 0;  // of one workgroup
  uint32_t registers = 0;            // of a thread; 0: not known
  uint64_t spilled_bytes = 0;        // of a thread, if the registers are known
  std::string rung;                  // step of the resource ladder, if not the first
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // As reports and tests have it.
  virtual llvm::StringRef name() const = 0;
  // Whether it goes by stages, and so takes ops that nothing else defines (tx::has_only_stages).
  virtual bool reads_stages() const { return false; }

  // The ways to make the region's kernel. Plans with the same guards stand together, and a program has one of them: the first, which is the best by estimate, or
  // nearly so and the same as that of other guards. A call
  // takes the first guards that hold, and the last plans have none. Plans with different guards give the same bits. Fails for a region
  // that is not this strategy's: with a diagnostic on the op that it cannot do, or with none if it never does the like.
  virtual mlir::FailureOr<Plans> plans(tx::DispatchOp region) const = 0;

  // Adds the kernel of the region, named `symbol`, to `kernels`. `plan` is one of plans(), of this or of another variant of the family.
  virtual mlir::FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                                mlir::ModuleOp kernels) const = 0;
};

// In order of preference.
using Strategies = std::vector<std::unique_ptr<Strategy>>;

}  // namespace heddle::targets
