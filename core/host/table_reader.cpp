// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The schema reader: types, ranges, words, sizes, and unknown keys.
#include "core/host/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

std::string shown(std::string_view text) {
  return module::one_line(text.substr(0, 80));
}

const char* with_article(TomlNode::Kind kind) {
  constexpr const char* kNames[] = {"a table", "an array", "a string", "an integer", "a float", "a boolean", "a date"};
  return kNames[kind];
}

}  // namespace

std::string quoted_words(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += "\"" + words[i] + "\"";
  }
  return text;
}

bool parse_bytes(std::string_view text, uint64_t* out, std::string* out_wrong) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  static constexpr Unit kUnits[] = {{"", 1},
                                    {"B", 1},
                                    {"KiB", 1ull << 10},
                                    {"MiB", 1ull << 20},
                                    {"GiB", 1ull << 30},
                                    {"TiB", 1ull << 40},
                                    {"kB", 1000},
                                    {"KB", 1000},
                                    {"MB", 1000 * 1000},
                                    {"GB", 1000ull * 1000 * 1000},
                                    {"TB", 1000ull * 1000 * 1000 * 1000}};
  uint64_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc::result_out_of_range) {
    *out_wrong = fmt::format("'{}' does not fit 64 bits; at most 16777215TiB was expected", shown(text));
    return false;
  }
  if (failed == std::errc()) {
    std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
    if (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    for (const Unit& candidate : kUnits) {
      if (candidate.name != unit) continue;
      if (__builtin_mul_overflow(number, candidate.bytes, out)) {
        *out_wrong = fmt::format("'{}' does not fit 64 bits; at most 16777215TiB was expected", shown(text));
        return false;
      }
      return true;
    }
  }
  *out_wrong =
      fmt::format("'{}' is not a size; an integer with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB was expected, e.g. \"2GiB\"", shown(text));
  return false;
}

void unknown_key(Diagnostics& diagnostics, Place place, const std::string& key, const std::string& title,
                 const std::vector<std::string>& known) {
  std::string hint = did_you_mean(key, known);
  if (hint.empty() && !known.empty()) hint = fmt::format("remove it; known keys here:  {}", fmt::join(known, ", "));
  diagnostics.error(place, "E102", fmt::format("unknown key '{}' in {}", shown(key), title), hint, key.size());
}

TableReader::TableReader(const TomlNode& node, uint32_t file, std::string path, Diagnostics& diagnostics)
    : node_(node), file_(file), path_(std::move(path)), diagnostics_(diagnostics) {
  if (node.kind != TomlNode::kTable) wrong_type(node, "a table");
}

std::string TableReader::path_of(std::string_view key) const {
  // Keys that are not bare keys are quoted, so that the path can be parsed again.
  const bool bare =
      !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
  std::string last = bare ? std::string(key) : fmt::format("\"{}\"", shown(key));
  return path_.empty() ? last : path_ + "." + last;
}

std::string TableReader::title() const {
  return path_.empty() ? "the file" : fmt::format("[{}]", path_);
}

void TableReader::wrong_type(const TomlNode& node, const std::string& expected) {
  diagnostics_.error(
      {file_, node.place}, "E103",
      fmt::format("{} is {}; {} was expected", node.key.empty() ? title() : "'" + shown(node.key) + "'", with_article(node.kind), expected),
      {}, node.kind == TomlNode::kTable || node.kind == TomlNode::kArray ? 1 : to_toml(node).size());
}

const TomlNode* TableReader::value(const std::string& key, std::initializer_list<TomlNode::Kind> kinds) {
  known_.emplace_back(key);
  const TomlNode* found = find(key);
  if (!found) return nullptr;
  if (std::find(kinds.begin(), kinds.end(), found->kind) != kinds.end()) return found;
  std::string expected;
  for (TomlNode::Kind kind : kinds) {
    if (!expected.empty()) expected += " or ";
    expected += with_article(kind);
  }
  wrong_type(*found, expected);
  return nullptr;
}

bool TableReader::string(const char* key, std::string* out) {
  const TomlNode* found = value(key, {TomlNode::kString});
  if (!found) return false;
  if (found->string.find('\0') != std::string::npos) {
    diagnostics_.error(place(*found), "E105", fmt::format("'{}' holds a zero byte; text without one was expected", key));
    return false;
  }
  *out = found->string;
  return true;
}

bool TableReader::boolean(const char* key, bool* out) {
  const TomlNode* found = value(key, {TomlNode::kBool});
  if (found) *out = found->integer != 0;
  return found != nullptr;
}

bool TableReader::integer(const char* key, int64_t min, int64_t max, int64_t* out) {
  const TomlNode* found = value(key, {TomlNode::kInt});
  if (!found) return false;
  if (found->integer < min || found->integer > max) {
    diagnostics_.error(place(*found), "E105", fmt::format("'{}' is {}; {} to {} was expected", key, found->integer, min, max), {},
                       to_toml(*found).size());
    return false;
  }
  *out = found->integer;
  return true;
}

bool TableReader::bytes(const char* key, uint64_t* out) {
  const TomlNode* found = value(key, {TomlNode::kString, TomlNode::kInt});
  if (!found) return false;
  std::string wrong;
  if (found->kind == TomlNode::kInt) {
    if (found->integer >= 0) {
      *out = static_cast<uint64_t>(found->integer);
      return true;
    }
    wrong = fmt::format("'{}' is {}; a size of 0 or more was expected", key, found->integer);
  } else if (parse_bytes(found->string, out, &wrong)) {
    return true;
  }
  diagnostics_.error(place(*found), "E105", wrong, {}, to_toml(*found).size());
  return false;
}

bool TableReader::strings(const char* key, std::vector<std::string>* out, bool allow_empty) {
  const TomlNode* found = value(key, {TomlNode::kArray});
  if (!found) return false;
  std::vector<std::string> read;
  for (const TomlNode& element : found->children) {
    if (element.kind != TomlNode::kString || (element.string.empty() && !allow_empty) || element.string.find('\0') != std::string::npos) {
      diagnostics_.error({file_, element.place}, "E103",
                         fmt::format("'{}' holds {}; {} were expected", key, shown(to_toml(element)),
                                     allow_empty ? "strings" : "strings that are not empty"));
      return false;
    }
    read.push_back(element.string);
  }
  *out = std::move(read);
  return true;
}

bool TableReader::choice(const std::string& key, const std::vector<std::string>& allowed, size_t* out) {
  const TomlNode* found = value(key, {TomlNode::kString});
  if (!found) return false;
  auto word = std::find(allowed.begin(), allowed.end(), found->string);
  if (word != allowed.end()) {
    *out = static_cast<size_t>(word - allowed.begin());
    return true;
  }
  diagnostics_.error(place(*found), "E105",
                     fmt::format("'{}' is \"{}\"; {} was expected", shown(key), shown(found->string), quoted_words(allowed)),
                     did_you_mean(found->string, allowed), to_toml(*found).size());
  return false;
}

std::vector<const TomlNode*> TableReader::tables(const char* key) {
  std::vector<const TomlNode*> found;
  const TomlNode* array = value(key, {TomlNode::kArray});
  if (!array) return found;
  for (const TomlNode& element : array->children) {
    if (element.kind == TomlNode::kTable) {
      found.push_back(&element);
    } else {
      diagnostics_.error({file_, element.place}, "E103",
                         fmt::format("'{}' holds {}; [[{}]] tables were expected", key, with_article(element.kind), path_of(key)));
    }
  }
  return found;
}

void TableReader::require(const char* key, const char* example) {
  if (node_.kind != TomlNode::kTable || find(key)) return;
  Place at = own_place();
  if (path_.empty()) at.at = {};
  diagnostics_.error(at, "E104", fmt::format("{} lacks the key '{}'", title(), key), fmt::format("add it, e.g. {}", example));
}

const TomlNode* TableReader::find(const std::string& key) const {
  if (node_.kind != TomlNode::kTable) return nullptr;
  for (const auto& [now, before] : renamed_) {
    if (now == key) return node_.find(before);
  }
  return node_.find(key);
}

void TableReader::renamed(const char* before, const char* now) {
  const TomlNode* old = find(before);
  if (!old) return;
  known_.emplace_back(before);
  const size_t width = old->key.size();
  if (find(now)) {
    diagnostics_.error(
        key_place(*old), "E107",
        fmt::format("{0} holds both '{1}' and '{2}', which are two names of one key; '{2}' was expected", title(), before, now),
        fmt::format("remove '{}'", before), width);
    return;
  }
  diagnostics_.warning(key_place(*old), "E108", fmt::format("key '{}' in {} has a newer name, '{}'", before, title(), now),
                       fmt::format("write '{}' instead", now), width);
  renamed_.emplace_back(now, before);
}

Place TableReader::value_place(const char* key) const {
  const TomlNode* found = find(key);
  return found ? place(*found) : own_place();
}

std::vector<const TomlNode*> TableReader::rest() {
  std::vector<const TomlNode*> left;
  if (node_.kind != TomlNode::kTable) return left;
  for (const TomlNode& child : node_.children) {
    if (std::find(known_.begin(), known_.end(), child.key) == known_.end()) left.push_back(&child);
  }
  return left;
}

void TableReader::finish(const std::vector<std::string>& more) {
  std::vector<std::string> candidates = known_;
  candidates.insert(candidates.end(), more.begin(), more.end());
  for (const TomlNode* node : rest()) unknown_key(diagnostics_, key_place(*node), node->key, title(), candidates);
}

}  // namespace heddle::host
