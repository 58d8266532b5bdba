// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Manifests of target plugins, and where they are. Reads the same files as the host (core/host/manifest.h), and of these only what a compile needs; the
// plugin's library is not opened. Knows no IR.
//
//   manifest = 1
//   [plugin]
//   id = "com.acme.target"
//   version = "1.0.0"
//   kind = ["target"]
//   library = "libacme_target.so"
//   abi = ["0.3", "0.3"]
//   families = ["acme"]          # the targets, which are the families of the devices
//   [facts]                      # for the plugin: integers, numbers, texts, true and false
//   lanes = 16
//   [limits]                     # of the devices: what entries may need; absent: not limited
//   workgroup_size = 1024
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/sdk/target/checks.h"

namespace heddle::plugins {

struct TargetManifest {
  std::string path, id, version;
  std::string library;  // absolute
  std::string sha256;   // of the library's bytes, as found
  std::vector<std::string> families;
  std::vector<sdk::target::Fact> facts;  // sorted by name
  sdk::target::EntryLimits limits;
  bool is_target = false;
};

// An error text, or nothing.
std::string read_manifest(const std::string& path, TargetManifest& out);

// The manifest of the target plugin for a family: in these files and directories first, then in those in which plugins are found. An error text, or
// nothing. Manifests that cannot be read are passed over, unless they are named.
std::string find_target(const std::string& family, const std::vector<std::string>& named, TargetManifest& out);

// The directory of this library, and the program heddle-target-host of the same installation; empty if there is none.
std::string library_folder();
std::string find_target_host();

}  // namespace heddle::plugins
