// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers of StableHLO.
#include "compiler/import/stablehlo_program.h"

namespace heddle::import::stablehlo {

const Table& random_ops() {
  static const Table table = {};
  return table;
}

}  // namespace heddle::import::stablehlo
