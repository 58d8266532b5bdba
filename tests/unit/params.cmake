# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of what heddle params is made of.
if(TARGET heddle_params_files)
  heddle_add_test(NAME params_npz_test SOURCES params_npz_test.cpp LIBS heddle_params_files)
  heddle_add_test(NAME params_blocks_test SOURCES params_blocks_test.cpp LIBS heddle_params_files)
endif()
