// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain`: what is in a module, what the compiler decided, what runs on which slot, and with --route on which device and why.
#include <algorithm>

#include "tools/heddle/command.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  ModuleFlags module;
  std::string format = "table";
  bool route = false, memory = false, html = false;
  void declare(Flags& flags) {
    module.add_to(flags, true);
    flags.on("--route", route,
             "bind the module to devices and say which, with which variants, and why, and what runs each region; its code is loaded, and "
             "not run; with --device or --config, too");
    flags.on("--memory", memory, "not in this version");
    flags.on("--html", html, "not in this version");
    flags.choice("--format", format, {"table", "json"}, "form of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("explain", "Says what is in a module and what was decided about it; with --route also where it would run and why.");
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

void print_function(const Json& function, const Json& slots) {
  auto slot_of = [&](const Json& type) {
    const uint64_t slot = number(type, "slot");
    if (slots.size() < 2 || slot >= slots.size()) return std::string();
    const std::string name = cell_text(slots[slot]);
    return name == "-" ? std::string(" on default") : " on " + name;
  };
  auto types = [&](const Json& list) {
    std::string out;
    for (const Json& one : list) out += (out.empty() ? "" : ", ") + text(one, "name") + ": " + text(one, "type") + slot_of(one);
    return out.empty() ? std::string("nothing") : out;
  };
  print_line("function " + text(function, "name"));
  print_line("  takes    " + types(array(function, "arguments")));
  print_line("  gives    " + types(array(function, "results")));
  for (const Json& symbol : array(function, "symbols")) {
    print_line("  where    " + text(symbol, "name") + " is " + text(symbol, "min") +
               (number(symbol, "max") == INT64_MAX ? " or more" : ".." + text(symbol, "max")) +
               (number(symbol, "divisor") > 1 ? ", a multiple of " + text(symbol, "divisor") : ""));
  }
  for (const Json& program : array(function, "programs")) {
    print_line("  program  for " + text(program, "families") + ": " + text(program, "instructions") + " instructions, " +
               std::to_string(array(program, "regions").size()) + " dispatches, " + text(program, "transients") + " transients");
  }
}

void print_executables(const Json& module) {
  Table table{{"executable", "entries", "variants", "code", "workspace", "rungs"}, {}};
  for (const Json& executable : array(module, "executables")) {
    std::string variants, rungs;
    uint64_t code = 0, workspace = 0;
    for (const Json& variant : array(executable, "variants")) {
      variants += (variants.empty() ? "" : ", ") + text(variant, "target");
      code = std::max(code, number(variant, "code_bytes"));
      for (const Json& need : array(variant, "resources")) {
        workspace = std::max(workspace, number(need, "workspace_bytes"));
        if (need.contains("rung")) rungs += (rungs.empty() ? "" : ", ") + text(need, "rung");
      }
    }
    table.rows.push_back({text(executable, "name"), std::to_string(array(executable, "entries").size()), variants, bytes_text(code),
                          bytes_text(workspace), rungs.empty() ? "-" : rungs});
  }
  if (table.rows.empty()) return;
  print_line("");
  print_table(table, Format::kTable);
}

// Operators of library plugins, each with its regions.
void print_operations(const Json& module, bool required, const std::string& title) {
  Table table{{"operator", "regions", "attributes"}, {}};
  for (const Json& function : array(module, "functions")) {
    const Json& programs = array(function, "programs");
    if (programs.empty()) continue;
    for (const Json& one : array(programs[0], "operations")) {  // every program has the same
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
  if (table.rows.empty()) return;
  print_line("");
  print_line(title);
  print_table(table, Format::kTable);
}

void print_parameters(const Json& module) {
  uint64_t stored = 0, outside = 0, stored_bytes = 0, outside_bytes = 0;
  for (const Json& parameter : array(module, "parameters")) {
    const bool inside = parameter.value("stored", false);
    (inside ? stored : outside) += 1;
    (inside ? stored_bytes : outside_bytes) += number(parameter, "size_bytes");
  }
  uint64_t derived = 0, state = 0;
  for (const Json& global : array(module, "globals")) {
    const std::string kind = text(global, "kind");
    if (kind == "derived") derived += number(global, "size_bytes");
    if (kind == "state") state += number(global, "size_bytes");
  }
  print_line("");
  print_line("parameters in the file: " + std::to_string(stored) + " of " + bytes_text(stored_bytes) +
             "; outside: " + std::to_string(outside) + " of " + bytes_text(outside_bytes) + "; packed at load: " + bytes_text(derived) +
             "; state: " + bytes_text(state));
}

void print_route(const Json& route) {
  for (const Json& slot : array(route, "slots")) {
    print_line("slot '" + (text(slot, "slot") == "-" ? std::string() : text(slot, "slot")) + "' is " + text(slot, "device") + " (" +
               text(slot, "driver") + "): " + text(slot, "reason"));
    for (const Json& refusal : array(slot, "refused")) print_line("  not " + text(refusal, "device") + ": " + text(refusal, "reason"));
    for (const Json& absent : array(slot, "absent")) print_line("  absent: " + cell_text(absent));
  }
  for (const Json& link : array(route, "links")) {
    print_line("copies from " + text(link, "from") + " to " + text(link, "to") + " are " + text(link, "copies") + ": " +
               text(link, "reason"));
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
  print_table(table, Format::kTable);
}

// A region's name is a word; behind it is the node that it was made from, which the compiler's report has in a field of its own.
bool is_region(const Json& routed, const Json& region) {
  const std::string name = text(routed, "region"), word = text(region, "region");
  return name == word || name.starts_with(word + " ");
}

// The regions of the program that was chosen, each with its device and what runs it; of all programs where none was. Operators of plugins are
// regions of the route alone.
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
    if (!chosen(region)) continue;
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

void print_places(const Json& places) {
  Table regions{{"region", "node", "program for", "slot", "device", "placed by", "run by", "why"}, {}};
  for (const Json& place : array(places, "regions")) {
    if (text(place, "region")[0] == '$') continue;  // of the initializer: JSON has them
    regions.rows.push_back({text(place, "region"), text(place, "node"), text(place, "families"), text(place, "slot"), text(place, "device"),
                            text(place, "placed_by"), text(place, "runs"), text(place, "why")});
    regions.below.emplace_back();
    for (const Json& passed : array(place, "passed")) regions.below.back().push_back("passed over " + cell_text(passed));
  }
  Table transfers{{"transfer of", "program for", "from", "to", "bytes"}, {}};
  for (const Json& one : array(places, "transfers")) {
    transfers.rows.push_back({text(one, "node"), text(one, "families"), text(one, "from"), text(one, "to"), text(one, "bytes")});
  }
  for (const Table* table : {&regions, &transfers}) {
    if (table->rows.empty()) continue;
    print_line("");
    print_table(*table, Format::kTable);
  }
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.memory) return flags.misuse("--memory is not in this version");
  if (options.html) return flags.misuse("--html is not in this version");
  if (Wrong wrong = slot_bound_twice(options.module.devices); !wrong.empty()) return flags.misuse("--device: " + wrong);
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  Module module;
  if (heddle_status_t* status = open_module(runtime.get(), options.module, module)) return report(status);
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_module_report(module.get(), &raw)) return report(status);
  Json whole = parse_json(text_of(Text(raw)));
  if (!whole.is_object()) return failed("explain", "the runtime's report is not what this version reads");
  const std::string& wanted = options.module.function;
  const Json& functions = array(whole, "functions");
  std::string names;
  for (const Json& function : functions) names += (names.empty() ? "" : ", ") + text(function, "name");
  if (!wanted.empty() && std::none_of(functions.begin(), functions.end(), [&](const Json& one) { return text(one, "name") == wanted; }))
    return flags.misuse("--function: there is no function '" + wanted + "'; the module has " + (names.empty() ? "none" : names));
  if (options.route || !options.module.devices.empty() || !options.runtime.config.empty()) {
    Instance instance;
    if (heddle_status_t* status =
            create_instance(module.get(), options.module, options.module.devices, instance, HEDDLE_INSTANCE_ROUTE_ONLY))
      return report_instance_failure(status);
    if (heddle_status_t* status = heddle_instance_report(instance.get(), view("route"), &raw)) return report(status);
    whole["route"] = parse_json(text_of(Text(raw)));
  }
  whole["places"] = places_of(whole);
  if (options.format == "json") {
    print_line(dump_json(whole, 2));
    return kFine;
  }
  print_line("module " + text(whole, "name") + ", " + text(whole, "path") + ", by " + text(whole, "producer") + ", hash " +
             text(whole, "content_hash"));
  for (const Json& function : array(whole, "functions")) {
    if (options.module.function.empty() || text(function, "name") == options.module.function)
      print_function(function, array(whole, "slots"));
  }
  print_operations(whole, true,
                   "operators of plugins: a library plugin that declares each must be installed where it runs (heddle plugins)");
  print_operations(whole, false, "operators that a plugin may run instead of the module's own kernels ([[prefer]] of heddle.toml)");
  print_executables(whole);
  print_parameters(whole);
  if (whole.contains("compiler_report")) {
    print_line("\nthe compiler's report");
    if (whole["compiler_report"].is_structured()) {
      print_tree(whole["compiler_report"], "  ");
    } else {
      print_line("  " + cell_text(whole["compiler_report"]));
    }
  }
  if (whole.contains("route")) {
    print_line("");
    print_route(whole["route"]);
  }
  if (whole.contains("route") || array(whole, "slots").size() > 1) print_places(whole["places"]);
  return kFine;
}

}  // namespace

Command explain_command() {
  return {"explain",
          "says what is in a module and what was decided about it",
          run,
          [] {
            Options options;
            Flags flags = make_flags();
            options.declare(flags);
            return flags.names();
          },
          {}};
}

}  // namespace heddle::tool
