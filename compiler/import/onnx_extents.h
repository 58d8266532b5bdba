// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on extents and on elements of shapes that cannot overflow. Used by the onnx_*.cpp files of this directory, since a file may have any
// number. It does not know nodes: a null result is for the caller to explain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"

namespace heddle::import {

// An extent, a pad or a coefficient of a symbol above the first limit means a damaged file, and so does a tensor above the second one. The product
// of an extent and an element's size then fits 64 bits without a check, and tensors of 8-byte elements fit the 2^48 bytes of a module file.
inline constexpr int64_t largest_extent = int64_t{1} << 40;
inline constexpr int64_t largest_element_count = int64_t{1} << 45;
inline constexpr int64_t largest_rank = 32;
// A longer integer tensor is data, not a shape.
inline constexpr size_t most_shape_elements = 64;

// The exact sum, product or quotient rounded down; null if a number in it is out of an extent's range, or if the expression is too long to be
// worthwhile. Products of symbols, and of sums of symbols, have one form in whatever order they were multiplied; sums of products may have several.
mlir::AffineExpr sum(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr difference(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr product(mlir::AffineExpr a, mlir::AffineExpr b);
mlir::AffineExpr quotient(mlir::AffineExpr a, int64_t divisor);
// (constant * numerator) / (divisor * denominator).
struct Ratio {
  int64_t constant, divisor;
  mlir::AffineExpr numerator, denominator;
};
// The product of some extents divided by that of others: constants and equal factors cancel, also those of products.
std::optional<Ratio> ratio_of(llvm::ArrayRef<mlir::AffineExpr> numerator, llvm::ArrayRef<mlir::AffineExpr> denominator,
                              mlir::MLIRContext* context);

// a / b if b divides a for every value of the symbols, or null.
mlir::AffineExpr exact_quotient(llvm::ArrayRef<mlir::AffineExpr> numerator, llvm::ArrayRef<mlir::AffineExpr> denominator,
                                mlir::MLIRContext* context);

// The least value of a part of an expression, if something requires it; for example, no call has an image for which a convolution has no result.
using Least = llvm::function_ref<std::optional<int64_t>(mlir::AffineExpr)>;

// Whether a >= b for all values of the symbols (true), for none (false), or for some (nothing).
std::optional<bool> at_least(mlir::AffineExpr a, mlir::AffineExpr b, Least least = {});
// The same for a == b.
std::optional<bool> equal(mlir::AffineExpr a, mlir::AffineExpr b, Least least = {});

// Why no tensor can have these extents, or an empty text.
std::string refuse_extents(llvm::ArrayRef<mlir::AffineExpr> extents);

}  // namespace heddle::import
