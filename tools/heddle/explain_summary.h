// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain` without flags: a summary of a module, then one row per region.
#pragma once

#include <string>

#include "tools/heddle/document.h"

namespace heddle::tool {

// `whole`: the module's report with "file_bytes" added. Describes `function` alone if it is not empty.
Document summarize(const Json& whole, const std::string& function);

// Parts that the full text has too. "x: f32[n,4]" for each tensor, with its slot if there are several:
std::vector<std::string> tensor_texts(const Json& tensors, const Json& slots);
void add_symbols(const Json& function, Document& out);
std::string program_text(const Json& program);
// The sizes of parameters, of values computed at load, and of the state.
std::string weights_text(const Json& whole);

// The kinds of regions ("contraction", "movement", ...). Modules of older compilers do not state them.
class RegionKinds {
 public:
  explicit RegionKinds(Json module_report) : report_(std::move(module_report)) {}
  // Of a region with its whole name; empty if it is unknown.
  std::string of(const std::string& region) const;

 private:
  Json report_;
};

}  // namespace heddle::tool
