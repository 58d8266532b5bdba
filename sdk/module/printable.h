// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text that others wrote (files, plugins, models), as a terminal or a log may get it. Used by every room that prints such text.
#pragma once

#include <string>
#include <string_view>

namespace heddle::module {

// One line: what is no printable character becomes '?' (line ends and tabs a space). Such are C0 and C1 controls, DEL, bytes that are no
// UTF-8, and the marks that turn the direction of what follows or end a line without a line feed: they would be obeyed, not shown.
std::string one_line(std::string_view text);
// The same, but line feeds and tabs stay.
std::string printable(std::string_view text);
// JSON with what would be obeyed as \u escapes: the same value, whole. Line feeds and tabs, which JSON has between values alone, stay.
std::string printable_json(std::string_view text);
// One line that shows the bytes of what is not printable, as \0 or \x1b: where it matters which they were.
std::string escaped(std::string_view text);

}  // namespace heddle::module
