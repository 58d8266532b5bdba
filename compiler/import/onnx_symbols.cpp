// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_symbols.h"

#include "compiler/import/onnx_extents.h"
#include "compiler/import/onnx_file.h"
#include "compiler/ir/tx.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Of defined symbols and symbols that are read: kernels get all of them.
constexpr size_t most_defined = 64;

bool mentions(AffineExpr expression, unsigned position) {
  return expression.isFunctionOfSymbol(position);
}

// The expression with its symbols replaced, in the form in which extents are compared; null if it has none.
AffineExpr replaced(AffineExpr expression, llvm::function_ref<AffineExpr(unsigned)> by) {
  if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(expression)) return by(symbol.getPosition());
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary) return expression;
  AffineExpr left = replaced(binary.getLHS(), by), right = replaced(binary.getRHS(), by);
  if (!left || !right) return {};
  auto divisor = tx::static_extent(right);
  switch (expression.getKind()) {
    case AffineExprKind::Add:
      return sum(left, right);
    case AffineExprKind::Mul:
      return product(left, right);
    case AffineExprKind::FloorDiv:
      if (divisor) return quotient(left, *divisor);
      [[fallthrough]];
    default:
      return getAffineBinaryOpExpr(expression.getKind(), left, right);
  }
}

// A sum as its parts: a number, symbols with their coefficients, and terms in which symbols are multiplied or divided.
struct Terms {
  int64_t constant = 0;
  std::map<unsigned, int64_t> coefficients;
  SmallVector<AffineExpr> others;

  // Numbers are below 2^45, as is the sum of them all (onnx_extents.h).
  void add(AffineExpr expression, int64_t factor) {
    if (auto number = tx::static_extent(expression)) {
      constant += factor * *number;
    } else if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(expression)) {
      coefficients[symbol.getPosition()] += factor;
    } else {
      auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
      auto number_behind = tx::static_extent(binary.getRHS());
      if (binary.getKind() == AffineExprKind::Add) {
        add(binary.getLHS(), factor);
        add(binary.getRHS(), factor);
      } else if (binary.getKind() == AffineExprKind::Mul && number_behind) {
        add(binary.getLHS(), factor * *number_behind);
      } else {
        others.push_back(expression * factor);
      }
    }
  }

  bool is_linear_in(unsigned position) const {
    return llvm::none_of(others, [&](AffineExpr other) { return mentions(other, position); });
  }

  // The sum without this symbol's term, times factor; null if its numbers are too large.
  AffineExpr without(unsigned position, int64_t factor, MLIRContext* context) const {
    AffineExpr result = getAffineConstantExpr(constant * factor, context);
    for (auto [other, coefficient] : coefficients) {
      if (other != position) result = sum(result, getAffineSymbolExpr(other, context) * (coefficient * factor));
    }
    for (AffineExpr other : others) result = sum(result, other * factor);
    return result;
  }
};

}  // namespace

std::string Symbols::unnamed(const std::string& input, int dimension) {
  return input + "." + std::to_string(dimension) + '\0';
}

AffineExpr Symbols::own(const std::string& key) {
  auto [it, is_new] = positions_.try_emplace(key, static_cast<unsigned>(keys_.size()));
  if (is_new) {
    keys_.push_back(key);
    names_.push_back(key.ends_with('\0') ? key.substr(0, key.size() - 1) : key);
  }
  return getAffineSymbolExpr(it->second, context_);
}

AffineExpr Symbols::meant(const std::string& key) {
  auto it = meanings_.by_key.find(key);
  if (it == meanings_.by_key.end()) return own(key);
  if (auto known = meant_.find(key); known != meant_.end()) return known->second;
  const Meaning& meaning = it->second;
  AffineExpr result = replaced(meaning.expression, [&](unsigned i) { return meant(meaning.of[i]); });
  if (!result) {
    throw Failure{HEDDLE_STATUS_UNIMPLEMENTED,
                  "onnx: importing the model failed: its dimension '" + key.substr(0, key.find('\0')) +
                      "' must be an expression of its other dimensions that is too long; give their extents with --dim"};
  }
  return meant_[key] = result;
}

AffineExpr Symbols::declared(const std::string& key) {
  AffineExpr meaning = meant(key);
  return llvm::isa<AffineConstantExpr, AffineSymbolExpr>(meaning) ? meaning : own(key);
}

std::optional<AffineExpr> Symbols::find(const std::string& name) {
  if (!positions_.contains(name) && !meanings_.by_key.contains(name)) return {};
  return meant(name);
}

AffineExpr Symbols::defined(StringRef kind, AffineExpr a, AffineExpr b) {
  if (!a || !b) return {};
  bool is_max = kind == "max";
  if (is_max || kind == "min") {
    if (import::at_least(a, b).value_or(false)) return is_max ? a : b;
    if (import::at_least(b, a).value_or(false)) return is_max ? b : a;
  }
  if (is_max ? !tx::never_negative(a) && !tx::never_negative(b) : !tx::never_negative(a) || !tx::never_negative(b)) return {};
  Builder builder(context_);
  AffineMap of = AffineMap::get(0, static_cast<unsigned>(keys_.size()), {a, b}, context_);
  std::string text;
  llvm::raw_string_ostream(text) << kind << "(" << a << ", " << b << ")";
  text += '\0';
  if (positions_.contains(text)) return own(text);
  if (definitions_.size() == most_defined) return {};
  definitions_.insert(builder.getDictionaryAttr(
      {builder.getNamedAttr("kind", builder.getStringAttr(kind)), builder.getNamedAttr("of", AffineMapAttr::get(of))}));
  return own(text);
}

AffineExpr Symbols::read(const std::string& name) {
  if (definitions_.size() == most_defined || positions_.contains(name + '\0')) return {};
  Builder builder(context_);
  definitions_.insert(
      builder.getDictionaryAttr({builder.getNamedAttr("kind", builder.getStringAttr("read")),
                                 builder.getNamedAttr("index", builder.getI64IntegerAttr(static_cast<int64_t>(definitions_.size())))}));
  return own(name + '\0');
}

bool Symbols::is_read_since(AffineExpr expression, size_t first_key) const {
  const size_t given = keys_.size() - definitions_.size();
  bool found = false;
  expression.walk([&](AffineExpr part) {
    auto symbol = llvm::dyn_cast<AffineSymbolExpr>(part);
    if (!symbol || found || symbol.getPosition() < std::max(first_key, given)) return;
    auto of = llvm::cast<DictionaryAttr>(definitions_[symbol.getPosition() - given]).getAs<AffineMapAttr>("of");  // none if it is read
    found = !of || llvm::any_of(of.getValue().getResults(), [&](AffineExpr operand) { return is_read_since(operand, first_key); });
  });
  return found;
}

bool Symbols::is_defined(AffineExpr expression) const {
  auto symbol = llvm::dyn_cast<AffineSymbolExpr>(expression);
  return symbol && symbol.getPosition() >= keys_.size() - definitions_.size();
}

AffineExpr Symbols::if_positive(AffineExpr expression) const {
  return replaced(expression, [&](unsigned position) {
    AffineExpr symbol = getAffineSymbolExpr(position, context_);
    return is_defined(symbol) ? symbol : symbol + 1;
  });
}

ArrayAttr Symbols::definitions() const {
  return definitions_.empty() ? ArrayAttr() : ArrayAttr::get(context_, definitions_.getArrayRef());
}

AffineExpr Symbols::resolved(AffineExpr expression) {
  return replaced(expression, [&](unsigned position) { return meant(keys_[position]); });
}

Symbols::Solved Symbols::learn(unsigned position, AffineExpr expression) {
  Meaning meaning;
  meaning.expression = replaced(expression, [&](unsigned symbol) {
    auto it = llvm::find(meaning.of, keys_[symbol]);
    auto place = static_cast<unsigned>(it - meaning.of.begin());
    if (it == meaning.of.end()) meaning.of.push_back(keys_[symbol]);
    return getAffineSymbolExpr(place, context_);
  });
  if (!meaning.expression) return Solved::kOpen;
  meanings_.by_key[keys_[position]] = std::move(meaning);
  meant_.clear();
  return Solved::kLearnt;
}

Symbols::Solved Symbols::solve(AffineExpr difference) {
  for (size_t i = keys_.size() - definitions_.size(); i < keys_.size(); ++i) {
    if (mentions(difference, static_cast<unsigned>(i))) return Solved::kOpen;
  }
  Terms terms;
  terms.add(difference, 1);
  std::erase_if(terms.coefficients, [](const auto& entry) { return entry.second == 0; });
  if (terms.coefficients.size() == 1 && terms.others.empty()) {
    auto [position, coefficient] = *terms.coefficients.begin();
    int64_t value = -terms.constant / coefficient;
    if (value * coefficient != -terms.constant || value <= 0) return Solved::kNever;
    return learn(position, getAffineConstantExpr(value, context_));
  }
  // A symbol is preferred to an expression, and a symbol of an earlier input to one of a later input.
  std::optional<unsigned> solved;
  AffineExpr solution;
  for (auto [position, coefficient] : terms.coefficients) {
    if ((coefficient != 1 && coefficient != -1) || !terms.is_linear_in(position)) continue;
    AffineExpr expression = terms.without(position, -coefficient, context_);
    if (!expression || !tx::never_negative(expression)) continue;
    if (solution && llvm::isa<AffineSymbolExpr>(solution) && !llvm::isa<AffineSymbolExpr>(expression)) continue;
    solved = position;
    solution = expression;
  }
  return solved ? learn(*solved, solution) : Solved::kOpen;
}

bool Symbols::equate(AffineExpr a, AffineExpr b, const std::string& who, bool learn) {
  if (std::optional<bool> known = import::equal(a, b)) return *known;
  if (learn && !meanings_.is_complete) {
    AffineExpr left = resolved(a), right = resolved(b), apart = left && right ? difference(left, right) : AffineExpr();
    std::optional<bool> known = apart ? import::equal(left, right) : std::nullopt;
    if (known) return *known;
    Solved solved = apart ? solve(apart) : Solved::kOpen;
    if (solved != Solved::kOpen) return solved == Solved::kLearnt;
  }
  check(a, b, who, /*at_least=*/false);
  return true;
}

bool Symbols::require(AffineExpr a, AffineExpr b, const std::string& who) {
  if (std::optional<bool> known = import::at_least(a, b)) return *known;
  check(a, b, who, /*at_least=*/true);
  return true;
}

std::optional<bool> Symbols::at_least(AffineExpr a, AffineExpr b) const {
  return import::at_least(a, b, [&](AffineExpr part) {
    auto it = least_.find(part);
    return it == least_.end() ? std::nullopt : std::optional(it->second);
  });
}

std::optional<bool> Symbols::equal(AffineExpr a, AffineExpr b) const {
  return import::equal(a, b, [&](AffineExpr part) {
    auto it = least_.find(part);
    return it == least_.end() ? std::nullopt : std::optional(it->second);
  });
}

void Symbols::note_least(AffineExpr a, AffineExpr b) {
  auto least = tx::static_extent(b);
  if (!least) return;
  int64_t added = 0;
  if (auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(a); binary && binary.getKind() == AffineExprKind::Add) {
    if (auto number = tx::static_extent(binary.getRHS())) {
      added = *number;
      a = binary.getLHS();
    }
  }
  auto [it, is_new] = least_.try_emplace(a, *least - added);
  it->second = std::max(it->second, *least - added);
}

void Symbols::go_back(const Mark& mark) {
  while (checks_.size() > mark.checks) checks_.pop_back();
  least_.clear();
  for (Attribute check : checks_) {
    auto entries = llvm::cast<DictionaryAttr>(check);
    AffineMap extents = entries.getAs<AffineMapAttr>("extents").getValue();
    if (entries.contains("at_least")) note_least(extents.getResult(0), extents.getResult(1));
  }
  if (keys_.size() - mark.keys != definitions_.size() - mark.definitions) return;  // symbols were added after them
  while (definitions_.size() > mark.definitions) {
    definitions_.pop_back();
    positions_.erase(keys_.back());
    keys_.pop_back();
    names_.pop_back();
  }
}

void Symbols::check(AffineExpr a, AffineExpr b, const std::string& who, bool at_least) {
  Builder builder(context_);
  AffineMap extents = AffineMap::get(0, static_cast<unsigned>(keys_.size()), {a, b}, context_);
  SmallVector<NamedAttribute, 3> entries = {builder.getNamedAttr("extents", AffineMapAttr::get(extents)),
                                            builder.getNamedAttr("who", builder.getStringAttr(who))};
  if (at_least) note_least(a, b);
  if (at_least) entries.push_back(builder.getNamedAttr("at_least", builder.getUnitAttr()));
  checks_.insert(builder.getDictionaryAttr(entries));
}

ArrayAttr Symbols::extent_checks() const {
  return checks_.empty() ? ArrayAttr() : ArrayAttr::get(context_, checks_.getArrayRef());
}

}  // namespace heddle::import
