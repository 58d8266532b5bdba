// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Registers the passes by name, for heddle-opt.
#include "compiler/passes/passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace heddle::passes {

void register_passes(const Devices& devices) {
  mlir::registerPass(settle_alternatives);
  mlir::registerPass(store_narrow);
  mlir::registerPass([] { return place_ops(); });
  mlir::registerPass(decompose_batch_norm);
  mlir::registerPass(propagate_transposes);
  mlir::registerPass(keep_blocks);
  mlir::registerPass([] { return read_dequantized(); });
  mlir::registerPass([] { return keep_quantized(); });
  mlir::registerPass(fold_scales);
  mlir::registerPass(move_reshapes);
  mlir::registerPass(match_donations);
  mlir::registerPass(order_dispatches);
  mlir::registerPass([&devices] { return multiply_bytes(devices); });
  mlir::registerPass(fold_casts);
  mlir::registerPass([&devices] { return pack_weights(devices); });
  mlir::registerPass(hoist_constants);
  mlir::registerPass([&devices] { return divide_folds(devices); });
  mlir::registerPass([&devices] { return form_dispatches(devices); });
  mlir::registerPass([&devices] { return store_parts(devices); });
  mlir::registerPass([&devices] { return overwrite_operands(devices); });
  mlir::registerPass([] { return mlir::createCanonicalizerPass(); });
  mlir::registerPass([] { return mlir::createCSEPass(); });
}

}  // namespace heddle::passes
