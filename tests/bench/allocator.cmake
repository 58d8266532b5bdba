# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Allocators: time of a call, and what traces make a pool reserve.
find_package(GTest REQUIRED)
add_executable(allocator_bench ${CMAKE_CURRENT_LIST_DIR}/allocator_bench.cpp)
target_link_libraries(allocator_bench PRIVATE heddle_options heddle_memory_trace heddle_plugin_host GTest::gtest)
add_dependencies(allocator_bench heddle_pool heddle_log)
set_target_properties(allocator_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
