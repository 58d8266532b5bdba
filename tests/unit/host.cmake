# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Tests of core/host and of statuses.
heddle_add_test(NAME status_test SOURCES status_test.cpp LIBS heddle_core_load)
heddle_add_test(NAME host_config_test SOURCES host_config_test.cpp LIBS heddle_core_host)
heddle_add_test(NAME host_transcript_test SOURCES host_transcript_test.cpp LIBS heddle_core_host)
target_compile_definitions(host_transcript_test PRIVATE HEDDLE_TRANSCRIPTS="${CMAKE_CURRENT_SOURCE_DIR}/transcripts"
  HEDDLE_TEST_PLUGINS="${PROJECT_BINARY_DIR}/tests/plugins.d")
# GCC 12 with AddressSanitizer sees an uninitialized value in std::regex that is not there (its bug 105616).
target_compile_options(host_transcript_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
add_dependencies(host_transcript_test heddle_cpu heddle_test_streams heddle_probe)
heddle_add_test(NAME host_parts_test SOURCES host_parts_test.cpp LIBS heddle_core_host)
target_compile_definitions(host_parts_test PRIVATE HEDDLE_SOURCES="${PROJECT_SOURCE_DIR}")
