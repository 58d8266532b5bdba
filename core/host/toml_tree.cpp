// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// toml++ behind a small tree. toml++ stops at the first error: the line it stops at is blanked and the text read again, so that all
// errors of a file are reported at once. Depth is bounded before it reads, since it frees deep trees recursively.
#include "core/host/toml_tree.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_WINDOWS_COMPAT 0
#define TOML_MAX_NESTED_VALUES 16
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace heddle::host {
namespace {

constexpr size_t kMaxErrors = 20;
constexpr size_t kMaxTextBytes = 1 << 20;
constexpr size_t kMaxLineBytes = 8192;
constexpr size_t kMaxDotsInLine = 128;  // each may open one level of tables
constexpr uint32_t kMaxDepth = 24;

TomlPlace place_of(const toml::source_position& position) { return {position.line, position.column}; }

void convert(const toml::node& source, uint32_t depth, TomlNode& target, std::vector<TomlError>& errors);

void convert_table(const toml::table& source, uint32_t depth, TomlNode& target, std::vector<TomlError>& errors) {
  target.kind = TomlNode::kTable;
  target.children.reserve(source.size());
  for (const auto& [key, value] : source) {
    TomlNode& child = target.children.emplace_back();
    child.key = std::string(key.str());
    child.key_place = place_of(key.source().begin);
    convert(value, depth + 1, child, errors);
  }
  std::sort(target.children.begin(), target.children.end(), [](const TomlNode& a, const TomlNode& b) {
    return std::tie(a.key_place.line, a.key_place.column, a.key) < std::tie(b.key_place.line, b.key_place.column, b.key);
  });
}

void convert(const toml::node& source, uint32_t depth, TomlNode& target, std::vector<TomlError>& errors) {
  target.place = place_of(source.source().begin);
  if (target.key_place.line == 0) target.key_place = target.place;
  if (depth > kMaxDepth) {
    if (errors.size() < kMaxErrors) errors.push_back({target.key_place, fmt::format("nested deeper than {} levels", kMaxDepth)});
    return;
  }
  switch (source.type()) {
    case toml::node_type::table: convert_table(*source.as_table(), depth, target, errors); return;
    case toml::node_type::array:
      target.kind = TomlNode::kArray;
      for (const toml::node& element : *source.as_array()) convert(element, depth + 1, target.children.emplace_back(), errors);
      return;
    case toml::node_type::string:
      target.kind = TomlNode::kString;
      target.string = source.as_string()->get();
      return;
    case toml::node_type::integer:
      target.kind = TomlNode::kInt;
      target.integer = source.as_integer()->get();
      return;
    case toml::node_type::floating_point:
      target.kind = TomlNode::kFloat;
      target.number = source.as_floating_point()->get();
      return;
    case toml::node_type::boolean:
      target.kind = TomlNode::kBool;
      target.integer = source.as_boolean()->get() ? 1 : 0;
      return;
    default: target.kind = TomlNode::kDate; return;
  }
}

// The start of that line, counted from 1, or npos.
size_t line_start(const std::string& text, uint32_t line) {
  size_t start = 0;
  for (uint32_t i = 1; i < line; ++i) {
    start = text.find('\n', start);
    if (start == std::string::npos) return start;
    ++start;
  }
  return start;
}

// Turns the line into spaces; false if there was nothing left to blank.
bool blank_line(std::string& text, uint32_t line, bool* out_was_header) {
  size_t start = line_start(text, line);
  if (start == std::string::npos) return false;
  size_t end = std::min(text.find('\n', start), text.size());
  bool changed = false;
  const size_t first = text.find_first_not_of(" \t", start);
  if (first < end && text[first] == '[') *out_was_header = true;
  for (size_t i = start; i < end; ++i) {
    if (text[i] == ' ') continue;
    text[i] = ' ';
    changed = true;
  }
  return changed;
}

// What could make the parser recurse without bound is an error of its own.
bool within_bounds(std::string& text, std::vector<TomlError>& errors) {
  if (text.size() > kMaxTextBytes) {
    errors.push_back({{1, 1}, fmt::format("the file has {} bytes; at most {} are read", text.size(), kMaxTextBytes)});
    return false;
  }
  uint32_t line = 1;
  for (size_t start = 0; start < text.size() && errors.size() < kMaxErrors; ++line) {
    size_t end = std::min(text.find('\n', start), text.size());
    const size_t dots = static_cast<size_t>(std::count(text.begin() + start, text.begin() + end, '.'));
    if (end - start > kMaxLineBytes || dots > kMaxDotsInLine) {
      errors.push_back({{line, 1}, fmt::format("the line has {} bytes and {} dots; at most {} and {} are read", end - start, dots,
                                               kMaxLineBytes, kMaxDotsInLine)});
      std::fill(text.begin() + start, text.begin() + end, ' ');
    }
    start = end + 1;
  }
  return true;
}

}  // namespace

TomlTree parse_toml(std::string_view source) {
  TomlTree tree;
  std::string text(source.substr(0, kMaxTextBytes + 1));
  if (!within_bounds(text, tree.errors)) return tree;
  for (;;) {
    toml::parse_result parsed = toml::parse(std::string_view(text));
    if (parsed) {
      convert_table(parsed.table(), 0, tree.root, tree.errors);
      break;
    }
    const toml::parse_error& failed = parsed.error();
    TomlPlace place = place_of(failed.source().begin);
    std::string description(failed.description());
    if (!description.empty()) description[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(description[0])));
    tree.errors.push_back({place, std::move(description)});
    if (tree.errors.size() >= kMaxErrors || !blank_line(text, place.line, &tree.lost_header)) break;
  }
  return tree;
}

const char* name_of(TomlNode::Kind kind) {
  constexpr const char* kNames[] = {"table", "array", "string", "integer", "float", "boolean", "date"};
  return kNames[kind];
}

std::string to_toml(const TomlNode& node) {
  switch (node.kind) {
    case TomlNode::kTable: return "{...}";
    case TomlNode::kString: {
      std::string text = "\"";
      for (char c : node.string) {
        if (c == '"' || c == '\\') text += '\\';
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          text += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
        } else {
          text += c;
        }
      }
      return text + '"';
    }
    case TomlNode::kInt: return fmt::format("{}", node.integer);
    case TomlNode::kFloat: return fmt::format("{}", node.number);
    case TomlNode::kBool: return node.integer ? "true" : "false";
    case TomlNode::kDate: return "<date>";
    case TomlNode::kArray: {
      std::string text = "[";
      for (const TomlNode& child : node.children) text.append(text.size() > 1 ? ", " : "").append(to_toml(child));
      return text + "]";
    }
  }
  return {};
}

}  // namespace heddle::host
