// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What must hold of a target plugin's answers, as far as they say it themselves: the compiler refuses others, and heddle-conformance reports them. Knows
// no process and no format.
#ifndef HEDDLE_SDK_TARGET_CHECKS_H_
#define HEDDLE_SDK_TARGET_CHECKS_H_

#include "heddle/sdk/target/messages.h"

namespace heddle::sdk::target {

// The table [limits] of a manifest: what an entry may need.
struct EntryLimits {
  uint64_t workgroup_size = UINT64_MAX, shared_memory_bytes = UINT64_MAX, workspace_bytes = UINT64_MAX;
};

struct CodeRules {
  std::string family;  // the target's name
  bool takes_foreign_formats = false;
  uint64_t most_bytes = uint64_t{64} << 20;  // of the code of one claim
  EntryLimits limits;
};

// Whether a format belongs to a target: "acme" has "acme/1" and "acme-elf/2".
bool owns_format(std::string_view family, std::string_view format);

// Each gives what is wrong, or nothing.
// Numbers of a graph that refer to something that is not in it; kernel_count: of its portable code. Plugins on plugin.h get no such graph.
std::string check(const Graph& graph, size_t kernel_count);
// Names of claims, and nodes of refusals. Which nodes may be claimed together is for the caller to check.
std::string check(const Graph& graph, const Answer& answer);
// Everything but what the bytes say.
std::string check(const Kernel& kernel, const Code& code, const CodeRules& rules);
// The entries that `emit` has told against those that `inspect` has read from the bytes.
std::string compare_records(const Code& said, const Code& found);

}  // namespace heddle::sdk::target
#endif  // HEDDLE_SDK_TARGET_CHECKS_H_
