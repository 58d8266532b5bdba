// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of portable code by a library that multiplies dense matrices of f32 ("gemm"), such as a BLAS. Dimensions are merged and factors are gathered
// where they are no matrices, as in a convolution; a library sees rows, columns, depth and leading dimensions only.
#ifndef HEDDLE_SDK_PORTABLE_GEMM_H_
#define HEDDLE_SDK_PORTABLE_GEMM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "heddle/sdk/portable/own_kernels.h"

namespace heddle::sdk::portable {

// c[m, n] = a[m, k] * b[k, n], row-major; c is written, whatever it had. m, n and k are at least 1. A transposed factor is stored as [k, m], or [n, k].
// Leading dimensions are in elements, from one stored row to the next, and at least the length of one. Memory is the host's.
struct Gemm {
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  bool a_transposed;
  const float* b;
  int64_t ldb;
  bool b_transposed;
  float* c;
  int64_t ldc;
};

// Why run_by_gemm() does not compute this product, in a few words, for OwnKernels::takes; empty: it does. The factors must be f32 with sums in f32.
std::string why_no_gemm(const ProductForm& form);

// How many multiplications of which size a product has: for takes, which leaves those to the interpreter that are too small to be worth a call, such as
// the many of a convolution by channels. Only with the symbols of a call (Offer::has_symbols).
struct GemmSize {
  int64_t batch, m, n, k;
};
GemmSize gemm_size(const ProductForm& form);

// OwnKernels::run for a product of which why_no_gemm() is empty: calls `gemm`, in the calling thread, for each matrix of the batch and each block of a
// factor that is gathered, and writes call.sums. `gemm` returns what went wrong, or nothing. Gathering is shared among call.workers; it takes at most
// 8 MiB of host memory for each factor, or one of its rows if that is more. While `gemm` runs, nothing else uses
// call.workers, so it may.
bool run_by_gemm(const OwnCall& call, const std::function<std::string(const Gemm&)>& gemm, std::string* out_error);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_GEMM_H_
