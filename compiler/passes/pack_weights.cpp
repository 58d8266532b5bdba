// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-pack-weights: constant filters and matrices of ops on CPU slots are reordered at load into the target's panels, and some that a call brings in
// the call. Other families read them as they are; those of 16 bits also if they are transposed.
#include "compiler/passes/passes.h"

#include "compiler/ir/dot_products.h"
#include "compiler/ir/filter_order.h"
#include "compiler/passes/constant_expression.h"
#include "compiler/passes/slots.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

constexpr int64_t panel_granularity = 16;  // see tx.pack

// tx.pack of a [K..., F] tensor divided into groups along F.
Value pack(OpBuilder& builder, Location loc, Value weights, int64_t groups, bool winograd = false) {
  auto type = llvm::cast<RankedTensorType>(weights.getType());
  int64_t columns = type.getShape().back() / groups;
  int64_t rows = type.getNumElements() / type.getShape().back();
  if (winograd) rows = rows / 9 * 16;
  int64_t padded = (columns + panel_granularity - 1) / panel_granularity * panel_granularity;
  auto packed = RankedTensorType::get({groups * rows * padded}, type.getElementType());
  return builder.create<tx::PackOp>(loc, packed, weights, groups, winograd);
}

// For f32 only: the panels are for the microkernels, which compute in no other type. They also read integers, and floats of 16 bits.
bool has_panels(Value input, Value weights) {
  auto type = llvm::cast<RankedTensorType>(weights.getType());
  if (!tx::tensor(input).getElementType().isF32() || type.getElementType().isF64()) return false;
  return type.hasStaticShape() && type.getNumElements() > 0;
}

bool can_pack(Value input, Value weights) {
  return has_panels(input, weights) && is_constant_expression(weights);
}

// The number of rows that a matmul computes, if it is known.
std::optional<int64_t> rows_of(tx::MatmulOp matmul) {
  RankedTensorType lhs = tx::tensor(matmul.getLhs());
  if (!lhs.hasStaticShape()) return std::nullopt;
  return lhs.getNumElements() / std::max<int64_t>(1, lhs.getDimSize(lhs.getRank() - (matmul.getTransposeLhs() ? 2 : 1)));
}

// Whether the right side is a matrix of f32 that is known only in a call, such as the weights of a layer in training.
bool is_of_call(tx::MatmulOp matmul) {
  Value rhs = matmul.getRhs();
  if (matmul.getPackedShape() || matmul.getBlocks() || matmul.getZero() || matmul.getTransposeLhs()) return false;
  return tx::tensor(rhs).getRank() == 2 && has_panels(matmul.getLhs(), rhs) && tx::element_of(rhs).isF32() && !is_constant_expression(rhs);
}

// The matrix [N, K] of which the right side is the transposed one, for this matmul alone; else null.
Value transposed_of(tx::MatmulOp matmul) {
  if (matmul.getTransposeRhs()) return matmul.getRhs();
  auto transpose = matmul.getRhs().getDefiningOp<tx::TransposeOp>();
  return transpose && transpose->hasOneUse() && transpose.getPermutation() == ArrayRef<int64_t>{1, 0} ? transpose.getInput() : Value();
}

// Whether panels for a matrix of a call are worth being written in that call.
bool packs_in_call(tx::MatmulOp matmul) {
  if (!is_of_call(matmul)) return false;
  // Panels are of whole units of columns. A transposed matrix would be copied to another layout in any case.
  if (Value matrix = transposed_of(matmul)) return tx::tensor(matrix).getDimSize(0) >= panel_granularity / 2;
  // Rows of a panel at multiples of 2 KiB share so few sets of a cache that it does not keep them from one tile of rows to the next.
  constexpr int64_t row_multiple = 2048 / 4, fewest_rows = 48;
  return tx::tensor(matmul.getRhs()).getDimSize(1) % row_multiple == 0 && rows_of(matmul).value_or(fewest_rows) >= fewest_rows;
}

// Whether panels for a filter of a call are worth being written in that call: it would be copied to another layout in any case.
bool packs_in_call(tx::ConvOp conv) {
  auto transpose = conv.getFilter().getDefiningOp<tx::TransposeOp>();
  if (!transpose || !transpose->hasOneUse() || !tx::stores_channels_first(transpose) || !has_panels(conv.getInput(), conv.getFilter()))
    return false;
  if (!tx::element_of(conv.getFilter()).isF32() || is_constant_expression(conv.getFilter())) return false;
  const int64_t columns = tx::tensor(conv.getFilter()).getShape().back() / static_cast<int64_t>(conv.getGroups());
  return columns >= panel_granularity / 2;
}

void pack_filter(tx::ConvOp conv, const Devices& devices, StringRef family, WidenedWeights& widened) {
  auto type = llvm::cast<RankedTensorType>(conv.getFilter().getType());
  int64_t groups = conv.getGroups();
  if (conv.getPackedShape()) return;
  const bool is_known = can_pack(conv.getInput(), conv.getFilter());
  if (is_known && widened.contains(conv.getFilter())) return;
  // Nor are there microkernels for three spatial dimensions, or for an image of symbolic size whose borders are cut off.
  ArrayRef<int64_t> image = tx::tensor(conv.getInput()).getShape();
  const bool is_symbolic = llvm::is_contained(image.drop_front(), ShapedType::kDynamic);
  if (type.getRank() > 4 || ShapedType::isDynamic(image.back())) return;
  if (is_symbolic && llvm::any_of(conv.getPadsLow(), [](int64_t pad) { return pad < 0; })) return;
  // depthwise kernels read the filter along the channels as it is
  if (groups > 1 && type.getDimSize(type.getRank() - 2) == 1) return;
  OpBuilder builder(conv);
  SmallVector<int64_t> shape(type.getShape());
  if (!is_known && !packs_in_call(conv)) return;
  bool winograd = is_known && devices.prefers_winograd(family, conv);
  conv.getFilterMutable().assign(pack(builder, conv.getLoc(), conv.getFilter(), groups, winograd));
  conv.setPackedShape(shape);
  conv.setWinograd(winograd);
}

void pack_rhs(tx::MatmulOp matmul, WidenedWeights& widened) {
  auto type = llvm::cast<RankedTensorType>(matmul.getRhs().getType());
  if (matmul.getPackedShape() || matmul.getBlocks() || type.getRank() != 2) return;
  const bool is_known = can_pack(matmul.getLhs(), matmul.getRhs());
  if (!is_known && !packs_in_call(matmul)) return;
  if (is_known && widened.contains(matmul.getRhs()) && !matmul.getTransposeRhs()) return;
  OpBuilder builder(matmul);
  Value rhs = matmul.getRhs();
  if (matmul.getTransposeRhs()) {
    type = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    rhs = builder.create<tx::TransposeOp>(matmul.getLoc(), type, rhs, SmallVector<int64_t>{1, 0});
    matmul.setTransposeRhs(false);
  }
  matmul.getRhsMutable().assign(pack(builder, matmul.getLoc(), rhs, 1));
  matmul.setPackedShape(SmallVector<int64_t>(type.getShape()));
}

// Sums along the rows of a matrix, each row times the vector: [..., rows, K], [..., K] -> [..., rows].
Value sums_of_rows(OpBuilder& builder, Location loc, Value matrix, Value vector) {
  RankedTensorType type = tx::tensor(matrix);
  const int64_t rank = type.getRank();
  SmallVector<AffineExpr> rows = tx::extents(type);
  rows.pop_back();
  auto dimensions = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  dimensions.push_back(rank - 1);
  Value factors = builder.create<tx::BroadcastOp>(loc, type, vector, dimensions);
  Value products = builder.create<tx::MulOp>(loc, type, matrix, factors);
  return builder.create<tx::ReduceOp>(loc, tx::tensor_type(rows, type.getElementType()), tx::ReduceKind::sum, products,
                                      SmallVector<int64_t>{rank - 1});
}

// Each matrix of a batch times a vector of its own, such as an expert's weights that were gathered for a token: a microkernel would compute a whole
// vector of columns for the only one. Sums along rows read the matrix once and, where it is gathered, in place.
void sum_rows(tx::MatmulOp matmul) {
  RankedTensorType lhs = tx::tensor(matmul.getLhs()), rhs = tx::tensor(matmul.getRhs()), result = tx::tensor(matmul.getResult());
  constexpr int64_t fewest = 16;  // rows, and elements of one
  if (matmul.getPackedShape() || matmul.getBlocks() || matmul.getZero() || matmul.getTransposeLhs() || matmul.getTransposeRhs()) return;
  const int64_t rank = lhs.getRank();
  if (rank < 3 || rhs.getRank() != rank || result.getDimSize(rank - 1) != 1 || !lhs.getElementType().isF32() ||
      !rhs.getElementType().isF32())
    return;
  if (lhs.getDimSize(rank - 1) < fewest || lhs.getDimSize(rank - 2) < fewest) return;  // also those that are symbolic
  OpBuilder builder(matmul);
  SmallVector<AffineExpr> extents = tx::extents(rhs);
  extents.pop_back();
  Value vectors = builder.create<tx::ReshapeOp>(matmul.getLoc(), tx::tensor_type(extents, rhs.getElementType()), matmul.getRhs());
  Value sums = sums_of_rows(builder, matmul.getLoc(), matmul.getLhs(), vectors);
  matmul.getResult().replaceAllUsesWith(builder.create<tx::ReshapeOp>(matmul.getLoc(), result, sums));
  matmul.erase();
}

// Whether kernels read this matrix [N, K] of a call as it lies: few rows need no panels, and for some more, workgroups make panels of their own.
bool reads_as_it_lies(tx::MatmulOp matmul, Value matrix) {
  constexpr int64_t most_rows = 512;
  const int64_t rows = rows_of(matmul).value_or(INT64_MAX);
  if (rows <= tx::most_dot_rows) return true;
  // Panels that several products read are written once.
  auto packs = [&](Operation* user) {
    auto other = llvm::dyn_cast<tx::MatmulOp>(user);
    return (other && other.getRhs() == matrix && other.getTransposeRhs()) || llvm::isa<tx::TransposeOp>(user);
  };
  return rows <= most_rows && tx::tensor(matrix).getDimSize(0) >= panel_granularity / 2 && llvm::count_if(matrix.getUsers(), packs) == 1;
}

// A matrix that would have to be transposed in each call is only read.
bool read_as_it_lies(tx::MatmulOp matmul) {
  Value matrix = is_of_call(matmul) ? transposed_of(matmul) : Value();
  if (!matrix || !reads_as_it_lies(matmul, matrix)) return false;
  matmul.getRhsMutable().assign(matrix);
  matmul.setTransposeRhs(true);
  return true;
}

// Matrix units take either order, so no second form is needed: an embedding that is also the last matrix is stored once, and an argument, such as a
// weight of PyTorch, is not transposed in each call.
void read_transposed(tx::MatmulOp matmul) {
  auto transpose = matmul.getRhs().getDefiningOp<tx::TransposeOp>();
  if (!transpose || matmul.getTransposeRhs() || matmul.getPackedShape()) return;
  Type element = tx::tensor(matmul.getRhs()).getElementType();
  if (!llvm::isa<FloatType>(element) || element.getIntOrFloatBitWidth() != 16) return;
  if (transpose.getPermutation() != ArrayRef<int64_t>{1, 0}) return;
  if (!is_constant_expression(transpose.getInput())) {
    constexpr int64_t at_once = 8;  // elements of 16 bytes, in which rows are copied if they are a multiple of them
    RankedTensorType matrix = tx::tensor(transpose.getInput());
    if (!llvm::isa<BlockArgument>(transpose.getInput()) || !matrix.hasStaticShape() || matrix.getDimSize(1) % at_once != 0) return;
  }
  matmul.getRhsMutable().assign(transpose.getInput());
  matmul.setTransposeRhs(true);
}

struct PackWeights : PassWrapper<PackWeights, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PackWeights)
  explicit PackWeights(const Devices& devices) : devices_(devices) {}
  StringRef getArgument() const final { return "heddle-pack-weights"; }
  StringRef getDescription() const final {
    return "conv(x, w) with constant w [R, S, C, F]  ->  conv(x, pack(w)) {packed_shape = [R, S, C, F]}; the same for matmul, and for some "
           "matrices of a call";
  }
  void runOnOperation() override {
    Slots slots(getOperation());
    WidenedWeights widened;  // computed in each call, so packing them would be too
    auto module = getOperation()->getParentOfType<ModuleOp>();
    getOperation().walk([&](Operation* op) {
      if (!tx::is_contraction(op)) return;
      auto matmul = llvm::dyn_cast<tx::MatmulOp>(op);
      StringRef family = tx::family_of(module, slots.of_or_default(op));
      if (!devices_.reads_panels(family)) {
        if (matmul) read_transposed(matmul);
        return;
      }
      if (auto conv = llvm::dyn_cast<tx::ConvOp>(op)) pack_filter(conv, devices_, family, widened);
      if (!matmul || read_as_it_lies(matmul)) return;
      pack_rhs(matmul, widened);
      sum_rows(matmul);
    });
  }

 private:
  const Devices& devices_;
};

}  // namespace

std::unique_ptr<Pass> pack_weights(const Devices& devices) {
  return std::make_unique<PackWeights>(devices);
}

}  // namespace heddle::passes
