// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.toml as a JSON Schema, for editors. Rules that it cannot express (aliases that exist, versions, contradictions) are checked by the reader.
// Used by host.cpp; a test compares it with the reader's transcripts.
#ifndef HEDDLE_CORE_HOST_CONFIG_SCHEMA_H_
#define HEDDLE_CORE_HOST_CONFIG_SCHEMA_H_

#include <string>
#include <vector>

#include "core/host/manifest.h"

namespace heddle::host {

// Includes the options of these plugins' manifests. Draft 2020-12.
std::string config_schema(const std::vector<const Manifest*>& manifests);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_SCHEMA_H_
