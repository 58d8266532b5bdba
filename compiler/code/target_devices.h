// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Answers the questions of passes about devices by asking targets. Used by the pipeline and heddle-opt.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/passes.h"
#include "compiler/targets/target.h"

namespace heddle::compiler {

// Null if unknown. Any other family is that of a target plugin; what it does not claim is portable code.
std::unique_ptr<targets::Target> make_target(const std::string& family, const std::string& level, targets::Math math);

// The levels that make_target knows; none for an unknown family.
std::vector<std::string> levels_of(llvm::StringRef family);

// The level whose code is the same as this one's for kernels of these strategies; empty: none.
std::string level_below(llvm::StringRef family, llvm::StringRef level, const std::vector<std::string>& strategies);

class TargetDevices final : public passes::Devices {
 public:
  // Families and levels, which must be known. The first level of a family answers for it, since all have the same plans.
  TargetDevices(const std::vector<std::pair<std::string, std::string>>& targets, targets::Math math);

  void register_dialects(mlir::DialectRegistry& registry) const override;
  bool has_kernel(llvm::StringRef family, tx::DispatchOp region, std::string* why_not) const override;
  bool reads_panels(llvm::StringRef family) const override;
  bool reads_blocks(llvm::StringRef family) const override;
  bool multiply_bytes(llvm::StringRef family) const override;
  bool work_in_place(llvm::StringRef family, tx::DispatchOp region) const override;
  bool store_rows_apart(llvm::StringRef family, tx::DispatchOp region) const override;
  bool prefers_winograd(llvm::StringRef family, tx::ConvOp conv) const override;
  bool reads_behind_contraction(llvm::StringRef family, tx::BroadcastOp broadcast) const override;
  int64_t results_at_once(llvm::StringRef family) const override;
  int64_t neighbors_at_once(llvm::StringRef family) const override;

 private:
  const targets::Target* target_of(llvm::StringRef family) const;
  std::vector<std::unique_ptr<targets::Target>> targets_;
};

}  // namespace heddle::compiler
