// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes one character at a time: its length from its first byte, its validity from is_utf8_text.
#include "sdk/module/printable.h"

#include <cstdint>

#include "sdk/module/utf8.h"

namespace heddle::module {
namespace {

// The code point of a sequence of 1 to 3 bytes; longer ones contain no relevant character.
uint32_t code_point(std::string_view bytes) {
  auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() == 1) return at(0);
  if (bytes.size() == 2) return (at(0) & 0x1fu) << 6 | (at(1) & 0x3fu);
  return (at(0) & 0x0fu) << 12 | (at(1) & 0x3fu) << 6 | (at(2) & 0x3fu);
}

bool is_obeyed(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

enum class Style { kLines, kLine, kEscaped, kJson };

constexpr char kDigits[] = "0123456789abcdef";

void escape(uint8_t byte, std::string* out) {
  if (byte == 0) {
    out->append("\\0");
  } else {
    out->append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
  }
}

std::string cleaned(std::string_view text, Style style) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t plain = i;
    while (plain < text.size() && text[plain] >= ' ' && text[plain] <= '~') ++plain;
    out.append(text, i, plain - i);
    if ((i = plain) == text.size()) break;
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead == '\n' || lead == '\t' || (lead == '\r' && (style == Style::kLine || style == Style::kEscaped))) {
      out.push_back(style == Style::kLine || style == Style::kEscaped ? ' ' : static_cast<char>(lead));
      ++i;
      continue;
    }
    const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const std::string_view character = text.substr(i, length);
    const bool whole = character.size() == length && is_utf8_text(character);
    if (!whole || (length < 4 && is_obeyed(code_point(character)))) {
      if (style == Style::kJson && whole) {
        out.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kDigits[code_point(character) >> shift & 15]);
      } else if (style != Style::kEscaped) {
        out.push_back('?');
      } else {
        for (char c : whole ? character : character.substr(0, 1)) escape(static_cast<uint8_t>(c), &out);
      }
    } else {
      out.append(character);
    }
    i += whole ? length : 1;
  }
  return out;
}

}  // namespace

std::string one_line(std::string_view text) {
  return cleaned(text, Style::kLine);
}

std::string printable(std::string_view text) {
  return cleaned(text, Style::kLines);
}

std::string printable_json(std::string_view text) {
  return cleaned(text, Style::kJson);
}

std::string escaped(std::string_view text) {
  return cleaned(text, Style::kEscaped);
}

}  // namespace heddle::module
