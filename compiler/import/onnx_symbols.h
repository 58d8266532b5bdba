// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symbols of a model's inputs, and what its nodes say of them: that x + y needs s0 and s1 to be equal, say. What follows from that for a
// symbol is learnt, and then the file is imported again, so that the whole graph sees one form; what does not is checked in each call.
// Used by the onnx_*.cpp files of this folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/SetVector.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace heddle::import {

// What was learnt of symbols in one import after the other, by their keys: an expression of others, whose symbol i has the key of[i]. None is an expression
// of itself.
struct Meaning {
  mlir::AffineExpr expression;
  std::vector<std::string> of;
};
struct Meanings {
  std::map<std::string, Meaning> by_key;
  bool is_complete = false;  // nothing more is learnt
};

class Symbols {
 public:
  // `meanings` are of earlier imports of the same file, and get what this one learns; its own extents are still the old ones.
  Symbols(mlir::MLIRContext* context, Meanings& meanings) : context_(context), meanings_(meanings) {}

  // A key is the symbol's name, or this, for a dimension without one: no name of the file is the same.
  static std::string unnamed(const std::string& input, int dimension);

  // What a symbol stands for: itself, a number, or an expression of others.
  mlir::AffineExpr meant(const std::string& key);
  // How the signature gives it: the same, but for an expression, which a signature has no place for. Then it is the symbol itself, which
  // has to be equal to what it stands for.
  mlir::AffineExpr declared(const std::string& key);
  // What the name of an input's dimension stands for.
  std::optional<mlir::AffineExpr> find(const std::string& name);

  // A symbol for what no expression of the others is: the least or the largest of two, a quotient by a symbol that is rounded down, or what such a
  // division leaves; or one of the two, where that is known. `kind` is that of tx::defined_symbols_attr. Null where that may be negative, or where there are many already.
  mlir::AffineExpr defined(llvm::StringRef kind, mlir::AffineExpr a, mlir::AffineExpr b);
  bool is_defined(mlir::AffineExpr expression) const;
  // The function's attribute tx::defined_symbols_attr; null where there are none.
  mlir::ArrayAttr definitions() const;

  // The expression with every symbol of an input one larger, so that what holds of it holds of the expression where none of them is 0; a defined symbol is
  // often 0. Null where that is too long.
  mlir::AffineExpr if_positive(mlir::AffineExpr expression) const;

  // Whether two extents are equal, or are so in every call that is not refused: `who` needs them to be. Where they are for some symbols
  // only, learns or adds a check. With `learn` false nothing is learnt.
  bool equate(mlir::AffineExpr a, mlir::AffineExpr b, const std::string& who, bool learn = true);
  // `who` needs a to be b or more: a call in which it is not is refused. False where it is never so.
  bool require(mlir::AffineExpr a, mlir::AffineExpr b, const std::string& who);
  // For what is given up after it required or defined something.
  struct Mark {
    size_t checks, definitions, keys;
  };
  Mark mark() const { return {checks_.size(), definitions_.size(), keys_.size()}; }
  void go_back(const Mark& mark);

  // What each position is called, for people.
  const std::vector<std::string>& names() const { return names_; }
  // The function's attribute tx::extent_checks_attr; null where nothing has to be checked.
  mlir::ArrayAttr extent_checks() const;

 private:
  mlir::AffineExpr own(const std::string& key);
  void check(mlir::AffineExpr a, mlir::AffineExpr b, const std::string& who, bool at_least);
  enum class Solved { kNever, kLearnt, kOpen };
  // Learns what makes the difference 0, of which the symbols have no meaning yet.
  Solved solve(mlir::AffineExpr difference);
  Solved learn(unsigned position, mlir::AffineExpr expression);
  // With each symbol replaced by what it stands for; null where that is too long.
  mlir::AffineExpr resolved(mlir::AffineExpr expression);

  mlir::MLIRContext* context_;
  Meanings& meanings_;
  std::map<std::string, unsigned> positions_;
  std::map<std::string, mlir::AffineExpr> meant_;  // by their keys, until more is learnt
  std::vector<std::string> keys_, names_;
  llvm::SetVector<mlir::Attribute> checks_, definitions_;  // the last symbols are those that are defined
};

}  // namespace heddle::import
