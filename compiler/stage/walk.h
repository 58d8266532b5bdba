// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stage of walks (walk.td). Apart from stage.h, since few files of the compiler need to know it.
#pragma once

#include "compiler/stage/stage.h"

#define GET_OP_CLASSES
#include "walk_op.h.inc"
