/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Symbols that no plugin may show, and all there is of the libraries that one is linked with. */
__attribute__((visibility("protected"))) int heddle_test_shown_data = 1;
__attribute__((visibility("default"))) int heddle_test_shown_function(void) {
  return heddle_test_shown_data;
}
