// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle params ACTION ...`, a separate program. Needs neither libheddle nor a device.
#include <signal.h>

#include <cstdio>
#include <string>

#include "sdk/module/nearest.h"
#include "tools/heddle/output.h"
#include "tools/heddle/program.h"
#include "tools/params/actions.h"

namespace heddle::tool {
namespace {

const std::vector<Command>& actions() {
  static const std::vector<Command> all{ls_action(),    dump_action(), extract_action(), convert_action(),
                                        merge_action(), diff_action(), verify_action()};
  return all;
}

void print_help(std::FILE* out) {
  std::fputs("Reads, writes and compares parameter files.\n\nUsage: heddle params ACTION [ARGUMENTS]\n\nActions\n", out);
  for (const Command& action : actions()) std::fprintf(out, "  %-8s %s\n", action.name, action.summary);
  std::fputs(
      "\nReads safetensors, its shards through model.safetensors.index.json, GGUF, IRPA, .npz, .npy, and initializers of .onnx "
      "files; the first bytes of a file determine its format.\n"
      "heddle params ACTION --help shows the flags. Exit codes: 0 success, 1 failure, 2 usage error, 3 files differ.\n",
      out);
}

// Called by `heddle completion`.
int complete(const Arguments& words) {
  const std::string last = words.empty() ? "" : words.back();
  std::vector<std::string> candidates;
  for (const Command& action : actions()) {
    if (words.size() <= 1) candidates.emplace_back(action.name);
    if (words.size() > 1 && words[0] == action.name) {
      Arguments rest = words;
      rest[0] = "--words";
      return action.run(rest);
    }
  }
  if (words.size() <= 1) candidates.emplace_back("--help");
  print_candidates(candidates, last);
  return kFine;
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty()) {
    print_help(stderr);
    return kUsage;
  }
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (arguments[0] == "--words") return complete(rest);
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    print_help(stdout);
    return kFine;
  }
  for (const Command& action : actions()) {
    if (arguments[0] == action.name) return action.run(rest);
  }
  std::vector<std::string> names;
  for (const Command& action : actions()) names.emplace_back(action.name);
  const std::string meant = module::nearest(arguments[0], names);
  return Flags("params", "").misuse("unknown action '" + arguments[0] + "'" + (meant.empty() ? "" : " (did you mean '" + meant + "'?)"));
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) {
  namespace tool = heddle::tool;
  // A write beyond the file size limit fails with a reason instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  return tool::run_program("heddle params", argc > 1 ? tool::printable(argv[1]) : "the command", "name fewer tensors",
                           [&] { return tool::dispatch(tool::Arguments(argv + 1, argv + argc)); });
}
