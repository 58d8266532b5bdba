// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which parts of portable code a device interprets, and why: for the rule `interpreted` of heddle.toml, and for reports.
// Used by Instance.
#ifndef HEDDLE_CORE_SUBMIT_PORTABLE_PARTS_H_
#define HEDDLE_CORE_SUBMIT_PORTABLE_PARTS_H_

#include "core/host/host.h"
#include "core/memory/device.h"
#include "core/open/module.h"
#include "core/route/route.h"

namespace heddle::submit {

// A part of a kernel, as the driver tells it; borrowed. Without a kernel of the driver's own, it is interpreted.
using VisitPart = void (*)(void* context, heddle_string_t entry, const heddle_portable_part_t& part);

// Asks the device's driver about each of the chosen entries; nothing if the chosen variant is no portable code. A driver that does not answer interprets
// the whole kernel. [any] [may-block]
void visit_portable_parts(memory::Device& device, const open::OpenModule& module, const route::ChosenCode& chosen, VisitPart visit,
                          void* context);

// FAILED_PRECONDITION, or a line in the log, if the configuration does not allow what the device would interpret of the code. [any] [may-block]
Status check_interpreted(host::Host& host, memory::Device& device, const open::OpenModule& module, const route::ChosenCode& chosen);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PORTABLE_PARTS_H_
