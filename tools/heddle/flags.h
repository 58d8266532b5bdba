// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flags of one command. A thin wrapper around CLI11, which is slow to compile and throws: only flags.cpp includes it. Every command has
// --help and --flagfile FILE (one argument per line, # starts a comment) automatically.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/heddle/command.h"

namespace heddle::tool {

class Flags {
 public:
  Flags(std::string command, std::string about);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // A name may have several forms separated by commas: "-o,--output". A target keeps its value if the flag is not given, and must outlive parse().
  // words: the values that completion proposes; none: files.
  void positional(const std::string& name, std::string& target, const std::string& help, bool required = true,
                  std::vector<std::string> words = {});
  // All remaining positional arguments.
  void positionals(const std::string& name, std::vector<std::string>& target, const std::string& help);
  void text(const std::string& name, std::string& target, const std::string& help, const std::string& value_name = "TEXT");
  void texts(const std::string& name, std::vector<std::string>& target, const std::string& help, const std::string& value_name);
  void number(const std::string& name, double& target, const std::string& help, double least, double most);
  void count(const std::string& name, uint64_t& target, const std::string& help, uint64_t least, uint64_t most);
  void on(const std::string& name, bool& target, const std::string& help);
  // "--name", which sets the target to "true", or "--name=WORD".
  void word(const std::string& name, std::string& target, const std::string& help);
  void choice(const std::string& name, std::string& target, const std::vector<std::string>& choices, const std::string& help);

  // Empty: continue. Else the exit code: 0 after --help (on stdout) or --words WORDS... (candidates for the last word, for completion), 2 after a
  // mistake (reported on stderr).
  std::optional<int> parse(const Arguments& arguments);
  // Whether the flag was given in the last parse().
  bool given(const std::string& name) const;
  // Reports a usage mistake that the command found itself; returns 2.
  int misuse(const std::string& what) const;
  // Reports a failure that is not a usage mistake; returns 1.
  int failed(const std::string& what) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::tool
