// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain`: what a module contains, what the compiler decided, what runs on which slot; with --route, on which device and why.
// Text answers one question: a summary, or the topic that a flag names, or with --full everything.
#include <algorithm>
#include <filesystem>

#include "sdk/module/json.h"
#include "tools/heddle/command.h"
#include "tools/heddle/explain_document.h"
#include "tools/heddle/explain_memory.h"
#include "tools/heddle/explain_summary.h"
#include "tools/heddle/page_program.h"
#include "tools/heddle/same_file.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  ModuleFlags module;
  MemoryFlags memory;
  std::string format = "table", html;
  bool full = false, route = false;
  void declare(Flags& flags) {
    module.add_to(flags, true);
    flags.on("--full", full, "show everything: also executables, kernels, the ops of each region, and what was not fused");
    flags.on(
        "--route", route,
        "bind the module to devices and show which devices and variants were chosen and why, and what runs each region; loads code but "
        "does not run it; --device and --config imply it");
    memory.add_to(flags);
    add_html_flag(flags, html, "write everything, including --memory, as a page with a drawing of the data flow");
    flags.choice("--format", format, {"table", "json"}, "format of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("explain",
               "Shows a summary of a module and a row per region; with --memory or --route only that topic, with --full everything.");
}

// Checks the combination of flags.
Wrong check(const Options& options) {
  if (!options.html.empty() && options.format == "json") return "--html and --format json exclude each other";
  if (options.html.empty() && !options.memory.wanted && !(options.memory.dims.empty() && options.memory.inputs.empty()))
    return "--dim and --input need --memory or --html";
  std::vector<NamedFile> read{{"the module", options.module.path}, {"--config", options.runtime.config}};
  for (const Assignment& file : parameter_files(options.module)) read.push_back({"the parameters of --params", file.value});
  if (Wrong wrong = file_named_twice({{"--html", options.html == "-" ? "" : options.html}}, read); !wrong.empty()) return wrong;
  const Wrong twice = slot_bound_twice(options.module.devices);
  return twice.empty() ? twice : "--device: " + twice;
}

// Long members of the report that no line of a summary comes from need not be parsed.
std::string for_summary(const std::string& report) {
  return module::without_members(
      report, {"commands", "transient_bytes", "resources", "not_fused", "special_kernels", "placed_by", "initializer_only"});
}

bool is_summary(const Options& options, bool is_bound) {
  return !is_bound && !options.full && !options.memory.wanted && options.html.empty() && options.format == "table";
}

heddle_status_t* find_route(heddle_module_t* module, const Options& options, Json& route) {
  Instance instance;
  if (heddle_status_t* status = create_instance(module, options.module, options.module.devices, instance, HEDDLE_INSTANCE_ROUTE_ONLY))
    return status;
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance.get(), view("route"), &raw)) return status;
  route = parse_json(text_of(Text(raw)));
  return nullptr;
}

// The route as it would be if the configuration allowed to interpret; false if there is none either.
bool find_forbidden_route(const Options& options, Json& route) {
  RuntimeFlags allowed = options.runtime;
  allowed.settings = "interpreted = \"allow\"\n" + allowed.settings;
  Runtime runtime;
  Module module;
  heddle_status_t* failed = create_runtime(allowed, runtime);
  if (!failed) failed = open_module(runtime.get(), options.module, module);
  if (!failed) failed = find_route(module.get(), options, route);
  if (failed) heddle_status_free(failed);
  return !failed;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (Wrong wrong = check(options); !wrong.empty()) return flags.misuse(wrong);
  if (std::optional<int> code = find_page_program(flags, options.html)) return *code;
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  Module module;
  if (heddle_status_t* status = open_module(runtime.get(), options.module, module)) return report(status);
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_module_report(module.get(), &raw)) return report(status);
  const bool is_bound = options.route || !options.module.devices.empty() || !options.runtime.config.empty();
  std::string json = text_of(Text(raw));
  if (is_summary(options, is_bound)) json = for_summary(json);
  // Never destroyed: the process ends, and freeing each part takes a tenth of its time.
  static Json& whole = *new Json(parse_json(json));
  if (!whole.is_object()) return failed("explain", "this version cannot read the runtime's report");
  std::error_code no_size;
  if (const uint64_t bytes = std::filesystem::file_size(options.module.path, no_size); !no_size) whole["file_bytes"] = bytes;
  const std::string& wanted = options.module.function;
  const Json& functions = array(whole, "functions");
  std::string names;
  for (const Json& function : functions) names += (names.empty() ? "" : ", ") + text(function, "name");
  if (!wanted.empty() && std::none_of(functions.begin(), functions.end(), [&](const Json& one) { return text(one, "name") == wanted; }))
    return flags.misuse("--function: there is no function '" + wanted + "'; the module has " + (names.empty() ? "none" : names));
  // With --memory alone nothing is loaded, even if devices are named.
  if (options.route || (is_bound && !options.memory.wanted)) {
    if (heddle_status_t* status = find_route(module.get(), options, whole["route"])) {
      const std::string_view said = view(heddle_status_message(status));
      // The list says what would have to change.
      if (heddle_status_code(status) == HEDDLE_STATUS_FAILED_PRECONDITION && said.find("interpreted = \"forbid\"") != said.npos &&
          find_forbidden_route(options, whole["route"])) {
        whole["places"] = places_of(whole);
        options.format == "json" ? print_line(dump_json(whole, 2)) : describe_topics(whole).print();
      }
      return report_instance_failure(status);
    }
  }
  if (options.memory.wanted || !options.html.empty()) {
    Json memory;
    if (std::optional<int> code = find_memory(flags, module.get(), options.module, whole, options.memory, is_bound, memory)) return *code;
    whole["memory"] = std::move(memory);
  }
  // A summary and --memory do not show them.
  if (!options.html.empty() || options.format == "json" || options.full || whole.contains("route")) whole["places"] = places_of(whole);
  if (!options.html.empty()) return write_page(flags, whole, options.module.function, options.html);
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
