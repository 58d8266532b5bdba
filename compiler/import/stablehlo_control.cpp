// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches and loops of StableHLO.
#include "compiler/import/stablehlo_program.h"

namespace heddle::import::stablehlo {

const Table& control_ops() {
  static const Table table = {};
  return table;
}

}  // namespace heddle::import::stablehlo
