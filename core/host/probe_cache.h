// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verdicts of earlier probes, kept in the user's cache folder, so that a start needs no child process. Used by host.cpp.
// A verdict counts only while nothing that could change it has changed; device lists are not kept.
#ifndef HEDDLE_CORE_HOST_PROBE_CACHE_H_
#define HEDDLE_CORE_HOST_PROBE_CACHE_H_

#include <string>

#include "core/host/manifest.h"
#include "core/host/plugin_state.h"
#include "sdk/module/user_cache.h"

namespace heddle::host {

class ProbeCache {
 public:
  // folder empty: nothing is found and nothing is kept.
  explicit ProbeCache(std::string folder) : cache_(std::move(folder)) {}

  // Everything a verdict hangs on: device, inode, size, mtime and ctime of library, manifest and the libraries that both say they need, the
  // kernel modules of the vendors' devices, boot, user, options, and the variables that hide devices. Empty if the files cannot be looked at:
  // then nothing is cached.
  static std::string key_of(const Manifest& manifest, const std::vector<OptionValue>& options);

  bool find(const std::string& id, const std::string& key, Verdict* out_verdict) const;
  // Keeps it, unless it is one of the moment, or that a change outside of the key could mend (no device, missing dependency). Failures are not errors.
  void keep(const std::string& id, const std::string& key, const Verdict& verdict) const;

  // Why a folder that is there is not used, for the log: others have rights to it, or it is a link. Empty if it is.
  std::string why_unused() const;

  // $XDG_CACHE_HOME/heddle/probe or ~/.cache/heddle/probe; empty without either or when the process runs with raised rights.
  static std::string default_folder();

 private:
  module::UserCache cache_;
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_PROBE_CACHE_H_
