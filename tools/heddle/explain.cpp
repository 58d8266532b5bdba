// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain`: what a module contains, what the compiler decided, what runs on which slot; with --route, on which device and why.
// Text answers one question: a summary, or the topic that a flag names, or with --full everything.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <span>

#include "tools/heddle/command.h"
#include "tools/heddle/explain_memory.h"
#include "tools/heddle/explain_page.h"
#include "tools/heddle/explain_summary.h"
#include "tools/heddle/npy.h"
#include "tools/heddle/same_file.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  ModuleFlags module;
  MemoryFlags memory;
  std::string format = "table", output;
  bool full = false, route = false, html = false;
  void declare(Flags& flags) {
    module.add_to(flags, true);
    flags.on("--full", full, "show everything: also executables, kernels, the ops of each region, and what was not fused");
    flags.on(
        "--route", route,
        "bind the module to devices and show which devices and variants were chosen and why, and what runs each region; loads code but "
        "does not run it; --device and --config imply it");
    memory.add_to(flags);
    flags.on("--html", html, "write the whole report, including --memory, as one self-contained HTML page without scripts");
    flags.text("-o,--output", output, "file for the HTML page (default: stdout); replaces an existing file", "FILE");
    flags.choice("--format", format, {"table", "json"}, "format of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("explain",
               "Shows a summary of a module and a row per region; with --memory or --route only that topic, with --full everything.");
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
    out.add("slot '" + (text(slot, "slot") == "-" ? std::string() : text(slot, "slot")) + "' is " + text(slot, "device") + " (" +
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
}

// A region's name is a single word; after it comes the node that the region was made from, which the compiler's report has in a separate field.
bool is_region(const Json& routed, const Json& region) {
  const std::string name = text(routed, "region"), word = text(region, "region");
  return name == word || name.starts_with(word + " ");
}

// The regions of the chosen program, each with its device and what runs it; the regions of all programs if none was chosen. Operators of plugins
// are regions of the route only.
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

// Only what the flags ask for.
Document describe_topics(const Json& whole) {
  Document out;
  if (whole.contains("route")) {
    describe_route(whole["route"], out);
    describe_places(whole["places"], out);
  }
  describe_memory(array(whole, "memory"), out);
  return out;
}

int write_page(const Flags& flags, const Options& options, const Json& whole) {
  const std::string page = explain_page(whole, describe(whole, options.module.function));
  if (options.output.empty()) {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return kFine;
  }
  if (Wrong wrong = write_raw(options.output, {page.size(), std::as_bytes(std::span(page)), nullptr}); !wrong.empty())
    return flags.failed("--output: " + wrong);
  return kFine;
}

// Checks the combination of flags.
Wrong check(const Options& options) {
  if (options.html && options.format == "json") return "--html and --format json exclude each other";
  if (!options.output.empty() && !options.html) return "--output needs --html; text goes to stdout";
  if (!options.html && !options.memory.wanted && !(options.memory.dims.empty() && options.memory.inputs.empty()))
    return "--dim and --input need --memory or --html";
  std::vector<NamedFile> read{{"the module", options.module.path}, {"--config", options.runtime.config}};
  for (const Assignment& file : parameter_files(options.module)) read.push_back({"the parameters of --params", file.value});
  if (Wrong wrong = file_named_twice({{"--output " + options.output, options.output}}, read); !wrong.empty()) return wrong;
  const Wrong twice = slot_bound_twice(options.module.devices);
  return twice.empty() ? twice : "--device: " + twice;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (Wrong wrong = check(options); !wrong.empty()) return flags.misuse(wrong);
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  Module module;
  if (heddle_status_t* status = open_module(runtime.get(), options.module, module)) return report(status);
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_module_report(module.get(), &raw)) return report(status);
  Json whole = parse_json(text_of(Text(raw)));
  if (!whole.is_object()) return failed("explain", "this version cannot read the runtime's report");
  std::error_code no_size;
  if (const uint64_t bytes = std::filesystem::file_size(options.module.path, no_size); !no_size) whole["file_bytes"] = bytes;
  const std::string& wanted = options.module.function;
  const Json& functions = array(whole, "functions");
  std::string names;
  for (const Json& function : functions) names += (names.empty() ? "" : ", ") + text(function, "name");
  if (!wanted.empty() && std::none_of(functions.begin(), functions.end(), [&](const Json& one) { return text(one, "name") == wanted; }))
    return flags.misuse("--function: there is no function '" + wanted + "'; the module has " + (names.empty() ? "none" : names));
  const bool is_bound = options.route || !options.module.devices.empty() || !options.runtime.config.empty();
  // With --memory alone nothing is loaded, even if devices are named.
  if (options.route || (is_bound && !options.memory.wanted)) {
    Instance instance;
    if (heddle_status_t* status =
            create_instance(module.get(), options.module, options.module.devices, instance, HEDDLE_INSTANCE_ROUTE_ONLY))
      return report_instance_failure(status);
    if (heddle_status_t* status = heddle_instance_report(instance.get(), view("route"), &raw)) return report(status);
    whole["route"] = parse_json(text_of(Text(raw)));
  }
  if (options.memory.wanted || options.html) {
    Json memory;
    if (std::optional<int> code = find_memory(flags, module.get(), options.module, whole, options.memory, is_bound, memory)) return *code;
    whole["memory"] = std::move(memory);
  }
  whole["places"] = places_of(whole);
  if (options.html) return write_page(flags, options, whole);
  if (options.format == "json") {
    print_line(dump_json(whole, 2));
  } else if (options.full) {
    describe(whole, wanted).print();
  } else if (whole.contains("route") || whole.contains("memory")) {
    describe_topics(whole).print();
  } else {
    summarize(whole, wanted).print();
  }
  return kFine;
}

}  // namespace

Command explain_command() {
  return {"explain", "shows what a module contains and what the compiler decided", run};
}

}  // namespace heddle::tool
