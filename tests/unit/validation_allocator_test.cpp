// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The validation layer around an allocator: what the host asks of it, what it answers, and what it asks of its provider. The allocator is heddle.pool,
// with one function that breaks a rule.
#include "validation_case.h"

namespace heddle::test {
namespace {

heddle_allocator_interface_t good_pool, bad_pool;

class AllocatorFaults : public Validated {
 protected:
  void SetUp() override {
    open();
    plugin = std::make_unique<LoadedPlugin>(HEDDLE_TEST_PLUGINS "/libheddle_pool.so");
    EXPECT_OK((*plugin)->create(host.table(), &instance));
    good_pool = bad_pool =
        *static_cast<const heddle_allocator_interface_t*>((*plugin)->get_interface(instance, string_of(HEDDLE_ALLOCATOR_INTERFACE)));
    below.struct_size = sizeof below;
    below.self = this;
    below.allocate = [](void* self, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t*, uint32_t* out_count) {
      auto* at = static_cast<AllocatorFaults*>(self);
      *out = {};
      *out_count = 0;
      const heddle_buffer_params_t buffer = {sizeof buffer, HEDDLE_MEMORY_DEVICE, params->size_bytes, params->alignment_bytes};
      heddle_status_t* status = at->driver().buffer_api->allocate(at->driver().device, &buffer, &out->buffer);
      out->length = params->size_bytes;
      return status;
    };
    below.free = [](void* self, const heddle_block_t* block, const heddle_point_t*, uint32_t) {
      static_cast<AllocatorFaults*>(self)->driver().buffer_api->free(block->buffer);
    };
    below.statistics = [](void*, heddle_allocator_statistics_t*) -> heddle_status_t* { return nullptr; };
    below.trim = [](void*, uint64_t) -> heddle_status_t* { return nullptr; };
    below.holders = [](void*, heddle_holder_visitor_t, void*) -> heddle_status_t* { return nullptr; };
    below.reached = [](void*, heddle_point_t) -> uint32_t { return 1; };
  }
  // From here on the layer takes bad_pool for the plugin's.
  void make() {
    table = bad_pool;
    layer().wrap_allocator(&table, instance, host.table(), string_of("test.pool"));
    heddle_allocator_params_t params = {};
    params.struct_size = sizeof params;
    params.provider = &below;
    params.name = string_of("test");
    EXPECT_OK(table.create(instance, &params, &allocator));
  }
  heddle_status_t* try_allocate(uint64_t size, heddle_block_t* out) {
    const heddle_block_params_t params = {sizeof params, 0, size, 0, {}, nullptr, 0};
    uint32_t count = 0;
    return table.allocate(allocator, &params, out, nullptr, &count);
  }
  heddle_block_t allocate(uint64_t size) {
    heddle_block_t block = {};
    EXPECT_OK(try_allocate(size, &block));
    return block;
  }
  void free(const heddle_block_t& block) { table.free(allocator, &block, nullptr, 0); }
  std::pair<uint64_t, uint64_t> told() {
    std::pair<uint64_t, uint64_t> found;
    layer().report(
        instance,
        [](void* to, uint64_t calls, uint64_t violations, heddle_string_t) {
          *static_cast<std::pair<uint64_t, uint64_t>*>(to) = {calls, violations};
        },
        &found);
    return found;
  }
  void expect(const std::string& who, const std::string& rule) {
    const std::string log = host.logged();
    EXPECT_NE(log.find(who + " broke a rule"), std::string::npos) << log;
    EXPECT_NE(log.find("[" + rule + "]"), std::string::npos) << log;
    EXPECT_GE(told().second, 1u);
  }
  void TearDown() override {
    if (allocator) Result(table.destroy(allocator));
    Result(layer().shutdown(instance, (*plugin)->shutdown));
    Validated::TearDown();
  }

  std::unique_ptr<LoadedPlugin> plugin;
  heddle_plugin_instance_t* instance = nullptr;
  heddle_provider_t below = {};
  heddle_allocator_interface_t table = {};
  heddle_allocator_t* allocator = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Drivers, AllocatorFaults,
                         ::testing::Values(DriverCase{"heddle_cpu", HEDDLE_TEST_PLUGINS "/libheddle_cpu.so", true}), name_of);

TEST_P(AllocatorFaults, NothingIsToldOfWhatIsRight) {
  make();
  std::vector<heddle_block_t> blocks;
  for (uint64_t size : {1, 100, 4096, 1 << 20, 100, 7}) blocks.push_back(allocate(size));
  free(blocks[1]);
  blocks[1] = allocate(90);
  heddle_allocator_statistics_t statistics = {};
  statistics.struct_size = sizeof statistics;
  EXPECT_OK(table.statistics(allocator, &statistics));
  EXPECT_OK(table.holders(allocator, [](void*, const heddle_holder_t*) {}, nullptr));
  for (const heddle_block_t& block : blocks) free(block);
  EXPECT_OK(table.trim(allocator, 0));
  EXPECT_OK(table.statistics(allocator, &statistics));
  EXPECT_OK(table.destroy(allocator));
  allocator = nullptr;
  EXPECT_EQ(told().second, 0u) << host.logged();
  EXPECT_GE(told().first, 20u);
  EXPECT_EQ(violations(), 0u) << host.logged();
}

TEST_P(AllocatorFaults, TheHostFreesTwiceOrSomethingElse) {
  make();
  heddle_block_t block = allocate(100);
  heddle_block_t changed = block;
  changed.token += 1;
  free(changed);
  EXPECT_EQ(told().second, 1u);
  changed = block;
  changed.length += 1;
  free(changed);
  EXPECT_EQ(told().second, 2u);
  free(block);
  EXPECT_EQ(told().second, 2u);
  free(block);
  EXPECT_EQ(told().second, 3u);
  expect("the host", "HD-M-05");
}

TEST_P(AllocatorFaults, TheHostFreesWhatWorkUses) {
  make();
  heddle_block_t used = allocate(100), other = allocate(100);
  heddle_timeline_t* timeline = driver().make_timeline();
  bad.dispatch.submit = [](heddle_queue_t*, const heddle_submission_t*) noexcept -> heddle_status_t* { return nullptr; };
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_FILL;
  command.as.fill = {used.buffer, used.offset, used.length, 0, 1, 0};
  EXPECT_OK(driver().submit({command}, {}, {{timeline, 1}}));
  free(other);  // of the same buffer
  EXPECT_EQ(told().second, 0u) << host.logged();
  free(used);
  expect("the host", "HD-Q-03");
  EXPECT_OK(good.timeline.signal(timeline, 1));
  free(used);
  EXPECT_EQ(told().second, 1u) << host.logged();
  driver().timeline_api->destroy(timeline);
}

TEST_P(AllocatorFaults, BlocksThatOverlap) {
  bad_pool.allocate = [](heddle_allocator_t* of, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                         uint32_t* count) noexcept {
    static heddle_block_t first;
    if (params->size_bytes == 200) return *out = {first.buffer, first.offset, 200, first.token}, static_cast<heddle_status_t*>(nullptr);
    heddle_status_t* status = good_pool.allocate(of, params, out, waits, count);
    first = *out;
    return status;
  };
  make();
  heddle_block_t block = allocate(256), second = {};
  EXPECT_FAILS(try_allocate(200, &second), HEDDLE_STATUS_INTERNAL, "shares bytes");
  expect("the plugin", "HD-M-05");
  free(block);
}

TEST_P(AllocatorFaults, BlocksThatAreNotWhatWasAskedFor) {
  bad_pool.allocate = [](heddle_allocator_t* of, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t* waits,
                         uint32_t* count) noexcept {
    heddle_block_params_t less = *params;
    less.size_bytes -= 1;
    return good_pool.allocate(of, &less, out, waits, count);
  };
  make();
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(100, &block), HEDDLE_STATUS_INTERNAL, "100 bytes were requested");
  EXPECT_EQ(block.buffer, nullptr);
  expect("the plugin", "HD-M-05");
}

TEST_P(AllocatorFaults, StatisticsThatAreNotTrue) {
  bad_pool.statistics = [](heddle_allocator_t* of, heddle_allocator_statistics_t* out) noexcept {
    heddle_status_t* status = good_pool.statistics(of, out);
    out->frees += 1;
    return status;
  };
  make();
  heddle_allocator_statistics_t statistics = {};
  statistics.struct_size = sizeof statistics;
  EXPECT_FAILS(table.statistics(allocator, &statistics), HEDDLE_STATUS_INTERNAL, "HD-M-07");
  expect("the plugin", "HD-M-07");
}

TEST_P(AllocatorFaults, KeepsItsProvidersBlocks) {
  bad_pool.destroy = [](heddle_allocator_t*) noexcept -> heddle_status_t* { return nullptr; };
  make();
  const heddle_block_t block = allocate(100);
  free(block);
  EXPECT_OK(table.destroy(allocator));
  expect("the plugin", "HD-M-05");
  EXPECT_OK(good_pool.destroy(allocator));  // goes on through the layer's provider
  allocator = nullptr;
}

TEST_P(AllocatorFaults, EndsWithBlocksThatLive) {
  make();
  const heddle_block_t block = allocate(100);
  EXPECT_FAILS(table.destroy(allocator), HEDDLE_STATUS_FAILED_PRECONDITION, "");  // the allocator says so itself
  expect("the host", "HD-L-01");
  free(block);
}

TEST_P(AllocatorFaults, GivesItsProviderAnotherBlockBack) {
  static const heddle_provider_t* seen;
  bad_pool.create = [](heddle_plugin_instance_t* of, const heddle_allocator_params_t* params, heddle_allocator_t** out) noexcept {
    seen = params->provider;
    return good_pool.create(of, params, out);
  };
  make();
  const heddle_block_params_t params = {sizeof params, 0, 64, 64, {}, nullptr, 0};
  heddle_block_t block = {};
  uint32_t count = 0;
  EXPECT_OK(seen->allocate(seen->self, &params, &block, nullptr, &count));
  heddle_block_t changed = block;
  changed.offset = 8;
  seen->free(seen->self, &changed, nullptr, 0);
  expect("the plugin", "HD-M-05");
  seen->free(seen->self, &block, nullptr, 0);
  EXPECT_EQ(told().second, 1u);
}

}  // namespace
}  // namespace heddle::test
