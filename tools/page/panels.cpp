// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A panel is visible while its name is the fragment of the address, so that no script is needed.
#include "tools/page/panels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sdk/module/error.h"

namespace heddle::tool {
namespace {

using module::concat;

// Why the compiler did not fuse two ops, by the kinds of its report.
std::string reason_text(const Json& refusal) {
  static const std::map<std::string, const char*> kReasons{
      {"RootAfterProducer", "the reader starts a region of its own, which needs the whole result first"},
      {"MultipleUses", "the result has several readers, so it is stored in any case"},
      {"DataMovement", "the elements would be read in another order than they are computed in"},
      {"IterationDomainMismatch", "the two iterate over different extents"},
      {"NoEpilogue", "the region's root supports no epilogue"},
      {"TooManyBindings", "the kernel would access more values than a kernel can bind"},
      {"SlotBoundary", "the two are on different slots"},
      {"LibraryBoundary", "one of the two is an operator of a plugin"}};
  const std::string kind = text(refusal, "kind");
  const auto known = kReasons.find(kind);
  std::string out = known == kReasons.end() ? kind : known->second;
  if (const std::string detail = text(refusal, "reason"); detail != "-") out += ": " + detail;
  return out;
}

void row(std::string_view title, std::string_view value, Html& out) {
  if (value.empty() || value == "-") return;
  out.element("dt", title).element("dd", value).raw("\n");
}

}  // namespace

Panels::Panels(const Json& whole, const Json& families, const Graph& graph, const std::vector<std::string>& slots, std::string prefix,
               const Times& times)
    : whole_(whole), graph_(graph), slots_(slots), prefix_(std::move(prefix)), times_(times), readers_(graph.nodes.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const Use& use : graph.nodes[i].uses) {
      if (readers_[use.from].empty() || readers_[use.from].back() != i) readers_[use.from].push_back(i);
    }
  }
  for (const Json& place : array(part(whole, "places"), "regions")) {
    if (array(place, "families") == families) places_.try_emplace(region_name(text(place, "region")), &place);
  }
  for (const Json& refusal : array(part(whole, "compiler_report"), "not_fused")) {
    if (!refusal.is_object() || (refusal.contains("families") && array(refusal, "families") != families)) continue;
    for (const char* side : {"producer", "consumer"}) refusals_[text(refusal, side)].push_back(&refusal);
  }
}

Html& Panels::link(size_t index, Html& out) const {
  const Node& node = graph_.nodes[index];
  out.raw("<a href=\"#p").raw(prefix_).raw("-").number(index).raw("\">").text(node.name).raw("</a>");
  if (!node.nodes.empty()) out.raw(" <small>").text(node.nodes[0]).raw("</small>");
  return out;
}

void Panels::draw_kernel(const Node& node, Html& out) const {
  if (!node.kernel) return;
  const Json& kernel = *node.kernel;
  row("kernel", text(kernel, "kernel") + ", for " + text(kernel, "family"), out);
  row("strategy", text(kernel, "strategy"), out);
  row("plan", text(kernel, "choice"), out);
  std::string grid = text(kernel, "workgroups");
  if (grid != "-") {
    const uint64_t cost = number(kernel, "workgroup_cost_ns");
    row("workgroups",
        grid + (cost > 0 ? ", estimated at " + duration_text(static_cast<double>(cost)) + " each on one core" : std::string()), out);
  }
  for (const Json& variant : array(kernel, "variants")) {
    std::string needs = "workspace " + bytes_text(number(variant, "workspace_bytes"));
    for (const auto& [field, words] : {std::pair("shared_memory_bytes", ", shared memory "), std::pair("spilled_bytes", ", spilled "),
                                       std::pair("private_bytes", ", private memory ")}) {
      if (const uint64_t bytes = number(variant, field)) needs += words + bytes_text(bytes);
    }
    if (const uint64_t threads = number(variant, "workgroup_size")) needs += concat(", ", threads, " threads per workgroup");
    if (const uint64_t registers = number(variant, "registers")) needs += concat(", ", registers, " registers");
    if (text(variant, "rung") != "-") needs += ", tile " + text(variant, "rung");
    row("for " + text(variant, "target"), needs, out);
  }
  for (const Json& special : array(*node.region, "special_kernels"))
    row("kernel " + text(special, "kernel"), "if " + text(special, "when"), out);
  for (const Json& refused : array(kernel, "refused")) row("not " + text(refused, "strategy"), text(refused, "reason"), out);
}

void Panels::draw_fusion(const Node& node, Html& out) const {
  if (!node.region) return;
  std::vector<std::string> own;
  for (const Json& op : array(*node.region, "ops")) own.push_back(text(op, "op") + " '" + text(op, "node") + "'");
  bool is_first = true;
  std::vector<const Json*> known;
  for (const std::string& op : own) {
    const auto found = refusals_.find(op);
    if (found == refusals_.end()) continue;
    for (const Json* refusal : found->second) {
      const std::string producer = text(*refusal, "producer"), consumer = text(*refusal, "consumer");
      const bool is_reader = consumer == op;
      const std::string& other = is_reader ? producer : consumer;
      if (std::find(own.begin(), own.end(), other) != own.end() || std::find(known.begin(), known.end(), refusal) != known.end()) continue;
      known.push_back(refusal);
      if (is_first) out.raw("<h4>not fused</h4><ul>\n");
      is_first = false;
      auto plain = [](const std::string& name) { return name.starts_with("tx.") ? name.substr(3) : name; };
      out.raw("<li>")
          .text(plain(op) + (is_reader ? " with " : " with its reader ") + plain(other) + ": " + reason_text(*refusal))
          .raw("</li>\n");
    }
  }
  if (!is_first) out.raw("</ul>\n");
}

void Panels::draw_node(size_t index, Html& out) const {
  const Node& node = graph_.nodes[index];
  out.raw("<section class=\"panel\" id=\"p")
      .raw(prefix_)
      .raw("-")
      .number(index)
      .raw("\"><a class=\"close\" href=\"#none\" title=\"close\">\xC3\x97</a><h3>");
  out.text(node.name).raw("</h3>\n<dl>\n");
  row("kind", node.group, out);
  if (node.crosses()) {
    auto name = [&](uint64_t slot) { return slot < slots_.size() ? slots_[slot] : std::string(); };
    row("from", name(node.from_slot), out);
    row("to", name(node.slot), out);
  } else if (node.slot < slots_.size()) {
    row("slot", slots_[node.slot], out);
  }
  const auto place = places_.find(node.name);
  if (node.kind == Node::Kind::kRegion && place != places_.end()) {
    row("placed by", text(*place->second, "placed_by"), out);
    row("run by", text(*place->second, "runs"), out);
    row("reason", text(*place->second, "why"), out);
    for (const Json& skipped : array(*place->second, "passed")) row("skipped", cell_text(skipped), out);
  }
  if (const double ns = times_.of(node); ns > 0) {
    row("time per call",
        duration_text(ns) + (times_.sum_ns > 0 ? ", " + share_text(ns / times_.sum_ns) + " of all regions" : std::string()), out);
    auto rate = [&](double amount, double share, const char* form) {
      char rate_text[80];
      std::snprintf(rate_text, sizeof(rate_text), form, amount);
      return rate_text + (share >= 0 ? ", " + share_text(share) + " of the device's peak" : std::string());
    };
    const Times::Time* time = times_.find(node);
    if (time && time->gbytes >= 0) {
      row("throughput", rate(time->gbytes, time->bytes_share, "%.2f GB/s"), out);
    } else if (node.read_bytes && node.written_bytes && node.kind == Node::Kind::kRegion) {  // of older profiles
      row("throughput", rate(static_cast<double>(*node.read_bytes + *node.written_bytes) / ns, -1, "%.2f GB/s"), out);
    }
    if (time && time->gflops >= 0) {
      row("operations per time", rate(time->gflops, time->flops_share, "%.1f GFLOP/s"), out);
    } else if (node.flops) {
      row("operations per time", rate(*node.flops / ns, -1, "%.1f GFLOP/s"), out);
    }
    if (time && time->roofline >= 0) row("share of the roofline", share_text(time->roofline), out);
  }
  if (node.kind == Node::Kind::kRegion && node.read_bytes && node.written_bytes) {
    row("bytes", "reads " + bytes_text(*node.read_bytes) + ", writes " + bytes_text(*node.written_bytes), out);
  } else if (node.kind == Node::Kind::kCopy) {
    row("bytes", node.size.empty() && node.written_bytes ? bytes_text(*node.written_bytes) : node.size, out);
  }
  if (node.flops) {
    char count[64];
    std::snprintf(count, sizeof(count), "%.3g GFLOP in contractions", *node.flops / 1e9);
    row("operations", count, out);
  }
  for (const std::string& type : node.outputs) row(node.kind == Node::Kind::kRegion ? "result" : "type", type, out);
  draw_kernel(node, out);
  if (node.region && node.region->contains("overwrites_operand"))
    row("in place", "the result replaces operand " + text(*node.region, "overwrites_operand"), out);
  out.raw("</dl>\n");
  if (node.region && !array(*node.region, "ops").empty()) {
    out.raw("<h4>ops, with their nodes of the model</h4><ul>\n");
    for (const Json& op : array(*node.region, "ops")) {
      std::string word = text(op, "op");
      if (word.starts_with("tx.")) word.erase(0, 3);
      out.raw("<li>").text(word);
      if (text(op, "node") != "-")
        out.raw(" <small>").text((text(op, "operator") == "-" ? "" : text(op, "operator") + " ") + text(op, "node")).raw("</small>");
      out.raw("</li>\n");
    }
    out.raw("</ul>\n");
  }
  if (!node.uses.empty()) out.raw("<h4>reads</h4><ul>\n");
  for (const Use& use : node.uses) {
    out.raw("<li>").text(use.type).raw(use.type.empty() ? "" : " from ");
    link(use.from, out).raw("</li>\n");
  }
  if (!node.uses.empty()) out.raw("</ul>\n");
  if (!node.weights.empty()) out.raw("<h4>reads, loaded before the first call</h4><ul>\n");
  for (const Weight& weight : node.weights) {
    out.raw("<li>")
        .text(weight.kind + " " + weight.name + ": " + (weight.type == "-" ? "" : weight.type + ", ") + bytes_text(weight.bytes))
        .raw("</li>\n");
  }
  if (!node.weights.empty()) out.raw("</ul>\n");
  if (!readers_[index].empty()) {
    out.raw("<h4>read by</h4><ul>\n");
    for (const size_t reader : readers_[index]) link(reader, out.raw("<li>")).raw("</li>\n");
    out.raw("</ul>\n");
  }
  draw_fusion(node, out);
  out.raw("</section>\n");
}

void Panels::draw(Html& out) const {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) draw_node(i, out);
}

void Panels::draw_groups(const Picture& picture, Html& out) const {
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    const Box& box = picture.boxes[i];
    if (box.count < 2) continue;
    out.raw("<section class=\"panel\" id=\"g").raw(prefix_).raw("-").number(box.node);
    out.raw("\"><a class=\"close\" href=\"#none\" title=\"close\">\xC3\x97</a><h3>")
        .text(concat(box.count, " equal nodes of a repeated block"));
    out.raw("</h3><p>Each repetition reads the results of the one before.</p><ul>\n");
    for (const size_t node : picture.nodes_of(i)) {
      link(node, out.raw("<li>"));
      if (const double ns = times_.of(graph_.nodes[node]); ns > 0) out.text(", " + duration_text(ns));
      out.raw("</li>\n");
    }
    out.raw("</ul></section>\n");
  }
}

}  // namespace heddle::tool
