// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns statuses of the runtime into lines on stderr and exit codes. Used by every command that calls libheddle.
#pragma once

#include <string>
#include <string_view>

#include "heddle/runtime.h"

namespace heddle::tool {

inline heddle_string_t view(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view view(heddle_string_t text) {
  return {text.data, text.size};
}

// Prints the message on stderr, frees the status, and returns the exit code: 4 for UNAVAILABLE and DEVICE_LOST, 1 for the rest.
int report(heddle_status_t* status);
// Prints "heddle COMMAND: what" on stderr; returns 1.
int failed(std::string_view command, std::string_view what);

}  // namespace heddle::tool
