// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols whose values a device computes (read.td). Apart from tx.h, since few files of the compiler need to know them.
#pragma once

#include "compiler/ir/tx.h"
#include "llvm/ADT/SmallVector.h"

#define GET_OP_CLASSES
#include "read_op.h.inc"

namespace heddle::tx {

// The largest value of a symbol that is read, as of an extent in a model.
inline constexpr int64_t largest_read = int64_t{1} << 40;

// The symbols that are read in the block, in program order, with the position of each symbol and the op that reads it: a read, or a loop of which they
// are extents of results.
struct ReadSymbol {
  unsigned position;
  mlir::Operation* op;
};
llvm::SmallVector<ReadSymbol> read_symbols(mlir::Block& block);

// Whether a type in the op, or in its regions, has the symbol, directly or through symbols that are defined by it (tx::defined_symbols_attr of the
// function that the op is in).
bool mentions(mlir::Operation* op, unsigned symbol);

}  // namespace heddle::tx
