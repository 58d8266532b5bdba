// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns help texts into manual pages, for `heddle help --man`. Called by main.cpp; starts nothing and reads no file.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

struct HelpText {
  std::string name;  // "heddle run"
  std::string summary;
  std::string text;  // of --help
};

// A page in man(7). parts: the actions of a command, each with a section.
std::string man_page(const HelpText& help, const std::vector<HelpText>& parts, const std::string& version);

// The words that begin the indented lines below the line `heading` of a help text.
std::vector<std::string> entries_of(const std::string& help, const std::string& heading);

}  // namespace heddle::tool
