// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A TOML text as a tree in which every key and value has its location. Used by manifest.cpp and config_read.cpp.
// Besides this header only toml_tree.cpp includes toml++; it knows no schema.
#ifndef HEDDLE_CORE_HOST_TOML_TREE_H_
#define HEDDLE_CORE_HOST_TOML_TREE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::host {

// Lines and columns count from 1; columns count characters. 0: unknown.
struct TomlPlace {
  uint32_t line = 0;
  uint32_t column = 0;
};

struct TomlNode {
  enum Kind { kTable, kArray, kString, kInt, kFloat, kBool, kDate };
  Kind kind = kTable;
  std::string key;      // inside a table
  TomlPlace key_place;  // location of the key; inside an array, of the value
  TomlPlace place;      // location of the value
  std::string string;
  int64_t integer = 0;  // also 0 or 1 for kBool
  double number = 0;
  std::vector<TomlNode> children;  // for tables and arrays, in the order of the text

  std::vector<uint32_t> by_key;  // for tables: the children sorted by key

  const TomlNode* find(std::string_view name) const;
};

struct TomlError {
  TomlPlace place;
  std::string message;
};

struct TomlTree {
  TomlNode root;
  // Every syntax error that could be isolated; the rest of the text is in root, so that further errors are found in the same run.
  std::vector<TomlError> errors;
  // A table's header could not be parsed, so that keys below it are in the wrong table.
  bool lost_header = false;
  // The plain parser read it: every character is printable ASCII.
  bool is_plain = false;
};

// Fails only through errors; the depth and size of hostile text are limited.
TomlTree parse_toml(std::string_view text);
// The same, always by toml++; for tests.
TomlTree parse_full_toml(std::string_view text);

// "string", "integer", "table", ...
const char* name_of(TomlNode::Kind kind);
// The value as TOML text; tables and arrays of tables are abbreviated to {...}.
std::string to_toml(const TomlNode& node);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TOML_TREE_H_
