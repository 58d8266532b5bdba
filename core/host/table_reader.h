// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads one TOML table against a schema that is expressed as calls: each call requests a key and its type; keys that no call requests are
// unknown. Used by manifest.cpp and config_read.cpp; it reports through Diagnostics and does not interpret values.
#ifndef HEDDLE_CORE_HOST_TABLE_READER_H_
#define HEDDLE_CORE_HOST_TABLE_READER_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/host/diagnostics.h"
#include "core/host/toml_tree.h"

namespace heddle::host {

class TableReader {
 public:
  // path: the name of the table in messages, "device.gpu0", empty for the root. If node is not a table, reports this and reads it as empty.
  TableReader(const TomlNode& node, uint32_t file, std::string path, Diagnostics& diagnostics);

  // The value of a key, of one of these kinds; NULL if absent or of another kind (reported). Marks the key as known.
  const TomlNode* value(const std::string& key, std::initializer_list<TomlNode::Kind> kinds);
  // Each returns true and sets the output if the key exists and is correct.
  bool string(const char* key, std::string* out);
  bool boolean(const char* key, bool* out);
  bool integer(const char* key, int64_t min, int64_t max, int64_t* out);
  // "60GiB", "512 MB" or a plain number of bytes.
  bool bytes(const char* key, uint64_t* out);
  bool strings(const char* key, std::vector<std::string>* out, bool allow_empty = false);
  // Index of one of the allowed words.
  bool choice(const std::string& key, const std::vector<std::string>& allowed, size_t* out);
  const TomlNode* table(const char* key) { return value(key, {TomlNode::kTable}); }
  // The elements of an array of tables; other elements are reported.
  std::vector<const TomlNode*> tables(const char* key);
  // A missing key is an error at the table's location. example: an example of the key.
  void require(const char* key, const char* example);
  // Call before reading `now`: a table that has only the older name of that key is read as if it had the new name, with a warning.
  void renamed(const char* before, const char* now);

  // Reports the remaining keys as unknown. more: keys that are known elsewhere, for the hint.
  void finish(const std::vector<std::string>& more = {});
  // The remaining keys, for tables whose keys are free.
  std::vector<const TomlNode*> rest();

  const TomlNode* find(const std::string& key) const;
  uint32_t file() const { return file_; }
  Place place(const TomlNode& node) const { return {file_, node.place}; }
  Place key_place(const TomlNode& node) const { return {file_, node.key_place}; }
  Place own_place() const { return {file_, node_.key_place}; }
  // Location of the key's value, or of the table if it is absent.
  Place value_place(const char* key) const;
  // "[device.gpu0]", or "the file" for the root.
  std::string title() const;
  std::string path_of(std::string_view key) const;
  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  void wrong_type(const TomlNode& node, const std::string& expected);

  const TomlNode& node_;
  const uint32_t file_;
  const std::string path_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> renamed_;  // new name, and older name that is used
};

// Reports an unknown key, with the most similar known key or all known keys.
void unknown_key(Diagnostics& diagnostics, Place place, const std::string& key, const std::string& title,
                 const std::vector<std::string>& known);

// `"a", "b" or "c"`.
std::string quoted_words(const std::vector<std::string>& words);

// Bytes of "60GiB"; false if it is not a size or too large. *out_wrong says which.
bool parse_bytes(std::string_view text, uint64_t* out, std::string* out_wrong);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_TABLE_READER_H_
