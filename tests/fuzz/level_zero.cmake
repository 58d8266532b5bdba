# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if(TARGET heddle_level_zero_spirv)
  heddle_add_fuzzer(NAME level_zero_spirv_fuzz SOURCES level_zero_spirv_fuzz.cpp LIBS heddle_level_zero_spirv CORPUS corpus/level_zero_spirv)
endif()
