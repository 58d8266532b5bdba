// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes untrusted text (from files, plugins, models) safe for a terminal or a log. Used by all code that prints such text.
#pragma once

#include <string>
#include <string_view>

namespace heddle::module {

// One line: characters that are not printable become '?' (line ends and tabs a space). These are C0 and C1 controls, DEL, invalid UTF-8 bytes, and
// marks that change the text direction or end a line without a line feed: a terminal would obey them instead of showing them.
std::string one_line(std::string_view text);
// The same, but line feeds and tabs are kept.
std::string printable(std::string_view text);
// JSON with such characters as \u escapes: the same value. Line feeds and tabs, which JSON allows only between values, are kept.
std::string printable_json(std::string_view text);
// One line that shows the bytes of characters that are not printable, as \0 or \x1b: for texts where these matter.
std::string escaped(std::string_view text);

}  // namespace heddle::module
