// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of a plugin over streams: options, the probe, instances, the tables.
#include "heddle/sdk/stream/driver.h"

#include <algorithm>
#include <cstdio>

#include "heddle/sdk/options.h"
#include "heddle/sdk/stream/blocks.h"

namespace heddle::sdk::stream {
namespace {

// sdk::guarded for what is done with a plugin: "probing heddle.cuda".
template <class F>
heddle_status_t* guarded_for(const heddle_host_t* host, const Vendor& vendor, const char* before, const char* after,
                             F&& function) noexcept {
  return sdk::guarded(host, vendor.id, [&]() -> heddle_status_t* {
    try {
      return function();
    } catch (...) {
      char what[160];
      std::snprintf(what, sizeof what, "%s%s%s", before, vendor.id, after);
      return sdk::guarded(host, what, []() -> heddle_status_t* { throw; });
    }
  });
}

uint32_t copy_text(std::string_view text, char* out, size_t capacity) noexcept {
  const size_t size = std::min(text.size(), capacity);
  std::memcpy(out, text.data(), size);
  return static_cast<uint32_t>(size);
}

heddle_status_t* read_options(const heddle_host_t* host, const char* who, Options* out) {
  uint64_t spin_us = out->spin_ns / 1000;
  if (heddle_status_t* bad = read_option(host, who, "pool_retain", 0, INT64_MAX, &out->pool_retain_bytes)) return bad;
  if (heddle_status_t* bad = read_option(host, who, "staging", 0, int64_t{1} << 40, &out->staging_bytes)) return bad;
  if (heddle_status_t* bad = read_option(host, who, "graphs", &out->graphs)) return bad;
  if (heddle_status_t* bad = read_option(host, who, "spin_us", 0, 1000000, &spin_us)) return bad;
  out->spin_ns = spin_us * 1000;
  return nullptr;
}

}  // namespace

heddle_status_t* probe(const Plugin& plugin, const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
  return guarded_for(host, plugin.vendor, "probing ", "", [&]() -> heddle_status_t* {
    Found found = plugin.find();
    heddle_probe_result_t result = {};
    if (found.verdict == HEDDLE_PROBE_AVAILABLE) {
      if (heddle_status_t* bad = plugin.count(host, &result.device_count)) return bad;
      if (result.device_count == 0) {
        found.verdict = HEDDLE_PROBE_NO_DEVICE;
        found.reason = std::string("the driver shows no device; ") + plugin.vendor.look;
      }
    }
    result.verdict = found.verdict;
    result.vendor_version_size = copy_text(found.version, result.vendor_version, sizeof result.vendor_version);
    result.reason_size = copy_text(found.reason, result.reason, sizeof result.reason);
    write_struct(result, out);
    return nullptr;
  });
}

heddle_status_t* create(const Plugin& plugin, const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return guarded_for(host, plugin.vendor, "creating an instance of ", "", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, plugin.vendor.who, &options)) return bad;
    const Found found = plugin.find();
    if (found.verdict != HEDDLE_PROBE_AVAILABLE) {
      const bool is_old = found.verdict == HEDDLE_PROBE_INCOMPATIBLE;
      return sdk::status(host, is_old ? HEDDLE_STATUS_FAILED_PRECONDITION : HEDDLE_STATUS_UNAVAILABLE,
                         "%s: creating an instance failed: %s [HD-B-02]", plugin.vendor.who, found.reason.c_str());
    }
    Instance* instance = nullptr;
    if (heddle_status_t* bad = plugin.create(host, &instance)) return bad;
    instance->options = options;
    if (plugin.block_codes) instance->block_codes = plugin.block_codes();
    *out = instance->handle();
    return nullptr;
  });
}

heddle_status_t* shut_down(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = Instance::from(handle);
  const heddle_host_t* host = instance->host;
  return guarded_for(host, instance->vendor, "shutting ", " down", [&]() -> heddle_status_t* {
    if (const uint64_t open = instance->open_devices.load()) {
      return status(instance, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "shutting down failed: %llu device%s still open; close them first [HD-L-01]", number(open),
                    open == 1 ? " is" : "s are");
    }
    unmake(host, instance);
    return nullptr;
  });
}

const void* get_interface(const Plugin& plugin, heddle_string_t id) noexcept {
  const std::string_view wanted = view_of(id);
  if (wanted == HEDDLE_DEVICE_INTERFACE) return device_interface();
  if (wanted == HEDDLE_BUFFER_INTERFACE) return buffer_interface();
  if (wanted == HEDDLE_TRANSFER_INTERFACE) return transfer_interface();
  if (wanted == HEDDLE_PARAM_IO_INTERFACE) return param_io_interface();
  if (wanted == HEDDLE_DISPATCH_INTERFACE) return dispatch_interface();
  if (wanted == HEDDLE_TIMELINE_INTERFACE) return timeline_interface();
  if (wanted == HEDDLE_NATIVE_INTERFACE) return native_interface();
  if (wanted == HEDDLE_PROFILE_INTERFACE) return profile_interface();
  if (wanted == HEDDLE_BLOCKS_INTERFACE && plugin.block_codes && !plugin.block_codes().empty()) return blocks_interface();
  return plugin.extension ? plugin.extension(wanted) : nullptr;
}

}  // namespace heddle::sdk::stream
