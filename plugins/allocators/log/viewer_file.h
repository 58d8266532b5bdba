// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the events of a pool as a PyTorch memory snapshot, for the viewer at https://pytorch.org/memory_viz: a pickle of protocol 2 with the
// dictionary {"device_traces": [[event, ...]], "segments": []}, with the fields of torch.cuda.memory._snapshot(). Events are written as they occur;
// the file gets its name when it is complete. Used by log.cpp; not thread-safe.
#ifndef HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_
#define HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_

#include <ctime>
#include <string>
#include <string_view>

#include "heddle/sdk/own_file.h"

namespace heddle::log {

class ViewerFile {
 public:
  ViewerFile() = default;
  ViewerFile(const ViewerFile&) = delete;
  ViewerFile& operator=(const ViewerFile&) = delete;
  ~ViewerFile() { close(); }

  // False, with errno: the file cannot be written.
  bool open(const std::string& path) {
    path_ = path;
    const int descriptor = sdk::open_own_file(part().c_str(), O_TRUNC, 0644);
    file_ = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
    if (!file_) {
      const int error = errno;
      if (descriptor >= 0) ::close(descriptor);
      errno = error;
      return false;
    }
    put("\x80\x02}(");
    text("device_traces");
    put("](](");  // one device, whose events follow
    return true;
  }
  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }

  // pool and owner are stored where PyTorch has the stack: "pool:number:owner".
  void event(const char* action, uint64_t address, uint64_t size_bytes, std::string_view pool, uint64_t number, std::string_view owner) {
    put("}(");
    text("action"), text(action);
    text("addr"), integer(address);
    text("size"), integer(size_bytes);
    text("stream"), integer(0);
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    text("time_us"), integer(static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_nsec) / 1000);
    text("frames"), put("](}(");
    text("filename"), text(pool);
    text("line"), integer(number);
    text("name"), text(owner);
    put("ueu");
    // A viewer takes as many items at once from its stack as a list gets: not millions.
    if (++pending_ == 1000) {
      put("e(");
      pending_ = 0;
    }
  }

  // Gives the file its name. False: writing failed, now or earlier; the partial file is removed.
  bool close() {
    if (!file_) return true;
    put("ee");
    text("segments");
    put("]u.");
    const bool written = std::ferror(file_) == 0;
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    if (written && closed && std::rename(part().c_str(), path_.c_str()) == 0) return true;
    std::remove(part().c_str());
    return false;
  }

 private:
  std::string part() const { return path_ + ".part"; }
  void put(std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), file_); }
  void little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) std::fputc(static_cast<int>(value >> (8 * i) & 0xFF), file_);
  }
  void text(std::string_view value) {  // BINUNICODE
    std::fputc('X', file_);
    little_endian(value.size(), 4);
    put(value);
  }
  void integer(uint64_t value) {
    if (value <= 0x7FFFFFFF) {  // BININT
      std::fputc('J', file_);
      little_endian(value, 4);
    } else {  // LONG1 of eight bytes, two's complement
      put("\x8a\x08");
      little_endian(value & 0x7FFFFFFFFFFFFFFF, 8);
    }
  }

  std::string path_;
  std::FILE* file_ = nullptr;
  int pending_ = 0;  // events since the last MARK
};

}  // namespace heddle::log
#endif  // HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_
