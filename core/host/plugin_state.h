// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The states of a plugin and the verdict of examining one. Shared by host.cpp, preflight, probe, load and heddle-probe.
#ifndef HEDDLE_CORE_HOST_PLUGIN_STATE_H_
#define HEDDLE_CORE_HOST_PLUGIN_STATE_H_

#include <cstdint>
#include <string>
#include <utility>

namespace heddle::host {

enum class PluginState : uint32_t {
  kDisabled,           // disabled by the configuration
  kUntrusted,          // strict mode refused its owner, mode or digest
  kIncompatible,       // manifest, architecture, ISA, ABI range, tables
  kMissingDependency,  // a needed library is absent
  kNoDevice,           // no device of its kind here, or no permission to use it
  kProbeFailed,        // the probe crashed, hung or was interrupted
  kAvailable,          // checked, works; not loaded into this process
  kLoaded,             // in this process, with an instance
};

inline const char* name_of(PluginState state) {
  constexpr const char* kNames[] = {"disabled",  "untrusted",    "incompatible", "missing-dependency",
                                    "no-device", "probe-failed", "available",    "loaded"};
  return kNames[static_cast<uint32_t>(state)];
}

// The state as a phrase about the plugin.
inline const char* words_of(PluginState state) {
  constexpr const char* kWords[] = {"it is disabled",        "it is not trusted", "it is incompatible", "a dependency is missing",
                                    "it has no device here", "its probe failed",  "it is available",    "it is loaded"};
  return kWords[static_cast<uint32_t>(state)];
}

// The states that a probe can find; the others depend on configuration, trust and loading.
inline bool is_finding(uint32_t state) {
  return state >= static_cast<uint32_t>(PluginState::kIncompatible) && state <= static_cast<uint32_t>(PluginState::kAvailable);
}

// Per driver.
constexpr uint32_t kMaxDevices = 4096;

// The result of examining a plugin.
struct Verdict {
  PluginState state = PluginState::kAvailable;
  std::string reason;  // empty when available
  uint32_t device_count = 0;
  std::string vendor_version;
  bool lasting = true;  // false: the cause is temporary, so the verdict is not cached

  Verdict() = default;
  Verdict(PluginState found, std::string why, uint32_t devices = 0, std::string vendor = {})
      : state(found), reason(std::move(why)), device_count(devices), vendor_version(std::move(vendor)) {}
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PLUGIN_STATE_H_
