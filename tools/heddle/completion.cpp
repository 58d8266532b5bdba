// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle completion bash|zsh|fish`: prints a shell script that asks `heddle completion --words ...` for candidates, so that completion always
// matches what the commands accept.
#include <unistd.h>

#include <algorithm>

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
  local IFS=$'\n' name=${COMP_WORDS[0]##*/}
  local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  [[ $name == heddle-* ]] && words=("${name#heddle-}" "${words[@]}")
  COMPREPLY=($(heddle completion --words "${words[@]}" 2>/dev/null))
  local last=${COMP_WORDS[COMP_CWORD]}
  if [[ $last == @* ]]; then  # --input x=@FILE
    compopt -o nospace
    COMPREPLY=($(compgen -P @ -f -- "${last#@}"))
  fi
}
# Else bash divides a word at @ and completes names of hosts.
COMP_WORDBREAKS=${COMP_WORDBREAKS//@}
# Without a candidate, bash completes the names of files.
complete -o default -F _heddle )";

constexpr const char kZsh[] =
    R"(#compdef heddle
# heddle: completion for zsh; save as _heddle in a directory of $fpath
_heddle() {
  local -a candidates words_given
  words_given=("${words[@]:1:$((CURRENT - 1))}")
  [[ ${words[1]:t} == heddle-* ]] && words_given=("${${words[1]:t}#heddle-}" "${words_given[@]}")
  candidates=("${(@f)$(heddle completion --words "${words_given[@]}" 2>/dev/null)}")
  compadd -a candidates
  _files
}
compdef _heddle )";

constexpr const char kFish[] =
    R"(# heddle: completion for fish; save as heddle.fish in ~/.config/fish/completions
complete -c heddle -a '(heddle completion --words (commandline -opc)[2..] (commandline -ct) 2>/dev/null)')";

// Flags at the beginning of the lines of a help text, and in its line of usage.
std::vector<std::string> flags_of_help(const std::string& help) {
  std::vector<std::string> flags;
  constexpr const char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = std::min(help.find('\n', begin), help.size());
    const std::string line = help.substr(begin, end - begin);
    begin = end + 1;
    const bool is_usage = line.starts_with("usage:");
    for (size_t at = is_usage ? 0 : line.find_first_not_of(' '); (at = line.find("--", at)) < line.size();) {
      if (!is_usage && at != line.find_first_not_of(' ')) break;
      const size_t after = std::min(line.find_first_not_of(kLetters, at), line.size());
      if (after > at + 2) flags.push_back(line.substr(at, after - at));
      at = after;
    }
  }
  std::sort(flags.begin(), flags.end());
  flags.erase(std::unique(flags.begin(), flags.end()), flags.end());
  return flags;
}

// A command of another package completes its own words, or has a help text that shows them.
int complete_foreign(const ForeignCommand& command, const Arguments& words) {
  const std::string program = has_raised_rights() ? "" : find_program(std::string("heddle-") + command.name);
  if (program.empty()) return kFine;
  if (!command.completes) {
    if (words.back().starts_with("-")) print_candidates(flags_of_help(help_of(program)), words.back());
    return kFine;
  }
  const std::string flag = "--words";
  std::vector<char*> arguments{const_cast<char*>(program.c_str()), const_cast<char*>(flag.c_str())};
  for (size_t i = 1; i < words.size(); ++i) arguments.push_back(const_cast<char*>(words[i].c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  return kFine;
}

// "heddle heddle-run ...": every name by which a command is started.
std::string programs() {
  std::string names = "heddle";
  for (const Command& command : commands()) names += std::string(" heddle-") + command.name;
  for (const ForeignCommand& command : foreign_commands()) names += std::string(" heddle-") + command.name;
  return names;
}

int print_script(const Arguments& arguments) {
  const std::vector<std::string> shells{"bash", "zsh", "fish"};
  std::string shell;
  Flags flags("completion", "Prints a completion script for a shell.");
  flags.positional("SHELL", shell, "bash, zsh or fish", true, shells);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (std::find(shells.begin(), shells.end(), shell) == shells.end())
    return flags.misuse("unknown shell '" + shell + "'; expected bash, zsh or fish");
  const std::string names = programs();
  print_line(shell == "bash" ? kBash + names : shell == "zsh" ? kZsh + names : kFish);
  return kFine;
}

// Candidates for the last word, one per line. None if it is the name of a file, which the shell completes.
int complete(const Arguments& words) {
  const bool is_help = words.size() == 2 && words[0] == "help";
  if (words.size() <= 1 || is_help) {
    std::vector<std::string> candidates;
    for (const Command& command : commands()) candidates.emplace_back(command.name);
    for (const ForeignCommand& command : foreign_commands()) {
      if (!find_program(std::string("heddle-") + command.name).empty()) candidates.emplace_back(command.name);
    }
    if (!is_help) candidates.insert(candidates.end(), {"help", "--help", "--version"});
    print_candidates(candidates, words.empty() ? "" : words.back());
    return kFine;
  }
  for (const Command& command : commands()) {
    if (words[0] != command.name) continue;
    Arguments rest = words;
    rest[0] = "--words";
    return words[0] == "completion" ? print_script(rest) : command.run(rest);
  }
  for (const ForeignCommand& command : foreign_commands()) {
    if (words[0] == command.name) return complete_foreign(command, words);
  }
  return kFine;
}

int run(const Arguments& arguments) {
  if (!arguments.empty() && arguments[0] == "--words") return complete(Arguments(arguments.begin() + 1, arguments.end()));
  return print_script(arguments);
}

}  // namespace

Command completion_command() {
  return {"completion", "prints a completion script for a shell", run};
}

}  // namespace heddle::tool
