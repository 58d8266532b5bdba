/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kit's kernels as x86_64-elf/1. kernels.cpp says what each does. */
#include "heddle/code.h"

int32_t add(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  const float* a = d->bindings[0];
  const float* b = d->bindings[1];
  float* out = d->bindings[2];
  const uint64_t all = (uint64_t)d->constants[0], each = (uint64_t)d->constants[1];
  const uint64_t end = last * each < all ? last * each : all;
  for (uint64_t i = first * each; i < end; ++i) out[i] = a[i] + b[i];
  return 0;
}

int32_t count(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint32_t* counts = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) counts[i] += 1;
  return 0;
}

int32_t chain(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)workspace;
  uint64_t* value = d->bindings[0];
  for (uint64_t i = first; i < last; ++i) *value = *value * 3 + (uint64_t)d->constants[0];
  return 0;
}

int32_t fail(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)d;
  (void)workspace;
  return first < last ? 7 : 0;
}

/* A driver for tests may be told that this number means the end of the device. */
int32_t lose(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void* workspace) {
  (void)d;
  (void)workspace;
  return first < last ? 4242 : 0;
}
