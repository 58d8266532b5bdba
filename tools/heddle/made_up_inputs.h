// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random values for inputs that no --input names, and the extents of their symbols (--dim). Used by bench and profile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/heddle/session.h"

namespace heddle::tool {

class MadeUpInputs {
 public:
  // Parses --dim flags; returns an error text, or an empty one.
  Wrong parse(const std::vector<std::string>& dims);
  // Looks up the function's symbols; returns an error that names a --dim which is not a symbol.
  Wrong find_symbols(heddle_module_t* module, const std::string& function_name);
  // The value of one argument, the same for the same seed.
  Wrong make(const Function& function, size_t index, uint64_t seed, HostTensor& out) const;

 private:
  std::map<std::string, int64_t> chosen_;        // given by --dim
  std::vector<std::vector<std::string>> names_;  // per argument and dimension; empty where static
  std::map<std::string, int64_t> least_;         // per symbol: the smallest allowed extent that is a multiple of the divisor
};

}  // namespace heddle::tool
