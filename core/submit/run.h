// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs plans and programs to their end in the caller's thread: initializers, plans over several devices, programs that read scalars.
// Used by Instance and Function. A plan of a single submission does not come here: Function submits it itself.
#ifndef HEDDLE_CORE_SUBMIT_RUN_H_
#define HEDDLE_CORE_SUBMIT_RUN_H_

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "core/submit/frame.h"
#include "core/submit/instance.h"
#include "core/submit/interpreter.h"
#include "core/submit/plan.h"

namespace heddle::submit {

// The segments of a bound frame in program order, waiting after each. CANCELLED once *cancelled is set; what is enqueued finishes first.
// *started: something was enqueued, so that what it writes is undefined after a failure.
Status run_segments(const Frame& frame, std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results,
                    std::span<const memory::Ref<memory::Device>> devices, const std::atomic<bool>* cancelled, Counters& counters,
                    bool* started);

struct ProgramRun {
  const module_format::Program& program;
  const open::Signature& signature;
  const Machine& machine;
  std::span<const memory::Ref<memory::Device>> devices;
  const std::vector<std::vector<int64_t>>& argument_dims;
  std::span<const int64_t> symbols;
  std::span<memory::Tensor* const> arguments;
  std::span<memory::Tensor* const> results;
  // Called when a result's extents are known and before a command uses it: makes it ready to be written.
  std::function<Status(uint32_t result, const ResultNeed& need)> prepare;
  const std::atomic<bool>* cancelled;
  bool* started;
};
// A whole program, piece by piece where it reads scalars.
Status run_program(const ProgramRun& run, Counters& counters);

// What a plan adds to the counters of its instance.
void count(const Plan& plan, Counters& counters);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_RUN_H_
