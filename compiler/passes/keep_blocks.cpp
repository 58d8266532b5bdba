// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-keep-blocks: matrix products and look-ups read weights that a file has in blocks as they are stored there, instead of values that are made of
// them when the module is loaded. A parameter has one form: if anything else reads it, it is converted at load as before.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

bool is_matrix_transpose(Operation* op) {
  auto transpose = llvm::dyn_cast<tx::TransposeOp>(op);
  return transpose && transpose.getPermutation() == ArrayRef<int64_t>{1, 0};
}

// Whether the op reads rows of this matrix, or columns of the transposed one, and nothing else of it.
bool reads_rows(OpOperand& use, bool is_transposed) {
  if (auto gather = llvm::dyn_cast<tx::GatherOp>(use.getOwner()))
    return !is_transposed && use.getOperandNumber() == 0 && gather.getAxis() == 0 && !gather.getBlocks();
  auto matmul = llvm::dyn_cast<tx::MatmulOp>(use.getOwner());
  return matmul && use.getOperandNumber() == 1 && matmul.getTransposeRhs() != is_transposed && !matmul.getPackedShape() &&
         !matmul.getZero() && !matmul.getTransposeLhs() && !matmul.getBlocks() && tx::element_of(matmul.getLhs()).isF32() &&
         tx::element_of(matmul.getResult()).isF32();
}

bool can_stay(tx::ParameterOp parameter) {
  RankedTensorType type = tx::tensor(parameter.getResult());
  const tx::BlockType* blocks = tx::block_type(*parameter.getBlocks());
  if (!blocks || type.getRank() != 2 || !type.hasStaticShape() || !type.getElementType().isF32() || type.getNumElements() == 0)
    return false;
  if (!tx::block_row_bytes(*blocks, type.getDimSize(1))) return false;
  return llvm::all_of(parameter->getUses(), [](OpOperand& use) {
    if (!is_matrix_transpose(use.getOwner())) return reads_rows(use, false);
    return llvm::all_of(use.getOwner()->getUses(), [](OpOperand& other) { return reads_rows(other, true); });
  });
}

void read_blocks(OpOperand& use, Value stored, StringAttr blocks) {
  use.set(stored);
  if (auto gather = llvm::dyn_cast<tx::GatherOp>(use.getOwner())) return gather.setBlocksAttr(blocks);
  auto matmul = llvm::cast<tx::MatmulOp>(use.getOwner());
  matmul.setTransposeRhs(true);
  matmul.setBlocksAttr(blocks);
}

void keep(tx::ParameterOp parameter) {
  RankedTensorType type = tx::tensor(parameter.getResult());
  OpBuilder builder(parameter);
  StringAttr blocks = parameter.getBlocksAttr();
  const int64_t bytes = *tx::block_row_bytes(*tx::block_type(blocks.getValue()), type.getDimSize(1));
  auto stored = RankedTensorType::get({type.getDimSize(0), bytes}, builder.getIntegerType(8, /*isSigned=*/false));
  Value whole = parameter.getResult();
  for (OpOperand& use : llvm::make_early_inc_range(whole.getUses())) {
    if (!is_matrix_transpose(use.getOwner())) {
      read_blocks(use, whole, blocks);
      continue;
    }
    Operation* transpose = use.getOwner();
    for (OpOperand& other : llvm::make_early_inc_range(transpose->getUses())) read_blocks(other, whole, blocks);
    transpose->erase();
  }
  whole.setType(stored);
}

struct KeepBlocks : PassWrapper<KeepBlocks, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepBlocks)
  StringRef getArgument() const final { return "heddle-keep-blocks"; }
  StringRef getDescription() const final {
    return "matmul(x, transpose(parameter w {blocks = \"Q8_0\"} : f32))  ->  matmul(x, parameter w : ui8) {blocks = \"Q8_0\", "
           "transpose_rhs}";
  }
  void runOnOperation() override {
    llvm::MapVector<std::pair<Attribute, Attribute>, SmallVector<tx::ParameterOp>> parameters;  // by scope and name
    getOperation().walk([&](tx::ParameterOp op) {
      if (op.getScope()) parameters[{op.getScopeAttr(), op.getNameAttr()}].push_back(op);
    });
    for (auto& [name, ops] : parameters) {
      if (!llvm::all_of(ops, [](tx::ParameterOp op) { return op.getBlocks() && can_stay(op); })) continue;
      for (tx::ParameterOp op : ops) keep(op);
    }
  }
};

}  // namespace

std::unique_ptr<Pass> keep_blocks() {
  return std::make_unique<KeepBlocks>();
}

}  // namespace heddle::passes
