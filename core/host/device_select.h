// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What [device.*] and [[link]] of a configuration mean for the devices that drivers describe. Used by host_devices.cpp; it loads and opens nothing.
#ifndef HEDDLE_CORE_HOST_DEVICE_SELECT_H_
#define HEDDLE_CORE_HOST_DEVICE_SELECT_H_

#include <string>
#include <vector>

#include "core/host/host.h"

namespace heddle::host {

// The one of these devices of one driver that the table selects, under its alias; NULL with E207 and what there is in *out_wrong.
const DeviceInfo* select_device(const DeviceConfig& config, const std::vector<DeviceInfo>& all, std::string* out_wrong);

// What to say of a device that its ordinal selects: there is a name for it that does not change. Empty if nothing.
std::string why_not_by_ordinal(const DeviceConfig& config, const DeviceInfo& device);

// What to say of a link that is of another kind than its table says. Empty if it is of that kind, or if nobody can tell.
std::string why_not_linked(const LinkConfig& link, const std::vector<DeviceInfo>& devices);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DEVICE_SELECT_H_
