# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harness of sdk/cpp/target.
heddle_add_fuzzer(NAME target_messages_fuzz SOURCES target_messages_fuzz.cpp LIBS heddle_sdk_target CORPUS corpus/target_messages)
