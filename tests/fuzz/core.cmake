# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Harness of core/submit and core/route: hostile host programs.
if(TARGET heddle_core_objects AND TARGET heddle_module)
  heddle_add_fuzzer(NAME program_fuzz SOURCES program_fuzz.cpp LIBS heddle_core_objects heddle_core_cold_objects heddle_core_host heddle_module
    CORPUS corpus/program)
endif()
