// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the elements of any value of a region at an index, by following element-wise ops and data movement back to loads. Used by the
// elemental strategies; emits straight-line code and knows no loop.
#pragma once

#include "compiler/targets/kernel_builder.h"
#include "llvm/ADT/MapVector.h"

namespace heddle::targets {

// The coordinate along one dimension. Lane l is at base + l * step, or at lanes[l].
struct Coordinate {
  mlir::Value base;
  int64_t step = 0;
  mlir::Value lanes;  // vector of i64, used instead of base and step

  bool is_uniform() const { return step == 0 && !lanes; }
};

// An index of a tensor, for one element (lanes 0) or for `lanes` of them. Lanes outside the mask are not read.
struct Point {
  llvm::SmallVector<Coordinate> at;
  int64_t lanes = 0;
  mlir::Value mask;
};

class ElementEvaluator {
 public:
  ElementEvaluator(KernelBuilder& kernel, tx::DispatchOp region) : k_(kernel), region_(region) {}

  // Elements of each tensor at the point, in compute types: one vector, or a scalar for lanes 0. Null after a diagnostic.
  llvm::SmallVector<mlir::Value> elements(mlir::ValueRange tensors, const Point& point);
  mlir::Value element(mlir::Value tensor, const Point& point) { return elements(mlir::ValueRange(tensor), point)[0]; }

  // Elements that a strategy has computed itself for the current point.
  void set(mlir::Value tensor, mlir::Value elements) { computed_[tensor] = elements; }
  void unset(mlir::Value tensor) { computed_.erase(tensor); }

  // States that all points are inside one input of this concat.
  void choose(tx::ConcatOp concat, unsigned input) { chosen_[concat] = input; }

  // Stores the elements to a dense tensor of this type.
  void store(mlir::Value elements, mlir::Value base, mlir::RankedTensorType type, const Point& point);

  mlir::Value to_lanes(mlir::Value value, int64_t lanes);

 private:
  // Offset of a point in a dense tensor.
  struct Linear {
    mlir::Value base;
    int64_t step = 0;
    mlir::Value lanes;
  };

  mlir::Value at(mlir::Value tensor, const Point& point);
  mlir::Value at_linear(mlir::Value tensor, const Linear& offset, const Point& point);
  mlir::Value compute(mlir::Operation* op, llvm::function_ref<mlir::Value(mlir::Value)> operand);
  mlir::Value load(mlir::Value base, mlir::Type element, const Linear& offset, const Point& point);
  Linear linear(mlir::RankedTensorType type, const Point& point);
  Point delinearize(mlir::RankedTensorType type, const Linear& offset, const Point& point);
  mlir::Value constant(tx::ConstantOp op, const Linear& offset, const Point& point);
  mlir::Value pad(tx::PadOp op, const Point& point);
  mlir::Value concat(tx::ConcatOp op, const Point& point);

  // Where the shifted coordinate is inside [0, extent). The coordinate itself is clamped if all lanes share it.
  struct Bounds {
    mlir::Value uniform;  // i1, null: true
    mlir::Value lanes;    // vector of i1, null: true
  };
  void keep_inside(Coordinate& coordinate, mlir::Value extent, bool low, bool high, int64_t lanes, Bounds& bounds);
  mlir::Value select_inside(const Bounds& bounds, mlir::Value inside, mlir::Value outside, int64_t lanes);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value lane_values(const Coordinate& coordinate, int64_t lanes);
  Coordinate shifted(const Coordinate& coordinate, mlir::Value by);
  Coordinate scaled(const Coordinate& coordinate, int64_t by);
  mlir::Value offsets(int64_t step, int64_t lanes, mlir::Type element);

  KernelBuilder& k_;
  tx::DispatchOp region_;
  llvm::DenseMap<mlir::Value, mlir::Value> computed_;
  llvm::DenseMap<mlir::Operation*, unsigned> chosen_;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<Point, mlir::Value>>> memo_;
};

// True if the last `count` dimensions of the value can be walked as one: an index whose last coordinate runs over all of them, with the others 0,
// still finds the right elements. `chosen` is the concat that is walked input by input, if any.
bool can_flatten(mlir::Value value, unsigned count, tx::ConcatOp chosen = {});

}  // namespace heddle::targets
