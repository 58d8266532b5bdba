// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Events as lines of one JSON array. Written with write(2), so that a forked child has no buffer to flush at exit.
#include "core/host/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/host/json_text.h"
#include "sdk/cpp/heddle/sdk/own_file.h"

namespace heddle::host {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
// Two processes in the viewer: the threads of one are devices, those of the other are threads.
constexpr int kDevices = 1, kThreads = 2;

double microseconds(uint64_t ns) {
  return static_cast<double>(ns) / 1000;
}

}  // namespace

Trace::~Trace() {
  std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return;
  text_ += any_ ? "\n]\n" : "[\n]\n";
  flush();
  if (descriptor_ >= 0) close(descriptor_);
}

Status Trace::start() {
  std::lock_guard lock(mutex_);
  if (descriptor_ >= 0 || failed_) return {};
  descriptor_ = sdk::open_own_file(config_.sink.c_str(), O_TRUNC, 0644);
  if (descriptor_ >= 0) return {};
  return error(HEDDLE_STATUS_INVALID_ARGUMENT,
               "trace: opening '{}' failed: {}; correct the key 'sink' of [trace], which must name a file owned by this user, not a link",
               config_.sink, std::strerror(errno));
}

void Trace::flush() {
  for (size_t done = 0; done < text_.size();) {
    const ssize_t count = write(descriptor_, text_.data() + done, text_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      log_.write(HEDDLE_LOG_WARN, "trace", fmt::format("writing '{}' failed: {}; the trace ends here", config_.sink, std::strerror(errno)));
      close(descriptor_);
      descriptor_ = -1;
      failed_ = true;
      break;
    }
    done += static_cast<size_t>(count);
  }
  text_.clear();
}

void Trace::add(const std::string& event) {
  // Before the file exists, and once it cannot be written, events beyond the buffer are dropped.
  if (failed_ || (descriptor_ < 0 && text_.size() >= kBufferBytes)) return;
  text_ += any_ ? ",\n" : "[\n";
  any_ = true;
  text_ += event;
  if (descriptor_ >= 0 && text_.size() >= kBufferBytes) flush();
}

void Trace::span(const char* category, std::string_view name, std::string_view track, uint64_t begin_ns, uint64_t duration_ns) noexcept {
  try {
    std::lock_guard lock(mutex_);
    auto known = tracks_.find(track);
    if (known == tracks_.end()) {
      known = tracks_.emplace(track, tracks_.size() + 1).first;
      add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", kDevices, known->second,
                      json_quoted(track)));
    }
    add(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":"{}","name":{}}})", kDevices, known->second,
                    microseconds(begin_ns), microseconds(duration_ns), category, json_quoted(name)));
  } catch (...) {  // out of memory: the event is dropped
  }
}

void Trace::value(const char* category, std::string_view name, int64_t value) noexcept {
  try {
    const std::string event = fmt::format(R"({{"ph":"C","pid":{},"ts":{:.3f},"cat":"{}","name":{},"args":{{"value":{}}}}})", kDevices,
                                          microseconds(clock_ns()), category, json_quoted(name), value);
    std::lock_guard lock(mutex_);
    add(event);
  } catch (...) {
  }
}

void Trace::begin(std::string_view category, std::string_view name) noexcept {
  if (!wants(kTracePlugins)) return;
  try {
    const std::string event = fmt::format(R"({{"ph":"B","pid":{},"tid":{},"ts":{:.3f},"cat":{},"name":{}}})", kThreads, gettid(),
                                          microseconds(clock_ns()), json_quoted(category), json_quoted(name));
    std::lock_guard lock(mutex_);
    add(event);
  } catch (...) {
  }
}

void Trace::end() noexcept {
  if (!wants(kTracePlugins)) return;
  try {
    const std::string event = fmt::format(R"({{"ph":"E","pid":{},"tid":{},"ts":{:.3f}}})", kThreads, gettid(), microseconds(clock_ns()));
    std::lock_guard lock(mutex_);
    add(event);
  } catch (...) {
  }
}

void Trace::counter(std::string_view name, int64_t count) noexcept {
  if (wants(kTracePlugins)) value("plugins", name, count);
}

}  // namespace heddle::host
