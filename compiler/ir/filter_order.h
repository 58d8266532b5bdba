// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the filter of a contraction is stored, if a transpose brings it in order. Read by passes and by the targets that pack filters.
#pragma once

#include "compiler/ir/tx.h"

namespace heddle::tx {

// Of a transpose that makes a filter [K..., C, F], or a matrix [C, F]: whether it is stored as [F, C, K...], and not as [F, K..., C]; nothing if it
// is stored in another order.
inline std::optional<bool> stores_channels_first(TransposeOp transpose) {
  llvm::ArrayRef<int64_t> permutation = transpose.getPermutation();
  const int64_t rank = static_cast<int64_t>(permutation.size());
  if (rank < 2 || permutation.back() != 0) return std::nullopt;
  auto stored = [&](int64_t first, int64_t channels) {
    return permutation[static_cast<size_t>(rank - 2)] == channels &&
           llvm::all_of(llvm::seq<int64_t>(0, rank - 2), [&](int64_t d) { return permutation[static_cast<size_t>(d)] == first + d; });
  };
  if (stored(2, 1)) return true;
  return stored(1, rank - 1) ? std::optional(false) : std::nullopt;
}

}  // namespace heddle::tx
