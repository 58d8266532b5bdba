// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.cpu: negotiation, options, instances.
#include "heddle/plugin.h"

#include <algorithm>

#include "cpu/device.h"
#include "cpu/topology.h"
#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/options.h"

namespace heddle::cpu {
namespace {

constexpr const char* kId = "heddle.cpu";
constexpr const char* kWho = sdk::short_name(kId);

using sdk::guarded;
using sdk::read_option;
using sdk::status;

heddle_status_t* read_options(const heddle_host_t* host, Options* out) {
  uint64_t spin_us = out->spin_ns / 1000;
  std::string level;
  if (heddle_status_t* bad = read_option(host, kWho, "device_count", 1, 256, &out->device_count)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "threads", 0, 1024, &out->threads)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "spin_us", 0, 1000000, &spin_us)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "pin", &out->pin)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "share", &out->share)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "gdb_symbols", &out->gdb_symbols)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "perf_map", &out->perf_map)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "max_level", &level)) return bad;
  out->spin_ns = spin_us * 1000;
  out->level = x86_64_level();
  if (level == "v3") {
    out->level = std::min(out->level, 3u);
  } else if (!level.empty() && level != "v4") {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: reading option max_level failed: '%.100s' is neither \"v3\" nor \"v4\"",
                  level.c_str());
  }
  return nullptr;
}

heddle_status_t* plugin_probe(const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
  return guarded(host, "probing heddle.cpu", [&]() -> heddle_status_t* {
    heddle_probe_result_t result = {};
    result.verdict = HEDDLE_PROBE_AVAILABLE;
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    result.device_count = options.device_count;
    if (options.level < 3) {
      constexpr std::string_view reason = "the processor lacks x86-64-v3 (AVX2, FMA), which compiled code needs";
      std::memcpy(result.reason, reason.data(), reason.size());
      result.reason_size = static_cast<uint32_t>(reason.size());
      result.verdict = HEDDLE_PROBE_INCOMPATIBLE;
    }
    sdk::write_struct(result, out);
    return nullptr;
  });
}

heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return guarded(host, "creating an instance of heddle.cpu", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    auto* instance = sdk::make<Instance>(host);
    instance->host = host;
    instance->options = options;
    instance->name = cpu_name();
    instance->limits = group_limits();
    instance->nodes = numa_nodes();
    instance->device_cpus = split(by_numa_node(one_per_core(allowed_cpus()), instance->nodes), options.device_count);
    *out = reinterpret_cast<heddle_plugin_instance_t*>(instance);
    return nullptr;
  });
}

heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = Instance::from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "shutting heddle.cpu down", [&]() -> heddle_status_t* {
    if (const uint64_t open = instance->open_devices.load()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "cpu: shutting down failed: %llu device%s still open; close them first [HD-L-01]", number(open),
                    open == 1 ? " is" : "s are");
    }
    sdk::unmake(host, instance);
    return nullptr;
  });
}

const void* plugin_get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  const std::string_view wanted = sdk::view_of(id);
  if (wanted == HEDDLE_DEVICE_INTERFACE) return device_interface();
  if (wanted == HEDDLE_BUFFER_INTERFACE) return buffer_interface();
  if (wanted == HEDDLE_TRANSFER_INTERFACE) return transfer_interface();
  if (wanted == HEDDLE_PARAM_IO_INTERFACE) return param_io_interface();
  if (wanted == HEDDLE_DISPATCH_INTERFACE) return dispatch_interface();
  if (wanted == HEDDLE_NATIVE_INTERFACE) return native_interface();
  if (wanted == HEDDLE_PROFILE_INTERFACE) return profile_interface();
  if (wanted == HEDDLE_TIMELINE_INTERFACE) return sdk::host_timeline_interface();
  return nullptr;
}

}  // namespace
}  // namespace heddle::cpu

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t), HEDDLE_PLUGIN_DRIVER,     sdk::string_of(cpu::kId),
                                         sdk::string_of("0.1.0"), cpu::plugin_probe,        cpu::plugin_create,
                                         cpu::plugin_shutdown,    cpu::plugin_get_interface};
  return sdk::negotiate(negotiation, cpu::kId, &plugin);
}
