# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
find_package(benchmark QUIET)
if(benchmark_FOUND)
  find_package(GTest REQUIRED)
  add_executable(cpu_driver_bench cpu_driver_bench.cpp)
  target_link_libraries(cpu_driver_bench PRIVATE heddle_options heddle_plugin_host benchmark::benchmark GTest::gtest)
  set_target_properties(cpu_driver_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()
