// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The suppression of boxes (suppress.td). Apart from tx.h, since few files of the compiler need to know it.
#pragma once

#include "compiler/ir/tx.h"

#define GET_OP_CLASSES
#include "suppress_op.h.inc"
