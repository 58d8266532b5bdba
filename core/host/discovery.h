// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds manifests, in the order of their folders, and decides which of several of one id counts. Used by host.cpp. It reads
// manifests only: no library is opened here.
#ifndef HEDDLE_CORE_HOST_DISCOVERY_H_
#define HEDDLE_CORE_HOST_DISCOVERY_H_

#include <map>
#include <string>
#include <vector>

#include "core/host/manifest.h"
#include "core/host/plugin_state.h"

namespace heddle::host {

// A plugin as its manifest tells it.
struct FoundPlugin {
  Manifest manifest;                  // .id and .path are always set
  Verdict verdict;                    // available, or why not, by the manifest alone
  std::vector<std::string> shadowed;  // manifests of this id in later folders, or refused by a pin
};

struct DiscoveryParams {
  std::vector<std::string> api_folders;
  std::vector<std::string> config_folders;
  bool use_environment = true;              // HEDDLE_PLUGIN_PATH and the user's data folder
  bool strict = false;                      // a manifest that somebody else could have written is not read, and hides none
  std::map<std::string, std::string> pins;  // id -> exact version
};

// Folders that are searched, first wins: API, configuration, HEDDLE_PLUGIN_PATH, user data, next to libheddle, /etc, /usr/local,
// /usr. Never the current folder: what is not absolute is left out.
std::vector<std::string> search_folders(const DiscoveryParams& params);

// Folders that somebody named and that are not searched, hold nothing because they are not there, or too much: a line about each, for the log.
std::vector<std::string> unusable_folders(const DiscoveryParams& params);

// Every id once, in order of discovery.
std::vector<FoundPlugin> discover(const std::vector<std::string>& folders, const DiscoveryParams& params);

// Folder of libheddle itself (of this code), "/usr/lib/x86_64-linux-gnu"; empty if unknown.
std::string library_folder();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DISCOVERY_H_
