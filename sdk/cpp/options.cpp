// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See options.h.
#include "heddle/sdk/options.h"

namespace heddle::sdk {
namespace {

// The names of HEDDLE_OPTION_* in a manifest.
struct Kind {
  const char* is;
  const char* types;
};
constexpr Kind kKinds[] = {{"a value of an unknown kind", ""},
                           {"an integer", "\"bytes\" or \"int\""},
                           {"true or false", "\"bool\""},
                           {"a number with a fraction", "\"float\""},
                           {"a string", "\"string\""}};

const Kind& kind_of(uint32_t kind) noexcept {
  return kKinds[kind <= HEDDLE_OPTION_STRING ? kind : 0];
}

}  // namespace

heddle_status_t* find_option(const heddle_host_t* host, const char* who, const char* name, uint32_t kind, heddle_option_t* out,
                             bool* out_found) noexcept {
  *out = {};
  *out_found = false;
  out->struct_size = sizeof *out;
  if (heddle_status_t* failed = host->option(host->self, string_of(name), out)) {
    if (host->status_code(host->self, failed) != HEDDLE_STATUS_NOT_FOUND) return failed;
    host->status_free(host->self, failed);
    return nullptr;
  }
  if (out->kind != kind) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: reading option %s failed: the manifest declares %s, but %s is required; write type = %s there", who, name,
                  kind_of(out->kind).is, kind_of(kind).is, kind_of(kind).types);
  }
  *out_found = true;
  return nullptr;
}

heddle_status_t* option_range_status(const heddle_host_t* host, const char* who, const char* name, int64_t value, int64_t least,
                                     int64_t most) noexcept {
  return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: reading option %s failed: %lld is not in %lld to %lld", who, name,
                static_cast<long long>(value), static_cast<long long>(least), static_cast<long long>(most));
}

heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, bool* value) noexcept {
  heddle_option_t option;
  bool found;
  heddle_status_t* bad = find_option(host, who, name, HEDDLE_OPTION_BOOL, &option, &found);
  if (found) *value = option.int_value != 0;
  return bad;
}

heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, double* value) noexcept {
  heddle_option_t option;
  bool found;
  heddle_status_t* bad = find_option(host, who, name, HEDDLE_OPTION_FLOAT, &option, &found);
  if (found) *value = option.float_value;
  return bad;
}

heddle_status_t* read_option(const heddle_host_t* host, const char* who, const char* name, std::string* value) {
  heddle_option_t option;
  bool found;
  heddle_status_t* bad = find_option(host, who, name, HEDDLE_OPTION_STRING, &option, &found);
  if (found) *value = view_of(option.string_value);
  return bad;
}

}  // namespace heddle::sdk
