// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by strategies that use stages: how a stage's reads are laid out in memory, and the code of its bodies at an index. Knows no loop and no
// target.
#pragma once

#include "compiler/stage/stage.h"
#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

// ---- questions before anything is emitted

// The place in memory of an element of a dense tensor.
mlir::AffineExpr linear_place(llvm::ArrayRef<mlir::AffineExpr> place, mlir::RankedTensorType type);

// By how many elements a read moves in memory per index of the dimension, if that is constant and all these elements are inside of the tensor, or all
// outside. `lanes` is lowered to the number of neighbors for which this holds, if the first one's index is a multiple of it.
std::optional<mlir::AffineExpr> memory_step(mlir::Operation* stage, unsigned read, unsigned dimension, int64_t& lanes);

// How much an index grows per index of a dimension, if that is constant.
std::optional<int64_t> slope_of(mlir::AffineExpr index, unsigned dimension);

// ---- emitting

// A value in a body: one for all lanes, or one per lane.
struct Element {
  mlir::Value value;
  bool is_lanes = false;
};

// Where a body runs: at one index of its stage's domain, or at `lanes` neighbors along one of the dimensions.
struct BodyPlace {
  llvm::SmallVector<mlir::Value> index;  // of the known dimensions
  int64_t lanes = 0;                     // 0: one element
  unsigned lane_dimension = 0;
  mlir::Value mask;   // lanes that count; null: all
  mlir::Value guard;  // i1: whether anything may be read; null: yes
};

class BodyEmitter {
 public:
  // Computes the element of a read of another stage's result.
  using Made = std::function<Element(unsigned read, const BodyPlace& place)>;

  BodyEmitter(KernelBuilder& kernel, mlir::Operation* stage, Made made) : k_(kernel), stage_(stage), made_(std::move(made)) {}

  // The values that the block yields: its arguments are indices, reads [first, first + count), then `more`.
  llvm::SmallVector<Element> run(mlir::Block& body, unsigned first, unsigned count, llvm::ArrayRef<Element> more, const BodyPlace& place);

  Element read(unsigned which, const BodyPlace& place);
  Element to_lanes(Element element, int64_t lanes) const;
  mlir::Value evaluate(mlir::AffineExpr expression, llvm::ArrayRef<mlir::Value> index) const;

  // Elements of reads that are already known.
  llvm::DenseMap<unsigned, Element> known;

 private:
  Element load(unsigned which, const BodyPlace& place);
  llvm::SmallVector<mlir::Value> gathered(unsigned which, const BodyPlace& place);
  mlir::Value is_inside(llvm::ArrayRef<mlir::AffineExpr> at, mlir::RankedTensorType type, const BodyPlace& place);
  Element clone(mlir::Operation& op, const llvm::DenseMap<mlir::Value, Element>& values, int64_t lanes);

  KernelBuilder& k_;
  mlir::Operation* stage_;
  Made made_;
};

}  // namespace heddle::targets
