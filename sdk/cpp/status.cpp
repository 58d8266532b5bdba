// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats messages and creates statuses through the host's table.
#include "heddle/sdk/status.h"

#include <cstdarg>
#include <cstdio>

namespace heddle::sdk {
namespace {

constexpr size_t kTextBytes = 768;

heddle_string_t formatted(char (&text)[kTextBytes], const char* format, va_list arguments) noexcept {
  const int written = std::vsnprintf(text, kTextBytes, format, arguments);
  if (written < 0) return string_of("a message that cannot be formatted");
  const auto size = static_cast<size_t>(written);
  return {text, size < kTextBytes ? size : kTextBytes - 1};
}

}  // namespace

heddle_status_t* status(const heddle_host_t* host, heddle_status_code_t code, const char* format, ...) noexcept {
  char text[kTextBytes];
  va_list arguments;
  va_start(arguments, format);
  const heddle_string_t message = formatted(text, format, arguments);
  va_end(arguments);
  return host->status_create(host->self, code, {nullptr, 0}, 0, message);
}

heddle_status_t* errno_status(const heddle_host_t* host, heddle_status_code_t code, int error, const char* format, ...) noexcept {
  char text[kTextBytes];
  va_list arguments;
  va_start(arguments, format);
  const heddle_string_t message = formatted(text, format, arguments);
  va_end(arguments);
  char reason[128] = {};
  const char* described = strerror_r(error, reason, sizeof reason);
  char whole[kTextBytes + 160];
  const int written =
      std::snprintf(whole, sizeof whole, "%.*s: %s", static_cast<int>(message.size), message.data, described ? described : "unknown error");
  return host->status_create(host->self, code, string_of("errno"), error, {whole, static_cast<uint64_t>(written < 0 ? 0 : written)});
}

void set_region(const heddle_host_t* host, heddle_status_t* failure, uint32_t region) noexcept {
  char text[16];
  const int written = std::snprintf(text, sizeof text, "%u", region);
  host->status_set_payload(host->self, failure, string_of("region"), {text, static_cast<uint64_t>(written < 0 ? 0 : written)});
}

heddle_status_t* forked_status(const heddle_host_t* host) noexcept {
  return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                "a call in a forked child failed: handles do not survive a fork; open the device again there [HD-T-01]");
}

heddle_status_t* exhausted_status(const heddle_host_t* host, const char* what) noexcept {
  return status(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%s failed: host memory is exhausted [HD-S-01]", what);
}

heddle_status_t* tail_status(const heddle_host_t* host, const char* what, uint64_t byte) noexcept {
  return status(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                "reading %s failed: byte %llu is set, which this version does not know (or struct_size is too small); "
                "use an older caller or a newer plugin [HD-E-04]",
                what, static_cast<unsigned long long>(byte));
}

}  // namespace heddle::sdk
