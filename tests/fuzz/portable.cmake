# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harness of sdk/cpp/portable.
heddle_add_fuzzer(NAME portable_fuzz SOURCES portable_fuzz.cpp LIBS heddle_sdk_portable CORPUS corpus/portable)
