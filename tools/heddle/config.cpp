// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle config check FILE` and `heddle config effective [--origin]`.
#include "tools/heddle/command.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  std::string action, file, format = "table";
  bool origin = false;
  void declare(Flags& flags) {
    flags.positional("ACTION", action, "check FILE: every error of a configuration file; effective: the values in force");
    flags.positional("FILE", file, "for check", false);
    flags.on("--origin", origin, "with effective: where each value comes from");
    flags.choice("--format", format, format_names(), "form of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("config", "Checks a configuration file, or shows the values in force.");
}

int check(const Options& options, const Flags& flags) {
  RuntimeFlags given = options.runtime;
  if (!options.file.empty()) given.config = options.file;
  if (given.config.empty()) return flags.misuse("check needs a FILE");
  Runtime runtime;
  if (heddle_status_t* status = create_runtime(given, runtime)) return report(status);
  if (format_from_name(options.format) == Format::kJson || format_from_name(options.format) == Format::kJsonLines) {
    print_line(dump_json(Json{{"file", given.config}, {"valid", true}}, -1));
  } else {
    print_line(given.config + ": no error");
  }
  return kFine;
}

int effective(const Options& options) {
  Runtime runtime;
  if (heddle_status_t* status = create_runtime(options.runtime, runtime)) return report(status);
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime.get(), view("config"), &raw)) return report(status);
  const Text text(raw);
  const Json whole = parse_json(text_of(text));
  if (!whole.is_object() || !whole.contains("values")) return failed("config", "the runtime's report is not what this version reads");
  std::vector<Column> columns{field("key", "key"), field("value", "value")};
  if (options.origin) columns.push_back(field("origin", "origin"));
  print_rows(whole, whole["values"], columns, format_from_name(options.format));
  return kFine;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.action == "check") return check(options, flags);
  if (options.action == "effective")
    return options.file.empty() ? effective(options) : flags.misuse("effective takes no FILE; give --config FILE");
  if (options.action == "schema") return flags.misuse("schema is not in this version");
  return flags.misuse("unknown action '" + options.action + "'; check and effective are known");
}

}  // namespace

Command config_command() {
  return {"config",
          "checks a configuration file, or shows the values in force",
          run,
          [] {
            Options options;
            Flags flags = make_flags();
            options.declare(flags);
            return flags.names();
          },
          {"check", "effective"}};
}

}  // namespace heddle::tool
