// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.cuda: negotiation, options, the probe, instances.
#include "heddle/plugin.h"

#include <algorithm>

#include "cuda/device.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/options.h"

namespace heddle::cuda {
namespace {

constexpr const char* kId = "heddle.cuda";
constexpr const char* kWho = sdk::short_name(kId);

using sdk::guarded;
using sdk::read_option;
using sdk::status;

heddle_status_t* read_options(const heddle_host_t* host, Options* out) {
  uint64_t spin_us = out->spin_ns / 1000;
  if (heddle_status_t* bad = read_option(host, kWho, "pool_retain", 0, INT64_MAX, &out->pool_retain_bytes)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "staging", 0, int64_t{1} << 40, &out->staging_bytes)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "graphs", &out->graphs)) return bad;
  if (heddle_status_t* bad = read_option(host, kWho, "spin_us", 0, 1000000, &spin_us)) return bad;
  out->spin_ns = spin_us * 1000;
  return nullptr;
}

uint32_t verdict_of(ApiVerdict verdict) {
  switch (verdict) {
    case ApiVerdict::kLoaded:
      return HEDDLE_PROBE_AVAILABLE;
    case ApiVerdict::kNoLibrary:
      return HEDDLE_PROBE_MISSING_DEPENDENCY;
    case ApiVerdict::kTooOld:
      return HEDDLE_PROBE_INCOMPATIBLE;
    case ApiVerdict::kNoPermission:
      return HEDDLE_PROBE_NO_PERMISSION;
    default:
      return HEDDLE_PROBE_NO_DEVICE;
  }
}

void give_reason(std::string_view reason, heddle_probe_result_t* out) {
  out->reason_size = static_cast<uint32_t>(std::min(reason.size(), sizeof out->reason));
  std::memcpy(out->reason, reason.data(), out->reason_size);
}

heddle_status_t* plugin_probe(const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
  return guarded(host, "probing heddle.cuda", [&]() -> heddle_status_t* {
    heddle_probe_result_t result = {};
    const Api* api = nullptr;
    std::string reason;
    const ApiVerdict verdict = load_api(&api, &reason);
    result.verdict = verdict_of(verdict);
    if (api->driver_version) {
      const int written = std::snprintf(result.vendor_version, sizeof result.vendor_version, "CUDA %d.%d", api->driver_version / 1000,
                                        api->driver_version % 1000 / 10);
      result.vendor_version_size = static_cast<uint32_t>(std::max(written, 0));
    }
    if (verdict == ApiVerdict::kLoaded) {
      int count = 0;
      const CUresult counted = api->cuDeviceGetCount(&count);
      if (counted != CUDA_SUCCESS) return cuda_status(host, *api, code_of(counted), counted, "cuda: counting devices failed");
      result.device_count = static_cast<uint32_t>(count);
      if (count == 0) {
        result.verdict = HEDDLE_PROBE_NO_DEVICE;
        reason = "the driver shows no device; check nvidia-smi and CUDA_VISIBLE_DEVICES";
      }
    }
    give_reason(reason, &result);
    sdk::write_struct(result, out);
    return nullptr;
  });
}

heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
  *out = nullptr;
  return guarded(host, "creating an instance of heddle.cuda", [&]() -> heddle_status_t* {
    Options options;
    if (heddle_status_t* bad = read_options(host, &options)) return bad;
    const Api* api = nullptr;
    std::string reason;
    const ApiVerdict verdict = load_api(&api, &reason);
    if (verdict != ApiVerdict::kLoaded) {
      return status(host, verdict == ApiVerdict::kTooOld ? HEDDLE_STATUS_FAILED_PRECONDITION : HEDDLE_STATUS_UNAVAILABLE,
                    "cuda: creating an instance failed: %s [HD-B-02]", reason.c_str());
    }
    std::vector<Facts> devices;
    if (heddle_status_t* bad = find_devices(host, *api, &devices)) return bad;
    auto* instance = sdk::make<Instance>(host);
    instance->host = host;
    instance->api = api;
    instance->options = options;
    instance->devices = std::move(devices);
    *out = reinterpret_cast<heddle_plugin_instance_t*>(instance);
    return nullptr;
  });
}

heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* handle) noexcept {
  Instance* instance = Instance::from(handle);
  const heddle_host_t* host = instance->host;
  return guarded(host, "shutting heddle.cuda down", [&]() -> heddle_status_t* {
    if (const uint64_t open = instance->open_devices.load()) {
      return status(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "cuda: shutting down failed: %llu device%s still open; close them first [HD-L-01]", number(open),
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
  if (wanted == HEDDLE_TIMELINE_INTERFACE) return timeline_interface();
  if (wanted == HEDDLE_NATIVE_INTERFACE) return native_interface();
  if (wanted == HEDDLE_PROFILE_INTERFACE) return profile_interface();
  if (wanted == HEDDLE_BLOCKS_INTERFACE) return blocks_interface();
  return nullptr;
}

}  // namespace
}  // namespace heddle::cuda

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  using namespace heddle;
  static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t), HEDDLE_PLUGIN_DRIVER,      sdk::string_of(cuda::kId),
                                         sdk::string_of("0.1.0"), cuda::plugin_probe,        cuda::plugin_create,
                                         cuda::plugin_shutdown,   cuda::plugin_get_interface};
  return sdk::negotiate(negotiation, cuda::kId, &plugin);
}
