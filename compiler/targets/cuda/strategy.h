// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the strategies: the parts of a region, one index space each, and their workgroups in sequence. Read by the target only.
#pragma once

#include <memory>

#include "compiler/targets/cuda/kernel_builder.h"
#include "compiler/targets/region_outputs.h"
#include "compiler/targets/strategy.h"
#include "compiler/targets/target.h"
#include "compiler/targets/thread_space.h"

namespace heddle::targets::cuda {

// Threads of a workgroup.
inline constexpr int64_t usual_threads = 256;

// A part of a region's work. plan() and emit() build the same parts in the same order.
class Part {
 public:
  virtual ~Part() = default;
  virtual mlir::AffineExpr workgroups() const = 0;
  // Emits workgroup `block` of this part, which has as many threads as the part was made for.
  virtual mlir::LogicalResult emit(KernelBuilder& kernel, mlir::Value block) const = 0;
  // The tile or fallback that was chosen; empty if there is only one.
  virtual std::string rung() const { return {}; }
  // Whether each element of an operand is read only right before the result's element at the same place is stored.
  virtual bool works_in_place() const { return false; }
  // Whether the region may have a `pitch` (tx.dispatch).
  virtual bool stores_rows_apart() const { return false; }
  // The number of workgroups that a multiprocessor should have registers for.
  virtual int64_t residents() const { return 1; }
  // The number of neighboring workgroups that form a cluster, if the chip has clusters. A part with more than one is the only part of its kernel.
  virtual int64_t cluster() const { return 1; }
  // The number of tiles that are possible, one of which Budget selects; 0: it has none. choice: distinguishes the selected one from all others.
  virtual size_t tiles() const { return 0; }
  virtual std::string choice() const { return {}; }
  virtual double estimate_ns() const { return 0; }  // 0: none
};
using Parts = std::vector<std::unique_ptr<Part>>;

// Lanes for one access of 128 bits, if the inner extent is known to be a multiple; else 0.
int64_t lanes_for(mlir::AffineExpr inner, llvm::ArrayRef<Output> outputs);

// The limits of a workgroup.
struct Budget {
  int64_t threads;
  int64_t shared_memory_bytes;
  Math math;
  unsigned tile = 0;      // of a contraction: which of its tiles, the best by estimate first
  bool clusters = false;  // the part is a kernel's only one, and may have clusters
};

// The strategies. A root is a contraction. transpose_parts is empty for other outputs.
Parts transpose_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs, const Budget& budget);
Parts elementwise_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs, const Budget& budget);
// transpose: applied to the single output before it is stored, so that the contraction's rows, or pixels, become its innermost dimension; or null.
// Fails, with a diagnostic, if there is no tile.
mlir::FailureOr<Parts> contraction_parts(tx::DispatchOp region, llvm::ArrayRef<Output> outputs, mlir::Operation* root,
                                         tx::TransposeOp transpose, const Budget& budget);

// A softmax between two products.
class Attention final : public Strategy {
 public:
  using Open = std::function<std::unique_ptr<KernelBuilder>(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                                            mlir::ModuleOp kernels, int64_t threads)>;
  Attention(Open open, int64_t shared_memory_bytes) : open_(std::move(open)), shared_memory_bytes_(shared_memory_bytes) {}

  llvm::StringRef name() const override { return "attention"; }
  bool reads_stages() const override { return true; }
  mlir::FailureOr<Plans> plans(tx::DispatchOp region) const override;
  mlir::FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                        mlir::ModuleOp kernels) const override;

 private:
  struct Read;
  mlir::FailureOr<Read> read(tx::DispatchOp region) const;

  const Open open_;
  const int64_t shared_memory_bytes_;
};

// Stores elements, which are computed where the transpose reads them, at the place where it writes them.
void store_transposed(KernelBuilder& kernel, ElementEvaluator& evaluator, mlir::Value elements, unsigned result, tx::TransposeOp transpose,
                      const Point& read);

}  // namespace heddle::targets::cuda
