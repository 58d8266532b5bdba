// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of the sample allocator and its table. Replace the id here and in the manifest by your own, in reverse DNS.
#include <atomic>

#include "arena.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/status.h"

namespace sample {
namespace {

namespace sdk = heddle::sdk;

struct Instance {
  explicit Instance(const heddle_host_t* its_host) : host(its_host) {}
  const heddle_host_t* host;
  std::atomic<uint64_t> allocators{0};
};

struct Allocator {
  Allocator(Instance* its_instance, const heddle_provider_t& provider, std::string name, uint64_t limit)
      : instance(its_instance), arena(its_instance->host, provider, std::move(name), limit) {}
  static Allocator* from(heddle_allocator_t* handle) { return reinterpret_cast<Allocator*>(handle); }
  Instance* instance;
  Arena arena;
};

Instance* from(heddle_plugin_instance_t* handle) {
  return reinterpret_cast<Instance*>(handle);
}

heddle_status_t* allocator_create(heddle_plugin_instance_t* handle, const heddle_allocator_params_t* in,
                                  heddle_allocator_t** out) noexcept {
  *out = nullptr;
  Instance* instance = from(handle);
  const heddle_host_t* host = instance->host;
  return sdk::guarded(host, "creating an allocator", [&]() -> heddle_status_t* {
    heddle_allocator_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(host, "heddle_allocator_params_t", bad_byte);
    if (!params.provider) return sdk::status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "arena: creating an allocator failed: no provider");
    uint64_t limit = 0;
    for (uint32_t i = 0; i < params.option_count; ++i) {
      heddle_option_t option;
      const auto* at = reinterpret_cast<const heddle_option_t*>(reinterpret_cast<const char*>(params.options) + i * params.option_stride);
      if (!sdk::read_struct(at, &option, &bad_byte)) return sdk::tail_status(host, "heddle_option_t", bad_byte);
      if (sdk::view_of(option.name) != "pool_limit") continue;  // others are the host's
      if (option.kind != HEDDLE_OPTION_INT || option.int_value < 0) {
        return sdk::status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "arena: reading option pool_limit failed: a number of bytes is expected");
      }
      limit = static_cast<uint64_t>(option.int_value);
    }
    auto* made = sdk::make<Allocator>(host, instance, *params.provider, std::string(sdk::view_of(params.name)), limit);
    instance->allocators.fetch_add(1);
    *out = reinterpret_cast<heddle_allocator_t*>(made);
    return nullptr;
  });
}

heddle_status_t* allocator_destroy(heddle_allocator_t* handle) noexcept {
  if (!handle) return nullptr;
  Allocator* allocator = Allocator::from(handle);
  Instance* instance = allocator->instance;
  return sdk::guarded(instance->host, "destroying an allocator", [&]() -> heddle_status_t* {
    if (const uint64_t live = allocator->arena.live_blocks()) {
      return sdk::status(instance->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                         "arena: destroying '%s' failed: %llu blocks live; free them first [HD-L-01]", allocator->arena.name().c_str(),
                         static_cast<unsigned long long>(live));
    }
    sdk::unmake(instance->host, allocator);
    instance->allocators.fetch_sub(1);
    return nullptr;
  });
}

heddle_status_t* allocator_allocate(heddle_allocator_t* handle, const heddle_block_params_t* in, heddle_block_t* out, heddle_point_t*,
                                    uint32_t* out_wait_count) noexcept {
  *out = {};
  *out_wait_count = 0;
  Allocator* allocator = Allocator::from(handle);
  const heddle_host_t* host = allocator->instance->host;
  return sdk::guarded(host, "allocating a block", [&]() -> heddle_status_t* {
    heddle_block_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(host, "heddle_block_params_t", bad_byte);
    if (params.alignment_bytes & (params.alignment_bytes - 1)) {
      return sdk::status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "arena: allocating %llu bytes failed: alignment %llu is no power of two",
                         static_cast<unsigned long long>(params.size_bytes), static_cast<unsigned long long>(params.alignment_bytes));
    }
    return allocator->arena.allocate(params.size_bytes, params.alignment_bytes, out);
  });
}

void allocator_free(heddle_allocator_t* handle, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) noexcept {
  if (!block || !block->token) return;
  Allocator* allocator = Allocator::from(handle);
  sdk::guarded_release(allocator->instance->host, [&] { allocator->arena.free(*block, points, count); });
}

heddle_status_t* allocator_statistics(heddle_allocator_t* handle, heddle_allocator_statistics_t* out) noexcept {
  sdk::write_struct(Allocator::from(handle)->arena.statistics(), out);
  return nullptr;
}

heddle_status_t* allocator_trim(heddle_allocator_t* handle, uint64_t keep_bytes) noexcept {
  Allocator* allocator = Allocator::from(handle);
  return sdk::guarded(allocator->instance->host, "trimming", [&]() -> heddle_status_t* {
    allocator->arena.trim(keep_bytes);
    return nullptr;
  });
}

heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return sdk::guarded(host, "creating an instance of the sample allocator", [&]() -> heddle_status_t* {
    *out = reinterpret_cast<heddle_plugin_instance_t*>(sdk::make<Instance>(host, host));
    return nullptr;
  });
}

heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = from(handle);
  const heddle_host_t* host = instance->host;
  return sdk::guarded(host, "shutting down", [&]() -> heddle_status_t* {
    if (const uint64_t live = instance->allocators.load()) {
      return sdk::status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                         "arena: shutting down failed: %llu allocators live; destroy them first [HD-L-01]",
                         static_cast<unsigned long long>(live));
    }
    sdk::unmake(host, instance);
    return nullptr;
  });
}

const void* plugin_get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  static const heddle_allocator_interface_t table = {sizeof(heddle_allocator_interface_t),
                                                     0,
                                                     allocator_create,
                                                     allocator_destroy,
                                                     allocator_allocate,
                                                     allocator_free,
                                                     allocator_statistics,
                                                     allocator_trim};
  return sdk::view_of(id) == HEDDLE_ALLOCATOR_INTERFACE ? &table : nullptr;
}

}  // namespace
}  // namespace sample

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  // An allocator finds nothing out before it is made, so it has no probe.
  static const heddle_plugin_t plugin = {
      sizeof(heddle_plugin_t), HEDDLE_PLUGIN_ALLOCATOR, {"org.example.arena", 17},   {"0.1.0", 5}, nullptr,
      sample::plugin_create,   sample::plugin_shutdown, sample::plugin_get_interface};
  return heddle::sdk::negotiate(negotiation, "org.example.arena", &plugin);
}
