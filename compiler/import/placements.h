// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The placements of a model's parts given by the user: patterns over names, each with a slot. Importers and the pipeline query them and write the
// answers into the IR; this file knows neither.
//
//   PATTERN=@slot         nodes by name        conv1/*=@a, Softmax_12=@host
//   op:PATTERN=@slot      nodes by operator    op:Softmax=@host
//   input:PATTERN=@slot, output:PATTERN=@slot  of the model
// A pattern is a glob (* ? [..] {..}, \ quotes). If several match, the last one decides. `default` is a slot, too.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/GlobPattern.h"

namespace heddle::import {

class Placements {
 public:
  struct Rule {
    std::string text;  // as given
    std::string kind;  // "", "op", "input", "output"
    std::string slot;
    llvm::GlobPattern pattern;
    bool used = false;
  };

  // Adds a rule; returns an error text, or an empty text.
  std::string add(llvm::StringRef text);

  // The rule that decides, or null. Queries are remembered for unmatched().
  const Rule* of_node(llvm::StringRef name, llvm::StringRef op_type);
  const Rule* of_input(llvm::StringRef name) { return find({{"input", name}}); }
  const Rule* of_output(llvm::StringRef name) { return find({{"output", name}}); }

  // Names a rule that matched nothing, and the nearest names; empty if each rule matched something.
  std::string unmatched() const;

 private:
  struct Question {
    llvm::StringRef kind, name;
  };
  const Rule* find(std::vector<Question> questions);

  std::vector<Rule> rules_;
  std::set<std::pair<std::string, std::string>> asked_;  // kind and name
};

}  // namespace heddle::import
