// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on the bits of elements (bits.td). Apart from tx.h, since few files of the compiler need to know them.
#pragma once

#include "compiler/ir/tx.h"

#define GET_OP_CLASSES
#include "bit_ops.h.inc"
