// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that need none of a plugin's code to be mapped: ABI range, architecture, ISA, digest, PCI vendor, needed libraries.
// Used by host.cpp before every probe and load.
#ifndef HEDDLE_CORE_HOST_PREFLIGHT_H_
#define HEDDLE_CORE_HOST_PREFLIGHT_H_

#include "core/host/manifest.h"
#include "core/host/plugin_state.h"

namespace heddle::host {

// Available, or incompatible, missing-dependency or no-device with a reason that says what to do.
Verdict preflight(const Manifest& manifest);
// The part that no cached verdict replaces: the digest of the library that is about to be loaded.
Verdict preflight_integrity(const Manifest& manifest);
// The cheap part, done even if a cached verdict makes the rest unnecessary: ABI range, architecture, ISA.
Verdict preflight_quick(const Manifest& manifest);
// For strict mode: why a direct or indirect dependency of its library, or a library that the manifest says it opens, is not to be trusted, wherever
// the dynamic linker may find it now: the files, the directories of run paths and of LD_LIBRARY_PATH, and their subdirectories for processors; or
// which of the manifest's variables is set by which those libraries load other code. Empty if all are trusted.
std::string why_needed_untrusted(const Manifest& manifest);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PREFLIGHT_H_
