// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The whole compiler as one call. Used by api.cpp; everything it does is in pipeline.cpp, on one page.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/passes/passes.h"
#include "compiler/targets/math.h"
#include "heddle/status.h"

namespace mlir {
class PassManager;
}

namespace heddle::compiler {

// Everything between import and code generation, in order: first for all, then for a combination of families of devices.
void add_model_passes(mlir::PassManager& passes, bool annotate_affinity = false);
void add_combination_passes(mlir::PassManager& passes, const passes::Devices& devices);

struct Options {
  std::string input_path;
  std::string output_path;
  // Family and level, e.g. "cpu" and "x86-64-v3", "cuda" and "sm_80". Those of a family stand together.
  std::vector<std::pair<std::string, std::string>> targets;
  std::vector<std::string> placements;  // "PATTERN=@slot", see import/placements.h
  std::vector<std::string> slots;       // "@slot=family"
  std::vector<std::string> operators;   // manifests and folders, see import/operators.h
  std::string parameters_path;
  std::string affinity_path;
  std::string dump_after, dump_path;
  std::string report_path;
  std::string reproducer_path;
  targets::Math math = targets::Math::strict;
  std::string tuned_path;  // choices of `heddle tune`; empty: the best plans by estimate
  std::string ptxas;       // NVIDIA's assembler, for machine code beside PTX; empty: PTX alone
  unsigned threads = 0;    // 0: all cores
  std::string cache_path;  // folder of code that was made before; empty: none
  // Told the stage; false cancels.
  std::function<bool(std::string_view stage, unsigned done, unsigned total)> progress;
};

struct Failure {
  heddle_status_code_t code = HEDDLE_STATUS_OK;
  std::string message;
  explicit operator bool() const { return code != HEDDLE_STATUS_OK; }
};

Failure compile(const Options& options);

}  // namespace heddle::compiler
