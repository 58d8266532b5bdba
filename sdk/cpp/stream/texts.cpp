// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts that begin with the driver's name. Nothing here is on the path of a call that succeeds.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "heddle/sdk/stream/device.h"

namespace heddle::sdk::stream {
namespace {

// A text of limited size.
class Line {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept {
    va_list arguments;
    va_start(arguments, format);
    add_list(format, arguments);
    va_end(arguments);
  }
  void add_list(const char* format, va_list arguments) noexcept {
    const int written = std::vsnprintf(text_ + size_, sizeof text_ - size_, format, arguments);
    if (written > 0) size_ = std::min(size_ + static_cast<size_t>(written), sizeof text_ - 1);
  }
  heddle_string_t text() const noexcept { return {text_, size_}; }

 private:
  char text_[1536] = {};
  size_t size_ = 0;
};

heddle_status_t* made(const heddle_host_t* host, const char* who, heddle_status_code_t code, const char* format,
                      va_list arguments) noexcept {
  Line line;
  line.add("%s: ", who);
  line.add_list(format, arguments);
  return host->status_create(host->self, code, {nullptr, 0}, 0, line.text());
}

heddle_status_t* made(const heddle_host_t* host, const char* who, heddle_status_code_t code, Result result, const char* name,
                      const char* text, const char* format, va_list arguments) noexcept {
  Line line;
  line.add("%s: ", who);
  line.add_list(format, arguments);
  line.add(": %s (%s)", name ? name : "unknown error", text ? text : "no text");
  return host->status_create(host->self, code, string_of(who), result, line.text());
}

}  // namespace

heddle_status_t* status(const DeviceRoot* device, heddle_status_code_t code, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  heddle_status_t* failure = made(device->host, device->who, code, format, arguments);
  va_end(arguments);
  return failure;
}

heddle_status_t* status(const Instance* instance, heddle_status_code_t code, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  heddle_status_t* failure = made(instance->host, instance->vendor.who, code, format, arguments);
  va_end(arguments);
  return failure;
}

heddle_status_t* result_status(const Device* device, heddle_status_code_t code, Result result, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  heddle_status_t* failure =
      made(device->host, device->who, code, result, device->backend.name_of(result), device->backend.text_of(result), format, arguments);
  va_end(arguments);
  return failure;
}

heddle_status_t* result_status(const heddle_host_t* host, const char* who, heddle_status_code_t code, Result result, const char* name,
                               const char* text, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  heddle_status_t* failure = made(host, who, code, result, name, text, format, arguments);
  va_end(arguments);
  return failure;
}

void log_line(const DeviceRoot* device, uint32_t level, const char* file, const char* format, ...) noexcept {
  if (device->host->log_level(device->host->self) > level) return;
  Line line;
  line.add("%s: ", device->who);
  va_list arguments;
  va_start(arguments, format);
  line.add_list(format, arguments);
  va_end(arguments);
  device->host->log(device->host->self, level, string_of(file), 0, line.text());
}

heddle_status_t* thrown_status(const DeviceRoot* device, const char* what) noexcept {
  Line line;
  line.add("%s: %s", device->who, what);
  return sdk::guarded(device->host, line.text().data, []() -> heddle_status_t* { throw; });
}

}  // namespace heddle::sdk::stream
