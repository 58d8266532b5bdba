// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects every error of the files that make up a configuration or a manifest and prints them with place, excerpt and hint.
// Used by manifest.cpp and config_*.cpp; it knows places and texts, no schema.
//
// Codes: E1xx the text itself (E101 syntax, E102 unknown key, E103 wrong type, E104 missing key, E105 value not allowed, E106 import,
// E107 named twice), E2xx what it refers to (E201 unknown plugin, E202 unknown device, E203 contradiction, E205 version, E206 limit),
// E301 what this version cannot do yet.
#ifndef HEDDLE_CORE_HOST_DIAGNOSTICS_H_
#define HEDDLE_CORE_HOST_DIAGNOSTICS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/toml_tree.h"

namespace heddle::host {

struct Place {
  uint32_t file = 0;  // number that add_file gave
  TomlPlace at;
};

class Diagnostics {
 public:
  // Keeps the text for excerpts. Returns the file's number.
  uint32_t add_file(std::string name, std::string text);
  // width: characters to underline. hint: what to do, printed after the underline; may be empty.
  void error(Place place, const char* code, std::string message, std::string hint = {}, size_t width = 1);
  // Does not make the file wrong.
  void warning(Place place, const char* code, std::string message, std::string hint = {}, size_t width = 1);

  bool has_errors() const { return error_count_ != 0; }
  size_t error_count() const { return error_count_; }
  // "heddle.toml:23:1"
  std::string name_of(Place place) const;
  const std::string& file_name(uint32_t file) const { return files_[file].name; }
  // All of them in order of files and places, each ending in a line break.
  std::string render() const;
  // The first error in one line, without excerpt.
  std::string first_line() const;

 private:
  struct File {
    std::string name;
    std::string text;
  };
  struct Entry {
    Place place;
    const char* code;
    std::string message;
    std::string hint;
    size_t width;
    bool is_error;
  };
  std::vector<const Entry*> sorted() const;
  std::string excerpt(const Entry& entry) const;

  std::vector<File> files_;
  std::vector<Entry> entries_;
  size_t error_count_ = 0;
};

// The candidate nearest to `name` by edit distance, empty if none is near enough to be meant.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);
// "did you mean 'x'?", or empty.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DIAGNOSTICS_H_
