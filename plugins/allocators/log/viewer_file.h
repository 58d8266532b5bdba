// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the events of a pool as a PyTorch memory snapshot, for the viewer at https://pytorch.org/memory_viz: a pickle of protocol 2 with the
// dictionary {"device_traces": [[event, ...]], "segments": [segment, ...]}, with the fields of torch.cuda.memory._snapshot(). Events are written as
// they occur, to FILE.part; FILE is that and the segments of the moment. Used by log.cpp; not thread-safe.
#ifndef HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_
#define HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_

#include <ctime>
#include <string>
#include <string_view>

#include "heddle/sdk/own_file.h"

namespace heddle::log {

class ViewerFile {
 public:
  explicit ViewerFile(std::string_view pool) : pool_(pool) {}
  ViewerFile(const ViewerFile&) = delete;
  ViewerFile& operator=(const ViewerFile&) = delete;
  ~ViewerFile() {
    if (events_) finish(part(), events_);
  }

  // False, with errno: the file cannot be written.
  bool open(const std::string& path) {
    path_ = path;
    file_ = events_ = open_file(part());
    if (!file_) return false;
    put("\x80\x02}(");
    text("device_traces");
    put("](](");  // one device, whose events follow
    return true;
  }
  bool is_open() const { return events_ != nullptr; }
  const std::string& path() const { return path_; }

  // pool and owner are stored where PyTorch has the stack: "pool:number:owner".
  void event(const char* action, uint64_t address, uint64_t size_bytes, uint64_t number, std::string_view owner) {
    put("}(");
    field("action", action);
    field("addr", address);
    field("size", size_bytes);
    field("stream", uint64_t{0});
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    field("time_us", static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_nsec) / 1000);
    frames(number, owner);
    put("u");
    // A viewer takes as many items at once from its stack as a list gets: not millions.
    if (++pending_ == 1000) {
      put("e(");
      pending_ = 0;
    }
  }

  // A snapshot of what there is so far: begin, the segments with their blocks, and end. False: there is no file to write to, and no end.
  bool begin_snapshot(bool is_last) {
    if (!is_last) {
      if (std::fflush(events_) != 0) return false;
      const int from = ::open(part().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
      if (from < 0) return false;
      std::FILE* const copy = open_file(path_ + ".new");
      ssize_t got = 0;
      if (copy) {
        file_ = copy;
        char bytes[4096];
        while ((got = ::read(from, bytes, sizeof bytes)) > 0) put({bytes, static_cast<size_t>(got)});
      }
      ::close(from);
      if (!copy || got < 0) return false;
    }
    put("ee");
    text("segments");
    put("]");
    return true;
  }
  void begin_segment(uint64_t address, uint64_t size_bytes) {
    at_ = address;
    end_ = address + size_bytes;
    used_ = 0;
    put("}(");
    field("device", uint64_t{0});
    field("address", address);
    field("total_size", size_bytes);
    field("stream", uint64_t{0});
    field("segment_type", "large");
    text("frames");
    put("]");
    text("blocks");
    put("]");
  }
  // Live blocks, by address.
  void block(uint64_t address, uint64_t size_bytes, uint64_t number, std::string_view owner) {
    fill(address);
    block("active_allocated", address, size_bytes, size_bytes);
    frames(number, owner);
    put("ua");
    at_ = address + size_bytes;
    used_ += size_bytes;
  }
  void end_segment() {
    fill(end_);
    for (const char* sum : {"allocated_size", "active_size", "requested_size"}) field(sum, used_);
    put("ua");
  }
  // Gives the file its name. False: writing failed, now or earlier; then the file is removed, and one that existed is unchanged.
  bool end_snapshot() {
    put("u.");
    const bool is_last = file_ == events_;
    const bool written = finish(is_last ? part() : path_ + ".new", file_);
    file_ = events_;
    if (is_last) file_ = events_ = nullptr;
    return written;
  }

 private:
  std::string part() const { return path_ + ".part"; }
  static std::FILE* open_file(const std::string& path) {
    const int descriptor = sdk::open_own_file(path.c_str(), O_TRUNC, 0644);
    std::FILE* const file = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
    if (!file && descriptor >= 0) {
      const int error = errno;
      ::close(descriptor);
      errno = error;
    }
    return file;
  }
  // Closes the file of this name, and renames it.
  bool finish(const std::string& name, std::FILE* file) {
    const bool written = std::ferror(file) == 0;
    const bool closed = std::fclose(file) == 0;
    if (written && closed && std::rename(name.c_str(), path_.c_str()) == 0) return true;
    std::remove(name.c_str());
    return false;
  }
  // A block up to this address: the viewer adds up sizes.
  void fill(uint64_t address) {
    if (at_ >= address) return;
    block("inactive", at_, address - at_, 0);
    text("frames");
    put("]ua");
  }
  void block(const char* state, uint64_t address, uint64_t size_bytes, uint64_t requested_bytes) {
    put("}(");
    field("address", address);
    field("size", size_bytes);
    field("requested_size", requested_bytes);
    field("state", state);
  }
  void frames(uint64_t number, std::string_view owner) {
    text("frames");
    put("]}(");
    text("filename");
    text(pool_);
    field("line", number);
    text("name");
    text(owner);
    put("ua");
  }
  void field(const char* name, uint64_t value) {
    text(name);
    if (value <= 0x7FFFFFFF) {  // BININT
      put("J");
      little_endian(value, 4);
    } else {  // LONG1 of eight bytes, two's complement
      put("\x8a\x08");
      little_endian(value & 0x7FFFFFFFFFFFFFFF, 8);
    }
  }
  void field(const char* name, const char* value) {
    text(name);
    text(value);
  }
  void text(std::string_view value) {  // BINUNICODE
    put("X");
    little_endian(value.size(), 4);
    put(value);
  }
  void little_endian(uint64_t value, size_t bytes) { put({reinterpret_cast<const char*>(&value), bytes}); }
  void put(std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), file_); }

  const std::string pool_;
  std::string path_;
  std::FILE* events_ = nullptr;
  std::FILE* file_ = nullptr;             // the same, or the snapshot that is being written
  int pending_ = 0;                       // events since the last MARK
  uint64_t at_ = 0, end_ = 0, used_ = 0;  // of the segment that is being written
};

}  // namespace heddle::log
#endif  // HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_
