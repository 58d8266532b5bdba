// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks the runtime for the memory needs of several combinations of extents, and shows them in columns.
#include "tools/heddle/explain_memory.h"

#include <algorithm>
#include <charconv>

#include "sdk/module/element_types.h"
#include "tools/heddle/shape_text.h"

namespace heddle::tool {
namespace {

constexpr size_t kMostColumns = 16;
constexpr int64_t kScales[] = {1, 8, 64};  // multiples of the smallest extents, if no extents are given

struct Symbol {
  std::string name;
  int64_t least, most, divisor;
  std::vector<int64_t> extents;  // given by --dim or by the shape of an input
  bool is_input = false;

  int64_t scaled(int64_t by) const {
    int64_t extent = 0;
    if (__builtin_mul_overflow(least, by, &extent)) extent = most;
    return std::max(least, std::min(extent, most) / divisor * divisor);
  }
};
using Extents = std::vector<int64_t>;  // one per symbol

struct Argument {
  std::string name;
  Shape shape;
  std::vector<size_t> symbols;  // one per extent; SIZE_MAX: no symbol
  bool is_given = false;        // the whole shape was given by --input
};

struct Callee {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Argument> arguments;

  Symbol* find(const std::string& symbol) {
    const auto found = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& one) { return one.name == symbol; });
    return found == symbols.end() ? nullptr : &*found;
  }
};

Callee callee_of(const Json& function) {
  Callee out{text(function, "name"), {}, {}};
  for (const Json& one : array(function, "symbols")) {
    const auto least = static_cast<int64_t>(std::max<uint64_t>(number(one, "min"), 1));
    const auto divisor = static_cast<int64_t>(std::max<uint64_t>(number(one, "divisor"), 1));
    out.symbols.push_back(
        {text(one, "name"), (least - 1) / divisor * divisor + divisor, static_cast<int64_t>(number(one, "max")), divisor, {}});
  }
  for (const Json& one : array(function, "arguments")) {
    Argument& argument = out.arguments.emplace_back(Argument{text(one, "name"), {}, {}});
    argument.shape.element_type = module::element_type_from_name(text(one, "element_type"));
    for (const Json& dim : array(one, "dims")) {
      const Symbol* symbol = dim.is_string() ? out.find(cell_text(dim)) : nullptr;
      argument.symbols.push_back(symbol ? static_cast<size_t>(symbol - out.symbols.data()) : SIZE_MAX);
      argument.shape.dims.push_back(dim.is_number_integer() ? dim.get<int64_t>() : 1);  // unknown extents count as 1
    }
  }
  return out;
}

// Parses the extents of --dim "NAME=N,N".
Wrong parse_dim(const std::string& given, std::string& name, std::vector<int64_t>& extents) {
  const Assignment dim = split_assignment(given);
  name = dim.name;
  const char *at = dim.value.data(), *const end = at + dim.value.size();
  for (;;) {
    int64_t extent = -1;
    const auto [rest, failed] = std::from_chars(at, end, extent);
    if (name.empty() || failed != std::errc() || extent < 0 || (rest != end && *rest != ','))
      return "--dim '" + given + "': expected NAME=N or NAME=N,N,..., such as batch=1,8";
    extents.push_back(extent);
    if (rest == end) return {};
    at = rest + 1;
  }
}

// Takes the shape of --input "[NAME=]TYPE". `next` counts inputs without a name.
Wrong take_input(const std::string& given, Callee& callee, size_t& next) {
  const Assignment input = split_assignment(given);
  size_t at = 0;
  if (input.name.empty()) {
    at = next++;
  } else {
    while (at < callee.arguments.size() && callee.arguments[at].name != input.name) ++at;
  }
  const std::string who = "--input '" + given + "'";
  if (at >= callee.arguments.size()) return who + ": there is no such input in '" + callee.name + "'";
  Argument& argument = callee.arguments[at];
  Shape shape;
  if (Wrong wrong = parse_shape(input.value, shape); !wrong.empty()) return who + ": " + wrong;
  if (argument.is_given) return who + ": the shape of this input is already given";
  if (shape.element_type != argument.shape.element_type || shape.dims.size() != argument.symbols.size())
    return who + ": expected " + std::to_string(argument.symbols.size()) + " dimensions of " +
           std::string(module::element_type_name(argument.shape.element_type));
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    if (argument.symbols[d] == SIZE_MAX) continue;
    Symbol& symbol = callee.symbols[argument.symbols[d]];
    if (symbol.is_input) continue;  // the runtime refuses an extent that differs from an earlier one
    if (!symbol.extents.empty()) return who + ": --dim already gives '" + symbol.name + "'";
    symbol.extents = {shape.dims[d]};
    symbol.is_input = true;
  }
  argument.shape = std::move(shape);
  argument.is_given = true;
  return {};
}

// The columns to show: all combinations of the given extents, or a few sizes if none are given.
Wrong make_columns(const Callee& callee, std::vector<Extents>& out) {
  const bool is_said = std::any_of(callee.symbols.begin(), callee.symbols.end(), [](const Symbol& one) { return !one.extents.empty(); });
  for (const int64_t scale : kScales) {
    std::vector<Extents> columns{{}};
    for (const Symbol& symbol : callee.symbols) {
      const std::vector<int64_t> extents = symbol.extents.empty() ? std::vector<int64_t>{symbol.scaled(scale)} : symbol.extents;
      if (columns.size() * extents.size() > kMostColumns)
        return "--dim: these are more than " + std::to_string(kMostColumns) + " combinations; give fewer extents at once";
      std::vector<Extents> wider;
      for (const Extents& column : columns) {
        for (const int64_t extent : extents) {
          wider.push_back(column);
          wider.back().push_back(extent);
        }
      }
      columns = std::move(wider);
    }
    for (Extents& column : columns) {
      if (std::find(out.begin(), out.end(), column) == out.end()) out.push_back(std::move(column));
    }
    if (is_said) break;
  }
  return {};
}

heddle_status_t* ask(heddle_module_t* module, const ModuleFlags& flags, bool is_bound, const Callee& callee,
                     const std::vector<Extents>& columns, Json& out) {
  std::vector<Extents> dims;
  for (const Extents& column : columns) {
    for (const Argument& argument : callee.arguments) {
      dims.push_back(argument.shape.dims);
      for (size_t d = 0; d < argument.symbols.size() && !argument.is_given; ++d) {
        if (argument.symbols[d] != SIZE_MAX) dims.back()[d] = column[argument.symbols[d]];
      }
    }
  }
  std::vector<heddle_shape_t> shapes;
  for (const Extents& one : dims) shapes.push_back({static_cast<uint32_t>(one.size()), 0, one.data()});
  heddle_memory_params_t params{};
  params.struct_size = sizeof(params);
  params.function = view(callee.name);
  params.call_count = static_cast<uint32_t>(columns.size());
  params.shapes = shapes.data();
  const InstanceParams instance(flags, flags.devices);
  if (is_bound) params.instance = &instance.c;
  heddle_text_t* raw = nullptr;
  heddle_status_t* status = heddle_module_memory(module, &params, &raw);
  if (!status) out = parse_json(text_of(Text(raw)));
  return status;
}

}  // namespace

void MemoryFlags::add_to(Flags& flags) {
  flags.on("--memory", wanted,
           "show the memory needed per slot, or with --route, --device or --config per device, without loading code or data");
  flags.texts("--dim", dims, "with --memory: extents of a symbolic dimension, one column each (default: a few)", "NAME=N[,N...]");
  flags.texts("--input", inputs, "with --memory: type of an argument, by name or by position, such as 'x=f32[8,3]'", "[NAME=]TYPE");
}

std::optional<int> find_memory(const Flags& flags, heddle_module_t* handle, const ModuleFlags& module, const Json& module_report,
                               const MemoryFlags& memory, bool is_bound, Json& out) {
  out = Json::array();
  std::vector<Callee> callees;
  for (const Json& function : array(module_report, "functions")) {
    if (module.function.empty() || text(function, "name") == module.function) callees.push_back(callee_of(function));
  }
  if (!memory.inputs.empty() && callees.size() > 1)
    return flags.misuse("--input: the module has several functions; name one with --function");
  for (const std::string& given : memory.dims) {
    std::string name;
    std::vector<int64_t> extents;
    if (Wrong wrong = parse_dim(given, name, extents); !wrong.empty()) return flags.misuse(wrong);
    bool is_known = false;
    for (Callee& callee : callees) {
      Symbol* symbol = callee.find(name);
      if (!symbol) continue;
      if (!symbol->extents.empty())
        return flags.misuse("--dim '" + given + "': give all extents of a symbol in one --dim, separated by commas");
      symbol->extents = extents;
      is_known = true;
    }
    std::string known;
    for (const Callee& callee : callees) {
      for (const Symbol& symbol : callee.symbols) known += (known.empty() ? "" : ", ") + symbol.name;
    }
    if (!is_known) return flags.misuse("--dim '" + name + "' is not a symbol of the function; it has " + (known.empty() ? "none" : known));
  }
  for (Callee& callee : callees) {
    size_t next = 0;
    for (const std::string& input : memory.inputs) {
      if (Wrong wrong = take_input(input, callee, next); !wrong.empty()) return flags.misuse(wrong);
    }
    std::vector<Extents> columns;
    if (Wrong wrong = make_columns(callee, columns); !wrong.empty()) return flags.misuse(wrong);
    Json needs;
    heddle_status_t* status = ask(handle, module, is_bound, callee, columns, needs);
    // Default sizes may be ones that the function does not accept; then only the smallest are shown, and on a page the reason.
    const bool is_asked = !memory.dims.empty() || !memory.inputs.empty();
    if (status && !is_asked && columns.size() > 1) {
      heddle_status_free(status);
      columns.resize(1);
      status = ask(handle, module, is_bound, callee, columns, needs);
    }
    if (status && !is_asked && !memory.wanted) {
      out.push_back({{"function", callee.name}, {"failure", std::string(view(heddle_status_message(status)))}});
      heddle_status_free(status);
      continue;
    }
    if (status) {
      const bool is_shape = heddle_status_code(status) == HEDDLE_STATUS_INVALID_ARGUMENT;
      const int code = report_instance_failure(status);
      return is_shape ? kUsage : code;
    }
    if (!needs.is_object()) return failed("explain", "this version cannot read the runtime's report");
    Json& labels = needs["labels"] = Json::array();
    for (const Extents& column : columns) {
      std::string label;
      for (size_t i = 0; i < column.size(); ++i) label += (i ? " " : "") + callee.symbols[i].name + "=" + std::to_string(column[i]);
      labels.push_back(label.empty() ? "bytes" : label);
    }
    out.push_back(std::move(needs));
  }
  return std::nullopt;
}

}  // namespace heddle::tool
