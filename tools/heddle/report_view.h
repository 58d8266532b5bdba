// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's JSON reports, printed in the form that was asked for. Used by devices, plugins, config, explain and bench, and by what names symbols.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heddle/runtime.h"
#include "tools/heddle/output.h"

namespace heddle::tool {

using Json = nlohmann::ordered_json;

// Discarded (is_discarded()) if the text is not JSON.
Json parse_json(const std::string& text);
std::string dump_json(const Json& value, int indent);

// What the module's report says of the function of that name; empty: of the only one, or "main". An empty object where it says nothing.
Json function_report(heddle_module_t* module, const std::string& name);

// Fields of what may be no object, or have no such field: "-", 0, an empty array.
std::string text(const Json& object, const char* name);
uint64_t number(const Json& object, const char* name);
const Json& array(const Json& object, const char* name);

// A column: its title, and the text of a row's cell. In CSV, which programs read, a column with a plain field has that field's name, which
// says the unit, and its value as it is.
struct Column {
  std::string title;
  std::function<std::string(const Json& row)> cell;
  std::string plain_field = {};
  bool is_below = false;  // in a table: on a line of its own under the row, and nowhere when it is empty
};
// The field of that name as text: strings as they are, null and absent as "-".
Column field(const std::string& title, const std::string& name);
std::string cell_text(const Json& value);

// rows: an array of objects. json prints `whole`, jsonl one row a line, the others a table.
void print_rows(const Json& whole, const Json& rows, const std::vector<Column>& columns, Format format);

// A value without records in it.
bool is_plain(const Json& value);
// "kernel: k0, cost: 3": the plain fields of a record, on one line.
std::string plain_fields(const Json& record);
// Any JSON for people, one line a leaf, lists of plain records one line a record: for reports whose shape grows.
void print_tree(const Json& value, const std::string& indent, int depth = 0);

}  // namespace heddle::tool
