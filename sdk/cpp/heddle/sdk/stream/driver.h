// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of a plugin over streams. A vendor's plugin.cpp defines one Plugin and the exported function, which calls enter().
#ifndef HEDDLE_SDK_STREAM_DRIVER_H_
#define HEDDLE_SDK_STREAM_DRIVER_H_

#include "heddle/plugin.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/stream/device.h"

namespace heddle::sdk::stream {

// The result of opening a vendor's library.
struct Found {
  uint32_t verdict = HEDDLE_PROBE_NO_DEVICE;  // HEDDLE_PROBE_*
  std::string version;                        // "CUDA 12.4"; empty if it is unknown
  std::string reason;                         // why it is not available, and what to do
};

// A vendor's plugin. Both functions with a host are called after find() has found the library available.
struct Plugin {
  Vendor vendor;
  Found (*find)();  // opens the library, once per process
  heddle_status_t* (*count)(const heddle_host_t* host, uint32_t* out);
  heddle_status_t* (*create)(const heddle_host_t* host, Instance** out);  // made with sdk::make
  const void* (*extension)(std::string_view id);                          // tables beyond those of every driver over streams; NULL: none
  std::span<const BlockCode> (*block_codes)() = nullptr;                  // kernels for heddle.blocks/1 (blocks.h); NULL: none
};

heddle_status_t* probe(const Plugin& plugin, const heddle_host_t* host, heddle_probe_result_t* out) noexcept;
heddle_status_t* create(const Plugin& plugin, const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept;
heddle_status_t* shut_down(heddle_plugin_instance_t* instance) noexcept;
const void* get_interface(const Plugin& plugin, heddle_string_t id) noexcept;

// The plugin's entry.
template <const Plugin& kPlugin>
const heddle_plugin_t* enter(heddle_negotiation_t* negotiation) noexcept {
  static const heddle_plugin_t table = {
      sizeof(heddle_plugin_t),
      HEDDLE_PLUGIN_DRIVER,
      string_of(kPlugin.vendor.id),
      string_of(kPlugin.vendor.version),
      [](const heddle_host_t* host, heddle_probe_result_t* out) noexcept { return probe(kPlugin, host, out); },
      [](const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept { return create(kPlugin, host, out); },
      shut_down,
      [](heddle_plugin_instance_t*, heddle_string_t id) noexcept { return get_interface(kPlugin, id); }};
  return negotiate(negotiation, kPlugin.vendor.id, &table);
}

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_DRIVER_H_
