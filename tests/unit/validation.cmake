# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of core/validation: each rule broken, by a host and by a driver; and the tests of the core behind the layer, where nothing may be told.
if(NOT TARGET heddle_validation)
  return()
endif()
heddle_add_test(NAME validation_test SOURCES validation_host_test.cpp validation_plugin_test.cpp validation_param_io_test.cpp
  validation_allocator_test.cpp validation_library_test.cpp LIBS heddle_plugin_host)
target_include_directories(validation_test PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(validation_test PRIVATE HEDDLE_TEST_LIBRARIES="${PROJECT_BINARY_DIR}/tests/library")
add_dependencies(validation_test heddle_validation heddle_test_library)
heddle_add_test(NAME validation_tables_test SOURCES validation_tables_test.cpp LIBS heddle_core_host)
target_compile_definitions(validation_tables_test PRIVATE HEDDLE_TEST_PLUGINS="${HEDDLE_PLUGIN_OUTPUT_DIRECTORY}")
add_dependencies(validation_tables_test heddle_validation)

# Of the operations' tests all but the one whose plugin breaks a rule.
set(arguments_core_runtime_test)
set(arguments_core_operations_test --gtest_filter=-*BadAnswers*)
foreach(test core_runtime_test core_operations_test)
  if(TARGET ${test})
    string(REPLACE _test _validated_test validated ${test})
    add_test(NAME ${validated} COMMAND ${test} --gtest_brief=1 ${arguments_${test}})
    set_tests_properties(${validated} PROPERTIES ENVIRONMENT "HEDDLE_TEST_VALIDATION=1;${HEDDLE_TEST_ENVIRONMENT}"
      FAIL_REGULAR_EXPRESSION "broke a rule" TIMEOUT ${HEDDLE_TEST_SECONDS})
    add_dependencies(${test} heddle_validation)
  endif()
endforeach()
