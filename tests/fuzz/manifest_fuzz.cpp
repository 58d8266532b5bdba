// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A manifest of any bytes: it is refused with a text, or what comes out keeps the promises that preflight and probe rely on.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/host/manifest.h"
#include "core/host/preflight.h"

namespace {

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "manifest_fuzz: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle::host;
  Diagnostics diagnostics;
  Manifest manifest;
  const bool ok = parse_manifest("/fuzz/plugins.d/fuzz.toml", {reinterpret_cast<const char*>(data), size}, diagnostics, &manifest);
  demand(ok == !diagnostics.has_errors(), "the answer and the errors disagree");
  demand(ok || !diagnostics.first_line().empty(), "a refusal without a text");
  diagnostics.render();
  if (!ok) return 0;
  demand(is_plugin_id(manifest.id), "an id that is none passed");
  demand(manifest.kind != 0, "a plugin of no kind passed");
  demand(!manifest.library_path.empty() && manifest.library_path.front() == '/', "a library path that is not absolute passed");
  demand(manifest.library_path.find('\0') == std::string::npos, "a zero byte in a path passed");
  demand(manifest.timeout_ms >= 1 && manifest.timeout_ms <= 600000, "a timeout out of its range passed");
  demand(manifest.abi_min.major == manifest.abi_max.major && manifest.abi_min.minor <= manifest.abi_max.minor,
         "an ABI range that is none passed");
  for (const OptionSpec& option : manifest.options) demand(option.fallback.name == option.name, "an option without a default passed");
  demand(manifest.operators.empty() == ((manifest.kind & HEDDLE_PLUGIN_LIBRARY) == 0),
         "a library without operators, or operators without one, passed");
  for (const OperatorId& id : manifest.operators)
    demand(!id.domain.empty() && !id.name.empty() && id.version >= 1, "an operator without a name passed");
  preflight_quick(manifest);
  return 0;
}
