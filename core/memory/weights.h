// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Read-only weights on devices, shared between instances of a runtime that name the same bytes of the same file.
// Used by core/submit when an instance is created. A weight lives as long as an instance uses it.
#ifndef HEDDLE_CORE_MEMORY_WEIGHTS_H_
#define HEDDLE_CORE_MEMORY_WEIGHTS_H_

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/memory/device.h"

namespace heddle::memory {

// Bytes of an open file; `file` identifies the file and its version. The descriptor is borrowed for the call.
struct WeightExtent {
  int descriptor = -1;
  uint64_t offset = 0;
  uint64_t length = 0;
  std::array<uint64_t, 5> file{};
  std::string path;
  std::string name;  // the tensor's name, for error texts
};

// The pages of a file as memory of a device, until the last weight in it is released.
class MappedFile {
 public:
  MappedFile(Ref<Device> device, heddle_buffer_t* buffer) : device_(std::move(device)), buffer_(buffer) { device_->note_file(buffer); }
  ~MappedFile() {
    device_->forget_file(buffer_);
    device_->api().buffer->free(buffer_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  heddle_buffer_t* buffer() const { return buffer_; }

 private:
  Ref<Device> device_;
  heddle_buffer_t* buffer_;
};

class Weight {
 public:
  explicit Weight(Ref<Device> device, const heddle_block_t& block = {}) : device_(std::move(device)), block_(block) {}
  ~Weight() { give_back(); }
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  const heddle_block_t& block() const { return block_; }
  // Replaces the memory: with bytes of a mapped file, or with pool memory if it has none yet.
  void hold(std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t length) {
    give_back();
    block_ = {file->buffer(), offset, length, 0};
    file_ = std::move(file);
  }
  Status allocate(uint64_t size_bytes) { return block_.buffer ? Status() : device_->allocate(size_bytes, 64, kWeights, &block_); }

 private:
  void give_back() {
    if (!file_) device_->pool().free(block_);
  }
  Ref<Device> device_;
  heddle_block_t block_;
  std::shared_ptr<const MappedFile> file_;  // empty: the block belongs to the pool
};

class Weights {
 public:
  // The weights at these extents on that device, in order: existing ones are shared, the rest is read through the driver's param_io or as config
  // says. On failure no partially read weight is kept, and the error names file, tensor and offset. [any] [may-block]
  Result<std::vector<std::shared_ptr<Weight>>> load(Device& device, const std::vector<WeightExtent>& extents,
                                                    const host::ParamIoConfig& config);
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  uint64_t bytes_mapped() const { return bytes_mapped_.load(std::memory_order_relaxed); }
  uint64_t shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  struct Key {
    Device* device;
    std::array<uint64_t, 5> file;
    uint64_t offset, length;
    auto operator<=>(const Key&) const = default;
  };
  std::mutex mutex_;  // held while reading: a second instance waits for the first one's weights instead of reading them again
  std::map<Key, std::weak_ptr<Weight>> known_;
  std::atomic<uint64_t> bytes_read_{0}, bytes_mapped_{0}, shared_{0};
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_WEIGHTS_H_
