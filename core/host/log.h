// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log: levels per component, one sink. Used by host.cpp and, through the host table, by plugins.
// It writes one line at a time and does not interpret lines.
#ifndef HEDDLE_CORE_HOST_LOG_H_
#define HEDDLE_CORE_HOST_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "heddle/plugin.h"

namespace heddle::host {

// Receives every log line; as `log` of heddle_runtime_params_t.
struct LogSink {
  void (*write)(void* context, uint32_t level, heddle_string_t component, heddle_string_t message) = nullptr;
  void* context = nullptr;
};

class Log {
 public:
  // A sink whose write is NULL means standard error.
  Log(LogSink sink, uint32_t level, std::map<std::string, uint32_t> components);
  uint32_t level(std::string_view component) const;
  // Drops lines below the component's level. Never throws; a line that cannot be formatted is truncated.
  void write(uint32_t level, std::string_view component, std::string_view message) const noexcept;

 private:
  LogSink sink_;
  uint32_t level_;
  std::map<std::string, uint32_t, std::less<>> components_;
};

// A plugin's text as one line for logs and terminals (module::escaped); longer text is truncated, trailing line ends are dropped.
std::string one_line(std::string_view text, size_t most = 1024);

// "trace", "debug", "info", "warn", "error" or "off".
std::string_view log_level_name(uint32_t level);
// False if there is no level of that name.
bool log_level_from_name(std::string_view name, uint32_t* out_level);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_LOG_H_
