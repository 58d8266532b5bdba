# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
heddle_add_fuzzer(NAME cpu_image_fuzz SOURCES cpu_image_fuzz.cpp LIBS heddle_cpu_image CORPUS corpus/cpu_image)
