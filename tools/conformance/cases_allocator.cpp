// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of heddle.allocator/1: the blocks that it returns, and its own lifetime.
#include <algorithm>
#include <cstring>

#include "allocator_session.h"

namespace heddle::conformance {
namespace {

bool overlap(const heddle_block_t& a, uint64_t a_size, const heddle_block_t& b, uint64_t b_size) {
  return a.buffer == b.buffer && a.offset < b.offset + b_size && b.offset < a.offset + a_size;
}

void blocks_are_disjoint() {
  Allocator allocator;
  std::vector<Live> live;
  for (int i = 0; i < 3000; ++i) {
    if (!live.empty() && random_below(100) < 45) {
      const size_t which = random_below(live.size());
      allocator.free(live[which].block);
      live[which] = live.back();
      live.pop_back();
      continue;
    }
    const uint64_t size = random_below(4) ? random_below(5000) + 1 : random_below(3 << 20) + 1;
    const uint64_t alignment = random_below(3) ? 0 : uint64_t{1} << random_below(13);
    const heddle_block_t block = allocator.allocate(size, alignment);
    for (const Live& other : live) {
      REQUIRE(!overlap(block, size, other.block, other.size), "two live blocks overlap: %llu at %llu and %llu at %llu of one buffer",
              number(size), number(block.offset), number(other.size), number(other.block.offset));
    }
    live.push_back({block, size});
  }
  for (const Live& each : live) allocator.free(each.block);
}

void odd_sizes() {
  Allocator allocator;
  std::vector<heddle_block_t> blocks;
  for (uint64_t size : {uint64_t{0}, uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{65}, (uint64_t{1} << 32) + 1}) {
    blocks.push_back(allocator.allocate(size));
  }
  for (uint64_t alignment = 1; alignment <= 1 << 21; alignment *= 2) blocks.push_back(allocator.allocate(100, alignment));
  for (const heddle_block_t& block : blocks) allocator.free(block);
  heddle_block_t block;
  EXPECT_CODE(allocator.try_allocate(64, 3, &block).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(allocator.try_allocate(64, 96, &block).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  for (uint64_t size : {UINT64_MAX, UINT64_MAX - 100, UINT64_MAX / 2}) {
    Result status = allocator.try_allocate(size, 0, &block);
    CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%llu bytes returned %s; RESOURCE_EXHAUSTED was expected", number(size),
          status.text().c_str());
  }
}

void provider_gets_all_back() {
  Timeline stream;  // outlives the allocator
  Allocator allocator;
  std::vector<heddle_block_t> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocator.allocate(1 + random_below(100000)));
  for (const heddle_block_t& block : blocks) allocator.free(block);
  const heddle_point_t used_until = {stream.handle(), 7};
  allocator.free(allocator.allocate(12345), {used_until});
  EXPECT_OK(allocator.api().destroy(allocator.handle));
  allocator.handle = nullptr;
  CHECK(allocator.provider.buffers.empty(), "destroy did not free %zu of the provider's buffers", allocator.provider.buffers.size());
  CHECK(allocator.provider.waits_for(used_until), "destroy freed memory without the point that it was freed after [HD-M-05]");
  stream.value = 7;
}

void destroy_with_blocks() {
  Allocator allocator;
  const heddle_block_t block = allocator.allocate(12345);
  Result status(allocator.api().destroy(allocator.handle));
  REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "destroy with a live block returned %s [HD-L-01]", status.text().c_str());
  CHECK(status.message().find('1') != std::string::npos, "the refusal does not name the live objects: %s", status.message().c_str());
  allocator.free(block);
}

void shutdown_with_an_allocator() {
  Allocator allocator;
  Result status(plugin().table.shutdown(allocator.instance.handle));
  REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "shutdown with a live allocator returned %s [HD-L-01]",
          status.text().c_str());
  allocator.free(allocator.allocate(10));
}

void no_provider() {
  Instance instance;
  heddle_allocator_params_t params = {sizeof params, 0, nullptr, nullptr, sizeof(heddle_option_t), string_of("kit")};
  heddle_allocator_t* made = nullptr;
  EXPECT_CODE(instance.tables.allocator.create(instance.handle, &params, &made), HEDDLE_STATUS_INVALID_ARGUMENT);
}

void provider_fails() {
  Allocator allocator;
  allocator.provider.limit = 0;
  heddle_block_t block;
  EXPECT_CODE(allocator.try_allocate(uint64_t{200} << 20, 0, &block).release(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
  allocator.provider.limit = uint64_t{1} << 40;
  allocator.free(allocator.allocate(uint64_t{200} << 20));
}

void structs() {
  Allocator allocator;
  struct {
    heddle_block_params_t params;
    uint64_t tail[kTailWords];
  } larger = {{sizeof larger, 0, 1000, 0, {nullptr, 0}, nullptr, 0}, {}};
  heddle_block_t block = {};
  uint32_t waits = 0;
  EXPECT_OK(allocator.api().allocate(allocator.handle, &larger.params, &block, nullptr, &waits));
  allocator.free(block);
  larger.tail[kTailWords - 1] = 7;
  EXPECT_CODE(allocator.api().allocate(allocator.handle, &larger.params, &block, nullptr, &waits), HEDDLE_STATUS_INVALID_ARGUMENT);
  heddle_block_params_t smaller = {offsetof(heddle_block_params_t, alignment_bytes), 0, 1000, 3, {nullptr, 0}, nullptr, 0};
  Result small(allocator.api().allocate(allocator.handle, &smaller, &block, nullptr, &waits));
  CHECK(small.ok(), "block params without an alignment returned %s [HD-E-04]", small.text().c_str());
  if (small.ok()) allocator.free(block);
  struct {
    heddle_allocator_statistics_t known;
    char behind[32];
  } memory;
  std::memset(&memory, 0x77, sizeof memory);
  memory.known.struct_size = 24;
  Result status(allocator.api().statistics(allocator.handle, &memory.known));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) return;
  for (size_t i = 24; i < sizeof memory; ++i) {
    REQUIRE(reinterpret_cast<char*>(&memory)[i] == 0x77, "with statistics of 24 bytes byte %zu was written [HD-E-04]", i);
  }
}

void host_memory_ends() {
  Allocator allocator;
  bool injected = true;
  for (int64_t at = 0; at < 200 && injected && !failed(); ++at) {
    allocator.instance.host.fail_allocation(at);
    heddle_block_t block;
    Result status = allocator.try_allocate(uint64_t{70} << 20, 0, &block);
    injected = allocator.instance.host.has_failed_allocation();
    CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "a block without host memory returned %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    if (status.ok()) allocator.free(block);
    allocator.instance.host.fail_allocation(-1);
    allocator.trim(0);
    CHECK(allocator.provider.used == 0, "an allocation that failed for lack of host memory kept %llu bytes of the provider",
          number(allocator.provider.used));
  }
}

void in_threads() {
  Allocator allocator;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<Live> live;
  for (int t = 0; t < 8; ++t) {
    const uint64_t seed = random_numbers()();
    threads.emplace_back([&, seed] {
      std::mt19937_64 numbers(seed);
      std::vector<Live> own;
      for (int i = 0; i < 500; ++i) {
        if (own.size() > 20 || (!own.empty() && numbers() % 2)) {
          const Live last = own.back();
          own.pop_back();
          {
            std::lock_guard<std::mutex> lock(mutex);
            std::erase_if(live, [&](const Live& each) {
              return each.block.buffer == last.block.buffer && each.block.offset == last.block.offset && each.size == last.size;
            });
          }
          allocator.free(last.block);
          continue;
        }
        const uint64_t size = numbers() % 200000 + 1;
        const Live made = {allocator.allocate(size), size};
        own.push_back(made);
        std::lock_guard<std::mutex> lock(mutex);
        for (const Live& other : live) {
          REQUIRE(!overlap(made.block, size, other.block, other.size), "two threads were given overlapping blocks");
        }
        live.push_back(made);
      }
      for (const Live& each : own) {
        std::lock_guard<std::mutex> lock(mutex);
        std::erase_if(
            live, [&](const Live& other) { return other.block.buffer == each.block.buffer && other.block.offset == each.block.offset; });
        allocator.free(each.block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(allocator.statistics().requested.current == 0, "with all blocks freed by 8 threads requested is %llu",
        number(allocator.statistics().requested.current));
}

void null_allocator_releases() {
  Instance instance;
  EXPECT_OK(instance.tables.allocator.destroy(nullptr));
}

void alignment_beyond_the_buffer() {
  Allocator allocator;
  heddle_block_t first = allocator.allocate(100, 4096), second = allocator.allocate(100, 4096);
  CHECK(allocator.provider.largest_alignment >= 4096, "a block aligned to 4096 is in a buffer that was asked for with alignment %llu",
        number(allocator.provider.largest_alignment));
  allocator.free(first);
  allocator.free(second);
}

}  // namespace

void add_allocator_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"allocator.disjoint", "live blocks do not overlap, are aligned and are inside the provider's buffers", blocks_are_disjoint,
        Kind::kAllocator},
       {"allocator.sizes", "sizes from 0 to beyond 4 GiB work; impossible ones are refused [HD-M-02]", odd_sizes, Kind::kAllocator},
       {"allocator.alignment", "a buffer is requested with the alignment of its blocks", alignment_beyond_the_buffer, Kind::kAllocator},
       {"allocator.gives_back", "destroy frees all buffers", provider_gets_all_back, Kind::kAllocator},
       {"allocator.destroy_with_blocks", "destroy with live blocks is refused and changes nothing", destroy_with_blocks, Kind::kAllocator},
       {"allocator.shutdown_with_one", "shutdown with a live allocator is refused", shutdown_with_an_allocator, Kind::kAllocator},
       {"allocator.no_provider", "an allocator without a provider is INVALID_ARGUMENT", no_provider, Kind::kAllocator},
       {"allocator.provider_fails", "a provider's failure is passed on and has no other effect", provider_fails, Kind::kAllocator},
       {"allocator.structs", "sized structs, smaller and larger", structs, Kind::kAllocator},
       {"allocator.host_memory", "exhausted host memory leaves no buffer behind", host_memory_ends, Kind::kAllocator},
       {"allocator.null", "destroying NULL does nothing", null_allocator_releases, Kind::kAllocator},
       {"allocator.threads", "8 threads allocate and free", in_threads, Kind::kAllocator}});
}

}  // namespace heddle::conformance
