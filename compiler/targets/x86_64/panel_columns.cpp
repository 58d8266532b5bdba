// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See panel_columns.h.
#include "compiler/targets/x86_64/panel_columns.h"

#include "compiler/targets/x86_64/contraction_shape.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

void write_columns(KernelBuilder& k, Type element, const PanelColumns& columns) {
  const int64_t lanes = k.level.f32_lanes();
  auto piece = [&](Value row, int64_t count) {
    Value mask = count < lanes ? k.remainder_mask(k.index(count), lanes) : Value();
    for (int64_t first = 0; first < Panels::unit; first += lanes) {
      SmallVector<Value> square;
      for (int64_t c = first; c < first + lanes; ++c) {
        Value column = k.index(c);
        if (columns.existing) column = k.min(column, k.sub(columns.existing, k.index(1)));
        Value elements = k.load(columns.source, k.add(k.mul(column, columns.source_step), row), element, lanes, mask);
        if (columns.existing) {
          Value zeros = k.constant(k.vector_type(element, lanes), 0);
          elements = k.make<arith::SelectOp>(k.less(k.index(c), columns.existing), elements, zeros);
        }
        square.push_back(elements);
      }
      k.transpose(square);
      for (int64_t lane = 0; lane < count; ++lane) {
        Value target = k.add(row, lane);
        if (columns.row_of) target = columns.row_of(target);
        k.store(square[static_cast<size_t>(lane)], columns.target, k.add(k.mul(target, columns.target_step), first));
      }
    }
  };
  const int64_t whole = columns.depth / lanes * lanes;
  if (whole > 0) k.loop(k.index(0), k.index(whole), k.index(lanes), [&](Value row) { piece(row, lanes); });
  if (whole < columns.depth) piece(k.index(whole), columns.depth - whole);
}

}  // namespace heddle::targets::x86_64
