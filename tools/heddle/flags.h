// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flags of one command. A thin front of CLI11, which is slow to compile and throws: only flags.cpp includes it. Every command has
// --help and --flagfile FILE (one argument a line, # starts a comment) without asking for them.
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

  // A name may be several with a comma between: "-o,--output". Every target keeps its value where the flag is not given, and outlives parse().
  void positional(const std::string& name, std::string& target, const std::string& help, bool required = true);
  // All that are left.
  void positionals(const std::string& name, std::vector<std::string>& target, const std::string& help);
  void text(const std::string& name, std::string& target, const std::string& help, const std::string& value_name = "TEXT");
  void texts(const std::string& name, std::vector<std::string>& target, const std::string& help, const std::string& value_name);
  void number(const std::string& name, double& target, const std::string& help, double least, double most);
  void count(const std::string& name, uint64_t& target, const std::string& help, uint64_t least, uint64_t most);
  void on(const std::string& name, bool& target, const std::string& help);
  // "--name", which sets the target to "true", or "--name=WORD".
  void word(const std::string& name, std::string& target, const std::string& help);
  void choice(const std::string& name, std::string& target, const std::vector<std::string>& choices, const std::string& help);

  // Empty: go on. Else the exit code: 0 after --help (on stdout), 2 after a mistake (said on stderr).
  std::optional<int> parse(const Arguments& arguments);
  // Whether the last parse() met the flag.
  bool given(const std::string& name) const;
  // Says what is wrong with the usage, for what a command finds out itself; returns 2.
  int misuse(const std::string& what) const;
  // Says what failed although the usage is right; returns 1.
  int failed(const std::string& what) const;
  // Names of all flags, for completion.
  std::vector<std::string> names() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::tool
