// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See rows_threads.h.
#include "compiler/targets/rows_threads.h"

#include "compiler/targets/rows.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr int64_t long_row = 1024;      // elements along memory; longer ones get a workgroup each
constexpr int64_t long_column = 32;     // elements across memory; longer ones are divided
constexpr int64_t most_threads = 1024;  // of a workgroup, for columns that are as long
constexpr int64_t row_lanes = 4;        // elements of one access along a row
constexpr int64_t most_element_bytes = 8;
constexpr int64_t shared_alignment = 16;  // bytes, at most, of what a few subgroups share

using Values = KernelBuilder::Values;
using Merge = llvm::function_ref<Values(ValueRange, ValueRange)>;

// How the rows of a region are given to threads.
struct Division {
  enum class Kind { row_per_subgroup, row_per_workgroup, columns, neighbors } kind;
  int64_t threads;  // of a workgroup
  int64_t lanes;    // of a thread; 0: one element
};

class RowsOnThreads final : public Strategy {
 public:
  explicit RowsOnThreads(ThreadMachine machine) : machine_(std::move(machine)) {}

  StringRef name() const override { return "rows"; }
  bool reads_stages() const override { return true; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto rows = RowsKernel::read(region);
    if (failed(rows)) return failure();
    Division division = divide(*rows, region);
    AffineExpr count = product(rows->rows());
    switch (division.kind) {
      case Division::Kind::row_per_subgroup:
        return Plans{{count.ceilDiv(division.threads / machine_.subgroup_size)}};
      case Division::Kind::row_per_workgroup:
        return Plans{{count}};
      case Division::Kind::columns:
        return Plans{{count.ceilDiv(machine_.subgroup_size)}};
      case Division::Kind::neighbors:
        break;
    }
    return Plans{{ThreadSpace(rows->rows(), 1, division.lanes, division.threads).workgroups()}};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto rows = RowsKernel::read(region);
    if (failed(rows)) return failure();
    Division division = divide(*rows, region);
    auto kernel = machine_.open(region, plan, symbol, kernels, division.threads);
    emit(*kernel, *rows, division);
    kernel->finish();
    KernelResources resources;
    resources.workgroup_size = static_cast<uint32_t>(division.threads);
    resources.subgroup_size = static_cast<uint32_t>(machine_.subgroup_size);
    resources.shared_memory_bytes = static_cast<uint64_t>(kernel->shared_bytes());
    return resources;
  }

 private:
  Division divide(const RowsKernel& rows, tx::DispatchOp region) const {
    auto size = tx::static_extent(rows.row_size());
    if (!rows.lanes_along_rows()) {
      auto run = tx::static_extent(rows.run());
      int64_t subgroups = machine_.threads / machine_.subgroup_size;
      bool whole = run.value_or(long_row) >= long_row && subgroups * rows.accumulators() * shared_alignment <= machine_.shared_bytes;
      int64_t lanes = run.value_or(1) % row_lanes == 0 ? row_lanes : 0;
      return {whole ? Division::Kind::row_per_workgroup : Division::Kind::row_per_subgroup, machine_.threads, lanes};
    }
    int64_t threads = size && *size >= most_threads ? most_threads : machine_.threads;
    if (size.value_or(long_column) >= long_column && threads * rows.accumulators() * most_element_bytes <= machine_.shared_bytes) {
      return {Division::Kind::columns, threads, 0};
    }
    auto neighbors = tx::static_extent(rows.rows().back());
    int64_t lanes = neighbors ? row_lanes : 1;
    for (Value output : region.getOutputs()) {
      int64_t bytes = std::max<int64_t>(1, tx::tensor(output).getElementTypeBitWidth() / 8);
      lanes = std::min(lanes, std::max<int64_t>(1, machine_.access_bytes / bytes));
    }
    while (lanes > 1 && *neighbors % lanes != 0) lanes /= 2;
    return {Division::Kind::neighbors, machine_.threads, lanes > 1 ? lanes : 0};
  }

  void emit(KernelBuilder& k, const RowsKernel& rows, const Division& division) const {
    RowTeam team;
    RowPoint point;
    Value subgroup = k.div(k.thread(), k.index(machine_.subgroup_size)), lane = k.rem(k.thread(), k.index(machine_.subgroup_size));
    switch (division.kind) {
      case Division::Kind::row_per_workgroup:
        team.member = k.thread();
        team.size = k.threads();
        team.lanes = division.lanes;
        team.at_once = 2;
        team.combine = [&](Values values, Merge merge) { return across_subgroups(k, across_lanes(k, values, merge), merge); };
        point.index = delinearize(k, k.block(), rows.rows());
        rows.emit(k, point, team);
        break;
      case Division::Kind::row_per_subgroup: {
        team.member = lane;
        team.size = machine_.subgroup_size;
        team.lanes = division.lanes;
        team.at_once = 2;
        team.combine = [&](Values values, Merge merge) { return across_lanes(k, values, merge); };
        Value row = k.add(k.mul(k.block(), k.threads() / machine_.subgroup_size), subgroup);
        k.branch(k.less(row, k.extent(product(rows.rows()))), [&] {
          point.index = delinearize(k, row, rows.rows());
          rows.emit(k, point, team);
        });
        break;
      }
      case Division::Kind::columns: {
        team.member = subgroup;
        team.size = k.threads() / machine_.subgroup_size;
        team.combine = [&](Values values, Merge merge) { return down_columns(k, values, merge); };
        Value column = k.add(k.mul(k.block(), machine_.subgroup_size), lane);
        team.exists = k.less(column, k.extent(product(rows.rows())));
        point.index = delinearize(k, k.make<arith::SelectOp>(team.exists, column, k.index(0)), rows.rows());
        rows.emit(k, point, team);
        break;
      }
      case Division::Kind::neighbors:
        ThreadSpace(rows.rows(), 1, division.lanes, division.threads).emit(k, k.block(), [&](ArrayRef<Value> outer, Value inner) {
          point.index.assign(outer.begin(), outer.end());
          point.index.push_back(inner);
          point.lanes = division.lanes;
          rows.emit(k, point, team);
        });
        break;
    }
  }

  Values across_lanes(KernelBuilder& k, Values values, Merge merge) const {
    for (int64_t distance = machine_.subgroup_size / 2; distance > 0; distance /= 2) {
      Values others(llvm::map_range(values, [&](Value value) { return k.exchange(value, distance); }));
      values = merge(values, others);
    }
    return values;
  }

  Values across_subgroups(KernelBuilder& k, Values values, Merge merge) const {
    int64_t subgroups = k.threads() / machine_.subgroup_size;
    Value subgroup = k.div(k.thread(), k.index(machine_.subgroup_size)), lane = k.rem(k.thread(), k.index(machine_.subgroup_size));
    SmallVector<Value> memory;
    for (Value value : values) memory.push_back(k.shared(value.getType(), subgroups));
    k.branch(k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, k.index(0)), [&] {
      for (auto [value, base] : llvm::zip_equal(values, memory)) k.store(value, base, subgroup);
    });
    k.barrier();
    auto of = [&](int64_t i) {
      Values loaded;
      for (auto [value, base] : llvm::zip_equal(values, memory)) loaded.push_back(k.load(base, k.index(i), value.getType()));
      return loaded;
    };
    Values all = of(0);
    for (int64_t i = 1; i < subgroups; ++i) all = merge(all, of(i));
    return all;
  }

  // Lane by lane, over the subgroups of the workgroup.
  Values down_columns(KernelBuilder& k, Values values, Merge merge) const {
    Value lane = k.rem(k.thread(), k.index(machine_.subgroup_size));
    SmallVector<Value> memory;
    for (Value value : values) memory.push_back(k.shared(value.getType(), k.threads()));
    for (auto [value, base] : llvm::zip_equal(values, memory)) k.store(value, base, k.thread());
    k.barrier();
    auto of = [&](Value slice) {
      Value at = k.add(k.mul(slice, machine_.subgroup_size), lane);
      Values loaded;
      for (auto [value, base] : llvm::zip_equal(values, memory)) loaded.push_back(k.load(base, at, value.getType()));
      return loaded;
    };
    return k.loop(k.index(1), k.index(k.threads() / machine_.subgroup_size), k.index(1), of(k.index(0)),
                  [&](Value slice, ValueRange carried) { return merge(carried, of(slice)); });
  }

  ThreadMachine machine_;
};

}  // namespace

std::unique_ptr<Strategy> rows_on_threads(ThreadMachine machine) {
  return std::make_unique<RowsOnThreads>(std::move(machine));
}

}  // namespace heddle::targets
