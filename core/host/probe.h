// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first look at a plugin, in a child process, so that a crash becomes a reason. Used by host.cpp; the other side is
// tools/probe. What plugins print is never taken for an answer: answers come over a descriptor of their own.
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

// Looks at each in a child of `program`, at several at once; one verdict for each request. Kills what outlives its timeout. Under strict,
// no variable of the dynamic linker (LD_*) gets to the children.
std::vector<Verdict> probe_in_children(const std::string& program, const std::vector<ProbeRequest>& requests, bool strict);

// The heddle-probe that belongs to this libheddle: beside it, in ../libexec or in ../bin. Never from PATH. Empty if absent.
std::string find_probe_program();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROBE_H_
