// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MLIR's text of affine expressions: sums of products; floordiv, ceildiv and mod bind like a product.
#include "tools/profile/extent_expression.h"

#include <charconv>
#include <string_view>

namespace heddle::tool {
namespace {

constexpr int kDeepest = 64;

class Evaluator {
 public:
  Evaluator(std::string_view text, const std::map<std::string, int64_t>& symbols) : left_(text), symbols_(symbols) {}

  std::optional<int64_t> all() {
    const auto value = sum(0);
    return left_.empty() ? value : std::nullopt;
  }

 private:
  using Number = std::optional<int64_t>;

  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }

  Number sum(int depth) {
    Number value = product(depth);
    while (value) {
      const bool is_minus = take(" - ");
      if (!is_minus && !take(" + ")) break;
      const Number other = product(depth);
      int64_t result;
      if (!other || (is_minus ? __builtin_sub_overflow(*value, *other, &result) : __builtin_add_overflow(*value, *other, &result)))
        return {};
      value = result;
    }
    return value;
  }

  Number product(int depth) {
    Number value = leaf(depth);
    while (value) {
      if (take(" * ")) {
        const Number other = leaf(depth);
        int64_t result;
        if (!other || __builtin_mul_overflow(*value, *other, &result)) return {};
        value = result;
        continue;
      }
      const bool is_floor = take(" floordiv "), is_ceil = !is_floor && take(" ceildiv "), is_mod = !is_floor && !is_ceil && take(" mod ");
      if (!is_floor && !is_ceil && !is_mod) break;
      const Number divisor = leaf(depth);
      if (!divisor || *divisor <= 0) return {};
      const int64_t rest = (*value % *divisor + *divisor) % *divisor, floor = (*value - rest) / *divisor;
      value = is_mod ? rest : is_floor || rest == 0 ? floor : floor + 1;
    }
    return value;
  }

  Number leaf(int depth) {
    if (depth > kDeepest) return {};
    if (take("(")) {
      const Number value = sum(depth + 1);
      return take(")") ? value : std::nullopt;
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), number);
    if (error == std::errc()) {
      left_.remove_prefix(static_cast<size_t>(end - left_.data()));
      return number;
    }
    if (take("-")) {
      const Number value = leaf(depth + 1);
      return value && *value != INT64_MIN ? Number(-*value) : std::nullopt;
    }
    // A name may be the start of another one.
    auto best = symbols_.end();
    for (auto one = symbols_.begin(); one != symbols_.end(); ++one) {
      const std::string& name = one->first;
      if (name.empty() || !left_.starts_with(name)) continue;
      const bool ends = left_.size() == name.size() || left_[name.size()] == ' ' || left_[name.size()] == ')';
      if (ends && (best == symbols_.end() || name.size() > best->first.size())) best = one;
    }
    if (best == symbols_.end()) return {};
    left_.remove_prefix(best->first.size());
    return best->second;
  }

  std::string_view left_;
  const std::map<std::string, int64_t>& symbols_;
};

}  // namespace

std::optional<int64_t> evaluate_extent(const std::string& text, const std::map<std::string, int64_t>& symbols) {
  return Evaluator(text, symbols).all();
}

}  // namespace heddle::tool
