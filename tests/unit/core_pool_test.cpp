// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stacks of allocators are told. Their own tests are allocator_*_test.
#include "core/memory/pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace heddle::memory {
namespace {

// Remembers the hints of all calls; its blocks are in no memory.
struct Recording {
  std::vector<uint64_t> hints;
  host::LoadedAllocator loaded;

  explicit Recording(uint32_t abi_minor) {
    loaded.id = "test.recording";
    loaded.abi_minor = abi_minor;
    loaded.instance = reinterpret_cast<heddle_plugin_instance_t*>(this);
    loaded.allocator = {};
    loaded.allocator.create = [](heddle_plugin_instance_t* instance, const heddle_allocator_params_t*,
                                 heddle_allocator_t** out) -> heddle_status_t* {
      *out = reinterpret_cast<heddle_allocator_t*>(instance);
      return nullptr;
    };
    loaded.allocator.destroy = [](heddle_allocator_t*) -> heddle_status_t* { return nullptr; };
    loaded.allocator.allocate = [](heddle_allocator_t* self, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t*,
                                   uint32_t*) -> heddle_status_t* {
      reinterpret_cast<Recording*>(self)->hints.push_back(params->soon_bytes);
      *out = {reinterpret_cast<heddle_buffer_t*>(self), 0, params->size_bytes, 0};
      return nullptr;
    };
    loaded.allocator.free = [](heddle_allocator_t*, const heddle_block_t*, const heddle_point_t*, uint32_t) {};
  }
};

TEST(StackOfAllocators, OnesOfEarlierVersionsGetNoHint) {
  const heddle_driver_api_t driver{};
  for (uint32_t minor : {1u, 2u, 3u}) {
    Recording recording(minor);
    auto pool = Pool::create(nullptr, driver, "device", heddle_device_description_t{}, {{&recording.loaded, {}}});
    ASSERT_TRUE(pool.ok());
    heddle_block_t block{};
    ASSERT_TRUE((*pool)->allocate(1 << 20, 4096, kWeights, &block, 3 << 20).ok());
    ASSERT_TRUE((*pool)->allocate(1 << 20, 4096, kWeights, &block).ok());
    EXPECT_EQ(recording.hints, (std::vector<uint64_t>{minor < 3 ? 0u : 3u << 20, 0})) << minor;
  }
}

}  // namespace
}  // namespace heddle::memory
