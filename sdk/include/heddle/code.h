/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The ABI of compiled code, per format id (HD-C-01): what a kernel's entry looks like, how bindings and constants reach it, what it may
 * import. Read by whoever writes a code generator or loads an image; frozen per format id.
 *
 * "x86_64-elf/1": a position-independent ELF64 shared image for x86-64.
 *   Targets    "x86-64-v3" (AVX2, FMA), "x86-64-v4" (AVX-512 F, BW, CD, DQ, VL)
 *   Entry      a global function symbol in .dynsym, of type heddle_x86_64_kernel_t, System V calling convention
 *   Imports    none: no needed libraries, no undefined symbols, no TLS, no constructors; only R_X86_64_RELATIVE relocations
 *   Segments   W^X: none is both writable and executable; executable code is mapped read-only
 *   State      MXCSR holds its default (round to nearest, no flush to zero, exceptions masked); upper halves may be dirty
 *              on return; AMX state is released on return
 *   Stack      at most 64 KiB below the entry's frame, 16-byte aligned
 *   Alignment  every binding starts on 64 bytes unless the module's binding says less; loads never assume more than the element's
 *   Tails      a kernel reads and writes only inside its bindings' lengths
 *
 * "ptx/1", "hsaco/1", "spirv/1": reserved; their text comes with their drivers. */
#ifndef HEDDLE_CODE_H_
#define HEDDLE_CODE_H_

#include "heddle/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_CODE_X86_64_ELF "x86_64-elf/1"

/* What a kernel gets. Frozen for x86_64-elf/1. */
typedef struct heddle_x86_64_dispatch {
  void* const* bindings;           /* start of each binding, in the entry's order */
  const uint64_t* binding_lengths; /* bytes */
  const int64_t* constants;        /* constants_bytes / 8 values */
  uint32_t grid[3];                /* workgroups in x, y, z */
  uint32_t binding_count;
} heddle_x86_64_dispatch_t;

/* Runs workgroups [first, last) of the grid, numbered x fastest: x + grid[0] * (y + grid[1] * z). Called concurrently for disjoint
 * ranges. workspace: workspace_bytes of the entry, aligned to 64, private to the call, contents undefined; NULL if 0.
 * Returns 0, or a positive number that the driver reports as the kernel's own failure. */
typedef int32_t (*heddle_x86_64_kernel_t)(const heddle_x86_64_dispatch_t* dispatch, uint64_t first, uint64_t last, void* workspace);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_CODE_H_ */
