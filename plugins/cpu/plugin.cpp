// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.cpu: negotiation, options, instances.
#include "heddle/plugin.h"

#include <algorithm>

#include "cpu/device.h"
#include "cpu/topology.h"
#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/negotiate.h"

namespace heddle::cpu {
namespace {

using sdk::guarded;
using sdk::status;

// The option of that name; false if the host does not have it, so that the default holds.
bool read_option(const heddle_host_t* host, const char* name, uint32_t kind, heddle_option_t* out) noexcept {
  *out = {};
  out->struct_size = sizeof *out;
  if (heddle_status_t* missing = host->option(host->self, sdk::string_of(name), out)) {
    host->status_free(host->self, missing);
    return false;
  }
  return out->kind == kind;
}

heddle_status_t* read_options(const heddle_host_t* host, Options* out) {
  heddle_option_t option;
  auto bounded = [&](const char* name, int64_t least, int64_t most, auto* value, int64_t scale) -> heddle_status_t* {
    if (!read_option(host, name, HEDDLE_OPTION_INT, &option)) return nullptr;
    if (option.int_value < least || option.int_value > most) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: reading option %s failed: %lld is not in %lld to %lld", name,
                    static_cast<long long>(option.int_value), static_cast<long long>(least), static_cast<long long>(most));
    }
    *value = static_cast<std::remove_reference_t<decltype(*value)>>(option.int_value * scale);
    return nullptr;
  };
  if (heddle_status_t* bad = bounded("device_count", 1, 256, &out->device_count, 1)) return bad;
  if (heddle_status_t* bad = bounded("threads", 0, 1024, &out->threads, 1)) return bad;
  if (heddle_status_t* bad = bounded("spin_us", 0, 1000000, &out->spin_ns, 1000)) return bad;
  if (read_option(host, "pin", HEDDLE_OPTION_BOOL, &option)) out->pin = option.int_value != 0;
  if (read_option(host, "gdb_symbols", HEDDLE_OPTION_BOOL, &option)) out->gdb_symbols = option.int_value != 0;
  if (read_option(host, "perf_map", HEDDLE_OPTION_BOOL, &option)) out->perf_map = option.int_value != 0;
  out->level = x86_64_level();
  if (read_option(host, "max_level", HEDDLE_OPTION_STRING, &option)) {
    const std::string_view level = sdk::view_of(option.string_value);
    if (level == "v3") {
      out->level = std::min(out->level, 3u);
    } else if (!level.empty() && level != "v4") {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: reading option max_level failed: '%.*s' is neither \"v3\" nor \"v4\"",
                    static_cast<int>(std::min<size_t>(level.size(), 100)), level.data());
    }
  }
  return nullptr;
}

// Cuts the processors into disjoint groups; with fewer processors than devices, devices share.
std::vector<std::vector<uint32_t>> split(const std::vector<uint32_t>& cpus, uint32_t count) {
  std::vector<std::vector<uint32_t>> groups(count);
  const size_t all = cpus.size();
  for (uint32_t i = 0; i < count; ++i) {
    if (all < count) {
      groups[i].push_back(cpus[i % all]);
    } else {
      groups[i].assign(cpus.begin() + static_cast<long>(all * i / count), cpus.begin() + static_cast<long>(all * (i + 1) / count));
    }
  }
  return groups;
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
    instance->device_cpus = split(one_per_core(allowed_cpus()), options.device_count);
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
  if (wanted == HEDDLE_PROFILE_INTERFACE) return profile_interface();
  if (wanted == HEDDLE_TIMELINE_INTERFACE) return sdk::host_timeline_interface();
  return nullptr;
}

}  // namespace
}  // namespace heddle::cpu

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t), HEDDLE_PLUGIN_DRIVER, {"heddle.cpu", 10},   {"0.1.0", 5},
                                         cpu::plugin_probe,       cpu::plugin_create,   cpu::plugin_shutdown, cpu::plugin_get_interface};
  return sdk::negotiate(negotiation, "heddle.cpu", &plugin);
}
