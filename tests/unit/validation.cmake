# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of core/validation: each rule broken, by a host and by a driver; and the tests of the core behind the layer, where nothing may be told.
if(NOT TARGET heddle_validation)
  return()
endif()
heddle_add_test(NAME validation_test SOURCES validation_host_test.cpp validation_plugin_test.cpp validation_allocator_test.cpp LIBS heddle_plugin_host)
target_include_directories(validation_test PRIVATE ${PROJECT_SOURCE_DIR})
add_dependencies(validation_test heddle_validation)
heddle_add_test(NAME validation_tables_test SOURCES validation_tables_test.cpp LIBS heddle_core_host)
target_compile_definitions(validation_tables_test PRIVATE HEDDLE_TEST_PLUGINS="${HEDDLE_PLUGIN_OUTPUT_DIRECTORY}")
add_dependencies(validation_tables_test heddle_validation)

if(TARGET core_runtime_test)
  add_test(NAME core_runtime_validated_test COMMAND core_runtime_test --gtest_brief=1)
  set_tests_properties(core_runtime_validated_test PROPERTIES ENVIRONMENT "HEDDLE_TEST_VALIDATION=1;${HEDDLE_TEST_ENVIRONMENT}"
    FAIL_REGULAR_EXPRESSION "broke a rule" TIMEOUT 300)
  add_dependencies(core_runtime_test heddle_validation)
endif()
