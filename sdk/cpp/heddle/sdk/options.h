// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Options of the manifest, read once when an instance is made. A host that does not have one leaves the default as it is.
#ifndef HEDDLE_SDK_OPTIONS_H_
#define HEDDLE_SDK_OPTIONS_H_

#include <string>

#include "heddle/sdk/status.h"

namespace heddle::sdk {

// True if the host has the option with that kind.
inline bool find_option(const heddle_host_t* host, const char* name, uint32_t kind, heddle_option_t* out) noexcept {
  *out = {};
  out->struct_size = sizeof *out;
  if (heddle_status_t* missing = host->option(host->self, string_of(name), out)) {
    host->status_free(host->self, missing);
    return false;
  }
  return out->kind == kind;
}

// INVALID_ARGUMENT for a value outside [least, most]: the manifest may say less than the plugin knows.
template <class T>
heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, int64_t least, int64_t most, T* value) noexcept {
  heddle_option_t option;
  if (!find_option(host, name, HEDDLE_OPTION_INT, &option)) return nullptr;
  if (option.int_value < least || option.int_value > most) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: reading option %s failed: %lld is not in %lld to %lld", who, name,
                  static_cast<long long>(option.int_value), static_cast<long long>(least), static_cast<long long>(most));
  }
  *value = static_cast<T>(option.int_value);
  return nullptr;
}

inline void read_option(const heddle_host_t* host, const char* name, std::string* value) {
  heddle_option_t option;
  if (find_option(host, name, HEDDLE_OPTION_STRING, &option)) *value = view_of(option.string_value);
}

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_OPTIONS_H_
