// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of the manifest, read in probe and when an instance is created. An option that the manifest does not declare leaves the value unchanged;
// one that is declared with another type is INVALID_ARGUMENT, so that no user setting is silently ignored.
#ifndef HEDDLE_SDK_OPTIONS_H_
#define HEDDLE_SDK_OPTIONS_H_

#include <concepts>
#include <string>

#include "heddle/sdk/status.h"

namespace heddle::sdk {

// NULL with *out_found false: the manifest does not declare it. `who` begins the error text.
heddle_status_t* find_option(const heddle_host_t* host, const char* who, const char* name, uint32_t kind, heddle_option_t* out,
                             bool* out_found) noexcept;
heddle_status_t* option_range_status(const heddle_host_t* host, const char* who, const char* name, int64_t value, int64_t least,
                                     int64_t most) noexcept;

// type = "int" or "bytes". INVALID_ARGUMENT for a value outside [least, most]: the manifest may be less strict than the plugin.
template <std::integral T>
heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, int64_t least, int64_t most, T* value) noexcept {
  heddle_option_t option;
  bool found;
  if (heddle_status_t* bad = find_option(host, who, name, HEDDLE_OPTION_INT, &option, &found)) return bad;
  if (!found) return nullptr;
  if (option.int_value < least || option.int_value > most) return option_range_status(host, who, name, option.int_value, least, most);
  *value = static_cast<T>(option.int_value);
  return nullptr;
}
// type = "bool", "float", "string".
heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, bool* value) noexcept;
heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, double* value) noexcept;
heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, std::string* value);

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_OPTIONS_H_
