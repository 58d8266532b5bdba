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

// Traits that tx.td gives to ops. Passes and targets ask for traits instead of op names, so that a new op states in one place what may be
// done with it.
namespace heddle::tx {

// Each element of the result depends only on the operands' elements at the same index.
template <typename OpT>
class Elementwise : public mlir::OpTrait::TraitBase<OpT, Elementwise> {};
// Takes many instructions per element, so it should not be computed twice.
template <typename OpT>
class Costly : public mlir::OpTrait::TraitBase<OpT, Costly> {};
// Gives whole numbers if its operands are whole numbers.
template <typename OpT>
class KeepsWhole : public mlir::OpTrait::TraitBase<OpT, KeepsWhole> {};
// Always gives whole numbers.
template <typename OpT>
class Rounds : public mlir::OpTrait::TraitBase<OpT, Rounds> {};
// Only moves elements.
template <typename OpT>
class Movement : public mlir::OpTrait::TraitBase<OpT, Movement> {};
// Moves nothing: readers find the elements where they are, and each reader may have the op in its own region.
template <typename OpT>
class View : public mlir::OpTrait::TraitBase<OpT, View> {};
// Reads elements of its first operand at indices that are the elements of the second one.
template <typename OpT>
class LookUp : public mlir::OpTrait::TraitBase<OpT, LookUp> {};
// Sums of products of its first two operands.
template <typename OpT>
class Contraction : public mlir::OpTrait::TraitBase<OpT, Contraction> {};
// A RowsOp: other ops that go through the same rows may be computed in the same region.
template <typename OpT>
class JoinsRows : public mlir::OpTrait::TraitBase<OpT, JoinsRows> {};
// A View for which programs have no command: its result is in the memory of its operand.
template <typename OpT>
class SameBytes : public mlir::OpTrait::TraitBase<OpT, SameBytes> {};
// Defined only by its stages (compiler/stage/form_stages.cpp): strategies that read tx ops do not know it.
template <typename OpT>
class OnlyStages : public mlir::OpTrait::TraitBase<OpT, OnlyStages> {};
// Element-wise ops that use its result may be part of its kernel.
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

// Function attribute (ArrayAttr of StringAttr): the symbols of dynamic extents.
inline constexpr llvm::StringLiteral symbols_attr = "tx.symbols";
// Function attribute: how the last of its symbols follow from other symbols, which are given by arguments or defined before. One
// dictionary each: `kind` ("min", "max", "floordiv" or "mod"), and `of`, an affine map with its two operands.
inline constexpr llvm::StringLiteral defined_symbols_attr = "tx.defined_symbols";
// The number of the function's symbols that are given by arguments.
unsigned given_symbol_count(mlir::Operation* function);
// Function attribute: what its last results are, one dictionary each. They are not results of the model, but verdicts (i64, of rank 0)
// of kernels on the values of a call: `kind` ("index" or "divisor") as CheckKind in module.fbs; `limit`, which the verdict is below if all
// is well; the `node`, and `where` in it.
inline constexpr llvm::StringLiteral checks_attr = "tx.checks";

// Function attribute: pairs of extents that the program compares before anything else. They must be equal or, with `at_least`, the first
// must be no smaller. An array of dictionaries: `extents`, an affine map of two results, and `who` needs it.
inline constexpr llvm::StringLiteral extent_checks_attr = "tx.extent_checks";

// Attribute that holds the name of an argument, a result or a derived constant.
inline constexpr llvm::StringLiteral name_attr = "tx.name";

// Attributes of an argument that the function may overwrite: a unit attribute, and the index of the result that takes its memory, if there is one.
inline constexpr llvm::StringLiteral donated_attr = "tx.donated";
inline constexpr llvm::StringLiteral alias_attr = "tx.alias";
// The result that takes the memory of an argument, a block argument of a function; none for another value.
std::optional<unsigned> alias_of(mlir::Value argument);
// A unit attribute of an argument with an alias: the caller passes neither; their memory is kept between calls.
inline constexpr llvm::StringLiteral state_attr = "tx.state";
bool is_state(mlir::Value argument);
// Whether it is an argument of a function that the function may overwrite.
bool is_donated(mlir::Value argument);

// Prefix of the names of parameters that the initializer writes; the importer gives no such names. The initializer is the function that
// computes, once at load, all values that depend only on constants.
inline constexpr llvm::StringLiteral derived_prefix = "derived.";
inline constexpr llvm::StringLiteral initializer_name = "$init";

// Module attribute: refusals to fuse, an array of dictionaries {kind, producer, consumer}.
inline constexpr llvm::StringLiteral fusion_log_attr = "tx.fusion_log";

// "tx.add 'node'", for messages.
std::string describe(mlir::Operation* op);

// Module attribute: nodes that a library plugin could have run but that are compiled like any other: an array of dictionaries
// {node, operator, reason}.
inline constexpr llvm::StringLiteral own_only_attr = "tx.own_only";
void note_own_only(mlir::ModuleOp module, llvm::StringRef node, llvm::StringRef operator_name, const llvm::Twine& reason);

// ------------------------------------------------------------------------------------------------------------- slots

// The slot without a name of its own; the names of all others begin with '@'.
inline constexpr llvm::StringLiteral default_slot = "default";

// Op attribute: the slot that the op was asked to run on. Importers set it, heddle-place-ops removes it.
inline constexpr llvm::StringLiteral place_attr = "place";

// Op attribute, together with `place`: who asked, as text.
inline constexpr llvm::StringLiteral placed_by_attr = "placed_by";

// Attribute of an argument or a result of a function: the slot that it is on.
inline constexpr llvm::StringLiteral affinity_attr = "heddle.affinity";

// Attribute of a constant or a parameter that is not for the default slot.
inline constexpr llvm::StringLiteral slot_attr = "slot";

// Module attributes: its slots, lowest first (ArrayAttr of StringAttr), and the family of devices of each, in the same order.
inline constexpr llvm::StringLiteral slots_attr = "tx.slots";
inline constexpr llvm::StringLiteral families_attr = "tx.families";

// Module attribute: who placed which node, a dictionary from node names to texts.
inline constexpr llvm::StringLiteral placements_attr = "tx.placements";

// "default", or '@' followed by letters, digits, '_', '-' and '.'.
bool is_slot_name(llvm::StringRef name);

// The order of slots: the default one is the lowest, the others are sorted by name.
bool is_lower_slot(llvm::StringRef left, llvm::StringRef right);

// The module's slots, lowest first; only the default one if the attribute is absent.
llvm::SmallVector<llvm::StringRef> slots_of(mlir::ModuleOp module);

// Whether a transpose of a contraction's result makes its rows innermost. conv: [n, y, x, c] to [n, c, y, x]; matmul: [.., m, n] to [.., n, m].
bool puts_rows_last(TransposeOp transpose, mlir::Operation* contraction);

// A type of blocks in which files have values: `elements` consecutive values of a row in `bytes`. Those that kernels read are known here; the others are
// converted when a module is loaded.
struct BlockType {
  llvm::StringLiteral name;  // as in GGUF
  int64_t elements, bytes;
};
// Null if kernels do not read blocks of this type.
const BlockType* block_type(llvm::StringRef name);
// The bytes of a row of values in such blocks; nothing if the row is not a number of whole blocks.
std::optional<int64_t> block_row_bytes(const BlockType& type, int64_t values);

// What is subtracted from the integers on a contraction's right side, an f32 per column; null for nothing.
mlir::Value zero_of(mlir::Operation* contraction);

// The family of devices that a slot is for; empty if the module names none.
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

// The extent, if it depends on no symbol.
inline std::optional<int64_t> static_extent(mlir::AffineExpr extent) {
  auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(extent);
  return constant ? std::optional(constant.getValue()) : std::nullopt;
}

inline bool is_one(mlir::AffineExpr extent) {
  return static_extent(extent) == 1;
}

// Extents of a tensor type, one expression per dimension, over the symbols of its function.
llvm::SmallVector<mlir::AffineExpr> extents(mlir::RankedTensorType type);

// The type with these extents; static ones become plain, others get the #tx.dims encoding.
mlir::RankedTensorType tensor_type(llvm::ArrayRef<mlir::AffineExpr> extents, mlir::Type element_type);
mlir::RankedTensorType tensor_type(llvm::ArrayRef<int64_t> extents, mlir::Type element_type);

// The same extents with another element type.
mlir::RankedTensorType with_element_type(mlir::RankedTensorType type, mlir::Type element_type);

// Product of the extents.
mlir::AffineExpr element_count(mlir::RankedTensorType type);

// True if the extent cannot be negative for any values of the symbols, which are never negative themselves. False: unknown.
bool never_negative(mlir::AffineExpr extent);
// True if the extent cannot be below 1 as long as no symbol is. False: unknown.
bool is_positive(mlir::AffineExpr extent);
// True if the extent cannot be 0 for any values of the symbols. False: unknown.
bool is_never_zero(mlir::AffineExpr extent);
// True if a part of a dimension, every stride-th element from start on, is inside the dimension for all values of the symbols. A part of
// symbolic extent of a static dimension is taken to be inside: when the model runs, symbols that are too large for it are refused.
// False: unknown.
bool is_inside(mlir::AffineExpr extent, int64_t start, int64_t stride, mlir::AffineExpr part);
// True if a tensor of the type has no elements whenever the extent is 0. False: unknown.
bool is_empty_with(mlir::RankedTensorType type, mlir::AffineExpr extent);

// Whether everything computed from the value, up to the end of its block, is computed by element-wise ops only.
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
// The value whose memory this one uses, outside of regions.
inline mlir::Value storage_of(mlir::Value value) {
  while (value.getDefiningOp() && has_same_bytes(value.getDefiningOp())) value = value.getDefiningOp()->getOperand(0);
  return value;
}
// Whether each part of the concat is a range of its elements in memory: all dimensions before the axis have one element.
bool has_ranges(ConcatOp concat);
inline bool has_only_stages(mlir::Operation* op) {
  return op->hasTrait<OnlyStages>();
}

// Whether nothing reads the operand after the region: another region on the same slot made it, or it is a donated argument on that slot; only
// regions read it, this one reads it once, and all other readers come before it.
bool dies_with(DispatchOp region, mlir::Value operand);
// Whether everything that the region computes from the operand, an argument of its body, has the operand's shape and takes each element
// only from the element at the same place.
bool is_read_in_place(mlir::Value operand);

}  // namespace heddle::tx
