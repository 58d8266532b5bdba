// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the elemental strategies: the parts of a region, one index space each, and their workgroups in sequence. Read by plan_elemental() and
// emit_elemental() only.
#pragma once

#include <memory>

#include "compiler/targets/element_evaluator.h"
#include "compiler/targets/region_outputs.h"
#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/row_loops.h"

namespace heddle::targets::x86_64 {

// A part of a region's work. plan() and emit() build the same parts in the same order.
class Part {
 public:
  virtual ~Part() = default;
  virtual mlir::AffineExpr workgroups() const = 0;
  virtual uint64_t cost_ns() const = 0;
  // Whether each element of an operand is read only right before the result's element at the same place is stored.
  virtual bool works_in_place() const { return false; }
  // Emits workgroup `block` of this part.
  virtual mlir::LogicalResult emit(KernelBuilder& kernel, mlir::Value block) const = 0;
};
using Parts = std::vector<std::unique_ptr<Part>>;

// Time for one element on one core, in vectors, of everything between loads and this value.
double element_ns(llvm::ArrayRef<Output> outputs);
double element_ns(mlir::Value value);

// The strategies: null for outputs of another kind; a failure, with a diagnostic, for outputs of their kind that they cannot compute.
mlir::FailureOr<Parts> transpose_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs);
Parts elementwise_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs);

}  // namespace heddle::targets::x86_64
