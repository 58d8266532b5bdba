// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a kernel with the ABI of x86_64-elf/1 and gives its workgroups. Used by every emitter of this directory; knows no strategy.
#pragma once

#include "compiler/targets/llvm_kernel_builder.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

class KernelBuilder : public LlvmKernelBuilder {
 public:
  // Opens the kernel. The emitter's code goes into a private function with every binding as a separate argument, so that LLVM knows which ones
  // cannot alias (tied ones may).
  KernelBuilder(tx::DispatchOp region, llvm::StringRef symbol, mlir::ModuleOp kernels, const Level& level);

  const Level& level;

  mlir::Value first() const { return first_; }
  mlir::Value last() const { return last_; }
  mlir::Value workspace() const { return workspace_; }

  // A block in the frame of the kernel; the whole stack has 64 KiB.
  mlir::Value stack(int64_t bytes, int64_t alignment = 64);

  // Transposes a square in registers: lane l of rows[r] becomes lane r of rows[l]. As many rows as a row has lanes, a power of two.
  void transpose(llvm::MutableArrayRef<mlir::Value> rows);

  // Runs the body for every workgroup of this call's range.
  void for_workgroups(const std::function<void(mlir::Value)>& body) { loop(first_, last_, body); }

 protected:
  // Elements of bf16 are moved as integers: LLVM would convert masked lanes of bf16 to f32 and back, by a library function.
  mlir::Value load_memory(mlir::Type type, mlir::Value base, mlir::Value element_index, mlir::Value mask) override;
  void store_memory(mlir::Value value, mlir::Value base, mlir::Value element_index, mlir::Value mask) override;

 private:
  mlir::Value first_, last_, workspace_;
  mlir::func::FuncOp body_;
};

}  // namespace heddle::targets::x86_64
