// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libheddle and heddle-probe tell each other: arguments there, lines of `word text` on a descriptor back.
#ifndef HEDDLE_CORE_HOST_PROBE_PROTOCOL_H_
#define HEDDLE_CORE_HOST_PROBE_PROTOCOL_H_

#include <string>

#include "core/host/config.h"

namespace heddle::host {

constexpr int kProbeDescriptor = 3;
// First word of an answer; its text is the nonce of the command line. Then: stage, state, devices, vendor, reason, end.
constexpr char kProbeProtocol[] = "heddle-probe/2";

// `name=kind:value`, and back; false if it is not of that form.
std::string option_to_argument(const OptionValue& option);
bool option_from_argument(const std::string& argument, OptionValue* out_option);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROBE_PROTOCOL_H_
