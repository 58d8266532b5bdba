// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of rows (targets/rows.h): one thread goes through a row in vectors, or through as many rows as a few vectors have lanes.
#include "compiler/targets/rows.h"

#include "compiler/targets/x86_64/row_loops.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr double ns_per_work = 0.02;         // in vectors
constexpr double long_body = 12;             // units of work
constexpr int64_t unknown_row = 256;         // elements
constexpr int64_t most_scratch = 32 * 1024;  // bytes, the size of the first-level cache

RowTiling tiling_of(const RowsKernel& kernel) {
  double ns = 0.1 + ns_per_work * kernel.work() * static_cast<double>(tx::static_extent(kernel.row_size()).value_or(unknown_row));
  if (kernel.lanes_along_rows()) return RowTiling::make(RowSpace::of(kernel.rows(), 1), ns);
  RowSpace space;
  space.outer.assign(kernel.rows().begin(), kernel.rows().end());
  space.inner = getAffineConstantExpr(1, space.outer.front().getContext());
  return RowTiling::make(space, ns);
}

}  // namespace

FailureOr<Plans> plans_rows(tx::DispatchOp region) {
  auto rows = RowsKernel::read(region);
  if (failed(rows)) return failure();
  RowTiling tiling = tiling_of(*rows);
  return Plans{{tiling.workgroups, tiling.cost_ns}};
}

FailureOr<KernelResources> emit_rows(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, const Level& level) {
  auto rows = RowsKernel::read(region);
  if (failed(rows)) return failure();
  RowTiling tiling = tiling_of(*rows);
  KernelBuilder k(region, symbol, kernels, level);
  k.for_workgroups([&](Value block) {
    row_loops(k, tiling, block, rows->passes() > 1 ? 2 : 8, [&](const Stretch& stretch) {
      RowTeam team;
      int64_t scratch = most_scratch;
      team.scratch = [&](Type element, int64_t count) -> Value {
        int64_t bytes = count * (k.memory_type(element).getIntOrFloatBitWidth() / 8);
        if (bytes > scratch) return {};
        scratch -= bytes;
        return k.stack(bytes);
      };
      SmallVector<RowPoint> points(static_cast<size_t>(stretch.vectors));
      for (auto [i, point] : llvm::enumerate(points)) {
        point.index.assign(stretch.outer.begin(), stretch.outer.end());
        if (!rows->lanes_along_rows()) continue;
        point.index.push_back(k.add(stretch.inner, static_cast<int64_t>(i) * stretch.lanes));
        point.lanes = stretch.lanes;
        point.mask = stretch.mask;
      }
      if (rows->lanes_along_rows()) {
        team.at_once = 1;  // several vectors of rows already are independent
      } else {
        team.lanes = level.f32_lanes();
        team.masks = true;
        if (rows->work() > long_body) team.at_once = 2;  // has few dependencies, and is long enough
      }
      rows->emit(k, points, team);
    });
  });
  k.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
