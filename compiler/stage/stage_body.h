// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the body of a stage: when asked for the element of a value of a region, it adds the reads and the arithmetic that this takes. Ops that only
// move elements become part of the places at which others are read. Used to form stages.
#pragma once

#include "compiler/stage/stage.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/IRMapping.h"

namespace heddle::stage {

using Exprs = llvm::SmallVector<mlir::AffineExpr>;

// Arguments are indices of the stage's domain, then reads, then those that add_argument() adds. Elements are in compute types. Methods that return
// a value return null if it has no form; `reason` then says why.
class StageBody {
 public:
  // `operands` are the values that may be read: those of the region, and results of other stages.
  StageBody(mlir::MLIRContext* context, unsigned rank, unsigned symbol_count, const mlir::IRMapping& operands, std::string& reason);

  // The element of a value of the region at an index, in expressions over the domain's dimensions.
  mlir::Value element(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> at);
  // The value, an f32, at a place of a matrix whose rows are stored in these blocks; `stored` is what may be read.
  mlir::Value decoded(mlir::Value stored, llvm::StringRef blocks, llvm::ArrayRef<mlir::AffineExpr> at);
  // The element of a tensor at this place, in which index `dimension` is the element of `indices` at `of_index`.
  mlir::Value looked_up(mlir::Value tensor, llvm::ArrayRef<mlir::AffineExpr> at, unsigned dimension, mlir::Value indices,
                        llvm::ArrayRef<mlir::AffineExpr> of_index);
  // A factor, which is an element of `tensor`, converted to the type of the sums.
  mlir::Value widened(mlir::Value factor, mlir::Value tensor, mlir::Type type);
  // The element, converted to the tensor's element type.
  mlir::Value to_storage(mlir::Value value, mlir::Type element);
  // The value of an index, i64; it must not be negative where it is divided.
  mlir::Value computed(mlir::AffineExpr index);
  mlir::TypedAttr number(mlir::Type type, double value);

  mlir::Value add_argument(mlir::Type type) { return block_->addArgument(type, location_); }
  mlir::Value index(unsigned dimension) const { return block_->getArgument(dimension); }
  void yield(mlir::ValueRange values) { builder.create<YieldOp>(location_, values); }
  void move_to(mlir::Region& region) { region.takeBody(region_); }
  mlir::Value refuse(const llvm::Twine& why);

  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Value> reads;
  llvm::SmallVector<mlir::Attribute> accesses;
  const unsigned symbols;  // of the function
  // The reduction or contraction whose results this body makes from the accumulators, and the one place where they are read.
  mlir::Operation* root = nullptr;
  std::function<mlir::Value(llvm::ArrayRef<mlir::AffineExpr> at)> result_of_root;
  Exprs root_at;

 private:
  mlir::Value read(mlir::Value tensor, llvm::ArrayRef<mlir::AffineExpr> at, mlir::TypedAttr outside = {});
  mlir::Attribute place_key(llvm::ArrayRef<mlir::AffineExpr> at);
  mlir::AffineExpr gathered(mlir::Value indices, llvm::ArrayRef<mlir::AffineExpr> at);
  mlir::Value make(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> at);
  Exprs gathered_place(mlir::Operation* op, llvm::ArrayRef<mlir::AffineExpr> at);
  mlir::Value element_of_pad(tx::PadOp pad, llvm::ArrayRef<mlir::AffineExpr> at);
  mlir::Value element_of_concat(tx::ConcatOp concat, llvm::ArrayRef<mlir::AffineExpr> at);
  mlir::Value index_as_element(tx::IotaOp iota, mlir::AffineExpr index);
  Exprs leading_dims();
  mlir::Value constant_of(mlir::SplatElementsAttr splat);

  mlir::Location location_;
  unsigned rank_;
  const mlir::IRMapping& operands_;
  std::string& reason_;
  mlir::Region region_;
  mlir::Block* block_;
  llvm::SmallVector<unsigned> gathered_;  // reads whose elements are indices; each is a dimension of places, after those of the domain
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::AffineExpr> gathered_memo_;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Attribute>, mlir::Value> memo_;
};

}  // namespace heddle::stage
