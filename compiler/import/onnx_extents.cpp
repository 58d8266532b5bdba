// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_extents.h"

#include <optional>
#include <string>

#include "compiler/ir/tx.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace heddle::import {
namespace {

// An expression is a graph in memory, but passes walk it as a tree: sums of quotients of sums would grow without end.
constexpr int longest_expression = 256;

// Bound of the sum of the absolute values of all coefficients, however the expression is multiplied out; none above the limit.
std::optional<int64_t> magnitude(AffineExpr expression, int& budget) {
  if (--budget < 0) return {};
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(expression)) {
    int64_t value = constant.getValue();
    if (value < -largest_element_count || value > largest_element_count) return {};
    return value < 0 ? -value : value;
  }
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary) return 1;  // a symbol
  std::optional<int64_t> a = magnitude(binary.getLHS(), budget), b = magnitude(binary.getRHS(), budget);
  if (!a || !b) return {};
  int64_t result = 0;
  switch (expression.getKind()) {
    case AffineExprKind::Mul:
      if (__builtin_mul_overflow(*a, *b, &result)) return {};
      break;
    default:
      result = *a + *b;
  }
  if (result > largest_element_count) return {};
  return result;
}

std::optional<int64_t> magnitude(AffineExpr expression) {
  int budget = longest_expression;
  return magnitude(expression, budget);
}

// The expression if its numbers are small enough, else null.
AffineExpr bounded(AffineExpr expression) {
  return expression && magnitude(expression) ? expression : AffineExpr();
}

}  // namespace

AffineExpr sum(AffineExpr a, AffineExpr b) {
  if (!bounded(a) || !bounded(b)) return {};
  return bounded(a + b);
}

AffineExpr difference(AffineExpr a, AffineExpr b) {
  if (!bounded(a) || !bounded(b)) return {};
  return bounded(a - b);
}

AffineExpr product(AffineExpr a, AffineExpr b) {
  if (!a || !b) return {};
  if (!llvm::isa<AffineConstantExpr>(a) && !llvm::isa<AffineConstantExpr>(b)) return {};  // not affine
  std::optional<int64_t> x = magnitude(a), y = magnitude(b);
  int64_t both = 0;
  if (!x || !y || __builtin_mul_overflow(*x, *y, &both) || both > largest_element_count) return {};
  return a * b;
}

AffineExpr quotient(AffineExpr a, int64_t divisor) {
  if (!bounded(a) || divisor <= 0 || divisor > largest_extent) return {};
  return bounded(a.floorDiv(divisor));
}

AffineExpr exact_quotient(ArrayRef<AffineExpr> numerator, ArrayRef<AffineExpr> denominator, MLIRContext* context) {
  AffineExpr constant = getAffineConstantExpr(1, context), divisor = constant;
  SmallVector<AffineExpr> symbolic;
  for (AffineExpr factor : numerator) {
    if (llvm::isa<AffineConstantExpr>(factor)) {
      constant = product(constant, factor);
    } else {
      symbolic.push_back(factor);
    }
    if (!constant) return {};
  }
  for (AffineExpr factor : denominator) {
    if (llvm::isa<AffineConstantExpr>(factor)) {
      divisor = product(divisor, factor);
    } else if (auto it = llvm::find(symbolic, factor); it != symbolic.end()) {
      symbolic.erase(it);
    } else {
      return {};
    }
    if (!divisor) return {};
  }
  int64_t whole = llvm::cast<AffineConstantExpr>(constant).getValue(), part = llvm::cast<AffineConstantExpr>(divisor).getValue();
  if (part == 0 || whole % part != 0) return {};
  AffineExpr result = getAffineConstantExpr(whole / part, context);
  for (AffineExpr factor : symbolic) {
    result = product(factor, result);
    if (!result) return {};
  }
  return result;
}

std::optional<bool> at_least(AffineExpr a, AffineExpr b) {
  auto x = tx::static_extent(a), y = tx::static_extent(b);
  if (x && y) return *x >= *y;
  AffineExpr above = difference(a, b), below = difference(b, a);
  if (!above || !below) return {};
  if (tx::never_negative(above)) return true;
  AffineExpr surely_below = below - 1;
  if (tx::never_negative(surely_below)) return false;
  return {};
}

std::optional<bool> equal(AffineExpr a, AffineExpr b) {
  if (a == b) return true;
  std::optional<bool> above = at_least(a, b), below = at_least(b, a);
  if (above && below) return *above && *below;
  if ((above && !*above) || (below && !*below)) return false;
  return {};
}

std::string refuse_extents(ArrayRef<AffineExpr> extents) {
  if (static_cast<int64_t>(extents.size()) > largest_rank) {
    return "a tensor has rank " + std::to_string(extents.size()) + ", above " + std::to_string(largest_rank);
  }
  int64_t count = 1;
  for (auto [i, extent] : llvm::enumerate(extents)) {
    std::string which = " of dimension " + std::to_string(i);
    auto constant = llvm::dyn_cast<AffineConstantExpr>(extent);
    if (!constant) {
      std::optional<int64_t> bound = magnitude(extent);
      if (!bound || *bound > largest_extent) return "the symbolic extent" + which + " has numbers that are too large";
      continue;
    }
    int64_t value = constant.getValue();
    if (value < 0) return "extent " + std::to_string(value) + which + " is negative";
    if (value > largest_extent) return "extent " + std::to_string(value) + which + " is above " + std::to_string(largest_extent);
    if (value > 0 && count > largest_element_count / value) {
      return "a tensor has more than " + std::to_string(largest_element_count) + " elements";
    }
    if (value > 0) count *= value;
  }
  return "";
}

}  // namespace heddle::import
