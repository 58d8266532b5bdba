// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.pool and its interface.
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/status.h"
#include "pool.h"

namespace heddle::pool {
namespace {

using sdk::guarded;
using sdk::status;

Instance* from(heddle_plugin_instance_t* handle) noexcept {
  return reinterpret_cast<Instance*>(handle);
}
Pool* from(heddle_allocator_t* handle) noexcept {
  return reinterpret_cast<Pool*>(handle);
}

heddle_status_t* read_option(const heddle_host_t* host, const heddle_option_t& option, uint64_t* out) {
  const std::string_view name = sdk::view_of(option.name);
  if (option.kind != HEDDLE_OPTION_INT || option.int_value < 0) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "pool: reading option %.*s failed: a number of bytes is expected",
                  static_cast<int>(name.size()), name.data());
  }
  *out = static_cast<uint64_t>(option.int_value);
  return nullptr;
}

heddle_status_t* pool_create(heddle_plugin_instance_t* handle, const heddle_allocator_params_t* in, heddle_allocator_t** out) noexcept {
  *out = nullptr;
  Instance* instance = from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "creating a pool", [&]() -> heddle_status_t* {
    heddle_allocator_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(host, "heddle_allocator_params_t", bad_byte);
    if (!params.provider) return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "pool: creating a pool failed: no provider");
    uint64_t initial = 0, limit = 0;
    for (uint32_t i = 0; i < params.option_count; ++i) {
      heddle_option_t option;
      const auto* at = reinterpret_cast<const heddle_option_t*>(reinterpret_cast<const char*>(params.options) + i * params.option_stride);
      if (!sdk::read_struct(at, &option, &bad_byte)) return sdk::tail_status(host, "heddle_option_t", bad_byte);
      const std::string_view name = sdk::view_of(option.name);
      heddle_status_t* bad = name == "pool_initial" ? read_option(host, option, &initial)
                             : name == "pool_limit" ? read_option(host, option, &limit)
                                                    : nullptr;  // others are the host's
      if (bad) return bad;
    }
    if (limit && initial > limit) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "pool: creating a pool failed: pool_initial %llu is more than pool_limit %llu",
                    static_cast<unsigned long long>(initial), static_cast<unsigned long long>(limit));
    }
    Pool* pool = sdk::make<Pool>(host, instance, *params.provider, std::string(sdk::view_of(params.name)), limit);
    if (heddle_status_t* bad = pool->reserve(initial)) {
      sdk::unmake(host, pool);
      return bad;
    }
    *out = reinterpret_cast<heddle_allocator_t*>(pool);
    return nullptr;
  });
}

heddle_status_t* pool_destroy(heddle_allocator_t* handle) noexcept {
  if (!handle) return nullptr;
  Pool* pool = from(handle);
  const heddle_host_t* host = pool->host();
  return guarded(host, "destroying a pool", [&]() -> heddle_status_t* {
    if (const uint64_t live = pool->live_blocks()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "pool: destroying '%s' failed: %llu block%s (%llu bytes) live; free them first [HD-L-01]", pool->name().c_str(),
                    static_cast<unsigned long long>(live), live == 1 ? "" : "s",
                    static_cast<unsigned long long>(pool->statistics().allocated));
    }
    sdk::unmake(host, pool);
    return nullptr;
  });
}

heddle_status_t* pool_allocate(heddle_allocator_t* handle, const heddle_block_params_t* in, heddle_block_t* out, heddle_point_t* out_waits,
                               uint32_t* out_wait_count) noexcept {
  *out = {};
  *out_wait_count = 0;
  Pool* pool = from(handle);
  return guarded(pool->host(), "allocating from a pool", [&]() -> heddle_status_t* {
    if (in->struct_size == sizeof *in) [[likely]]
      return pool->allocate(*in, out, out_waits, out_wait_count);
    heddle_block_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(pool->host(), "heddle_block_params_t", bad_byte);
    return pool->allocate(params, out, out_waits, out_wait_count);
  });
}

void pool_free(heddle_allocator_t* handle, const heddle_block_t* block, const heddle_point_t* points, uint32_t count) noexcept {
  if (!block || !block->token) return;
  Pool* pool = from(handle);
  sdk::guarded_release(pool->host(), [&] { pool->free(*block, points, count); });
}

heddle_status_t* pool_statistics(heddle_allocator_t* handle, heddle_allocator_statistics_t* out) noexcept {
  sdk::write_struct(from(handle)->statistics(), out);
  return nullptr;
}

heddle_status_t* pool_trim(heddle_allocator_t* handle, uint64_t keep_bytes) noexcept {
  Pool* pool = from(handle);
  return guarded(pool->host(), "trimming a pool", [&]() -> heddle_status_t* {
    pool->trim(keep_bytes);
    return nullptr;
  });
}

heddle_status_t* plugin_probe(const heddle_host_t*, heddle_probe_result_t* out) noexcept {
  heddle_probe_result_t result = {};
  result.verdict = HEDDLE_PROBE_AVAILABLE;
  sdk::write_struct(result, out);
  return nullptr;
}

heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return guarded(host, "creating an instance of heddle.pool", [&]() -> heddle_status_t* {
    *out = reinterpret_cast<heddle_plugin_instance_t*>(sdk::make<Instance>(host, host));
    return nullptr;
  });
}

heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "shutting heddle.pool down", [&]() -> heddle_status_t* {
    if (const uint64_t live = instance->pools.load()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION, "pool: shutting down failed: %llu pool%s live; destroy them first [HD-L-01]",
                    static_cast<unsigned long long>(live), live == 1 ? " is" : "s are");
    }
    sdk::unmake(host, instance);
    return nullptr;
  });
}

const void* plugin_get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  static const heddle_allocator_interface_t table = {
      sizeof(heddle_allocator_interface_t), 0, pool_create, pool_destroy, pool_allocate, pool_free, pool_statistics, pool_trim};
  return sdk::view_of(id) == HEDDLE_ALLOCATOR_INTERFACE ? &table : nullptr;
}

}  // namespace
}  // namespace heddle::pool

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {
      sizeof(heddle_plugin_t), HEDDLE_PLUGIN_ALLOCATOR, {"heddle.pool", 11},   {"0.1.0", 5},
      pool::plugin_probe,      pool::plugin_create,     pool::plugin_shutdown, pool::plugin_get_interface};
  return sdk::negotiate(negotiation, "heddle.pool", &plugin);
}
