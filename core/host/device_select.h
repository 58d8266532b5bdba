// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resolves [device.*] and [[link]] of a configuration to devices that drivers describe. Used by host_devices.cpp; it loads and opens nothing.
#ifndef HEDDLE_CORE_HOST_DEVICE_SELECT_H_
#define HEDDLE_CORE_HOST_DEVICE_SELECT_H_

#include <string>
#include <vector>

#include "core/host/host.h"

namespace heddle::host {

// The device that the table selects among these devices of one driver, under its alias; NULL, with E207 and the existing devices in *out_wrong.
const DeviceInfo* select_device(const DeviceConfig& config, const std::vector<DeviceInfo>& all, std::string* out_wrong);

// A warning for a device that is selected by ordinal although it has a stable name. Empty if there is none.
std::string why_not_by_ordinal(const DeviceConfig& config, const DeviceInfo& device);

// A warning if a link is not of the kind that its table states. Empty if it is, or if its kind is unknown.
std::string why_not_linked(const LinkConfig& link, const std::vector<DeviceInfo>& devices);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DEVICE_SELECT_H_
