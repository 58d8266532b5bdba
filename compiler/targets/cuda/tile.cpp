// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile.h.
#include "compiler/targets/cuda/tile.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

// Below these, a tile would be mostly empty.
constexpr int64_t shortest_sum = 8, fewest_columns = 8;

// Workgroups that keep most multiprocessors of a data center GPU busy; below it a smaller tile is better.
constexpr int64_t enough_workgroups = 100;

// Elements of a sum from which on a wide tile, with one workgroup a multiprocessor, is worth its long start.
constexpr int64_t long_sum = 512;

RankedTensorType tensor(Value value) {
  return llvm::cast<RankedTensorType>(value.getType());
}

// With every symbol 1.
int64_t at_least(AffineExpr expression) {
  SmallVector<AffineExpr> ones(8, getAffineConstantExpr(1, expression.getContext()));
  auto fixed = llvm::dyn_cast<AffineConstantExpr>(expression.replaceSymbols(ones));
  return fixed ? fixed.getValue() : 1;
}

bool read_matmul(tx::MatmulOp matmul, TiledContraction& shape) {
  if (matmul.getTransposeLhs() || matmul.getPackedShape()) return false;
  auto lhs = tx::extents(tensor(matmul.getLhs())), rhs = tx::extents(tensor(matmul.getRhs()));
  auto columns = llvm::dyn_cast<AffineConstantExpr>(tx::extents(tensor(matmul.getResult())).back());
  auto channels = llvm::dyn_cast<AffineConstantExpr>(lhs.back());
  if (!columns || !channels) return false;
  shape.rhs_transposed = matmul.getTransposeRhs();
  shape.rhs_batched = rhs.size() > 2;
  shape.columns = columns.getValue();
  shape.channels = channels.getValue();
  shape.rows = lhs[lhs.size() - 2];
  shape.batches = getAffineConstantExpr(1, matmul.getContext());
  for (size_t d = 0; d + 2 < lhs.size(); ++d) shape.batches = shape.batches * lhs[d];
  return true;
}

bool read_conv(tx::ConvOp conv, TiledContraction& shape) {
  auto input = tensor(conv.getInput()), filter = tensor(conv.getFilter()), result = tensor(conv.getResult());
  shape.spatial = static_cast<unsigned>(filter.getRank() - 2);
  if (conv.getPackedShape() || shape.spatial < 1 || shape.spatial > 2 || !filter.hasStaticShape()) return false;
  for (int64_t d = 1; d < input.getRank(); ++d) {
    if (input.isDynamicDim(static_cast<unsigned>(d)) || result.isDynamicDim(static_cast<unsigned>(d))) return false;
  }
  shape.is_conv = true;
  shape.groups = static_cast<int64_t>(conv.getGroups());
  shape.columns = filter.getShape().back() / shape.groups;
  shape.channels = filter.getDimSize(shape.spatial);
  unsigned x = shape.spatial - 1;  // the last spatial dimension
  shape.in_width = input.getDimSize(x + 1);
  shape.width = result.getDimSize(x + 1);
  shape.kernel_width = filter.getDimSize(x);
  shape.stride_width = conv.getStrides()[x];
  shape.dilation_width = conv.getDilations()[x];
  shape.pad_left = conv.getPadsLow()[x];
  shape.taps = shape.kernel_width;
  if (shape.spatial == 2) {
    shape.in_height = input.getDimSize(1);
    shape.height = result.getDimSize(1);
    shape.stride_height = conv.getStrides()[0];
    shape.dilation_height = conv.getDilations()[0];
    shape.pad_top = conv.getPadsLow()[0];
    shape.taps *= filter.getDimSize(0);
  }
  shape.rows = tx::extents(input).front() * (shape.height * shape.width);
  shape.batches = getAffineConstantExpr(1, conv.getContext());
  return true;
}

}  // namespace

std::optional<TiledContraction> TiledContraction::read(Operation* root) {
  TiledContraction shape;
  shape.root = root;
  shape.lhs = root->getOperand(0);
  shape.rhs = root->getOperand(1);
  shape.element = tensor(shape.lhs).getElementType();
  bool known_type = shape.element.isF32() || shape.element.isF16() || shape.element.isBF16();
  if (!known_type || tensor(shape.rhs).getElementType() != shape.element) return std::nullopt;
  if (!llvm::isa<BlockArgument>(shape.lhs) || !llvm::isa<BlockArgument>(shape.rhs)) return std::nullopt;
  auto conv = llvm::dyn_cast<tx::ConvOp>(root);
  if (!(conv ? read_conv(conv, shape) : read_matmul(llvm::cast<tx::MatmulOp>(root), shape))) return std::nullopt;
  if (shape.columns % shape.chunk() != 0 || shape.depth() < shortest_sum) return std::nullopt;
  if (!shape.is_conv && !shape.lhs_in_chunks()) return std::nullopt;
  if (shape.columns < fewest_columns) return std::nullopt;
  return shape;
}

int64_t Tile::shared_bytes(int64_t element_bytes) const {
  int64_t exchange = slices > 1 ? slices * rows * columns * 4 : 0;  // sums of the slices, after the last step
  return std::max(stages * stage_bytes(element_bytes), exchange);
}

std::string Tile::name() const {
  return "tile " + std::to_string(rows) + "x" + std::to_string(columns) + ", " + std::to_string(slices) + " slices, " +
         std::to_string(stages) + " stages";
}

std::optional<Tile> Tile::choose(const TiledContraction& shape, int64_t shared_memory_bytes) {
  static constexpr Tile without_tensor_cores[] = {
      {128, 128, 1, 64, 8, 8, 0, 0, 3}, {64, 64, 4, 64, 8, 8, 0, 0, 3}, {32, 32, 4, 64, 4, 4, 0, 0, 3}};
  static constexpr Tile with_tensor_cores[] = {{128, 256, 1, 128, 0, 0, 2, 4, 3},
                                               {128, 256, 1, 64, 0, 0, 2, 4, 4},
                                               {128, 128, 1, 64, 0, 0, 2, 4, 4},
                                               {64, 64, 2, 64, 0, 0, 2, 2, 4}};
  std::optional<Tile> best;
  for (Tile tile : shape.element.isF32() ? ArrayRef<Tile>(without_tensor_cores) : ArrayRef<Tile>(with_tensor_cores)) {
    while (tile.stages > 2 && tile.shared_bytes(shape.element_bytes()) > shared_memory_bytes) --tile.stages;
    if (tile.shared_bytes(shape.element_bytes()) > shared_memory_bytes) continue;
    // Long steps are for taps whose channels fill them, wide tiles for sums that are long enough to make up for their one workgroup at a time.
    if (tile.step_bytes > 64 && shape.channels % tile.depth(shape.element_bytes()) != 0) continue;
    if (tile.columns > 128 && shape.depth() < long_sum) continue;
    best = tile;
    int64_t workgroups = ((at_least(shape.rows) + tile.rows - 1) / tile.rows) * ((shape.columns + tile.columns - 1) / tile.columns) *
                         at_least(shape.batches) * shape.groups;
    if (workgroups >= enough_workgroups && shape.columns * 4 >= tile.columns * 3) break;
  }
  return best;
}

}  // namespace heddle::targets::cuda
