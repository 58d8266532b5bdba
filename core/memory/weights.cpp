// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading weights file by file into device memory, and finding those that are there already.
// Called through weights.h; files are read by drivers, never mapped.
#include "core/memory/weights.h"

namespace heddle::memory {

Result<std::vector<std::shared_ptr<Weight>>> Weights::load(Device& device, const std::vector<WeightExtent>& extents,
                                                           const host::ParamIoConfig& config) {
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& item) { return item.second.expired(); });
  std::vector<std::shared_ptr<Weight>> weights(extents.size());
  struct Reads {
    std::string path;
    std::vector<heddle_extent_t> extents;
  };
  std::map<int, Reads> by_file;
  std::map<Key, std::shared_ptr<Weight>> fresh;
  for (size_t i = 0; i < extents.size(); ++i) {
    const WeightExtent& extent = extents[i];
    Key key{&device, extent.file, extent.offset, extent.length};
    auto known = known_.find(key);
    if (known != known_.end()) weights[i] = known->second.lock();
    if (!weights[i]) {
      auto reading = fresh.find(key);
      if (reading != fresh.end()) weights[i] = reading->second;
    }
    if (weights[i]) {
      shared_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    heddle_block_t block{};
    Status allocated = device.pool().allocate(extent.length, 64, &block);
    if (!allocated.ok()) {
      return wrap(std::move(allocated),
                  fmt::format("allocating {} bytes for a parameter of {} on device '{}'", extent.length, extent.path, device.alias()));
    }
    weights[i] = std::make_shared<Weight>(Ref<Device>(&device), block);
    fresh.emplace(key, weights[i]);
    if (extent.length == 0) continue;
    Reads& reads = by_file[extent.descriptor];
    reads.path = extent.path;
    reads.extents.push_back({extent.offset, extent.length, block.buffer, block.offset});
  }

  heddle_param_io_params_t params{};
  params.struct_size = sizeof(params);
  params.queue_depth = config.queue_depth;
  params.chunk_bytes = config.chunk_bytes;
  params.pinned_bytes = config.pinned_staging_bytes;
  const heddle_param_io_interface_t& io = *device.api().param_io;
  for (const auto& [descriptor, reads] : by_file) {
    heddle_file_t* file = nullptr;
    HEDDLE_RETURN_IF_ERROR(Status(io.file_open(device.get(), descriptor, HEDDLE_FILE_READ, to_c(reads.path), &file)));
    Status read = device.signalled([&](const heddle_sync_t* sync) {
      return io.read(device.queue(), sync, file, reads.extents.data(), reads.extents.size(), &params);
    });
    io.file_close(file);
    if (!read.ok()) return wrap(std::move(read), "reading parameters from " + reads.path);
    for (const heddle_extent_t& extent : reads.extents) bytes_read_.fetch_add(extent.length, std::memory_order_relaxed);
  }
  for (const auto& [key, weight] : fresh) known_[key] = weight;
  return weights;
}

}  // namespace heddle::memory
