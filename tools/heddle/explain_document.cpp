// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that `heddle explain` says about a module, from its JSON. Needs neither a module nor a runtime: pages have it too.
#include "tools/heddle/explain_document.h"

#include <algorithm>

#include "tools/heddle/explain_summary.h"

namespace heddle::tool {
namespace {

std::string slot_text(const Json& name) {
  const std::string given = cell_text(name);
  return given == "-" ? "default" : given;
}

constexpr const char* kNotDonated = "total, not donated";
constexpr const char* kMapped = "  files mapped";

// Whether the driver may map files with parameters.
bool maps_files(const Json& program) {
  const Json& families = array(program, "families");
  return std::ranges::find(families, "cpu") != families.end();
}

// Whether calls overwrite inputs, of which they need copies unless the inputs are donated.
bool overwrites_inputs(const Json& program) {
  for (const Json& call : array(program, "calls")) {
    for (const Json& place : array(call, "places")) {
      if (number(place, "copies") != 0) return true;
    }
  }
  return false;
}

Table table_of(const Json& needs, const Json& program) {
  Table table{{"slot or device", "memory"}, {}};
  const Json &calls = array(program, "calls"), &places = array(program, "places"), &labels = array(needs, "labels");
  for (const Json& label : labels) table.header.push_back(cell_text(label));
  static constexpr std::pair<const char*, const char*> kRows[] = {{"weights", "weights"},
                                                                  {"  parameters", "parameters"},
                                                                  {"  constants", "constants"},
                                                                  {"  computed at load", "derived"},
                                                                  {"state", "state"},
                                                                  {"arena", "arena"},
                                                                  {"inputs", "arguments"},
                                                                  {"results", "results"},
                                                                  {"total", "total"},
                                                                  {kNotDonated, "copies"},
                                                                  {"peak at load", "peak_at_load"},
                                                                  {kMapped, "peak_at_load_mapped"}};
  for (size_t i = 0; i < places.size(); ++i) {
    std::string on = slot_text(part(places[i], "place")), slots;
    for (const Json& slot : array(places[i], "slots")) slots += (slots.empty() ? "" : ", ") + slot_text(slot);
    if (slots != on) on += " (" + slots + ")";
    for (const auto& [what, field] : kRows) {
      const bool is_copied = what == kNotDonated;
      if (is_copied && !overwrites_inputs(program)) continue;
      if (what == kMapped &&
          (!maps_files(program) || !places[i].contains(field) || number(places[i], field) == number(places[i], "peak_at_load")))
        continue;
      std::vector<std::string>& row = table.rows.emplace_back(std::vector<std::string>{on, what});
      on.clear();
      for (const Json& call : calls) {
        const Json& from = places[i].contains(field) || array(call, "places").size() <= i ? places[i] : array(call, "places")[i];
        row.push_back(bytes_text(number(from, field) + (is_copied ? number(from, "total") : 0)));
      }
    }
  }
  return table;
}

void describe_memory(const Json& functions, Document& out) {
  for (const Json& needs : functions) {
    if (needs.contains("failure")) {
      out.begin("memory needed by '" + text(needs, "function") + "'");
      out.add(text(needs, "failure"));
    }
    for (const Json& program : array(needs, "programs")) {
      out.begin("memory needed by '" + text(needs, "function") + "', for " + text(program, "families"));
      out.add(table_of(needs, program));
      if (overwrites_inputs(program)) {
        out.add("total: with the inputs donated that the function overwrites (heddle run --donate); not donated: a call copies them first");
      }
      if (maps_files(program)) {
        out.add(
            "parameters count as read; those that heddle.cpu maps, by default if it can, are pages of their files and no memory of its "
            "pool");
      }
      for (const Json& one : array(program, "not_counted_at_load")) out.add("not counted at load: " + cell_text(one));
      std::string last;
      for (const Json& call : array(program, "calls")) {
        const std::string missing = text(call, "not_counted");
        if (missing != "-" && missing != last) out.add("not counted: " + missing);
        last = missing;
      }
    }
  }
  if (!functions.empty()) {
    out.add(
        "each call that runs at the same time needs its own arena, inputs and results; memory that drivers need for themselves, such as "
        "for code, is not included");
  }
}

void describe_function(const Json& function, const Json& slots, Document& out) {
  auto types = [&](const Json& list) {
    std::string line;
    for (const std::string& one : tensor_texts(list, slots)) line += (line.empty() ? "" : ", ") + one;
    return line.empty() ? std::string("nothing") : line;
  };
  out.begin("function " + text(function, "name"));
  out.add("  arguments  " + types(array(function, "arguments")));
  out.add("  results    " + types(array(function, "results")));
  add_symbols(function, out);
  for (const Json& program : array(function, "programs")) out.add(program_text(program));
}

void describe_executables(const Json& module, Document& out) {
  Table table{{"executable", "entries", "variants", "code", "workspace", "tiles"}, {}};
  for (const Json& executable : array(module, "executables")) {
    std::string variants, tiles;
    uint64_t code = 0, workspace = 0;
    for (const Json& variant : array(executable, "variants")) {
      variants += (variants.empty() ? "" : ", ") + text(variant, "target");
      code = std::max(code, number(variant, "code_bytes"));
      for (const Json& need : array(variant, "resources")) {
        workspace = std::max(workspace, number(need, "workspace_bytes"));
        if (need.contains("tile")) tiles += (tiles.empty() ? "" : ", ") + text(need, "tile");
      }
    }
    table.rows.push_back({text(executable, "name"), std::to_string(array(executable, "entries").size()), variants, bytes_text(code),
                          bytes_text(workspace), tiles.empty() ? "-" : tiles});
  }
  out.begin("executables", true);
  out.add(std::move(table));
}

// Operators of library plugins, each with its regions.
void describe_operations(const Json& module, bool required, const std::string& title, Document& out) {
  Table table{{"operator", "regions", "attributes"}, {}};
  for (const Json& function : array(module, "functions")) {
    const Json& programs = array(function, "programs");
    if (programs.empty()) continue;
    for (const Json& one : array(programs[0], "operations")) {  // all programs have the same operations
      if (one.value("required", true) != required) continue;
      const std::string attributes = one.contains("attributes") ? dump_json(one["attributes"], -1) : "-";
      auto same = std::find_if(table.rows.begin(), table.rows.end(),
                               [&](const auto& row) { return row[0] == text(one, "operator") && row[2] == attributes; });
      if (same == table.rows.end()) {
        table.rows.push_back({text(one, "operator"), text(one, "region"), attributes});
      } else {
        (*same)[1] += ", " + text(one, "region");
      }
    }
  }
  out.begin(title);
  out.add(std::move(table));
}

void describe_route(const Json& route, Document& out) {
  out.begin("route", true);
  for (const Json& slot : array(route, "slots")) {
    out.add("slot '" + (text(slot, "slot") == "-" ? "default" : text(slot, "slot")) + "' is " + text(slot, "device") + " (" +
            text(slot, "driver") + "): " + text(slot, "reason"));
    for (const Json& refusal : array(slot, "refused")) out.add("  rejected " + text(refusal, "device") + ": " + text(refusal, "reason"));
    for (const Json& absent : array(slot, "absent")) out.add("  absent: " + cell_text(absent));
  }
  for (const Json& link : array(route, "links")) {
    out.add("copies from " + text(link, "from") + " to " + text(link, "to") + " are " + text(link, "copies") + ": " + text(link, "reason"));
  }
  Table table{{"executable", "device", "variant", "rank", "others"}, {}};
  for (const Json& executable : array(route, "executables")) {
    std::string others;
    for (const Json& other : array(executable, "others"))
      others += (others.empty() ? "" : ", ") + text(other, "target") + " (rank " + text(other, "rank") + ")";
    table.rows.push_back({text(executable, "name"), text(executable, "device"),
                          text(executable, "format") + " " + text(executable, "target"), text(executable, "rank"),
                          others.empty() ? "-" : others});
  }
  out.add(std::move(table));
  if (array(route, "portable").empty()) return;
  Table nodes{{"kernel", "device", "node", "run by", "reason"}, {}};
  for (const Json& part : array(route, "portable"))
    nodes.rows.push_back({text(part, "kernel"), text(part, "device"), text(part, "what"), text(part, "runs"), text(part, "why")});
  out.begin("portable code", true);
  out.add(std::move(nodes));
  size_t ruled = 0;
  for (const Json& region : array(route, "regions"))
    ruled += text(region, "runs") == "interpreted" || text(region, "runs").starts_with("driver:");
  if (ruled > 0)
    out.add("this is without rules: by [[prefer]], " + std::to_string(ruled) + (ruled == 1 ? " region is" : " regions are") +
            " run by other kernels of the driver, or interpreted; see below");
}

// A region's name is a single word; after it comes the node that the region was made from, which the compiler's report has in a separate field.
bool is_region(const Json& routed, const Json& region) {
  const std::string name = text(routed, "region"), word = text(region, "region");
  return name == word || name.starts_with(word + " ");
}

void describe_places(const Json& places, Document& out) {
  Table regions{{"region", "node", "program for", "slot", "device", "placed by", "run by", "reason"}, {}};
  for (const Json& place : array(places, "regions")) {
    if (text(place, "region")[0] == '$') continue;  // a region of the initializer, shown in JSON only
    regions.rows.push_back({text(place, "region"), text(place, "node"), text(place, "families"), text(place, "slot"), text(place, "device"),
                            text(place, "placed_by"), text(place, "runs"), text(place, "why")});
    regions.below.emplace_back();
    for (const Json& passed : array(place, "passed")) regions.below.back().push_back("skipped " + cell_text(passed));
  }
  Table transfers{{"transfer of", "program for", "from", "to", "bytes"}, {}};
  for (const Json& one : array(places, "transfers")) {
    transfers.rows.push_back({text(one, "node"), text(one, "families"), text(one, "from"), text(one, "to"), text(one, "bytes")});
  }
  out.begin("regions and transfers", true);
  out.add(std::move(regions));
  out.add(std::move(transfers));
}

}  // namespace

Json places_of(const Json& whole) {
  static const Json kNothing = Json::object();
  const Json& report = whole.contains("compiler_report") ? whole["compiler_report"] : kNothing;
  const Json& route = whole.contains("route") ? whole["route"] : kNothing;
  const Json& slots = array(route, "slots");
  Json families = Json::array();
  for (const Json& slot : slots) families.push_back(text(slot, "family"));
  auto chosen = [&](const Json& part) { return slots.empty() || array(part, "families") == families; };
  Json places{{"regions", Json::array()}, {"transfers", Json::array()}};
  auto add = [&](Json place) {
    for (const Json& slot : slots) {
      if (text(slot, "slot") == text(place, "slot") || (text(slot, "slot") == "-" && text(place, "slot") == "default")) {
        place["device"] = slot.value("device", Json());
      }
    }
    places["regions"].push_back(std::move(place));
  };
  auto take = [](Json& place, const Json& from, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (from.contains(name)) place[name] = from[name];
    }
  };
  std::vector<const Json*> untold;
  for (const Json& routed : array(route, "regions")) untold.push_back(&routed);
  for (const Json& region : array(report, "regions")) {
    if (!region.is_object() || !chosen(region)) continue;
    Json place;
    for (const char* name : {"region", "node", "families", "family", "slot", "placed_by"}) place[name] = region.value(name, Json());
    auto routed = std::find_if(untold.begin(), untold.end(), [&](const Json* one) { return is_region(*one, region); });
    if (routed != untold.end()) {
      take(place, **routed, {"runs", "why", "passed"});
      untold.erase(routed);
    }
    add(std::move(place));
  }
  for (const Json* routed : untold) {
    Json place;
    take(place, *routed, {"region", "slot", "runs", "why", "passed"});
    if (text(*routed, "slot") == "-") place["slot"] = "default";
    place["families"] = families;
    add(std::move(place));
  }
  for (const Json& transfer : array(report, "transfers")) {
    if (chosen(transfer)) places["transfers"].push_back(transfer);
  }
  return places;
}

Document describe(const Json& whole, const std::string& function) {
  Document out;
  out.begin("module", true);
  out.add("module " + text(whole, "name") + ", " + text(whole, "path") + ", by " + text(whole, "producer") + ", hash " +
          text(whole, "content_hash"));
  for (const Json& one : array(whole, "functions")) {
    if (function.empty() || text(one, "name") == function) describe_function(one, array(whole, "slots"), out);
  }
  describe_operations(whole, true,
                      "operators of plugins: the machine that runs the module needs a library plugin for each (see heddle plugins)", out);
  describe_operations(whole, false, "operators that a plugin may run instead of the module's own kernels ([[prefer]] of heddle.toml)", out);
  describe_executables(whole, out);
  out.begin("parameters and state", true);
  out.add("parameters " + weights_text(whole));
  Table outside{{"scope", "parameter", "type", "bytes"}, {}};
  for (const Json& parameter : array(whole, "parameters")) {
    if (parameter.value("stored", false)) continue;
    outside.rows.push_back({text(parameter, "scope"), text(parameter, "name"), text(parameter, "type"), text(parameter, "size_bytes")});
  }
  out.add(std::move(outside));
  if (whole.contains("compiler_report")) {
    out.begin("the compiler's report");
    if (whole["compiler_report"].is_structured()) {
      out.add_tree(whole["compiler_report"]);
    } else {
      out.add("  " + cell_text(whole["compiler_report"]));
    }
  }
  if (whole.contains("route")) describe_route(whole["route"], out);
  if (whole.contains("route") || array(whole, "slots").size() > 1) describe_places(whole["places"], out);
  describe_memory(array(whole, "memory"), out);
  return out;
}

Document describe_topics(const Json& whole) {
  Document out;
  if (whole.contains("route")) {
    describe_route(whole["route"], out);
    describe_places(whole["places"], out);
  }
  describe_memory(array(whole, "memory"), out);
  return out;
}

}  // namespace heddle::tool
