// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects every error in the files of a configuration or a manifest and prints them with location, excerpt and hint.
// Used by manifest.cpp and config_*.cpp; it knows locations and texts, but no schema.
#ifndef HEDDLE_CORE_HOST_DIAGNOSTICS_H_
#define HEDDLE_CORE_HOST_DIAGNOSTICS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/toml_tree.h"

namespace heddle::host {

// All error codes for configurations and manifests. Each has a row in docs/configuration.md and at least one transcript in tests/unit/transcripts;
// a test compares them. E1xx: the text itself; E2xx: what it refers to; E3xx: features that this version lacks.
struct CodeRow {
  std::string_view code;
  std::string_view about;
  std::string_view next_step;  // printed if a diagnostic has no better hint
};
inline constexpr CodeRow kCodes[] = {
    {"E101", "syntax", "correct the line, which is not valid TOML"},
    {"E102", "unknown key", "remove it"},
    {"E103", "wrong type", "write a value of that type"},
    {"E104", "missing key", "add it"},
    {"E105", "value not allowed", "write what was expected, or remove the key"},
    {"E106", "a file or an import", "correct the path, or the file"},
    {"E107", "named twice", "keep one of them"},
    {"E108", "key with a newer name", "rename it"},
    {"E201", "unknown plugin", "install it, or correct the id"},
    {"E202", "unknown device", "name one of them, or add a table for it"},
    {"E203", "contradiction", "keep one of them"},
    {"E204", "the environment in strict mode", "unset it, or move its content into the file"},
    {"E205", "version", "write \"=\" and a version"},
    {"E206", "limit", "name fewer"},
    {"E207", "no such device here", "correct the selector; `heddle devices` shows what there is"},
    {"E208", "a link of another kind", "correct it, or remove it"},
};
// A literal that is in the table; any other literal does not compile.
struct Code {
  consteval Code(const char* code) : row(&kCodes[index_of(code)]) {}
  const CodeRow* row;

 private:
  static consteval std::size_t index_of(std::string_view code) {
    for (std::size_t i = 0; i < std::size(kCodes); ++i) {
      if (kCodes[i].code == code) return i;
    }
    throw "no such code in kCodes";
  }
};

struct Place {
  uint32_t file = 0;  // number returned by add_file
  TomlPlace at;
};

class Diagnostics {
 public:
  static constexpr size_t kMaxKept = 1000;  // errors, and as many warnings; further ones are counted
  // Keeps the text for excerpts. Returns the file's number.
  uint32_t add_file(std::string name, std::string text);
  // width: characters to underline. hint: what to do, printed after the underline; if empty, the code's own hint.
  void error(Place place, Code code, std::string message, std::string_view hint = {}, size_t width = 1);
  // A warning does not make the file invalid.
  void warning(Place place, Code code, std::string message, std::string_view hint = {}, size_t width = 1);

  // Whether there are so many errors or warnings that further ones are only counted.
  bool is_full() const { return error_count_ > kMaxKept || warning_count_ > kMaxKept; }
  bool has_errors() const { return error_count_ != 0; }
  size_t error_count() const { return error_count_; }
  // "heddle.toml:23:1"
  std::string name_of(Place place) const;
  const std::string& file_name(uint32_t file) const { return files_[file].name; }
  // All diagnostics in the order of files and locations, each ending in a line break.
  std::string render() const;
  // The first error in one line, without excerpt.
  std::string first_line() const;
  // The warnings of one code, each in one line.
  std::vector<std::string> warnings(Code code) const;

 private:
  struct File {
    std::string name;
    std::string text;
  };
  struct Entry {
    Place place;
    Code code;
    std::string message;
    std::string hint;
    size_t width;
    bool is_error;
  };
  std::vector<const Entry*> sorted() const;
  std::string excerpt(const Entry& entry) const;
  std::string line(const Entry& entry) const;
  void keep(Entry entry, size_t* count);

  std::vector<File> files_;
  std::vector<Entry> entries_;
  size_t error_count_ = 0, warning_count_ = 0;
};

// "did you mean 'x'?", or empty.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DIAGNOSTICS_H_
