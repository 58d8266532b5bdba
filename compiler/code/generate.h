// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the kernels of a family to its images, one per target. Kernels are planned once, since grids are part of the host program; emitted for each
// target; compiled by several threads or taken from the cache; and linked. Called by the pipeline; knows which targets exist, and each only
// by its interface.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/code/code_cache.h"
#include "compiler/code/tuned.h"
#include "compiler/emit/module_file.h"
#include "compiler/targets/math.h"

namespace heddle::compiler {

struct CodeOptions {
  std::vector<std::pair<std::string, std::string>> targets;  // families and levels; those of other families are skipped
  targets::Math math = targets::Math::strict;
  std::string ptxas;                 // as in Options
  CodeCache* cache = nullptr;        // never null
  Tuned* tuned = nullptr;            // null: the best plans by estimate
  bool with_answers = false;         // asks every strategy about every region, also about those that others take
  std::function<bool()> image_done;  // false cancels
};

// Fills in the family's answers and images, with as many threads as the context has.
module::Status generate(const CodeOptions& options, emit::FamilyCode& family, mlir::MLIRContext& context);

}  // namespace heddle::compiler
