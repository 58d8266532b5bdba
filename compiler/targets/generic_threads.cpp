// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See generic_threads.h.
#include "compiler/targets/generic_threads.h"

#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr GenericKernel::Workers workers{1 << 14, /*are_threads=*/true};

// The number of neighbors that the widest access holds of the widest result's elements, if rows are a multiple of it; 0: one.
int64_t lanes_of(const GenericKernel& kernel, tx::DispatchOp region, int64_t access_bytes) {
  auto row = tx::static_extent(kernel.extents().back());
  if (!row) return 0;
  int64_t lanes = kernel.lanes();
  for (Value output : region.getOutputs()) {
    int64_t bytes = std::max<int64_t>(1, tx::tensor(output).getElementTypeBitWidth() / 8);
    lanes = std::min(lanes, std::max<int64_t>(1, access_bytes / bytes));
  }
  while (lanes > 1 && *row % lanes != 0) lanes /= 2;
  return lanes > 1 ? lanes : 0;
}

// Smaller workgroups start sooner.
int64_t threads_of(const GenericKernel& kernel, const ThreadMachine& machine) {
  auto count = tx::static_extent(product(kernel.extents()));
  int64_t wanted = count ? std::clamp<int64_t>(*count, 1, machine.threads) : machine.threads;
  return llvm::alignTo(wanted, machine.subgroup_size);
}

class GenericOnThreads final : public Strategy {
 public:
  explicit GenericOnThreads(ThreadMachine machine) : machine_(std::move(machine)) {}

  StringRef name() const override { return "generic"; }
  bool reads_stages() const override { return true; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto kernel = GenericKernel::read(region, workers);
    if (failed(kernel)) return failure();
    KernelPlan plan{space_of(*kernel, region).workgroups()};
    plan.sums_nothing = true;
    plan.stores_rows_apart = kernel->stores_rows();
    plan.works_in_place = kernel->works_in_place();
    return Plans{plan};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto generic = GenericKernel::read(region, workers);
    if (failed(generic)) return failure();
    int64_t threads = threads_of(*generic, machine_), lanes = lanes_of(*generic, region, machine_.access_bytes);
    auto kernel = machine_.open(region, plan, symbol, kernels, threads);
    space_of(*generic, region).emit(*kernel, kernel->block(), [&](ArrayRef<Value> outer, Value inner) {
      generic->emit(*kernel, outer, inner, lanes);
    });
    kernel->finish();
    return machine_.resources(*kernel);
  }

 private:
  ThreadSpace space_of(const GenericKernel& kernel, tx::DispatchOp region) const {
    return ThreadSpace(kernel.extents(), 1, lanes_of(kernel, region, machine_.access_bytes), threads_of(kernel, machine_));
  }

  ThreadMachine machine_;
};

}  // namespace

KernelResources ThreadMachine::resources(const KernelBuilder& kernel) const {
  KernelResources resources;
  resources.workgroup_size = static_cast<uint32_t>(kernel.threads());
  resources.subgroup_size = static_cast<uint32_t>(exchanges_in_branches ? subgroup_size : 0);
  resources.shared_memory_bytes = static_cast<uint64_t>(kernel.shared_bytes());
  return resources;
}

std::unique_ptr<Strategy> generic_on_threads(ThreadMachine machine) {
  return std::make_unique<GenericOnThreads>(std::move(machine));
}

}  // namespace heddle::targets
