// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the runtime's JSON reports in the requested format. Used by devices, plugins, config, explain and bench, and by code that names symbols.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heddle/runtime.h"
#include "tools/heddle/ordered_map.h"
#include "tools/heddle/output.h"

namespace heddle::tool {

using Json = nlohmann::basic_json<OrderedMap>;

// Discarded (is_discarded()) if the text is not JSON.
Json parse_json(const std::string& text);
std::string dump_json(const Json& value, int indent);

// What the module's report says about the function of that name; with an empty name about the only function, or "main". An empty object if it
// is not found.
Json function_report(heddle_module_t* module, const std::string& name);

// Fields of a value that may not be an object or lack the field: "-", 0, or an empty array.
std::string text(const Json& object, const char* name);
uint64_t number(const Json& object, const char* name);
const Json& array(const Json& object, const char* name);
// The value of a field, or an empty object.
const Json& part(const Json& whole, const char* name);

// A column: its title, and the text of a row's cell. In CSV, which programs read, a column with a plain field has the name of that field, which
// includes the unit, and its unformatted value.
struct Column {
  std::string title;
  std::function<std::string(const Json& row)> cell;
  std::string plain_field = {};
  bool is_below = false;  // in a table: printed on a line of its own under the row, unless it is empty
};
// The field of that name as text: strings unquoted, null and absent fields as "-".
Column field(const std::string& title, const std::string& name);
std::string cell_text(const Json& value);

// rows: an array of objects. json prints `whole`, jsonl one row per line, the others a table.
void print_rows(const Json& whole, const Json& rows, const std::vector<Column>& columns, Format format);

// A value that contains no records.
bool is_plain(const Json& value);
// "kernel: k0, cost: 3": the plain fields of a record, on one line.
std::string plain_fields(const Json& record);
// Any JSON as text, one line per leaf, and one line per record in lists of plain records. For reports that may get new fields.
void print_tree(const Json& value, const std::string& indent, int depth = 0);

}  // namespace heddle::tool
