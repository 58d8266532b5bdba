# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of plugins/allocators.
foreach(subject every pool stack threads trace)
  heddle_add_test(NAME allocator_${subject}_test SOURCES allocator_${subject}_test.cpp LIBS heddle_plugin_host heddle_memory_trace)
  add_dependencies(allocator_${subject}_test heddle_system heddle_pool heddle_arena heddle_limit heddle_track heddle_log)
endforeach()
