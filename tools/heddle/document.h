// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A report's content, independent of its destination: a terminal, or a page for a browser. Used by explain.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tools/heddle/output.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {

class Document {
 public:
  struct Section {
    std::string title;
    bool is_quiet = false;  // the title is shown on pages only
    std::vector<std::variant<std::string, Table, Json>> parts;
  };
  // Starts a section, to which all later content belongs. Text output has a blank line here.
  void begin(std::string title, bool is_quiet = false) { sections_.push_back({std::move(title), is_quiet, {}}); }
  void add(std::string line) { sections_.back().parts.emplace_back(std::move(line)); }
  // A table without rows is left out.
  void add(Table table) {
    if (!table.rows.empty()) sections_.back().parts.emplace_back(std::move(table));
  }
  void add_tree(Json tree) { sections_.back().parts.emplace_back(std::move(tree)); }

  const std::vector<Section>& sections() const { return sections_; }
  // Prints to stdout.
  void print() const;

 private:
  std::vector<Section> sections_;
};

}  // namespace heddle::tool
