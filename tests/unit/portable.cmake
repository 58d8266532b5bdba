# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
heddle_add_test(NAME portable_test SOURCES portable_own_kernels_test.cpp portable_terms_test.cpp portable_test.cpp LIBS heddle_sdk_portable)
heddle_add_test(NAME portable_memory_test SOURCES portable_memory_test.cpp LIBS heddle_sdk_portable)
target_include_directories(portable_test PRIVATE ${PROJECT_SOURCE_DIR})  # for what is behind the headers
