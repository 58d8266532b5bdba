# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
heddle_add_test(NAME target_messages_test SOURCES target_messages_test.cpp LIBS heddle_sdk_target)
