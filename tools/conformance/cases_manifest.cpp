// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The case about the manifest: the host's own parser and its checks of the library file, so that a plugin that passes the kit is not refused by a
// host.
#include "core/host/preflight.h"
#include "session.h"

namespace heddle::conformance {
namespace {

void manifest_is_valid() {
  if (settings().manifest.empty())
    absent("the directory of %s has no manifest; a host finds a plugin by its manifest", settings().library.c_str());
  for (const std::string& error : settings().manifest_errors) fail("%s", error.c_str());
  if (!settings().manifest_errors.empty()) return;
  const host::Verdict verdict = host::preflight(settings().declared);
  CHECK(verdict.state == host::PluginState::kAvailable, "%s: the host calls the plugin %s: %s", settings().manifest.c_str(),
        host::name_of(verdict.state), verdict.reason.c_str());
}

}  // namespace

void add_manifest_cases(Cases* out) {
  out->push_back({"manifest.valid", "a host reads the manifest without an error, and accepts the library file that it names",
                  manifest_is_valid, Kind::kAny, true});
}

}  // namespace heddle::conformance
