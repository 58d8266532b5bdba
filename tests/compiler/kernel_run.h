// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles one tx.dispatch for the x86-64 levels that this CPU has, runs it on real data between guard pages and compares it
// with what it has to be (expected.h); then the same for CUDA and OpenCL, where there is a device (cuda_run.h, opencl_run.h). Used by tests of targets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/targets/target.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tests/compiler/reference.h"

namespace heddle::tests {

// "x86-64-v3", "x86-64-v4": those that this CPU executes.
std::vector<std::string> runnable_levels();

// A module with one function and one dispatch. `body` uses %0, %1 ... for the operands and ends with tx.yield.
// A type is as in `tensor<...>`, e.g. "4x8xf32"; attributes go behind the operands, e.g. "attributes {tied = array<i64: 0>}".
std::string region_text(const std::vector<std::string>& operands, const std::vector<std::string>& results, const std::string& body,
                        const std::string& attributes = "", const std::vector<std::string>& symbols = {});

// The same with one op, given without "tx.".
std::string one_op(const std::vector<std::string>& operands, const std::string& result, const std::string& op);

// Layer normalization of rows, with a factor and an offset for each element of a row (%1, %2). `rows` and `row` are extents as in a type: "3" and "40",
// or "?" with `rows_dim` and `row_dim` as in #tx.dims over the one symbol s0.
std::string normalization(const std::string& rows, const std::string& row, const std::string& element, const std::string& rows_dim = "",
                          const std::string& row_dim = "");

// A parsed module; the process aborts the test with the diagnostics if the text is wrong.
class ParsedRegion {
 public:
  explicit ParsedRegion(const std::string& text);
  ~ParsedRegion();
  tx::DispatchOp region() const { return region_; }
  mlir::MLIRContext* context() const { return context_.get(); }
  mlir::ModuleOp module() const { return *module_; }

 private:
  std::unique_ptr<mlir::MLIRContext> context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  tx::DispatchOp region_;
};

// What a target makes of a region: a kernel named "kernel".
struct CompiledKernel {
  targets::KernelPlan plan;
  targets::KernelResources resources;
  std::vector<char> code;

  uint64_t workgroups(const std::vector<int64_t>& symbols = {}) const;
};

// Fails the current test and gives nothing when planning, emitting or assembling fails.
// strategy: the only one that is asked; empty: the first that takes the region.
// plan: which of the region's plans; usual_plan for the one that needs no guards.
constexpr size_t usual_plan = SIZE_MAX;
std::optional<CompiledKernel> compile_region(const targets::Target& target, tx::DispatchOp region, const std::string& strategy = "",
                                             size_t plan = usual_plan);
// Plans that differ: the usual one, the first of each other case, and the one that is thought the worst.
std::vector<size_t> plans_to_check(const targets::Target& target, tx::DispatchOp region, const std::string& strategy = "");

// A compiled kernel for x86-64, loaded.
class LoadedKernel {
 public:
  // Fails the current test and is not usable when planning, emitting, assembling or loading fails.
  LoadedKernel(tx::DispatchOp region, const std::string& level, const std::string& strategy = "", size_t plan = usual_plan);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  bool usable() const { return entry_ != nullptr; }
  uint64_t workgroups(const std::vector<int64_t>& symbols = {}) const { return kernel_.workgroups(symbols); }
  uint64_t cost_ns() const { return kernel_.plan.cost_ns; }
  bool is_for_some_calls() const { return !kernel_.plan.guards.empty(); }
  std::string plan_text() const { return kernel_.plan.strategy + " " + kernel_.plan.choice.text; }
  size_t image_bytes() const { return kernel_.code.size(); }
  const std::vector<char>& image() const { return kernel_.code; }

  // One call for [first, last).
  int32_t call(const std::vector<void*>& bindings, const std::vector<uint64_t>& lengths, const std::vector<int64_t>& symbols,
               uint64_t first, uint64_t last) const;

 private:
  CompiledKernel kernel_;
  void* library_ = nullptr;
  void* entry_ = nullptr;
};

// What the x86-64 target says when it refuses to plan the region; empty if it does not.
std::string plan_error(tx::DispatchOp region);

struct CheckOptions {
  double relative = 1.3e-6;
  double absolute = 1e-5;
  // Range of the operands' random values; one for all, or one an operand.
  std::vector<std::pair<double, double>> ranges = std::vector<std::pair<double, double>>(1, std::pair<double, double>(-2, 2));
  std::vector<int64_t> symbols;
  uint32_t seed = 1;
  std::string strategy;   // the only one that targets may take, if they have it; empty: any, and only x86-64 and CUDA are checked
  bool on_amdgpu = true;  // where there is such a strategy for AMD GPUs; false saves the time of compiling for and interpreting four chips
  // On CUDA:
  targets::Math math = targets::Math::strict;
  int64_t shared_memory_bytes = 0;  // of a workgroup, at most; 0: what the chip has
};

// Random operands as the kernel's memory holds them, already rounded to their types.
Tensor random_tensor(mlir::RankedTensorType type, const std::vector<int64_t>& symbols, std::pair<double, double> range, uint32_t seed);

// Bytes of a tensor in memory, and back.
size_t element_bytes(mlir::Type element);
std::vector<char> to_bytes(const Tensor& tensor, mlir::Type element);
Tensor from_bytes(const char* bytes, std::vector<int64_t> shape, mlir::Type element);

// How a result lies in memory: in rows that may be apart (`pitch` of tx.dispatch), and what is between them belongs to others.
struct RowsInMemory {
  size_t row_bytes, pitch_bytes, count;

  static RowsInMemory of(tx::DispatchOp region, unsigned result, const std::vector<int64_t>& symbols);
  size_t bytes() const { return count == 0 ? 0 : (count - 1) * pitch_bytes + row_bytes; }
  // The rows together. EXPECTs all bytes between them to be `untouched`.
  std::vector<char> together(const char* memory, char untouched, const std::string& what) const;
};

// Runs the kernel on these operands, the results in fresh memory. With `single` each workgroup is a call of its own.
std::vector<Tensor> run_kernel(const LoadedKernel& kernel, tx::DispatchOp region, const std::vector<Tensor>& operands,
                               const std::vector<int64_t>& symbols, bool single);

// EXPECTs that the region gives the results that expected.h has for it at every level, in one call and in one call per workgroup, and on devices.
void check_region(const std::string& text, const CheckOptions& options = {});

// EXPECTs that the two agree within the options' tolerances.
void expect_close(const Tensor& got, const Tensor& wanted, const CheckOptions& options, const std::string& what);

}  // namespace heddle::tests
