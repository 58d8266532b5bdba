// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Narrow element types and their conversions (narrow.td). Apart from tx.h, since few files of the compiler need to know them.
#pragma once

#include "compiler/ir/tx.h"

#include "narrow_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "narrow_types.h.inc"
#define GET_OP_CLASSES
#include "narrow_ops.h.inc"

namespace heddle::tx {

// Floats: a sign, unless `exponent_bits` is 8; the exponent; the mantissa.
struct NarrowFormat {
  llvm::StringLiteral name;
  uint32_t code;  // HEDDLE_TYPE_*
  // Of floats. 0: integers.
  int exponent_bits, mantissa_bits, bias;
  uint32_t largest;        // the bits of the largest number
  uint32_t infinity;       // the bits of infinity; 0: there is none
  uint32_t nan;            // the bits of NaN; 0: there is none
  bool nan_replaces_zero;  // NaN is in the place of -0, and has no sign

  bool is_float() const { return exponent_bits != 0; }
  bool is_unsigned() const { return is_float() || name.front() == 'u'; }
  unsigned bits() const { return (code >> 8) & 0xFFu; }
  unsigned per_byte() const { return 8 / bits(); }
};

// Null for a name that no narrow type has.
const NarrowFormat* narrow_format(llvm::StringRef name);
// Null for a type that is not narrow.
const NarrowFormat* narrow_format(mlir::Type element);

// The type of the integers that hold one element each: ui8 for floats, with their bits in the low ones, ui8 or i8 for integers.
mlir::IntegerType stored_type(const NarrowFormat& format, mlir::MLIRContext* context);
// The type of the bytes in which arguments, results and parameters have the elements, row-major, the first one in the lowest bits.
mlir::RankedTensorType packed_type(mlir::RankedTensorType narrow);

// A matrix of integers of 4 bits with a scale for each block of a row, as products read it (`blocks` of tx.matmul): panels of 16 rows, the last one
// filled with anything. A panel has its blocks one after the other, each with what the 16 rows have in it: scales, of f32 or f16; bytes that are subtracted
// first, if there are any, else 8 is; and the integers, 8 neighbors of a row in 4 bytes, the first one in the lowest bits: [elements / 8][row] of 4 bytes.
// Names are "u4x32", "u4x32z" with bytes to subtract, "u4x32h" with scales of f16, and "u4x32hz".
struct Nibbles {
  static constexpr int64_t columns = 16;  // of the product, the panel's rows
  int64_t elements = 0;                   // of a block: 32, 64, 128 or 256
  bool has_halves = false;                // scales of f16
  bool has_zeros = false;

  // Nothing for the name of another type of blocks, or one that is not known.
  static std::optional<Nibbles> named(llvm::StringRef name);
  std::string name() const;
  int64_t scale_bytes() const { return has_halves ? 2 : 4; }
  // In a panel's block.
  int64_t panel_zeros_at() const { return columns * scale_bytes(); }
  int64_t panel_elements_at() const { return panel_zeros_at() + (has_zeros ? columns : 0); }
  int64_t panel_block_bytes() const { return panel_elements_at() + columns * elements / 2; }
};

// Attribute of an argument, a result or a parameter that is stored as bytes: its narrow type, as a tensor.
inline constexpr llvm::StringLiteral narrow_attr = "tx.narrow";
// The type that a module states: that of `attributes` if it is there, else `type`.
mlir::RankedTensorType declared_type(mlir::Type type, mlir::DictionaryAttr attributes);

}  // namespace heddle::tx
