// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns JSON into tables.
#include "tools/heddle/report_view.h"

#include <algorithm>

#include "tools/heddle/session.h"

namespace heddle::tool {

Json parse_json(const std::string& text) {
  return Json::parse(text, nullptr, false);
}

std::string dump_json(const Json& value, int indent) {
  return module::printable_json(value.dump(indent, ' ', false, Json::error_handler_t::replace));
}

Json function_report(heddle_module_t* module, const std::string& name) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_module_report(module, &raw)) {
    heddle_status_free(status);
    return Json::object();
  }
  const Json whole = parse_json(text_of(Text(raw)));
  const Json& functions = array(whole, "functions");
  for (const Json& function : functions) {
    if (functions.size() == 1 || text(function, "name") == (name.empty() ? "main" : name)) return function;
  }
  return Json::object();
}

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

std::string text(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) ? cell_text(object[name]) : "-";
}
uint64_t number(const Json& object, const char* name) {
  return object.is_object() && object.contains(name) && object[name].is_number_unsigned() ? object[name].get<uint64_t>() : 0;
}
const Json& array(const Json& object, const char* name) {
  static const Json kNone = Json::array();
  return object.is_object() && object.contains(name) && object[name].is_array() ? object[name] : kNone;
}
const Json& part(const Json& whole, const char* name) {
  static const Json kNothing = Json::object();
  return whole.is_object() && whole.contains(name) ? whole[name] : kNothing;
}

Column field(const std::string& title, const std::string& name) {
  return {title, [name](const Json& row) { return row.is_object() && row.contains(name) ? cell_text(row[name]) : std::string("-"); }, {}};
}

void print_rows(const Json& whole, const Json& rows, const std::vector<Column>& columns, Format format) {
  if (format == Format::kJson) return print_line(dump_json(whole, 2));
  if (format == Format::kJsonLines) {
    for (const Json& row : rows) print_line(dump_json(row, -1));
    return;
  }
  Table table;
  std::vector<Column> shown = columns;
  std::vector<Column> below;
  if (format == Format::kTable) {
    std::copy_if(shown.begin(), shown.end(), std::back_inserter(below), [](const Column& column) { return column.is_below; });
    std::erase_if(shown, [](const Column& column) { return column.is_below; });
  }
  for (Column& column : shown) {
    if (format == Format::kCsv && !column.plain_field.empty()) column = field(column.plain_field, column.plain_field);
    table.header.push_back(column.title);
  }
  for (const Json& row : rows) {
    table.rows.emplace_back();
    for (const Column& column : shown) table.rows.back().push_back(column.cell(row));
    table.below.emplace_back();
    for (const Column& column : below) {
      if (std::string text = column.cell(row); text != "-") table.below.back().push_back(column.title + ": " + text);
    }
  }
  print_table(table, format);
}

bool is_plain(const Json& value) {
  return !value.is_structured() ||
         (value.is_array() && std::none_of(value.begin(), value.end(), [](const Json& one) { return one.is_structured(); }));
}

std::string plain_fields(const Json& record) {
  std::string line;
  for (auto part = record.begin(); part != record.end(); ++part) {
    if (is_plain(*part)) line += (line.empty() ? "" : ", ") + part.key() + ": " + cell_text(*part);
  }
  return line;
}

namespace {

void print_nested_fields(const Json& record, const std::string& indent, int depth) {
  for (auto part = record.begin(); part != record.end(); ++part) {
    if (is_plain(*part)) continue;
    print_line(indent + part.key() + ":");
    print_tree(*part, indent + "  ", depth + 1);
  }
}

}  // namespace

void print_tree(const Json& value, const std::string& indent, int depth) {
  if (depth > 12) return print_line(indent + "...");
  if (value.is_object()) {
    for (auto part = value.begin(); part != value.end(); ++part) {
      if (is_plain(*part)) print_line(indent + part.key() + ": " + cell_text(*part));
    }
    print_nested_fields(value, indent, depth);
  } else if (value.is_array()) {
    for (const Json& item : value) {
      if (item.is_object()) {
        print_line(indent + "- " + plain_fields(item));
        print_nested_fields(item, indent + "  ", depth);
      } else if (is_plain(item)) {
        print_line(indent + "- " + cell_text(item));
      } else {
        print_line(indent + "-");
        print_tree(item, indent + "  ", depth + 1);
      }
    }
  } else {
    print_line(indent + cell_text(value));
  }
}

}  // namespace heddle::tool
