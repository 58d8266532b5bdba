// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.allocator/1, checked on both sides: the host's calls of an allocator, and the allocator's calls of its provider, which is replaced by one
// that checks first.
#include <algorithm>

#include "core/validation/call.h"

namespace heddle::validation {
namespace {

bool same(const heddle_block_t& a, const heddle_block_t& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.length == b.length && a.token == b.token;
}

std::string text(const heddle_block_t& block) {
  return fmt::format("{} bytes at offset {} of buffer {}, token {:#x}", block.length, block.offset, fmt::ptr(block.buffer), block.token);
}

// A live block that shares bytes with this one; NULL: none. Empty blocks share nothing.
const heddle_block_t* overlapping(const Blocks& blocks, const heddle_block_t& block) {
  auto next = blocks.lower_bound({block.buffer, block.offset});
  if (next != blocks.end() && next->first.first == block.buffer && next->first.second < block.offset + block.length) return &next->second;
  if (next == blocks.begin()) return nullptr;
  --next;
  const heddle_block_t& before = next->second;
  return before.buffer == block.buffer && before.offset + before.length > block.offset ? &before : nullptr;
}

heddle_allocator_t* handle_of(const Allocator& record) {
  return static_cast<heddle_allocator_t*>(const_cast<void*>(record.handle));
}

heddle_block_params_t read_params(Call& call, const heddle_block_params_t* params, heddle_block_t* out_block, heddle_point_t* out_waits,
                                  uint32_t* out_wait_count) {
  const heddle_block_params_t given = call.read(params, "params");
  call.check_power_of_two(given.alignment_bytes, "params.alignment_bytes");
  if (given.wait_capacity && !out_waits) call.host_broke("HD-M-01", "out_waits is NULL, but wait_capacity is {}", given.wait_capacity);
  if (!out_block || !out_wait_count) call.host_broke("HD-E-07", "an output is NULL");
  return given;
}

// Checks a block that a provider or an allocator returned. False: there is no block to keep.
bool check_block(Call& call, const heddle_block_params_t& params, const heddle_block_t& block, const Blocks& others, uint32_t wait_count) {
  std::shared_ptr<Buffer> buffer = registry().find<Buffer>(block.buffer);
  if (!buffer) {
    call.plugin_broke("HD-H-01", "its block is {}, which is not in a live buffer", text(block));
    return false;
  }
  if (block.length != params.size_bytes)
    call.plugin_broke("HD-M-05", "{} bytes were requested, but its block is {}", params.size_bytes, text(block));
  if (block.offset > buffer->size || block.length > buffer->size - block.offset) {
    call.plugin_broke("HD-M-02", "its block is {}, of {} bytes", text(block), buffer->size);
  }
  const uint64_t alignment = params.alignment_bytes ? params.alignment_bytes : 64;
  if (block.offset % std::min(alignment, std::max<uint64_t>(buffer->alignment, 1)) != 0) {
    call.plugin_broke("HD-M-04", "its block is {}, but alignment {} was requested", text(block), alignment);
  }
  if (const heddle_block_t* other = overlapping(others, block)) {
    call.plugin_broke("HD-M-05", "its block is {}, which shares bytes with a live one: {}", text(block), text(*other));
    return false;
  }
  if (wait_count > params.wait_capacity || (!params.after.timeline && wait_count != 0)) {
    call.plugin_broke("HD-M-01", "it returned {} points to wait for, but wait_capacity is {}", wait_count, params.wait_capacity);
  }
  return true;
}

// Removes the live block that equals this one; the caller is freeing it.
bool take_back(Call& call, Blocks& blocks, const heddle_block_t* block) {
  if (!block) {
    call.host_broke("HD-M-05", "block is NULL");
    return false;
  }
  auto live = blocks.find({block->buffer, block->offset});
  if (live == blocks.end()) {
    call.host_broke("HD-M-05", "block is {}, which is not live", text(*block));
    return false;
  }
  if (!same(live->second, *block)) {
    call.host_broke("HD-M-05", "block is {}, but was returned as {}", text(*block), text(live->second));
    return false;
  }
  blocks.erase(live);
  return true;
}

// Enqueued work must not touch a block that is freed without points (HD-Q-03).
void check_block_unused(Call& call, const heddle_block_t& block, uint32_t point_count) {
  if (point_count != 0) return;
  if (std::shared_ptr<Buffer> buffer = registry().find<Buffer>(block.buffer)) {
    call.check_unused(*buffer, "the block's buffer", block.offset, block.offset + block.length);
  }
}

// ------------------------------------------------------------------------------- what the allocator asks of its provider

Call& as_plugin(Call& call, Allocator& record) {
  call.set_plugin(record.plugin);
  call.caller_is("the plugin");
  return call;
}

// ask(below) returns one of its blocks, or why not.
template <class F>
heddle_status_t* ask_provider(Allocator& record, const char* what, const heddle_block_params_t* params, heddle_block_t* out_block,
                              heddle_point_t* out_waits, uint32_t* out_wait_count, F&& ask) noexcept {
  {
    Call call(what);
    as_plugin(call, record);
    read_params(call, params, out_block, out_waits, out_wait_count);
    if (call.refused()) return call.refusal();
  }
  heddle_status_t* status = ask(*record.below);
  if (status) return status;
  std::lock_guard lock(registry().mutex);
  record.held[{out_block->buffer, out_block->offset}] = *out_block;
  return nullptr;
}

heddle_status_t* provider_allocate(void* self, const heddle_block_params_t* params, heddle_block_t* out_block, heddle_point_t* out_waits,
                                   uint32_t* out_wait_count) noexcept {
  return ask_provider(
      *static_cast<Allocator*>(self), "its provider's allocate", params, out_block, out_waits, out_wait_count,
      [&](const heddle_provider_t& below) { return below.allocate(below.self, params, out_block, out_waits, out_wait_count); });
}

heddle_status_t* provider_allocate_on_host(void* self, const heddle_block_params_t* params, heddle_block_t* out_block) noexcept {
  uint32_t no_waits = 0;
  return ask_provider(*static_cast<Allocator*>(self), "its provider's allocate_on_host", params, out_block, nullptr, &no_waits,
                      [&](const heddle_provider_t& below) { return below.allocate_on_host(below.self, params, out_block); });
}

void provider_free(void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count) noexcept {
  Allocator& record = *static_cast<Allocator*>(self);
  {
    Call call("its provider's free");
    as_plugin(call, record);
    if (point_count && !points) call.host_broke("HD-M-05", "points is NULL, but point_count is {}", point_count);
    if (!take_back(call, record.held, block)) return;
  }
  record.below->free(record.below->self, block, points, point_count);
}

heddle_status_t* provider_statistics(void* self, heddle_allocator_statistics_t* out_statistics) noexcept {
  const heddle_provider_t& below = *static_cast<Allocator*>(self)->below;
  return below.statistics(below.self, out_statistics);
}
heddle_status_t* provider_trim(void* self, uint64_t keep_bytes) noexcept {
  const heddle_provider_t& below = *static_cast<Allocator*>(self)->below;
  return below.trim(below.self, keep_bytes);
}
heddle_status_t* provider_holders(void* self, heddle_holder_visitor_t visit, void* context) noexcept {
  const heddle_provider_t& below = *static_cast<Allocator*>(self)->below;
  return below.holders(below.self, visit, context);
}
uint32_t provider_reached(void* self, heddle_point_t point) noexcept {
  const heddle_provider_t& below = *static_cast<Allocator*>(self)->below;
  return below.reached(below.self, point);
}

// ------------------------------------------------------------------------------------ what the host asks of the allocator

heddle_status_t* create(heddle_plugin_instance_t* instance, const heddle_allocator_params_t* params,
                        heddle_allocator_t** out_allocator) noexcept {
  Call call("heddle.allocator/1 create");
  Plugin* plugin = registry().of(instance);
  if (plugin) call.set_plugin(plugin);
  if (!plugin) call.host_broke("HD-L-01", "instance is {}, which is not a live instance", fmt::ptr(instance));
  if (call.refused()) return call.refusal();
  heddle_allocator_params_t through = call.read(params, "params");
  if (!through.provider) call.host_broke("HD-E-04", "params.provider is NULL");
  if (through.option_count && (!through.options || through.option_stride < sizeof(uint32_t))) {
    call.host_broke("HD-E-04", "params has {} options at a stride of {}", through.option_count, through.option_stride);
  }
  if (call.refused()) return call.refusal();
  auto record = std::make_shared<Allocator>();
  record->plugin = plugin;
  record->below = through.provider;
  record->provider = {sizeof(heddle_provider_t),
                      0,
                      record.get(),
                      provider_allocate,
                      provider_free,
                      provider_statistics,
                      provider_trim,
                      provider_holders,
                      provider_reached,
                      HEDDLE_HAS(record->below, allocate_on_host) ? provider_allocate_on_host : nullptr};
  through.struct_size = std::min<uint32_t>(through.struct_size, sizeof(through));
  through.provider = &record->provider;
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return plugin->allocator.create(instance, &through, out_allocator); });
  heddle_status_t* answer = call.keep<Allocator>(status, out_allocator, record, nullptr, [&](heddle_allocator_t* made) {
    if (heddle_status_t* ended = plugin->allocator.destroy(made)) plugin->host->status_free(plugin->host->self, ended);
  });
  if (!answer) {
    ++plugin->live;
  } else if (!record->held.empty()) {
    call.plugin_broke("HD-M-05", "it failed, but kept {} blocks of its provider", record->held.size());
    plugin->kept.push_back(record);
  }
  return answer;
}

heddle_status_t* destroy(heddle_allocator_t* allocator) noexcept {
  Call call("heddle.allocator/1 destroy");
  std::shared_ptr<Allocator> record = call.live<Allocator>(allocator, "allocator");
  if (record) call.enter_serial(record, "allocator");
  if (call.refused()) return call.refusal();
  const size_t blocks = record->blocks.size();
  if (blocks != 0)
    call.host_broke("HD-L-01", "allocator is {}, which has {} live blocks", fmt::ptr(allocator), blocks);  // it must report this as well
  call.forget(record);
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().allocator.destroy(allocator); });
  if (status) {
    registry().live<Allocator>()[allocator] = record;
    return status;
  }
  --call.plugin().live;
  if (blocks != 0) call.plugin_broke("HD-L-01", "it ended with {} live blocks", blocks);
  if (!record->held.empty()) {
    call.plugin_broke("HD-M-05", "it ended, but kept {} blocks of its provider, the first {}", record->held.size(),
                      text(record->held.begin()->second));
    call.plugin().kept.push_back(record);  // it may still free them
  }
  return status;
}

heddle_status_t* allocate(heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out_block,
                          heddle_point_t* out_waits, uint32_t* out_wait_count) noexcept {
  Call call("heddle.allocator/1 allocate");
  std::shared_ptr<Allocator> record = call.live<Allocator>(allocator, "allocator");
  heddle_block_params_t given{};
  if (record) given = read_params(call, params, out_block, out_waits, out_wait_count);
  if (call.refused()) return call.refusal();
  ++record->calls, ++record->changes;
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().allocator.allocate(allocator, params, out_block, out_waits, out_wait_count); });
  --record->calls, ++record->changes;
  if (status) {
    if (out_block->buffer) {
      call.plugin_broke("HD-E-07", "it failed and left a block in its output: {}", text(*out_block));
      *out_block = {};
    }
    return status;
  }
  ++record->allocations;
  const bool keep = check_block(call, given, *out_block, record->blocks, *out_wait_count);
  if (call.refused()) {
    const heddle_block_t wrong = *out_block;
    *out_block = {};
    ++record->frees;
    // An overlapping block is not freed: that would free the other one.
    if (keep) call.pass(Tag::kMayBlock, [&] { call.plugin().allocator.free(allocator, &wrong, nullptr, 0); });
    return call.refusal();
  }
  record->blocks[{out_block->buffer, out_block->offset}] = *out_block;
  record->requested += out_block->length;
  return nullptr;
}

void free(heddle_allocator_t* allocator, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count) noexcept {
  Call call("heddle.allocator/1 free");
  std::shared_ptr<Allocator> record = call.live<Allocator>(allocator, "allocator");
  if (record && point_count && !points) call.host_broke("HD-M-05", "points is NULL, but point_count is {}", point_count);
  if (record && block) check_block_unused(call, *block, point_count);
  // Work still touches it, or it is not a block: leaking the memory is the lesser harm.
  if (call.refused() || !take_back(call, record->blocks, block)) return;
  record->requested -= block->length;
  ++record->frees;
  ++record->calls, ++record->changes;
  call.pass(Tag::kNoBlock, [&] { call.plugin().allocator.free(allocator, block, points, point_count); });
  --record->calls, ++record->changes;
}

heddle_status_t* statistics(heddle_allocator_t* allocator, heddle_allocator_statistics_t* out_statistics) noexcept {
  Call call("heddle.allocator/1 statistics");
  std::shared_ptr<Allocator> record = call.live<Allocator>(allocator, "allocator");
  if (call.refused()) return call.refusal();
  const uint64_t changes = record->changes;
  heddle_status_t* status = call.fill(Tag::kNoBlock, out_statistics, [&](heddle_allocator_statistics_t* out) {
    return call.plugin().allocator.statistics(allocator, out);
  });
  // Exact whenever no call is in flight.
  if (status || call.refused() || record->calls != 0 || changes != record->changes ||
      out_statistics->struct_size < sizeof(*out_statistics)) {
    return call.answer(status);
  }
  const heddle_allocator_statistics_t& said = *out_statistics;
  if (said.requested.current != record->requested || said.allocations != record->allocations || said.frees != record->frees) {
    call.plugin_broke("HD-M-07", "it reports {} bytes requested, {} allocations, {} frees; the actual numbers are {}, {}, {}",
                      said.requested.current, said.allocations, said.frees, record->requested, record->allocations, record->frees);
  }
  if (said.requested.current > said.requested.peak || said.allocated.current < said.requested.current) {
    call.plugin_broke("HD-M-07", "it reports {} bytes requested, {} at the peak and {} allocated", said.requested.current,
                      said.requested.peak, said.allocated.current);
  }
  return call.answer(status);
}

heddle_status_t* trim(heddle_allocator_t* allocator, uint64_t keep_bytes) noexcept {
  Call call("heddle.allocator/1 trim");
  std::shared_ptr<Allocator> record = call.live<Allocator>(allocator, "allocator");
  if (call.refused()) return call.refusal();
  ++record->calls;
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().allocator.trim(allocator, keep_bytes); });
  --record->calls;
  return call.answer(status);
}

heddle_status_t* holders(heddle_allocator_t* allocator, heddle_holder_visitor_t visit, void* context) noexcept {
  Call call("heddle.allocator/1 holders");
  std::shared_ptr<Allocator> record = call.live<Allocator>(allocator, "allocator");
  if (record && !visit) call.host_broke("HD-T-03", "visit is NULL");
  if (call.refused()) return call.refusal();
  const uint64_t changes = record->changes, expected = record->blocks.size();
  struct Counted {
    heddle_holder_visitor_t visit;
    void* context;
    uint64_t blocks = 0;
  } counted{visit, context};
  heddle_status_t* status = call.pass(Tag::kNoBlock, [&] {
    return call.plugin().allocator.holders(
        allocator,
        [](void* context_of, const heddle_holder_t* holder) {
          auto* to = static_cast<Counted*>(context_of);
          to->blocks += holder->blocks;
          to->visit(to->context, holder);
        },
        &counted);
  });
  if (!status && record->calls == 0 && changes == record->changes && counted.blocks != expected && handle_of(*record) == allocator) {
    call.plugin_broke("HD-M-07", "its holders have {} blocks; there are {}", counted.blocks, expected);
  }
  return call.answer(status);
}

}  // namespace

const heddle_allocator_interface_t kAllocatorTable = {
    sizeof(heddle_allocator_interface_t), 0, create, destroy, allocate, free, statistics, trim, holders};

}  // namespace heddle::validation
