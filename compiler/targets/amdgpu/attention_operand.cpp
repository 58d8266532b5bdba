// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See attention_operand.h.
#include "compiler/targets/amdgpu/attention_operand.h"

#include <algorithm>

#include "compiler/targets/amdgpu/tile_operand.h"

using namespace mlir;

namespace heddle::targets::amdgpu {

namespace {

constexpr int64_t most_unrolled = 8;  // pieces of a thread

}  // namespace

AttentionOperand::AttentionOperand(LlvmKernelBuilder& kernel, const LocalMemory& memory, const AttentionShape& shape, Type type, Kind kind,
                                   ArrayRef<Value> element, int64_t lines, int64_t line_elements, int64_t line_bytes)
    : k_(kernel),
      memory_(memory),
      shape_(shape),
      type_(type),
      kind_(kind),
      element_(element),
      lines_(lines),
      line_elements_(line_elements),
      line_bytes_(line_bytes) {
  const int64_t most = tile_access_bytes / (type.getIntOrFloatBitWidth() / 8);
  deep_ = neighbors(along(), line_extent(), most);
  if (const int64_t across_lines = neighbors(across(), lines_extent(), most); across_lines > deep_) {
    is_along_ = false;
    wide_ = across_lines;
    deep_ = std::min<int64_t>(most, 4);
  }
}

std::optional<unsigned> AttentionOperand::along() const {
  return kind_ == values ? product().getDomain().getParallelRank() : shape_.first_depth();
}

std::optional<unsigned> AttentionOperand::across() const {
  if (kind_ == values) return shape_.second_column;
  return kind_ == keys ? std::optional(shape_.first_key) : std::nullopt;
}

AffineExpr AttentionOperand::line_extent() const {
  return kind_ == values ? shape_.keys : getAffineConstantExpr(shape_.depth, shape_.keys.getContext());
}

AffineExpr AttentionOperand::lines_extent() const {
  return kind_ == queries ? shape_.queries : kind_ == keys ? shape_.keys : getAffineConstantExpr(shape_.columns, shape_.keys.getContext());
}

int64_t AttentionOperand::neighbors(std::optional<unsigned> dimension, AffineExpr extent, int64_t most) const {
  if (!dimension) return 1;
  stage::ContractOp contract = product();
  int64_t lanes = most;
  while (lanes > 1 && !extent.isMultipleOf(lanes)) lanes /= 2;
  bool has_neighbors = false;
  for (unsigned i = 0; i < contract.getStepReads(); ++i) {
    if (!llvm::isa<BlockArgument>(contract->getOperand(i))) continue;
    int64_t own = lanes;
    auto step = memory_step(contract, i, *dimension, own);
    const auto fixed = step ? tx::static_extent(*step) : std::nullopt;
    if (!fixed || (*fixed != 0 && *fixed != 1)) continue;  // of the other factor, or read one by one
    if (*fixed == 1) lanes = own;
    has_neighbors |= *fixed == 1;
  }
  return has_neighbors ? lanes : 1;
}

void AttentionOperand::fill(Value first, Value address) const {
  const int64_t pieces = lines_ * line_elements_ / (deep_ * wide_), turns = llvm::divideCeilSigned(pieces, tile_threads);
  auto turn = [&](Value number) {
    Value piece = k_.add(k_.mul(number, tile_threads), k_.thread());
    auto fill_one = [&] { fill_piece(piece, first, address); };
    if (pieces % tile_threads == 0) return fill_one();
    k_.branch(k_.less(piece, k_.index(pieces)), fill_one);
  };
  if (turns > most_unrolled) return k_.loop(k_.index(0), k_.index(turns), turn);
  for (int64_t i = 0; i < turns; ++i) turn(k_.index(i));
}

void AttentionOperand::fill_piece(Value piece, Value first, Value address) const {
  const int64_t size = type_.getIntOrFloatBitWidth() / 8, pieces_of_line = line_elements_ / deep_;
  Value in_line = k_.mul(k_.rem(piece, k_.index(pieces_of_line)), deep_), line = k_.mul(k_.div(piece, k_.index(pieces_of_line)), wide_);
  // Of the operand: the first query, key or column, and the first element along the line.
  Value outer = kind_ == values ? line : k_.add(first, line), inner = kind_ == values ? k_.add(first, in_line) : in_line;
  Value line_end = k_.extent(line_extent()), last_line = k_.sub(k_.extent(lines_extent()), k_.index(is_along_ ? 1 : wide_));
  // Keys after the last one are left out later, and columns after the last one are not stored.
  outer = k_.min(outer, last_line);
  const int64_t reads = is_along_ ? 1 : deep_, step = is_along_ ? deep_ : 1;
  SmallVector<Value> loaded;
  for (int64_t i = 0; i < reads; ++i) {
    Value own = k_.add(inner, i), exists = k_.less(own, line_end);
    own = k_.min(own, k_.sub(line_end, k_.index(step)));
    BodyPlace place;
    place.index = kind_ == queries ? shape_.first_index(k_, element_, outer, k_.index(0), own)
                  : kind_ == keys  ? shape_.first_index(k_, element_, k_.index(0), outer, own)
                                   : shape_.second_index(k_, element_, k_.index(0), outer, own);
    if (deep_ * wide_ > 1 && (is_along_ ? deep_ : wide_) > 1) {
      place.lanes = is_along_ ? deep_ : wide_;
      place.lane_dimension = *(is_along_ ? along() : across());
    }
    Value value = kept_factor(k_, AttentionShape::factor(k_, product(), kind_ == queries ? 0 : 1, place), type_);
    loaded.push_back(k_.make<arith::SelectOp>(exists, value, k_.constant(value.getType(), 0)));
  }
  Value to = memory_.add(address, memory_.narrow(k_.add(k_.mul(line, line_bytes_), k_.mul(in_line, size))));
  const auto alignment = static_cast<unsigned>(std::min(deep_ * size, tile_access_bytes));
  if (is_along_) return memory_.store(loaded.front(), to, 0, alignment);
  for (int64_t lane = 0; lane < wide_; ++lane) {
    Value together = k_.constant(k_.vector_type(getElementTypeOrSelf(loaded.front().getType()), deep_), 0);
    for (auto [i, value] : llvm::enumerate(loaded)) {
      Value one = k_.builder.create<vector::ExtractOp>(k_.location, value, ArrayRef<int64_t>{lane});
      together = k_.builder.create<vector::InsertOp>(k_.location, one, together, ArrayRef<int64_t>{static_cast<int64_t>(i)});
    }
    memory_.store(together, to, lane * line_bytes_, alignment);
  }
}

}  // namespace heddle::targets::amdgpu
