# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of plugins/allocators.
heddle_add_test(NAME allocator_test SOURCES allocator_test.cpp LIBS heddle_plugin_host)
add_dependencies(allocator_test heddle_system heddle_pool)
