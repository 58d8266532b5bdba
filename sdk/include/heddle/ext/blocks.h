/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* heddle.blocks/1, an optional interface of drivers: the device itself decodes values that a parameter file stores in blocks with common scales, such as
 * GGUF's Q4_K. Implemented by drivers of devices with memory of their own, called by libheddle when it loads parameters: it reads the blocks to the device
 * by heddle.param_io/1, and this decodes them there. Without it the host decodes, and copies the values. Since ABI 0.2. */
#ifndef HEDDLE_EXT_BLOCKS_H_
#define HEDDLE_EXT_BLOCKS_H_

#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_BLOCKS_INTERFACE "heddle.blocks/1"

/* Consecutive blocks and the place of their values, both in memory of the queue's device. Frozen. */
typedef struct heddle_encoded {
  heddle_string_t block_type;         /* GGUF's name, "Q4_K"; its definition determines the elements and the bytes of a block */
  heddle_element_type_t element_type; /* of the values */
  uint32_t reserved;
  uint64_t count;          /* of blocks */
  heddle_binding_t source; /* the blocks, without gaps; begins at a multiple of 64 bytes of a buffer's allocation, as target does */
  heddle_binding_t target; /* the values, without gaps; does not overlap any source of the call */
} heddle_encoded_t;

typedef struct heddle_blocks_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* UNIMPLEMENTED if the device cannot decode blocks of that type to values of that type. [any] [no-block] */
  heddle_status_t* (*supports)(heddle_device_t* device, heddle_string_t block_type, heddle_element_type_t element_type);
  /* Decodes them in the queue's order, after the waits and before the signals, like the commands of submit of heddle.dispatch/1. The items are borrowed
   * until it returns, the buffers are used until the signals are reached or fail. f32 values equal those of the type's definition, computed in f32 and
   * in its order, bit by bit; a NaN is any NaN. f16 and bf16 are rounded from them once, to nearest, ties to even. INVALID_ARGUMENT or OUT_OF_RANGE for
   * lengths that do not match the count, and UNIMPLEMENTED for what supports refuses: then nothing is enqueued. The first call for a type may load
   * code. [any] [may-block] */
  heddle_status_t* (*decode)(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_encoded_t* items, uint64_t count);
} heddle_blocks_interface_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_EXT_BLOCKS_H_ */
