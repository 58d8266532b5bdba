// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds manifests, in the order of their directories, and decides which of several with one id is used. Used by host.cpp. It only reads
// manifests and opens no library.
#ifndef HEDDLE_CORE_HOST_DISCOVERY_H_
#define HEDDLE_CORE_HOST_DISCOVERY_H_

#include <map>
#include <string>
#include <vector>

#include "core/host/manifest.h"
#include "core/host/plugin_state.h"

namespace heddle::host {

// A plugin as described by its manifest.
struct FoundPlugin {
  Manifest manifest;                  // .id and .path are always set
  Verdict verdict;                    // available, or why not, judging by the manifest alone
  std::vector<std::string> shadowed;  // manifests of this id in later directories, or refused by a pin
};

struct DiscoveryParams {
  std::vector<std::string> api_folders;
  std::vector<std::string> config_folders;
  bool use_environment = true;              // HEDDLE_PLUGIN_PATH and the user's data directory
  bool strict = false;                      // a manifest that another user could have written is not read and hides no other
  std::map<std::string, std::string> pins;  // id -> exact version
};

// The directories to search, in order of precedence: API, configuration, HEDDLE_PLUGIN_PATH, user data, next to libheddle, /etc, /usr/local,
// /usr. Never the current directory: relative paths are left out.
std::vector<std::string> search_folders(const DiscoveryParams& params);

// Requested directories that are not searched or do not exist: one line about each, for the log.
std::vector<std::string> unusable_folders(const DiscoveryParams& params);

// Every id once, in order of discovery. out_lines: one line about each directory that holds too many manifests, for the log; may be NULL.
std::vector<FoundPlugin> discover(const std::vector<std::string>& folders, const DiscoveryParams& params,
                                  std::vector<std::string>* out_lines = nullptr);

// Directory of libheddle itself (of this code), e.g. "/usr/lib/x86_64-linux-gnu"; empty if unknown.
std::string library_folder();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DISCOVERY_H_
