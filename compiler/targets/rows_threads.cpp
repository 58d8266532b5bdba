// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See rows_threads.h.
#include "compiler/targets/rows_threads.h"

#include "compiler/targets/rows.h"
#include "compiler/targets/subgroups.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr int64_t long_row = 1024;   // elements along memory; longer ones get a workgroup each
constexpr int64_t long_column = 32;  // elements across memory; longer ones are divided
constexpr int64_t row_lanes = 4;     // elements of one access along a row
constexpr int64_t most_element_bytes = 8;
constexpr int64_t shared_alignment = 16;  // bytes, at most, of shared values of a few subgroups

using Values = KernelBuilder::Values;
using Merge = Subgroups::Merge;

// How the rows of a region are distributed over threads.
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
    return machine_.resources(*kernel);
  }

 private:
  Division divide(const RowsKernel& rows, tx::DispatchOp region) const {
    auto size = tx::static_extent(rows.row_size());
    if (!rows.lanes_along_rows()) {
      auto run = tx::static_extent(rows.run());
      int64_t subgroups = machine_.threads / machine_.subgroup_size;
      bool whole = run.value_or(long_row) >= long_row && subgroups * rows.accumulators() * shared_alignment <= machine_.shared_bytes;
      int64_t lanes = machine_.access_bytes > 0 && run.value_or(1) % row_lanes == 0 ? row_lanes : 0;
      return {whole ? Division::Kind::row_per_workgroup : Division::Kind::row_per_subgroup, machine_.threads, lanes};
    }
    int64_t threads = size && *size >= machine_.most_threads ? machine_.most_threads : machine_.threads;
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
    const Subgroups subgroups(k, machine_.subgroup_size);
    Value subgroup = subgroups.own(), lane = subgroups.lane();
    auto go_through = [&](Value row) {
      point.index = delinearize(k, row, rows.rows());
      rows.emit(k, point, team);
    };
    // Every thread takes part; for those without a row, nothing is stored.
    auto go_all = [&](Value row) {
      team.exists = k.less(row, k.extent(product(rows.rows())));
      go_through(k.make<arith::SelectOp>(team.exists, row, k.index(0)));
    };
    switch (division.kind) {
      case Division::Kind::row_per_workgroup:
        team.member = k.thread();
        team.size = k.threads();
        team.lanes = division.lanes;
        team.at_once = 2;
        team.combine = [&](Values values, Merge merge) { return subgroups.across_all(subgroups.across_lanes(values, merge), merge); };
        go_through(k.block());
        break;
      case Division::Kind::row_per_subgroup: {
        team.member = lane;
        team.size = subgroups.size();
        team.lanes = division.lanes;
        team.at_once = 2;
        team.combine = [&](Values values, Merge merge) { return subgroups.across_lanes(values, merge); };
        Value row = k.add(k.mul(k.block(), subgroups.count()), subgroup);
        if (machine_.exchanges_in_branches) {
          k.branch(k.less(row, k.extent(product(rows.rows()))), [&] { go_through(row); });
        } else {
          go_all(row);
        }
        break;
      }
      case Division::Kind::columns:
        team.member = subgroup;
        team.size = subgroups.count();
        team.combine = [&](Values values, Merge merge) { return subgroups.across_all_by_lane(values, merge); };
        go_all(k.add(k.mul(k.block(), subgroups.size()), lane));
        break;
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

  ThreadMachine machine_;
};

}  // namespace

std::unique_ptr<Strategy> rows_on_threads(ThreadMachine machine) {
  return std::make_unique<RowsOnThreads>(std::move(machine));
}

}  // namespace heddle::targets
