# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes OUTPUT, a header with the commit of SOURCE: " (commit 1234567)", with a + if files differ from it, or nothing outside of a clone. Run
# by each build.
execute_process(COMMAND git describe --always --abbrev=12 --exclude=* --dirty=+ WORKING_DIRECTORY "${SOURCE}"
  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed OR NOT EXISTS "${SOURCE}/.git")
  set(text "")
else()
  set(text " (commit ${commit})")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define HEDDLE_COMMIT \"${text}\"\n")
