// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generic kernel (targets/generic.h) on rows of lanes.
#include "compiler/targets/generic.h"

#include "compiler/targets/x86_64/row_loops.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr GenericKernel::Workers workers{64, /*are_threads=*/false};

// Number of vectors of results that are computed at a time, for independent sums.
constexpr int64_t most_vectors = 4;

// The same for every level, since the grid is. Rows are divided at multiples of all vector lengths.
RowTiling tiling_of(const GenericKernel& kernel) {
  constexpr double ns_per_iteration = 0.5;
  double ns = ns_per_iteration * kernel.iterations() / static_cast<double>(std::min<int64_t>(kernel.lanes(), level_v3.f32_lanes()));
  return RowTiling::make(RowSpace::of(kernel.extents(), 1), ns);
}

}  // namespace

FailureOr<Plans> plans_generic(tx::DispatchOp region) {
  auto kernel = GenericKernel::read(region, workers);
  if (failed(kernel)) return failure();
  RowTiling tiling = tiling_of(*kernel);
  KernelPlan plan{tiling.workgroups, tiling.cost_ns};
  plan.sums_nothing = true;
  plan.stores_rows_apart = kernel->stores_rows();
  plan.works_in_place = kernel->works_in_place();
  return Plans{plan};
}

FailureOr<KernelResources> emit_generic(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, const Level& level) {
  auto generic = GenericKernel::read(region, workers);
  if (failed(generic)) return failure();
  RowTiling tiling = tiling_of(*generic);
  KernelBuilder k(region, symbol, kernels, level);
  k.for_workgroups([&](Value block) {
    int64_t vectors = std::min(generic->lanes() / level.f32_lanes(), generic->iterations() > 1 ? most_vectors : 1);
    row_loops(k, tiling, block, vectors, [&](const Stretch& stretch) {
      for (int64_t done = 0; done < stretch.vectors;) {
        auto count = static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(stretch.vectors - done)));
        generic->emit(k, stretch.outer, k.add(stretch.inner, done * stretch.lanes), count * stretch.lanes, stretch.mask);
        done += count;
      }
    });
  });
  k.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
