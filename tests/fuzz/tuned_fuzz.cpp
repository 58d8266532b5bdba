// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file of choices (compile --tuned) of any bytes: read, or refused with its name and a reason.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/code/tuned.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::compiler::Tuned tuned;
  const std::string error = tuned.parse("choices.json", {reinterpret_cast<const char*>(data), size});
  const bool is_named = error.empty() || error.find("choices.json") != std::string::npos;
  if (!is_named || tuned.taken() != 0) {
    std::fprintf(stderr, "tuned_fuzz: %s\n", error.c_str());
    std::abort();
  }
  return 0;
}
