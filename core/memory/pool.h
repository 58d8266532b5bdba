// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory in blocks: allocators stacked over the driver's buffers, or these buffers themselves.
// Owned by a Device, used by everything that needs device memory; keeps no references to what it handed out.
#ifndef HEDDLE_CORE_MEMORY_POOL_H_
#define HEDDLE_CORE_MEMORY_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/host/host.h"
#include "core/memory/device_memory.h"

namespace heddle::memory {

// Who holds what, in tables of exhaustion and of leaks.
inline constexpr heddle_string_t kTensors = {"tensors", 7};
inline constexpr heddle_string_t kWeights = {"weights", 7};
inline constexpr heddle_string_t kState = {"constants and state", 19};
inline constexpr heddle_string_t kIntermediates = {"intermediate values", 19};

class Pool {
 public:
  // stack: each allocator over the next, the last over the driver's buffers; empty: every block is one of these. Options are read before it
  // returns. description: the device's.
  static Result<std::unique_ptr<Pool>> create(heddle_device_t* device, const heddle_driver_api_t& api, std::string name,
                                              const heddle_device_description_t& description,
                                              const std::vector<host::AllocatorLayer>& stack);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Destroys the allocators, the upper ones first. It stops at one whose blocks still live, and says who holds them; that one and those
  // below stay as they are.
  Status end();

  // A block the host or any queue may use at once, aligned as the device wants it at least; size 0 gives a small block. RESOURCE_EXHAUSTED
  // comes after the allocators tried what HD-M-03 says. owner: a constant of above. [any] [may-block when the driver is asked]
  Status allocate(uint64_t size_bytes, uint64_t alignment_bytes, const heddle_string_t& owner, heddle_block_t* out_block);
  // No work uses the block any more. [any] [no-block]
  void free(const heddle_block_t& block);
  Status trim(uint64_t keep_bytes);

  struct Layer {
    std::string id;  // of the plugin; empty for the driver's buffers
    heddle_allocator_statistics_t statistics;
  };
  // From the uppermost allocator down to the driver's buffers.
  std::vector<Layer> layers() const;
  struct Holder {
    std::string owner;
    uint64_t blocks;
    heddle_memory_count_t requested;
  };
  // Of the blocks that allocate handed out.
  std::vector<Holder> holders() const;

 private:
  // An allocator, and the provider that it is to the one above it.
  struct Stacked {
    const heddle_allocator_interface_t* interface = nullptr;
    heddle_allocator_t* allocator = nullptr;
    std::string id;
    heddle_provider_t provider{};
    const heddle_provider_t* below = nullptr;
  };
  Pool(heddle_device_t* device, const heddle_driver_api_t& api, const heddle_device_description_t& description)
      : memory_(device, api, description), top_(&memory_.provider()) {}
  Status add(const host::AllocatorLayer& layer, const std::string& name);

  uint64_t min_alignment_bytes_ = 64;
  DeviceMemory memory_;
  std::vector<std::unique_ptr<Stacked>> stack_;  // the lowest first
  const heddle_provider_t* top_;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_POOL_H_
