// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of the sample driver: negotiation, options, instances.
#include "device.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/options.h"

namespace sample {
namespace {

heddle_status_t* read_options(const heddle_host_t* host, Options* out) {
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "device_count", 1, 16, &out->device_count)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "memory", 1 << 20, int64_t{1} << 40, &out->memory_bytes)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "latency_us", 0, 1000000, &out->latency_us)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "host_access", &out->host_access)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "own_kernels", &out->own_kernels)) return bad;
  return sdk::read_option(host, kWho, "threads", 0, portable::kMostWorkers, &out->threads);
}

// Open the vendor's library here with dlopen, and report MISSING_DEPENDENCY if it is missing (HD-B-02). This runs in another process than
// create, or not at all, because the host keeps its verdict: nothing that it opens or stores may be needed later.
heddle_status_t* plugin_probe(const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
  return sdk::guarded(host, "probing the sample driver", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    heddle_probe_result_t result = {};
    result.verdict = HEDDLE_PROBE_AVAILABLE;
    result.device_count = options.device_count;
    sdk::write_struct(result, out);
    return nullptr;
  });
}

// Open the vendor's library here again: UNAVAILABLE, with what to install, if it is missing.
heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return sdk::guarded(host, "creating an instance of the sample driver", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    *out = sdk::make<SampleDriver>(host, host, options)->handle();
    return nullptr;
  });
}

const void* plugin_get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  return sdk::driver_interface(id);
}

}  // namespace
}  // namespace sample

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t),         HEDDLE_PLUGIN_DRIVER,        sample::sdk::string_of(sample::kId),
                                         sample::sdk::string_of("0.1.0"), sample::plugin_probe,        sample::plugin_create,
                                         heddle::sdk::shut_down,          sample::plugin_get_interface};
  return heddle::sdk::negotiate(negotiation, sample::kId, &plugin);
}
