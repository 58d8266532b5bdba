// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log. Standard error gets each line with one write, so that lines of several threads and processes do not mix.
// No logging library is used: it would add a third to libheddle's size and to its start time.
#include "core/host/log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

constexpr std::string_view kNames[] = {"trace", "debug", "info", "warn", "error", "off"};

void write_to_stderr(uint32_t level, std::string_view component, std::string_view message) {
  char line[4096];
  size_t used = 0;
  auto append = [&](std::string_view text) {
    size_t size = std::min(text.size(), sizeof(line) - 1 - used);
    std::memcpy(line + used, text.data(), size);
    used += size;
  };
  append(log_level_name(level));
  append(" ");
  append(component);
  append(": ");
  try {
    append(module::printable(message.substr(0, sizeof(line))));
  } catch (...) {
    append("(out of memory)");
  }
  line[used++] = '\n';
  int saved = errno;
  for (size_t done = 0; done < used;) {
    ssize_t written = ::write(STDERR_FILENO, line + done, used - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  errno = saved;
}

}  // namespace

std::string_view log_level_name(uint32_t level) {
  return kNames[std::min<uint32_t>(level, HEDDLE_LOG_OFF)];
}

bool log_level_from_name(std::string_view name, uint32_t* out_level) {
  for (uint32_t i = 0; i <= HEDDLE_LOG_OFF; ++i) {
    if (kNames[i] == name) {
      *out_level = i;
      return true;
    }
  }
  return false;
}

std::string one_line(std::string_view text, size_t most) {
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= 0x20 && text.back() != '\0') text.remove_suffix(1);  // ends of lines
  return module::escaped(text.substr(0, most));
}

Log::Log(LogSink sink, uint32_t level, std::map<std::string, uint32_t> components)
    : sink_(sink), level_(level), components_(components.begin(), components.end()) {}

uint32_t Log::level(std::string_view component) const {
  auto found = components_.find(component);
  return found == components_.end() ? level_ : found->second;
}

void Log::write(uint32_t level, std::string_view component, std::string_view message) const noexcept {
  if (level >= HEDDLE_LOG_OFF || level < this->level(component)) return;
  if (sink_.write) {
    sink_.write(sink_.context, level, {component.data(), component.size()}, {message.data(), message.size()});
  } else {
    write_to_stderr(level, component, message);
  }
}

}  // namespace heddle::host
