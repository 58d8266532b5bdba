// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Events as lines of one JSON array. Written with write(2), so that a forked child has no buffer to flush at exit.
#include "core/host/trace.h"

#include <fmt/format.h>
#include <sys/stat.h>
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
  if (!complete()) log_.write(HEDDLE_LOG_WARN, "trace", failure_text());
  if (descriptor_ >= 0) close(descriptor_);
}

Status Trace::start() {
  std::lock_guard lock(mutex_);
  if (descriptor_ >= 0 || errno_ != 0) return {};
  descriptor_ = sdk::open_own_file(config_.sink.c_str(), O_TRUNC, 0644);
  if (descriptor_ < 0) {
    return error(
        HEDDLE_STATUS_INVALID_ARGUMENT,
        "trace: opening '{}' failed: {}; name another file with the key 'sink' of [trace] or with --trace: one in a directory that "
        "exists, owned by this user, not a link",
        config_.sink, std::strerror(errno));
  }
  // Written at once, so that a full disk is known before the work is done.
  text_.insert(0, "[\n");
  return flush() ? Status() : failure();
}

Status Trace::finish() {
  std::lock_guard lock(mutex_);
  if (descriptor_ >= 0) (void)complete();
  return errno_ == 0 ? Status() : failure();
}

bool Trace::complete() {
  if (end_bytes_ != 0 && text_.empty()) return true;
  const std::string_view end = any_ ? "\n]\n" : "]\n";
  text_ += end;
  if (!flush()) return false;
  end_bytes_ = end.size();
  return true;
}

bool Trace::flush() {
  // Events after an end overwrite it. A device that cannot seek, such as a terminal, shows it between them.
  if (end_bytes_ != 0) (void)lseek(descriptor_, -static_cast<off_t>(end_bytes_), SEEK_CUR);
  end_bytes_ = 0;
  for (size_t done = 0; done < text_.size();) {
    const ssize_t count = write(descriptor_, text_.data() + done, text_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      errno_ = errno;
      discard();
      break;
    }
    done += static_cast<size_t>(count);
  }
  text_.clear();
  return errno_ == 0;
}

void Trace::discard() {
  struct stat opened, named;
  // The name may have been given to another file since, and a device stays.
  if (fstat(descriptor_, &opened) == 0 && S_ISREG(opened.st_mode) && lstat(config_.sink.c_str(), &named) == 0 &&
      opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) {
    unlink(config_.sink.c_str());
  }
  close(descriptor_);
  descriptor_ = -1;
}

std::string Trace::failure_text() const {
  return fmt::format("writing '{}' failed: {}; there is no trace; free space on its disk or name a file on another", config_.sink,
                     std::strerror(errno_));
}

Status Trace::failure() const {
  const bool is_full = errno_ == ENOSPC || errno_ == EDQUOT || errno_ == EFBIG;
  return error(is_full ? HEDDLE_STATUS_RESOURCE_EXHAUSTED : HEDDLE_STATUS_UNKNOWN, "trace: {}", failure_text());
}

void Trace::add(const std::string& event) {
  // Before the file exists, and once it cannot be written, events beyond the buffer are dropped.
  if (errno_ != 0 || (descriptor_ < 0 && text_.size() >= kBufferBytes)) return;
  if (any_) text_ += ",\n";
  any_ = true;
  text_ += event;
  if (descriptor_ >= 0 && text_.size() >= kBufferBytes && !flush()) log_.write(HEDDLE_LOG_WARN, "trace", failure_text());
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
