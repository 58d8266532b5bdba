/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A library that a fake plugin needs and that stays out of every search path. */
#include "heddle/types.h"

HEDDLE_EXPORT int heddle_test_absent_function(void);
int heddle_test_absent_function(void) {
  return 1;
}
