// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows between the products of attention (attention_shape.h) as a softmax that can be computed by blocks of keys, each block correcting the
// results of the blocks before it (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). Knows no target.
#pragma once

#include "compiler/targets/attention_shape.h"

namespace heddle::targets {

class OnlineSoftmax {
 public:
  // Fails for other rows: with a diagnostic, which begins with `who`. Adds its own stages to the shape's module.
  static mlir::FailureOr<OnlineSoftmax> read(const AttentionShape& shape, llvm::StringRef who);

  // The softmax's argument for `lanes` neighboring keys, or one (0), in f32, given the sums of the first product; for keys that count.
  mlir::Value argument(KernelBuilder& k, const AttentionShape& shape, llvm::ArrayRef<mlir::Value> element, mlir::Value query_index,
                       mlir::Value key, mlir::Value sums, int64_t lanes) const;

  // Whether the argument of keys that count is the sum itself.
  bool is_plain = false;
  // If set: for a query, keys up to its own index plus this number count; the weights of all others are 0.
  std::optional<mlir::AffineExpr> keys_ahead;
  // The result of a row whose weights are not numbers is 0, not NaN.
  bool nothing_is_zero = false;

 private:
  stage::MapOp exponentials_;
  stage::MapOp argument_;  // if the condition of keys_ahead holds
};

}  // namespace heddle::targets
