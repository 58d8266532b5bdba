// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model is compiled for where its file leaves it open, given by the user: the number of elements of sequences, whether optionals have a value, and
// the shapes of inputs that state none. Importers query it; it knows neither ONNX nor the IR.
//
//   NAME=3                   the sequence has 3 elements
//   NAME=absent, =present    the optional has no value, or one
//   NAME=[n,4], NAME=[]      the shape of the input, or of each element of the sequence; a dimension is a number, a name, or ? for a name of its own
//   NAME[0]=[n,4]            the shape of one element
// NAME is an input, or a value that a node or a graph gives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace heddle::import {

// Longer sequences are not supported: each element is a tensor of the program.
inline constexpr int64_t longest_sequence = 4096;

class Specializations {
 public:
  // Adds one; returns an error text, or an empty text.
  std::string add(llvm::StringRef text);

  // What was given for the name, if anything. Queries are remembered for unused().
  std::optional<int64_t> length_of(const std::string& name);
  std::optional<bool> presence_of(const std::string& name);
  const std::vector<std::string>* shape_of(const std::string& name);  // null: none

  // Names one that nothing asked for, and the nearest names; empty if each was used.
  std::string unused() const;

 private:
  struct Given {
    std::string text;
    std::optional<int64_t> length;
    std::optional<bool> is_present;
    std::optional<std::vector<std::string>> shape;
    bool is_used = false;
  };
  enum class Kind { kLength, kPresence, kShape };
  Given* find(Kind kind, const std::string& name);

  std::map<std::pair<Kind, std::string>, Given> given_;
  std::set<std::string> asked_;
};

}  // namespace heddle::import
