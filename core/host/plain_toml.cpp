// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pass over the lines. Whatever is unusual or wrong ends it, so that toml++ alone decides what such a text means, and words the errors.
#include "core/host/plain_toml.h"

#include <algorithm>
#include <charconv>

namespace heddle::host {
namespace {

constexpr size_t kMaxPlainBytes = 64 << 10;
constexpr size_t kMaxDigits = 18;  // fits 64 bits
constexpr size_t kMaxTables = 8;   // nested
constexpr size_t kMaxLine = 4096;  // of bytes,
constexpr auto kMaxDots = 64;      // and of dots: below the limits of parse_toml

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

class PlainToml {
 public:
  explicit PlainToml(std::string_view text) : text_(text) {}

  bool read(TomlNode* root) {
    *root = {};
    TomlNode* table = root;
    for (; at_ < text_.size(); ++line_) {
      line_start_ = at_;
      skip_blanks();
      if (peek() == '[') {
        table = header(root);
        if (!table) return false;
      } else if (is_bare(peek())) {
        if (!key_and_value(*table)) return false;
      }
      if (!end_of_line()) return false;
    }
    index(*root);
    return true;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool skip(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  TomlPlace place() const { return {line_, static_cast<uint32_t>(at_ - line_start_ + 1)}; }

  // Blanks, a comment, the line feed.
  bool end_of_line() {
    skip_blanks();
    if (peek() == '#') {
      for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
        if ((text_[at_] < ' ' || text_[at_] > '~') && text_[at_] != '\t') return false;
      }
    }
    const std::string_view line = text_.substr(line_start_, at_ - line_start_);
    if (line.size() > kMaxLine || (line.size() > kMaxDots && std::count(line.begin(), line.end(), '.') > kMaxDots)) return false;
    return at_ == text_.size() || skip('\n');
  }

  std::string_view bare_key() {
    const size_t first = at_;
    while (is_bare(peek())) ++at_;
    return text_.substr(first, at_ - first);
  }

  static TomlNode* child_of(TomlNode& table, std::string_view key) {
    for (TomlNode& child : table.children) {
      if (child.key == key) return &child;
    }
    return nullptr;
  }

  static TomlNode& add_child(TomlNode& table, std::string_view key, TomlPlace key_place) {
    TomlNode& child = table.children.emplace_back();
    child.key = key;
    child.key_place = key_place;
    return child;
  }

  // Creates the table of a header and the ones that contain it; NULL if it exists.
  TomlNode* header(TomlNode* root) {
    const TomlPlace start = place();
    ++at_;
    TomlNode* table = root;
    for (size_t depth = 0; depth < kMaxTables; ++depth) {
      const TomlPlace key_place = place();
      const std::string_view key = bare_key();
      if (key.empty()) return nullptr;
      const bool is_last = peek() == ']';
      TomlNode* known = child_of(*table, key);
      if (known && (is_last || known->kind != TomlNode::kTable)) return nullptr;
      if (!known) {
        known = &add_child(*table, key, key_place);
        known->place = start;
      }
      table = known;
      if (is_last) return skip(']') ? table : nullptr;
      if (!skip('.')) return nullptr;
    }
    return nullptr;
  }

  bool key_and_value(TomlNode& table) {
    const TomlPlace key_place = place();
    const std::string_view key = bare_key();
    skip_blanks();
    if (!skip('=') || child_of(table, key)) return false;
    skip_blanks();
    return value(add_child(table, key, key_place), true);
  }

  bool value(TomlNode& out, bool may_be_array) {
    out.place = place();
    if (out.key_place.line == 0) out.key_place = out.place;
    if (skip('"')) {
      out.kind = TomlNode::kString;
      const size_t first = at_;
      while (peek() >= ' ' && peek() <= '~' && peek() != '"' && peek() != '\\') ++at_;
      out.string = text_.substr(first, at_ - first);
      return skip('"') && ends_value();
    }
    if (skip('[')) {
      out.kind = TomlNode::kArray;
      if (!may_be_array) return false;
      for (skip_blanks(); !skip(']'); skip_blanks()) {
        if (!value(out.children.emplace_back(), false)) return false;
        skip_blanks();
        if (!skip(',') && peek() != ']') return false;
      }
      return ends_value();
    }
    const size_t first = at_;
    while (is_bare(peek())) ++at_;
    const std::string_view word = text_.substr(first, at_ - first);
    if (word == "true" || word == "false") {
      out.kind = TomlNode::kBool;
      out.integer = word == "true" ? 1 : 0;
      return ends_value();
    }
    out.kind = TomlNode::kInt;
    const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.size() > kMaxDigits || (digits[0] == '0' && word.size() > 1)) return false;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), out.integer);
    return read.ec == std::errc() && read.ptr == word.data() + word.size() && ends_value();
  }

  // Not a longer value, such as "0.5" or a string of several lines.
  bool ends_value() const {
    const char next = peek();
    return is_blank(next) || next == '\n' || next == ',' || next == ']' || next == '#';
  }

  static void index(TomlNode& table) {
    table.by_key.resize(table.children.size());
    for (uint32_t i = 0; i < table.by_key.size(); ++i) table.by_key[i] = i;
    std::sort(table.by_key.begin(), table.by_key.end(),
              [&](uint32_t a, uint32_t b) { return table.children[a].key < table.children[b].key; });
    for (TomlNode& child : table.children) {
      if (child.kind == TomlNode::kTable) index(child);
    }
  }

  const std::string_view text_;
  size_t at_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

bool parse_plain_toml(std::string_view text, TomlNode* out_root) {
  return text.size() <= kMaxPlainBytes && PlainToml(text).read(out_root);
}

}  // namespace heddle::host
