// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regular expressions in RE2's syntax as automata over the bytes of UTF-8, for RegexFullMatch. Knows neither protobuf nor IR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::import {

// States are numbers from 0, where an automaton begins. After `byte` in state s comes next[s * classes + class_of[byte]].
struct Automaton {
  int64_t classes = 0;
  std::vector<int32_t> class_of;  // of 256 bytes; byte 0 is behind the end of a string and leaves a state as it is
  std::vector<int32_t> next;
  std::vector<bool> accepts;  // whether a string that ends in the state matches
};

inline constexpr size_t most_automaton_states = 4096, most_expression_bytes = 4096;

// The automaton of the strings that match the expression from their first byte to their last. Otherwise an error text, which is not empty; `unsupported`
// says whether RE2 would take the expression.
std::string make_automaton(const std::string& expression, Automaton& out, bool& unsupported);

}  // namespace heddle::import
