// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From JSON to tables.
#include "tools/heddle/report_view.h"

#include <algorithm>

namespace heddle::tool {

Json parse_json(const std::string& text) { return Json::parse(text, nullptr, false); }

std::string dump_json(const Json& value, int indent) { return value.dump(indent, ' ', false, Json::error_handler_t::replace); }

std::string cell_text(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    return text.empty() ? "-" : text;
  }
  if (value.is_array()) {
    std::string out;
    for (const Json& one : value) out += (out.empty() ? "" : ", ") + cell_text(one);
    return out.empty() ? "-" : out;
  }
  return dump_json(value, -1);
}

Column field(const std::string& title, const std::string& name) {
  return {title, [name](const Json& row) { return row.is_object() && row.contains(name) ? cell_text(row[name]) : std::string("-"); }};
}

void print_rows(const Json& whole, const Json& rows, const std::vector<Column>& columns, Format format) {
  if (format == Format::kJson) return print_line(dump_json(whole, 2));
  if (format == Format::kJsonLines) {
    for (const Json& row : rows) print_line(dump_json(row, -1));
    return;
  }
  Table table;
  for (const Column& column : columns) table.header.push_back(column.title);
  for (const Json& row : rows) {
    table.rows.emplace_back();
    for (const Column& column : columns) table.rows.back().push_back(column.cell(row));
  }
  print_table(table, format);
}

void print_tree(const Json& value, const std::string& indent, int depth) {
  if (depth > 12) return print_line(indent + "...");
  const bool object = value.is_object();
  size_t index = 0;
  for (auto item = value.begin(); item != value.end(); ++item, ++index) {
    const std::string name = object ? item.key() : "-";
    const bool flat = item->is_array() && std::none_of(item->begin(), item->end(), [](const Json& one) { return one.is_structured(); });
    if (item->is_structured() && !flat) {
      // A list of records: each on one line as long as its own values are plain.
      const bool record = item->is_object() && std::none_of(item->begin(), item->end(), [](const Json& one) { return one.is_structured(); });
      if (record && !object) {
        std::string line;
        for (auto part = item->begin(); part != item->end(); ++part) line += (line.empty() ? "" : ", ") + part.key() + ": " + cell_text(*part);
        print_line(indent + "- " + line);
      } else {
        print_line(indent + name + (object ? ":" : ""));
        print_tree(*item, indent + "  ", depth + 1);
      }
    } else {
      print_line(indent + name + (object ? ": " : " ") + cell_text(*item));
    }
  }
}

}  // namespace heddle::tool
