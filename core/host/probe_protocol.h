// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocol between libheddle and heddle-probe: arguments in one direction, lines of `word text` on a descriptor in the other.
#ifndef HEDDLE_CORE_HOST_PROBE_PROTOCOL_H_
#define HEDDLE_CORE_HOST_PROBE_PROTOCOL_H_

#include <string>

#include "core/host/config.h"

namespace heddle::host {

constexpr int kProbeDescriptor = 3;
// First word of an answer; its text is the nonce of the command line. Then: stage, state, devices, vendor, reason, end.
constexpr char kProbeProtocol[] = "heddle-probe/2";

// Converts to `name=kind:value` and back; false if the text does not have this form.
std::string option_to_argument(const OptionValue& option);
bool option_from_argument(const std::string& argument, OptionValue* out_option);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROBE_PROTOCOL_H_
