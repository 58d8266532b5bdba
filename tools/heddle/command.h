// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A command of `heddle`: its name, a one-line summary, and a function from arguments to an exit code.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

// Exit codes; the same for every command.
constexpr int kFine = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNumbersDiffer = 3;
constexpr int kUnavailable = 4;  // a device or a plugin

// Without the names of the program and the command.
using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments& arguments);  // its Flags also answer --words, for shell completion
};

// One function per command, in the file named after the command.
Command run_command();
Command bench_command();
Command devices_command();
Command plugins_command();
Command config_command();
Command explain_command();
Command completion_command();

// All commands of this program, in the order of the help.
const std::vector<Command>& commands();
// A command of another package: `heddle NAME` starts the program heddle-NAME, where it is installed.
struct ForeignCommand {
  const char* name;
  const char* summary;
  const char* package;
  bool completes;  // heddle-NAME --words WORDS... prints candidates for the last word; else they are the flags that its help shows
};
const std::vector<ForeignCommand>& foreign_commands();

}  // namespace heddle::tool
