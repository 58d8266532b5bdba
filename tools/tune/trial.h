// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model, compiled with some choices and loaded; measures each of its kernels. Used by tune.cpp, which chooses.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/compile/compile_flags.h"
#include "tools/heddle/inputs.h"
#include "tools/heddle/made_up_inputs.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {

// Options that all trials share.
struct TrialOptions {
  CompileFlags compile;
  ModuleFlags module;  // each trial sets its own path
  std::vector<std::string> inputs, dims;
  uint64_t seed = 0;
  std::function<bool()> has_to_stop;  // polled now and then
};

// Device family, and the kernel's name in the compiler's report, which identical kernels share.
using KernelName = std::pair<std::string, std::string>;

// A kernel that calls run, and the total time of its dispatches per call.
struct KernelTime {
  std::string choice;      // the choice of its plan
  uint32_t candidate = 0;  // index among the kernels of its region
  std::vector<std::string> regions;
  double time_ns = 0;
};

class Trial {
 public:
  // folder: directory for the module and its report, which carry this name; choices: a file, or empty. Reports a failure and returns its exit code.
  std::optional<int> open(const Flags& flags, const TrialOptions& options, heddle_runtime_t* runtime, const std::string& folder,
                          const std::string& name, const std::string& choices);

  // The compiler's report.
  const Json& report() const { return report_; }
  // The first device of the instance.
  std::string device() const;

  // Whether the function has a symbolic extent that neither an input nor a --dim gives.
  bool has_unknown_extents() const { return has_unknown_extents_; }

  // Makes calls for about that long, at least one, unless it has to stop; returns the mean time of a call and of each kernel in it.
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
