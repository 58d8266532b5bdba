// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model, compiled with some choices and loaded: what each of its kernels takes. Used by tune.cpp, which chooses.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
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
  std::function<bool()> has_to_stop;  // asked now and then
};

// Family of devices, and name in the compiler's report: the same for kernels that are alike.
using KernelName = std::pair<std::string, std::string>;

// A kernel that calls run, and what all its dispatches of a call take.
struct KernelTime {
  std::string choice;      // its plan
  uint32_t candidate = 0;  // which of its region's kernels it is
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

  // Whether the function has a symbolic extent that no input and no --dim gives.
  bool has_unknown_extents() const { return has_unknown_extents_; }

  // Calls for about as long, at least once, or until it has to stop: the mean of a call, and what kernels took in it.
  struct Times {
    double call_ns = 0;
    std::map<KernelName, KernelTime> kernels;
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
  std::map<KernelName, std::pair<std::string, std::string>> kernels_;  // by family and symbol: name, and choice
  std::function<bool()> has_to_stop_;
  bool has_unknown_extents_ = false;
};

}  // namespace heddle::tool
