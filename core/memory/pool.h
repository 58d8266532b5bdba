// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory in blocks: allocators stacked over the driver's buffers, or the buffers themselves.
// Owned by a Device, used by all code that needs device memory; keeps no references to the blocks that it returned.
#ifndef HEDDLE_CORE_MEMORY_POOL_H_
#define HEDDLE_CORE_MEMORY_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/host/host.h"
#include "core/memory/device_memory.h"

namespace heddle::memory {

// Owners of blocks, for tables in messages about exhaustion and leaks.
inline constexpr heddle_string_t kTensors = {"tensors", 7};
inline constexpr heddle_string_t kWeights = {"weights", 7};
inline constexpr heddle_string_t kState = {"constants and state", 19};
inline constexpr heddle_string_t kIntermediates = {"intermediate values", 19};

class Pool {
 public:
  // stack: from top to bottom, the last allocator is over the driver's buffers; empty: every block is a buffer. Options are read before create
  // returns. description: of the device.
  static Result<std::unique_ptr<Pool>> create(heddle_device_t* device, const heddle_driver_api_t& api, std::string name,
                                              const heddle_device_description_t& description,
                                              const std::vector<host::AllocatorLayer>& stack);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Destroys the allocators, the upper ones first. Stops at an allocator with live blocks and reports who holds them; that one and those below it
  // stay as they are.
  Status end();

  // A block that the host or any queue may use immediately, with at least the device's alignment; size 0 gives a small block. RESOURCE_EXHAUSTED
  // only after the allocators tried the steps of HD-M-03. owner: one of the constants above. soon_bytes: as in heddle_block_params_t. [any]
  // [may-block if the driver is called]
  Status allocate(uint64_t size_bytes, uint64_t alignment_bytes, const heddle_string_t& owner, heddle_block_t* out_block,
                  uint64_t soon_bytes = 0);
  // No work uses the block any more. [any] [no-block]
  void free(const heddle_block_t& block);
  Status trim(uint64_t keep_bytes);

  struct Layer {
    std::string id;  // id of the plugin; empty for the driver's buffers
    heddle_allocator_statistics_t statistics;
  };
  // From the topmost allocator down to the driver's buffers.
  std::vector<Layer> layers() const;
  struct Holder {
    std::string owner;
    uint64_t blocks;
    heddle_memory_count_t requested;
  };
  // The owners of the blocks that allocate returned.
  std::vector<Holder> holders() const;

 private:
  // An allocator, and the provider interface that it offers to the one above it.
  struct Stacked {
    const heddle_allocator_interface_t* interface = nullptr;
    heddle_allocator_t* allocator = nullptr;
    std::string id;
    uint32_t abi_minor = 0;
    heddle_provider_t provider{};
    const heddle_provider_t* below = nullptr;
  };
  Pool(heddle_device_t* device, const heddle_driver_api_t& api, const heddle_device_description_t& description)
      : memory_(device, api, description), top_(&memory_.provider()) {}
  Status add(const host::AllocatorLayer& layer, const std::string& name);

  uint64_t min_alignment_bytes_ = 64;
  DeviceMemory memory_;
  std::vector<std::unique_ptr<Stacked>> stack_;  // from the lowest up
  const heddle_provider_t* top_;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_POOL_H_
