// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symbols of a model's inputs, and the constraints that its nodes put on them; for example, x + y requires that s0 and s1 are equal. If a
// constraint determines a symbol, this is learned, and the file is imported again, so that the whole graph sees one form; otherwise it is
// checked in each call. Used by the onnx_*.cpp files of this directory.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace heddle::import {

// What successive imports learned about symbols, by their keys: an expression of others, whose symbol i has the key of[i]. No symbol is an
// expression of itself.
struct Meaning {
  mlir::AffineExpr expression;
  std::vector<std::string> of;
};
struct Meanings {
  std::map<std::string, Meaning> by_key;
  bool is_complete = false;  // nothing more is learned
  // Names of stored tensors that are no weights, since a shape or an attribute depends on their elements.
  std::set<std::string> structure;
  // Extents that a loop changes from step to step: Symbols::varies.
  std::set<std::string> varying;
  size_t size() const { return by_key.size() + structure.size() + varying.size(); }
};

class Symbols {
 public:
  // `meanings` come from earlier imports of the same file, and get what this one learns; extents of this import keep their old form.
  Symbols(mlir::MLIRContext* context, Meanings& meanings) : context_(context), meanings_(meanings) {}

  // A symbol's key is its name or, for an unnamed dimension, this text, which cannot be a name in the file.
  static std::string unnamed(const std::string& input, int dimension);

  // What a symbol stands for: itself, a number, or an expression of others.
  mlir::AffineExpr meant(const std::string& key);
  // The form of the symbol in the signature: the same, except that an expression cannot be in a signature. It is then the symbol itself, which must
  // be equal to the expression.
  mlir::AffineExpr declared(const std::string& key);
  // What the name of an input's dimension stands for.
  std::optional<mlir::AffineExpr> find(const std::string& name);

  // A symbol for a value that no expression of the others can state: the minimum or maximum of two, a quotient by a symbol that is rounded down, or
  // the remainder of such a division; or one of the two operands, if that is known to be the result. `kind` is that of tx::defined_symbols_attr. Null
  // if the value may be negative, or if there are too many already.
  mlir::AffineExpr defined(llvm::StringRef kind, mlir::AffineExpr a, mlir::AffineExpr b);
  // A symbol whose value is read when the model runs (tx.read), with that name, which no other has; null if there are too many already.
  mlir::AffineExpr read(const std::string& name);
  // Whether an earlier import found that a loop changes this extent.
  bool varies(const std::string& extent) const { return meanings_.varying.contains(extent); }
  // For the next import: the loop changes it.
  void note_varying(const std::string& extent) { meanings_.varying.insert(extent); }
  // Whether the expression depends on a symbol that was read since the mark.
  bool is_read_since(mlir::AffineExpr expression, size_t first_key) const;
  // Either of these.
  bool is_defined(mlir::AffineExpr expression) const;
  // The function's attribute tx::defined_symbols_attr; null if there are none.
  mlir::ArrayAttr definitions() const;

  // The expression with every input symbol one larger, so that what holds for it holds for the original expression if no input symbol is 0; a
  // defined symbol is often 0. Null if it is too long.
  mlir::AffineExpr if_positive(mlir::AffineExpr expression) const;

  // Whether two extents are equal, or are equal in every call that is not refused: `who` requires it. If they are equal only for some symbols, learns
  // this or adds a check. With `learn` false, nothing is learned.
  bool equate(mlir::AffineExpr a, mlir::AffineExpr b, const std::string& who, bool learn = true);
  // `who` requires a >= b: a call that violates this is refused. False if no call satisfies it.
  bool require(mlir::AffineExpr a, mlir::AffineExpr b, const std::string& who);
  // As of onnx_extents.h, for the values of the symbols that no requirement refuses.
  std::optional<bool> at_least(mlir::AffineExpr a, mlir::AffineExpr b) const;
  std::optional<bool> equal(mlir::AffineExpr a, mlir::AffineExpr b) const;
  // For undoing requirements and definitions of an attempt that is given up.
  struct Mark {
    size_t checks, definitions, keys;
  };
  Mark mark() const { return {checks_.size(), definitions_.size(), keys_.size()}; }
  void go_back(const Mark& mark);

  // The name of each position, for messages.
  const std::vector<std::string>& names() const { return names_; }
  // Sets the requirements aside, while a function that may not run is translated, and takes them back.
  void swap_checks(llvm::SetVector<mlir::Attribute>& others) { std::swap(checks_, others); }
  // The function's attribute tx::extent_checks_attr; null if there is nothing to check.
  mlir::ArrayAttr extent_checks() const;

 private:
  mlir::AffineExpr own(const std::string& key);
  void check(mlir::AffineExpr a, mlir::AffineExpr b, const std::string& who, bool at_least);
  void note_least(mlir::AffineExpr a, mlir::AffineExpr b);
  enum class Solved { kNever, kLearnt, kOpen };
  // Learns a meaning of a symbol without one that makes the difference 0.
  Solved solve(mlir::AffineExpr difference);
  Solved learn(unsigned position, mlir::AffineExpr expression);
  // With each symbol replaced by what it stands for; null if it is too long.
  mlir::AffineExpr resolved(mlir::AffineExpr expression);

  mlir::MLIRContext* context_;
  Meanings& meanings_;
  std::map<std::string, unsigned> positions_;
  std::map<std::string, mlir::AffineExpr> meant_;  // by their keys, until more is learned
  std::vector<std::string> keys_, names_;
  llvm::SetVector<mlir::Attribute> checks_, definitions_;  // the last symbols are the defined ones
  llvm::DenseMap<mlir::AffineExpr, int64_t> least_;        // of expressions without the number that is added last, by requirements
};

}  // namespace heddle::import
