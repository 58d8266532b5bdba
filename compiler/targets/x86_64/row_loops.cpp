// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See row_loops.h.
#include "compiler/targets/x86_64/row_loops.h"

#include <algorithm>
#include <cmath>

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

std::optional<int64_t> fixed(AffineExpr expression) {
  auto constant = llvm::dyn_cast<AffineConstantExpr>(expression);
  return constant ? std::optional<int64_t>(constant.getValue()) : std::nullopt;
}

std::optional<int64_t> fixed(Value value) {
  IntegerAttr attribute;
  return matchPattern(value, m_Constant(&attribute)) ? std::optional<int64_t>(attribute.getInt()) : std::nullopt;
}

AffineExpr product(ArrayRef<AffineExpr> extents, MLIRContext* context) {
  AffineExpr result = getAffineConstantExpr(1, context);
  for (AffineExpr extent : extents) result = result * extent;
  return result;
}

}  // namespace

RowSpace RowSpace::of(ArrayRef<AffineExpr> extents, unsigned flattened) {
  RowSpace space;
  space.outer.assign(extents.begin(), extents.end() - flattened);
  space.inner = product(extents.take_back(flattened), extents.front().getContext());
  return space;
}

AffineExpr RowSpace::rows() const {
  return product(outer, inner.getContext());
}

RowTiling RowTiling::make(RowSpace space, double ns_per_element) {
  constexpr double block_ns = 4000;
  RowTiling tiling;
  tiling.space = space;
  int64_t elements = static_cast<int64_t>(std::clamp(block_ns / ns_per_element, 1.0, 32768.0));
  if (elements > longest_vector_run) elements = elements / longest_vector_run * longest_vector_run;
  AffineExpr rows = space.rows();
  auto inner = fixed(space.inner), row_count = fixed(rows);
  AffineExpr inner_blocks = getAffineConstantExpr(1, rows.getContext());
  int64_t block_elements;
  if (inner && *inner < 2 * elements) {
    tiling.rows_per_block = std::max<int64_t>(1, elements / std::max<int64_t>(1, *inner));
    if (row_count) {
      // Equal blocks.
      int64_t blocks = std::max<int64_t>(1, (*row_count + tiling.rows_per_block - 1) / tiling.rows_per_block);
      tiling.rows_per_block = std::max<int64_t>(1, (*row_count + blocks - 1) / blocks);
    }
    block_elements = tiling.rows_per_block * *inner;
  } else {
    elements = std::max(elements, longest_vector_run);
    tiling.inner_per_block = elements;
    if (inner) {
      int64_t blocks = (*inner + elements - 1) / elements;
      tiling.inner_per_block = ((*inner + blocks - 1) / blocks + longest_vector_run - 1) / longest_vector_run * longest_vector_run;
    }
    inner_blocks = space.inner.ceilDiv(tiling.inner_per_block);
    block_elements = tiling.inner_per_block;
  }
  tiling.workgroups = rows.ceilDiv(tiling.rows_per_block) * inner_blocks;
  tiling.cost_ns = static_cast<uint64_t>(std::ceil(static_cast<double>(block_elements) * ns_per_element)) + 20;
  return tiling;
}

SmallVector<Value> row_index(KernelBuilder& k, ArrayRef<AffineExpr> outer, Value row) {
  SmallVector<Value> index(outer.size());
  // The outermost dimension that has more than one index needs no remainder.
  size_t outermost = 0;
  while (outermost < outer.size() && fixed(outer[outermost]) == 1) ++outermost;
  Value rest = row;
  for (size_t d = outer.size(); d-- > 0;) {
    if (fixed(outer[d]) == 1) {
      index[d] = k.index(0);
    } else if (d == outermost) {
      index[d] = rest;
    } else {
      Value extent = k.extent(outer[d]);
      index[d] = k.rem(rest, extent);
      rest = k.div(rest, extent);
    }
  }
  return index;
}

void inner_loops(KernelBuilder& k, ArrayRef<Value> outer, Value from, Value to, int64_t vectors,
                 const std::function<void(const Stretch&)>& body) {
  if (vectors == 0) {
    k.loop(from, to, [&](Value i) { body(Stretch{outer, i, 1, 0, {}}); });
    return;
  }
  int64_t lanes = k.level.f32_lanes();
  auto fixed_from = fixed(from), fixed_to = fixed(to);
  if (fixed_from && fixed_to) {
    int64_t at = *fixed_from, end = *fixed_to;
    if (end - at == 1) {
      body(Stretch{outer, from, 1, 0, {}});
      return;
    }
    int64_t step = lanes * vectors, whole = (end - at) / step;
    if (whole > 1) {
      k.loop(from, k.index(at + whole * step), k.index(step), [&](Value i) { body(Stretch{outer, i, vectors, lanes, {}}); });
    } else if (whole == 1) {
      body(Stretch{outer, from, vectors, lanes, {}});
    }
    at += whole * step;
    if (int64_t rest = (end - at) / lanes; rest > 0) {
      body(Stretch{outer, k.index(at), rest, lanes, {}});
      at += rest * lanes;
    }
    if (at < end) body(Stretch{outer, k.index(at), 1, lanes, k.remainder_mask(k.index(end - at), lanes)});
    return;
  }
  Value count = k.sub(to, from);
  Value step = k.index(lanes * vectors);
  Value whole_end = k.add(from, k.mul(k.div(count, step), step));
  k.loop(from, whole_end, step, [&](Value i) { body(Stretch{outer, i, vectors, lanes, {}}); });
  Value vector = k.index(lanes);
  Value vector_end = k.add(from, k.mul(k.div(count, vector), vector));
  if (vectors > 1) k.loop(whole_end, vector_end, vector, [&](Value i) { body(Stretch{outer, i, 1, lanes, {}}); });
  k.branch(k.less(vector_end, to), [&] { body(Stretch{outer, vector_end, 1, lanes, k.remainder_mask(k.sub(to, vector_end), lanes)}); });
}

void row_loops(KernelBuilder& k, const RowTiling& tiling, Value block, int64_t vectors, const std::function<void(const Stretch&)>& body) {
  Value rows = k.extent(tiling.space.rows()), inner = k.extent(tiling.space.inner);
  Value row_block = block, from = k.index(0), to = inner;
  if (tiling.inner_per_block > 0) {
    Value inner_blocks = k.extent(tiling.space.inner.ceilDiv(tiling.inner_per_block));
    row_block = k.div(block, inner_blocks);
    from = k.mul(k.rem(block, inner_blocks), tiling.inner_per_block);
    to = k.min(inner, k.add(from, tiling.inner_per_block));
  }
  Value row_from = k.mul(row_block, tiling.rows_per_block);
  Value row_to = k.min(rows, k.add(row_from, tiling.rows_per_block));
  auto one_row = [&](Value row) {
    SmallVector<Value> outer = row_index(k, tiling.space.outer, row);
    inner_loops(k, outer, from, to, vectors, body);
  };
  if (tiling.rows_per_block == 1) {
    one_row(row_from);
  } else {
    k.loop(row_from, row_to, one_row);
  }
}

}  // namespace heddle::targets::x86_64
