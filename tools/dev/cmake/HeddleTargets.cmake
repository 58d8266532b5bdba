# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Settings that all targets of the tree share: language level, warnings, visibility, sanitizers, ccache, and output directories.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE)
  # Relative to the sources, so that clones share compiled objects.
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${HEDDLE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# One layout for the build tree and the install tree: bin, lib, lib/heddle/plugins.d. The host searches relative to itself, so `lib` has no
# architecture subdirectory. Each directory installs its files with `install`, by components, as docs/installation.md lists them. Nothing that is
# installed contains its own path: libraries are found from $ORIGIN, CMake and pkg-config packages relative to themselves.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(HEDDLE_PLUGIN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/heddle/plugins.d)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN")
# Paths are not rewritten at installation either: CMake would reserve space for that with a colon at the end, which means the current directory.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

# The release preset compiles several files at once (CMAKE_UNITY_BUILD), since most of a file's compile time is spent on headers and templates that
# other files use as well; debug and the sanitizers compile each file alone. So a name in an unnamed namespace must be unique within a library, or
# shared.

# GCC 12 reports overlaps in std::string that do not exist (its bug 105329): no -Wrestrict. In a unity build it takes every file for a header, which
# may not use unnamed namespaces: no -Wsubobject-linkage.
# Its std::stable_sort uses a deprecated function, about which clang warns.
add_library(heddle_options INTERFACE)
target_compile_options(heddle_options INTERFACE -Wall -Wextra -Werror $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage> $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations> -fno-plt -ffunction-sections -fdata-sections)
target_link_options(heddle_options INTERFACE -Wl,-z,relro,-z,now -Wl,--gc-sections -Wl,--as-needed)

# For code that is not on the path of a call. GCC estimates sizes before it folds constants, so without the parameter it calls functions such as the one
# for the length of a literal: libheddle has 10 kB less with it.
set(heddle_for_size $<$<CONFIG:Release>:-Os> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:--param=max-inline-insns-size=1>)
if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
endif()

# heddle_add_plugin(NAME heddle_cpu MANIFEST heddle.cpu.toml SOURCES ... LIBS ...)
# A driver or allocator plugin: a module that exports only its entry, and its manifest in the directory lib/heddle/plugins.d. It is installed as a
# separate component, named after its id: `cpu` for heddle.cpu.
function(heddle_add_plugin)
  cmake_parse_arguments(ARG "" "NAME;MANIFEST" "SOURCES;LIBS" ${ARGN})
  add_library(${ARG_NAME} MODULE ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE heddle_options heddle_headers ${ARG_LIBS})
  target_link_options(${ARG_NAME} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/plugins/plugin.map -Wl,-z,defs)
  set_target_properties(${ARG_NAME} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${HEDDLE_PLUGIN_OUTPUT_DIRECTORY}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/plugins/plugin.map INSTALL_RPATH "" BUILD_WITH_INSTALL_RPATH ON)
  configure_file(${ARG_MANIFEST} ${HEDDLE_PLUGIN_OUTPUT_DIRECTORY}/${ARG_MANIFEST} COPYONLY)
  string(REGEX REPLACE "^heddle\\.|\\.toml$" "" component ${ARG_MANIFEST})
  install(TARGETS ${ARG_NAME} LIBRARY DESTINATION lib/heddle/plugins.d COMPONENT ${component})
  install(FILES ${ARG_MANIFEST} DESTINATION lib/heddle/plugins.d COMPONENT ${component})
  set_property(GLOBAL APPEND PROPERTY HEDDLE_PLUGIN_MANIFESTS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_MANIFEST})
endfunction()

# heddle_export(runtime)
# Makes the targets that were installed with EXPORT heddle_<component> available to find_package(Heddle COMPONENTS <component>).
function(heddle_export component)
  install(EXPORT heddle_${component} NAMESPACE Heddle:: FILE Heddle-${component}.cmake DESTINATION lib/cmake/Heddle
    COMPONENT ${component})
endfunction()

# The environment of all tests in a build with sanitizers: a report ends the program, suppressions come from tests/sanitizers.
# Such tests may take longer: with ThreadSanitizer on a busy machine core_runtime_test takes 300 s.
set(HEDDLE_TEST_ENVIRONMENT "")
set(HEDDLE_TEST_SECONDS 300)
if(HEDDLE_SANITIZE)
  set(HEDDLE_TEST_SECONDS 900)
  set(HEDDLE_TEST_ENVIRONMENT
    "HEDDLE_SANITIZE=${HEDDLE_SANITIZE}"
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "LSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/tests/sanitizers/leak.supp':print_suppressions=0"
    "TSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/tests/sanitizers/thread.supp':print_suppressions=0:second_deadlock_stack=1")
endif()

# heddle_add_test(NAME status_test SOURCES status_test.cpp LIBS heddle_core [LABELS slow] [ENV A=b ...] [TIMEOUT seconds])
# One GoogleTest program. Its cases go to test-results/<name>.xml, where tools/dev/test counts each of them.
# The label `slow` keeps a test out of tools/dev/check.
function(heddle_add_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LIBS;ENV;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE heddle_options ${ARG_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT ${HEDDLE_TEST_SECONDS})
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/test-results/${ARG_NAME}.xml;${HEDDLE_TEST_ENVIRONMENT};${ARG_ENV}")
endfunction()

# The Python of the tests: the environment that tools/dev/setup creates (HEDDLE_VENV, or .venv), else the system's.
if(DEFINED ENV{HEDDLE_VENV})
  set(HEDDLE_PYTHON $ENV{HEDDLE_VENV}/bin/python CACHE FILEPATH "Python that runs the tests written in Python")
elseif(EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(HEDDLE_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "Python that runs the tests written in Python")
else()
  set(HEDDLE_PYTHON python3 CACHE FILEPATH "Python that runs the tests written in Python")
endif()

# heddle_add_python_test(NAME layers_test SCRIPT layers_test.py [LABELS slow] [ENV A=b ...] [TIMEOUT seconds])
# One unittest module, of which each case is counted. It finds the trees in HEDDLE_SOURCE and HEDDLE_BUILD.
function(heddle_add_python_test)
  cmake_parse_arguments(ARG "" "NAME;SCRIPT;TIMEOUT" "ENV;LABELS" ${ARGN})
  get_filename_component(script ${ARG_SCRIPT} ABSOLUTE)
  add_test(NAME ${ARG_NAME} COMMAND ${HEDDLE_PYTHON} -B ${PROJECT_SOURCE_DIR}/tools/dev/run_cases.py ${script}
    ${PROJECT_BINARY_DIR}/test-results/${ARG_NAME}.xml)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "HEDDLE_SOURCE=${PROJECT_SOURCE_DIR};HEDDLE_BUILD=${PROJECT_BINARY_DIR};${HEDDLE_TEST_ENVIRONMENT};${ARG_ENV}")
endfunction()
