// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Queries, keys or values of attention, which are computed by the products' own bodies on their way to local memory. Used by attention.
#pragma once

#include "compiler/targets/amdgpu/local_memory.h"
#include "compiler/targets/attention_shape.h"

namespace heddle::targets::amdgpu {

class AttentionOperand {
 public:
  enum Kind { queries, keys, values };

  // Lines of local memory: for queries and keys, one for each of them with its elements, up to a multiple; for values, one for each column with its keys.
  // element: of the batch. line_elements: stored of a line. line_bytes: from one line to the next.
  AttentionOperand(LlvmKernelBuilder& kernel, const LocalMemory& memory, const AttentionShape& shape, mlir::Type type, Kind kind,
                   llvm::ArrayRef<mlir::Value> element, int64_t lines, int64_t line_elements, int64_t line_bytes);

  // Copies the lines from this query or key (i64) on, to the address (i32). Elements that do not exist become zeros, or any number if nothing that
  // counts is computed from them.
  void fill(mlir::Value first, mlir::Value address) const;

 private:
  stage::ContractOp product() const { return kind_ == values ? shape_.second : shape_.first; }
  // The dimension of the product's domain along a line, and that of the lines; none: it has one index.
  std::optional<unsigned> along() const;
  std::optional<unsigned> across() const;
  // How many neighbors along the dimension can be read at a time, at most.
  int64_t neighbors(std::optional<unsigned> dimension, mlir::AffineExpr extent, int64_t most) const;
  mlir::AffineExpr line_extent() const;  // elements along a line that exist, from the first key on
  mlir::AffineExpr lines_extent() const;
  void fill_piece(mlir::Value piece, mlir::Value first, mlir::Value address) const;

  LlvmKernelBuilder& k_;
  const LocalMemory& memory_;
  const AttentionShape& shape_;
  mlir::Type type_;
  Kind kind_;
  llvm::ArrayRef<mlir::Value> element_;
  int64_t lines_, line_elements_, line_bytes_;
  // A thread reads `wide_` lines and `deep_` elements of them at a time: neighbors are along one of them, and the others are read one after the other.
  bool is_along_ = true;
  int64_t deep_ = 1, wide_ = 1;
};

}  // namespace heddle::targets::amdgpu
