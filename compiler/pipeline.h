// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The whole compiler as one call, for api.cpp. pipeline.cpp has all steps on one page.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/passes/passes.h"
#include "compiler/plugins/plugin.h"
#include "compiler/targets/math.h"
#include "heddle/status.h"

namespace mlir {
class Pass;
class PassManager;
}  // namespace mlir

namespace heddle::compiler {

// All passes between import and code generation, in order: first those for all devices, then those for a combination of device families.
// keeps_blocks: some device reads weights in the blocks that files have them in.
void add_model_passes(mlir::PassManager& passes, bool annotate_affinity = false, bool keeps_blocks = false);
// claims: the pass heddle-claim-kernels; null: no target is a plugin's.
void add_combination_passes(mlir::PassManager& passes, const passes::Devices& devices, std::unique_ptr<mlir::Pass> claims = nullptr);

struct Options {
  std::string input_path;
  std::string output_path;
  // Family and level, e.g. "cpu" and "x86-64-v3", or "cuda" and "sm_80". Targets of one family are adjacent.
  std::vector<std::pair<std::string, std::string>> targets;
  std::map<std::string, std::string> plugin_levels;  // those of `targets` that are a plugin's, with what follows ':'
  plugins::PluginOptions plugins;
  std::string verification_path;             // see plugins/verification.h; empty: none
  std::vector<std::string> placements;       // "PATTERN=@slot", see import/placements.h
  std::vector<std::string> slots;            // "@slot=family"
  std::vector<std::string> donations;        // "INPUT" or "INPUT=OUTPUT", see donations.h
  std::vector<std::string> states;           // "INPUT=OUTPUT", see donations.h
  std::vector<std::string> operators;        // manifests and directories of manifests, see import/operators.h
  std::vector<std::string> specializations;  // "NAME=3", "NAME=absent", "NAME=[n,4]", see import/specializations.h
  std::string parameters_path;
  std::vector<std::string> parameter_files;  // "SCOPE=FILE", see import/parameter_files.h
  bool hash_parameter_files = false;         // the module gets hashes of the weights that are left to them
  bool parameters_become_values = false;     // when they are loaded, instead of staying in the blocks of their file
  std::vector<std::string> parameter_names;  // "MODEL_NAME=[SCOPE=]FILE_NAME[:transposed]", likewise
  std::string affinity_path;
  std::string dump_after, dump_path;
  std::string report_path;
  std::string reproducer_path;
  bool keeps_reproducer = false;  // it is written before the first pass, with the step that is being done, and stays; see reproducer.h
  std::string code_path;          // directory for images; empty: none
  targets::Math math = targets::Math::strict;
  std::string tuned_path;  // choices made by `heddle tune`; empty: the best plans by estimate
  std::string ptxas;       // NVIDIA's assembler, for machine code in addition to PTX; empty: PTX only
  unsigned threads = 0;    // 0: all cores
  std::string cache_path;  // directory of cached kernels; empty: no cache
  // Called with the name of each stage, from no step done to all; false cancels, but not after the last step.
  std::function<bool(std::string_view stage, unsigned done, unsigned total)> progress;
  std::function<void(const std::string& text)> warn;  // may be empty
};

struct Failure {
  heddle_status_code_t code = HEDDLE_STATUS_OK;
  std::string message;
  explicit operator bool() const { return code != HEDDLE_STATUS_OK; }
};

Failure compile(const Options& options);

}  // namespace heddle::compiler
