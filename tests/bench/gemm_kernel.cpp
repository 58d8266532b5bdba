// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compile, load and call one kernel; clock, peak loop and pinning. Used by gemm_bench and conv_bench.
#include "tests/bench/gemm_kernel.h"

#include <dlfcn.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compiler/targets/candidates.h"
#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "heddle/code.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

namespace heddle::bench {

Floats::Floats(size_t count, unsigned seed) : data_(nullptr), size_(count) {
  size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
  data_ = static_cast<float*>(aligned_alloc(64, std::max<size_t>(bytes, 64)));
  if (!data_) {
    fprintf(stderr, "bench: allocating %zu bytes failed\n", bytes);
    exit(1);
  }
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data_[i] = static_cast<float>((seed >> 9) & 1023) / 512.f - 1.f;
  }
}
Floats::~Floats() {
  free(data_);
}

namespace {

[[noreturn]] void give_up(const std::string& text, const char* what) {
  fprintf(stderr, "bench: %s\n%s\n", what, text.c_str());
  exit(1);
}

std::string module_text(const std::vector<std::string>& operands, const std::string& result, const std::string& body) {
  std::string parameters, names, types, arguments;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string number = std::to_string(i), comma = i ? ", " : "", type = "tensor<" + operands[i] + ">";
    parameters += comma + "%a" + number + ": " + type;
    names += comma + "%a" + number;
    types += comma + type;
    arguments += comma + "%" + number + ": " + type;
  }
  return "func.func @main(" + parameters + ") attributes {tx.symbols = []} {\n%r = tx.dispatch \"kernel\"(" + names + ") : (" + types +
         ") -> (tensor<" + result + ">) {\n^bb0(" + arguments + "):\n" + body + "\n}\nreturn\n}\n";
}

}  // namespace

Kernel::Kernel(mlir::MLIRContext& context, const std::string& level, const std::vector<std::string>& operands, const std::string& result,
               const std::string& body) {
  double start = now();
  std::string text = module_text(operands, result, body);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) give_up(text, "this does not parse");
  tx::DispatchOp region;
  module->walk([&](tx::DispatchOp op) { region = op; });
  auto target = targets::make_x86_64_target(level);
  auto plans = target->plans(region);
  if (mlir::failed(plans)) give_up(text, "this has no plan");
  const targets::KernelPlan plan = targets::choose(*plans, {}).back();
  workgroups_ = static_cast<uint64_t>(llvm::cast<mlir::AffineConstantExpr>(plan.workgroups).getValue());
  mlir::OwningOpRef<mlir::ModuleOp> kernels = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto resources = target->emit(region, plan, "kernel", *kernels);
  if (mlir::failed(resources)) give_up(text, "this was not emitted");
  auto image = target->assemble(*kernels);
  if (mlir::failed(image)) give_up(text, "this was not assembled");
  compile_seconds_ = now() - start;
  char path[] = "/tmp/heddle-bench-XXXXXX";
  int file = mkstemp(path);
  if (file < 0 || write(file, image->data(), image->size()) != static_cast<ssize_t>(image->size())) give_up(path, "writing failed");
  close(file);
  library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (getenv("HEDDLE_BENCH_KEEP")) {
    fprintf(stderr, "kept %s\n", path);
  } else {
    unlink(path);
  }
  if (!library_) give_up(path, dlerror());
  entry_ = dlsym(library_, "kernel");
  if (!entry_) give_up(path, dlerror());
  if (resources->workspace_bytes > 0) workspace_ = static_cast<char*>(aligned_alloc(64, (resources->workspace_bytes + 63) / 64 * 64));
}

Kernel::~Kernel() {
  free(workspace_);
  if (library_) dlclose(library_);
}

void Kernel::run(const std::vector<float*>& bindings) const {
  heddle_x86_64_dispatch_t dispatch{};
  dispatch.bindings = reinterpret_cast<void* const*>(bindings.data());
  dispatch.grid[0] = static_cast<uint32_t>(workgroups_);
  dispatch.grid[1] = dispatch.grid[2] = 1;
  dispatch.binding_count = static_cast<uint32_t>(bindings.size());
  reinterpret_cast<heddle_x86_64_kernel_t>(entry_)(&dispatch, 0, workgroups_, workspace_);
}

std::unique_ptr<mlir::MLIRContext> make_context() {
  mlir::DialectRegistry registry;
  registry.insert<tx::TxDialect, mlir::func::FuncDialect>();
  targets::register_x86_64_dialects(registry);
  auto context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

std::string level_of_this_cpu() {
  if (const char* level = getenv("HEDDLE_LEVEL")) return level;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") ? "x86-64-v4" : "x86-64-v3";
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

namespace {

// 12 chains hide the latency of two FMAs a cycle on every CPU known today, and fit sixteen registers.
template <typename Vector>
double fma_loop(long iterations) {
  constexpr int lanes = sizeof(Vector) / sizeof(float);
  double start = now();
  if constexpr (lanes == 16) {
    asm volatile(
        "1:\n vfmadd231ps %%zmm14, %%zmm15, %%zmm0\n vfmadd231ps %%zmm14, %%zmm15, %%zmm1\n vfmadd231ps %%zmm14, %%zmm15, %%zmm2\n"
        "vfmadd231ps %%zmm14, %%zmm15, %%zmm3\n vfmadd231ps %%zmm14, %%zmm15, %%zmm4\n vfmadd231ps %%zmm14, %%zmm15, %%zmm5\n"
        "vfmadd231ps %%zmm14, %%zmm15, %%zmm6\n vfmadd231ps %%zmm14, %%zmm15, %%zmm7\n vfmadd231ps %%zmm14, %%zmm15, %%zmm8\n"
        "vfmadd231ps %%zmm14, %%zmm15, %%zmm9\n vfmadd231ps %%zmm14, %%zmm15, %%zmm10\n vfmadd231ps %%zmm14, %%zmm15, %%zmm11\n"
        "dec %0\n jnz 1b\n"
        : "+r"(iterations)
        :
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");
  } else {
    asm volatile(
        "1:\n vfmadd231ps %%ymm14, %%ymm15, %%ymm0\n vfmadd231ps %%ymm14, %%ymm15, %%ymm1\n vfmadd231ps %%ymm14, %%ymm15, %%ymm2\n"
        "vfmadd231ps %%ymm14, %%ymm15, %%ymm3\n vfmadd231ps %%ymm14, %%ymm15, %%ymm4\n vfmadd231ps %%ymm14, %%ymm15, %%ymm5\n"
        "vfmadd231ps %%ymm14, %%ymm15, %%ymm6\n vfmadd231ps %%ymm14, %%ymm15, %%ymm7\n vfmadd231ps %%ymm14, %%ymm15, %%ymm8\n"
        "vfmadd231ps %%ymm14, %%ymm15, %%ymm9\n vfmadd231ps %%ymm14, %%ymm15, %%ymm10\n vfmadd231ps %%ymm14, %%ymm15, %%ymm11\n"
        "dec %0\n jnz 1b\n"
        : "+r"(iterations)
        :
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");
  }
  return now() - start;
}

}  // namespace

double peak_gflops(const std::string& level) {
  constexpr long iterations = 500000;
  constexpr double chains = 12;
  if (level == "x86-64-v4") return iterations * chains * 32 / fma_loop<float[16]>(iterations) * 1e-9;
  return iterations * chains * 16 / fma_loop<float[8]>(iterations) * 1e-9;
}

void pin() {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  int chosen = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) chosen = cpu;
  }
  if (const char* wanted = getenv("HEDDLE_BENCH_CPU")) chosen = atoi(wanted);
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(chosen), &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) fprintf(stderr, "bench: pinning to core %d failed; figures will wander\n", chosen);
}

}  // namespace heddle::bench
