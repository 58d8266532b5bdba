// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads weights file by file into device memory, and finds those that are already loaded.
// Called through weights.h; drivers read the files, unless the configuration says otherwise.
#include "core/memory/weights.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <new>
#include <utility>

#include "core/memory/block_weights.h"
#include "core/memory/param_io.h"

namespace heddle::memory {

namespace {

// What may still be allocated; UINT64_MAX if the system does not tell.
uint64_t available_memory() {
  auto read = [](const char* path, const char* format, unsigned long long& value) {
    FILE* const file = std::fopen(path, "re");
    if (!file) return false;
    char line[128];
    bool found = false;
    while (!found && std::fgets(line, sizeof line, file)) found = std::sscanf(line, format, &value) == 1;
    std::fclose(file);
    return found;
  };
  unsigned long long kibibytes = 0, most = 0;
  uint64_t bytes = read("/proc/meminfo", "MemAvailable: %llu", kibibytes) ? uint64_t{kibibytes} << 10 : UINT64_MAX;
  // Of a container, which sees its own control group here.
  if (read("/sys/fs/cgroup/memory.max", "%llu", most)) bytes = std::min<uint64_t>(bytes, most);
  return bytes;
}

// The reads of one load. All are in progress at once, or a few of limited size: if the load can be cancelled, and where the host's processors copy, so
// that other loads get their turns. Files that a method cannot read are read with the next method.
class Reading {
 public:
  Reading(Device& device, const host::ParamIoConfig& config, const std::atomic<bool>* cancelled)
      : device_(device),
        methods_(config.method),
        params_(read_params(config)),
        cancelled_(cancelled),
        in_slices_(cancelled || device.unified()),
        keeps_(config.method.empty() && device.unified() && device.driver_minor() >= 2) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    while (!flights_.empty()) static_cast<void>(land());  // no read may be in progress when the memory is freed
    for (const File& file : files_) {
      if (file.handle) device_.api().param_io->file_close(file.handle);
    }
  }

  void add(const WeightExtent& extent, Weight& weight) {
    auto file = std::find_if(files_.begin(), files_.end(), [&](const File& one) { return one.descriptor == extent.descriptor; });
    if (file == files_.end()) file = files_.insert(file, File{extent.descriptor, std::string(extent.path), {}, nullptr, {}, {}});
    file->parts.push_back({{extent.offset, extent.length, nullptr, 0}, &extent, &weight});
  }

  Status read() {
    HEDDLE_RETURN_IF_ERROR(open());
    if (methods_.empty()) {
      if (keeps_) {
        HEDDLE_RETURN_IF_ERROR(map(true));
        HEDDLE_RETURN_IF_ERROR(map_what_does_not_fit());
      }
      HEDDLE_RETURN_IF_ERROR(allocate());
      return read_by(HEDDLE_FILE_METHOD_ANY);
    }
    for (const std::string& name : methods_) {
      for (File& file : files_) file.method = file.done ? file.method : name;
      if (name == "mmap" || name == "preload") {
        HEDDLE_RETURN_IF_ERROR(name == "mmap" ? map(false) : preload());
        continue;
      }
      const ReadMethod* method = read_method(name, device_.driver_minor());
      if (!method) {
        for (File& file : files_)
          file.pass_over(name,
                         fmt::format("{} implements ABI 0.{}, which has no such method", device_.driver_id(), device_.driver_minor()));
        continue;
      }
      HEDDLE_RETURN_IF_ERROR(allocate());
      HEDDLE_RETURN_IF_ERROR(read_by(method->number));
    }
    for (const File& file : files_) {
      if (file.done) continue;
      return error(HEDDLE_STATUS_UNAVAILABLE,
                   "reading parameters from {} to device '{}' failed: no method in param_io.method works: {}; \"buffered\" works for "
                   "every file, as does --param-mode file of heddle run",
                   file.path, device_.alias(), file.passed_over);
    }
    return Status();
  }

  // Bytes that are mapped instead of read: their pages are loaded on first use.
  uint64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  struct Part {
    heddle_extent_t extent;
    const WeightExtent* from;
    Weight* to;
  };
  struct File {
    int descriptor;
    std::string path;
    std::vector<Part> parts;
    heddle_file_t* handle;
    std::string method, passed_over;  // the method being tried; the skipped methods, with reasons
    bool done = false, is_refused = false, keeps = false, is_mapped = false;

    void pass_over(std::string_view name, std::string_view why) {
      if (!done) passed_over += fmt::format("{}\"{}\": {}", passed_over.empty() ? "" : "; ", name, why);
    }
    // True if the driver reported that the file needs another method.
    bool refused(const Status& outcome) {
      if (method.empty() || outcome.ok() || outcome.code() != HEDDLE_STATUS_UNIMPLEMENTED) return false;
      if (!is_refused) pass_over(method, outcome.message());
      return is_refused = true;
    }
  };
  // A read in progress, of consecutive parts.
  struct Flight {
    File* file;
    size_t first;
    Device::Pending pending;
  };
  static constexpr size_t kSlicesAtOnce = 2;
  static constexpr uint64_t kLeastOfMemory = uint64_t{256} << 20;  // below it, memory is not asked for
  // Of mapped parameters: in blocks; by default, if nothing but kernels of modules reads them. See min_alignment_bytes in driver.h.
  static constexpr uint64_t kBlocksAlignment = 32, kKeptAlignment = 8;
  // Many chunks, so that the pauses between reads do not count, and few enough to be over soon.
  uint64_t slice_bytes() const {
    constexpr uint64_t kLeast = uint64_t{1} << 20, kMost = uint64_t{512} << 20, kChunks = 64;
    const uint64_t depth = std::max<uint64_t>(params_.queue_depth, 1);
    if (params_.chunk_bytes == 0 || params_.chunk_bytes > kMost / kChunks / depth) return kMost;
    return std::max(kLeast, params_.chunk_bytes * depth * kChunks);
  }

  Status check_cancelled() const { return memory::check_cancelled(device_, cancelled_); }

  Status open_for(File& file, uint32_t access) {
    return Status(device_.api().param_io->file_open(device_.get(), file.descriptor, access, to_c(file.path), &file.handle));
  }

  Status open() {
    for (File& file : files_) {
      // In file order, which suits disks and read-ahead.
      auto before = [](const Part& a, const Part& b) { return a.extent.file_offset < b.extent.file_offset; };
      if (!std::is_sorted(file.parts.begin(), file.parts.end(), before)) std::sort(file.parts.begin(), file.parts.end(), before);
      if (keeps_) file.keeps = open_for(file, HEDDLE_FILE_READ | HEDDLE_FILE_STEADY).ok();
      if (!file.keeps) HEDDLE_RETURN_IF_ERROR(device_.noted(open_for(file, HEDDLE_FILE_READ)));
    }
    return Status();
  }

  // Reads all files that are not read yet, and waits for these reads, including failed ones; returns the first failure.
  Status read_by(uint32_t method) {
    params_.method = method;
    Status first;
    for (File& file : files_) {
      if (file.done) continue;
      file.is_refused = false;
      for (size_t part = 0; part < file.parts.size() && !file.is_refused && first.ok();) {
        first = check_cancelled();
        if (first.ok()) first = begin(file, &part);
        while (in_slices_ && first.ok() && flights_.size() >= kSlicesAtOnce) first = land();
      }
    }
    while (!flights_.empty()) {
      if (Status landed = land(); first.ok()) first = std::move(landed);
    }
    HEDDLE_RETURN_IF_ERROR(std::move(first));
    for (File& file : files_) {
      if (file.done || file.is_refused) continue;
      file.done = true;
      tell(file);
    }
    return Status();
  }

  // Begins to read some parts from *part on, which becomes the next one.
  Status begin(File& file, size_t* part) {
    const size_t first = *part;
    const uint64_t slice = slice_bytes();
    std::vector<heddle_extent_t> extents;
    for (uint64_t bytes = 0; *part < file.parts.size() && (!in_slices_ || bytes < slice); ++*part) {
      extents.push_back(file.parts[*part].extent);
      bytes += extents.back().length;
    }
    const heddle_param_io_interface_t& io = *device_.api().param_io;
    Result<Device::Pending> pending = device_.start(
        [&](const heddle_sync_t* sync) { return io.read(device_.queue(), sync, file.handle, extents.data(), extents.size(), &params_); });
    if (pending.ok()) {
      flights_.push_back({&file, first, std::move(*pending)});
    } else if (!file.refused(pending.status())) {
      return wrap(pending.take_status(), "reading parameters from " + file.path);
    }
    return Status();
  }

  // Waits for the oldest read.
  Status land() {
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    Status read = device_.finish(std::move(flight.pending));
    if (read.ok() || flight.file->refused(read)) return Status();
    return named(std::move(read), *flight.file, flight.first);
  }

  void tell(const File& file) {
    if (file.method.empty()) return;
    device_.host().log(HEDDLE_LOG_INFO, "memory",
                       fmt::format("{} is read to device '{}' by the method \"{}\"{}{}", file.path, device_.alias(), file.method,
                                   file.passed_over.empty() ? "" : "; skipped: ", file.passed_over));
  }

  // How many bytes this large weight and those after it take that may share a piece of memory; 0 if it is not large.
  uint64_t group_bytes(const File& file, size_t first) const {
    constexpr uint64_t kLeast = uint64_t{8} << 20, kMost = uint64_t{1} << 30;
    uint64_t bytes = 0;
    for (size_t i = first; i < file.parts.size() && !device_.unified() && !file.parts[i].to->has_stage(); ++i) {
      const uint64_t one = file.parts[i].extent.length;
      if (one < kLeast || one > kMost || bytes + grouped(one) > kMost) break;
      bytes += grouped(one);
    }
    return bytes;
  }
  static uint64_t grouped(uint64_t bytes) {
    return (bytes + Weight::kGroupAlignment - 1) / Weight::kGroupAlignment * Weight::kGroupAlignment;
  }

  // Allocates all memory of the remaining reads before the first read, since an allocation delays copies in progress by more than its own duration.
  // Large weights in groups: on an H200, 80 calls of the driver take 5 ms for the memory for which ten take one.
  Status allocate() {
    for (File& file : files_) {
      uint64_t group = 0;  // what is left of it
      for (Part& part : file.parts) {
        if (file.done) continue;
        HEDDLE_RETURN_IF_ERROR(check_cancelled());
        if (group == 0) group = group_bytes(file, static_cast<size_t>(&part - file.parts.data()));
        HEDDLE_RETURN_IF_ERROR(allocate_weight(device_, *part.from, *part.to, group));
        if (group) group -= grouped(part.extent.length);
        part.extent.buffer = part.to->block().buffer;
        part.extent.buffer_offset = part.to->block().offset;
      }
    }
    return Status();
  }

  // Maps each file as a whole, beginning at a page; by default, only if most of these bytes are of its tensors. Files with tensors at offsets that the
  // device cannot bind are left to the next method. Drivers of devices with their own memory are not asked: they would pin file pages one by one.
  // keeps: those files whose contents the driver may keep; the others are not read.
  Status map(bool keeps) {
    uint64_t alignment = std::max<uint64_t>(device_.description().min_alignment_bytes, 64);
    const uint64_t page = std::max<uint64_t>(alignment, 4096);
    size_t libraries = 0;
    if (keeps_ && device_.host().libraries({}, "*", &libraries).empty() && libraries == 0) alignment = kKeptAlignment;
    for (File& file : files_) {
      if (file.done || file.is_mapped || file.keeps != keeps) continue;
      if (!device_.unified()) {
        file.pass_over("mmap", fmt::format("the memory of device '{}' is not host memory, and such a device never maps pages of a file",
                                           device_.alias()));
        continue;
      }
      if (device_.driver_minor() < 2) {
        file.pass_over("mmap",
                       fmt::format("{} implements ABI 0.{}, which has no such method", device_.driver_id(), device_.driver_minor()));
        continue;
      }
      std::vector<Part> fit, odd;
      auto least_of = [&](const Part& part) { return part.from->stays_in_blocks ? std::min(alignment, kBlocksAlignment) : alignment; };
      for (const Part& part : file.parts) (part.extent.file_offset % least_of(part) == 0 ? fit : odd).push_back(part);
      if (!fit.empty()) {
        const uint64_t first = fit.front().extent.file_offset / page * page;
        uint64_t end = first, used = 0;
        for (const Part& part : fit) {
          end = std::max(end, part.extent.file_offset + part.extent.length);
          used += part.extent.length;
        }
        if (keeps && used < (end - first) / 2) continue;
        heddle_buffer_t* buffer = nullptr;
        Status mapped = device_.noted(Status(device_.api().param_io->map(file.handle, first, end - first, &buffer)));
        if (file.refused(mapped)) continue;
        if (keeps_ && !mapped.ok()) {  // it is read, which also finds what is wrong with it
          device_.host().log(HEDDLE_LOG_DEBUG, "memory", mapped.message());
          continue;
        }
        if (!mapped.ok()) return wrap(std::move(mapped), "mapping parameters of " + file.path);
        const auto whole = std::make_shared<const MappedFile>(Ref<Device>(&device_), buffer);
        for (const Part& part : fit) {
          part.to->hold(whole, part.extent.file_offset - first, part.extent.length);
          mapped_bytes_ += part.extent.length;
        }
        file.is_mapped = true;
      }
      if (keeps) continue;  // all is read, what is mapped to where it is
      if (!odd.empty()) {
        file.pass_over("mmap",
                       fmt::format("{} of {} tensors, the first '{}' at byte {}, do not begin at a multiple of {} [HD-M-04]", odd.size(),
                                   file.parts.size(), odd.front().from->name, odd.front().extent.file_offset, least_of(odd.front())));
        file.parts = std::move(odd);
        continue;
      }
      file.done = true;
      tell(file);
    }
    return Status();
  }

  // By default: what would be read into more memory than there is. Its contents are not kept.
  Status map_what_does_not_fit() {
    uint64_t bytes = 0;
    for (const File& file : files_) {
      for (const Part& part : file.parts) bytes += file.is_mapped ? 0 : part.extent.length;
    }
    if (bytes < kLeastOfMemory) return Status();
    const uint64_t available = available_memory();
    if (bytes <= available - available / 8) return Status();
    for (File& file : files_) {
      if (file.is_mapped || !file.keeps) continue;
      device_.api().param_io->file_close(std::exchange(file.handle, nullptr));
      file.keeps = false;
      HEDDLE_RETURN_IF_ERROR(device_.noted(open_for(file, HEDDLE_FILE_READ)));
    }
    const uint64_t before = mapped_bytes_;
    HEDDLE_RETURN_IF_ERROR(map(false));
    device_.host().log(
        HEDDLE_LOG_WARN, "memory",
        fmt::format("{} of {} bytes of parameters, for which the {} available bytes of memory are too few, are pages of their "
                    "files on device '{}': while they are used, these must not be changed",
                    mapped_bytes_ - before, bytes, available, device_.alias()));
    return Status();
  }

  // Reads everything into host memory first, and then copies it to the device.
  Status preload() {
    struct FreeBytes {
      void operator()(std::byte* bytes) const { ::operator delete(bytes); }
    };
    std::vector<std::unique_ptr<std::byte, FreeBytes>> loaded;
    for (const File& file : files_) {
      for (const Part& part : file.parts) {
        if (file.done) continue;
        HEDDLE_RETURN_IF_ERROR(check_cancelled());
        const uint64_t length = part.extent.length;
        loaded.emplace_back(static_cast<std::byte*>(::operator new(length, std::nothrow)));
        if (!loaded.back()) {
          return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                       "reading tensor '{}' of {} failed: the host cannot provide {} bytes to preload it; \"buffered\" needs few",
                       part.from->name, file.path, length);
        }
        HEDDLE_RETURN_IF_ERROR(read_bytes(*part.from, part.extent.file_offset, length, loaded.back().get()));
      }
    }
    HEDDLE_RETURN_IF_ERROR(allocate());
    auto bytes = loaded.begin();
    for (File& file : files_) {
      if (file.done) continue;
      for (const Part& part : file.parts)
        HEDDLE_RETURN_IF_ERROR(device_.upload(bytes++->get(), {part.extent.buffer, part.extent.buffer_offset, part.extent.length}));
      file.done = true;
      tell(file);
    }
    return Status();
  }

  static Status named(Status&& failure, const File& file, size_t first) {
    const size_t index = failed_extent(failure);
    return reading_failed(std::move(failure), file.path, index < file.parts.size() - first ? file.parts[first + index].from : nullptr);
  }

  Device& device_;
  const std::vector<std::string>& methods_;
  heddle_param_io_params_t params_;
  const std::atomic<bool>* cancelled_;
  const bool in_slices_;  // each slice costs a GPU's load about a millisecond
  const bool keeps_;      // by default, files are mapped that drivers can keep as they are
  std::vector<File> files_;
  std::deque<Flight> flights_;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace

Status allocate_weight(Device& device, const WeightExtent& extent, Weight& weight, uint64_t soon_bytes) {
  Status allocated = weight.allocate(extent.length, soon_bytes);
  if (allocated.ok()) return Status();
  return wrap(std::move(allocated),
              fmt::format("allocating {} bytes for a parameter of {} on device '{}'", extent.length, extent.path, device.alias()));
}

Status check_cancelled(const Device& device, const std::atomic<bool>* cancelled) {
  if (!cancelled || !cancelled->load(std::memory_order_relaxed)) return Status();
  return error(HEDDLE_STATUS_CANCELLED, "reading parameters to device '{}' was cancelled", device.alias());
}

Status read_bytes(const WeightExtent& weight, uint64_t offset, uint64_t bytes, std::byte* out) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(weight.descriptor, out + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return error(HEDDLE_STATUS_DATA_LOSS, "reading tensor '{}' (bytes [{}, {}) of {}) failed at byte {}: {}", weight.name, weight.offset,
                   weight.offset + weight.file_bytes(), weight.path, offset + done,
                   got < 0 ? std::strerror(errno) : "the file ends here; it is truncated or was replaced")
          .payload("parameter", weight.name);
    }
    done += static_cast<uint64_t>(got);
  }
  return Status();
}

size_t failed_extent(const Status& failure) {
  const std::string_view text = view(heddle_status_payload(failure.get(), to_c("extent")));
  size_t index = SIZE_MAX;
  return std::from_chars(text.data(), text.data() + text.size(), index).ec == std::errc() ? index : SIZE_MAX;
}

Status reading_failed(Status&& failure, std::string_view path, const WeightExtent* weight) {
  if (!weight) return wrap(std::move(failure), fmt::format("reading parameters from {}", path));
  return wrap(std::move(failure), fmt::format("reading tensor '{}' (bytes [{}, {}) of {})", weight->name, weight->offset,
                                              weight->offset + weight->file_bytes(), path))
      .payload("parameter", weight->name);
}

size_t Weights::Hash::operator()(const Key& key) const {
  uint64_t hash = reinterpret_cast<uint64_t>(key.device);
  for (const uint64_t word : {key.identity.offset, key.identity.length, key.identity.file[0], key.identity.file[1]}) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;  // the golden ratio's digits, as in Knuth's multiplicative hashing
    hash ^= hash >> 32;
  }
  return hash;
}

// One load. Waits until no other one reads any of its bytes; then those can be shared. Holds the lock but while it reads.
class Weights::Turn {
 public:
  explicit Turn(Weights& weights) : weights_(weights), lock_(weights.mutex_) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (!lock_.owns_lock()) lock_.lock();
    if (has_begun_) --weights_.loads_;
    weights_.over_.notify_all();
  }

  Status begin(Device& device, const std::vector<WeightExtent>& extents, bool shares, const std::atomic<bool>* cancelled) {
    auto is_being_read = [&](const WeightExtent& extent) {
      auto known = weights_.known_.find({extent.identity(), &device});
      const std::shared_ptr<Weight> weight = known == weights_.known_.end() ? nullptr : known->second.lock();
      return weight && !weight->is_read;
    };
    while (shares && weights_.loads_ != 0 && std::any_of(extents.begin(), extents.end(), is_being_read)) {
      HEDDLE_RETURN_IF_ERROR(check_cancelled(device, cancelled));
      weights_.over_.wait_for(lock_, std::chrono::milliseconds(20));  // nobody tells of a cancellation
    }
    ++weights_.loads_;
    has_begun_ = true;
    return Status();
  }
  void unlock() { lock_.unlock(); }
  void lock() { lock_.lock(); }

 private:
  Weights& weights_;
  std::unique_lock<std::mutex> lock_;
  bool has_begun_ = false;
};

Result<std::vector<std::shared_ptr<Weight>>> Weights::load(Device& device, const std::vector<WeightExtent>& extents,
                                                           const host::ParamIoConfig& config, const std::vector<StagePlace>& places,
                                                           const std::atomic<bool>* cancelled) {
  const bool shares = places.empty();
  Turn turn(*this);  // ends after what a failed load has read is gone
  HEDDLE_RETURN_IF_ERROR(turn.begin(device, extents, shares, cancelled));
  std::erase_if(known_, [](const auto& item) { return item.second.expired(); });
  std::vector<std::shared_ptr<Weight>> weights(extents.size());
  std::vector<Weight*> fresh;
  uint64_t fresh_bytes = 0;
  BlockWeights blocks(device, config, cancelled);
  Reading reading(device, config, cancelled);  // destroyed before the memory that it reads into
  for (size_t i = 0; i < extents.size(); ++i) {
    const WeightExtent& extent = extents[i];
    const Key key{extent.identity(), &device};
    std::weak_ptr<Weight>* known = nullptr;
    if (shares) {
      known = &known_[key];
    } else if (auto found = known_.find(key); found != known_.end()) {
      known = &found->second;
    }
    if (known) weights[i] = known->lock();
    if (weights[i] && (shares || weights[i]->is_read)) {
      shared_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    if (shares) {
      *known = weights[i] = std::make_shared<Weight>(Ref<Device>(&device));
      fresh.push_back(weights[i].get());
    } else {
      weights[i] = std::make_shared<Weight>(Ref<Device>(&device), places[i]);
    }
    weights[i]->identity = key.identity;
    if (extent.length && extent.is_made_on_host()) {
      blocks.add(extent, *weights[i]);
    } else if (extent.length) {
      reading.add(extent, *weights[i]);
    } else {
      HEDDLE_RETURN_IF_ERROR(allocate_weight(device, extent, *weights[i]));
    }
    fresh_bytes += extent.file_bytes();
  }
  turn.unlock();
  HEDDLE_RETURN_IF_ERROR(reading.read());
  HEDDLE_RETURN_IF_ERROR(blocks.read());
  bytes_mapped_.fetch_add(reading.mapped_bytes(), std::memory_order_relaxed);
  bytes_read_.fetch_add(fresh_bytes - reading.mapped_bytes(), std::memory_order_relaxed);
  turn.lock();
  for (Weight* weight : fresh) weight->is_read = true;
  return weights;
}

}  // namespace heddle::memory
