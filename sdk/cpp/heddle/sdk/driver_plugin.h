// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin from a class that derives from Driver (driver.h): entry, negotiation, probe and instance. For plugins that are a driver and nothing else.
//
// The class T has
//   explicit T(const heddle_host_t*)
//   heddle_status_t* start(heddle::sdk::Absence* out)     called once, before all others: reads the options, opens the vendor's library, finds devices
// An instance is made for each host, also in the process that only probes. A start that fills in the absence is no failure: the plugin is then not
// used, and the user sees why. It may throw. In one source file: HEDDLE_DRIVER_PLUGIN("com.acme.fabric", "1.0.0", acme::Driver)
#ifndef HEDDLE_SDK_DRIVER_PLUGIN_H_
#define HEDDLE_SDK_DRIVER_PLUGIN_H_

#include <string>

#include "heddle/sdk/driver.h"
#include "heddle/sdk/negotiate.h"

namespace heddle::sdk {

// Why a driver has no device on this machine.
struct Absence {
  uint32_t verdict = HEDDLE_PROBE_AVAILABLE;
  std::string reason;  // what is missing, and what to install
};

// The plugin around the class. Id has `id` and `version`.
template <class Id, class T>
class DriverPlugin {
 public:
  static const heddle_plugin_t* entry(heddle_negotiation_t* negotiation, uint32_t min_minor, uint32_t max_minor) noexcept {
    static const heddle_plugin_t plugin = {
        sizeof(heddle_plugin_t), HEDDLE_PLUGIN_DRIVER, string_of(Id::id), string_of(Id::version), probe, create, shut_down, get_interface};
    return negotiate(negotiation, Id::id, &plugin, min_minor, max_minor);
  }

 private:
  static heddle_status_t* probe(const heddle_host_t* host, heddle_probe_result_t* out) noexcept {
    return guarded(host, "probing a driver", [&]() -> heddle_status_t* {
      const Made<T> driver(make<T>(host, host), {host});
      Absence absence;
      if (heddle_status_t* failed = driver->start(&absence)) return failed;
      heddle_probe_result_t result = {};
      result.verdict = absence.verdict;
      if (absence.verdict == HEDDLE_PROBE_AVAILABLE) result.device_count = driver->device_count();
      result.reason_size = static_cast<uint32_t>(absence.reason.copy(result.reason, sizeof result.reason));
      write_struct(result, out);
      return nullptr;
    });
  }

  static heddle_status_t* create(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
    *out = nullptr;
    return guarded(host, "creating an instance of a driver", [&]() -> heddle_status_t* {
      Made<T> driver(make<T>(host, host), {host});
      Absence absence;
      if (heddle_status_t* failed = driver->start(&absence)) return failed;
      if (absence.verdict != HEDDLE_PROBE_AVAILABLE)
        return status(host, HEDDLE_STATUS_UNAVAILABLE, "%s: creating an instance failed: %s [HD-B-02]", driver->who(),
                      absence.reason.c_str());
      *out = driver.release()->handle();
      return nullptr;
    });
  }

  static const void* get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept { return driver_interface(id); }
};

}  // namespace heddle::sdk

// After T, if they are not those of the SDK: the least and the greatest minor version of the ABI that the plugin supports.
#define HEDDLE_DRIVER_PLUGIN(Id, Version, T, ...)                                                                   \
  namespace {                                                                                                       \
  struct HeddleDriverId {                                                                                           \
    static constexpr const char* id = Id;                                                                           \
    static constexpr const char* version = Version;                                                                 \
  };                                                                                                                \
  constexpr uint32_t kHeddleMinors[] = {__VA_ARGS__ __VA_OPT__(, ) HEDDLE_ABI_MIN_MINOR, HEDDLE_ABI_MINOR};         \
  }                                                                                                                 \
  extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) noexcept { \
    return heddle::sdk::DriverPlugin<HeddleDriverId, T>::entry(negotiation, kHeddleMinors[0], kHeddleMinors[1]);    \
  }
#endif  // HEDDLE_SDK_DRIVER_PLUGIN_H_
