// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Read-only weights on devices, shared between instances of a runtime that name the same bytes of the same file.
// Used by core/submit when an instance is created. A weight lives as long as an instance uses it.
#ifndef HEDDLE_CORE_MEMORY_WEIGHTS_H_
#define HEDDLE_CORE_MEMORY_WEIGHTS_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/memory/device.h"
#include "sdk/module/block_types.h"

namespace heddle::memory {

// Which bytes of which version of a file, and the type of values that are made from them.
struct WeightIdentity {
  std::array<uint64_t, 5> file{};
  uint64_t offset = 0, length = 0, type = 0;
  bool operator==(const WeightIdentity&) const = default;
};

// Bytes of an open file; `file` identifies the file and its version. Descriptor and texts are borrowed for the call.
struct WeightExtent {
  int descriptor = -1;
  uint64_t offset = 0;
  uint64_t length = 0;  // on the device, and in the file unless it is stored in blocks
  std::array<uint64_t, 5> file{};
  std::string_view path;
  std::string_view name;  // the tensor's name, for error texts
  // Of values that are stored in blocks: the type of the blocks, the type of the values on the device, the bytes in the file.
  const module::BlockType* block = nullptr;
  heddle_element_type_t type = HEDDLE_TYPE_UNDEFINED;
  uint64_t block_bytes = 0;
  std::string_view pattern = {};  // repeated up to `length` instead of read, unless it is empty
  bool stays_in_blocks = false;   // kernels read the blocks of the file, which may begin at any multiple of 32
  bool is_made_on_host() const { return block || !pattern.empty(); }
  WeightIdentity identity() const { return {file, offset, length, type}; }
  uint64_t file_bytes() const { return block ? block_bytes : pattern.empty() ? length : pattern.size(); }
};

// A block in which weights that are needed for a short time have their places, one after the other. Allocated when the first of them is read.
class Stage {
 public:
  Stage(Ref<Device> device, uint64_t size_bytes) : device_(std::move(device)), size_bytes_(size_bytes) {}
  ~Stage() { device_->pool().free(block_); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  Status allocate() { return block_.buffer ? Status() : device_->allocate(size_bytes_, 64, kWeights, &block_); }
  const heddle_block_t& block() const { return block_; }

 private:
  Ref<Device> device_;
  uint64_t size_bytes_;
  heddle_block_t block_{};
};
struct StagePlace {
  std::shared_ptr<Stage> stage;  // of the same device
  uint64_t offset = 0;
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
  Weight(Ref<Device> device, StagePlace place) : device_(std::move(device)), place_(std::move(place)) {}
  ~Weight() { give_back(); }
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;
  const heddle_block_t& block() const { return block_; }
  bool has_stage() const { return place_.stage != nullptr; }
  // Of parameters.
  WeightIdentity identity;
  bool is_read = false;  // guarded by Weights: others may share it
  // Replaces the memory: with bytes of a mapped file, or with its place or pool memory if it has none yet.
  void hold(std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t length) {
    give_back();
    block_ = {file->buffer(), offset, length, 0};
    file_ = std::move(file);
  }
  // soon_bytes: as in heddle_block_params_t, for an alignment of kGroupAlignment.
  static constexpr uint64_t kGroupAlignment = 4096;
  Status allocate(uint64_t size_bytes, uint64_t soon_bytes = 0) {
    if (block_.buffer) return Status();
    if (!place_.stage) return device_->allocate(size_bytes, soon_bytes ? kGroupAlignment : 64, kWeights, &block_, soon_bytes);
    HEDDLE_RETURN_IF_ERROR(place_.stage->allocate());
    block_ = {place_.stage->block().buffer, place_.stage->block().offset + place_.offset, size_bytes, 0};
    return Status();
  }

 private:
  void give_back() {
    if (!file_ && !place_.stage) device_->pool().free(block_);
  }
  Ref<Device> device_;
  heddle_block_t block_{};
  StagePlace place_;
  std::shared_ptr<const MappedFile> file_;  // without a file and a stage, the block is the pool's
};

class Weights {
 public:
  // The weights at these extents on that device, in order: existing ones are shared, the rest is read through the driver's param_io or as config
  // says. places: empty, or where each extent is read to; such a weight is not shared with others, which would need it longer. cancelled: if it is
  // not NULL and becomes true, the load soon fails with CANCELLED. On failure no partially read weight is kept, and the error names file, tensor and
  // offset. [any] [may-block]
  Result<std::vector<std::shared_ptr<Weight>>> load(Device& device, const std::vector<WeightExtent>& extents,
                                                    const host::ParamIoConfig& config, const std::vector<StagePlace>& places = {},
                                                    const std::atomic<bool>* cancelled = nullptr);
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  uint64_t bytes_mapped() const { return bytes_mapped_.load(std::memory_order_relaxed); }
  uint64_t shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  struct Key {
    WeightIdentity identity;
    Device* device;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  class Turn;
  std::mutex mutex_;  // not held while reading; a second instance waits for the first one's weights instead of reading them again
  std::condition_variable over_;
  uint32_t loads_ = 0;  // that are reading
  std::unordered_map<Key, std::weak_ptr<Weight>, Hash> known_;
  std::atomic<uint64_t> bytes_read_{0}, bytes_mapped_{0}, shared_{0};
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_WEIGHTS_H_
