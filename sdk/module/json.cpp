// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The writer appends to one string; the check is a loop, so that nested input does not use the stack.
#include "sdk/module/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sdk/module/utf8.h"

namespace heddle::module {
namespace {

// Whether a character needs neither an escape nor a look at its neighbors.
bool is_plain(char c) {
  return c >= ' ' && c != '"' && c != '\\' && c != 0x7f;
}

void append_escape(uint8_t byte, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out.append("\\u00").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
}

// A reader of characters that checks without keeping anything.
class Checker {
 public:
  Checker(std::string_view text, uint32_t most_levels) : text_(text), most_levels_(most_levels < 64 ? most_levels : 64) {}

  bool check() {
    uint64_t objects = 0;  // a bit per open level: is it an object?
    uint32_t levels = 0;
    auto in_object = [&] { return (objects >> (levels - 1) & 1) != 0; };
    for (;;) {
      skip_space();
      bool is_over = true;  // a value, not the start of one
      if (peek() == '{' || peek() == '[') {
        if (levels == most_levels_) return false;
        const bool is_object = peek() == '{';
        objects = (objects & ~(uint64_t{1} << levels)) | uint64_t{is_object} << levels;
        ++levels;
        ++at_;
        skip_space();
        if (skip(is_object ? '}' : ']')) {
          --levels;
        } else {
          if (is_object && !key()) return false;
          is_over = false;
        }
      } else if (!scalar()) {
        return false;
      }
      while (is_over) {
        skip_space();
        if (levels == 0) return at_ == text_.size();
        if (skip(',')) {
          if (in_object() && !key()) return false;
          is_over = false;
        } else {
          if (!skip(in_object() ? '}' : ']')) return false;
          --levels;
        }
      }
    }
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool skip(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at_;
  }
  bool word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  bool key() {
    skip_space();
    if (!string()) return false;
    skip_space();
    return skip(':');
  }

  bool scalar() {
    switch (peek()) {
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  bool string() {
    if (!skip('"')) return false;
    for (;;) {
      while (at_ < text_.size() && static_cast<uint8_t>(text_[at_]) >= 0x20 && text_[at_] != '"' && text_[at_] != '\\') ++at_;
      if (skip('"')) return true;
      if (!skip('\\')) return false;
      if (peek() != 'u') {
        if (at_ == text_.size() || std::string_view("\"\\/bfnrt").find(text_[at_]) == std::string_view::npos) return false;
        ++at_;
        continue;
      }
      uint32_t first = 0, second = 0;
      if (!code_unit(first)) return false;
      const bool is_high = first >= 0xd800 && first < 0xdc00, is_low = first >= 0xdc00 && first < 0xe000;
      if (is_low) return false;
      if (is_high && (!skip('\\') || !code_unit(second) || second < 0xdc00 || second >= 0xe000)) return false;
    }
  }

  bool code_unit(uint32_t& out) {
    if (!skip('u') || text_.size() - at_ < 4) return false;
    const auto read = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, out, 16);
    if (read.ec != std::errc() || read.ptr != text_.data() + at_ + 4) return false;
    at_ += 4;
    return true;
  }

  bool digits() {
    const size_t first = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ != first;
  }

  bool number() {
    const size_t first = at_;
    skip('-');
    if (!skip('0') && !digits()) return false;
    bool is_short = at_ - first < 300;
    if (skip('.') && !digits()) return false;
    if (peek() == 'e' || peek() == 'E') {
      is_short = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return false;
    }
    if (is_short) return true;
    double value = 0;
    return std::from_chars(text_.data() + first, text_.data() + at_, value).ec == std::errc();
  }

  const std::string_view text_;
  const uint32_t most_levels_;
  size_t at_ = 0;

 public:
  size_t at() const { return at_; }
};

void append_utf8(uint32_t c, std::string& out) {
  auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | (c >> shift & 0x3f))); };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    tail(6), tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | c >> 18));
    tail(12), tail(6), tail(0);
  }
}

}  // namespace

void JsonWriter::new_line() {
  if (indent_ != 0) out_.append(1, '\n').append(indent_ * levels_, ' ');
}

void JsonWriter::begin_value() {
  if (out_.empty() || out_.back() == ':' || out_.ends_with(": ")) return;
  if (out_.back() != '{' && out_.back() != '[') out_ += ',';
  new_line();
}

JsonWriter& JsonWriter::open(char bracket) {
  begin_value();
  out_ += bracket;
  ++levels_;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --levels_;
  if (out_.back() != '{' && out_.back() != '[') new_line();
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  text(name);
  out_.append(indent_ != 0 ? ": " : ":");
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  begin_value();
  out_ += '"';
  for (size_t i = 0; i < value.size();) {
    size_t plain = i;
    while (plain < value.size() && is_plain(value[plain])) ++plain;
    out_.append(value, i, plain - i);
    if ((i = plain) == value.size()) break;
    const auto lead = static_cast<uint8_t>(value[i]);
    if (lead == '"' || lead == '\\') {
      out_.append(1, '\\').append(1, value[i++]);
    } else if (lead < 0x80) {
      append_escape(lead, out_);
      ++i;
    } else {
      const std::string_view character = value.substr(i, lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4);
      const bool is_whole = is_utf8_text(character);
      out_.append(is_whole ? character : "\xEF\xBF\xBD");
      i += is_whole ? character.size() : 1;
    }
  }
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::real(double value) {
  if (!std::isfinite(value)) return null();
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof(digits), value);
  const std::string_view text(digits, static_cast<size_t>(written.ptr - digits));
  begin_value();
  out_.append(text).append(text.find_first_of(".e") == text.npos ? ".0" : "");
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  return json(value ? "true" : "false");
}

JsonWriter& JsonWriter::null() {
  return json("null");
}

JsonWriter& JsonWriter::json(std::string_view value) {
  begin_value();
  out_ += value;
  return *this;
}

bool is_json(std::string_view text, uint32_t most_levels, size_t* out_wrong) {
  Checker checker(text, most_levels);
  const bool good = checker.check() && is_utf8_text(text);
  if (out_wrong) *out_wrong = checker.at();
  return good;
}

char JsonReader::next() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::enter(char bracket) {
  if (next() != bracket) return false;
  ++at_;
  return true;
}

bool JsonReader::more() {
  const char c = next();
  if (c == ',') ++at_;
  if (c != '}' && c != ']') return c != '\0';
  ++at_;
  return false;
}

void JsonReader::skip_string() {
  for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\';
  ++at_;
}

std::string JsonReader::string() {
  const size_t first = at_ + 1;
  skip_string();
  const std::string_view given = text_.substr(first, at_ - first - 1);
  std::string out;
  out.reserve(given.size());
  for (size_t i = 0; i < given.size();) {
    const size_t plain = std::min(given.find('\\', i), given.size());
    out.append(given, i, plain - i);
    if ((i = plain + 1) >= given.size()) break;
    const char c = given[i++];
    if (c == 'u') {
      auto unit = [&] {
        uint32_t value = 0;
        std::from_chars(given.data() + i, given.data() + i + 4, value, 16);
        i += 4;
        return value;
      };
      uint32_t code = unit();
      if (code >= 0xd800 && code < 0xdc00) {
        i += 2;
        code = 0x10000 + ((code - 0xd800) << 10 | (unit() - 0xdc00));
      }
      append_utf8(code, out);
    } else {
      constexpr std::string_view kNames = "bfnrt", kMeant = "\b\f\n\r\t";
      const size_t known = kNames.find(c);
      out.push_back(known == kNames.npos ? c : kMeant[known]);
    }
  }
  return out;
}

std::string JsonReader::key() {
  next();
  std::string name = string();
  next();
  ++at_;  // the colon
  return name;
}

bool JsonReader::text(std::string& out) {
  if (next() != '"') return false;
  out = string();
  return true;
}

bool JsonReader::natural(uint64_t& out) {
  next();
  const char* const end = text_.data() + text_.size();
  const auto read = std::from_chars(text_.data() + at_, end, out);
  if (read.ec != std::errc() || (read.ptr != end && (*read.ptr == '.' || *read.ptr == 'e' || *read.ptr == 'E'))) return false;
  at_ = static_cast<size_t>(read.ptr - text_.data());
  return true;
}

void JsonReader::skip() {
  next();
  size_t levels = 0;
  do {
    const char c = next();
    if (c == '"') {
      skip_string();
      continue;
    }
    levels += c == '{' || c == '[';
    levels -= c == '}' || c == ']';
    ++at_;
    if (c == ',' || c == ':' || c == '{' || c == '}' || c == '[' || c == ']') continue;
    while (at_ < text_.size() && std::string_view(" \n\t\r,]}").find(text_[at_]) == std::string_view::npos) ++at_;
  } while (levels != 0 && at_ < text_.size());
}

std::string without_members(std::string_view text, std::initializer_list<std::string_view> names) {
  constexpr std::string_view kSpace = " \n\t\r";
  std::string out;
  out.reserve(text.size());
  size_t kept = 0;  // what comes before is in out, or left out
  for (size_t at = text.find('"'); at != text.npos; at = text.find('"', at)) {
    const size_t start = at;
    JsonReader name(text.substr(start));
    name.skip();
    at += name.at();
    const size_t colon = text.find_first_not_of(kSpace, at);
    const std::string_view given = text.substr(start + 1, at - start - 2);
    if (colon == text.npos || text[colon] != ':' || std::find(names.begin(), names.end(), given) == names.end()) continue;
    JsonReader value(text.substr(colon + 1));
    value.skip();
    at = text.find_first_not_of(kSpace, colon + 1 + value.at());
    out.append(text, kept, start - kept);
    // The comma after it goes, too, or the one before it.
    if (text[at] == ',') {
      ++at;
    } else {
      out.erase(out.find_last_not_of(kSpace) + 1);
      if (out.back() == ',') out.pop_back();
    }
    kept = at;
  }
  return out.append(text.substr(kept));
}

}  // namespace heddle::module
