// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// f32 matmul on one core, weights packed ahead, against OpenBLAS in turns. Run by hand: gemm_bench [rounds].
// OpenBLAS is opened at run time, after OPENBLAS_CORETYPE is set (it does not know newer CPUs and would choose SSE kernels).
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/bench/gemm_kernel.h"

namespace heddle::bench {
namespace {

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Sgemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

struct OpenBlas {
  Sgemm sgemm = nullptr;
  Sgemv sgemv = nullptr;
  const char* core = "none";

  OpenBlas() {
    // What the environment says about OpenBLAS is for other programs.
    const char* wanted = getenv("HEDDLE_BENCH_BLAS_CORE");
    const char* newest = __builtin_cpu_supports("avx512bf16") ? "Cooperlake" : __builtin_cpu_supports("avx512f") ? "SkylakeX" : "Haswell";
    setenv("OPENBLAS_CORETYPE", wanted ? wanted : newest, 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    unsetenv("OPENBLAS_L2_SIZE");
    void* library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) {
      fprintf(stderr, "gemm_bench: no OpenBLAS (%s); own figures only\n", dlerror());
      return;
    }
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    sgemv = reinterpret_cast<Sgemv>(dlsym(library, "cblas_sgemv"));
    if (auto name = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) core = name();
  }
};

std::string type(std::initializer_list<int64_t> shape) {
  std::string text;
  for (int64_t extent : shape) text += std::to_string(extent) + "x";
  return text + "f32";
}

void compare(mlir::MLIRContext& context, const std::string& level, const OpenBlas& blas, int64_t m, int64_t n, int64_t k, int rounds) {
  int64_t packed_size = k * ((n + 15) / 16 * 16);
  std::string a = type({m, k}), b = type({k, n}), p = type({packed_size}), c = type({m, n});
  Kernel pack(context, level, {b}, p,
              "%p = tx.pack %0 {groups = 1} : tensor<" + b + "> -> tensor<" + p + ">\ntx.yield %p : tensor<" + p + ">");
  std::string shape = "{packed_shape = array<i64: " + std::to_string(k) + ", " + std::to_string(n) + ">}";
  Kernel matmul(
      context, level, {a, p}, c,
      "%y = tx.matmul %0, %1 " + shape + " : tensor<" + a + ">, tensor<" + p + "> -> tensor<" + c + ">\ntx.yield %y : tensor<" + c + ">");
  Floats A(m * k, 1), B(k * n, 2), P(packed_size), C(m * n), D(m * n);
  // Weights of a single row are used once a call: several copies, so that none is found in cache.
  size_t copies = m == 1 ? 3 : 1;
  std::vector<std::unique_ptr<Floats>> packed, plain;
  double pack_seconds = 0;
  for (size_t i = 0; i < copies; ++i) {
    packed.push_back(std::make_unique<Floats>(packed_size));
    plain.push_back(std::make_unique<Floats>(k * n, 2));
    double start = now();
    pack.run({B.data(), packed.back()->data()});
    pack_seconds = now() - start;
  }
  auto own = [&](int round) { matmul.run({A.data(), packed[round % copies]->data(), C.data()}); };
  auto theirs = [&](int round) {
    const float* rhs = plain[round % copies]->data();
    if (m == 1) {
      blas.sgemv(101, 112, static_cast<int>(k), static_cast<int>(n), 1, rhs, static_cast<int>(n), A.data(), 1, 0, D.data(), 1);
    } else {
      blas.sgemm(101, 111, 111, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1, A.data(), static_cast<int>(k), rhs,
                 static_cast<int>(n), 0, D.data(), static_cast<int>(n));
    }
  };
  std::vector<double> peaks, ours, blases;
  double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  for (int round = -2; round < rounds; ++round) {
    double peak = peak_gflops(level);
    double t0 = now();
    own(round + 2);
    double t1 = now();
    if (blas.sgemm) theirs(round + 2);
    double t2 = now();
    if (round < 0) continue;
    peaks.push_back(peak);
    ours.push_back(t1 - t0);
    blases.push_back(t2 - t1);
  }
  double worst = 0;
  if (blas.sgemm) {
    for (size_t i = 0; i < C.size(); ++i) worst = std::fmax(worst, std::fabs(C.data()[i] - D.data()[i]));
  }
  double peak = median(peaks), own_rate = flops / median(ours) * 1e-9, blas_rate = flops / median(blases) * 1e-9;
  printf("%5ld x %5ld x %5ld  peak %6.1f  own %6.1f (%4.1f %%)  OpenBLAS %6.1f  ratio %.3f  difference %.1e  workgroups %lu  pack %.2f ms",
         m, n, k, peak, own_rate, 100 * own_rate / peak, blas_rate, own_rate / blas_rate, worst, matmul.workgroups(), pack_seconds * 1e3);
  if (m == 1) printf("  weights at %.1f GB/s, OpenBLAS %.1f", own_rate * 2, blas_rate * 2);
  printf("\n");
  fflush(stdout);
}

// The cost of a call that does next to nothing.
void tiny(mlir::MLIRContext& context, const std::string& level) {
  Kernel kernel(context, level, {"4x4xf32", "4x4xf32"}, "4x4xf32",
                "%y = tx.matmul %0, %1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>\ntx.yield %y : tensor<4x4xf32>");
  Floats A(16), B(16), C(16);
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) {
    constexpr int calls = 10000;
    double start = now();
    for (int i = 0; i < calls; ++i) kernel.run({A.data(), B.data(), C.data()});
    times.push_back((now() - start) / calls);
  }
  printf("    4 x     4 x     4  unpacked: %.1f ns a call (with the bench's own 20 or so)\n", median(times) * 1e9);
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  using namespace heddle::bench;
  int rounds = argc > 1 ? atoi(argv[1]) : 21;
  pin();
  OpenBlas blas;
  auto context = make_context();
  std::string level = level_of_this_cpu();
  printf("level %s, OpenBLAS core %s, %d rounds, medians, GFLOP/s; M x N x K\n", level.c_str(), blas.core, rounds);
  compare(*context, level, blas, 1024, 1024, 1024, rounds);
  compare(*context, level, blas, 128, 768, 3072, rounds);
  compare(*context, level, blas, 128, 3072, 768, rounds);
  compare(*context, level, blas, 997, 1009, 1013, rounds);
  compare(*context, level, blas, 1, 4096, 4096, rounds);
  tiny(*context, level);
  return 0;
}
