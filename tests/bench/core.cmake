# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
if(TARGET heddle_core)
  find_package(GTest REQUIRED)
  add_executable(core_bench core_bench.cpp)
  target_link_libraries(core_bench PRIVATE heddle_options heddle_core heddle_plugin_host GTest::gtest)
  set_target_properties(core_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()
