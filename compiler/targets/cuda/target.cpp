// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CUDA target: its strategies, and kernels into PTX. Called by the pipeline.
#include "compiler/stage/stage.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/cuda/lower.h"
#include "compiler/targets/cuda/strategy.h"
#include "compiler/targets/cuda/tile.h"
#include "compiler/targets/gemv_threads.h"
#include "compiler/targets/generic_threads.h"
#include "compiler/targets/rows_threads.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"

using namespace mlir;

namespace heddle::targets {

namespace cuda {
namespace {

// A part without tiles, once for each repetition of its group.
class RepeatedPart final : public Part {
 public:
  RepeatedPart(std::unique_ptr<Part> part, OutputGroup group) : part_(std::move(part)), group_(std::move(group)) {}

  AffineExpr workgroups() const override { return part_->workgroups() * static_cast<int64_t>(group_.repetitions.size() + 1); }
  std::string rung() const override { return part_->rung(); }
  bool works_in_place() const override { return part_->works_in_place(); }
  int64_t residents() const override { return part_->residents(); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    return emit_repetitions(k, group_, part_->workgroups(), block, [&](Value own) { return part_->emit(k, own); });
  }

 private:
  std::unique_ptr<Part> part_;
  OutputGroup group_;
};

FailureOr<Parts> parts_of(tx::DispatchOp region, const Budget& budget) {
  Parts parts;
  // Each would need its own shared memory.
  auto contractions = llvm::count_if(region.getBody().front(), [](Operation& op) { return tx::is_contraction(&op); });
  if (contractions > 1) return FailureOr<Parts>(region.emitError("cuda: one kernel cannot compute ") << contractions << " contractions");
  auto groups = output_groups(region);
  for (const OutputGroup& group : groups) {
    const std::vector<Output>& outputs = group.outputs;
    // A contraction stores its result in another order itself.
    std::vector<Output> stored = outputs;
    auto transpose = stored.front().value.getDefiningOp<tx::TransposeOp>();
    if (transpose && stored.size() == 1) stored.front().value = transpose.getInput();
    auto root = find_root(stored);
    if (failed(root)) return failure();
    if (transpose && !(*root && stored.size() == 1 && tx::puts_rows_last(transpose, *root))) {
      stored = outputs;
      transpose = {};
      root = find_root(stored);
      if (failed(root)) return failure();
    }
    FailureOr<Parts> found = Parts();
    if (!*root) {
      found = transpose_parts(region, outputs, budget);
      if (found->empty()) found = elementwise_parts(region, outputs, budget);
    } else {
      Budget own = budget;
      own.clusters = groups.size() == 1;
      found = contraction_parts(region, stored, *root, transpose, own);
    }
    if (failed(found)) return failure();
    for (auto& part : *found) {
      if (!group.repetitions.empty()) part = std::make_unique<RepeatedPart>(std::move(part), group);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

constexpr int64_t few_workgroups = 16;  // a device has a hundred multiprocessors
constexpr int64_t access_bytes = 16;    // of a thread
constexpr size_t most_tiles = 6;        // that are offered for a choice among plans

// The number of threads of a workgroup that suits the region.
int64_t threads_for(tx::DispatchOp region) {
  for (Operation& op : region.getBody().front()) {
    if (tx::is_contraction(&op) && TiledContraction::read(&op, Math::strict)) return usual_threads;
  }
  // Smaller workgroups start sooner.
  int64_t most = 1;
  for (Value output : region.getOutputs()) {
    auto count = llvm::dyn_cast<AffineConstantExpr>(tx::element_count(llvm::cast<RankedTensorType>(output.getType())));
    most = std::max(most, count ? count.getValue() : usual_threads);
  }
  return std::clamp((most + subgroup_size - 1) / subgroup_size * subgroup_size, subgroup_size, usual_threads);
}

std::unique_ptr<KernelBuilder> open_kernel(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels,
                                           const Chip& chip, int64_t threads) {
  auto workgroups = llvm::dyn_cast<AffineConstantExpr>(plan.workgroups);
  return std::make_unique<KernelBuilder>(region, symbol, kernels, chip, threads, workgroups && workgroups.getValue() <= few_workgroups);
}

// Computes each group of outputs with one index space in the most suitable way: transposes, element-wise ops, tiles.
class OutputGroups final : public Strategy {
 public:
  OutputGroups(const Chip& chip, Math math, int64_t shared_memory_bytes) : chip_(chip), math_(math), limit_(shared_memory_bytes) {}

  StringRef name() const override { return "output groups"; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    for (Operation& op : region.getBody().front()) {
      if (llvm::isa<tx::PackOp, tx::BatchNormOp, tx::ParameterOp>(op)) return failure();
    }
    Plans plans;
    size_t tiles = 1;
    for (unsigned tile = 0; tile < std::min(tiles, most_tiles); ++tile) {
      auto parts = parts_of(region, budget_of(region, tile));
      if (failed(parts)) return failure();
      KernelPlan plan{getAffineConstantExpr(0, region.getContext())};
      plan.copies_by_operand = true;
      plan.works_in_place = llvm::all_of(*parts, [](const auto& part) { return part->works_in_place(); });
      plan.stores_rows_apart = llvm::all_of(*parts, [](const auto& part) { return part->stores_rows_apart(); });
      for (const auto& part : *parts) {
        plan.workgroups = plan.workgroups + part->workgroups();
        plan.estimate_ns += part->estimate_ns();
        if (part->tiles() == 0) continue;
        tiles = part->tiles();
        plan.choice = {part->choice(), {tile}};
      }
      plans.push_back(std::move(plan));
    }
    return plans;
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    Budget budget = budget_of(region, plan.choice.numbers.empty() ? 0 : static_cast<unsigned>(plan.choice.numbers.front()));
    auto parts = parts_of(region, budget);
    if (failed(parts)) return failure();
    std::unique_ptr<KernelBuilder> opened = open_kernel(region, plan, symbol, kernels, chip_, budget.threads);
    KernelBuilder& kernel = *opened;
    AffineExpr start = getAffineConstantExpr(0, region.getContext());
    LogicalResult all = success();
    KernelResources resources;
    int64_t residents = 1;
    for (const auto& part : *parts) {
      AffineExpr end = start + part->workgroups();
      Value offset = kernel.extent(start);
      kernel.share_again();
      auto body = [&] {
        if (succeeded(all)) all = part->emit(kernel, kernel.sub(kernel.block(), offset));
      };
      if (parts->size() == 1) {
        body();
      } else {
        Value from_here = kernel.make<arith::CmpIOp>(arith::CmpIPredicate::sge, kernel.block(), offset);
        kernel.branch(kernel.make<arith::AndIOp>(from_here, kernel.less(kernel.block(), kernel.extent(end))), body);
      }
      start = end;
      residents = std::max(residents, part->residents());
      if (std::string rung = part->rung(); !rung.empty()) resources.rung += (resources.rung.empty() ? "" : "; ") + rung;
    }
    if (residents > 1) kernel.set_residents(residents);
    if (int64_t cluster = parts->front()->cluster(); cluster > 1 && chip_.has_clusters) kernel.set_cluster(cluster);
    kernel.finish();
    if (failed(all)) return failure();
    resources.workgroup_size = static_cast<uint32_t>(budget.threads);
    resources.subgroup_size = subgroup_size;
    resources.shared_memory_bytes = static_cast<uint64_t>(kernel.shared_bytes());
    if (kernel.shared_bytes() > limit_) {
      return FailureOr<KernelResources>(region.emitError("cuda: kernel '")
                                        << symbol << "' needs " << kernel.shared_bytes() << " bytes of shared memory, " << chip_.name
                                        << " has " << limit_);
    }
    return resources;
  }

 private:
  // The same for every chip, since the grid is: the limit of the smallest one.
  Budget budget_of(tx::DispatchOp region, unsigned tile) const {
    return {threads_for(region), std::min(limit_, sm_80.shared_memory_bytes), math_, tile};
  }

  const Chip& chip_;
  const Math math_;
  const int64_t limit_;  // bytes of shared memory
};

class CudaTarget final : public Target {
 public:
  // shared_memory_bytes: 0 for the chip's own limit.
  CudaTarget(const Chip& chip, Math math, int64_t shared_memory_bytes)
      : chip_(chip), math_(math), limit_(shared_memory_bytes > 0 ? shared_memory_bytes : chip.shared_memory_bytes) {
    ThreadMachine machine{
        .threads = usual_threads, .subgroup_size = subgroup_size, .access_bytes = access_bytes, .shared_bytes = limit_, .open = {}};
    machine.open = [&chip](tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels, int64_t threads) {
      return open_kernel(region, plan, symbol, kernels, chip, threads);
    };
    machine.most_in_cluster = 8;  // that every chip with clusters can run
    machine.has_clusters = chip.has_clusters;
    // The same for every chip, since the grid is: the limit of the smallest one.
    strategies_.push_back(
        std::make_unique<Attention>([&chip](tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels,
                                            int64_t threads) { return open_kernel(region, plan, symbol, kernels, chip, threads); },
                                    std::min(limit_, sm_80.shared_memory_bytes)));
    strategies_.push_back(rows_on_threads(machine));
    strategies_.push_back(gemv_on_threads(machine));
    strategies_.push_back(std::make_unique<OutputGroups>(chip, math, limit_));
    strategies_.push_back(generic_on_threads(std::move(machine)));
  }

  std::string format() const override { return "ptx/1"; }
  std::string name() const override { return std::string(chip_.name); }
  std::string family() const override { return "cuda"; }
  const Strategies& strategies() const override { return strategies_; }
  int64_t results_at_once() const override { return 256; }
  int64_t neighbors_at_once() const override { return subgroup_size; }
  std::string identity() const override { return Target::identity() + " " + name_of(math_) + " " + std::to_string(limit_); }
  FailureOr<std::vector<char>> generate(ModuleOp unit) const override { return lower_to_ptx(unit, chip_); }
  FailureOr<std::vector<char>> link(ArrayRef<ArrayRef<char>> units, ArrayRef<LinkedKernel> kernels, Location) const override {
    return join_ptx(units, kernels);
  }

 private:
  const Chip& chip_;
  const Math math_;
  const int64_t limit_;  // bytes of shared memory
  Strategies strategies_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Target> make_cuda_target(std::string_view chip, Math math, int64_t shared_memory_bytes) {
  for (const cuda::Chip* known : {&cuda::sm_80, &cuda::sm_90a}) {
    if (known->name == chip) return std::make_unique<cuda::CudaTarget>(*known, math, shared_memory_bytes);
  }
  return nullptr;
}

void register_cuda_dialects(DialectRegistry& registry) {
  registry.insert<NVVM::NVVMDialect, stage::StageDialect>();
  registerNVVMDialectTranslation(registry);
}

}  // namespace heddle::targets
