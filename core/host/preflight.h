// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be told about a plugin before any of its code is mapped: ABI range, architecture, ISA, digest, PCI vendor, needed libraries.
// Used by host.cpp before every probe and load.
#ifndef HEDDLE_CORE_HOST_PREFLIGHT_H_
#define HEDDLE_CORE_HOST_PREFLIGHT_H_

#include "core/host/manifest.h"
#include "core/host/plugin_state.h"

namespace heddle::host {

// Available, or incompatible, missing-dependency or no-device with a reason that says what to do.
Verdict preflight(const Manifest& manifest);
// The part that no cached verdict stands for: the digest of the library, which is about to be loaded.
Verdict preflight_integrity(const Manifest& manifest);
// The part that costs next to nothing and is done even when a cached verdict spares the rest: ABI range, architecture, ISA.
Verdict preflight_quick(const Manifest& manifest);
// Of strict mode: why what its library needs, directly or not, or opens as the manifest says, is not to be trusted, as the dynamic linker would find it now: the files, the
// folders of run paths, and those of LD_LIBRARY_PATH. Empty if it is.
std::string why_needed_untrusted(const Manifest& manifest);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PREFLIGHT_H_
