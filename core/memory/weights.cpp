// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading weights file by file into device memory, and finding those that are there already.
// Called through weights.h; files are read by drivers, never mapped.
#include "core/memory/weights.h"

namespace heddle::memory {

namespace {

// Reads begin with a batch of this size, so that the memory of the next is allocated meanwhile: on a device with memory of its own both
// take their time. Each batch is larger than the one before, since allocating is the faster of the two and every batch has a beginning.
constexpr uint64_t kFirstBatchBytes = uint64_t{512} << 20;
constexpr uint64_t kBatchGrowth = 8;

// Reads of one load: begun in batches, finished together.
class Reading {
 public:
  Reading(Device& device, const host::ParamIoConfig& config) : device_(device) {
    params_.struct_size = sizeof(params_);
    params_.queue_depth = config.queue_depth;
    params_.chunk_bytes = config.chunk_bytes;
    params_.pinned_bytes = config.pinned_staging_bytes;
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    (void)finish();  // nothing may be read any more when the memory goes
    for (const auto& [descriptor, file] : files_) device_.api().param_io->file_close(file);
  }

  Status add(const WeightExtent& extent, const heddle_block_t& block) {
    Batch& batch = batches_[extent.descriptor];
    batch.path = extent.path;
    batch.extents.push_back({extent.offset, extent.length, block.buffer, block.offset});
    bytes_ += extent.length;
    return bytes_ < batch_bytes_ ? Status() : begin();
  }

  // Begins what was added.
  Status begin() {
    const heddle_param_io_interface_t& io = *device_.api().param_io;
    for (const auto& [descriptor, batch] : batches_) {
      auto [file, is_new] = files_.try_emplace(descriptor, nullptr);
      if (is_new) {
        Status opened = device_.noted(Status(io.file_open(device_.get(), descriptor, HEDDLE_FILE_READ, to_c(batch.path), &file->second)));
        if (!opened.ok()) {
          files_.erase(file);
          return opened;
        }
      }
      Result<Device::Pending> pending = device_.start([&](const heddle_sync_t* sync) {
        return io.read(device_.queue(), sync, file->second, batch.extents.data(), batch.extents.size(), &params_);
      });
      if (!pending.ok()) return wrap(pending.take_status(), "reading parameters from " + batch.path);
      pending_.emplace_back(std::move(*pending), batch.path);
    }
    batches_.clear();
    bytes_ = 0;
    if (batch_bytes_ <= UINT64_MAX / kBatchGrowth) batch_bytes_ *= kBatchGrowth;
    return Status();
  }

  // Waits for all reads, whatever becomes of them; the first failure.
  Status finish() {
    Status first;
    for (auto& [pending, path] : pending_) {
      Status read = device_.finish(std::move(pending));
      if (!read.ok() && first.ok()) first = wrap(std::move(read), "reading parameters from " + path);
    }
    pending_.clear();
    return first;
  }

 private:
  struct Batch {
    std::string path;
    std::vector<heddle_extent_t> extents;
  };
  Device& device_;
  heddle_param_io_params_t params_{};
  std::map<int, Batch> batches_;  // by descriptor
  uint64_t bytes_ = 0, batch_bytes_ = kFirstBatchBytes;
  std::map<int, heddle_file_t*> files_;
  std::vector<std::pair<Device::Pending, std::string>> pending_;
};

}  // namespace

Result<std::vector<std::shared_ptr<Weight>>> Weights::load(Device& device, const std::vector<WeightExtent>& extents,
                                                           const host::ParamIoConfig& config) {
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& item) { return item.second.expired(); });
  std::vector<std::shared_ptr<Weight>> weights(extents.size());
  std::map<Key, std::shared_ptr<Weight>> fresh;
  Reading reading(device, config);  // ends before the memory that it reads into goes
  for (size_t i = 0; i < extents.size(); ++i) {
    const WeightExtent& extent = extents[i];
    Key key{&device, extent.file, extent.offset, extent.length};
    auto known = known_.find(key);
    if (known != known_.end()) weights[i] = known->second.lock();
    if (!weights[i]) {
      auto found = fresh.find(key);
      if (found != fresh.end()) weights[i] = found->second;
    }
    if (weights[i]) {
      shared_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    heddle_block_t block{};
    Status allocated = device.allocate(extent.length, 64, &block);
    if (!allocated.ok()) {
      return wrap(std::move(allocated),
                  fmt::format("allocating {} bytes for a parameter of {} on device '{}'", extent.length, extent.path, device.alias()));
    }
    weights[i] = std::make_shared<Weight>(Ref<Device>(&device), block);
    fresh.emplace(key, weights[i]);
    if (extent.length == 0) continue;
    HEDDLE_RETURN_IF_ERROR(reading.add(extent, block));
    bytes_read_.fetch_add(extent.length, std::memory_order_relaxed);
  }
  HEDDLE_RETURN_IF_ERROR(reading.begin());
  HEDDLE_RETURN_IF_ERROR(reading.finish());
  for (const auto& [key, weight] : fresh) known_[key] = weight;
  return weights;
}

}  // namespace heddle::memory
