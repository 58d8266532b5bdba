// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.log: an adaptor that logs every call: to the log at level trace, and, with the option `file`, to a file that benchmarks of
// allocators replay. Its lines, in an order in which a replay can repeat them:
//   heddle-memory-trace 1
//   a NUMBER SIZE ALIGNMENT OWNER    block NUMBER, counted from 0, was returned
//   f NUMBER POINTS                  it was freed, to be reused after that many points
//   x SIZE ALIGNMENT OWNER           RESOURCE_EXHAUSTED
// With the option `viewer` it also writes snapshots for PyTorch's memory viewer (viewer_file.h): when someone asks who holds memory, when memory is
// exhausted, and at the end.
// For debugging, not for production: files are written under a lock.
#include <cstdarg>
#include <map>
#include <mutex>

#include "heddle/sdk/allocator.h"
#include "heddle/sdk/own_file.h"
#include "viewer_file.h"

namespace heddle::log {
namespace {

using sdk::number;

class Log {
 public:
  static constexpr const char* kId = "heddle.log";
  static constexpr const char* kVersion = "0.1.0";

  explicit Log(const sdk::AllocatorSetup& setup) : host_(setup.host()), provider_(setup.provider()), name_(setup.name()), viewer_(name_) {}
  ~Log() {
    if (file_ && std::fclose(file_) != 0) failed();
    snapshot(true);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  heddle_status_t* open(const sdk::AllocatorSetup& setup) {
    std::string viewer;
    if (heddle_status_t* bad = setup.text("file", &path_)) return bad;
    if (heddle_status_t* bad = setup.text("viewer", &viewer)) return bad;
    if (!viewer.empty() && !viewer_.open(viewer)) return cannot_open(viewer);
    if (path_.empty()) return nullptr;
    const int descriptor = sdk::open_own_file(path_.c_str(), O_TRUNC, 0644);
    file_ = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
    if (!file_) {
      heddle_status_t* bad = cannot_open(path_);
      if (descriptor >= 0) ::close(descriptor);
      return bad;
    }
    line("heddle-memory-trace 1");
    return nullptr;
  }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out, heddle_point_t* out_waits, uint32_t* out_wait_count) {
    heddle_status_t* failed = provider_.allocate(provider_.self, &params, out, out_waits, out_wait_count);
    const std::string owner(params.owner ? sdk::view_of(*params.owner) : std::string_view());
    std::lock_guard<std::mutex> lock(mutex_);
    if (failed) {
      line("x %llu %llu %s", number(params.size_bytes), number(params.alignment_bytes), owner.c_str());
      snapshot();
      return failed;
    }
    try {
      if (viewer_.is_open()) see_buffer(*out, params.size_bytes);
      numbers_.insert_or_assign({out->buffer, out->offset}, Live{next_, params.size_bytes, params.owner});
    } catch (...) {
      provider_.free(provider_.self, out, nullptr, 0);
      *out = {};
      *out_wait_count = 0;
      throw;
    }
    if (viewer_.is_open()) {
      ++regions_.at(out->buffer).live;
      viewer_.event("alloc", address_of(*out), params.size_bytes, next_, owner);
      forget_buffers();
    }
    line("a %llu %llu %llu %s", number(next_++), number(params.size_bytes), number(params.alignment_bytes), owner.c_str());
    return nullptr;
  }

  void free(const heddle_block_t& block, const heddle_point_t* points, uint32_t count) {
    {
      // Written before the block is freed: afterwards another thread may get it and write its line first.
      std::lock_guard<std::mutex> lock(mutex_);
      auto found = numbers_.find({block.buffer, block.offset});
      if (found != numbers_.end()) {
        const Live& live = found->second;
        line("f %llu %u", number(live.number), count);
        if (viewer_.is_open()) {
          for (const char* action : {"free_requested", "free_completed"}) {
            viewer_.event(action, address_of(block), live.size_bytes, live.number, owner_of(live));
          }
          --regions_.at(block.buffer).live;
        }
        numbers_.erase(found);
      }
    }
    provider_.free(provider_.self, &block, points, count);
    if (!viewer_.is_open()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    forget_buffers();
  }

  heddle_status_t* statistics(heddle_allocator_statistics_t* out) noexcept { return provider_.statistics(provider_.self, out); }
  heddle_status_t* trim(uint64_t keep_bytes) noexcept { return provider_.trim(provider_.self, keep_bytes); }
  heddle_status_t* holders(heddle_holder_visitor_t visit, void* context) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      snapshot();
    }
    return provider_.holders(provider_.self, visit, context);
  }
  uint64_t live_blocks() {
    std::lock_guard<std::mutex> lock(mutex_);
    return numbers_.size();
  }

 private:
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    const bool logs = host_->log_level(host_->self) <= HEDDLE_LOG_TRACE;
    if (!file_ && !logs) return;
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    const int written = std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t size = written < 0 ? 0 : std::min<size_t>(static_cast<size_t>(written), sizeof text - 2);
    if (logs) host_->log(host_->self, HEDDLE_LOG_TRACE, sdk::string_of("log.cpp"), __LINE__, {text, size});
    if (!file_) return;
    std::replace_if(text, text + size, [](unsigned char c) { return c < 0x20; }, ' ');  // in owners, so that each entry stays on one line
    text[size] = '\n';
    if (std::fwrite(text, 1, size + 1, file_) == size + 1) return;
    std::fclose(file_);
    file_ = nullptr;
    failed();
  }
  heddle_status_t* cannot_open(const std::string& path) {
    const bool is_others = errno == EPERM || errno == ELOOP || errno == ENXIO;
    return sdk::errno_status(host_, HEDDLE_STATUS_UNAVAILABLE, errno, "log: opening %s%s failed", path.c_str(),
                             is_others ? ", which is a link, a pipe or not this user's alone," : "");
  }
  // A distinct address per buffer and offset, since buffers have none.
  uint64_t address_of(const heddle_block_t& block) const { return regions_.at(block.buffer).address + block.offset; }
  // What is held from below, by its own account.
  uint64_t held() const {
    heddle_allocator_statistics_t statistics{};
    statistics.struct_size = sizeof statistics;
    heddle_status_t* const unknown = provider_.statistics(provider_.self, &statistics);
    if (!unknown) return statistics.bytes_reserved.current;
    host_->status_free(host_->self, unknown);
    return shown_;
  }
  // A block does not tell the size of its buffer: the first one in a buffer shows what is held in addition since the last one.
  void see_buffer(const heddle_block_t& block, uint64_t size_bytes) {
    Region& region = regions_[block.buffer];
    if (region.address == 0) region.address = regions_.size() % (uint64_t{1} << 22) << 40;
    const uint64_t end = block.offset + std::max<uint64_t>(size_bytes, 1);
    if (end <= region.size_bytes) return;
    const bool is_new = region.size_bytes == 0;
    uint64_t grown = end - region.size_bytes;
    if (const uint64_t now = held(); is_new && now > shown_) grown = std::max(grown, now - shown_);
    viewer_.event(is_new ? "segment_alloc" : "segment_map", region.address + region.size_bytes, grown, 0, "buffer");
    region.size_bytes += grown;
    shown_ += grown;
  }
  // Empty buffers that the allocator below has freed. It does not tell which ones, only how much: the largest that explain it.
  void forget_buffers() {
    for (uint64_t now = held(); now < shown_;) {
      Region* freed = nullptr;
      for (auto& [buffer, region] : regions_) {
        if (region.live != 0 || region.size_bytes > shown_ - now || region.size_bytes <= (freed ? freed->size_bytes : 0)) continue;
        freed = &region;
      }
      if (!freed) return;
      viewer_.event("segment_free", freed->address, freed->size_bytes, 0, "buffer");
      shown_ -= freed->size_bytes;
      freed->size_bytes = 0;
    }
  }
  void snapshot(bool is_last = false) {
    if (!viewer_.is_open()) return;
    const bool begun = viewer_.begin_snapshot(is_last);
    auto live = numbers_.begin();  // sorted by buffer, as regions_
    for (auto region = regions_.begin(); begun && region != regions_.end(); ++region) {
      if (region->second.size_bytes == 0) continue;
      viewer_.begin_segment(region->second.address, region->second.size_bytes);
      for (; live != numbers_.end() && live->first.first == region->first; ++live) {
        viewer_.block(region->second.address + live->first.second, live->second.size_bytes, live->second.number, owner_of(live->second));
      }
      viewer_.end_segment();
    }
    if (!begun || !viewer_.end_snapshot()) failed(viewer_.path(), "there is no new snapshot in it");
  }
  void failed() { failed(path_, "the trace ends early"); }
  void failed(const std::string& path, const char* what_is_there) {
    const std::string text = "log: writing " + path + " of '" + name_ + "' failed; " + what_is_there;
    host_->log(host_->self, HEDDLE_LOG_ERROR, sdk::string_of("log.cpp"), __LINE__, sdk::string_of(text));
  }

  const heddle_host_t* const host_;
  const heddle_provider_t& provider_;
  const std::string name_;
  std::string path_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  struct Live {
    uint64_t number, size_bytes;
    const heddle_string_t* owner;  // outlives the block
  };
  static std::string_view owner_of(const Live& live) { return live.owner ? sdk::view_of(*live.owner) : std::string_view(); }
  std::map<std::pair<heddle_buffer_t*, uint64_t>, Live> numbers_;  // of live blocks
  ViewerFile viewer_;
  // Buffers in which blocks were, for viewer_.
  struct Region {
    uint64_t address = 0, size_bytes = 0, live = 0;
  };
  std::map<heddle_buffer_t*, Region> regions_;
  uint64_t shown_ = 0;  // bytes of all regions
  uint64_t next_ = 0;
};

}  // namespace
}  // namespace heddle::log

HEDDLE_ALLOCATOR_PLUGIN(heddle::log::Log)
