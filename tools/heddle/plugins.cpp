// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle plugins`: every plugin that was found, its state, and with --why the reason.
#include <cstdio>

#include "tools/heddle/command.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  std::string format = "table";
  bool why = false;
  void declare(Flags& flags) {
    flags.on("--why", why, "show why a plugin is not available, and its path");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("plugins", "Lists the plugins that were found and the state of each.");
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime.get(), view("plugins"), &raw)) return report(status);
  const Text text(raw);
  const Json whole = parse_json(text_of(text));
  if (!whole.is_object() || !whole.contains("plugins")) return failed("plugins", "this version cannot read the runtime's report");
  std::vector<Column> columns{field("id", "id"), field("version", "version"), field("kind", "kind"), field("state", "state"),
                              field("devices", "devices")};
  if (options.why) {
    for (const auto& [title, name] : {std::pair{"reason", "reason"}, {"manifest", "manifest"}, {"shadows", "shadowed"}}) {
      columns.push_back(field(title, name));
      columns.back().is_below = true;
    }
  }
  print_rows(whole, whole["plugins"], columns, format_from_name(options.format));
  if (whole["plugins"].empty()) {
    std::fprintf(stderr,
                 "heddle plugins: no plugin was found; install a package such as heddle-cpu, or name a directory with --plugin-path\n");
  }
  return kFine;
}

}  // namespace

Command plugins_command() {
  return {"plugins", "lists the plugins that were found and the state of each", run};
}

}  // namespace heddle::tool
