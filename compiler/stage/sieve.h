// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sieve (sieve.td). Apart from stage.h, since few files of the compiler need to know it.
#pragma once

#include "compiler/stage/stage.h"

#define GET_OP_CLASSES
#include "sieve_ops.h.inc"
