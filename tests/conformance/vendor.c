/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A symbol that no plugin may show, and all there is of a vendor's library that none may be linked with. */
__attribute__((visibility("default"))) int heddle_test_shown_symbol(void) {
  return 1;
}
