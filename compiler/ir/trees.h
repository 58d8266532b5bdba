// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ensembles of decision trees (trees.td). Apart from tx.h, since few files of the compiler need to know them.
#pragma once

#include "compiler/ir/tx.h"

#define GET_OP_CLASSES
#include "trees_op.h.inc"

namespace heddle::tx {

// The most steps of complete trees, and of any.
inline constexpr int64_t most_complete_steps = 20, most_tree_steps = 1 << 20;

// Bits of a node's flags.
inline constexpr int64_t nan_goes_first = 1, equal_goes_first = 2, below_goes_first = 4;

}  // namespace heddle::tx
