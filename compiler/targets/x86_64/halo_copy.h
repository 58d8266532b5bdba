// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies the part of an image that the windows of some output pixels cover to the workspace, with zeros where a window leaves the image. Pixels have no
// gaps there. Called by contraction.
#pragma once

#include "compiler/targets/x86_64/contraction_shape.h"

namespace heddle::targets::x86_64 {

// Output pixels of an image of symbolic size: a rectangle.
struct Piece {
  mlir::Value top, left, rows, columns;
};

class HaloCopy {
 public:
  HaloCopy(KernelBuilder& kernel, const ContractionShape& shape) : k_(kernel), shape_(shape) {}

  // Elements from one row of the copy to the next, if it has several.
  int64_t row() const { return shape_.needed_width(shape_.width) * shape_.channels; }

  // What is under output rows [from, from + rows).
  void band(mlir::Value image, mlir::Value from, mlir::Value rows);
  // What is under some pixels of an image of one row.
  void part_of_line(mlir::Value line, mlir::Value from, mlir::Value pixels);
  void piece(mlir::Value image, const Piece& piece);

 private:
  // Of one row of the image, from pixel `start` on, which may be outside.
  void part_of_row(mlir::Value target, mlir::Value row, mlir::Value start, mlir::Value count, mlir::Value in_width);
  void copy_pixels(mlir::Value target, mlir::Value source, mlir::Value pixels);
  void fill_zeros(mlir::Value target, int64_t elements);
  void fill_zeros(mlir::Value target, mlir::Value elements);
  void for_vectors(mlir::Value elements, const std::function<void(mlir::Value, mlir::Value)>& visit);
  void for_vectors(int64_t elements, const std::function<void(mlir::Value, mlir::Value)>& visit);
  // Pixels under this many output pixels.
  mlir::Value needed(mlir::Value count, int64_t stride, int64_t taps, int64_t dilation);
  mlir::Type f32() { return k_.builder.getF32Type(); }

  KernelBuilder& k_;
  const ContractionShape& shape_;
};

}  // namespace heddle::targets::x86_64
