// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the events of a pool as a PyTorch memory snapshot, for the viewer at https://pytorch.org/memory_viz: a pickle of protocol 2 with the
// dictionary {"device_traces": [[event, ...]], "segments": [segment, ...]}, with the fields of torch.cuda.memory._snapshot(). Events are written as
// they occur, to FILE.part; FILE is that and the segments of the moment. Used by log.cpp; not thread-safe.
#ifndef HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_
#define HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_

#include <array>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/sdk/own_file.h"

namespace heddle::log {

// A range of a buffer, and the live blocks that begin in it, by address.
struct ViewerSegment {
  struct Block {
    uint64_t address, size_bytes, number;
    std::string_view owner;
  };
  uint64_t address, size_bytes;
  std::vector<Block> blocks;
};

class ViewerFile {
 public:
  explicit ViewerFile(std::string pool) : pool_(std::move(pool)) {}
  ViewerFile(const ViewerFile&) = delete;
  ViewerFile& operator=(const ViewerFile&) = delete;
  ~ViewerFile() {
    if (!file_) return;
    std::fclose(file_);
    std::remove(part().c_str());
  }

  // False, with errno: the file cannot be written.
  bool open(const std::string& path) {
    path_ = path;
    file_ = open_file(part());
    if (!file_) return false;
    put("\x80\x02}(");
    text("device_traces");
    put("](](");  // one device, whose events follow
    return true;
  }
  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }

  // pool and owner are stored where PyTorch has the stack: "pool:number:owner".
  void event(const char* action, uint64_t address, uint64_t size_bytes, uint64_t number, std::string_view owner) {
    put("}(");
    text("action"), text(action);
    text("addr"), integer(address);
    text("size"), integer(size_bytes);
    text("stream"), integer(0);
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    text("time_us"), integer(static_cast<uint64_t>(now.tv_sec) * 1000000 + static_cast<uint64_t>(now.tv_nsec) / 1000);
    frames(number, owner);
    put("u");
    // A viewer takes as many items at once from its stack as a list gets: not millions.
    if (++pending_ == 1000) {
      put("e(");
      pending_ = 0;
    }
  }

  // Writes what there is so far. False: that failed, and a file that existed is unchanged.
  bool snapshot(const std::vector<ViewerSegment>& segments) {
    const std::string name = path_ + ".new";
    std::FILE* const events = std::fflush(file_) == 0 ? file_ : nullptr;
    const int from = events ? ::open(part().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    file_ = from < 0 ? nullptr : open_file(name);
    const bool opened = file_ != nullptr;
    if (opened) {
      std::array<char, 65536> bytes;
      ssize_t got;
      while ((got = ::read(from, bytes.data(), bytes.size())) > 0) put({bytes.data(), static_cast<size_t>(got)});
      end(segments);
    }
    if (from >= 0) ::close(from);
    const bool written = opened && finish(name);
    file_ = events;
    return written;
  }

  // Gives the file its name. False: writing failed, now or earlier; the partial file is removed.
  bool close(const std::vector<ViewerSegment>& segments) {
    if (!file_) return true;
    end(segments);
    return finish(part());
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
  bool finish(const std::string& name) {
    const bool written = std::ferror(file_) == 0;
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    if (written && closed && std::rename(name.c_str(), path_.c_str()) == 0) return true;
    std::remove(name.c_str());
    return false;
  }
  // The segments have no gaps between blocks: the viewer adds up sizes.
  void end(const std::vector<ViewerSegment>& segments) {
    put("ee");
    text("segments");
    put("]");
    for (const ViewerSegment& segment : segments) {
      uint64_t used = 0;
      for (const ViewerSegment::Block& block : segment.blocks) used += block.size_bytes;
      put("}(");
      text("device"), integer(0);
      text("address"), integer(segment.address);
      text("total_size"), integer(segment.size_bytes);
      for (const char* sum : {"allocated_size", "active_size", "requested_size"}) text(sum), integer(used);
      text("stream"), integer(0);
      text("segment_type"), text("large");
      text("frames"), put("]");
      text("blocks"), put("]");
      uint64_t at = segment.address;
      for (const ViewerSegment::Block& block : segment.blocks) {
        if (block.address > at) this->block("inactive", at, block.address - at, nullptr);
        this->block("active_allocated", block.address, block.size_bytes, &block);
        at = block.address + block.size_bytes;
      }
      const uint64_t segment_end = segment.address + segment.size_bytes;
      if (at < segment_end) this->block("inactive", at, segment_end - at, nullptr);
      put("ua");
    }
    put("u.");
  }
  void block(const char* state, uint64_t address, uint64_t size_bytes, const ViewerSegment::Block* live) {
    put("}(");
    text("address"), integer(address);
    text("size"), integer(size_bytes);
    text("requested_size"), integer(live ? size_bytes : 0);
    text("state"), text(state);
    if (live) {
      frames(live->number, live->owner);
    } else {
      text("frames"), put("]");
    }
    put("ua");
  }
  void frames(uint64_t number, std::string_view owner) {
    text("frames"), put("]}(");
    text("filename"), text(pool_);
    text("line"), integer(number);
    text("name"), text(owner);
    put("ua");
  }
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

  const std::string pool_;
  std::string path_;
  std::FILE* file_ = nullptr;
  int pending_ = 0;  // events since the last MARK
};

}  // namespace heddle::log
#endif  // HEDDLE_PLUGINS_ALLOCATORS_LOG_VIEWER_FILE_H_
