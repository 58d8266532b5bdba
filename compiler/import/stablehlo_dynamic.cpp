// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops with extents that are computed.
#include "compiler/import/stablehlo_program.h"

namespace heddle::import::stablehlo {

bool fold_extents(Op&) {
  return false;
}

const Table& dynamic_ops() {
  static const Table table = {};
  return table;
}

}  // namespace heddle::import::stablehlo
