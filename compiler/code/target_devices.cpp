// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/code/target_devices.h"

#include "compiler/emit/kernels.h"
#include "compiler/targets/amdgpu/amdgpu.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/portable/portable.h"
#include "compiler/targets/spirv/spirv.h"
#include "compiler/targets/x86_64/x86_64.h"

namespace heddle::compiler {

std::unique_ptr<targets::Target> make_target(const std::string& family, const std::string& level, targets::Math math) {
  if (family == "cpu") return targets::make_x86_64_target(level);
  if (family == "cuda") return targets::make_cuda_target(level, math);
  if (family == "hip") return targets::make_amdgpu_target(level);
  if (family == "level_zero") return targets::make_spirv_target(level);
  return targets::make_portable_target(level, family);
}

std::vector<std::string> levels_of(llvm::StringRef family) {
  if (family == "cpu") return {"x86-64-v3", "x86-64-v4"};
  if (family == "cuda") return {"sm_80", "sm_90a"};  // newer devices also run the PTX of the first
  if (family == "hip") return targets::amdgpu_chips();
  if (family == "level_zero") return targets::spirv_levels();
  if (family == "portable") return {std::string(targets::portable_level)};
  return {};
}

std::string level_below(llvm::StringRef family, llvm::StringRef level, const std::vector<std::string>& strategies) {
  return family == "level_zero" ? targets::spirv_level_below(level, strategies) : "";
}

TargetDevices::TargetDevices(const std::vector<std::pair<std::string, std::string>>& targets, targets::Math math) {
  for (const auto& [family, level] : targets) {
    if (!target_of(family)) targets_.push_back(make_target(family, level, math));
  }
}

const targets::Target* TargetDevices::target_of(llvm::StringRef family) const {
  for (const auto& target : targets_) {
    if (target->family() == family) return target.get();
  }
  return nullptr;
}

void TargetDevices::register_dialects(mlir::DialectRegistry& registry) const {
  targets::register_x86_64_dialects(registry);
  targets::register_cuda_dialects(registry);
  targets::register_amdgpu_dialects(registry);
  targets::register_spirv_dialects(registry);
}

bool TargetDevices::has_kernel(llvm::StringRef family, tx::DispatchOp region, std::string* why_not) const {
  const targets::Target* target = target_of(family);
  if (target) return target->has_own_kernel(region, why_not);
  if (why_not) *why_not = "there is no target for the family '" + family.str() + "'";
  return false;
}

bool TargetDevices::reads_panels(llvm::StringRef family) const {
  const targets::Target* target = target_of(family);
  return target && target->reads_panels();
}

bool TargetDevices::reads_blocks(llvm::StringRef family) const {
  const targets::Target* target = target_of(family);
  return target && target->reads_blocks();
}

// All chips of AMD have matrix instructions for bytes. DP4A of Level Zero is emulated on some devices, which share their programs with others.
bool TargetDevices::multiply_bytes(llvm::StringRef family) const {
  return family == "hip" && target_of(family) != nullptr;
}

bool TargetDevices::work_in_place(llvm::StringRef family, tx::DispatchOp region) const {
  const targets::Target* target = target_of(family);
  return target && !region->hasAttr(emit::claim_attr) && target->works_in_place(region);
}

bool TargetDevices::store_rows_apart(llvm::StringRef family, tx::DispatchOp region) const {
  const targets::Target* target = target_of(family);
  return target && !region->hasAttr(emit::claim_attr) && target->stores_rows_apart(region);
}

bool TargetDevices::prefers_winograd(llvm::StringRef family, tx::ConvOp conv) const {
  const targets::Target* target = target_of(family);
  return target && target->prefers_winograd(conv);
}

bool TargetDevices::reads_behind_contraction(llvm::StringRef family, tx::BroadcastOp broadcast) const {
  const targets::Target* target = target_of(family);
  return target && target->reads_behind_contraction(broadcast);
}

int64_t TargetDevices::results_at_once(llvm::StringRef family) const {
  const targets::Target* target = target_of(family);
  return target ? target->results_at_once() : 1;
}

int64_t TargetDevices::neighbors_at_once(llvm::StringRef family) const {
  const targets::Target* target = target_of(family);
  return target ? target->neighbors_at_once() : 1;
}

}  // namespace heddle::compiler
