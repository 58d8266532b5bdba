// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines have at most 120 columns as long as single names do: lists are wrapped, and long ones end with a count.
#include "tools/heddle/explain_summary.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

namespace heddle::tool {
namespace {

constexpr size_t kColumns = 120, kLabel = 13, kMostLines = 3, kLeastNodes = 24, kMostResult = 36, kMostOps = 12;

bool starts_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
}
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

// The end of a text, where names that start alike differ.
std::string last_part(const std::string& text, size_t width) {
  if (width_of(text) <= width) return text;
  size_t begin = text.size();
  for (size_t left = width - 3; left > 0 && begin > 0;) left -= starts_character(text[--begin]) ? 1 : 0;
  return "..." + text.substr(begin);
}

std::string count_text(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string padded(const std::string& label) {
  return label + std::string(label.size() < kLabel ? kLabel - label.size() : 1, ' ');
}

// "  label      a, b, c", on several lines if needed; items that do not fit are counted.
void add_list(Document& out, const std::string& label, const std::vector<std::string>& items) {
  std::string line = padded("  " + label);
  if (items.empty()) return out.add(line + "nothing");
  size_t lines = 1, in_line = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_last = i + 1 == items.size();
    const std::string item = items[i] + (is_last ? "" : ",");
    const size_t reserve = lines == kMostLines && !is_last ? 16 : 0;  // for "and 1000 more"
    if (in_line > 0 && width_of(line) + 1 + width_of(item) + reserve > kColumns) {
      if (lines == kMostLines) {
        out.add(line + " and " + std::to_string(items.size() - i) + " more");
        return;
      }
      out.add(line);
      line = std::string(kLabel, ' ');
      ++lines;
      in_line = 0;
    }
    line += (in_line++ > 0 ? " " : "") + item;
  }
  out.add(line);
}

std::string first_word(const std::string& name) {
  return name.substr(0, name.find(' '));
}

std::optional<double> whole_number(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stod(text);
}

struct Row {
  std::string region, kind, result, slot, family, strategy;
  std::vector<std::string> nodes;     // the node that the region is named after, then the nodes fused with it
  std::vector<std::string> ops;       // without constants and broadcasts
  std::optional<double> estimate_ns;  // by the compiler, if it depends on no symbol
};

void add_new(std::vector<std::string>& list, std::string one) {
  if (one != "-" && std::find(list.begin(), list.end(), one) == list.end()) list.push_back(std::move(one));
}

// Looks up what the compiler's report says about the regions of one program.
class ProgramRegions {
 public:
  ProgramRegions(const Json& whole, const Json& program) : program_(program) {
    static const Json kNothing = Json::object();
    const Json& report = whole.contains("compiler_report") ? whole["compiler_report"] : kNothing;
    for (const Json& region : array(report, "regions")) {
      if (array(region, "families") == array(program, "families")) regions_.try_emplace(text(region, "region"), &region);
    }
    for (const Json& kernel : array(report, "kernels")) kernels_.try_emplace({text(kernel, "family"), text(kernel, "kernel")}, &kernel);
    for (const Json& one : array(program, "operations")) {
      if (one.value("required", true)) operators_.try_emplace(text(one, "region"), &one);
    }
    slots_ = &array(whole, "slots");
  }

  Row row(const std::string& name) const {
    Row row;
    row.region = first_word(name);
    if (name.size() > row.region.size() + 1) row.nodes.push_back(name.substr(row.region.size() + 1));
    if (const auto one = operators_.find(name); one != operators_.end()) {
      row.kind = "plugin operator";
      row.strategy = "plugin: " + text(*one->second, "operator");
      const uint64_t slot = number(*one->second, "slot");
      if (slot < slots_->size()) row.slot = cell_text((*slots_)[slot]);
      if (row.slot == "-") row.slot = "default";
      const Json& families = array(program_, "families");
      if (slot < families.size()) row.family = cell_text(families[slot]);
    }
    const auto found = regions_.find(row.region);
    if (found == regions_.end()) return row;
    const Json& region = *found->second;
    row.kind = region.contains("kind") ? text(region, "kind") : "";
    row.slot = text(region, "slot");
    row.family = text(region, "family");
    for (const Json& op : array(region, "ops")) {
      std::string word = text(op, "op");
      if (word.starts_with("tx.")) word.erase(0, 3);
      if (word != "constant") add_new(row.nodes, text(op, "node"));
      if (word != "constant" && word != "broadcast") row.ops.push_back(std::move(word));
    }
    if (const Json& results = array(region, "results"); !results.empty()) {
      row.result = cell_text(results[0]);
      if (results.size() > 1) row.result += " +" + std::to_string(results.size() - 1);
    }
    if (const auto kernel = kernels_.find({row.family, text(region, "kernel")}); kernel != kernels_.end()) {
      row.strategy = text(*kernel->second, "strategy");
      if (const std::optional<double> workgroups = whole_number(text(*kernel->second, "workgroups")))
        row.estimate_ns = *workgroups * static_cast<double>(number(*kernel->second, "workgroup_cost_ns"));
    }
    return row;
  }

  std::vector<Row> rows() const {
    std::vector<Row> out;
    for (const Json& name : array(program_, "regions")) out.push_back(row(cell_text(name)));
    return out;
  }

 private:
  const Json& program_;
  const Json* slots_ = nullptr;
  std::map<std::string, const Json*> regions_, operators_;
  std::map<std::pair<std::string, std::string>, const Json*> kernels_;
};

// "38 contraction, 6 attention": most frequent first, and in the order of first use if equally frequent.
std::vector<std::string> counted(const std::vector<std::string>& words, size_t most) {
  std::vector<std::pair<std::string, size_t>> counts;
  for (const std::string& word : words) {
    const auto same = std::find_if(counts.begin(), counts.end(), [&](const auto& one) { return one.first == word; });
    if (same == counts.end()) {
      counts.emplace_back(word, 1);
    } else {
      ++same->second;
    }
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> out;
  for (size_t i = 0; i < counts.size() && i < most; ++i) out.push_back(std::to_string(counts[i].second) + " " + counts[i].first);
  if (counts.size() > most) out.push_back("and " + count_text(counts.size() - most, "other op"));
  return out;
}

void add_plugin_operators(const Json& program, bool required, const std::string& words, Document& out) {
  std::vector<std::string> operators;
  for (const Json& one : array(program, "operations")) {
    if (one.value("required", true) == required) operators.push_back(text(one, "operator"));
  }
  if (operators.empty()) return;
  std::vector<std::string> items = counted(operators, operators.size());
  items.front() = words + items.front();
  add_list(out, "plugins", items);
}

void add_program(const Json& whole, const Json& program, Document& out) {
  const std::string families = text(program, "families");
  const std::vector<Row> rows = ProgramRegions(whole, program).rows();
  uint64_t at_load = 0;
  for (const Json& one : array(whole, "initializer")) {
    if (array(one, "families") == array(program, "families")) at_load += array(one, "regions").size();
  }
  out.add(padded("  program") + "for " + families + ": " + text(program, "instructions") + " instructions, " + std::to_string(rows.size()) +
          " dispatches, " + text(program, "transients") + " transients" +
          (at_load > 0 ? "; " + std::to_string(at_load) + " more when it is loaded" : ""));
  std::vector<std::string> kinds, ops, nodes;
  for (const Row& row : rows) {
    if (!row.kind.empty()) kinds.push_back(row.kind);
    ops.insert(ops.end(), row.ops.begin(), row.ops.end());
    for (const std::string& node : row.nodes) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  if (!kinds.empty()) add_list(out, "regions", counted(kinds, kinds.size()));
  if (!ops.empty()) {
    std::vector<std::string> items = counted(ops, kMostOps);
    items.front() = "of " + count_text(nodes.size(), "node") + " of the model: " + items.front();
    add_list(out, "ops", items);
  }
  static const Json kNothing = Json::object();
  const Json& report = whole.contains("compiler_report") ? whole["compiler_report"] : kNothing;
  std::vector<std::string> transfers;
  for (const Json& one : array(report, "transfers")) {
    if (array(one, "families") == array(program, "families"))
      transfers.push_back(text(one, "node") + " from " + text(one, "from") + " to " + text(one, "to"));
  }
  if (!transfers.empty()) {
    transfers.front() = std::to_string(transfers.size()) + ": " + transfers.front();
    add_list(out, "transfers", transfers);
  }
  add_plugin_operators(program, true, "needed, see heddle plugins: ", out);
  add_plugin_operators(program, false, "may run instead of own kernels, see [[prefer]] of heddle.toml: ", out);
}

void add_function(const Json& whole, const Json& function, Document& out) {
  const Json& slots = array(whole, "slots");
  auto types = [&](const Json& list) {
    std::vector<std::string> items;
    for (const Json& one : list) {
      const uint64_t slot = number(one, "slot");
      std::string on;
      if (slots.size() > 1 && slot < slots.size()) on = cell_text(slots[slot]) == "-" ? " on default" : " on " + cell_text(slots[slot]);
      items.push_back(text(one, "name") + ": " + text(one, "type") + on);
    }
    return items;
  };
  out.begin("function " + text(function, "name"));
  add_list(out, "arguments", types(array(function, "arguments")));
  add_list(out, "results", types(array(function, "results")));
  for (const Json& symbol : array(function, "symbols")) {
    out.add(padded("  symbol") + text(symbol, "name") + " is " + text(symbol, "min") +
            (number(symbol, "max") == INT64_MAX ? " or more" : ".." + text(symbol, "max")) +
            (number(symbol, "divisor") > 1 ? ", a multiple of " + text(symbol, "divisor") : ""));
  }
  for (const Json& program : array(function, "programs")) add_program(whole, program, out);
}

void add_module(const Json& whole, Document& out) {
  out.begin("module", true);
  out.add(padded("module") + text(whole, "name") + ", by " + text(whole, "producer"));
  out.add(padded("file") + text(whole, "path") + ", " + bytes_text(number(whole, "file_bytes")) + ", hash " + text(whole, "content_hash"));
  uint64_t stored = 0, outside = 0, stored_bytes = 0, outside_bytes = 0, derived = 0, state = 0;
  for (const Json& parameter : array(whole, "parameters")) {
    const bool inside = parameter.value("stored", false);
    (inside ? stored : outside) += 1;
    (inside ? stored_bytes : outside_bytes) += number(parameter, "size_bytes");
  }
  for (const Json& global : array(whole, "globals")) {
    if (text(global, "kind") == "derived") derived += number(global, "size_bytes");
    if (text(global, "kind") == "state") state += number(global, "size_bytes");
  }
  out.add(padded("parameters") + std::to_string(stored) + " of " + bytes_text(stored_bytes) + " in the file, " + std::to_string(outside) +
          " of " + bytes_text(outside_bytes) + " outside; " + bytes_text(derived) + " computed at load; state " + bytes_text(state));
  for (const Json& executable : array(whole, "executables")) {
    std::string variants;
    for (const Json& variant : array(executable, "variants"))
      variants += (variants.empty() ? "" : ", ") + text(variant, "target") + " (" + bytes_text(number(variant, "code_bytes")) + ")";
    out.add(padded("code") + text(executable, "name") + ": " + count_text(array(executable, "entries").size(), "kernel") + " for " +
            (variants.empty() ? "nothing" : variants));
  }
  std::string slots;
  for (const Json& slot : array(whole, "slots"))
    slots += (slots.empty() ? "" : ", ") + (cell_text(slot) == "-" ? "default" : cell_text(slot));
  if (!slots.empty()) out.add(padded("slots") + slots);
  if (whole.contains("compiler_report") && text(whole["compiler_report"], "math") != "-")
    out.add(padded("math") + text(whole["compiler_report"], "math"));
}

std::string nodes_text(const Row& row, size_t width) {
  const std::vector<std::string>& names = row.nodes.empty() ? row.ops : row.nodes;
  if (names.empty()) return "-";
  auto more = [&](size_t left) { return left > 0 ? " +" + std::to_string(left) : std::string(); };
  std::string out = last_part(names[0], width - more(names.size() - 1).size());
  size_t shown = 1;
  for (; shown < names.size(); ++shown) {
    const std::string longer = out + ", " + names[shown];
    if (width_of(longer) + more(names.size() - shown - 1).size() > width) break;
    out = longer;
  }
  return out + more(names.size() - shown);
}

void add_regions(const Json& whole, const Json& function, const Json& program, Document& out) {
  std::vector<Row> rows = ProgramRegions(whole, program).rows();
  double sum_ns = 0;
  bool is_estimated = true;
  for (const Row& row : rows) {
    is_estimated &= row.estimate_ns.has_value();
    sum_ns += row.estimate_ns.value_or(0);
  }
  struct Shown {
    std::string title;
    std::function<std::string(const Row&)> cell;
  };
  auto member = [](std::string Row::* field) { return [field](const Row& row) { return row.*field; }; };
  std::vector<Shown> columns{
      {"region", member(&Row::region)},    {"nodes", {}},
      {"kind", member(&Row::kind)},        {"result", [](const Row& row) { return last_part(row.result, kMostResult); }},
      {"slot", member(&Row::slot)},        {"family", member(&Row::family)},
      {"strategy", member(&Row::strategy)}};
  if (is_estimated && sum_ns > 0) {
    columns.push_back({"share", [&](const Row& row) {
                         char text[32];
                         std::snprintf(text, sizeof(text), "%5.1f %%", *row.estimate_ns / sum_ns * 100);
                         return std::string(text);
                       }});
  }
  if (array(whole, "slots").size() <= 1) std::erase_if(columns, [](const Shown& column) { return column.title == "slot"; });
  // Columns in which no row has anything are left out: reports of other compilers may have fewer fields.
  std::erase_if(columns, [&](const Shown& column) {
    return column.cell && std::none_of(rows.begin(), rows.end(), [&](const Row& row) { return !column.cell(row).empty(); });
  });
  size_t width = 0;
  for (const Shown& column : columns) {
    if (!column.cell) continue;
    size_t widest = width_of(column.title);
    for (const Row& row : rows) widest = std::max(widest, width_of(module::one_line(column.cell(row))));
    width += widest + 2;
  }
  const size_t for_nodes = width + kLeastNodes < kColumns ? kColumns - width : kLeastNodes;
  Table table;
  for (const Shown& column : columns) table.header.push_back(column.title);
  for (const Row& row : rows) {
    table.rows.emplace_back();
    for (const Shown& column : columns) {
      const std::string cell = column.cell ? column.cell(row) : nodes_text(row, for_nodes);
      table.rows.back().push_back(cell.empty() ? "-" : cell);
    }
  }
  if (rows.empty()) return;
  out.begin("regions of " + text(function, "name") + ", for " + text(program, "families") +
            (is_estimated && sum_ns > 0 ? "; share: of the time that the compiler estimates" : ""));
  out.add(std::move(table));
}

}  // namespace

Document summarize(const Json& whole, const std::string& function) {
  Document out;
  add_module(whole, out);
  std::vector<const Json*> functions;
  for (const Json& one : array(whole, "functions")) {
    if (function.empty() || text(one, "name") == function) functions.push_back(&one);
  }
  for (const Json* one : functions) add_function(whole, *one, out);
  if (whole.contains("compiler_report") && !whole["compiler_report"].is_structured()) {
    out.begin("the compiler's report");
    out.add("  " + cell_text(whole["compiler_report"]));
  }
  out.begin("more", true);
  out.add(padded("more") + "--full: kernels, fused ops, refused fusions; --memory: bytes needed; --route: devices and reasons;");
  out.add(padded("") + "--html -o FILE: everything as a page; heddle profile: measured time of each region");
  for (const Json* one : functions) {
    for (const Json& program : array(*one, "programs")) add_regions(whole, *one, program, out);
  }
  return out;
}

RegionKinds::RegionKinds(const Json& module_report) {
  if (!module_report.is_object()) return;
  if (module_report.contains("compiler_report")) {
    for (const Json& region : array(module_report["compiler_report"], "regions")) {
      if (region.is_object() && region.contains("kind")) kinds_.emplace_back(text(region, "region"), text(region, "kind"));
    }
  }
  for (const Json& function : array(module_report, "functions")) {
    for (const Json& program : array(function, "programs")) {
      for (const Json& one : array(program, "operations")) {
        if (one.value("required", true)) kinds_.emplace_back(first_word(text(one, "region")), "plugin operator");
      }
    }
  }
  std::stable_sort(kinds_.begin(), kinds_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
}

std::string RegionKinds::of(const std::string& region) const {
  const std::string name = first_word(region);
  const auto found =
      std::lower_bound(kinds_.begin(), kinds_.end(), name, [](const auto& one, const std::string& key) { return one.first < key; });
  return found != kinds_.end() && found->first == name ? found->second : "";
}

}  // namespace heddle::tool
