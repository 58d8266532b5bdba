// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle completion bash|zsh|fish`: prints a shell script that asks `heddle completion --words ...` for candidates, so that completion always
// matches what the commands accept.
#include <unistd.h>

#include "tools/heddle/command.h"
#include "tools/heddle/flags.h"
#include "tools/heddle/output.h"
#include "tools/heddle/program_search.h"
#include "tools/heddle/raised_rights.h"

namespace heddle::tool {
namespace {

constexpr const char kBash[] =
    R"(# heddle: completion for bash; put this into a file that bash reads, or: source <(heddle completion bash)
_heddle() {
  local IFS=$'\n'
  COMPREPLY=($(heddle completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _heddle heddle)";

constexpr const char kZsh[] =
    R"(#compdef heddle
# heddle: completion for zsh; save as _heddle in a directory of $fpath
_heddle() {
  local -a candidates
  candidates=("${(@f)$(heddle completion --words "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)}")
  compadd -a candidates
  _files
}
compdef _heddle heddle)";

constexpr const char kFish[] =
    R"(# heddle: completion for fish; save as heddle.fish in ~/.config/fish/completions
complete -c heddle -a '(heddle completion --words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)')";

// A command of another package completes its own words.
void ask_program(const Arguments& words) {
  for (const ForeignCommand& command : foreign_commands()) {
    if (!command.completes || words[0] != command.name || has_raised_rights()) continue;
    const std::string program = find_program("heddle-" + words[0]), flag = "--words";
    std::vector<char*> arguments{const_cast<char*>(program.c_str()), const_cast<char*>(flag.c_str())};
    for (size_t i = 1; i < words.size(); ++i) arguments.push_back(const_cast<char*>(words[i].c_str()));
    arguments.push_back(nullptr);
    if (!program.empty()) execv(program.c_str(), arguments.data());
  }
}

// Candidates for the last word, one per line.
int complete(const Arguments& words) {
  const std::string last = words.empty() ? "" : words.back();
  std::vector<std::string> candidates;
  if (words.size() > 1) ask_program(words);
  const bool is_help = words.size() == 2 && words[0] == "help";
  if (words.size() <= 1 || is_help) {
    for (const Command& command : commands()) candidates.emplace_back(command.name);
    for (const ForeignCommand& command : foreign_commands()) {
      if (!find_program(std::string("heddle-") + command.name).empty()) candidates.emplace_back(command.name);
    }
    if (!is_help) candidates.insert(candidates.end(), {"help", "--help", "--version"});
  } else {
    for (const Command& command : commands()) {
      if (words[0] != command.name) continue;
      if (!last.empty() && last[0] == '-') candidates = command.flag_names();
      if (words.size() == 2) candidates.insert(candidates.end(), command.words.begin(), command.words.end());
    }
  }
  print_candidates(candidates, last);
  return kFine;
}

Flags make_flags() {
  return Flags("completion", "Prints a completion script for a shell.");
}

int run(const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "--words") return complete(Arguments(arguments.begin() + 1, arguments.end()));
  std::string shell;
  Flags flags = make_flags();
  flags.positional("SHELL", shell, "bash, zsh or fish");
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    return flags.misuse("unknown shell '" + shell + "'; expected bash, zsh or fish");
  print_line(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  return kFine;
}

}  // namespace

Command completion_command() {
  return {"completion", "prints a completion script for a shell", run, [] { return make_flags().names(); }, {"bash", "zsh", "fish"}};
}

}  // namespace heddle::tool
