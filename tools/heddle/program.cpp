// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Handles exceptions that nothing else caught.
#include "tools/heddle/program.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>

#include "sdk/module/error.h"
#include "tools/heddle/command.h"
#include "tools/heddle/output.h"

namespace heddle::tool {

int run_program(const std::string& who, const std::string& doing, const std::string& small, const std::function<int()>& work) {
  int code;
  try {
    code = work();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: %s failed: out of memory; free memory, or %s\n", who.c_str(), doing.c_str(), small.c_str());
    code = kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", who.c_str(), error.what());
    code = kFailed;
  }
  if (!finish_output()) {
    std::fprintf(stderr, "%s: writing results failed: %s\n", who.c_str(), module::why_not_written(errno).c_str());
    if (code == kFine) code = kFailed;
  }
  return code;
}

}  // namespace heddle::tool
