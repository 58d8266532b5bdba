// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/page/html.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "sdk/module/printable.h"

namespace heddle::tool {
namespace {

constexpr const char kEllipsis[] = "\xE2\x80\xA6";

struct Character {
  size_t begin, columns;
};

// Of printable text.
std::vector<Character> characters(std::string_view text) {
  std::vector<Character> out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // From U+1100 on: Hangul, ideographs, wide forms, emoji; some narrow ones are among them.
    const bool is_wide = length == 4 || (length == 3 && lead >= 0xE1 &&
                                         !(lead == 0xE2 || (lead == 0xE1 && static_cast<unsigned char>(text[i + 1]) >= 0xA0)));
    out.push_back({i, is_wide ? size_t{2} : size_t{1}});
    i += length;
  }
  return out;
}

}  // namespace

std::string share_text(double share) {
  char out[32];
  std::snprintf(out, sizeof(out), "%.1f %%", share * 100);
  return out;
}

Html& Html::number(double value) {
  char digits[40];
  std::snprintf(digits, sizeof(digits), value == std::floor(value) ? "%.0f" : "%.1f", value);
  return raw(digits);
}

Html& Html::text(std::string_view given) {
  for (const char c : module::one_line(given)) {
    switch (c) {
      case '&':
        html_ += "&amp;";
        break;
      case '<':
        html_ += "&lt;";
        break;
      case '>':
        html_ += "&gt;";
        break;
      case '"':
        html_ += "&quot;";
        break;
      case '\'':
        html_ += "&#39;";
        break;
      default:
        html_ += c;
    }
  }
  return *this;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (const Character& one : characters(module::one_line(text))) columns += one.columns;
  return columns;
}

std::string cut_end(const std::string& text, size_t most) {
  const std::string line = module::one_line(text);
  if (columns_of(line) <= most) return line;
  size_t columns = 1;  // the ellipsis
  for (const Character& one : characters(line)) {
    columns += one.columns;
    if (columns > most) return line.substr(0, one.begin) + kEllipsis;
  }
  return line;
}

std::string cut_begin(const std::string& text, size_t most) {
  const std::string line = module::one_line(text);
  if (columns_of(line) <= most) return line;
  const std::vector<Character> all = characters(line);
  size_t columns = 1, begin = line.size();
  for (size_t i = all.size(); i-- > 0;) {
    columns += all[i].columns;
    if (columns > most) break;
    begin = all[i].begin;
  }
  return kEllipsis + line.substr(begin);
}

}  // namespace heddle::tool
