// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A growing HTML text. Names come from untrusted files: everything but tags goes through text().
#pragma once

#include <string>
#include <string_view>

namespace heddle::tool {

class Html {
 public:
  // Tags of this program, without names from files.
  Html& raw(std::string_view html) {
    html_ += html;
    return *this;
  }
  Html& number(double value);  // with one decimal if needed
  Html& number(size_t value) { return raw(std::to_string(value)); }
  // Escaped for an element's content and for a quoted attribute; on one line.
  Html& text(std::string_view given);
  Html& element(std::string_view name, std::string_view content) {
    return raw("<").raw(name).raw(">").text(content).raw("</").raw(name).raw(">");
  }
  std::string take() { return std::move(html_); }

 private:
  std::string html_;
};

// "4.1 %"
std::string share_text(double share);

// Columns of text in a font of fixed width: wide characters of East Asian scripts and emoji take two.
size_t columns_of(std::string_view text);
// At most `most` columns; what does not fit is replaced by an ellipsis.
std::string cut_end(const std::string& text, size_t most);
std::string cut_begin(const std::string& text, size_t most);

}  // namespace heddle::tool
