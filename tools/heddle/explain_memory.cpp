// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Extents of symbols side by side, asked of the runtime, and shown.
#include "tools/heddle/explain_memory.h"

#include <algorithm>

#include "sdk/module/element_types.h"
#include "tools/heddle/shape_text.h"

namespace heddle::tool {
namespace {

constexpr size_t kMostColumns = 16;
constexpr int64_t kScales[] = {1, 8, 64};  // of the least extents, where nobody says which

using Extents = std::map<std::string, int64_t>;  // of symbols

struct Symbol {
  std::string name;
  int64_t least, most, divisor;
  int64_t scaled(int64_t by) const {
    int64_t extent = 0;
    if (__builtin_mul_overflow(least, by, &extent)) extent = most;
    return std::max(least, std::min(extent, most) / divisor * divisor);
  }
};

struct Argument {
  std::string name;
  heddle_element_type_t type;
  std::vector<Json> dims;           // a number, a symbol's name, or null
  std::optional<Shape> given = {};  // by --input
};

struct Wanted {
  std::map<std::string, std::vector<int64_t>> dims;  // by --dim
  std::vector<Assignment> inputs;
};

Wrong parse(const MemoryFlags& flags, Wanted& out) {
  for (const std::string& text : flags.dims) {
    const Assignment dim = split_assignment(text);
    std::vector<int64_t>& extents = out.dims[dim.name];
    if (!extents.empty()) return "--dim '" + dim.name + "' is given twice; give its extents with commas";
    for (size_t begin = 0; begin <= dim.value.size();) {
      const size_t end = std::min(dim.value.find(',', begin), dim.value.size());
      const std::string digits = dim.value.substr(begin, end - begin);
      if (dim.name.empty() || digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
        return "--dim '" + text + "': expected NAME=N or NAME=N,N,...";
      extents.push_back(std::stoll(digits));
      begin = end + 1;
    }
  }
  for (const std::string& text : flags.inputs) out.inputs.push_back(split_assignment(text));
  return {};
}

std::vector<Symbol> symbols_of(const Json& function) {
  std::vector<Symbol> symbols;
  for (const Json& one : function.value("symbols", Json::array())) {
    Symbol symbol{one.value("name", std::string()), std::max<int64_t>(one.value("min", int64_t{1}), 1), one.value("max", INT64_MAX),
                  std::max<int64_t>(one.value("divisor", int64_t{1}), 1)};
    symbol.least = (symbol.least - 1) / symbol.divisor * symbol.divisor + symbol.divisor;
    symbols.push_back(std::move(symbol));
  }
  return symbols;
}

std::vector<Argument> arguments_of(const Json& function) {
  std::vector<Argument> arguments;
  for (const Json& one : function.value("arguments", Json::array())) {
    const Json dims = one.value("dims", Json::array());
    arguments.push_back({one.value("name", std::string()),
                         module::element_type_from_name(one.value("element_type", std::string())),
                         {dims.begin(), dims.end()}});
  }
  return arguments;
}

// Which arguments have the shapes of --input, and which symbols have an extent by that.
Wrong take_inputs(const std::vector<Assignment>& inputs, std::vector<Argument>& arguments, Extents& fixed) {
  size_t next = 0;
  for (const Assignment& input : inputs) {
    size_t at = next;
    if (!input.name.empty()) {
      at = 0;
      while (at < arguments.size() && arguments[at].name != input.name) ++at;
      if (at == arguments.size()) return "--input: there is no input '" + input.name + "'";
    } else if (next++ >= arguments.size()) {
      return "--input: " + std::to_string(next) + " shapes, the function has " + std::to_string(arguments.size()) + " inputs";
    }
    Argument& argument = arguments[at];
    const std::string who = "--input '" + argument.name + "'";
    if (argument.given) return who + " is given twice";
    Shape shape;
    if (Wrong wrong = parse_shape(input.value, shape); !wrong.empty()) return who + ": " + wrong;
    if (shape.element_type != argument.type || shape.dims.size() != argument.dims.size())
      return who + ": expected " + std::to_string(argument.dims.size()) + " dimensions of " +
             std::string(module::element_type_name(argument.type)) + ", got " + shape_text(shape);
    for (size_t d = 0; d < shape.dims.size(); ++d) {
      if (argument.dims[d].is_string()) fixed.emplace(argument.dims[d].get<std::string>(), shape.dims[d]);
    }
    argument.given = std::move(shape);
  }
  return {};
}

// The extents to show side by side.
Wrong make_columns(const Wanted& wanted, const std::vector<Symbol>& symbols, const Extents& fixed, std::vector<Extents>& out) {
  bool is_chosen = false;
  out = {fixed};
  for (const auto& [name, extents] : wanted.dims) {
    if (std::none_of(symbols.begin(), symbols.end(), [&](const Symbol& one) { return one.name == name; })) continue;
    if (fixed.count(name) != 0) return "--dim '" + name + "': --input says it already";
    is_chosen = true;
    std::vector<Extents> wider;
    for (const Extents& column : out) {
      for (const int64_t extent : extents) {
        wider.push_back(column);
        wider.back()[name] = extent;
      }
    }
    if (wider.size() > kMostColumns)
      return "--dim: these are more than " + std::to_string(kMostColumns) + " combinations; give fewer extents at once";
    out = std::move(wider);
  }
  std::vector<Extents> whole;
  for (const int64_t scale : kScales) {
    if (is_chosen && scale != 1) break;
    for (Extents column : out) {
      for (const Symbol& symbol : symbols) column.emplace(symbol.name, symbol.scaled(scale));
      if (std::find(whole.begin(), whole.end(), column) == whole.end()) whole.push_back(std::move(column));
    }
  }
  out = std::move(whole);
  return {};
}

// What nobody says is 1.
std::vector<int64_t> dims_of(const Argument& argument, const Extents& extents) {
  if (argument.given) return argument.given->dims;
  std::vector<int64_t> dims;
  for (const Json& dim : argument.dims) {
    const auto symbol = dim.is_string() ? extents.find(dim.get<std::string>()) : extents.end();
    dims.push_back(dim.is_number() ? dim.get<int64_t>() : symbol != extents.end() ? symbol->second : 1);
  }
  return dims;
}

heddle_status_t* ask(heddle_module_t* module, const ModuleFlags& flags, bool is_bound, const std::string& function,
                     const std::vector<std::vector<std::vector<int64_t>>>& calls, Json& out) {
  std::vector<heddle_shape_t> shapes;
  for (const auto& call : calls) {
    for (const std::vector<int64_t>& dims : call) shapes.push_back({static_cast<uint32_t>(dims.size()), 0, dims.data()});
  }
  heddle_memory_params_t params{};
  params.struct_size = sizeof(params);
  params.function = view(function);
  params.call_count = static_cast<uint32_t>(calls.size());
  params.shapes = shapes.data();
  heddle_text_t* raw = nullptr;
  heddle_status_t* status = with_instance_params(flags, flags.devices, [&](heddle_instance_params_t& instance) {
    if (is_bound) params.instance = &instance;
    return heddle_module_memory(module, &params, &raw);
  });
  if (!status) out = parse_json(text_of(Text(raw)));
  return status;
}

std::string label_of(const Json& call) {
  std::string label;
  for (auto dim = call["dims"].begin(); dim != call["dims"].end(); ++dim)
    label += (label.empty() ? "" : " ") + dim.key() + "=" + cell_text(*dim);
  return label.empty() ? "bytes" : label;
}

std::string slot_text(const Json& name) {
  const std::string text = cell_text(name);
  return text == "-" ? "default" : text;
}

uint64_t bytes_of(const Json& place, const char* name) {
  return place.value(name, uint64_t{0});
}

Table table_of(const Json& program) {
  Table table{{"on", "what"}, {}};
  const Json& calls = program["calls"];
  for (const Json& call : calls) table.header.push_back(label_of(call));
  if (calls.empty()) table.header.push_back("bytes");
  for (size_t i = 0; i < program["places"].size(); ++i) {
    const Json& place = program["places"][i];
    std::string on = slot_text(place["place"]);
    std::string slots;
    for (const Json& slot : place["slots"]) slots += (slots.empty() ? "" : ", ") + slot_text(slot);
    if (slots != on) on += " (" + slots + ")";
    auto row = [&](const char* what, auto bytes) {
      table.rows.push_back({on, what});
      on.clear();
      for (const Json& call : calls) table.rows.back().push_back(bytes_text(bytes(call["places"][i])));
      if (calls.empty()) table.rows.back().push_back(bytes_text(bytes(Json::object())));
    };
    auto of_place = [&](const char* name) { return [&place, name](const Json&) { return bytes_of(place, name); }; };
    auto of_call = [](const char* name) { return [name](const Json& call) { return bytes_of(call, name); }; };
    row("weights", of_place("weights"));
    row("  parameters", of_place("parameters"));
    row("  constants", of_place("constants"));
    row("  made at load", of_place("derived"));
    row("state", of_place("state"));
    if (!calls.empty()) {
      row("arena", of_call("arena"));
      row("inputs, results", [](const Json& call) { return bytes_of(call, "arguments") + bytes_of(call, "results"); });
      row("in all", of_call("total"));
    }
    row("peak at load", of_place("peak_at_load"));
  }
  return table;
}

}  // namespace

void MemoryFlags::add_to(Flags& flags) {
  flags.on("--memory", wanted,
           "say what memory it will need: of each slot, or with --route, --device or --config of each device. Neither code nor data is "
           "loaded for that");
  flags.texts("--dim", dims, "with --memory: extents of a symbolic dimension, side by side (default: a few)", "NAME=N[,N...]");
  flags.texts("--input", inputs, "with --memory: shape of an argument, by name or in order", "[NAME=]SHAPE");
}

std::optional<int> find_memory(const Flags& flags, heddle_module_t* handle, const ModuleFlags& module, const Json& module_report,
                               const MemoryFlags& memory, bool is_bound, Json& out) {
  Wanted wanted;
  if (Wrong wrong = parse(memory, wanted); !wrong.empty()) return flags.misuse(wrong);
  const Json functions = module_report.value("functions", Json::array());
  if (!wanted.inputs.empty() && module.function.empty() && functions.size() > 1)
    return flags.misuse("--input: the module has " + std::to_string(functions.size()) + " functions; name one with --function");
  std::vector<std::string> known;
  for (const Json& function : functions) {
    for (const Symbol& symbol : symbols_of(function)) known.push_back(symbol.name);
  }
  for (const auto& [name, extents] : wanted.dims) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return flags.misuse("--dim '" + name + "' is no symbol of the module; it has " +
                          cell_text(known.empty() ? Json("none") : Json(known)));
  }
  out = Json::array();
  for (const Json& function : functions) {
    const std::string name = function.value("name", std::string());
    if (!module.function.empty() && name != module.function) continue;
    std::vector<Argument> arguments = arguments_of(function);
    Extents fixed;
    std::vector<Extents> columns;
    if (Wrong wrong = take_inputs(wanted.inputs, arguments, fixed); !wrong.empty()) return flags.misuse(wrong);
    if (Wrong wrong = make_columns(wanted, symbols_of(function), fixed, columns); !wrong.empty()) return flags.misuse(wrong);
    std::vector<std::vector<std::vector<int64_t>>> calls;
    for (const Extents& column : columns) {
      calls.emplace_back();
      for (const Argument& argument : arguments) calls.back().push_back(dims_of(argument, column));
    }
    Json needs;
    if (heddle_status_t* status = ask(handle, module, is_bound, name, calls, needs)) {
      const bool is_usage = heddle_status_code(status) == HEDDLE_STATUS_INVALID_ARGUMENT;
      const int code = report_instance_failure(status);
      return is_usage ? kUsage : code;
    }
    if (!needs.is_object()) return failed("explain", "the runtime's report is not what this version reads");
    for (Json& program : needs["programs"]) {
      for (size_t i = 0; i < columns.size(); ++i) program["calls"][i]["dims"] = columns[i];
    }
    out.push_back(std::move(needs));
  }
  return std::nullopt;
}

void describe_memory(const Json& functions, Document& out) {
  for (const Json& function : functions) {
    for (const Json& program : function["programs"]) {
      out.begin("memory that '" + cell_text(function["function"]) + "' needs, for " + cell_text(program["families"]));
      out.add(table_of(program));
      std::vector<std::string> missing;
      auto note = [&](const Json& holder, const char* name, const std::string& where) {
        for (const Json& one : holder.value(name, Json::array())) missing.push_back("not counted" + where + ": " + cell_text(one));
      };
      note(program, "not_counted_at_load", " at load");
      for (const Json& call : program["calls"]) note(call, "not_counted", "");
      missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
      for (std::string& line : missing) out.add(std::move(line));
    }
  }
  if (!functions.empty()) {
    out.add(
        "A call that runs beside others needs an arena, inputs and results of its own. What drivers need for themselves, such as code, is "
        "not in it.");
  }
}

}  // namespace heddle::tool
