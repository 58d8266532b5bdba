// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The router: given a module, the available devices and the preferences, it chooses a device for each slot, a program for each function and a
// variant for each executable, with the reason of every choice and every refusal.
// Called by core/submit when an instance is created. Pure: it queries devices only through the given function.
#ifndef HEDDLE_CORE_ROUTE_ROUTE_H_
#define HEDDLE_CORE_ROUTE_ROUTE_H_

#include <heddle_module/module_generated.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "heddle/driver.h"
#include "sdk/module/json.h"

namespace heddle::route {

// From heddle_device_description_t; 0: unknown.
struct DeviceLimits {
  uint32_t max_bindings = 0;
  uint32_t max_constants_bytes = 0;
  uint32_t max_workgroup_size = 0;
  uint32_t subgroup_size = 0;
  uint64_t shared_memory_bytes = 0;
};

DeviceLimits limits_of(const heddle_device_description_t& device);

struct DeviceFacts {
  std::string alias;
  std::string driver;
  std::string family;
  DeviceLimits limits = {};
};

// The devices that one slot may be bound to, best first, and the reason.
struct SlotPreference {
  std::vector<uint32_t> devices;    // indices into the facts
  std::string reason;               // "--device", "heddle.toml:12:1", "devices in order"
  std::vector<std::string> absent;  // named but missing: "gpu0: loading plugin heddle.cuda failed: ..."
};

struct ChosenCode {
  uint32_t executable = 0;
  uint32_t device = 0;  // index into Route.devices
  uint32_t variant = 0;
  std::vector<uint32_t> entries;  // entries that the chosen programs may dispatch there, in ascending order; an executable may have more
  std::string_view own_kernels = {};  // as in heddle_executable_params_t
};

struct Route {
  std::vector<uint32_t> devices;         // indices into the facts, without duplicates
  std::vector<uint32_t> device_of_slot;  // index into devices
  std::vector<uint32_t> program_of_function;
  int64_t initializer = -1;                          // index, or -1: the module has none
  std::vector<ChosenCode> code;                      // the code that the chosen programs need
  std::function<void(module::JsonWriter&)> explain;  // writes the members of an object of JSON; reads the module
};

// How well a device runs code of a format and target: 0 means not at all. Called only for devices that are tried. A variant that exceeds the
// device's limits is skipped regardless of its rank (decision 0011).
using Rank = std::function<Result<uint32_t>(uint32_t device, std::string_view format, std::string_view target)>;

// A variant that the device's driver refused to load.
struct RefusedCode {
  uint32_t executable = 0;
  uint32_t device = 0;  // index into the facts
  uint32_t variant = 0;
  std::string reason;
};

// Takes one preference per slot of the module. UNAVAILABLE tells for each slot why each device was refused; NOT_FOUND if there was none to try.
Result<Route> choose(const module_format::Module& module, const std::vector<DeviceFacts>& facts,
                     const std::vector<SlotPreference>& preferences, const Rank& rank, const std::vector<RefusedCode>& refused = {});

// A resource of which the variant's entries need more than the device has; empty if all fit.
std::string why_too_large(const module_format::Executable& executable, const module_format::Variant& variant, const DeviceLimits& limits);

// Families that some program of the module runs on, in order of appearance.
std::vector<std::string> families_of(const module_format::Module& module);

}  // namespace heddle::route

#endif  // HEDDLE_CORE_ROUTE_ROUTE_H_
