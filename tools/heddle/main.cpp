// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle COMMAND ...`, or `heddle-COMMAND ...` through a link. Commands of the runtime are in this program; others are separate
// programs (heddle-compile), started by replacing this process.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "commit.h"  // generated
#include "heddle/types.h"
#include "sdk/module/nearest.h"
#include "tools/heddle/command.h"
#include "tools/heddle/man_page.h"
#include "tools/heddle/output.h"
#include "tools/heddle/program.h"
#include "tools/heddle/program_search.h"
#include "tools/heddle/raised_rights.h"

namespace heddle::tool {

const std::vector<Command>& commands() {
  static const std::vector<Command> all{run_command(),    bench_command(),   devices_command(),   plugins_command(),
                                        config_command(), explain_command(), completion_command()};
  return all;
}

const std::vector<ForeignCommand>& foreign_commands() {
  constexpr const char* kPython = "heddle[debug] of Python";
  static const std::vector<ForeignCommand> all{
      {"compile", "turns a model file into a .heddle file", "heddle-compiler", true},
      {"tune", "finds the fastest plans of a model's kernels on a device", "heddle-compiler", true},
      {"profile", "measures the time of each region on its device", "heddle-profile", true},
      {"params", "lists, prints, converts, compares and checks files of parameters", "heddle-params", true},
      {"diff", "names the first region of a model that departs from another implementation", kPython, false},
      {"reduce", "makes a model that fails or gives wrong results small", kPython, false},
      {"breaks", "names the graph breaks of a PyTorch program, with their cost and what to write instead", "heddle of Python", false},
      {"page", "shows the report of a module as an HTML page", "heddle-page", true},
      {"conformance", "checks a plugin against the rules", "heddle-conformance", false},
      {"import", "shows a model file as the compiler reads it", "heddle-tools", false},
      {"opt", "runs passes of the compiler on its IR", "heddle-tools", false}};
  return all;
}

namespace {

using MakeCommand = Command (*)();
// Separate from commands(), so that one command is found without creating all of them.
constexpr struct {
  const char* name;
  MakeCommand make;
} kByName[] = {{"run", run_command},       {"bench", bench_command},     {"devices", devices_command},      {"plugins", plugins_command},
               {"config", config_command}, {"explain", explain_command}, {"completion", completion_command}};

// for_man: without what depends on this machine.
void print_help(std::FILE* out, bool for_man = false) {
  std::fputs("heddle: runs compiled models on the available devices\n\nUsage: heddle COMMAND [ARGUMENTS]\n\nCommands\n", out);
  for (const Command& command : commands()) std::fprintf(out, "  %-12s %s\n", command.name, command.summary);
  std::fputs("\nCommands of other packages\n", out);
  for (const ForeignCommand& command : foreign_commands()) {
    const bool here = for_man || !find_program(std::string("heddle-") + command.name).empty();
    std::fprintf(out, "  %-12s %s%s\n", command.name, command.summary,
                 here ? "" : (std::string(" (not installed; package ") + command.package + ")").c_str());
  }
  std::fputs(
      "\nheddle COMMAND --help, or heddle help COMMAND, shows the flags of a command; heddle help --man COMMAND prints its manual page. "
      "Results go to stdout, everything else to stderr.\n"
      "Exit codes: 0 success, 1 failure, 2 usage error, 3 numbers differ, or more breaks than allowed, 4 device or plugin unavailable.\n",
      out);
}

bool is_command_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos && name[0] != '-';
}

// Does not return if a program of that name is found.
int start_foreign(const std::string& name, char** arguments) {
  if (has_raised_rights()) {
    std::fprintf(stderr,
                 "heddle: starting heddle-%s failed: heddle runs with raised privileges and starts no other program; start it directly\n",
                 printable(name).c_str());
    return kUsage;
  }
  const std::string program = is_command_name(name) ? find_program("heddle-" + name) : std::string();
  if (program.empty()) {
    for (const ForeignCommand& command : foreign_commands()) {
      if (name != command.name) continue;
      std::fprintf(stderr,
                   "heddle: starting heddle-%s failed: it is neither in the directory of heddle nor on PATH; install the package %s\n",
                   command.name, command.package);
      return kUsage;
    }
    std::vector<std::string> known;
    for (const auto& one : kByName) known.push_back(one.name);
    for (const ForeignCommand& command : foreign_commands()) known.push_back(command.name);
    const std::string meant = module::nearest(name, known);
    std::fprintf(stderr, "heddle: unknown command '%s'%s; see heddle --help\n", printable(name).c_str(),
                 meant.empty() ? "" : (" (did you mean '" + meant + "'?)").c_str());
    return kUsage;
  }
  execv(program.c_str(), arguments);
  std::fprintf(stderr, "heddle: starting %s failed: %s\n", program.c_str(), std::strerror(errno));
  return kFailed;
}

// `heddle help COMMAND` is `heddle COMMAND --help`.
int help_on(char* command) {
  char flag[] = "--help";
  const std::string name = command;
  for (const auto& one : kByName) {
    if (name == one.name) return one.make().run({flag});
  }
  char* arguments[] = {command, flag, nullptr};
  return start_foreign(name, arguments);
}

// `heddle help --man [COMMAND]`: a manual page, for the build, which installs them.
int print_man_page(const std::string& command) {
  if (command.empty()) {
    char* text = nullptr;
    size_t size = 0;
    if (std::FILE* memory = open_memstream(&text, &size)) {
      print_help(memory, true);
      std::fclose(memory);
    }
    const std::string help(text ? text : "", size);
    std::free(text);
    std::fputs(man_page({"heddle", "runs compiled models on the available devices", help}, {}, HEDDLE_VERSION).c_str(), stdout);
    return kFine;
  }
  HelpText help{"heddle " + command, "", ""};
  std::string program = own_program();
  std::vector<std::string> arguments{command};
  for (const Command& one : commands()) {
    if (command == one.name) help.summary = one.summary;
  }
  for (const ForeignCommand& one : foreign_commands()) {
    if (command != one.name) continue;
    help.summary = one.summary;
    arguments.clear();
    program = has_raised_rights() ? "" : find_program("heddle-" + command);
  }
  if (help.summary.empty() || program.empty()) {
    std::fprintf(stderr, "heddle: printing the manual page of '%s' failed: %s; see heddle --help\n", printable(command).c_str(),
                 help.summary.empty() ? "there is no such command" : "its program is not installed");
    return kUsage;
  }
  help.text = help_of(program, arguments);
  std::vector<HelpText> parts;
  for (const std::string& action : entries_of(help.text, "Actions")) {
    arguments.push_back(action);
    parts.push_back({help.name + " " + action, "", help_of(program, arguments)});
    arguments.pop_back();
  }
  std::fputs(man_page(help, parts, HEDDLE_VERSION).c_str(), stdout);
  return kFine;
}

int dispatch(int argc, char** argv) {
  const char* slash = std::strrchr(argc > 0 ? argv[0] : "heddle", '/');
  std::string name = slash ? slash + 1 : (argc > 0 ? argv[0] : "heddle");
  int first = 1;
  if (name.rfind("heddle-", 0) == 0) {
    name = name.substr(7);
  } else {
    if (argc < 2) {
      print_help(stderr);
      return kUsage;
    }
    name = argv[1];
    first = 2;
  }
  if (name == "help" && first < argc && std::strcmp(argv[first], "--man") == 0)
    return print_man_page(first + 1 < argc ? argv[first + 1] : "");
  if (name == "help" && first < argc && argv[first][0] != '-') return help_on(argv[first]);
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return kFine;
  }
  if (name == "--version") {
    print_line("heddle " HEDDLE_VERSION HEDDLE_COMMIT);
    const std::string minor = std::to_string(HEDDLE_ABI_MINOR), oldest = std::to_string(HEDDLE_ABI_MIN_MINOR);
    const std::string major = std::to_string(HEDDLE_ABI_MAJOR) + ".";
    print_line("plugin ABI " + major + minor + ", compatible with plugins built for " + major + oldest + " or later");
    return kFine;
  }
  for (const auto& one : kByName) {
    if (name != one.name) continue;
    signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit fails with a reason instead of killing the process
    return one.make().run(Arguments(argv + first, argv + argc));
  }
  return start_foreign(name, argv + first - 1);
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) {
  namespace tool = heddle::tool;
  const std::string doing = argc > 1 ? tool::printable(argv[1]) : "the command";
  return tool::run_program("heddle", doing, "give smaller inputs", [&] { return tool::dispatch(argc, argv); });
}
