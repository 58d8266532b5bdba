// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.toml as a JSON Schema, for editors. What it cannot say (aliases that exist, versions, contradictions), the reader says.
// Used by host.cpp; a test holds it against the reader's own transcripts.
#ifndef HEDDLE_CORE_HOST_CONFIG_SCHEMA_H_
#define HEDDLE_CORE_HOST_CONFIG_SCHEMA_H_

#include <string>
#include <vector>

#include "core/host/manifest.h"

namespace heddle::host {

// With the options of these plugins' manifests. Draft 2020-12.
std::string config_schema(const std::vector<const Manifest*>& manifests);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_CONFIG_SCHEMA_H_
