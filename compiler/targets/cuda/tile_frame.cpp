// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile_frame.h.
#include "compiler/targets/cuda/tile_frame.h"

using namespace mlir;

namespace heddle::targets::cuda {

TileFrame::TileFrame(KernelBuilder& kernel, const TiledContraction& contraction, const Tile& chosen, Value block)
    : k(kernel), shape(contraction), tile(chosen) {
  Value column_tiles = k.index((shape.columns + tile.columns - 1) / tile.columns), row_tiles = k.extent(shape.rows.ceilDiv(tile.rows));
  rows = k.extent(shape.rows);
  first_column = k.mul(k.rem(block, column_tiles), tile.columns);
  Value rest = k.div(block, column_tiles);
  first_row = k.mul(k.rem(rest, row_tiles), tile.rows);
  batch = k.div(rest, row_tiles);
  Value slice_threads = k.index(k.threads() / tile.slices);
  slice = k.div(k.thread(), slice_threads);
  in_slice = k.rem(k.thread(), slice_threads);
  shared_ = k.builder.create<LLVM::PtrToIntOp>(k.location, i32(), k.shared_base());
}

Value TileFrame::shared_pointer(Value address, int64_t offset) const {
  auto type = LLVM::LLVMPointerType::get(k.builder.getContext(), 3);
  Value base = k.builder.create<LLVM::IntToPtrOp>(k.location, type, address);
  if (offset == 0) return base;
  return k.builder.create<LLVM::GEPOp>(k.location, type, k.builder.getI8Type(), base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
}

Value TileFrame::load_shared(Value address, int64_t offset, Type type, unsigned alignment) const {
  return k.builder.create<LLVM::LoadOp>(k.location, type, shared_pointer(address, offset), alignment);
}

void TileFrame::store_shared(Value value, Value address, int64_t offset, unsigned alignment) const {
  k.builder.create<LLVM::StoreOp>(k.location, value, shared_pointer(address, offset), alignment);
}

Value TileFrame::assembly(const std::string& text, const std::string& constraints, ValueRange operands, Type result, bool pure) const {
  std::string all = constraints;
  if (!pure) all += all.empty() ? "~{memory}" : ",~{memory}";
  auto op = k.builder.create<LLVM::InlineAsmOp>(k.location, result ? TypeRange(result) : TypeRange(), operands, text, all,
                                                /*has_side_effects=*/!pure, /*is_align_stack=*/false, LLVM::AsmDialectAttr(), ArrayAttr());
  return result ? op.getResult(0) : Value();
}

}  // namespace heddle::targets::cuda
