// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generic kernel (targets/generic.h) on rows of lanes.
#include "compiler/targets/generic.h"

#include "compiler/targets/x86_64/row_loops.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr GenericKernel::Workers workers{64, /*are_threads=*/false};

// The same for every level, since the grid is. Rows are cut at multiples of all vectors.
RowCut cut_of(const GenericKernel& kernel) {
  constexpr double ns_per_iteration = 0.5;
  double ns = ns_per_iteration * kernel.iterations() / static_cast<double>(std::min<int64_t>(kernel.lanes(), level_v3.f32_lanes()));
  return RowCut::make(RowSpace::of(kernel.extents(), 1), ns);
}

}  // namespace

FailureOr<Plans> plans_generic(tx::DispatchOp region) {
  auto kernel = GenericKernel::read(region, workers);
  if (failed(kernel)) return failure();
  RowCut cut = cut_of(*kernel);
  return Plans{{cut.workgroups, cut.cost_ns}};
}

FailureOr<KernelResources> emit_generic(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, const Level& level) {
  auto generic = GenericKernel::read(region, workers);
  if (failed(generic)) return failure();
  RowCut cut = cut_of(*generic);
  KernelBuilder k(region, symbol, kernels, level);
  k.for_workgroups([&](Value block) {
    row_loops(k, cut, block, generic->lanes() >= level.f32_lanes() ? 1 : 0,
              [&](const Stretch& stretch) { generic->emit(k, stretch.outer, stretch.inner, stretch.lanes, stretch.mask); });
  });
  k.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
