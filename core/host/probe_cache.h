// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verdicts of earlier probes, kept in the user's cache directory, so that a start needs no child process. Used by host.cpp.
// A verdict is valid only while nothing that could change it has changed; device lists are not cached.
#ifndef HEDDLE_CORE_HOST_PROBE_CACHE_H_
#define HEDDLE_CORE_HOST_PROBE_CACHE_H_

#include <string>

#include "core/host/manifest.h"
#include "core/host/plugin_state.h"
#include "sdk/module/user_cache.h"

namespace heddle::host {

class ProbeCache {
 public:
  // With an empty folder nothing is found and nothing is cached.
  explicit ProbeCache(std::string folder) : cache_(std::move(folder)) {}

  // All inputs of a verdict: device, inode, size, mtime and ctime of the library, the manifest and the libraries that both say they need, the
  // kernel modules of the vendors' devices, boot, user, options, and the variables that hide devices. Empty if the files cannot be examined: then
  // nothing is cached.
  static std::string key_of(const Manifest& manifest, const std::vector<OptionValue>& options);

  bool find(const std::string& id, const std::string& key, Verdict* out_verdict) const;
  // Caches the verdict, unless it is temporary or could be changed by something outside of the key (no device, missing dependency). Failures
  // are ignored.
  void keep(const std::string& id, const std::string& key, const Verdict& verdict) const;

  // Why an existing directory is not used, for the log: others have permissions for it, or it is a link. Empty if it is used.
  std::string why_unused() const;

  // $XDG_CACHE_HOME/heddle/probe or ~/.cache/heddle/probe; empty without either, or if the process runs with raised privileges.
  static std::string default_folder();

 private:
  module::UserCache cache_;
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROBE_CACHE_H_
