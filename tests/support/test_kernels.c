/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels of the driver tests, built into an x86_64-elf/1 image. Each says what its bindings and constants are. */
#include "heddle/code.h"

/* out[i] = a[i] + b[i]; constants: elements, elements per workgroup. */
int32_t add_f32(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  const float* a = d->bindings[0];
  const float* b = d->bindings[1];
  float* out = d->bindings[2];
  const uint64_t all = (uint64_t)d->constants[0], each = (uint64_t)d->constants[1];
  uint64_t end = last * each < all ? last * each : all;
  for (uint64_t i = first * each; i < end; ++i) out[i] = a[i] + b[i];
  return 0;
}

/* counts[workgroup] += 1. */
int32_t count_workgroups(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint32_t* counts = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) counts[i] += 1;
  return 0;
}

/* value[0] = value[0] * 3 + constant: the order of a chain shows in the result. */
int32_t chain(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint64_t* value = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) *value = *value * 3 + (uint64_t)d->constants[0];
  return 0;
}

/* Returns its constant. */
int32_t fail(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)first;
  (void)last;
  (void)workspace;
  return (int32_t)d->constants[0];
}

/* out[workgroup] = 1 if 4096 bytes of workspace are aligned and nobody else writes there meanwhile. */
int32_t use_workspace(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  uint32_t* out = d->bindings[0];
  volatile uint64_t* words = workspace;
  for (uint64_t i = first; i < last; ++i) {
    for (int k = 0; k < 512; ++k) words[k] = i;
    uint32_t fine = ((uint64_t)words & 63) == 0;
    for (int k = 0; k < 512; ++k) fine &= words[k] == i;
    out[i] = fine;
  }
  return 0;
}

static const uint32_t small = 11, large = 22;
static const uint32_t* const table[2] = {&small, &large};

/* out[workgroup] = *table[workgroup % 2]: needs relative relocations. */
int32_t read_table(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint32_t* out = d->bindings[0];
  const uint32_t* const* volatile at = table;
  for (uint64_t i = first; i < last; ++i) out[i] = *at[i % 2];
  return 0;
}

/* out[workgroup] = MXCSR. */
int32_t read_mxcsr(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint32_t* out = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) __asm__ volatile("stmxcsr %0" : "=m"(out[i]));
  return 0;
}

/* Divides by zero: sets flags in MXCSR. */
int32_t dirty_mxcsr(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  volatile float* out = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) out[0] = 1.0f / (float)d->constants[0];
  return 0;
}

/* Spins for constant 0 thousand pauses per workgroup, then out[workgroup] = 1. */
int32_t slow(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint32_t* out = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) {
    for (int64_t k = 0; k < d->constants[0] * 1000; ++k) __builtin_ia32_pause();
    out[i] = 1;
  }
  return 0;
}

/* sums[0] += grid[0] + 1000 * grid[1] + 1000000 * grid[2], once for the whole grid. */
int32_t read_grid(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint64_t* sums = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) {
    if (i == 0) sums[0] += d->grid[0] + 1000ull * d->grid[1] + 1000000ull * d->grid[2] + 1000000000ull * d->binding_count;
  }
  return 0;
}

/* words[constant 0] = 1, then words[2 + constant 0] = 1 if words[1 - constant 0] becomes 1 within constant 1 thousand pauses: two of these meet if
 * they run at the same time. */
int32_t meet(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint32_t* words = d->bindings[0];
  const int64_t own = d->constants[0];
  for (uint64_t i = first; i < last; ++i) {
    __atomic_store_n(&words[own], 1, __ATOMIC_SEQ_CST);
    for (int64_t k = 0; k < d->constants[1] * 1000 && !words[2 + own]; ++k) {
      words[2 + own] = __atomic_load_n(&words[1 - own], __ATOMIC_SEQ_CST);
      __builtin_ia32_pause();
    }
  }
  return 0;
}

/* Does nothing: what a dispatch costs. */
int32_t nothing(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)d;
  (void)first;
  (void)last;
  (void)workspace;
  return 0;
}
