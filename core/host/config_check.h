// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a configuration against the manifests that were found: whether ids exist, and whether options match their declared types. Loads nothing.
// Used by host.cpp.
#ifndef HEDDLE_CORE_HOST_CONFIG_CHECK_H_
#define HEDDLE_CORE_HOST_CONFIG_CHECK_H_

#include <map>
#include <string>
#include <vector>

#include "core/host/config_read.h"
#include "core/host/discovery.h"

namespace heddle::host {

// The values that the configuration sets, typed.
struct CheckedOptions {
  std::map<std::string, std::vector<OptionValue>> by_driver;     // plugin id
  std::map<std::string, std::vector<OptionValue>> by_allocator;  // path of its table
};

constexpr char kDefaultAllocator[] = "heddle.pool";

// Adds its findings to the diagnostics of `read`. A plugin that is not installed is only a warning: one configuration may serve many machines.
CheckedOptions check_options(ConfigRead* read, const std::vector<FoundPlugin>& plugins);

// The manifest's defaults, overridden by `values`. Contains every declared option once.
std::vector<OptionValue> with_defaults(const Manifest& manifest, const std::vector<OptionValue>& values);

// The values and the default of every other key, sorted by table. A default that has no form in TOML is in parentheses.
std::vector<ConfigValue> with_default_values(std::vector<ConfigValue> values, const std::vector<DeviceConfig>& devices);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_CHECK_H_
