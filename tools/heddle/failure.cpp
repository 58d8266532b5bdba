// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints failures and maps statuses to exit codes.
#include "tools/heddle/failure.h"

#include <cstdio>

#include "tools/heddle/command.h"
#include "tools/heddle/output.h"

namespace heddle::tool {

int report(heddle_status_t* status) {
  const heddle_status_code_t code = heddle_status_code(status);
  const std::string message = printable(view(heddle_status_message(status)));
  if (message.empty()) {
    const std::string_view name = view(heddle_status_code_name(code));
    std::fprintf(stderr, "heddle: %.*s\n", static_cast<int>(name.size()), name.data());
  } else {
    std::fwrite(message.data(), 1, message.size(), stderr);
    if (message.back() != '\n') std::fputc('\n', stderr);
  }
  // An operator that no plugin provides means that a plugin is missing.
  const bool lacks_plugin = heddle_status_payload(status, {"operator", 8}).size != 0;
  heddle_status_free(status);
  return lacks_plugin || code == HEDDLE_STATUS_UNAVAILABLE || code == HEDDLE_STATUS_DEVICE_LOST ? kUnavailable : kFailed;
}

int failed(std::string_view command, std::string_view cause) {
  const std::string what = printable(cause);
  std::fprintf(stderr, "heddle %.*s: %.*s\n", static_cast<int>(command.size()), command.data(), static_cast<int>(what.size()), what.data());
  return kFailed;
}

}  // namespace heddle::tool
