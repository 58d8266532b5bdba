// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model, compiled with some choices and loaded: what each of its kernels takes. Used by tune.cpp, which chooses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/heddle/inputs.h"
#include "tools/heddle/made_up_inputs.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {

// What all trials have in common.
struct TrialOptions {
  std::string model, target, math = "default", cache;
  std::vector<std::string> places, slots, operators;
  ModuleFlags module;  // its path is the trial's own
  std::vector<std::string> inputs, dims;
  uint64_t seed = 0, threads = 0;
};

// A kernel that calls run, and what all its dispatches of a call take.
struct KernelTime {
  std::string choice;
  std::vector<std::string> regions;
  double time_ns = 0;
};

class Trial {
 public:
  // folder: for the module and its report, which carry this name; choices: a file, or empty. A failure is reported, and its exit code returned.
  std::optional<int> open(const Flags& flags, const TrialOptions& options, heddle_runtime_t* runtime, const std::string& folder,
                          const std::string& name, const std::string& choices);

  // The compiler's report.
  const Json& report() const { return report_; }
  // The first device of the instance.
  std::string device() const;

  // Calls for about as long, at least once: the mean of a call, and by the names of kernels what they took in it.
  struct Times {
    double call_ns = 0;
    std::map<std::string, KernelTime> kernels;
  };
  heddle_status_t* measure(double seconds, Times& out);

 private:
  heddle_status_t* call();
  heddle_status_t* profile(Json& out);

  Json report_;
  Module module_;
  Instance instance_;
  Function function_;
  std::vector<Tensor> inputs_, results_;
  std::vector<heddle_tensor_t*> raw_inputs_, raw_results_;
  std::map<std::string, std::pair<std::string, std::string>> kernels_;  // by symbol: name, and choice
};

}  // namespace heddle::tool
