# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harnesses of what heddle params reads.
if(TARGET heddle_params_files)
  heddle_add_fuzzer(NAME npz_fuzz SOURCES npz_fuzz.cpp LIBS heddle_params_files heddle_tool heddle_module CORPUS corpus/npz)
endif()
