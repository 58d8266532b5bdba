// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the odd plugins of this folder are told what to be: an environment variable holds names of changes, with '+' between them. Some of them are
// made of a whole plugin that another variable names, and change what goes in and out of it.
#ifndef HEDDLE_TESTS_CONFORMANCE_ODD_NAMES_H_
#define HEDDLE_TESTS_CONFORMANCE_ODD_NAMES_H_

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "heddle/plugin.h"

namespace heddle::odd {

// Calls function(name) for each until one gives true. Allocates nothing: entries ask (HD-E-02).
template <class Function>
bool any_name(const char* variable, Function function) {
  const char* text = std::getenv(variable);
  for (std::string_view left = text ? text : ""; !left.empty();) {
    const size_t end = left.find('+');
    if (function(left.substr(0, end))) return true;
    left = end == std::string_view::npos ? std::string_view() : left.substr(end + 1);
  }
  return false;
}

inline bool is_named(const char* variable, std::string_view name) {
  return any_name(variable, [&](std::string_view each) { return each == name; });
}

// A name that is in none of the lists would leave the plugin as it is, and whatever a test then found would be about something else.
template <class... Lists>
void expect_known(const char* variable, const Lists&... lists) {
  any_name(variable, [&](std::string_view name) {
    auto has = [&](const auto& list) {
      return std::any_of(std::begin(list), std::end(list), [&](const auto& change) { return name == change.name; });
    };
    if ((has(lists) || ...)) return false;
    std::fprintf(stderr, "%s: there is no change '%.*s'\n", variable, static_cast<int>(name.size()), name.data());
    std::abort();
  });
}

// The table of the plugin whose library the variable names.
inline const heddle_plugin_t* plugin_in(const char* variable) {
  const char* path = std::getenv(variable);
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  auto entry = reinterpret_cast<heddle_plugin_entry_fn_t>(library ? dlsym(library, HEDDLE_PLUGIN_ENTRY_NAME) : nullptr);
  if (!entry) {
    std::fprintf(stderr, "%s names no plugin: %s\n", variable, path ? dlerror() : "it is not set");
    std::abort();
  }
  heddle_negotiation_t record = {};
  record.struct_size = sizeof record;
  record.host_min_minor = HEDDLE_ABI_MIN_MINOR;
  record.host_max_minor = HEDDLE_ABI_MINOR;
  return entry(&record);
}

}  // namespace heddle::odd
#endif  // HEDDLE_TESTS_CONFORMANCE_ODD_NAMES_H_
