// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allocator plugin from one C++ class: entry, negotiation, instance, thunks and the texts that allocators share. Used by
// plugin authors; contains no policy.
//
// The class A has
//   static constexpr const char *kId, *kVersion     "acme.slab", "1.0.0"; the last part of the id begins every text
//   A(const sdk::AllocatorSetup&)                   requests no memory yet
//   heddle_status_t* open(const AllocatorSetup&)    reads options; may call the provider
//   allocate, free, statistics, trim, holders       as in heddle/allocator.h. allocate gets a power of two of at least 64 as alignment,
//                                                   and cleared outputs
//   uint64_t live_blocks()                          destroy fails while there are any
//   void log_leaks()                                optional: logs the live blocks
//   static constexpr bool kKeepsFloatingPoint       optional, true: allocate and free preserve the floating-point environment themselves
// Each is called from any thread; exceptions become a status. In one source file of the plugin: HEDDLE_ALLOCATOR_PLUGIN(acme::Slab)
// The resulting library is of kind allocator only: this file defines its instance. A library of several kinds writes its own entry.
#ifndef HEDDLE_SDK_ALLOCATOR_H_
#define HEDDLE_SDK_ALLOCATOR_H_

#include <algorithm>
#include <atomic>
#include <string>
#include <type_traits>
#include <vector>

#include "heddle/allocator.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

// A quantity of heddle_allocator_statistics_t with its peak. Not thread-safe.
struct MemoryCount : heddle_memory_count_t {
  MemoryCount() noexcept : heddle_memory_count_t{} {}
  void add(uint64_t bytes) noexcept {
    current += bytes;
    total += bytes;
    if (current > peak) peak = current;
  }
  void subtract(uint64_t bytes) noexcept { current -= bytes; }
  void become(uint64_t bytes) noexcept {
    if (bytes > current) total += bytes - current;
    current = bytes;
    if (current > peak) peak = current;
  }
};

// The context for creating an allocator. Valid during its constructor and open.
class AllocatorSetup {
 public:
  AllocatorSetup(const heddle_host_t* host, const char* who, const heddle_allocator_params_t& params) noexcept
      : host_(host), who_(who), params_(params) {}
  const heddle_host_t* host() const noexcept { return host_; }
  const heddle_provider_t& provider() const noexcept { return *params_.provider; }  // outlives the allocator
  std::string_view name() const noexcept { return view_of(params_.name); }
  // Each sets the output if the option is given, and fails if it has another type or is negative.
  heddle_status_t* bytes(const char* option, uint64_t* out) const noexcept;
  heddle_status_t* text(const char* option, std::string* out) const;

 private:
  heddle_status_t* find(const char* option, uint32_t kind, const char* expected, heddle_option_t* out, bool* out_found) const noexcept;

  const heddle_host_t* host_;
  const char* who_;
  const heddle_allocator_params_t& params_;
};

// Blocks by owner, collected by one call of holders.
class Holders {
 public:
  void add(const heddle_string_t* owner, uint64_t bytes);
  // The result of `list`, a call of some holders(visit, context); nothing if it fails.
  template <class F>
  static Holders of(const heddle_host_t* host, F&& list) {
    Holders holders;
    if (heddle_status_t* unknown = list(&Holders::collect, static_cast<void*>(&holders))) host->status_free(host->self, unknown);
    return holders;
  }
  void visit(heddle_holder_visitor_t visitor, void* context) const;
  // Lines of a table, the largest first, each after a line break: "\n    12345 bytes in  3 blocks: weights".
  std::string table() const;

 private:
  struct Line {
    std::string owner;
    uint64_t blocks;
    heddle_memory_count_t bytes;
  };
  static void collect(void* context, const heddle_holder_t* holder) noexcept;
  std::vector<Line> lines_;
};

// "<who>: allocating 5 bytes from 'gpu0' failed: <cause>; <next step> [HD-M-03]" and the table of owners.
// If the cause has a table of its own, only its first line is kept.
heddle_status_t* exhaustion_status(const heddle_host_t* host, const char* who, std::string_view name, uint64_t size_bytes,
                                   std::string_view cause, std::string_view next_step, const Holders& holders);
// The text of a status; frees the status.
std::string take_text(const heddle_host_t* host, heddle_status_t* status);

struct AllocatorInstance {
  const heddle_host_t* host;
  std::atomic<uint64_t> allocators{0};
  explicit AllocatorInstance(const heddle_host_t* its_host) noexcept : host(its_host) {}
};

heddle_status_t* leak_status(const heddle_host_t* host, const char* who, std::string_view name, uint64_t blocks, const Holders& holders);
heddle_status_t* live_allocators_status(const heddle_host_t* host, const char* who, uint64_t live) noexcept;
heddle_status_t* alignment_status(const heddle_host_t* host, const char* who, const heddle_block_params_t& params) noexcept;

// The plugin around the class.
template <class A>
class AllocatorPlugin {
 public:
  static const heddle_plugin_t* entry(heddle_negotiation_t* negotiation) noexcept {
    static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t),
                                           HEDDLE_PLUGIN_ALLOCATOR,
                                           string_of(A::kId),
                                           string_of(A::kVersion),
                                           probe,
                                           create_instance,
                                           shutdown,
                                           get_interface};
    return negotiate(negotiation, A::kId, &plugin);
  }

 private:
  static constexpr const char* kWho = short_name(A::kId);
  using BlockKeeper = std::conditional_t<requires { requires A::kKeepsFloatingPoint; }, ErrnoKeeper, EnvironmentKeeper>;

  struct Held {
    AllocatorInstance* instance;
    const heddle_host_t* host;
    std::string name;
    A allocator;
    Held(AllocatorInstance* its_instance, const AllocatorSetup& setup)
        : instance(its_instance), host(its_instance->host), name(setup.name()), allocator(setup) {
      instance->allocators.fetch_add(1);
    }
    ~Held() { instance->allocators.fetch_sub(1); }
  };
  static Held* from(heddle_allocator_t* handle) noexcept { return reinterpret_cast<Held*>(handle); }
  static AllocatorInstance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<AllocatorInstance*>(handle); }

  static heddle_status_t* create(heddle_plugin_instance_t* handle, const heddle_allocator_params_t* in, heddle_allocator_t** out) noexcept {
    *out = nullptr;
    AllocatorInstance* instance = from(handle);
    const heddle_host_t* host = instance->host;
    return guarded(host, "creating an allocator", [&]() -> heddle_status_t* {
      heddle_allocator_params_t params;
      uint64_t bad_byte;
      if (!read_struct(in, &params, &bad_byte)) return tail_status(host, "heddle_allocator_params_t", bad_byte);
      if (!params.provider || !HEDDLE_HAS(params.provider, reached)) {  // reached: the last function that is called
        return status(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                      "%s: creating an allocator failed: no provider, or one without a function [HD-E-04]", kWho);
      }
      const AllocatorSetup setup(host, kWho, params);
      Held* held = make<Held>(host, instance, setup);
      heddle_status_t* failed = nullptr;
      try {
        failed = held->allocator.open(setup);
      } catch (...) {
        unmake(host, held);
        throw;
      }
      if (failed) {
        unmake(host, held);
        return failed;
      }
      *out = reinterpret_cast<heddle_allocator_t*>(held);
      return nullptr;
    });
  }

  static heddle_status_t* destroy(heddle_allocator_t* handle) noexcept {
    if (!handle) return nullptr;
    Held* held = from(handle);
    const heddle_host_t* host = held->host;
    return guarded(host, "destroying an allocator", [&]() -> heddle_status_t* {
      if (const uint64_t live = held->allocator.live_blocks()) {
        if constexpr (requires { held->allocator.log_leaks(); }) held->allocator.log_leaks();
        return leak_status(host, kWho, held->name, live, Holders::of(host, [&](heddle_holder_visitor_t visit, void* context) {
                             return held->allocator.holders(visit, context);
                           }));
      }
      unmake(host, held);
      return nullptr;
    });
  }

  static heddle_status_t* allocate(heddle_allocator_t* handle, const heddle_block_params_t* in, heddle_block_t* out,
                                   heddle_point_t* out_waits, uint32_t* out_wait_count) noexcept {
    *out = {};
    *out_wait_count = 0;
    Held* held = from(handle);
    const heddle_host_t* host = held->host;
    return guarded<BlockKeeper>(host, "allocating a block", [&]() -> heddle_status_t* {
      heddle_block_params_t params;
      if (in->struct_size == sizeof params) [[likely]] {
        // Field by field: two fields that the caller has just written separately are slow to load together.
        params = {sizeof params, in->wait_capacity, in->size_bytes, in->alignment_bytes, in->after, in->owner, in->soon_bytes};
      } else {
        uint64_t bad_byte;
        if (!read_struct(in, &params, &bad_byte)) return tail_status(host, "heddle_block_params_t", bad_byte);
      }
      if (params.alignment_bytes & (params.alignment_bytes - 1)) return alignment_status(host, kWho, params);
      params.alignment_bytes = std::max<uint64_t>(params.alignment_bytes, 64);
      return held->allocator.allocate(params, out, out_waits, out_wait_count);
    });
  }

  static void free(heddle_allocator_t* handle, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) noexcept {
    if (!block || !block->buffer) return;
    Held* held = from(handle);
    guarded_release<BlockKeeper>(held->host, [&] { held->allocator.free(*block, points, count); });
  }

  static heddle_status_t* statistics(heddle_allocator_t* handle, heddle_allocator_statistics_t* out) noexcept {
    Held* held = from(handle);
    return guarded(held->host, "reading statistics", [&]() -> heddle_status_t* {
      heddle_allocator_statistics_t now = {};
      now.struct_size = sizeof now;
      heddle_status_t* failed = held->allocator.statistics(&now);
      if (!failed) write_struct(now, out);
      return failed;
    });
  }

  static heddle_status_t* trim(heddle_allocator_t* handle, uint64_t keep_bytes) noexcept {
    Held* held = from(handle);
    return guarded(held->host, "trimming", [&] { return held->allocator.trim(keep_bytes); });
  }

  static heddle_status_t* holders(heddle_allocator_t* handle, heddle_holder_visitor_t visit, void* context) noexcept {
    Held* held = from(handle);
    return guarded(held->host, "listing holders", [&] { return held->allocator.holders(visit, context); });
  }

  static heddle_status_t* probe(const heddle_host_t*, heddle_probe_result_t* out) noexcept {
    heddle_probe_result_t result = {};
    result.verdict = HEDDLE_PROBE_AVAILABLE;
    write_struct(result, out);
    return nullptr;
  }

  static heddle_status_t* create_instance(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
    *out = nullptr;
    return guarded(host, "creating an instance", [&]() -> heddle_status_t* {
      *out = reinterpret_cast<heddle_plugin_instance_t*>(make<AllocatorInstance>(host, host));
      return nullptr;
    });
  }

  static heddle_status_t* shutdown(heddle_plugin_instance_t* handle) noexcept {
    AllocatorInstance* instance = from(handle);
    const heddle_host_t* host = instance->host;
    return guarded(host, "shutting down", [&]() -> heddle_status_t* {
      if (const uint64_t live = instance->allocators.load()) return live_allocators_status(host, kWho, live);
      unmake(host, instance);
      return nullptr;
    });
  }

  static const void* get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
    static const heddle_allocator_interface_t table = {
        sizeof(heddle_allocator_interface_t), 0, create, destroy, allocate, free, statistics, trim, holders};
    return view_of(id) == HEDDLE_ALLOCATOR_INTERFACE ? &table : nullptr;
  }
};

}  // namespace heddle::sdk

#define HEDDLE_ALLOCATOR_PLUGIN(Class)                                                                              \
  extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) noexcept { \
    return heddle::sdk::AllocatorPlugin<Class>::entry(negotiation);                                                 \
  }
#endif  // HEDDLE_SDK_ALLOCATOR_H_
