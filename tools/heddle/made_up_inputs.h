// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that no --input names, and the extents of their symbols (--dim). Used by bench and profile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/heddle/session.h"

namespace heddle::tool {

class MadeUpInputs {
 public:
  // What --dim says; what is wrong with it, or empty.
  Wrong parse(const std::vector<std::string>& dims);
  // Looks the function's symbols up; says which name of --dim is none of them.
  Wrong find_symbols(heddle_module_t* module, const std::string& function_name);
  // The value of one argument, the same for the same seed.
  Wrong make(const Function& function, size_t index, uint64_t seed, HostTensor& out) const;

 private:
  std::map<std::string, int64_t> chosen_;        // by --dim
  std::vector<std::vector<std::string>> names_;  // per argument and dimension; empty where static
  std::map<std::string, int64_t> least_;         // per symbol: the least extent that the compiler allows and the divisor divides
};

}  // namespace heddle::tool
