// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of a block (tx::BlockType) in vectors of f32. Used by the strategy "blocks".
#pragma once

#include "compiler/targets/x86_64/kernel_builder.h"

namespace heddle::targets::x86_64 {

// Emits the decoding of one block. The arithmetic is that of sdk/module/block_values.h, in its order, so that values are equal bit by bit. What several
// vectors have in common is emitted once.
class BlockReader {
 public:
  // base: the matrix; at: the first byte of the block in it, an i64.
  BlockReader(KernelBuilder& kernel, const tx::BlockType& type, mlir::Value base, mlir::Value at, int64_t lanes)
      : k_(kernel), type_(type), base_(base), at_(at), lanes_(lanes) {}

  // Values [first, first + lanes) of the block; `first` is a multiple of the lanes, of which there are at most 16.
  mlir::Value values(int64_t first);

 private:
  struct Scale {
    int64_t of = -1;         // the group of values that it is for
    mlir::Value by, less{};  // vectors
  };
  mlir::Value f16_at(int64_t byte);
  mlir::Value byte_at(int64_t byte, bool is_signed = false);   // i32
  mlir::Value bytes_at(int64_t byte, bool is_signed = false);  // a vector of i32
  mlir::Value constant(int64_t value) const;                   // likewise
  mlir::Value bits(mlir::Value bytes, int64_t shift, int64_t mask) const;
  mlir::Value to_f32(mlir::Value integers) const;
  mlir::Value spread(mlir::Value scalar) const { return k_.splat(scalar, lanes_); }
  void read_packed_scales();
  const Scale& scale_of(int64_t group);

  KernelBuilder& k_;
  const tx::BlockType& type_;
  mlir::Value base_, at_;
  int64_t lanes_;
  mlir::Value whole_by_;           // the block's own scale, f32
  mlir::Value all_by_, all_less_;  // of all groups of a K type, f32
  Scale scale_;
};

}  // namespace heddle::targets::x86_64
