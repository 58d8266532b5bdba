# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes OUT, the rows of the table in blocks.cpp, from the PTX of each of TYPES in FOLDER. Comments and indentation are left out.
string(REPLACE "," ";" types "${TYPES}")
set(rows "")
foreach(type IN LISTS types)
  file(READ "${FOLDER}/${type}.ptx" ptx)
  string(REGEX REPLACE "//[^\n]*" "" ptx "${ptx}")
  string(REGEX REPLACE "[ \t]*\n[ \t\n]*" "\n" ptx "${ptx}")
  string(APPEND rows "{\"${type}\", TYPE(${type}), R\"ptx(${ptx})ptx\"},\n")
endforeach()
file(WRITE "${OUT}" "${rows}")
