// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_extents.h"

#include <numeric>
#include <optional>
#include <string>

#include "compiler/ir/tx.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace heddle::import {
namespace {

// An expression is a graph in memory, but passes walk it as a tree: without a limit, sums of quotients of sums would grow without end.
constexpr int longest_expression = 256;

// Bound of the sum of the absolute values of all coefficients, however the expression is multiplied out; none if it is above the limit.
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

// The form of an expression in types: extents are compared as written.
AffineExpr canonical(AffineExpr expression) {
  unsigned symbols = 0;
  expression.walk([&](AffineExpr part) {
    if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(part)) symbols = std::max(symbols, symbol.getPosition() + 1);
  });
  constexpr int most_rounds = 4;  // a product inside a sum may need more than one
  for (int round = 0; round < most_rounds; ++round) {
    AffineExpr simplified = simplifyAffineExpr(expression, 0, symbols);
    if (simplified == expression) break;
    expression = simplified;
  }
  return expression;
}

AffineExpr bounded_canonical(AffineExpr expression) {
  return bounded(expression) ? bounded(canonical(expression)) : AffineExpr();
}

// An order of expressions that does not depend on memory addresses.
int order_of(AffineExpr a, AffineExpr b) {
  if (a == b) return 0;
  if (a.getKind() != b.getKind()) return a.getKind() < b.getKind() ? -1 : 1;
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(a)) {
    return constant.getValue() < llvm::cast<AffineConstantExpr>(b).getValue() ? -1 : 1;
  }
  if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(a)) {
    return symbol.getPosition() < llvm::cast<AffineSymbolExpr>(b).getPosition() ? -1 : 1;
  }
  auto left = llvm::cast<AffineBinaryOpExpr>(a), right = llvm::cast<AffineBinaryOpExpr>(b);
  int first = order_of(left.getLHS(), right.getLHS());
  return first != 0 ? first : order_of(left.getRHS(), right.getRHS());
}

// A factored product: a number, and the factors that depend on symbols.
struct Factors {
  int64_t constant = 1;
  SmallVector<AffineExpr> symbolic;

  // Multiplies by an expression; false if the number becomes too large.
  bool multiply(AffineExpr expression) {
    if (auto number = llvm::dyn_cast<AffineConstantExpr>(expression)) {
      bool overflow = __builtin_mul_overflow(constant, number.getValue(), &constant);
      return !overflow && constant >= -largest_element_count && constant <= largest_element_count;
    }
    auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
    if (binary && binary.getKind() == AffineExprKind::Mul) return multiply(binary.getLHS()) && multiply(binary.getRHS());
    if (binary && binary.getKind() == AffineExprKind::Add) {  // 2 * s0 + 4 is 2 * (s0 + 2)
      int64_t divisor = expression.getLargestKnownDivisor();
      AffineExpr rest = divisor > 1 ? canonical(expression.floorDiv(divisor)) : expression;
      if (divisor > 1 && canonical(rest * divisor) == expression) {
        if (__builtin_mul_overflow(constant, divisor, &constant)) return false;
        expression = rest;
      }
    }
    symbolic.push_back(expression);
    return constant >= -largest_element_count && constant <= largest_element_count;
  }

  AffineExpr product(MLIRContext* context) {
    llvm::sort(symbolic, [](AffineExpr a, AffineExpr b) { return order_of(a, b) < 0; });
    AffineExpr result;
    for (AffineExpr factor : symbolic) result = result ? result * factor : factor;
    AffineExpr number = getAffineConstantExpr(constant, context);
    return bounded_canonical(result ? result * number : number);
  }
};

// The least and the largest value of an expression; none where there is no bound, or none that fits 64 bits.
struct Bounds {
  std::optional<int64_t> low, high;
};

using Bound = std::optional<int64_t>;

Bound added(Bound a, Bound b) {
  int64_t result = 0;
  return a && b && !__builtin_add_overflow(*a, *b, &result) ? Bound(result) : Bound();
}

Bound multiplied(Bound a, Bound b) {
  int64_t result = 0;
  return a && b && !__builtin_mul_overflow(*a, *b, &result) ? Bound(result) : Bound();
}

Bounds product_of(const Bounds& a, const Bounds& b) {
  for (bool swapped : {false, true}) {
    const Bounds &x = swapped ? b : a, &y = swapped ? a : b;
    if (!y.low || y.low != y.high) continue;
    return *y.low >= 0 ? Bounds{multiplied(x.low, y.low), multiplied(x.high, y.low)}
                       : Bounds{multiplied(x.high, y.low), multiplied(x.low, y.low)};
  }
  if (a.low.value_or(-1) < 0 || b.low.value_or(-1) < 0) return {};
  return {multiplied(a.low, b.low), multiplied(a.high, b.high)};
}

// The symbols are never negative.
Bounds range_of(AffineExpr expression, Least least) {
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(expression)) return {constant.getValue(), constant.getValue()};
  Bounds range;
  if (auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression)) {
    const Bounds left = range_of(binary.getLHS(), least);
    const auto divisor = tx::static_extent(binary.getRHS());
    const bool divides = divisor && *divisor > 0;
    auto rounded_down = [&](Bound bound) { return bound ? Bound(llvm::divideFloorSigned(*bound, *divisor)) : Bound(); };
    switch (expression.getKind()) {
      case AffineExprKind::Add: {
        const Bounds right = range_of(binary.getRHS(), least);
        range = {added(left.low, right.low), added(left.high, right.high)};
        break;
      }
      case AffineExprKind::Mul:
        range = product_of(left, range_of(binary.getRHS(), least));
        break;
      case AffineExprKind::FloorDiv:
        if (divides) range = {rounded_down(left.low), rounded_down(left.high)};
        break;
      case AffineExprKind::Mod:
        if (divides) range = {0, *divisor - 1};
        break;
      default:
        break;
    }
    if (!range.low && tx::never_negative(expression)) range.low = 0;
  } else {
    range.low = 0;
  }
  if (auto known = least ? least(expression) : Bound(); known && *known > range.low.value_or(*known - 1)) range.low = known;
  return range;
}

}  // namespace

AffineExpr sum(AffineExpr a, AffineExpr b) {
  if (!bounded(a) || !bounded(b)) return {};
  return bounded_canonical(a + b);
}

AffineExpr difference(AffineExpr a, AffineExpr b) {
  if (!bounded(a) || !bounded(b)) return {};
  return bounded_canonical(a - b);
}

AffineExpr product(AffineExpr a, AffineExpr b) {
  if (!a || !b) return {};
  std::optional<int64_t> x = magnitude(a), y = magnitude(b);
  int64_t both = 0;
  if (!x || !y || __builtin_mul_overflow(*x, *y, &both) || both > largest_element_count) return {};
  Factors factors;
  return factors.multiply(a) && factors.multiply(b) ? factors.product(a.getContext()) : AffineExpr();
}

AffineExpr quotient(AffineExpr a, int64_t divisor) {
  if (!bounded(a) || divisor <= 0 || divisor > largest_extent) return {};
  return bounded_canonical(a.floorDiv(divisor));
}

std::optional<Ratio> ratio_of(ArrayRef<AffineExpr> numerator, ArrayRef<AffineExpr> denominator, MLIRContext* context) {
  Factors whole, part;
  for (AffineExpr factor : numerator) {
    if (!bounded(factor) || !whole.multiply(factor)) return {};
  }
  for (AffineExpr factor : denominator) {
    if (!bounded(factor) || !part.multiply(factor)) return {};
  }
  llvm::erase_if(part.symbolic, [&](AffineExpr factor) {
    auto it = llvm::find(whole.symbolic, factor);
    if (it == whole.symbolic.end()) return false;
    whole.symbolic.erase(it);
    return true;
  });
  if (part.constant == 0) return {};
  int64_t common = std::gcd(whole.constant, part.constant);
  Ratio ratio{whole.constant / common, part.constant / common, {}, {}};
  whole.constant = part.constant = 1;
  ratio.numerator = whole.product(context);
  ratio.denominator = part.product(context);
  return ratio.numerator && ratio.denominator ? std::optional(ratio) : std::nullopt;
}

AffineExpr exact_quotient(ArrayRef<AffineExpr> numerator, ArrayRef<AffineExpr> denominator, MLIRContext* context) {
  std::optional<Ratio> ratio = ratio_of(numerator, denominator, context);
  bool is_exact = ratio && ratio->divisor == 1 && ratio->denominator == getAffineConstantExpr(1, context);
  return is_exact ? product(ratio->numerator, getAffineConstantExpr(ratio->constant, context)) : AffineExpr();
}

std::optional<bool> at_least(AffineExpr a, AffineExpr b, Least least) {
  auto x = tx::static_extent(a), y = tx::static_extent(b);
  if (x && y) return *x >= *y;
  AffineExpr above = difference(a, b), below = difference(b, a);
  if (!above || !below) return {};
  if (range_of(above, least).low.value_or(-1) >= 0) return true;
  if (range_of(below, least).low.value_or(0) >= 1) return false;
  return {};
}

std::optional<bool> equal(AffineExpr a, AffineExpr b, Least least) {
  if (a == b) return true;
  std::optional<bool> above = at_least(a, b, least), below = at_least(b, a, least);
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
