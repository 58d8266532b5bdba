// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A manifest of any bytes, as the compiler reads it: it is refused with one line, or its operators are what importers rely on.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/import/operators.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("operators.toml", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  heddle::import::Operators operators;
  const std::string wrong = operators.add("/proc/self/fd/" + std::to_string(descriptor));
  close(descriptor);
  std::string known;
  const heddle::import::Operator* found = operators.find("test", "Scale", INT64_MAX, &known);
  auto demand = [](bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "operators_fuzz: %s\n", what);
    std::abort();
  };
  demand(wrong.empty() || wrong.rfind("compiler: reading operators of '", 0) == 0, "a refusal without who and what");
  if (!found) return 0;
  demand(wrong.empty() && found->version >= 1 && !found->outputs.empty() && found->required_inputs <= found->inputs.size(),
         "an operator that is none passed");
  for (const heddle::import::OperatorOutput& output : found->outputs) {
    demand(output.type_of < static_cast<int>(found->required_inputs) && output.extents_of < static_cast<int>(found->required_inputs),
           "a type that follows an input which may be left out passed");
  }
  return 0;
}
