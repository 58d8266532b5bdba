// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of the driver: negotiation, options, instances.
#include "device.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/options.h"

namespace opencl {
namespace {

heddle_status_t* read_options(const heddle_host_t* host, Options* out) {
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "platform", &out->platform)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "memory", 0, int64_t{1} << 50, &out->memory_bytes)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host, kWho, "translate", &out->translate)) return bad;
  return sdk::read_option(host, kWho, "threads", 0, portable::kMostWorkers, &out->threads);
}

heddle_status_t* probe(const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
  return sdk::guarded(host, "probing for OpenCL", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    heddle_probe_result_t result = {};
    std::string why;
    if (const Functions* cl = open(&why)) {
      result.device_count = static_cast<uint32_t>(find_devices(*cl, options.platform, &why).size());
      result.verdict = result.device_count ? HEDDLE_PROBE_AVAILABLE : HEDDLE_PROBE_NO_DEVICE;
    } else {
      result.verdict = HEDDLE_PROBE_MISSING_DEPENDENCY;
    }
    result.reason_size = static_cast<uint32_t>(why.copy(result.reason, sizeof result.reason));
    sdk::write_struct(result, out);
    return nullptr;
  });
}

heddle_status_t* create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return sdk::guarded(host, "creating an instance of the driver for OpenCL", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    std::string why;
    const Functions* cl = open(&why);
    std::vector<Found> found;
    if (cl) found = find_devices(*cl, options.platform, &why);
    if (found.empty())
      return sdk::status(host, HEDDLE_STATUS_UNAVAILABLE, "%s: creating an instance failed: %s [HD-B-02]", kWho, why.c_str());
    *out = sdk::make<Driver>(host, host, *cl, std::move(found), std::move(options))->handle();
    return nullptr;
  });
}

const void* get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
  return sdk::driver_interface(id);
}

}  // namespace
}  // namespace opencl

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using heddle::sdk::string_of;
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t), HEDDLE_PLUGIN_DRIVER, string_of(opencl::kId), string_of("0.1.0"),
                                         opencl::probe,           opencl::create,       heddle::sdk::shut_down, opencl::get_interface};
  return heddle::sdk::negotiate(negotiation, opencl::kId, &plugin);
}
