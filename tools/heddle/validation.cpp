// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns flags into the table [validation], and reads its report.
#include "tools/heddle/validation.h"

#include <filesystem>
#include "tools/heddle/report_view.h"

namespace heddle::tool {

namespace {

// TOML's basic strings are the same as JSON's, except for DEL.
std::string quoted(const std::string& text) {
  return dump_json(Json(text), -1);
}

}  // namespace

void ValidationFlags::add_to(Flags& flags) {
  flags.word("--validate", validate,
             "check every plugin call, and stop at the first region that produces a NaN from values without one; =calls, =nan and =inf "
             "(comma-separated) "
             "select some of these checks");
  flags.texts("--dump", dump, "write the operands and results of these regions to files; names as shown by `heddle explain`, with * and ?",
              "REGIONS");
  flags.text("--dump-to", dump_folder, "directory for --dump", "DIRECTORY");
}

Wrong ValidationFlags::to_config(std::string& text) const {
  text.clear();
  if (dump.empty() != dump_folder.empty()) return "--dump and --dump-to must be given together";
  const std::string words = validate == "true" ? "calls,nan" : validate;
  for (size_t start = 0; start < words.size();) {
    const size_t end = std::min(words.find(',', start), words.size());
    const std::string word = words.substr(start, end - start);
    start = end + 1;
    if (word == "calls") {
      text += "calls = true\n";
    } else if (word == "nan" || word == "inf") {
      text += "stop_at_" + word + " = true\n";
    } else {
      return "--validate=" + validate + ": '" + word + "' is not a check; expected calls, nan or inf";
    }
  }
  if (!dump.empty()) {
    text += "dump = [";
    for (const std::string& pattern : dump) text += quoted(pattern) + ", ";
    text += "]\ndump_folder = " + quoted(std::filesystem::absolute(dump_folder).lexically_normal().string()) + "\n";
  }
  if (!text.empty()) text = "[validation]\n" + text;
  return {};
}

heddle_status_t* count_violations(heddle_runtime_t* runtime, uint64_t& out) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_runtime_report(runtime, view("validation"), &raw)) return status;
  const Text text(raw);
  out = 0;
  const Json report = parse_json(text_of(text));
  for (const Json& plugin : report["plugins"]) out += plugin["violations"].get<uint64_t>();
  return nullptr;
}

}  // namespace heddle::tool
