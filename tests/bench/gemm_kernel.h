// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles one tx region for one level and calls it, with nothing in the way of timing it. Used by gemm_bench and conv_bench.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mlir/IR/MLIRContext.h"

namespace heddle::bench {

// 64-byte aligned floats.
class Floats {
 public:
  // Filled with small random values.
  explicit Floats(size_t count, unsigned seed = 1);
  ~Floats();
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  float* data_;
  size_t size_;
};

class Kernel {
 public:
  // operands and results are types as in tensor<...>; body names operands %0, %1 ... Exits with a message if it does not compile.
  Kernel(mlir::MLIRContext& context, const std::string& level, const std::vector<std::string>& operands, const std::string& result,
         const std::string& body);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  uint64_t workgroups() const { return workgroups_; }
  double compile_seconds() const { return compile_seconds_; }
  // All workgroups; the bindings are the operands, then the result.
  void run(const std::vector<float*>& bindings) const;

 private:
  uint64_t workgroups_ = 0;
  double compile_seconds_ = 0;
  void* library_ = nullptr;
  void* entry_ = nullptr;
  char* workspace_ = nullptr;
};

// A context with the dialects that kernels need.
std::unique_ptr<mlir::MLIRContext> make_context();
// The best level of this CPU, or HEDDLE_LEVEL.
std::string level_of_this_cpu();
// Seconds of CPU time of this thread: what runs here is one thread, and other programs may take the core in between.
double now();
double median(std::vector<double> values);
// GFLOP/s of independent FMAs in registers as wide as the level's, measured for about a millisecond.
double peak_gflops(const std::string& level);
// Keeps this thread on one core: HEDDLE_BENCH_CPU, or the last one that it may use.
void pin();

}  // namespace heddle::bench
