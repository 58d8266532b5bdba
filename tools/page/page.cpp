// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From top to bottom: facts, drawings, a table of the regions, and folded away everything that `heddle explain --full` prints.
#include "tools/page/page.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "sdk/module/error.h"
#include "tools/heddle/explain_document.h"
#include "tools/heddle/explain_summary.h"
#include "tools/page/panels.h"
#include "tools/page/style.h"

namespace heddle::tool {
namespace {

using module::concat;

constexpr int kDeepest = 12;

void add_table(const Table& table, Html& out) {
  out.raw("<div class=\"wide\"><table><tr>");
  for (const std::string& title : table.header) out.element("th", title);
  out.raw("</tr>\n");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    out.raw("<tr>");
    for (const std::string& cell : table.rows[i]) out.element("td", cell);
    out.raw("</tr>\n");
    if (i >= table.below.size()) continue;
    for (const std::string& line : table.below[i])
      out.raw("<tr><td class=\"below\" colspan=\"").number(table.header.size()).raw("\">").text(line).raw("</td></tr>\n");
  }
  out.raw("</table></div>\n");
}

void add_tree(const Json& tree, Html& out, int depth = 0) {
  if (depth > kDeepest) return (void)out.raw("...");
  out.raw("<ul>");
  for (auto part = tree.begin(); part != tree.end(); ++part) {
    out.raw("<li>");
    if (is_plain(*part)) {
      if (tree.is_object()) out.element("small", part.key()).raw(" ");
      out.text(cell_text(*part));
    } else if (tree.is_object()) {
      out.raw("<details><summary>").text(part.key()).raw(" <small>" + std::to_string(part->size()) + "</small></summary>");
      add_tree(*part, out, depth + 1);
      out.raw("</details>");
    } else if (part->is_object() && std::all_of(part->begin(), part->end(), is_plain)) {
      out.text(plain_fields(*part));
    } else {
      if (part->is_object()) out.text(plain_fields(*part));
      Json nested = part->is_object() ? Json::object() : Json::array();
      for (auto one = part->begin(); one != part->end(); ++one) {
        if (!part->is_object()) {
          nested.push_back(*one);
        } else if (!is_plain(*one)) {
          nested[one.key()] = *one;
        }
      }
      add_tree(nested, out, depth + 1);
    }
    out.raw("</li>");
  }
  out.raw("</ul>\n");
}

void fact(std::string_view title, std::string_view value, Html& out) {
  if (!value.empty() && value != "-") out.element("dt", title).element("dd", value).raw("\n");
}

std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& one : items) out += (out.empty() ? "" : ", ") + one;
  return out;
}

class Page {
 public:
  Page(const Json& whole, const std::string& function) : whole_(whole), times_(part(whole, "profile")), slots_(array(whole, "slots")) {
    for (const Json& one : array(whole, "functions")) {
      if (function.empty() || text(one, "name") == function) functions_.push_back(&one);
    }
    for (const Json& slot : array(part(whole, "route"), "slots")) families_.push_back(text(slot, "family"));
    for (const Json& slot : slots_) {
      std::string name = cell_text(slot) == "-" ? "default" : cell_text(slot);
      for (const Json& bound : array(part(whole, "route"), "slots")) {
        if (text(bound, "slot") == cell_text(slot)) name += ", " + text(bound, "device");
      }
      slot_names_.push_back(std::move(name));
    }
  }

  std::string make(const std::string& function) {
    const std::string name = text(whole_, "name");
    out_.raw(kHead).element("title", name + " - heddle").raw("</head><body>\n<header>").element("h1", name).raw("\n<dl>\n");
    add_facts();
    out_.raw("</dl></header>\n");
    for (const Json* one : functions_) {
      for (const Json& program : array(*one, "programs")) {
        if (is_chosen(program)) drawings_.push_back({one, &program, make_graph(whole_, *one, program), {}});
      }
    }
    bool is_folded = false;
    for (Program& one : drawings_) {
      one.folded = folded_picture_of(one.graph);
      is_folded |= one.folded.blocks > 0;
    }
    if (is_folded) {
      out_.raw("<input type=\"radio\" name=\"view\" id=\"folded\" checked><label for=\"folded\">repeated blocks once</label>");
      out_.raw("<input type=\"radio\" name=\"view\" id=\"all\"><label for=\"all\">every region</label>\n");
    }
    if (!times_.empty()) {
      out_.raw("<input type=\"radio\" name=\"color\" id=\"heat\" checked><label for=\"heat\">colors by time</label>");
      out_.raw("<input type=\"radio\" name=\"color\" id=\"kinds\"><label for=\"kinds\">by kind</label>\n");
    }
    out_.raw("<main>\n");
    for (size_t i = 0; i < drawings_.size(); ++i) add_program(drawings_[i], std::to_string(i));
    add_load();
    add_document(function);
    return out_.raw("</main></body></html>\n").take();
  }

 private:
  struct Program {
    const Json* function;
    const Json* program;
    Graph graph;
    Picture folded;
  };

  // All, unless the module is bound to devices.
  bool is_chosen(const Json& program) const { return families_.empty() || array(program, "families") == families_; }

  size_t regions_of(const char* list, const Json& families) const {
    size_t count = 0;
    for (const Json& one : array(whole_, list)) {
      if (array(one, "families") == families) count += array(one, "regions").size();
    }
    return count;
  }

  void add_facts() {
    for (const Json* function : functions_) {
      const std::string of = functions_.size() > 1 ? " of " + text(*function, "name") : std::string();
      fact("arguments" + of, joined(tensor_texts(array(*function, "arguments"), slots_)), out_);
      fact("results" + of, joined(tensor_texts(array(*function, "results"), slots_)), out_);
      std::string symbols;
      for (const Json& symbol : array(*function, "symbols")) {
        symbols += (symbols.empty() ? "" : ", ") + text(symbol, "name") + " is " + text(symbol, "min") +
                   (number(symbol, "max") == INT64_MAX ? " or more" : ".." + text(symbol, "max")) +
                   (number(symbol, "divisor") > 1 ? ", a multiple of " + text(symbol, "divisor") : std::string());
      }
      fact("symbols" + of, symbols, out_);
      for (const Json& program : array(*function, "programs")) {
        if (!is_chosen(program)) continue;
        const size_t at_load = regions_of("initializer", array(program, "families"));
        fact("regions" + of,
             concat(array(program, "regions").size(), " for ", text(program, "families"),
                    at_load > 0 ? concat("; ", at_load, " more, not drawn, prepare weights when the module is loaded") : ""),
             out_);
      }
    }
    const uint64_t file_bytes = number(whole_, "file_bytes");
    fact("file",
         text(whole_, "path") + (file_bytes > 0 ? ", " + bytes_text(file_bytes) : std::string()) + ", by " + text(whole_, "producer"),
         out_);
    fact("parameters", weights_text(whole_), out_);
    add_memory();
    if (times_.call_ns > 0) {
      fact("time per call",
           duration_text(times_.call_ns) + ", of which regions " + duration_text(times_.sum_ns) + "; " +
               text(part(whole_, "profile"), "calls") + " calls measured with profiling",
           out_);
      for (const auto& [device, peaks] : part(part(whole_, "profile"), "peaks").items()) {
        auto rate = [&peaks = peaks](const char* name) {
          char text[40];
          std::snprintf(text, sizeof(text), "%.1f",
                        peaks.contains(name) && peaks[name].is_number() ? peaks[name].template get<double>() : 0.0);
          return std::string(text);
        };
        const std::string unmeasured = text(peaks, "unmeasured");
        fact("peaks of " + device,
             unmeasured != "-"
                 ? "not measured: " + unmeasured
                 : concat(rate("gflops"), " GFLOP/s of f32", peaks.contains("f16_gflops") ? ", " + rate("f16_gflops") + " of f16" : "",
                          "; reads ", rate("read_gbytes"), " GB/s of memory, ", rate("cached_gbytes"), " of caches; copies ",
                          rate("copy_gbytes")),
             out_);
      }
    }
  }

  // The first column of the table further down.
  void add_memory() {
    for (const Json& needs : array(whole_, "memory")) {
      const Json& labels = array(needs, "labels");
      for (const Json& program : array(needs, "programs")) {
        const Json& calls = array(program, "calls");
        if (calls.empty() || labels.empty()) continue;
        const std::string label = cell_text(labels[0]);
        std::string line;
        const Json& places = array(program, "places");
        const Json& of_call = array(calls[0], "places");
        for (size_t i = 0; i < places.size() && i < of_call.size(); ++i) {
          line += (line.empty() ? "" : "; ") +
                  (places.size() > 1 ? (text(places[i], "place") == "-" ? std::string("default") : text(places[i], "place")) + " "
                                     : std::string());
          line += bytes_text(number(of_call[i], "total")) + ": weights " + bytes_text(number(places[i], "weights")) + ", arena " +
                  bytes_text(number(of_call[i], "arena"));
        }
        fact("memory",
             line + (label == "bytes" ? "" : " (" + label + ")") +
                 (array(needs, "programs").size() > 1 ? ", for " + text(program, "families") : ""),
             out_);
      }
    }
  }

  void add_legend(const Graph& graph) {
    std::map<std::string, std::pair<size_t, double>> groups;
    for (const Node& node : graph.nodes) {
      if (node.kind != Node::Kind::kRegion && node.kind != Node::Kind::kCopy) continue;
      ++groups[node.group].first;
      groups[node.group].second += times_.of(node);
    }
    if (const auto copies = groups.find("copy"); copies != groups.end()) copies->second.second = times_.copies_ns;
    out_.raw("<p>");
    for (const auto& [group, sum] : groups) {
      out_.raw("<span class=\"key ").raw(group_class(group)).raw("\">").text(concat(group, " ", sum.first));
      if (sum.second > 0) out_.text(", " + share_text(sum.second / times_.sum_ns));
      out_.raw("</span>");
    }
    out_.raw("</p>\n");
  }

  void add_program(const Program& one, const std::string& prefix) {
    const Json& families = array(*one.program, "families");
    out_.raw("<section>").element("h2", concat(text(*one.function, "name"), ", for ", text(*one.program, "families"))).raw("\n");
    if (array(*one.program, "commands").empty() && !array(*one.program, "regions").empty())
      out_.element("p", "This report has no commands, and so no data flow; make it with this version of heddle explain.");
    add_legend(one.graph);
    const Panels panels(whole_, families, one.graph, slot_names_, prefix, times_);
    if (one.folded.blocks > 0) {
      out_.raw("<div class=\"wide folded\">");
      draw(one.graph, one.folded, slot_names_, prefix, times_, out_);
      out_.raw("</div>\n");
      panels.draw_groups(one.folded, out_);
    }
    out_.raw("<div class=\"wide all\">");
    draw(one.graph, picture_of(one.graph), slot_names_, prefix, times_, out_);
    out_.raw("</div>\n");
    panels.draw(out_);
    add_regions(one, prefix);
    out_.raw("</section>\n");
  }

  void add_regions(const Program& one, const std::string& prefix) {
    out_.raw(
        "<details><summary>regions in order</summary><div "
        "class=\"wide\"><table><tr><th>region</th><th>nodes</th><th>kind</th><th>result</th>");
    out_.raw(slots_.size() > 1 ? "<th>slot</th>" : "").raw("<th>strategy</th>");
    out_.raw(times_.empty() ? "" : "<th>time per call</th><th>share</th><th></th><th>of roofline</th><th></th>").raw("</tr>\n");
    double most = 0;
    for (const Node& node : one.graph.nodes) most = std::max(most, times_.of(node));
    for (size_t i = 0; i < one.graph.nodes.size(); ++i) {
      const Node& node = one.graph.nodes[i];
      if (node.kind != Node::Kind::kRegion && !node.crosses()) continue;
      out_.raw("<tr><td><a href=\"#p").raw(prefix).raw("-").number(i).raw("\">").text(node.name).raw("</a></td>");
      out_.element("td", cut_end(joined(node.nodes), 60)).element("td", node.group).element("td", joined(node.outputs));
      if (slots_.size() > 1) out_.element("td", node.slot < slot_names_.size() ? slot_names_[node.slot] : "");
      out_.element("td", node.kernel ? text(*node.kernel, "strategy") : "");
      if (!times_.empty()) {
        const double ns = times_.of(node);
        out_.element("td", ns > 0 ? duration_text(ns) : "")
            .element("td", ns > 0 ? share_text(ns / times_.sum_ns) : "")
            .raw("<td class=\"meter\">");
        if (ns > 0) out_.raw("<i style=\"width:").number(ns / most * 100).raw("%\"></i>");
        out_.raw("</td>");
        const Times::Time* time = times_.find(node);
        const double roofline = time ? time->roofline : -1;
        out_.element("td", roofline >= 0 ? share_text(roofline) : "").raw("<td class=\"meter roofline\">");
        if (roofline >= 0) out_.raw("<i style=\"width:").number(std::min(roofline, 1.0) * 100).raw("%\"></i>");
        out_.raw("</td>");
      }
      out_.raw("</tr>\n");
    }
    out_.raw("</table></div></details>\n");
  }

  void add_load() {
    std::vector<std::string> lines;
    for (const Json& program : array(whole_, "initializer")) {
      if (!is_chosen(program)) continue;
      for (const Json& region : array(program, "regions")) lines.push_back(cell_text(region));
    }
    if (lines.empty()) return;
    out_.raw("<details><summary>").text(concat(lines.size(), " regions that run when the module is loaded")).raw("</summary><ul>\n");
    for (const std::string& line : lines) out_.element("li", line).raw("\n");
    out_.raw("</ul></details>\n");
  }

  void add_document(const std::string& function) {
    out_.raw("<details><summary>everything, as heddle explain --full prints it</summary>\n");
    const Document document = describe(whole_, function);
    for (const Document::Section& section : document.sections()) {
      if (section.parts.empty()) continue;
      out_.raw("<section>").element("h2", section.title).raw("\n");
      for (const auto& one : section.parts) {
        if (const auto* line = std::get_if<std::string>(&one)) {
          out_.element("p", *line).raw("\n");
        } else if (const auto* table = std::get_if<Table>(&one)) {
          add_table(*table, out_);
        } else {
          add_tree(std::get<Json>(one), out_);
        }
      }
      out_.raw("</section>\n");
    }
    out_.raw("</details>\n");
  }

  const Json& whole_;
  const Times times_;
  const Json& slots_;
  Json families_ = Json::array();
  std::vector<std::string> slot_names_;
  std::vector<const Json*> functions_;
  std::vector<Program> drawings_;
  Html out_;
};

}  // namespace

std::string page_of(const Json& whole, const std::string& function) {
  if (whole.contains("places")) return Page(whole, function).make(function);
  Json with_places = whole;
  with_places["places"] = places_of(whole);
  return Page(with_places, function).make(function);
}

}  // namespace heddle::tool
