// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The named rewrites of the compiler, in the order in which pipeline.cpp runs them. One file each; each pass's description has the IR before and
// after. They know the tx dialect and no target.
#pragma once

#include <memory>
#include <string>

#include "compiler/ir/tx.h"
#include "mlir/Pass/Pass.h"

namespace heddle::passes {

// The number of bindings of a region, operands and results together, that every device has: the limit of ptx/1 (heddle/code.h) and of heddle.cpu.
inline constexpr unsigned most_bindings = 256;

// Questions of passes about devices. Outlives the passes that are made with it, and their registration.
class Devices {
 public:
  virtual ~Devices() = default;
  // Dialects that the answers may need.
  virtual void register_dialects(mlir::DialectRegistry& registry) const = 0;
  // Whether devices of the family have a special kernel for a region, other than the generic one. `why_not`, if not null, gets the reason.
  virtual bool has_kernel(llvm::StringRef family, tx::DispatchOp region, std::string* why_not) const = 0;
  // Whether their contractions read constant right sides in panels.
  virtual bool reads_panels(llvm::StringRef family) const = 0;
  // Whether their kernels read weights in blocks as files have them, about as fast as values.
  virtual bool reads_blocks(llvm::StringRef family) const = 0;
  // Whether their contractions of bytes, summed in 32 bits, are faster than those of f32.
  virtual bool multiply_bytes(llvm::StringRef family) const = 0;
  // Whether kernels of the region are as fast if its result overwrites an operand of which each element is read only at its own place.
  virtual bool work_in_place(llvm::StringRef family, tx::DispatchOp region) const = 0;
  // Whether kernels of the region, which has a `pitch` (tx.dispatch), can store its rows apart from each other.
  virtual bool store_rows_apart(llvm::StringRef family, tx::DispatchOp region) const = 0;
  // Whether they compute this convolution, which has a constant filter, by Winograd's F(2x2, 3x3).
  virtual bool prefers_winograd(llvm::StringRef family, tx::ConvOp conv) const = 0;
  // Whether a contraction's kernel can read the broadcast operand of an element-wise op in its epilogue.
  virtual bool reads_behind_contraction(llvm::StringRef family, tx::BroadcastOp broadcast) const = 0;
  // How many results of reductions keep the whole device busy, if each is computed by one worker.
  virtual int64_t results_at_once(llvm::StringRef family) const = 0;
  // How many results that are neighbors in memory one worker computes together, if the elements of each are apart from each other.
  virtual int64_t neighbors_at_once(llvm::StringRef family) const = 0;
};

std::unique_ptr<mlir::Pass> settle_alternatives();
std::unique_ptr<mlir::Pass> store_narrow();
// With `annotate`, emits a remark for every op that says where its operands and results are, and what decided it.
std::unique_ptr<mlir::Pass> place_ops(bool annotate = false);
std::unique_ptr<mlir::Pass> decompose_batch_norm();
std::unique_ptr<mlir::Pass> propagate_transposes();
// For modules all of whose kernels read blocks (Devices::reads_blocks).
std::unique_ptr<mlir::Pass> keep_blocks();
// `as_stored`: the same, else all weights become values.
std::unique_ptr<mlir::Pass> read_dequantized(bool as_stored = true);
// `keeps_halves`: products of f32 also read floats of 16 bits, for modules all of whose kernels can.
std::unique_ptr<mlir::Pass> keep_quantized(bool keeps_halves = true);
std::unique_ptr<mlir::Pass> fold_scales();
std::unique_ptr<mlir::Pass> move_reshapes();
std::unique_ptr<mlir::Pass> match_donations();
std::unique_ptr<mlir::Pass> multiply_bytes(const Devices& devices);
std::unique_ptr<mlir::Pass> fold_casts();
std::unique_ptr<mlir::Pass> pack_weights(const Devices& devices);
std::unique_ptr<mlir::Pass> hoist_constants();
std::unique_ptr<mlir::Pass> divide_folds(const Devices& devices);
// Regions that only some devices have kernels for are formed where these devices accept them.
std::unique_ptr<mlir::Pass> form_dispatches(const Devices& devices);
std::unique_ptr<mlir::Pass> order_dispatches();
std::unique_ptr<mlir::Pass> store_parts(const Devices& devices);
std::unique_ptr<mlir::Pass> overwrite_operands(const Devices& devices);

// Registers all of them, and the upstream passes of the pipeline, with heddle-opt.
void register_passes(const Devices& devices);

}  // namespace heddle::passes
