// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.toml of any bytes: it is read and checked against a manifest, or every error has a place inside the text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/host/config_check.h"
#include "core/host/config_read.h"

namespace heddle::host {
namespace {

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "config_fuzz: %s\n", what);
  std::abort();
}

const std::vector<FoundPlugin>& plugins() {
  static const std::vector<FoundPlugin>* found = [] {
    auto* list = new std::vector<FoundPlugin>(1);
    Diagnostics diagnostics;
    demand(
        parse_manifest(
            "/fuzz/plugins.d/heddle.cpu.toml",
            "manifest = 1\n[plugin]\nid = \"heddle.cpu\"\nversion = \"1.0.0\"\nkind = [\"driver\", \"allocator\"]\nlibrary = \"x.so\"\n"
            "abi = [\"0.1\", \"0.1\"]\n[options.threads]\ntype = \"int\"\nmin = 0\nmax = 8\ndefault = 0\n"
            "[options.limit]\ntype = \"bytes\"\ndefault = \"1GiB\"\n[options.ratio]\ntype = \"float\"\ndefault = 1\n"
            "[options.pin]\ntype = \"bool\"\ndefault = true\n[options.level]\ntype = \"string\"\nvalues = [\"\", \"v3\"]\ndefault = \"\"\n",
            diagnostics, &list->front().manifest),
        "the harness's own manifest is wrong");
    return list;
  }();
  return *found;
}

}  // namespace
}  // namespace heddle::host

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle::host;
  const std::string text(reinterpret_cast<const char*>(data), size);
  ConfigRead read;
  if (text.find("import") != std::string::npos) return 0;  // files of this machine have no place in a harness
  read_config_text("<text>", text, &read);
  finish_config(&read);
  CheckedOptions checked = check_options(&read, plugins());
  const std::string shown = read.diagnostics.render();
  demand(read.diagnostics.has_errors() ? !shown.empty() : true, "an error without a text");
  demand(shown.find('\0') == std::string::npos, "a zero byte in an error text");
  if (!read.diagnostics.has_errors()) {
    for (const DeviceConfig& device : read.config.devices)
      demand(device.has_select && !device.driver.empty(), "a device that is not whole passed");
    for (const auto& [id, values] : checked.by_driver) {
      for (const OptionValue& value : with_defaults(plugins().front().manifest, values)) {
        if (value.name == "threads") demand(value.int_value >= 0 && value.int_value <= 8, "an option out of its range passed");
      }
    }
  }
  return 0;
}
