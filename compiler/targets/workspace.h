// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a target that plans memory of its own for a kernel says of it. Used by `emit`, which makes it a part of the call's arena.
#pragma once

#include <vector>

#include "mlir/IR/AffineExpr.h"

namespace heddle::targets {

// Memory that each dispatch of a kernel gets as one more binding, whose contents are undefined before and after. Over the symbols of the region's function.
struct Workspace {
  mlir::AffineExpr bytes;
  // In addition, for each compute unit of the device, but not for more than `most`.
  struct OfThreads {
    mlir::AffineExpr bytes, most;
  };
  std::vector<OfThreads> threads;
};

}  // namespace heddle::targets
