// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ensembles of trees. A workgroup has a block of rows; for one tree after the other, which then is in the first-level cache, several rows walk through
// it at the same time. Rows that are left walk one by one, each through several trees at the same time.
#include "compiler/ir/trees.h"
#include "compiler/targets/walk_emitter.h"
#include "compiler/targets/x86_64/kernel_builder.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// More walks would not fit the registers.
constexpr int64_t at_once = 8;
constexpr double ns_per_step = 0.7;
// A block reads all trees; with many rows, that takes little time next to the walks.
constexpr int64_t fewest_block_rows = 32, most_block_rows = 256;
constexpr double block_ns = 4000;

tx::TreesOp trees_of(tx::DispatchOp region) {
  auto found = region.getBody().front().getOps<tx::TreesOp>();
  return found.empty() ? tx::TreesOp() : *found.begin();
}

double ns_per_row(tx::TreesOp trees) {
  ArrayRef<int64_t> shape = tx::tensor(trees.getRoots() ? trees.getRoots() : trees.getWeights()).getShape();
  return 1 + static_cast<double>(shape[0]) * static_cast<double>(shape[1]) * (1 + ns_per_step * static_cast<double>(trees.getSteps()));
}

int64_t rows_per_block(tx::TreesOp trees) {
  const auto rows = static_cast<int64_t>(std::clamp(block_ns / ns_per_row(trees), double{fewest_block_rows}, double{most_block_rows}));
  return rows / at_once * at_once;
}

}  // namespace

FailureOr<Plans> plans_walks(tx::DispatchOp region) {
  tx::TreesOp trees = trees_of(region);
  if (!trees) return failure();
  const int64_t rows = rows_per_block(trees);
  const AffineExpr count = tx::extents(tx::tensor(trees.getInput()))[0];
  const int64_t usual = std::min(rows, tx::static_extent(count).value_or(rows));
  KernelPlan plan{count.ceilDiv(rows), static_cast<uint64_t>(ns_per_row(trees) * static_cast<double>(usual)) + 20};
  plan.sums_nothing = true;
  return Plans{plan};
}

FailureOr<KernelResources> emit_walks(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, const Level& level) {
  std::string reason;
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return FailureOr<KernelResources>(region.emitError("cannot form stages: ") << reason);
  auto walk = llvm::cast<stage::WalkOp>(staged->region.getBody().front().front());
  tx::TreesOp trees = trees_of(region);
  const stage::DomainAttr domain = walk.getDomain();
  const int64_t block_rows = rows_per_block(trees), lanes = level.f32_lanes();
  KernelBuilder k(region, symbol, kernels, level);
  k.for_workgroups([&](Value block) {
    WalkEmitter emitter(k, walk);
    const Value zero = k.index(0), one = k.index(1), group_count = k.extent(domain.parallel()[1]);
    const Value from = k.mul(block, block_rows), to = k.min(k.extent(domain.parallel()[0]), k.add(from, block_rows));
    const Value whole = k.add(from, k.mul(k.div(k.sub(to, from), k.index(at_once)), at_once));
    k.loop(from, to, [&](Value row) { k.loop(zero, group_count, [&](Value group) { emitter.store_initial({row, group, zero}); }); });
    k.branch(k.less(from, whole), [&] {
      k.loop(zero, group_count, [&](Value group) {
        k.loop(zero, k.extent(domain.folded().front()), one, [&](Value tree) {
          k.loop(from, whole, k.index(at_once), [&](Value first) {
            SmallVector<WalkEmitter::Walk> walks;
            for (int64_t i = 0; i < at_once; ++i) walks.push_back({{k.add(first, i), group, zero}, tree});
            emitter.take(walks, lanes);
          });
        });
      });
    });
    k.loop(whole, to,
           [&](Value row) { k.loop(zero, group_count, [&](Value group) { emitter.take_line({row, group, zero}, at_once, lanes); }); });
  });
  k.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
