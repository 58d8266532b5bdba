// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++ side of the tx dialect: op classes, and the few questions about extents that every pass and target asks.
// Included by everything in compiler/; must not know any pass or target.
#pragma once

#include <optional>
#include <string>

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

// What ops say of themselves in tx.td. Passes and targets ask for these and not for names of ops, so that a new op says in one place what may be done with it.
namespace heddle::tx {

// Its result at an index depends only on the operands' elements at the same index.
template <typename OpT>
class Elementwise : public mlir::OpTrait::TraitBase<OpT, Elementwise> {};
// Of many instructions per element, so that it is not computed twice without need.
template <typename OpT>
class Costly : public mlir::OpTrait::TraitBase<OpT, Costly> {};
// Of whole numbers it makes whole numbers.
template <typename OpT>
class KeepsWhole : public mlir::OpTrait::TraitBase<OpT, KeepsWhole> {};
// It makes whole numbers.
template <typename OpT>
class Rounds : public mlir::OpTrait::TraitBase<OpT, Rounds> {};
// It only moves elements.
template <typename OpT>
class Movement : public mlir::OpTrait::TraitBase<OpT, Movement> {};
// It moves nothing: readers find the elements where they are, and each may have the op in its own region.
template <typename OpT>
class View : public mlir::OpTrait::TraitBase<OpT, View> {};
// It reads elements of its first operand at indices that it reads from the second one.
template <typename OpT>
class LookUp : public mlir::OpTrait::TraitBase<OpT, LookUp> {};
// Sums of products of its first two operands.
template <typename OpT>
class Contraction : public mlir::OpTrait::TraitBase<OpT, Contraction> {};
// A RowsOp: what goes through the same rows may be computed in the same region.
template <typename OpT>
class JoinsRows : public mlir::OpTrait::TraitBase<OpT, JoinsRows> {};
// A View that programs have no command for: its result is where its operand is.
template <typename OpT>
class SameBytes : public mlir::OpTrait::TraitBase<OpT, SameBytes> {};
// It is defined by its stages alone (compiler/stage/form_stages.cpp): strategies that read tx ops do not know it.
template <typename OpT>
class OnlyStages : public mlir::OpTrait::TraitBase<OpT, OnlyStages> {};
// Element-wise ops behind it may be part of its kernel.
template <typename OpT>
class TakesEpilogue : public mlir::OpTrait::TraitBase<OpT, TakesEpilogue> {};

}  // namespace heddle::tx

#include "tx_dialect.h.inc"
#include "tx_enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "tx_attrs.h.inc"
#include "tx_op_interfaces.h.inc"
#define GET_OP_CLASSES
#include "tx_ops.h.inc"

namespace heddle::tx {

// Name of the function attribute (ArrayAttr of StringAttr) that lists the symbols of dynamic extents.
inline constexpr llvm::StringLiteral symbols_attr = "tx.symbols";
// Of a function: how the last of its symbols follow from others, which arguments give or which are before them. One dictionary each: `kind` ("min", "max", "floordiv"
// or "mod"), and `of`, an affine map with the two that it is of.
inline constexpr llvm::StringLiteral defined_symbols_attr = "tx.defined_symbols";
// How many of the function's symbols arguments give.
unsigned given_symbol_count(mlir::Operation* function);
// Of a function: what its last results are, one dictionary each. They are no results of the model, but verdicts of kernels on the values of a call (i64, of rank
// 0): `kind` ("index" or "divisor") as CheckKind in module.fbs, `limit`, which the verdict is below where all is well, the `node`, and `where` in it.
inline constexpr llvm::StringLiteral checks_attr = "tx.checks";

// Of a function: pairs of extents of which the program checks before anything else that they are equal, or where `at_least` is there, that the first one is
// no smaller. An array of dictionaries: `extents`, an affine map of two results, and `who` needs it.
inline constexpr llvm::StringLiteral extent_checks_attr = "tx.extent_checks";

// Name of the attribute that holds the name of an argument, a result or a derived constant.
inline constexpr llvm::StringLiteral name_attr = "tx.name";

// Name of the function that computes, once at load, what depends on constants only.
// Names of parameters that the initializer writes begin so; the importer gives none such away.
inline constexpr llvm::StringLiteral derived_prefix = "derived.";
inline constexpr llvm::StringLiteral initializer_name = "$init";

// Module attribute: refusals to fuse, an array of dictionaries {kind, producer, consumer}.
inline constexpr llvm::StringLiteral fusion_log_attr = "tx.fusion_log";

// "tx.add 'node'", for people.
std::string describe(mlir::Operation* op);

// Module attribute: nodes that a library plugin could have run instead, and that are compiled like any other after all: an array of
// dictionaries {node, operator, reason}.
inline constexpr llvm::StringLiteral own_only_attr = "tx.own_only";
void note_own_only(mlir::ModuleOp module, llvm::StringRef node, llvm::StringRef operator_name, const llvm::Twine& reason);

// ------------------------------------------------------------------------------------------------------------- slots

// The slot that has no name of its own; all others begin with '@'.
inline constexpr llvm::StringLiteral default_slot = "default";

// Attribute of an op: the slot that it was asked to run on. Importers set it, heddle-place-ops takes it away.
inline constexpr llvm::StringLiteral place_attr = "place";

// Attribute beside `place`: who asked, as a text.
inline constexpr llvm::StringLiteral placed_by_attr = "placed_by";

// Attribute of an argument or a result of a function: the slot that it is on.
inline constexpr llvm::StringLiteral affinity_attr = "heddle.affinity";

// Attribute of a constant or a parameter that is not for the default slot.
inline constexpr llvm::StringLiteral slot_attr = "slot";

// Module attributes: its slots, lowest first (ArrayAttr of StringAttr), and in the same order the family of devices that each is for.
inline constexpr llvm::StringLiteral slots_attr = "tx.slots";
inline constexpr llvm::StringLiteral families_attr = "tx.families";

// Module attribute: who placed what, a dictionary of node names and texts.
inline constexpr llvm::StringLiteral placements_attr = "tx.placements";

// "default", or '@' with letters, digits, '_', '-' and '.' behind it.
bool is_slot_name(llvm::StringRef name);

// The order of slots: the default one is the lowest, the others are sorted by name.
bool is_lower_slot(llvm::StringRef left, llvm::StringRef right);

// The module's slots, lowest first; the default one where nobody said anything.
llvm::SmallVector<llvm::StringRef> slots_of(mlir::ModuleOp module);

// Does a transpose of a contraction's result make its rows innermost? conv: [n, y, x, c] to [n, c, y, x]; matmul: [.., m, n] to [.., n, m].
bool puts_rows_last(TransposeOp transpose, mlir::Operation* contraction);

// What the integers on a contraction's right side are less, f32 of each column; null for nothing.
mlir::Value zero_of(mlir::Operation* contraction);

// The family of devices that a slot is for; empty where the module says none.
llvm::StringRef family_of(mlir::ModuleOp module, llvm::StringRef slot);

// The slot of an argument or a result, from its attributes.
llvm::StringRef affinity_of(mlir::DictionaryAttr attributes);

// The type of a tensor.
inline mlir::RankedTensorType tensor(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline mlir::Type element_of(mlir::Value value) {
  return tensor(value).getElementType();
}

// The extent, where it depends on no symbol.
inline std::optional<int64_t> static_extent(mlir::AffineExpr extent) {
  auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(extent);
  return constant ? std::optional(constant.getValue()) : std::nullopt;
}

// Extents of a tensor type, one expression a dimension, over the symbols of its function.
llvm::SmallVector<mlir::AffineExpr> extents(mlir::RankedTensorType type);

// The type with these extents; static ones become plain, others get the #tx.dims encoding.
mlir::RankedTensorType tensor_type(llvm::ArrayRef<mlir::AffineExpr> extents, mlir::Type element_type);
mlir::RankedTensorType tensor_type(llvm::ArrayRef<int64_t> extents, mlir::Type element_type);

// The same extents with another element type.
mlir::RankedTensorType with_element_type(mlir::RankedTensorType type, mlir::Type element_type);

// Product of the extents.
mlir::AffineExpr element_count(mlir::RankedTensorType type);

// True if the extent cannot be below 0, whatever the symbols are; they are not themselves. False says nothing.
bool never_negative(mlir::AffineExpr extent);
// True if it cannot be below 1 as long as no symbol is. False says nothing.
bool is_positive(mlir::AffineExpr extent);
// True if it cannot be 0, whatever the symbols are. False says nothing.
bool is_never_zero(mlir::AffineExpr extent);
// True if a part of a dimension, each stride-th element from start on, is inside of it for all symbols. A part of symbolic extent of a dimension that is static
// is taken to be so: the symbols that are too large for it are refused when the model runs. False says nothing.
bool is_inside(mlir::AffineExpr extent, int64_t start, int64_t stride, mlir::AffineExpr part);
// True if a tensor of the type has no elements whenever the extent is 0. False says nothing.
bool is_empty_with(mlir::RankedTensorType type, mlir::AffineExpr extent);

// Whether all that is computed from the value, up to the end of its block, is so by element-wise ops alone.
bool stays_in_place(mlir::Value value);

inline bool is_elementwise(mlir::Operation* op) {
  return op->hasTrait<Elementwise>();
}
inline bool is_costly(mlir::Operation* op) {
  return op->hasTrait<Costly>();
}
inline bool is_contraction(mlir::Operation* op) {
  return op->hasTrait<Contraction>();
}
inline bool is_view(mlir::Operation* op) {
  return op->hasTrait<View>();
}
inline bool has_same_bytes(mlir::Operation* op) {
  return op->hasTrait<SameBytes>();
}
// The value that this one is where it is, outside of regions.
inline mlir::Value storage_of(mlir::Value value) {
  while (value.getDefiningOp() && has_same_bytes(value.getDefiningOp())) value = value.getDefiningOp()->getOperand(0);
  return value;
}
inline bool has_only_stages(mlir::Operation* op) {
  return op->hasTrait<OnlyStages>();
}

// Whether nobody reads the operand behind the region: another region on the same slot made it, only regions read it, this one reads it once, and all others come before this one.
bool dies_with(DispatchOp region, mlir::Value operand);
// Whether all that a region computes of the operand, an argument of its body, are values of its shape, each element from those at its own place.
bool is_read_in_place(mlir::Value operand);

}  // namespace heddle::tx
