// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's manifest as plain data. Read by discovery.cpp, used by preflight, probe and host. Manifests are hostile input: a wrong one
// causes one clear error for that plugin and has no other effect.
#ifndef HEDDLE_CORE_HOST_MANIFEST_H_
#define HEDDLE_CORE_HOST_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/options.h"

namespace heddle::host {

struct NeededLibrary {
  std::string soname;
  std::string hint;  // what to install
};

// An operator that a library plugin declares. The rest of its [[operator]] table is for the compiler.
struct OperatorId {
  std::string domain;
  std::string name;
  uint32_t version = 1;
};

struct AbiVersion {
  uint32_t major = 0;
  uint32_t minor = 0;
};

struct Manifest {
  std::string path;  // absolute
  std::string id;
  std::string version;
  uint32_t kind = 0;                  // bits HEDDLE_PLUGIN_*
  std::vector<std::string> families;  // of a driver: the families of its devices; empty: unknown before it is loaded
  std::string library_path;           // absolute
  AbiVersion abi_min, abi_max;
  std::string arch;
  std::string isa;                    // "x86-64" ... "x86-64-v4"
  std::vector<uint16_t> pci_vendors;  // at least one must be present; empty: not checked
  std::vector<NeededLibrary> libraries;
  std::vector<std::string> opened_libraries;  // sonames that it may open itself, whether they are there or not
  std::vector<std::string> code_variables;    // environment variables by which those libraries load other code
  std::vector<std::string> conflicts;         // ids
  uint32_t timeout_ms = 10000;                // timeout of the probe
  bool unloadable = false;
  std::string sha256;  // digest of the library, lower case; empty: none
  std::vector<OptionSpec> options;
  std::vector<OperatorId> operators;  // operators of a library plugin

  const OptionSpec* option(std::string_view name) const {
    for (const OptionSpec& spec : options) {
      if (spec.name == name) return &spec;
    }
    return nullptr;
  }
};

constexpr size_t kMaxManifestBytes = 64 << 10;

// Parses the text of the manifest at `path`. True if there were no errors; with errors, out_manifest has what could be read, so that a list can
// still name the plugin.
bool parse_manifest(const std::string& path, std::string_view text, Diagnostics& diagnostics, Manifest* out_manifest);

// An id: letters, digits, '_', '-' and single dots between them; at most 128 bytes.
bool is_plugin_id(std::string_view id);
inline constexpr char kNoPluginId[] =
    "not a plugin id; 1 to 128 letters, digits, '_', '-', separated by single dots, were expected, e.g. \"heddle.cpu\"";
// MAJOR.MINOR.PATCH[-PRE.RELEASE][+BUILD] as in semver.org, at most 64 bytes.
bool is_semantic_version(std::string_view text);
// "driver and allocator" for bits HEDDLE_PLUGIN_*.
std::string kind_text(uint32_t kind);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_MANIFEST_H_
