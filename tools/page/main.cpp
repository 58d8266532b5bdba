// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle page`: makes a page of the JSON of `heddle explain`. Needs neither libheddle nor the module. The report is not trusted.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "tools/heddle/flags.h"
#include "tools/heddle/input_file.h"
#include "tools/heddle/npy.h"
#include "tools/heddle/program.h"
#include "tools/heddle/same_file.h"
#include "tools/page/page.h"

namespace heddle::tool {
namespace {

struct Options {
  std::string report = "-", output = "-", function;
  void declare(Flags& flags) {
    flags.positional("REPORT", report, "output of heddle explain --format json (default: -, which is stdin)", false);
    flags.text("-o,--output", output, "file for the page (default: -, which is stdout); replaces an existing file", "FILE");
    flags.text("--function", function, "describe this function alone", "NAME");
  }
};

Wrong read_report(const std::string& path, std::string& out) {
  if (path != "-") {
    InputFile file;
    if (Wrong wrong = file.open(path); !wrong.empty()) return file.about(wrong);
    out.resize(file.size_bytes());
    return file.about(file.read(0, std::as_writable_bytes(std::span(out))));
  }
  char bytes[65536];
  for (ssize_t count; (count = read(STDIN_FILENO, bytes, sizeof(bytes))) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::string("stdin: ") + std::strerror(errno);
    out.append(bytes, static_cast<size_t>(count));
  }
  return {};
}

int run(const Arguments& arguments) {
  Flags flags("page", "Shows the report of a module as an HTML page, with a drawing of its data flow.");
  Options options;
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (Wrong wrong = file_named_twice({{"--output", options.output == "-" ? "" : options.output}}, {{"the report", options.report}});
      !wrong.empty())
    return flags.misuse(wrong);
  std::string text;
  if (Wrong wrong = read_report(options.report, text); !wrong.empty()) return flags.failed(wrong);
  // Reading is not recursive, but other code is.
  auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 80; };
  const Json whole = Json::parse(text, shallow, false);
  if (!whole.is_object() || !whole.contains("functions"))
    return flags.misuse(options.report + ": this is no report of a module; give the output of heddle explain --format json");
  const std::string page = page_of(whole, options.function);
  if (options.output == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return kFine;
  }
  if (Wrong wrong = write_raw(options.output, {page.size(), std::as_bytes(std::span(page)), nullptr}); !wrong.empty())
    return flags.failed("--output: " + wrong);
  return kFine;
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) {
  namespace tool = heddle::tool;
  // A write beyond the file size limit fails with a reason instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  return tool::run_program("heddle page", "making the page", "describe one function",
                           [&] { return tool::run(tool::Arguments(argv + 1, argv + argc)); });
}
