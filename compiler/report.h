// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report of the compiler's choices, as JSON: regions and where they run, transfers, kernels, refusals to fuse. Stored in the module for
// `heddle explain`.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "compiler/code/code_cache.h"
#include "compiler/code/tuned.h"
#include "compiler/emit/module_file.h"
#include "compiler/import/parameter_files.h"
#include "compiler/plugins/plugin.h"

namespace heddle::compiler {

// The report; the same for the same input. with_plans: adds all plans that each kernel could have had.
std::string report(const std::vector<emit::Combination>& combinations, const std::vector<emit::FamilyCode>& codes, targets::Math math,
                   const plugins::TargetPlugins& plugins, bool with_plans);

// Wall time of each stage.
class StageTimes {
 public:
  void done(const char* stage);
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> seconds_;
};

// The report with the data of one run added.
std::string add_run(const std::string& report, const StageTimes& times, const CodeCache& cache, const Tuned& tuned,
                    const std::vector<emit::WrittenParameter>& written, const import::ParameterFiles& files);

}  // namespace heddle::compiler
