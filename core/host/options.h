// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of plugins: declarations in a manifest, and values that are checked against them without loading the plugin.
// Used by manifest.cpp, config_check.cpp and host.cpp.
#ifndef HEDDLE_CORE_HOST_OPTIONS_H_
#define HEDDLE_CORE_HOST_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/host/config.h"
#include "core/host/table_reader.h"

namespace heddle::host {

struct OptionSpec {
  enum Type { kInt, kBool, kFloat, kString, kBytes };
  std::string name;
  Type type = kString;
  std::optional<double> min, max;           // for kFloat
  std::optional<int64_t> int_min, int_max;  // for kInt and kBytes
  std::vector<std::string> values;          // for kString: the allowed values; empty: any
  OptionValue fallback;                     // the declared default
};

// Reads [options.<name>]; false if it is unusable (already reported).
bool read_option_spec(const TomlNode& node, uint32_t file, Diagnostics& diagnostics, OptionSpec* out_spec);

// The value in `node`, checked; false if it does not match the declaration (already reported at its location).
bool read_option_value(const OptionSpec& spec, const TomlNode& node, Place place, const std::string& origin, Diagnostics& diagnostics,
                       OptionValue* out_value);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_OPTIONS_H_
