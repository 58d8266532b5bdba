# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
heddle_add_fuzzer(NAME hip_code_object_fuzz SOURCES hip_code_object_fuzz.cpp LIBS heddle_hip_code_object CORPUS corpus/hip_code_object)
