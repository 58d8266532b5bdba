# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harnesses of what the commands read.
if(TARGET heddle_tool)
  heddle_add_fuzzer(NAME npy_fuzz SOURCES npy_fuzz.cpp LIBS heddle_tool CORPUS corpus/npy)
  heddle_add_fuzzer(NAME tensor_text_fuzz SOURCES tensor_text_fuzz.cpp LIBS heddle_tool CORPUS corpus/tensor_text)
endif()
