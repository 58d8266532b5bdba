// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Documents as text.
#include "tools/heddle/document.h"

namespace heddle::tool {

void Document::print() const {
  bool is_first = true;
  for (const Section& section : sections_) {
    if (section.parts.empty()) continue;
    if (!is_first) print_line("");
    is_first = false;
    if (!section.is_quiet) print_line(section.title);
    for (size_t i = 0; i < section.parts.size(); ++i) {
      const auto& part = section.parts[i];
      if (const auto* line = std::get_if<std::string>(&part)) {
        print_line(*line);
      } else if (const auto* table = std::get_if<Table>(&part)) {
        if (i != 0 && std::holds_alternative<Table>(section.parts[i - 1])) print_line("");
        print_table(*table, Format::kTable);
      } else {
        print_tree(std::get<Json>(part), "  ");
      }
    }
  }
}

}  // namespace heddle::tool
