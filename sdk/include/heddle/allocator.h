/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The interface of an allocator plugin: one policy that divides the memory of a provider into blocks. Implemented by
 * plugins of kind HEDDLE_PLUGIN_ALLOCATOR, called by libheddle. Bookkeeping on the host only: no queue and no thread of its own.
 *
 * Glossary
 *   provider  where an allocator gets memory: the device, or another allocator below it, so that allocators form a stack
 *   adaptor   an allocator that passes on blocks of its provider undivided, and counts, limits or records them
 *   block     the result of allocate: a range of a driver's buffer
 *   points    moments in stream order: a freed block may be reused when its points are reached
 *   owner     what a block is used for, e.g. "weights"; reports of memory have a row per owner */
#ifndef HEDDLE_ALLOCATOR_H_
#define HEDDLE_ALLOCATOR_H_

#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_ALLOCATOR_INTERFACE "heddle.allocator/1"

typedef struct heddle_allocator heddle_allocator_t;

/* A range of a driver's buffer. `token` belongs to the allocator; return the block unchanged. Frozen. */
typedef struct heddle_block {
  heddle_buffer_t* buffer;
  uint64_t offset;
  uint64_t length; /* as requested */
  uint64_t token;
} heddle_block_t;

typedef struct heddle_block_params {
  uint32_t struct_size;
  uint32_t wait_capacity;   /* capacity of out_waits */
  uint64_t size_bytes;      /* 0 is allowed: a block like any other, with a buffer, which is freed */
  uint64_t alignment_bytes; /* of the block's address, not only of its offset; power of two, or INVALID_ARGUMENT; 0: 64 */
  /* The caller's position in stream order; timeline NULL: the block must be usable at once. Hosts of ABI 0.1 and 0.2 always pass NULL, and
   * free blocks when their last work is over; stream order is for later hosts. */
  heddle_point_t after;
  const heddle_string_t* owner; /* outlives the allocator; NULL: unknown. Compared by text */
  /* A hint: the sum of the sizes of this block and of those that the caller will allocate next, each rounded up to its alignment; they are
   * needed for about as long, so that one piece of the provider's memory may serve them. 0, or less than size_bytes: unknown. Since ABI 0.3 */
  uint64_t soon_bytes;
} heddle_block_params_t;

/* One quantity in bytes over time: the current value, its maximum, and the sum of all amounts ever added to it. Frozen. */
typedef struct heddle_memory_count {
  uint64_t current;
  uint64_t peak;
  uint64_t total;
} heddle_memory_count_t;

/* Exact whenever no call is in flight. */
typedef struct heddle_allocator_statistics {
  uint32_t struct_size;
  uint32_t reserved;
  heddle_memory_count_t requested;      /* live, as requested */
  heddle_memory_count_t allocated;      /* live, as allocated */
  heddle_memory_count_t active;         /* allocated, or freed and waiting for points */
  heddle_memory_count_t bytes_reserved; /* held from the provider */
  heddle_memory_count_t inactive_split; /* free parts of provider blocks that are partly active */
  uint64_t largest_free;                /* bytes of the largest free part; fragmentation is 1 - largest_free / (bytes_reserved - active) */
  uint64_t allocations;                 /* calls of allocate that succeeded. This and the following ones: since the allocator was created */
  uint64_t frees;
  uint64_t provider_allocations;
  uint64_t retries;     /* the provider or the limit refused, and the allocator tried once more after a trim */
  uint64_t exhaustions; /* number of RESOURCE_EXHAUSTED results */
} heddle_allocator_statistics_t;

/* What one owner holds. Frozen. */
typedef struct heddle_holder {
  heddle_string_t owner; /* empty: for blocks without one */
  uint64_t blocks;
  heddle_memory_count_t requested; /* peak and total are 0 if only the current value is known */
} heddle_holder_t;
typedef void (*heddle_holder_visitor_t)(void* context, const heddle_holder_t* holder);

/* Where memory comes from. allocate, free, statistics, trim and holders promise what those of heddle_allocator_interface_t do. A device as
 * provider returns whole buffers of its driver, each at offset 0. Members beyond the provider's struct_size do not exist. allocate,
 * allocate_on_host and trim: [any] [may-block]; the others: [any] [no-block] */
typedef struct heddle_provider {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  heddle_status_t* (*allocate)(void* self, const heddle_block_params_t* params, heddle_block_t* out_block, heddle_point_t* out_waits,
                               uint32_t* out_wait_count);
  void (*free)(void* self, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count);
  heddle_status_t* (*statistics)(void* self, heddle_allocator_statistics_t* out_statistics);
  heddle_status_t* (*trim)(void* self, uint64_t keep_bytes);
  heddle_status_t* (*holders)(void* self, heddle_holder_visitor_t visit, void* context);
  /* 1 if the point is reached, or failed. [any] [no-block] */
  uint32_t (*reached)(void* self, heddle_point_t point);
  /* Like allocate with after.timeline NULL, but in host memory that kernels and copies of the device reach: slower memory, of which there
   * is more. The block is returned through free. NULL if the device has no such memory, or all of its memory is the host's, or if the
   * provider is an allocator. Since ABI 0.2. [any] [may-block] */
  heddle_status_t* (*allocate_on_host)(void* self, const heddle_block_params_t* params, heddle_block_t* out_block);
} heddle_provider_t;

typedef struct heddle_allocator_params {
  uint32_t struct_size;
  uint32_t option_count;
  const heddle_provider_t* provider; /* outlives the allocator */
  const heddle_option_t* options;    /* array: those of the allocator's manifest */
  uint64_t option_stride;
  heddle_string_t name; /* of the pool, for error texts */
} heddle_allocator_params_t;

typedef struct heddle_allocator_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* owned by the caller. The options and strings of params are read before it returns. [any] [may-block] */
  heddle_status_t* (*create)(heddle_plugin_instance_t* instance, const heddle_allocator_params_t* params,
                             heddle_allocator_t** out_allocator);
  /* FAILED_PRECONDITION while blocks are live; it lists their owners. [serial:allocator] [may-block] */
  heddle_status_t* (*destroy)(heddle_allocator_t* allocator);
  /* out_waits receives the points that the caller must wait for before it touches the block, at most wait_capacity of them. With
   * `after.timeline` NULL the block is usable at once and there are none. out_waits may be NULL with a wait_capacity of 0; out_wait_count
   * is never NULL. RESOURCE_EXHAUSTED lists the owners of memory (HD-M-03). On failure out_block->buffer is NULL. [any] [may-block], but
   * only when the device is asked: memory that is already free is returned without waiting */
  heddle_status_t* (*allocate)(heddle_allocator_t* allocator, const heddle_block_params_t* params, heddle_block_t* out_block,
                               heddle_point_t* out_waits, uint32_t* out_wait_count);
  /* The block may be reused when all points are reached or failed; without points (points may be NULL then), at once. A timeline may be destroyed
   * before the allocator; the provider's `reached` then returns 1 for its points. [any] [no-block] */
  void (*free)(heddle_allocator_t* allocator, const heddle_block_t* block, const heddle_point_t* points, uint32_t point_count);
  /* [any] [no-block] */
  heddle_status_t* (*statistics)(heddle_allocator_t* allocator, heddle_allocator_statistics_t* out_statistics);
  /* Returns free memory to the provider until at most keep_bytes are held from it (bytes_reserved), live blocks included; then the provider
   * trims with the same number. [any] [may-block] */
  heddle_status_t* (*trim)(heddle_allocator_t* allocator, uint64_t keep_bytes);
  /* Calls visit [callback] in the calling thread once for each owner of a live block, and possibly for others with 0 blocks, before it
   * returns. visit must not call the allocator. An adaptor that does not know asks its provider. [any] [no-block] */
  heddle_status_t* (*holders)(heddle_allocator_t* allocator, heddle_holder_visitor_t visit, void* context);
} heddle_allocator_interface_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_ALLOCATOR_H_ */
