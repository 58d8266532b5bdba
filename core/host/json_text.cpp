// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/host/json_text.h"

#include <fmt/format.h>

namespace heddle::host {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    size_t length = c < 0x80 ? 1 : c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 0;
    bool whole = length != 0 && i + length <= text.size();
    for (size_t j = 1; whole && j < length; ++j) whole = (static_cast<unsigned char>(text[i + j]) & 0xC0) == 0x80;
    if (!whole) {
      out += "\\ufffd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out.append(text.substr(i, length));
    }
    i += length;
  }
  return out + '"';
}

std::string json_quoted(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out.append(out.size() > 1 ? "," : "").append(json_quoted(text));
  return out + "]";
}

}  // namespace heddle::host
