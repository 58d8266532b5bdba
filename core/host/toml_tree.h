// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A TOML text as a tree in which every key and value knows its place. Used by manifest.cpp and config_read.cpp.
// The only file beside it that includes toml++ is toml_tree.cpp; it knows no schema.
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
  TomlPlace key_place;  // of the key; of the value inside an array
  TomlPlace place;      // of the value
  std::string string;
  int64_t integer = 0;  // also 0 or 1 of kBool
  double number = 0;
  std::vector<TomlNode> children;  // of tables and arrays, in order of the text

  std::vector<uint32_t> by_key;  // of a table: the children in order of their keys

  const TomlNode* find(std::string_view name) const;
};

struct TomlError {
  TomlPlace place;
  std::string message;
};

struct TomlTree {
  TomlNode root;
  // Every syntax error that could be told apart; what is around them is in root, so that later errors show in the same run.
  std::vector<TomlError> errors;
  // A table's header could not be read, so that keys below it hang in the wrong table.
  bool lost_header = false;
};

// Never fails otherwise than by errors; hostile text is bounded in depth and size.
TomlTree parse_toml(std::string_view text);

// "string", "integer", "table", ...
const char* name_of(TomlNode::Kind kind);
// The value as TOML text; tables and arrays of tables are shortened to {...}.
std::string to_toml(const TomlNode& node);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TOML_TREE_H_
