// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finding n-grams in texts (ngrams.td). Apart from tx.h, since few files of the compiler need to know it.
#pragma once

#include "compiler/ir/tx.h"

#define GET_OP_CLASSES
#include "ngrams_op.h.inc"

namespace heddle::tx {

// Columns of the table of nodes.
enum NgramColumn : unsigned { parent_column, base_column, number_column, node_columns };
inline constexpr int64_t most_ngram_tokens = 64;

}  // namespace heddle::tx
