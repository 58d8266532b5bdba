// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a kernel with the ABI of ptx/1 and gives the operations of a workgroup's threads. Used by every emitter of this directory; knows no strategy.
#pragma once

#include <algorithm>
#include <utility>

#include "compiler/targets/cuda/chip.h"
#include "compiler/targets/llvm_kernel_builder.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace heddle::targets::cuda {

class KernelBuilder : public LlvmKernelBuilder {
 public:
  // Opens the kernel for workgroups of `threads`. is_small: it leaves most of the device to the next kernel, which may start at once; otherwise the
  // next kernel waits, since its workgroups would be distributed unevenly.
  KernelBuilder(tx::DispatchOp region, llvm::StringRef symbol, mlir::ModuleOp kernels, const Chip& chip, int64_t threads, bool is_small);

  // Limits registers so that this many workgroups fit on a multiprocessor.
  void set_residents(int64_t count);

  const Chip& chip;

  void barrier() override;
  mlir::Value exchange(mlir::Value value, int64_t distance) override;
  // A pointer to 16 aligned bytes.
  mlir::Value shared(mlir::Type element, int64_t count) override;
  int64_t shared_bytes() const override { return std::max(shared_bytes_, most_shared_bytes_); }
  // What was shared so far may be used again: a workgroup runs either what was emitted until here, or what comes now.
  void share_again() { most_shared_bytes_ = std::max(most_shared_bytes_, std::exchange(shared_bytes_, 0)); }
  void let_next_start() override;
  // The grid comes in clusters of so many neighboring workgroups.
  void set_cluster(int64_t count) override;
  void cluster_barrier() override;
  mlir::Value shared_of(mlir::Value memory, int64_t rank) override;
  // Start of all memory that the workgroup shares, as a pointer of that address space.
  mlir::Value shared_base();

 private:
  // An instruction that controls when kernels start, or threads go on; memory accesses stay on their side of it.
  void control(const char* text, mlir::ValueRange operands = {}, const std::string& constraints = {});

  mlir::func::FuncOp entry_;
  const bool is_small_;
  int64_t shared_bytes_ = 0, most_shared_bytes_ = 0;
};

// Attribute with the number of workgroups that should fit on a multiprocessor by their registers, if more than one.
inline constexpr llvm::StringLiteral residents_attr = "heddle.residents";
// The attribute with the number of workgroups of a cluster, if that is more than one.
inline constexpr llvm::StringLiteral cluster_attr = "heddle.cluster";

}  // namespace heddle::targets::cuda
