// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flags that determine what a model is compiled to, and their values for heddle/compiler.h. Used by compile and tune.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/compiler.h"
#include "tools/heddle/flags.h"
#include "tools/heddle/same_file.h"

namespace heddle::tool {

// A file of parameters; if it is an index of shards, the shards too.
std::vector<NamedFile> with_shards(const NamedFile& file);

struct CompileFlags {
  std::string model, target, math = "default", cache;
  std::vector<std::string> places, slots, aliases, donated, states, operators, specializations, params_in, param_names, target_plugins;
  bool params_in_values = false, foreign_formats = false;
  uint64_t threads = 0, target_seconds = 0;

  // MODEL; then the others, which `help` of compile and tune list after their own.
  void add_model(Flags& flags);
  void add_to(Flags& flags);
  // An error text for a value that has the wrong form; otherwise empty.
  std::string check() const;
  // The files that the compiler reads.
  std::vector<NamedFile> files() const;
};

// The flags as parameters of the compiler. Outputs and callbacks are the caller's.
class CompileParams {
 public:
  explicit CompileParams(const CompileFlags& flags);
  CompileParams(const CompileParams&) = delete;
  CompileParams& operator=(const CompileParams&) = delete;
  heddle_compile_params_t c{};

 private:
  std::vector<std::string> scoped_files_;
  std::vector<heddle_string_t> places_, slots_, donations_, states_, operators_, specializations_, parameter_files_, parameter_names_,
      target_plugins_;
};

}  // namespace heddle::tool
