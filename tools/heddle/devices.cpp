// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle devices`: lists the devices that modules can run on.
#include <cstdio>

#include "tools/heddle/command.h"
#include "tools/heddle/output.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  std::string format = "table";
  void declare(Flags& flags) {
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("devices", "Lists the devices that modules can run on. heddle plugins --why shows why a driver offers none.");
}

// A driver that was not requested and whose hardware or vendor library is missing. This is the usual case and not worth a line if there are devices.
bool is_absent_hardware(const std::string& reason) {
  return reason.rfind("host: loading plugin ", 0) == 0 && (reason.find(" failed: it has no device here: ") != std::string::npos ||
                                                           reason.find(" failed: a dependency is missing: ") != std::string::npos);
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime.get(), view("devices"), &raw)) return report(status);
  const Text text(raw);
  const Json whole = parse_json(text_of(text));
  if (!whole.is_object() || !whole.contains("devices")) return failed("devices", "this version cannot read the runtime's report");
  const Column memory{"memory",
                      [](const Json& row) {
                        const uint64_t bytes = row.value("memory_bytes", uint64_t{0});
                        return bytes ? bytes_text(bytes) : std::string("-");
                      },
                      "memory_bytes"};
  print_rows(whole, whole["devices"],
             {field("alias", "alias"), field("driver", "driver"), field("name", "name"), field("family", "family"),
              field("units", "compute_units"), memory, field("numa", "numa"), field("pci", "pci")},
             format_from_name(options.format));
  std::string fragile;
  for (const Json& row : whole["devices"]) {
    if (row.value("fault_ends_process", false)) fragile += (fragile.empty() ? "" : ", ") + cell_text(row["alias"]);
  }
  if (!fragile.empty()) {
    std::fprintf(stderr, "heddle devices: a kernel that faults on %s ends the process; its vendor's library does that\n",
                 printable(fragile).c_str());
  }
  for (const Json& reason : whole.value("skipped", Json::array())) {
    const std::string text = cell_text(reason);
    if (whole["devices"].empty() || !is_absent_hardware(text)) std::fprintf(stderr, "heddle devices: %s\n", printable(text).c_str());
  }
  if (whole["devices"].empty()) {
    std::fprintf(stderr, "heddle devices: no device was found; heddle plugins --why shows the state of each plugin\n");
    return kUnavailable;
  }
  return kFine;
}

}  // namespace

Command devices_command() {
  return {"devices", "lists the devices that modules can run on", run};
}

}  // namespace heddle::tool
