# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of what the commands are made of.
if(TARGET heddle_tool)
  heddle_add_test(NAME tool_tensor_test SOURCES tool_tensor_test.cpp LIBS heddle_tool)
  heddle_add_test(NAME tool_npy_test SOURCES tool_npy_test.cpp LIBS heddle_tool)
  heddle_add_test(NAME tool_output_test SOURCES tool_output_test.cpp LIBS heddle_tool)
  heddle_add_test(NAME tool_extent_test SOURCES tool_extent_test.cpp ${PROJECT_SOURCE_DIR}/tools/profile/extent_expression.cpp
    LIBS heddle_tool)
endif()
