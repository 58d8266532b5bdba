// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decompositions, solvers and transforms.
#include "compiler/import/stablehlo_program.h"

namespace heddle::import::stablehlo {

const Table& linear_algebra_ops() {
  static const Table table = {};
  return table;
}

}  // namespace heddle::import::stablehlo
