# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes OUT, the table of heddle::NAMESPACE::block_codes(), from the code of each of ROWS, `type.variant`, in FOLDER. Comments and indentation of PTX are
# left out.
string(REPLACE "," ";" rows "${ROWS}")
set(arrays "")
set(table "")
foreach(row IN LISTS rows)
  string(FIND "${row}" "." dot)
  string(SUBSTRING "${row}" 0 ${dot} type)
  math(EXPR dot "${dot} + 1")
  string(SUBSTRING "${row}" ${dot} -1 variant)
  string(MAKE_C_IDENTIFIER "k_${row}" name)
  if(SUFFIX STREQUAL "ptx")
    file(READ "${FOLDER}/${row}.${SUFFIX}" code)
    string(REGEX REPLACE "//[^\n]*" "" code "${code}")
    string(REGEX REPLACE "[ \t]*\n[ \t\n]*" "\n" code "${code}")
    string(APPEND arrays "constexpr char ${name}[] = R\"ptx(${code})ptx\";\n")
  else()
    file(READ "${FOLDER}/${row}.${SUFFIX}" code HEX)
    string(REGEX REPLACE "(................................)" "\\1\"\n\"" code "${code}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" code "${code}")
    string(APPEND arrays "alignas(64) constexpr char ${name}[] =\n\"${code}\";\n")
  endif()
  string(APPEND table "    {\"${type}\", module::blocks::${type}::kElements, module::blocks::${type}::kBytes, \"${FORMAT}\", \"${variant}\", {${name}, sizeof ${name} - 1}},\n")
endforeach()
file(WRITE "${OUT}" "// Made by embed_block_kernels.cmake.
#include <span>

#include \"heddle/sdk/stream/blocks.h\"
#include \"sdk/module/block_values.h\"

namespace heddle::${NAMESPACE} {
namespace {
${arrays}
const sdk::stream::BlockCode kCodes[] = {
${table}    {}};  // the end
}  // namespace

std::span<const sdk::stream::BlockCode> block_codes() {
  return std::span(kCodes).first(std::size(kCodes) - 1);
}

}  // namespace heddle::${NAMESPACE}
")
