// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What strategies that go by stages share: how a stage's reads lie in memory, and the code of its bodies at an index. Knows no loop and no
// target.
#pragma once

#include "compiler/stage/stage.h"
#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

// ---- questions before anything is emitted

// The place in memory of an element of a dense tensor.
mlir::AffineExpr linear_place(llvm::ArrayRef<mlir::AffineExpr> place, mlir::RankedTensorType type);

// By how many elements a read moves in memory from one index of the dimension to the next, if that is always the same, and whether it is inside of its
// tensor does not change either. `lanes` is lowered to the number of neighbors that this holds for, the first one's index being a multiple of it.
std::optional<mlir::AffineExpr> memory_step(mlir::Operation* stage, unsigned read, unsigned dimension, int64_t& lanes);

// By how much an index grows with a dimension, if that is always the same number.
std::optional<int64_t> slope_of(mlir::AffineExpr index, unsigned dimension);

// ---- emitting

// A value in a body: the same for all lanes, or one for each.
struct Element {
  mlir::Value value;
  bool is_lanes = false;
};

// Where a body runs: at one index of its stage's domain, or at `lanes` neighbors along one of the dimensions.
struct BodyPlace {
  llvm::SmallVector<mlir::Value> index;  // of the dimensions that are known
  int64_t lanes = 0;                     // 0: one element
  unsigned lane_dimension = 0;
  mlir::Value mask;   // lanes that count; null: all
  mlir::Value guard;  // i1: whether anything may be read; null: it may
};

class BodyEmitter {
 public:
  // Gives the element of a read of what another stage makes.
  using Made = std::function<Element(unsigned read, const BodyPlace& place)>;

  BodyEmitter(KernelBuilder& kernel, mlir::Operation* stage, Made made) : k_(kernel), stage_(stage), made_(std::move(made)) {}

  // What the block yields: its arguments are indices, reads [first, first + count), then `more`.
  llvm::SmallVector<Element> run(mlir::Block& body, unsigned first, unsigned count, llvm::ArrayRef<Element> more, const BodyPlace& place);

  Element read(unsigned which, const BodyPlace& place);
  Element to_lanes(Element element, int64_t lanes) const;
  mlir::Value evaluate(mlir::AffineExpr expression, llvm::ArrayRef<mlir::Value> index) const;

  // Elements of reads that are known already.
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
