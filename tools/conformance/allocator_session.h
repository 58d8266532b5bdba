// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The basis of the allocators' cases: a provider of the kit, whose buffers are records without memory, since an allocator only keeps books and
// touches no memory; a timeline that is a number; an allocator over that provider, whose every answer is checked. Used by cases_allocator*.cpp.
#ifndef HEDDLE_CONFORMANCE_ALLOCATOR_SESSION_H_
#define HEDDLE_CONFORMANCE_ALLOCATOR_SESSION_H_

#include <algorithm>
#include <cstring>
#include <map>

#include "session.h"

struct heddle_buffer {
  uint64_t size;
  uint64_t address;  // with exactly the requested alignment
};

namespace heddle::conformance {

struct Timeline {
  std::atomic<uint64_t> value{0};
  heddle_timeline_t* handle() { return reinterpret_cast<heddle_timeline_t*>(this); }
};

class Provider {
 public:
  explicit Provider(uint64_t limit_bytes) : limit(limit_bytes) {
    table.struct_size = sizeof table;
    table.self = this;
    table.allocate = [](void* self, const heddle_block_params_t* params, heddle_block_t* out, heddle_point_t*, uint32_t* out_wait_count) {
      *out_wait_count = 0;
      return static_cast<Provider*>(self)->allocate(*params, out);
    };
    table.free = [](void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) {
      static_cast<Provider*>(self)->free(*block, {points, points + count});
    };
    table.statistics = [](void* self, heddle_allocator_statistics_t* out) {
      static_cast<Provider*>(self)->statistics(out);
      return static_cast<heddle_status_t*>(nullptr);
    };
    table.trim = [](void* self, uint64_t keep_bytes) {
      auto* provider = static_cast<Provider*>(self);
      std::lock_guard<std::mutex> lock(provider->mutex);
      provider->trims.push_back(keep_bytes);
      return static_cast<heddle_status_t*>(nullptr);
    };
    table.holders = [](void* self, heddle_holder_visitor_t visit, void* context) {
      static_cast<Provider*>(self)->holders(visit, context);
      return static_cast<heddle_status_t*>(nullptr);
    };
    table.reached = [](void*, heddle_point_t point) -> uint32_t { return reached(point); };
  }
  ~Provider() { CHECK(buffers.empty(), "%zu of the provider's buffers were not freed", buffers.size()); }

  heddle_status_t* allocate(const heddle_block_params_t& params, heddle_block_t* out) {
    *out = {};
    // The params of an allocator of minor 0.1 end with the owner.
    constexpr size_t least = offsetof(heddle_block_params_t, owner) + sizeof(params.owner);
    if (params.struct_size < least) fail("the provider got block params of %u bytes [HD-E-04]", params.struct_size);
    const uint64_t size = params.size_bytes, alignment = params.alignment_bytes ? params.alignment_bytes : 64;
    std::lock_guard<std::mutex> lock(mutex);
    if (alignment & (alignment - 1)) fail("the provider was asked for alignment %llu, which is not a power of two", number(alignment));
    largest_alignment = std::max(largest_alignment, alignment);
    std::erase_if(waiting, [](const Waiting& each) { return std::all_of(each.points.begin(), each.points.end(), reached); });
    uint64_t taken = used;
    for (const Waiting& each : waiting) taken += each.size;
    if (size > limit || taken > limit - size) {
      ++refusals;
      std::string text = "the kit's provider has no " + std::to_string(size) + " bytes";
      for (const auto& [owner, sum] : sums())  // like every allocator's refusal (HD-M-03)
        text += "\n  " + std::to_string(sum.requested.current) + " bytes in " + std::to_string(sum.blocks) + " blocks: " + owner;
      return make_status(HEDDLE_STATUS_RESOURCE_EXHAUSTED, text);
    }
    auto* buffer = new heddle_buffer{size, alignment};
    *out = {buffer, 0, size, ++calls};
    buffers[buffer] = {*out, params.owner ? text_of(*params.owner) : std::string()};
    used += size;
    total += size;
    peak = std::max(peak, taken + size);
    return nullptr;
  }
  void free(const heddle_block_t& block, std::vector<heddle_point_t> points) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = buffers.find(block.buffer);
    REQUIRE(found != buffers.end(), "a block was freed that the provider did not allocate [HD-M-05]");
    const heddle_block_t& given = found->second.block;
    CHECK(
        block.offset == given.offset && block.length == given.length && block.token == given.token,
        "a block was changed before it was freed: %llu bytes at %llu, token %llu; the provider returned %llu at %llu, token %llu [HD-M-05]",
        number(block.length), number(block.offset), number(block.token), number(given.length), number(given.offset), number(given.token));
    used -= block.buffer->size;
    waiting.push_back({block.buffer->size, std::move(points)});
    delete block.buffer;
    buffers.erase(found);
    ++frees;
  }
  // Whether something was freed that may be used again once the point is reached.
  bool waits_for(heddle_point_t point) {
    std::lock_guard<std::mutex> lock(mutex);
    return std::any_of(waiting.begin(), waiting.end(), [&](const Waiting& each) {
      return std::any_of(each.points.begin(), each.points.end(),
                         [&](heddle_point_t other) { return other.timeline == point.timeline && other.value >= point.value; });
    });
  }
  void statistics(heddle_allocator_statistics_t* out) {
    std::lock_guard<std::mutex> lock(mutex);
    heddle_allocator_statistics_t now = {};
    now.struct_size = out->struct_size;
    now.requested = now.allocated = now.active = now.bytes_reserved = {used, peak, total};
    now.exhaustions = refusals;
    now.allocations = now.provider_allocations = frees + buffers.size();
    now.frees = frees;
    std::memcpy(out, &now, std::min<size_t>(out->struct_size, sizeof now));
  }
  void holders(heddle_holder_visitor_t visit, void* context) {
    std::map<std::string, heddle_holder_t> now;
    {
      std::lock_guard<std::mutex> lock(mutex);
      now = sums();
    }
    for (auto& [owner, sum] : now) {
      sum.owner = string_of(owner);
      visit(context, &sum);
    }
  }

  heddle_provider_t table = {};
  std::mutex mutex;
  uint64_t limit, used = 0, peak = 0, total = 0, calls = 0, frees = 0, refusals = 0, largest_alignment = 0;
  struct Given {
    heddle_block_t block;
    std::string owner;
  };
  std::map<heddle_buffer_t*, Given> buffers;
  std::vector<uint64_t> trims;  // the bytes that each trim was to keep

 private:
  // Freed, but counted against the limit until its points are reached.
  struct Waiting {
    uint64_t size;
    std::vector<heddle_point_t> points;
  };
  // Per owner; call with the lock held.
  std::map<std::string, heddle_holder_t> sums() const {
    std::map<std::string, heddle_holder_t> made;
    for (const auto& [buffer, given] : buffers) {
      heddle_holder_t& sum = made[given.owner];
      ++sum.blocks;
      sum.requested.current += buffer->size;
    }
    return made;
  }
  static bool reached(heddle_point_t point) { return reinterpret_cast<Timeline*>(point.timeline)->value.load() >= point.value; }
  std::vector<Waiting> waiting;
};

inline OptionValue integer(const char* name, int64_t value) {
  OptionValue option;
  option.name = name;
  option.kind = HEDDLE_OPTION_INT;
  option.int_value = value;
  return option;
}

class Allocator {
 public:
  explicit Allocator(uint64_t limit = uint64_t{1} << 40, std::vector<OptionValue> more = {}) : provider(limit) {
    handle = create(more, nullptr);
    REQUIRE(handle, "create returned neither a status nor an allocator");
  }
  ~Allocator() {
    if (handle) EXPECT_OK(api().destroy(handle));
  }
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  heddle_allocator_t* create(const std::vector<OptionValue>& more, Result* out_failure) {
    std::vector<heddle_option_t> options;
    for (const std::vector<OptionValue>* list : {&settings().options, &more}) {
      for (const OptionValue& option : *list) {
        if (list == &settings().options &&
            std::any_of(more.begin(), more.end(), [&](const OptionValue& other) { return other.name == option.name; })) {
          continue;
        }
        options.push_back({sizeof(heddle_option_t), option.kind, string_of(option.name), option.int_value, option.float_value,
                           string_of(option.string_value)});
      }
    }
    heddle_allocator_params_t params = {
        sizeof params, static_cast<uint32_t>(options.size()), &provider.table, options.data(), sizeof(heddle_option_t), string_of("kit")};
    heddle_allocator_t* made = nullptr;
    Result status(api().create(instance.handle, &params, &made));
    if (!out_failure) REQUIRE(status.ok(), "creating an allocator returned %s", status.text().c_str());
    if (out_failure) new (out_failure) Result(status.release());
    return made;
  }
  const heddle_allocator_interface_t& api() const { return instance.tables.allocator; }

  Result try_allocate(uint64_t size, uint64_t alignment, heddle_block_t* out, heddle_point_t after = {nullptr, 0},
                      std::vector<heddle_point_t>* out_waits = nullptr, const heddle_string_t* owner = nullptr) {
    heddle_point_t waits[8] = {};
    heddle_block_params_t params = {sizeof params, out_waits ? 4u : 0u, size, alignment, after, owner, 0};
    uint32_t count = 99;
    std::memset(out, 0x77, sizeof *out);
    Result status(api().allocate(handle, &params, out, out_waits ? waits : nullptr, &count));
    if (!status.ok()) {
      CHECK(!out->buffer, "allocate failed and left %p as the buffer of its block; NULL was expected [HD-E-07]",
            static_cast<void*>(out->buffer));
      *out = {};
      return status;
    }
    CHECK(count <= params.wait_capacity, "allocate returned %u points to wait for, but wait_capacity is %u", count, params.wait_capacity);
    CHECK(after.timeline || count == 0, "a block that must be usable at once came with %u points to wait for", count);
    if (out_waits) out_waits->assign(waits, waits + std::min(count, 4u));
    std::lock_guard<std::mutex> lock(provider.mutex);
    REQUIRE(out->buffer && provider.buffers.count(out->buffer), "a block is not in a buffer of the provider");
    const uint64_t needed = alignment ? alignment : 64;
    CHECK(out->length == size && out->offset <= out->buffer->size && size <= out->buffer->size - out->offset,
          "a block of %llu bytes is %llu at %llu of a buffer of %llu", number(size), number(out->length), number(out->offset),
          number(out->buffer->size));
    CHECK((out->buffer->address + out->offset) % needed == 0,
          "a block aligned to %llu starts at %llu of a buffer that was asked for with alignment %llu", number(needed), number(out->offset),
          number(out->buffer->address));
    return status;
  }
  heddle_block_t allocate(uint64_t size, uint64_t alignment = 0, const heddle_string_t* owner = nullptr) {
    heddle_block_t block;
    Result status = try_allocate(size, alignment, &block, {nullptr, 0}, nullptr, owner);
    REQUIRE(status.ok(), "%llu bytes returned %s", number(size), status.text().c_str());
    return block;
  }
  void free(const heddle_block_t& block, const std::vector<heddle_point_t>& points = {}) {
    api().free(handle, &block, points.empty() ? nullptr : points.data(), static_cast<uint32_t>(points.size()));
  }
  heddle_allocator_statistics_t statistics() {
    heddle_allocator_statistics_t values = {};
    values.struct_size = sizeof values;
    Result status(api().statistics(handle, &values));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it keeps no statistics, which is optional");
    REQUIRE(status.ok(), "statistics returned %s", status.text().c_str());
    return values;
  }
  // The holdings per owner; without owners that have no live blocks, which an allocator may report because of their peaks.
  std::map<std::string, heddle_holder_t> holders() {
    struct Seen {
      std::map<std::string, heddle_holder_t> list;
      bool twice = false;
    } seen;
    Result status(api().holders(
        handle,
        [](void* context, const heddle_holder_t* holder) {
          auto* to = static_cast<Seen*>(context);
          if (holder->blocks == 0 && holder->requested.current == 0) return;
          if (!to->list.emplace(text_of(holder->owner), *holder).second) to->twice = true;
        },
        &seen));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it does not list holders, which is optional");
    REQUIRE(status.ok(), "holders returned %s", status.text().c_str());
    CHECK(!seen.twice, "holders reported an owner twice");
    return seen.list;
  }
  void trim(uint64_t keep) {
    Result status(api().trim(handle, keep));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it does not trim, which is optional");
    REQUIRE(status.ok(), "trim returned %s", status.text().c_str());
  }

  Instance instance;
  Provider provider;
  heddle_allocator_t* handle = nullptr;
};

// A block in use.
struct Live {
  heddle_block_t block;
  uint64_t size;
};

}  // namespace heddle::conformance

#endif  // HEDDLE_CONFORMANCE_ALLOCATOR_SESSION_H_
