// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One way to make the kernel of a region, and its answer about a region. A target has a list of these.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/tx.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets {

// A strategy that was asked about a region and did not take it.
struct Refusal {
  std::string strategy;
  std::string reason;
};

// A limit that a call must not exceed.
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

// One of the ways in which a strategy can make a kernel.
struct Choice {
  std::string text;              // as in reports and files of choices: "4 bands, 2 blocks"; empty: there is only one way
  std::vector<int64_t> numbers;  // private to the strategy
};

// How a region is divided into workgroups. The same for all variants of a family, since the host program has the grid.
struct KernelPlan {
  mlir::AffineExpr workgroups;  // number of workgroups (x; y = z = 1) over the function's symbols
  uint64_t cost_ns = 0;         // estimate for one workgroup on one core
  Choice choice = {};
  std::vector<Guard> guards = {};  // conditions on calls that it is for
  double estimate_ns = 0;          // for the whole region in such a call, to compare plans with the same guards; 0: none
  std::string strategy = {};       // the strategy that made the plan
  std::vector<Refusal> refusals = {};
  std::vector<Limit> limits = {};
  // A result may overwrite an operand (tied of tx.dispatch) of which each of its elements reads only the one at its own place, and the kernel is as
  // fast.
  bool works_in_place = false;
  // The region may have a `pitch` (tx.dispatch).
  bool stores_rows_apart = false;
  // Each operand of a concat that is followed only by element-wise ops has its own workgroups, so that it may be empty.
  bool copies_by_operand = false;
  // Products over no elements give 0.
  bool sums_nothing = false;
};

using Plans = std::vector<KernelPlan>;

// A strategy's answer about a region.
struct Answer {
  std::string strategy;
  Plans plans;         // empty: it does not take the region
  std::string reason;  // why it does not; empty: the region is not of its kind
};

// What a target's own metadata says of one kernel, besides the resources that a module stores.
struct MachineResources {
  uint32_t scalar_registers = 0;          // of a subgroup
  uint32_t accumulators = 0;              // per thread, included in the registers
  uint32_t spilled_scalar_registers = 0;  // of a subgroup
  uint64_t private_bytes = 0;             // memory of a thread
  uint64_t argument_bytes = 0;
  uint32_t occupancy = 0;  // subgroups that share a SIMD
};

// The resources that one variant needs for one kernel.
struct KernelResources {
  uint64_t workspace_bytes = 0;
  uint32_t workgroup_size = 1;       // threads
  uint32_t subgroup_size = 0;        // threads that exchange values without memory; 0: none
  uint64_t shared_memory_bytes = 0;  // of one workgroup
  uint32_t registers = 0;            // per thread; 0: not known
  uint64_t spilled_bytes = 0;        // per thread, if the registers are known
  std::string rung;                  // fallback or tile that was chosen, if not the first choice
  std::optional<MachineResources> machine = {};
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // As in reports and tests.
  virtual llvm::StringRef name() const = 0;
  // Whether it uses stages, and so accepts ops that are defined only by stages (tx::has_only_stages).
  virtual bool reads_stages() const { return false; }

  // The ways to make the region's kernel. Plans with the same guards are adjacent, and a program has one of them: the first, which is the best by
  // estimate, or nearly the best and the same as that for other guards. A call takes the first plan whose guards hold; the last plans have no
  // guards. Plans with different guards give the same bits. Fails for a region that it does not take: with a diagnostic on the op that it
  // cannot compile, or without one if the region is not of its kind.
  virtual mlir::FailureOr<Plans> plans(tx::DispatchOp region) const = 0;

  // Adds the kernel of the region, named `symbol`, to `kernels`. `plan` is one of plans(), of this or of another variant of the family.
  virtual mlir::FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                                mlir::ModuleOp kernels) const = 0;
};

// In order of preference.
using Strategies = std::vector<std::unique_ptr<Strategy>>;

}  // namespace heddle::targets
