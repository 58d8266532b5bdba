/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The interface of an allocator plugin: one policy that cuts blocks out of what a provider gives. Implemented by
 * plugins/allocators/<name>, called by core/memory. Bookkeeping on the host only: no queue and no thread of its own.
 *
 * Glossary
 *   provider  where an allocator gets memory: the driver's heddle.buffer/1, or another allocator below it
 *   block     what allocate hands out: a range of a driver's buffer
 *   points    moments in stream order: a freed block may be reused once its points are reached */
#ifndef HEDDLE_ALLOCATOR_H_
#define HEDDLE_ALLOCATOR_H_

#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_ALLOCATOR_INTERFACE "heddle.allocator/1"

typedef struct heddle_allocator heddle_allocator_t;

/* A range of a driver's buffer. `token` is the allocator's own; hand it back unchanged. Frozen. */
typedef struct heddle_block {
  heddle_buffer_t* buffer;
  uint64_t offset;
  uint64_t length;
  uint64_t token;
} heddle_block_t;

/* Where memory comes from. Frozen. */
typedef struct heddle_provider {
  void* self;
  /* A whole buffer of at least size bytes. [any] [may-block] */
  heddle_status_t* (*allocate)(void* self, uint64_t size_bytes, uint64_t alignment_bytes, heddle_buffer_t** out_buffer);
  void (*free)(void* self, heddle_buffer_t* buffer);
  /* 1 if the point is reached, or failed. [any] [no-block] */
  uint32_t (*reached)(void* self, heddle_point_t point);
} heddle_provider_t;

typedef struct heddle_allocator_params {
  uint32_t struct_size;
  uint32_t option_count;
  const heddle_provider_t* provider; /* outlives the allocator */
  const heddle_option_t* options;    /* array: pool_initial, pool_limit, ... */
  uint64_t option_stride;
  heddle_string_t name; /* of the pool, for error texts */
} heddle_allocator_params_t;

typedef struct heddle_block_params {
  uint32_t struct_size;
  uint32_t wait_capacity; /* room in out_waits */
  uint64_t size_bytes;
  uint64_t alignment_bytes; /* power of two; 0: 64 */
  /* The caller's position in stream order; timeline NULL: the block must be usable at once. The host of ABI 0.1 always gives NULL, and frees blocks
   * when their last work is over: stream order is there for later ones. */
  heddle_point_t after;
} heddle_block_params_t;

/* Exact whenever no call is in flight. Bytes. */
typedef struct heddle_allocator_statistics {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t requested;      /* live, as asked for */
  uint64_t allocated;      /* live, as handed out */
  uint64_t bytes_reserved; /* held from the provider */
  uint64_t inactive_split; /* free parts of partly used buffers */
  uint64_t peak_allocated;
  uint64_t peak_reserved;
  uint64_t allocations; /* calls since the start, as are the rest */
  uint64_t frees;
  uint64_t retries;
  uint64_t exhaustions;
} heddle_allocator_statistics_t;

typedef struct heddle_allocator_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* owned by the caller. params' options and strings are read before it returns. [any] [may-block] */
  heddle_status_t* (*create)(heddle_plugin_instance_t* instance, const heddle_allocator_params_t* params,
                             heddle_allocator_t** out_allocator);
  /* FAILED_PRECONDITION while blocks live. [serial:allocator] [may-block] */
  heddle_status_t* (*destroy)(heddle_allocator_t* allocator);
  /* out_waits receives the points the caller must wait for before it touches the block, wait_capacity of them at most; with `after.timeline` NULL
   * the block is usable at once and there are none. out_waits may be NULL with a wait_capacity of 0; out_wait_count is never NULL.
   * RESOURCE_EXHAUSTED lists who holds what. [any] [may-block only when the provider is asked] */
  heddle_status_t* (*allocate)(heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out_block,
                               heddle_point_t* out_waits, uint32_t* out_wait_count);
  /* The block may be reused once all points are reached or failed; none (points may be NULL then): at once. The points' timelines outlive the allocator, or the
   * provider's `reached` knows that they are gone. [any] [no-block] */
  void (*free)(heddle_allocator_t* allocator, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count);
  /* [any] [no-block] */
  heddle_status_t* (*statistics)(heddle_allocator_t* allocator, heddle_allocator_statistics_t* out_statistics);
  /* Gives back to the provider what is free, down to keep_bytes. [any] [may-block] */
  heddle_status_t* (*trim)(heddle_allocator_t* allocator, uint64_t keep_bytes);
} heddle_allocator_interface_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_ALLOCATOR_H_ */
