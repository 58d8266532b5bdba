# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of core/open, core/route, core/memory, core/submit and runtime.h. Those named core_runtime_* run once per driver.
heddle_add_test(NAME core_interpreter_test SOURCES core_interpreter_test.cpp core_pool_test.cpp LIBS heddle_core heddle_plugin_host)
heddle_add_test(NAME core_route_test SOURCES core_route_test.cpp LIBS heddle_core heddle_plugin_host)
heddle_add_test(NAME core_runtime_test
  SOURCES core_runtime_call_test.cpp core_runtime_checks_test.cpp core_runtime_errors_test.cpp core_runtime_globals_test.cpp core_runtime_weights_test.cpp core_runtime_blocks_test.cpp core_runtime_async_test.cpp core_runtime_order_test.cpp core_runtime_device_test.cpp core_runtime_pairs_test.cpp core_runtime_peer_test.cpp core_runtime_deadline_test.cpp core_runtime_late_test.cpp core_runtime_memory_test.cpp core_runtime_needs_test.cpp core_runtime_inspection_test.cpp core_runtime_shared_test.cpp core_runtime_donation_test.cpp core_runtime_refit_test.cpp core_runtime_tensor_test.cpp core_runtime_sharing_test.cpp
  LIBS heddle heddle_module heddle_plugin_host)
add_dependencies(core_runtime_test heddle_probe)
heddle_add_test(NAME core_exhausted_test SOURCES core_exhausted_test.cpp LIBS heddle heddle_module heddle_plugin_host)
heddle_add_test(NAME core_cpp_layer_test SOURCES core_cpp_layer_test.cpp LIBS heddle heddle_module heddle_plugin_host)
# In C, as applications use it; the C++ layer's test includes the header, too.
add_executable(core_dlpack_test core_dlpack_test.c)
target_link_libraries(core_dlpack_test PRIVATE heddle_options heddle)
set_target_properties(core_dlpack_test PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME core_dlpack_test COMMAND core_dlpack_test ${HEDDLE_PLUGIN_OUTPUT_DIRECTORY})
set_tests_properties(core_dlpack_test PROPERTIES TIMEOUT ${HEDDLE_TEST_SECONDS} ENVIRONMENT "${HEDDLE_TEST_ENVIRONMENT}")
if(TARGET heddle_test_streams)
  add_dependencies(core_runtime_test heddle_test_streams)
  add_dependencies(core_exhausted_test heddle_test_streams)
  add_dependencies(core_cpp_layer_test heddle_test_streams)
endif()
foreach(allocator heddle_pool heddle_system heddle_arena heddle_limit heddle_track heddle_log)
  if(TARGET ${allocator})
    add_dependencies(core_runtime_test ${allocator})
  endif()
endforeach()

foreach(subject operations preferences)
  heddle_add_test(NAME core_${subject}_test SOURCES core_${subject}_test.cpp LIBS heddle heddle_module heddle_plugin_host)
  target_compile_definitions(core_${subject}_test PRIVATE HEDDLE_TEST_LIBRARIES="${PROJECT_BINARY_DIR}/tests/library")
  add_dependencies(core_${subject}_test heddle_test_library heddle_other_library)
endforeach()
