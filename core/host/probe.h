// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first execution of a plugin, in a child process, so that a crash becomes a reason. Used by host.cpp; the other side is
// tools/probe. A plugin's output is never taken for an answer: answers use a separate descriptor.
#ifndef HEDDLE_CORE_HOST_PROBE_H_
#define HEDDLE_CORE_HOST_PROBE_H_

#include <string>
#include <vector>

#include "core/host/config.h"
#include "core/host/manifest.h"
#include "core/host/plugin_state.h"
#include "core/host/probe_protocol.h"

namespace heddle::host {

struct ProbeRequest {
  std::string id;
  std::string version;
  std::string library_path;
  uint32_t timeout_ms = 10000;
  std::vector<OptionValue> options;
};

// Probes each in a child of `program`, several at once; returns one verdict per request. Kills children that exceed their timeout. With strict, no
// variable of the dynamic linker (LD_*) is passed to the children.
std::vector<Verdict> probe_in_children(const std::string& program, const std::vector<ProbeRequest>& requests, bool strict);

// The heddle-probe that belongs to this libheddle: in its directory, in ../libexec or in ../bin. Never from PATH. Empty if absent.
std::string find_probe_program();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROBE_H_
