// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines have at most 120 columns as long as single names do: lists are wrapped, and long ones end with a count.
#include "tools/heddle/explain_summary.h"

#include <algorithm>
#include <cstdio>

#include "sdk/module/error.h"

namespace heddle::tool {
namespace {

using module::concat;

constexpr size_t kColumns = 120, kLabel = 13, kMostLines = 3, kLeastNodes = 24, kMostResult = 36, kMostOps = 12;
constexpr const char kPluginOperator[] = "plugin operator";

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
        out.add(concat(line, " and ", items.size() - i, " more"));
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

std::string slot_name(const Json& slot) {
  const std::string name = cell_text(slot);
  return name == "-" ? "default" : name;
}

// " +3" for names that are not shown.
std::string more(size_t count) {
  return count > 0 ? concat(" +", count) : std::string();
}

enum Column : uint8_t { kRegion, kNodes, kKind, kResult, kSlot, kFamily, kStrategy, kShare, kColumnCount };
constexpr const char* kTitles[] = {"region", "nodes", "kind", "result", "slot", "family", "strategy", "share"};

struct Row {
  std::string cells[kColumnCount];
  std::vector<std::string> nodes;  // the node that the region is named after, then the nodes fused with it
  std::vector<std::string> ops;    // without constants and broadcasts
  double estimate_ns = -1;         // by the compiler; negative if it depends on symbols
};

// Looks up what the compiler's report says about the regions of one program.
class ProgramRegions {
 public:
  ProgramRegions(const Json& whole, const Json& program)
      : program_(program), report_(part(whole, "compiler_report")), slots_(array(whole, "slots")) {
    for (const Json& region : array(report_, "regions")) {
      if (array(region, "families") == array(program, "families")) regions_.emplace_back(text(region, "region"), &region);
    }
    for (const Json& kernel : array(report_, "kernels"))
      kernels_.emplace_back(text(kernel, "family") + ' ' + text(kernel, "kernel"), &kernel);
    for (const Json& one : array(program, "operations")) {
      if (one.value("required", true)) operators_.emplace_back(text(one, "region"), &one);
    }
  }

  std::vector<Row> rows() const {
    std::vector<Row> out;
    for (const Json& name : array(program_, "regions")) out.push_back(row(cell_text(name)));
    return out;
  }

 private:
  using Named = std::vector<std::pair<std::string, const Json*>>;

  static const Json* find(const Named& list, const std::string& name) {
    for (const auto& [own, one] : list) {
      if (own == name) return one;
    }
    return nullptr;
  }

  Row row(const std::string& name) const {
    Row row;
    row.cells[kRegion] = first_word(name);
    if (name.size() > row.cells[kRegion].size() + 1) row.nodes.push_back(name.substr(row.cells[kRegion].size() + 1));
    if (const Json* one = find(operators_, name)) {
      const uint64_t slot = number(*one, "slot");
      row.cells[kKind] = kPluginOperator;
      row.cells[kStrategy] = "plugin: " + text(*one, "operator");
      if (slot < slots_.size()) row.cells[kSlot] = slot_name(slots_[slot]);
      if (const Json& families = array(program_, "families"); slot < families.size()) row.cells[kFamily] = cell_text(families[slot]);
    }
    const Json* region = find(regions_, row.cells[kRegion]);
    if (!region) return row;
    for (const auto& [column, field] : {std::pair(kKind, "kind"), std::pair(kSlot, "slot"), std::pair(kFamily, "family")}) {
      if (region->contains(field)) row.cells[column] = text(*region, field);
    }
    for (const Json& op : array(*region, "ops")) {
      std::string word = text(op, "op");
      if (word.starts_with("tx.")) word.erase(0, 3);
      if (word == "constant") continue;
      if (std::string node = text(op, "node"); node != "-" && std::find(row.nodes.begin(), row.nodes.end(), node) == row.nodes.end())
        row.nodes.push_back(std::move(node));
      if (word != "broadcast") row.ops.push_back(std::move(word));
    }
    if (const Json& results = array(*region, "results"); !results.empty())
      row.cells[kResult] = last_part(cell_text(results[0]) + more(results.size() - 1), kMostResult);
    if (const Json* kernel = find(kernels_, row.cells[kFamily] + ' ' + text(*region, "kernel"))) {
      row.cells[kStrategy] = text(*kernel, "strategy");
      const std::string workgroups = text(*kernel, "workgroups");
      if (workgroups.size() <= 18 && workgroups.find_first_not_of("0123456789") == std::string::npos)
        row.estimate_ns = static_cast<double>(std::stoll(workgroups)) * static_cast<double>(number(*kernel, "workgroup_cost_ns"));
    }
    return row;
  }

  const Json &program_, &report_, &slots_;
  Named regions_, operators_, kernels_;
};

// "38 contraction, 6 attention": most frequent first.
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
  std::sort(counts.begin(), counts.end(),
            [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < counts.size() && i < most; ++i) out.push_back(concat(counts[i].second, " ", counts[i].first));
  if (counts.size() > most) out.push_back(concat("and ", counts.size() - most, " others"));
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
  const std::vector<Row> rows = ProgramRegions(whole, program).rows();
  size_t at_load = 0;
  for (const Json& one : array(whole, "initializer")) {
    if (array(one, "families") == array(program, "families")) at_load += array(one, "regions").size();
  }
  out.add(program_text(program) + (at_load > 0 ? concat("; ", at_load, " more when it is loaded") : ""));
  std::vector<std::string> kinds, ops, nodes;
  for (const Row& row : rows) {
    if (!row.cells[kKind].empty()) kinds.push_back(row.cells[kKind]);
    ops.insert(ops.end(), row.ops.begin(), row.ops.end());
    nodes.insert(nodes.end(), row.nodes.begin(), row.nodes.end());
  }
  std::sort(nodes.begin(), nodes.end());
  const auto node_count = std::unique(nodes.begin(), nodes.end()) - nodes.begin();
  if (!kinds.empty()) add_list(out, "regions", counted(kinds, kinds.size()));
  if (!ops.empty()) {
    std::vector<std::string> items = counted(ops, kMostOps);
    items.front() = concat("of ", node_count, node_count == 1 ? " node" : " nodes", " of the model: ", items.front());
    add_list(out, "ops", items);
  }
  std::vector<std::string> transfers;
  for (const Json& one : array(part(whole, "compiler_report"), "transfers")) {
    if (array(one, "families") == array(program, "families"))
      transfers.push_back(concat(text(one, "node"), " from ", text(one, "from"), " to ", text(one, "to")));
  }
  if (!transfers.empty()) {
    transfers.front() = concat(transfers.size(), ": ", transfers.front());
    add_list(out, "transfers", transfers);
  }
  add_plugin_operators(program, true, "needed, see heddle plugins: ", out);
  add_plugin_operators(program, false, "may run instead of own kernels, see [[prefer]] of heddle.toml: ", out);
}

void add_function(const Json& whole, const Json& function, Document& out) {
  out.begin("function " + text(function, "name"));
  add_list(out, "arguments", tensor_texts(array(function, "arguments"), array(whole, "slots")));
  add_list(out, "results", tensor_texts(array(function, "results"), array(whole, "slots")));
  add_symbols(function, out);
  for (const Json& program : array(function, "programs")) add_program(whole, program, out);
}

void add_module(const Json& whole, Document& out) {
  out.begin("module", true);
  out.add(concat(padded("module"), text(whole, "name"), ", by ", text(whole, "producer")));
  out.add(
      concat(padded("file"), text(whole, "path"), ", ", bytes_text(number(whole, "file_bytes")), ", hash ", text(whole, "content_hash")));
  out.add(padded("parameters") + weights_text(whole));
  for (const Json& executable : array(whole, "executables")) {
    std::string variants;
    for (const Json& variant : array(executable, "variants"))
      variants += concat(variants.empty() ? "" : ", ", text(variant, "target"), " (", bytes_text(number(variant, "code_bytes")), ")");
    out.add(concat(padded("code"), text(executable, "name"), ": ", array(executable, "entries").size(), " kernels for ",
                   variants.empty() ? "nothing" : variants));
  }
  for (const Json& plugin : array(part(whole, "compiler_report"), "target_plugins")) {
    size_t regions = 0;
    for (const Json& claim : array(plugin, "claimed")) regions += array(claim, "nodes").size();
    out.add(concat(padded("plugin"), text(plugin, "plugin"), " ", text(plugin, "version"), ", target ", text(plugin, "family"), ": ",
                   array(plugin, "claimed").size(), " kernels for ", regions, " regions; sha256 ", text(plugin, "sha256")));
    if (const size_t failed = array(plugin, "failed").size())
      out.add(concat(padded(""), failed, " claims or functions are portable code because the plugin failed"));
  }
  std::string slots;
  for (const Json& slot : array(whole, "slots")) slots += (slots.empty() ? "" : ", ") + slot_name(slot);
  if (!slots.empty()) out.add(padded("slots") + slots);
  if (const std::string math = text(part(whole, "compiler_report"), "math"); math != "-") out.add(padded("math") + math);
}

std::string nodes_text(const Row& row, size_t width) {
  const std::vector<std::string>& names = row.nodes.empty() ? row.ops : row.nodes;
  if (names.empty()) return "-";
  std::string out = last_part(names[0], width - more(names.size() - 1).size());
  size_t shown = 1;
  for (; shown < names.size(); ++shown) {
    const std::string longer = concat(out, ", ", names[shown]);
    if (width_of(longer) + more(names.size() - shown - 1).size() > width) break;
    out = longer;
  }
  return out + more(names.size() - shown);
}

void add_regions(const Json& whole, const Json& function, const Json& program, Document& out) {
  std::vector<Row> rows = ProgramRegions(whole, program).rows();
  if (rows.empty()) return;
  double sum_ns = 0;
  bool is_estimated = true;
  for (const Row& row : rows) {
    is_estimated &= row.estimate_ns >= 0;
    sum_ns += row.estimate_ns;
  }
  is_estimated &= sum_ns > 0;
  // Columns in which no row has anything are left out: reports of other compilers may have fewer fields.
  size_t widest[kColumnCount] = {}, width = 0;
  for (Row& row : rows) {
    char share[32] = "";
    if (is_estimated) std::snprintf(share, sizeof(share), "%5.1f %%", row.estimate_ns / sum_ns * 100);
    row.cells[kShare] = share;
    if (array(whole, "slots").size() <= 1) row.cells[kSlot].clear();
    for (size_t i = 0; i < kColumnCount; ++i) widest[i] = std::max(widest[i], width_of(module::one_line(row.cells[i])));
  }
  for (size_t i = 0; i < kColumnCount; ++i) {
    if (widest[i] > 0) width += std::max(widest[i], std::string_view(kTitles[i]).size()) + 2;
  }
  widest[kNodes] = 1;
  const size_t for_nodes = width + kLeastNodes < kColumns ? kColumns - width : kLeastNodes;
  Table table;
  for (size_t i = 0; i < kColumnCount; ++i) {
    if (widest[i] > 0) table.header.emplace_back(kTitles[i]);
  }
  for (Row& row : rows) {
    row.cells[kNodes] = nodes_text(row, for_nodes);
    table.rows.emplace_back();
    for (size_t i = 0; i < kColumnCount; ++i) {
      if (widest[i] > 0) table.rows.back().push_back(row.cells[i].empty() ? "-" : std::move(row.cells[i]));
    }
  }
  out.begin(concat("regions of ", text(function, "name"), ", for ", text(program, "families"),
                   is_estimated ? "; share: of the time that the compiler estimates" : ""));
  out.add(std::move(table));
}

}  // namespace

std::vector<std::string> tensor_texts(const Json& tensors, const Json& slots) {
  std::vector<std::string> items;
  for (const Json& one : tensors) {
    const uint64_t slot = number(one, "slot");
    const bool is_named = slots.size() > 1 && slot < slots.size();
    std::string item = concat(text(one, "name"), ": ", text(one, "type"), is_named ? " on " + slot_name(slots[slot]) : std::string());
    const std::string alias = one.contains("alias") ? text(one, "alias") : std::string();
    if (one.contains("consumed")) {
      item += alias.empty() ? " (overwritten)" : " (overwritten by " + alias + ")";
    } else if (!alias.empty()) {
      item += " in the memory of " + alias;
    }
    items.push_back(std::move(item));
  }
  return items;
}

void add_symbols(const Json& function, Document& out) {
  for (const Json& symbol : array(function, "symbols")) {
    out.add(concat(padded("  symbol"), text(symbol, "name"), " is ", text(symbol, "min"),
                   number(symbol, "max") == INT64_MAX ? " or more" : ".." + text(symbol, "max"),
                   number(symbol, "divisor") > 1 ? ", a multiple of " + text(symbol, "divisor") : std::string()));
  }
}

std::string program_text(const Json& program) {
  return concat(padded("  program"), "for ", text(program, "families"), ": ", text(program, "instructions"), " instructions, ",
                array(program, "regions").size(), " dispatches, ", text(program, "transients"), " transients");
}

std::string weights_text(const Json& whole) {
  uint64_t stored = 0, outside = 0, stored_bytes = 0, outside_bytes = 0, derived = 0, state = 0;
  std::vector<std::string> scopes;  // of those outside
  for (const Json& parameter : array(whole, "parameters")) {
    const bool inside = parameter.value("stored", false);
    (inside ? stored : outside) += 1;
    (inside ? stored_bytes : outside_bytes) += number(parameter, "size_bytes");
    const std::string scope = concat("'", parameter.value("scope", ""), "'");
    if (!inside && std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) scopes.push_back(scope);
  }
  for (const Json& global : array(whole, "globals")) {
    const std::string kind = text(global, "kind");
    if (kind == "derived") derived += number(global, "size_bytes");
    if (kind == "state") state += number(global, "size_bytes");
  }
  std::string scopes_text;
  if (scopes.size() > 1 || (!scopes.empty() && scopes[0] != "''")) {
    for (const std::string& scope : scopes) scopes_text += (scopes_text.empty() ? " in scope " : ", ") + scope;
  }
  return concat("in the file: ", stored, " of ", bytes_text(stored_bytes), "; outside: ", outside, " of ", bytes_text(outside_bytes),
                scopes_text, "; computed at load: ", bytes_text(derived), "; state: ", bytes_text(state));
}

Document summarize(const Json& whole, const std::string& function) {
  Document out;
  add_module(whole, out);
  std::vector<const Json*> functions;
  for (const Json& one : array(whole, "functions")) {
    if (function.empty() || text(one, "name") == function) functions.push_back(&one);
  }
  for (const Json* one : functions) add_function(whole, *one, out);
  if (const Json& report = part(whole, "compiler_report"); !report.is_structured()) {
    out.begin("the compiler's report");
    out.add("  " + cell_text(report));
  }
  out.begin("more", true);
  out.add(padded("more") + "--full: kernels, fused ops, refused fusions; --memory: bytes needed; --route: devices and reasons;");
  out.add(padded("") + "--html FILE: a page with a drawing; heddle profile: measured time of each region");
  for (const Json* one : functions) {
    for (const Json& program : array(*one, "programs")) add_regions(whole, *one, program, out);
  }
  return out;
}

std::string RegionKinds::of(const std::string& region) const {
  const std::string name = first_word(region);
  for (const Json& one : array(part(report_, "compiler_report"), "regions")) {
    if (text(one, "region") == name && one.contains("kind")) return text(one, "kind");
  }
  for (const Json& function : array(report_, "functions")) {
    for (const Json& program : array(function, "programs")) {
      for (const Json& one : array(program, "operations")) {
        if (text(one, "region") == region && one.value("required", true)) return kPluginOperator;
      }
    }
  }
  return "";
}

}  // namespace heddle::tool
