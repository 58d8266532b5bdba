// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A machine whose kernels are compiled by LLVM: memory is accessed through raw pointers, with which hand-written kernels may also compute.
#pragma once

#include "compiler/targets/kernel_builder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace heddle::targets {

class LlvmKernelBuilder : public KernelBuilder {
 public:
  void finish() override;
  mlir::Value gather(mlir::Value base, mlir::Value start, mlir::Value offsets, mlir::Type element, mlir::Value mask) override;
  mlir::Value table(mlir::DenseElementsAttr elements) override;

  mlir::Value pointer(mlir::Value base, mlir::Value element_index, mlir::Type element);
  void prefetch(mlir::Value base, mlir::Value element_index, mlir::Type element, int locality);

 protected:
  using KernelBuilder::KernelBuilder;

  // exchange() of any scalar, by an exchange of 32 bits.
  mlir::Value exchange_words(mlir::Value value, llvm::function_ref<mlir::Value(mlir::Value)> word);

  mlir::Value load_memory(mlir::Type type, mlir::Value base, mlir::Value element_index, mlir::Value mask) override;
  void store_memory(mlir::Value value, mlir::Value base, mlir::Value element_index, mlir::Value mask) override;
};

}  // namespace heddle::targets
