/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels that measure what a CPU can do at most, as images of the format x86_64-elf/1. peaks_module.cpp puts them into a module. */
#include "heddle/code.h"

/* Constant: iterations; each has 12 independent fused multiply-adds of 16 floats. */
int32_t multiply(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  for (uint64_t i = first; i < last; ++i) {
    int64_t left = d->constants[0];
    if (left <= 0) continue;
#if defined(__AVX512F__)
#define STEP(n) "vfmadd231ps %%zmm14, %%zmm15, %%zmm" #n "\n"
#define CLEAR(n) "vxorps %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n"
    __asm__ volatile(CLEAR(0) CLEAR(1) CLEAR(2) CLEAR(3) CLEAR(4) CLEAR(5) CLEAR(6) CLEAR(7) CLEAR(8) CLEAR(9) CLEAR(10) CLEAR(11) CLEAR(14)
                         CLEAR(15) "1:\n" STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10)
                             STEP(11) "dec %0\n jnz 1b\n"
#else
#define STEP(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #n "\n"
#define CLEAR(n) "vxorps %%xmm" #n ", %%xmm" #n ", %%xmm" #n "\n"
    __asm__ volatile(CLEAR(0) CLEAR(1) CLEAR(2) CLEAR(3) CLEAR(4) CLEAR(5) CLEAR(6) CLEAR(7) CLEAR(8) CLEAR(9) CLEAR(10) CLEAR(11) CLEAR(14)
                         CLEAR(15) "1:\n" STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)
                             STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10)
                                 STEP(11) "dec %0\n jnz 1b\n"
#endif
                     : "+r"(left)
                     :
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",
                       "xmm15");
  }
  return 0;
}

/* Reads its binding. Constants: bytes per workgroup, bytes in all, both multiples of 4096; how often each workgroup reads its part. */
int32_t read_all(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  const char* bytes = d->bindings[0];
  const uint64_t each = (uint64_t)d->constants[0], all = (uint64_t)d->constants[1];
  for (uint64_t group = first; group < last; ++group) {
    const uint64_t end = (group + 1) * each < all ? (group + 1) * each : all;
    for (int64_t pass = 0; pass < d->constants[2]; ++pass) {
      for (uint64_t i = group * each; i < end; i += 256) {
        __asm__ volatile(
            "vmovups (%0), %%ymm0\n vmovups 32(%0), %%ymm1\n vmovups 64(%0), %%ymm2\n vmovups 96(%0), %%ymm3\n"
            "vmovups 128(%0), %%ymm0\n vmovups 160(%0), %%ymm1\n vmovups 192(%0), %%ymm2\n vmovups 224(%0), %%ymm3\n"
            :
            : "r"(bytes + i)
            : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
      }
    }
  }
  return 0;
}

/* Of GPUs only: on a CPU, products of 16 bits are computed in f32. */
int32_t multiply_f16(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)d, (void)first, (void)last, (void)workspace;
  return 1;
}
