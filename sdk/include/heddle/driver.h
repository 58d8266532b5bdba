/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The interfaces of a driver: devices, buffers, transfers, parameter I/O, dispatch, timelines. Implemented by plugins of kind
 * HEDDLE_PLUGIN_DRIVER, called by libheddle and by allocators (allocator.h). A driver is a thin translation to one vendor's API: no policy, no
 * pools, no routing.
 *
 * Glossary
 *   queue        takes submissions and runs them; two queues of a device may run at the same time
 *   submission   a list of commands with one set of waits and one set of signals
 *   command      a dispatch, copy, 2-D copy, fill, update or barrier inside a submission
 *   variant      the kernels of a module, compiled for one code format and target, such as sm_90a
 *   executable   the loaded code of one variant; each of its entries is a kernel
 *   binding      (buffer, offset, length) passed to a kernel
 *   constants    small plain bytes passed to a kernel (shape values, scalars)
 *   region       the part of a model that runs as one step; profiles and error texts name it by its number in the module
 *   recipe       the arguments of a kernel in order, each with the binding or the constants that it is made of (heddle_argument_t)
 *   to poison    to fail a timeline from a value on: whoever waits for a point with this value or a larger one gets the failure (HD-S-02)
 *
 * Shared preconditions
 *   The host keeps all objects that a submission names, including the timelines of its waits and signals, alive until the submission's signals
 *   are reached or fail (HD-Q-03); the driver borrows them. Arrays and structs named in a call are read before it returns; the driver keeps no
 *   pointer into the caller's memory unless a comment says so.
 *   A driver lets a signal be reached, or fail, only when the submission no longer touches anything it names: buffers, host memory, files,
 *   kernels, timelines of its waits (HD-Q-06). For the host a failed signal is the end of the work like a reached one: it frees and reuses at once.
 *   There is one exception: if a value of a timeline fails, all later values of it fail at once, even if their submissions still run. The host avoids
 *   this case by having at most one unfinished submission per timeline.
 *   The host enqueues a signal before it enqueues any wait for it (HD-Q-01). Timelines, buffers, entries and files of a call all belong to the
 *   device of its queue, except for those of peer_copy (HD-Q-02).
 *   Commands of one submission may overlap in time except across a barrier. Submissions of one queue are ordered only
 *   by their waits and signals.
 *   If a wait of a submission fails, the driver may skip the submission or run it on undefined contents. Either way its signals fail with the wait's
 *   failure.
 *
 * What the host requires
 *   A driver has all six interfaces of this header: heddle.device/1, heddle.buffer/1, heddle.transfer/1, heddle.param_io/1, heddle.dispatch/1 and
 *   heddle.timeline/1. Those of ext/ are optional. A missing function behaves as one that returns UNIMPLEMENTED. In the cases on the left, the
 *   host needs the functions on the right; without them the device, or what is named there, does not work:
 *     always                                  device count, describe, open, close, queue_create, queue_destroy; buffer allocate and free;
 *                                             variant_rank, executable_load, executable_unload, entry, submit; timeline create, destroy,
 *                                             query, signal, fail and wait
 *     with HEDDLE_DEVICE_UNIFIED_MEMORY       map, unmap, flush and invalidate; without it upload and download
 *     with HEDDLE_DEVICE_RECORDING            record, replay and recording_free
 *     where HEDDLE_MEMORY_PINNED is offered   map and unmap of such buffers
 *     modules with parameters                 file_open, file_close and param_io read
 *     param_io.method = ["mmap"] alone        param_io map; called only for devices with HEDDLE_DEVICE_UNIFIED_MEMORY
 *     models of several submissions per call  notify; these models read values on the host, or use several devices
 *     heddle_call_notify                      notify
 *     uploads that do not wait                upload and notify; without them heddle_tensor_upload waits
 *     addresses of tensors for applications   buffer properties
 *   statistics and operation_load may be missing. So may link, transfer properties and peer_copy: if one of these three is missing, or the host is
 *   of ABI 0.1, values are copied between two devices of the driver through host memory, and not directly.
 *   Not called by the host yet, and defined so that drivers can implement them in advance: import_host, param_io write, export_handle,
 *   import_handle, and context and stream of heddle.native/1. The host makes one queue per device, of priority 0, and emits neither
 *   HEDDLE_COMMAND_UPDATE nor HEDDLE_COMMAND_COPY_2D; HEDDLE_DEVICE_INDIRECT_DISPATCH has no meaning yet. */
#ifndef HEDDLE_DRIVER_H_
#define HEDDLE_DRIVER_H_

#include "heddle/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ heddle.device/1 */

#define HEDDLE_DEVICE_INTERFACE "heddle.device/1"

/* Kinds of memory that a device offers: bits, also used for allocations. Kernels and copies of the device reach buffers of every kind. */
#define HEDDLE_MEMORY_DEVICE 1u       /* fastest for the device */
#define HEDDLE_MEMORY_HOST_VISIBLE 2u /* can be mapped */
#define HEDDLE_MEMORY_PINNED 4u       /* host memory that the device copies from and to at full speed; can be mapped, too */

/* What a device can do: bits. */
#define HEDDLE_DEVICE_UNIFIED_MEMORY 1u /* every buffer is host visible and coherent: copies to the host can be elided */
#define HEDDLE_DEVICE_TIMESTAMPS 2u     /* heddle.profile/1 works on it */
#define HEDDLE_DEVICE_RECORDING 4u      /* it has record, replay and recording_free */
#define HEDDLE_DEVICE_INDIRECT_DISPATCH 8u
/* A kernel that faults ends the process: the vendor's library calls abort or exit, and the driver can neither prevent nor report it. Only for drivers
 * of which this is always so. Hosts before ABI 0.3 ignore the bit. */
#define HEDDLE_DEVICE_FAULT_ENDS_PROCESS 16u

typedef struct heddle_device_description {
  uint32_t struct_size;
  uint32_t ordinal;
  heddle_string_t name;   /* borrowed while the instance lives, as are the strings below */
  heddle_string_t family; /* "cpu" or "cuda", for which the compiler has targets; otherwise a name of your own */
  heddle_string_t pci;    /* "0000:01:00.0", empty if it is not a PCI device */
  uint8_t uuid[16];       /* stable across reboots; all zero if unknown */
  int32_t numa_node;      /* -1 if unknown */
  uint32_t features;      /* bits HEDDLE_DEVICE_* */
  uint32_t memory_kinds;  /* bits HEDDLE_MEMORY_* */
  uint32_t compute_units; /* cores or multiprocessors */
  uint64_t memory_bytes;  /* size of device memory */
  uint64_t max_allocation_bytes;
  /* Smallest alignment of an allocation, a power of two. The host places every tensor on a multiple of it, so a binding that covers a whole tensor
   * has at least this alignment. Since ABI 0.2 there are two exceptions, of parameters in a file that the driver maps, which are where the file has them:
   * those whose kernels read blocks of bytes (GGUF) are on a multiple of 32; with HEDDLE_FILE_STEADY, where no library plugin is found, all are on a
   * multiple of 8. */
  uint64_t min_alignment_bytes;
  /* Limits; 0: not known. The host selects no variant with an entry that exceeds one of them, or that needs another subgroup_size, and submits no
   * dispatch with a larger grid; drivers check again. */
  uint64_t shared_memory_bytes;    /* per workgroup, dynamic */
  uint32_t registers_per_thread;   /* no limit: for reports only */
  uint32_t max_workgroup_size;     /* threads; 1 on CPUs */
  uint32_t subgroup_size;          /* of a warp or wavefront, exactly; 1 on CPUs */
  uint32_t max_workgroup_count[3]; /* largest grid */
  uint32_t max_bindings;           /* of an entry */
  uint32_t max_constants_bytes;    /* of an entry */
  uint32_t code_format_count;
  const heddle_string_t* code_formats; /* format ids of code.h, best first; lives as long as the strings */
  heddle_string_t operation_target;    /* target of operation_load's operations (ext/library.h); empty: none. Since ABI 0.2 */
} heddle_device_description_t;

#define HEDDLE_LINK_NONE 0u /* copies are staged through host memory */
#define HEDDLE_LINK_SAME_MEMORY 1u
#define HEDDLE_LINK_PCI 2u
#define HEDDLE_LINK_FABRIC 3u /* NVLink, xGMI */
typedef struct heddle_device_link {
  uint32_t struct_size;
  uint32_t kind;        /* HEDDLE_LINK_* */
  uint32_t peer_access; /* 1: kernels and copies reach the other device's memory directly */
  uint32_t reserved;
  uint64_t bandwidth_bytes_per_second; /* one way; 0: unknown */
} heddle_device_link_t;

typedef struct heddle_driver_api heddle_driver_api_t;

typedef struct heddle_device_open_params {
  uint32_t struct_size;
  uint32_t reserved;
  const heddle_driver_api_t* api; /* copy it to the first word of every object that you create for this device; outlives the device */
  heddle_string_t
      cpus;          /* CPU drivers: cores to use, e.g. "0-3,8"; empty: all cores of the device of this ordinal. Ignored by other drivers */
  int32_t numa_node; /* -1: that of the device. Ignored if it has no meaning */
  uint32_t reserved2;
} heddle_device_open_params_t;

typedef struct heddle_queue_params {
  uint32_t struct_size;
  uint32_t priority; /* 0 normal, 1 high; above: INVALID_ARGUMENT. A driver without priorities treats 1 as 0 */
} heddle_queue_params_t;

/* Counters of one device since it was opened; exact whenever no call is in flight. */
typedef struct heddle_device_statistics {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t submissions;
  uint64_t dispatches;
  uint64_t copies;          /* copies, fills and updates */
  uint64_t bytes_allocated; /* live, as allocated by the driver */
  uint64_t bytes_reserved;  /* obtained from the system in addition to bytes_allocated */
  /* Of a device that runs portable code (code.h); 0 for others. Since ABI 0.3 */
  uint64_t interpreted;    /* dispatches, among those above, in which the host interpreted a node, not only what follows a product */
  uint64_t interpreted_ns; /* the time that the host took for these, and for what follows products */
  uint64_t kernel_ns;      /* the time of all dispatches, as far as the driver measures it; 0: it does not */
  uint64_t staged_bytes;   /* copied between device memory and the host's for the interpreter, in both directions */
} heddle_device_statistics_t;

typedef struct heddle_device_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* Devices found by this instance; ordinals are 0 .. count-1 and stable while it lives. [any] [may-block] */
  heddle_status_t* (*count)(heddle_plugin_instance_t* instance, uint32_t* out_count);
  /* OUT_OF_RANGE for an ordinal that does not exist. [any] [may-block] */
  heddle_status_t* (*describe)(heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out_description);
  /* The link from device a to device b of this instance. [any] [may-block] */
  heddle_status_t* (*link)(heddle_plugin_instance_t* instance, uint32_t a, uint32_t b, heddle_device_link_t* out_link);
  /* owned by the caller: close it. OUT_OF_RANGE as in describe. Opening one ordinal twice gives two devices, each with its own limit of
   * memory and its own counters. After a loss (HD-S-02) it returns a device that works, even while the lost one is still open, or
   * UNAVAILABLE with a message that says what to do. [any] [may-block] */
  heddle_status_t* (*open)(heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                           heddle_device_t** out_device);
  /* While children are alive, fails with FAILED_PRECONDITION and lists them (HD-L-01). [serial:device] [may-block] */
  heddle_status_t* (*close)(heddle_device_t* device);
  /* owned by the caller. RESOURCE_EXHAUSTED when the device has no more queues; the host needs one. [any] [may-block] */
  heddle_status_t* (*queue_create)(heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out_queue);
  /* Waits for the enqueued work. [serial:queue] [may-block] */
  heddle_status_t* (*queue_destroy)(heddle_queue_t* queue);
  /* [any] [no-block] */
  heddle_status_t* (*statistics)(heddle_device_t* device, heddle_device_statistics_t* out_statistics);
} heddle_device_interface_t;

/* ------------------------------------------------------------------------------------------------ heddle.buffer/1 */

#define HEDDLE_BUFFER_INTERFACE "heddle.buffer/1"

/* READ, WRITE or both, DISCARD only with WRITE; anything else is INVALID_ARGUMENT. */
#define HEDDLE_MAP_READ 1u
#define HEDDLE_MAP_WRITE 2u
#define HEDDLE_MAP_DISCARD 4u /* old contents need not be visible */

typedef struct heddle_buffer_params {
  uint32_t struct_size;
  uint32_t memory;     /* bits HEDDLE_MEMORY_*; all of them must hold. 0: any. Unknown bits are INVALID_ARGUMENT */
  uint64_t size_bytes; /* 0 is allowed */
  /* 0: the device's min_alignment_bytes. Otherwise a power of two, or INVALID_ARGUMENT. Every driver accepts alignments up to the larger of
   * 65536 and its min_alignment_bytes; it may refuse larger ones with INVALID_ARGUMENT. */
  uint64_t alignment_bytes;
} heddle_buffer_params_t;

typedef struct heddle_buffer_properties {
  uint32_t struct_size;
  uint32_t memory; /* bits HEDDLE_MEMORY_* */
  uint64_t size_bytes;
  uint64_t alignment_bytes;
  uint64_t device_address; /* 0: none */
} heddle_buffer_properties_t;

/* The raw provider of memory. Pools use it (allocator.h). */
typedef struct heddle_buffer_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* RESOURCE_EXHAUSTED names the size, the limit and the free memory, unless host memory is exhausted; FAILED_PRECONDITION for a known kind of
   * memory that the device does not have. Contents are undefined. [any] [may-block] */
  heddle_status_t* (*allocate)(heddle_device_t* device, const heddle_buffer_params_t* params, heddle_buffer_t** out_buffer);
  /* The caller makes sure that no work uses it any more. [any] [may-block] */
  void (*free)(heddle_buffer_t* buffer);
  /* Host pointer to bytes [offset, offset+length). FAILED_PRECONDITION if the memory is of a kind that cannot be mapped, OUT_OF_RANGE if the range is
   * outside the buffer. The caller has waited for the device's writes to that range; work on other bytes of the buffer may continue.
   * Several threads may have mapped ranges of one buffer at once, even the same bytes, because a pool divides one buffer into many blocks.
   * All pointers stay valid until unmap has been called as often as map: a driver keeps the whole buffer mapped, or counts maps. A map of length
   * 0 succeeds; its pointer is never dereferenced and may be NULL. [any] [may-block] */
  heddle_status_t* (*map)(heddle_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t flags, void** out_pointer);
  /* Takes back one map. [any] [may-block] */
  heddle_status_t* (*unmap)(heddle_buffer_t* buffer);
  /* Makes host writes visible to the device. On coherent memory flush and invalidate do nothing; on any memory they return the errors of map. [any]
   * [may-block] */
  heddle_status_t* (*flush)(heddle_buffer_t* buffer, uint64_t offset, uint64_t length);
  /* Makes device writes visible to the host. [any] [may-block] */
  heddle_status_t* (*invalidate)(heddle_buffer_t* buffer, uint64_t offset, uint64_t length);
  /* Wraps host memory without a copy. release(context) is called exactly once, in the thread of the caller: by free, or by this function if it
   * fails. NULL: no notification. The memory is never file-backed. [any] [may-block], release: [callback] */
  heddle_status_t* (*import_host)(heddle_device_t* device, void* memory, uint64_t size_bytes, void (*release)(void* context), void* context,
                                  heddle_buffer_t** out_buffer);
  /* [any] [no-block] */
  heddle_status_t* (*properties)(heddle_buffer_t* buffer, heddle_buffer_properties_t* out_properties);
} heddle_buffer_interface_t;

/* ---------------------------------------------------------------------------------------------- commands, submissions */

/* Bytes [offset, offset+length) of a buffer. Frozen. */
typedef struct heddle_binding {
  heddle_buffer_t* buffer;
  uint64_t offset;
  uint64_t length;
} heddle_binding_t;

/* Orders execution and memory: a later command of the list begins only when all earlier commands are over, and sees what they
 * wrote. That includes a write after a read: the host reuses memory after a barrier. */
#define HEDDLE_COMMAND_BARRIER 0u
#define HEDDLE_COMMAND_DISPATCH 1u
#define HEDDLE_COMMAND_COPY 2u
#define HEDDLE_COMMAND_FILL 3u
#define HEDDLE_COMMAND_UPDATE 4u
#define HEDDLE_COMMAND_COPY_2D 5u

/* Runs grid[0]*grid[1]*grid[2] workgroups of an entry. A dispatch of zero workgroups does nothing. INVALID_ARGUMENT if
 * binding_count or constants_bytes differ from the entry's. A grid beyond max_workgroup_count is refused, preferably with
 * OUT_OF_RANGE. */
typedef struct heddle_dispatch_command {
  heddle_entry_t* entry;
  const heddle_binding_t* bindings; /* binding_count, in the entry's order, or NULL; a buffer is NULL only if offset and length are 0 */
  const void* constants;            /* constants_bytes, copied at enqueue, or NULL */
  uint32_t binding_count;
  uint32_t constants_bytes;
  uint32_t grid[3];
  uint32_t region; /* for profiles; the status of a failing kernel has it as payload "region", in decimal */
} heddle_dispatch_command_t;

/* source and target must not overlap; INVALID_ARGUMENT if they do. */
typedef struct heddle_copy_command {
  heddle_buffer_t* source;
  heddle_buffer_t* target;
  uint64_t source_offset;
  uint64_t target_offset;
  uint64_t length;
} heddle_copy_command_t;

typedef struct heddle_fill_command {
  heddle_buffer_t* target;
  uint64_t offset;
  uint64_t length;
  uint64_t pattern;       /* the low pattern_bytes are repeated; the last repetition may be cut off */
  uint32_t pattern_bytes; /* 1, 2, 4 or 8 */
  uint32_t reserved;
} heddle_fill_command_t;

/* Copies host bytes into a buffer; the bytes are captured at enqueue. */
typedef struct heddle_update_command {
  heddle_buffer_t* target;
  uint64_t offset;
  uint64_t length;
  const void* source;
} heddle_update_command_t;

/* rows of row_bytes, at strides in bytes. */
typedef struct heddle_copy_2d_command {
  const heddle_binding_t* source; /* .length is ignored */
  const heddle_binding_t* target;
  uint64_t source_stride;
  uint64_t target_stride;
  uint64_t row_bytes;
  uint64_t rows;
} heddle_copy_2d_command_t;

/* One command, 64 bytes. Frozen. */
typedef struct heddle_command {
  uint32_t kind;  /* HEDDLE_COMMAND_* */
  uint32_t flags; /* zero: no bit has a meaning yet. Others are INVALID_ARGUMENT, since ABI 0.2 (HD-E-04) */
  union {
    heddle_dispatch_command_t dispatch;
    heddle_copy_command_t copy;
    heddle_fill_command_t fill;
    heddle_update_command_t update;
    heddle_copy_2d_command_t copy_2d;
    uint64_t reserved[7];
  } as;
} heddle_command_t;

/* What one submission waits for and signals. A signal's value must be larger than all earlier ones of its timeline (INVALID_ARGUMENT) and at most
 * HEDDLE_TIMELINE_MAX_VALUE (INVALID_ARGUMENT or OUT_OF_RANGE). Frozen, although it has a struct_size (always
 * 32), because heddle_submission holds it by value. Later versions add members after `sync` in heddle_submission. */
typedef struct heddle_sync {
  uint32_t struct_size;
  uint32_t wait_count;
  uint32_t signal_count;
  uint32_t reserved;
  const heddle_point_t* waits;
  const heddle_point_t* signals;
} heddle_sync_t;

/* ------------------------------------------------------------------------------------------------ heddle.transfer/1 */

#define HEDDLE_TRANSFER_INTERFACE "heddle.transfer/1"

#define HEDDLE_TRANSFER_CAPTURES_SOURCE 1u /* upload's source may be reused as soon as it returns */
/* The driver has peer_copy, and copies directly between those of its devices whose link has peer_access. Without it the host stages copies
 * through host memory. */
#define HEDDLE_TRANSFER_PEER 2u

typedef struct heddle_transfer_properties {
  uint32_t struct_size;
  uint32_t flags;         /* bits HEDDLE_TRANSFER_* */
  uint64_t staging_bytes; /* limit of the driver's own staging memory */
} heddle_transfer_properties_t;

/* Transfers outside a command list. Bounds are checked (OUT_OF_RANGE); errors after the enqueue fail the signals. */
typedef struct heddle_transfer_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any] [no-block] */
  heddle_status_t* (*properties)(heddle_device_t* device, heddle_transfer_properties_t* out_properties);
  /* Host memory to buffer. source stays valid until the signal, unless HEDDLE_TRANSFER_CAPTURES_SOURCE is set. [any] [no-block] */
  heddle_status_t* (*upload)(heddle_queue_t* queue, const heddle_sync_t* sync, const void* source, const heddle_binding_t* target);
  /* Buffer to host memory; target stays valid until the signal. [any] [no-block] */
  heddle_status_t* (*download)(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source, void* target);
  /* Copies between buffers of two devices of this driver. The queue, and the points of sync, may belong to either device; the host
   * uses the source device's. INVALID_ARGUMENT if the lengths differ, or if neither buffer belongs to the queue's device. The host makes sure that
   * the other device no longer uses the target bytes, and enqueues no work there that uses them until the signals are reached. If the other
   * device is lost, the copy fails with UNAVAILABLE, because DEVICE_LOST would mean the queue's own device. The first copy between two devices
   * may start late, because access between them has to be enabled. UNIMPLEMENTED: the host stages. [any] [no-block] */
  heddle_status_t* (*peer_copy)(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                                const heddle_binding_t* target);
} heddle_transfer_interface_t;

/* ------------------------------------------------------------------------------------------------ heddle.param_io/1 */

#define HEDDLE_PARAM_IO_INTERFACE "heddle.param_io/1"

#define HEDDLE_FILE_READ 1u
#define HEDDLE_FILE_WRITE 2u
/* Only with READ: buffers of map keep the contents that the file has when map returns, whoever writes to it or truncates it later; if they are lost
 * nevertheless, work that could use them fails with DATA_LOSS. Since ABI 0.2; a driver that does not keep them, or does not know this bit, must
 * refuse it by INVALID_ARGUMENT, and the host then opens the file without it. */
#define HEDDLE_FILE_STEADY 4u

/* How a file is read. A driver that does not know the method, or does not support it, for this file or at all, answers UNIMPLEMENTED, from the call
 * or by failing its signals. The host then tries the next method that its configuration names. DIRECT is an exception: a driver that does not support
 * it reads as for BUFFERED. */
#define HEDDLE_FILE_METHOD_ANY 0u      /* the driver's choice */
#define HEDDLE_FILE_METHOD_BUFFERED 1u /* through the page cache */
#define HEDDLE_FILE_METHOD_DIRECT 2u   /* bypasses the page cache if driver and file system can; else BUFFERED, and the log says so */
/* Since ABI 0.2; the host does not request them from a driver of ABI 0.1. */
#define HEDDLE_FILE_METHOD_DIRECT_ONLY 3u /* bypasses the page cache except for partial blocks, or UNIMPLEMENTED */
#define HEDDLE_FILE_METHOD_GDS 4u         /* GPUDirect Storage: from the disk into device memory, bypassing host memory */

/* One part of a file and its destination. Frozen. */
typedef struct heddle_extent {
  uint64_t file_offset;
  uint64_t length;
  heddle_buffer_t* buffer;
  uint64_t buffer_offset;
} heddle_extent_t;

typedef struct heddle_param_io_params {
  uint32_t struct_size;
  uint32_t queue_depth;  /* reads in flight; 0: the driver's choice */
  uint64_t chunk_bytes;  /* size of one read; 0: the driver's choice */
  uint64_t pinned_bytes; /* limit of staging memory; 0: the driver's choice */
  /* Called with the bytes done since the start, at most once per chunk, on a thread of the driver's choice, one call at a time; NULL: no
   * progress reports. progress, context and cancel are used until the signals are reached or fail. [callback] */
  void (*progress)(void* context, uint64_t done_bytes, uint64_t total_bytes);
  void* context;
  /* Read from time to time, atomically; a value other than 0 cancels: the signals fail with CANCELLED. NULL: not cancellable. */
  const volatile uint32_t* cancel;
  uint32_t method; /* HEDDLE_FILE_METHOD_*; ignored by a write */
  uint32_t reserved;
} heddle_param_io_params_t;

typedef struct heddle_param_io_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* Duplicates the descriptor; reads use offsets and do not move the file position. name is for error texts. owned by the caller. [any]
   * [may-block] */
  heddle_status_t* (*file_open)(heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                heddle_file_t** out_file);
  /* The caller makes sure that no read or write is in flight. [serial:file] [may-block] */
  void (*file_close)(heddle_file_t* file);
  /* params may be NULL: all zero. Reads all extents. A short read fails the signals with DATA_LOSS; the text names the file and the
   * offset, and the payload "extent" is the extent's index in decimal. Never maps the file into the device's address space. [any] [no-block] */
  heddle_status_t* (*read)(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                           uint64_t extent_count, const heddle_param_io_params_t* params);
  /* Writes all extents to the file. [any] [no-block] */
  heddle_status_t* (*write)(heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                            uint64_t extent_count, const heddle_param_io_params_t* params);
  /* Makes a buffer over bytes [offset, offset+length) of the file without reading them: its pages come from the page cache when they are
   * used. Writes to the buffer stay in memory. The buffer may outlive the file's handle, and is freed like others. Only for devices that access host
   * memory as the CPU does: a driver that would have to pin, register or copy the pages returns UNIMPLEMENTED. So does any driver for a file that
   * cannot be mapped. INVALID_ARGUMENT for an offset that is not a multiple of min_alignment_bytes, or a file that was
   * not opened for reading; DATA_LOSS, naming the file, for bytes beyond its end. If the file is truncated later, using the lost bytes ends
   * the process with SIGBUS; the host therefore maps only if its user asks for it, or with HEDDLE_FILE_STEADY: then the driver returns UNIMPLEMENTED
   * where it cannot keep the contents, or where reading is better, and the host reads. It also reads what it has mapped, to its place in the buffer: the
   * driver makes these bytes present, so that using them does not wait for a disk. Since ABI 0.2. [any] [may-block] */
  heddle_status_t* (*map)(heddle_file_t* file, uint64_t offset, uint64_t length, heddle_buffer_t** out_buffer);
} heddle_param_io_interface_t;

/* ------------------------------------------------------------------------------------------------ heddle.dispatch/1 */

#define HEDDLE_DISPATCH_INTERFACE "heddle.dispatch/1"

/* How an argument of a kernel is made at enqueue: the argument recipe. */
#define HEDDLE_ARGUMENT_BINDING 0u    /* device address of binding `index` */
#define HEDDLE_ARGUMENT_CONSTANT 1u   /* `size_bytes` of the constants at byte `index` */
#define HEDDLE_ARGUMENT_TENSOR_MAP 2u /* a descriptor that the driver encodes from binding `index` and `payload` (code.h) */
typedef struct heddle_argument {      /* Frozen. */
  uint32_t kind;                      /* HEDDLE_ARGUMENT_* */
  uint32_t index;
  uint32_t size_bytes;
  uint32_t payload_bytes;
  const void* payload;
} heddle_argument_t;

/* Bits of heddle_entry_params.flags, since ABI 0.2. Without one of them, the code format says which holds (code.h). Both together, and others, are
 * INVALID_ARGUMENT. */
#define HEDDLE_ENTRY_EARLY 1u /* the kernel itself waits for the work before it, before it touches memory: it may start while that runs */
#define HEDDLE_ENTRY_IN_ORDER 2u /* it does not: it starts when all work before it is over (HD-Q-07) */

/* What the compiler says about one kernel: name, arguments, resources. */
typedef struct heddle_entry_params {
  uint32_t struct_size;
  uint32_t binding_count;
  heddle_string_t name; /* symbol in the code */
  uint32_t constants_bytes;
  uint32_t argument_count; /* 0: the format's default order (code.h) */
  const heddle_argument_t* arguments;
  uint32_t workgroup_size[3];
  uint32_t subgroup_size;       /* 0: any */
  uint64_t shared_memory_bytes; /* dynamic, per workgroup */
  uint64_t workspace_bytes;     /* private memory per worker on CPUs (code.h) */
  uint64_t cost;                /* estimated nanoseconds of one workgroup on one core; 0: unknown. Drivers may run cheap lists inline */
  uint32_t flags;               /* bits HEDDLE_ENTRY_*. Since ABI 0.2 */
  uint32_t reserved;            /* zero. Since ABI 0.2 */
} heddle_entry_params_t;

typedef struct heddle_executable_params {
  uint32_t struct_size;
  uint32_t entry_count;
  heddle_string_t format; /* format id, e.g. "x86_64-elf/1" */
  heddle_string_t target; /* e.g. "x86-64-v4", "sm_90a" */
  const void* code;
  uint64_t code_bytes;
  const heddle_entry_params_t* entries; /* array of the entries that will be dispatched; the code may have more */
  uint64_t entry_stride;                /* bytes from one entry to the next (HD-E-04) */
  heddle_string_t name;                 /* for tools and error texts */
  heddle_string_t own_kernels;          /* as in heddle_portable_query_t. Since ABI 0.3 */
} heddle_executable_params_t;

typedef struct heddle_submission {
  uint32_t struct_size;
  uint32_t command_count;
  const heddle_command_t* commands;
  heddle_sync_t sync;
} heddle_submission_t;

/* Bits of a binding in a recorded list. */
#define HEDDLE_BINDING_DYNAMIC 1u /* a replay may pass another buffer and offset */
/* Only read: no command of the list writes to the memory of the binding, so a driver may copy its bytes at the start of a replay and let
 * the commands read the copy. */
#define HEDDLE_BINDING_READ_ONLY 2u

struct heddle_operation_params; /* ext/library.h */

/* A kernel of portable code (code.h) of which a device is asked how it would run it. Since ABI 0.3. */
typedef struct heddle_portable_query {
  uint32_t struct_size;
  uint32_t symbol_count;
  heddle_string_t format; /* "portable/1" */
  const void* code;
  uint64_t code_bytes;
  heddle_string_t entry;  /* the kernel's name */
  const int64_t* symbols; /* the values of its constants, symbol_count of them; NULL: not known, and the answer is for any */
  /* Pattern (*, ?, []) of the names of the driver's own kernels that may run nodes: all others are interpreted. Empty: any may. No kernel has the name
   * "interpreted", by which a user asks that nothing be run by one. */
  heddle_string_t own_kernels;
} heddle_portable_query_t;

/* Nodes of the kernel that run together: by a kernel of the driver's own, or interpreted. Since ABI 0.3. */
typedef struct heddle_portable_part {
  uint32_t struct_size;
  uint32_t node_count;
  const uint32_t* nodes;    /* their numbers, in ascending order */
  heddle_string_t what;     /* for people: "contract", "contract (conv)" */
  heddle_string_t kernel;   /* of the driver's own; empty: the nodes are interpreted */
  heddle_string_t reason;   /* why, in a few words */
  uint64_t workspace_bytes; /* that the driver's kernel takes in addition; 0 also if it depends on symbols that are not known */
  uint64_t cost_ns;         /* estimated time; 0: unknown */
} heddle_portable_part_t;

typedef struct heddle_dispatch_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* How well the open device runs code of this format and target: 0 not at all, higher is better. [any] [no-block] */
  heddle_status_t* (*variant_rank)(heddle_device_t* device, heddle_string_t format, heddle_string_t target, uint32_t* out_rank);
  /* Checks and loads. INVALID_ARGUMENT or DATA_LOSS for code that does not pass the checks. INVALID_ARGUMENT for an entry whose bindings,
   * constants or arguments do not match the kernel, if the code has this information. Code and entries both come from files: trust neither.
   * NOT_FOUND for a name that the code does not have. Code of a format or target with a variant_rank of 0 is refused, preferably with
   * FAILED_PRECONDITION. owned by the caller. [any] [may-block] */
  heddle_status_t* (*executable_load)(heddle_device_t* device, const heddle_executable_params_t* params,
                                      heddle_executable_t** out_executable);
  /* The caller makes sure that no work uses it any more. [any] [may-block] */
  void (*executable_unload)(heddle_executable_t* executable);
  /* The entry of that index in executable_load's array; borrowed from the executable. NOT_FOUND for an index beyond it. [any] [no-block] */
  heddle_status_t* (*entry)(heddle_executable_t* executable, uint32_t index, heddle_entry_t** out_entry);
  /* The hot path. Checks ranges and grid; enqueues all commands or fails without enqueueing any. If they fail while they run, so do the
   * signals (HD-S-02). [any] [no-block]; a driver may run a list whose cost is below 50 us in the caller's thread. */
  heddle_status_t* (*submit)(heddle_queue_t* queue, const heddle_submission_t* submission);
  /* Records a list whose bindings can be replaced at replay. UNIMPLEMENTED without HEDDLE_DEVICE_RECORDING, or for a list that this driver cannot
   * record; the host then continues to submit it. dynamic has one byte per binding, and is NULL only if there are none: dynamic[i] has bits
   * HEDDLE_BINDING_* of binding i, counted through the whole list. A dispatch has its binding_count, a copy two (source, then target), a 2-D copy
   * two, a fill and an update one. Everything else is captured, including constants and the bytes of updates. The queue, the entries and the
   * buffers of static bindings outlive the recording. The host records a list at its third submission, in the application's thread that calls the
   * model's function. The host holds no lock meanwhile, but later calls on the same loaded model may wait for the recording. So record may wait for
   * the system, for example to allocate memory or to compile a graph, but not for work that is enqueued on the device. A failure is logged, and
   * the list is then not replayed. [any] [may-block], for the system only */
  heddle_status_t* (*record)(heddle_queue_t* queue, const heddle_command_t* commands, uint32_t command_count, const uint8_t* dynamic,
                             heddle_recording_t** out_recording);
  /* Replays the list. `bindings` replace the dynamic bindings, in their order in the list; each must be as long as the recorded one. Checks ranges as
   * submit does. The host serializes replays of one recording: the next begins after the signals of the previous one are reached or failed.
   * [serial:recording] [no-block] */
  heddle_status_t* (*replay)(heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t binding_count,
                             const heddle_sync_t* sync);
  /* The host makes sure that no replay is in flight. [serial:recording] [may-block] */
  void (*recording_free)(heddle_recording_t* recording);
  /* Makes an executable whose only entry runs an operation that a plugin with operators has prepared (see ext/library.h, which also defines
   * shards). Its dispatches have a grid of (shards, 1, 1) and no constants; their bindings are the operands and then the operation's scratch
   * memory. INVALID_ARGUMENT for a target other than the device's operation_target. UNIMPLEMENTED: the driver runs no operations. owned by the
   * caller, who unloads it with executable_unload before it destroys the operation. Since ABI 0.2. [any] [may-block] */
  heddle_status_t* (*operation_load)(heddle_device_t* device, const struct heddle_operation_params* params,
                                     heddle_executable_t** out_executable);
  /* How the device would run a kernel of portable code: calls part(context, ...) for each group of its nodes, so that each node is in one of them, or
   * fails. Loads nothing, and depends on nothing but the query and the device's facts and options: executable_load of the same code does the same. The
   * part is borrowed for the call. INVALID_ARGUMENT for code that is damaged, and symbols that are not the kernel's; NOT_FOUND for an entry that is not
   * in it. UNIMPLEMENTED: the driver interprets all portable code, or takes none. Since ABI 0.3. [any] [may-block], part: [callback] */
  heddle_status_t* (*portable_parts)(heddle_device_t* device, const heddle_portable_query_t* query,
                                     void (*part)(void* context, const heddle_portable_part_t* part), void* context);
} heddle_dispatch_interface_t;

/* ------------------------------------------------------------------------------------------------ heddle.timeline/1 */

#define HEDDLE_TIMELINE_INTERFACE "heddle.timeline/1"

#define HEDDLE_WAIT_ALL 0u
#define HEDDLE_WAIT_ANY 1u

typedef struct heddle_timeline_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* owned by the caller. initial_value, like all values, is at most HEDDLE_TIMELINE_MAX_VALUE; larger values are refused with
   * INVALID_ARGUMENT or OUT_OF_RANGE. [any] [may-block] */
  heddle_status_t* (*create)(heddle_device_t* device, uint64_t initial_value, heddle_timeline_t** out_timeline);
  /* The caller makes sure that nothing waits for the timeline and nothing will signal it. It may call this as soon as a wait, a query or a
   * notification has reported that the last point was reached or failed. [serial:timeline] [may-block] */
  void (*destroy)(heddle_timeline_t* timeline);
  /* Value reached so far. A poisoned timeline returns its failure (owned by the caller) and the last good value: *out_value is valid then,
   * unlike the outputs of other functions that fail. [any] [no-block] */
  heddle_status_t* (*query)(heddle_timeline_t* timeline, uint64_t* out_value);
  /* Host signal. INVALID_ARGUMENT if value is not larger than the current value. If the timeline is poisoned from `value` or from a smaller
   * value, returns that failure. [any] [no-block] */
  heddle_status_t* (*signal)(heddle_timeline_t* timeline, uint64_t value);
  /* Poisons from `value` upward; takes ownership of the status; the first failure wins (HD-S-02). If `value` is already
   * reached, poisons from the next value upward; reached values stay reached. A NULL status is a failure, too: UNKNOWN. [any] [no-block] */
  void (*fail)(heddle_timeline_t* timeline, uint64_t value, heddle_status_t* status);
  /* Waits for points; all their timelines belong to one device. With no points, returns at once. INVALID_ARGUMENT for an unknown mode;
   * DEADLINE_EXCEEDED if the timeout passes, which changes no state; every other failure is that of a failed point, or the loss of the device.
   * ALL: fails as soon as one point has failed. ANY: succeeds if one point is reached, even if others have failed; fails if none is reached and one
   * has failed. timeout_ns: 0 polls, HEDDLE_TIMEOUT_INFINITE waits without limit. [any] [may-block] */
  heddle_status_t* (*wait)(const heddle_point_t* points, uint64_t point_count, uint32_t mode, uint64_t timeout_ns);
  /* Calls function(context, failure or NULL) when the value is reached or fails, possibly before this returns, and never if this fails. The
   * failure is borrowed for the call. [any] [no-block], function: [callback]; it is the host's, and may submit and signal, and destroy the
   * timeline if this was its last point. */
  heddle_status_t* (*notify)(heddle_timeline_t* timeline, uint64_t value, void (*function)(void* context, const heddle_status_t* failure),
                             void* context);
  /* export_handle and import_handle share a timeline with another API through a handle of the system. kind is the type of the handle
   * ("opaque_fd", ...); UNIMPLEMENTED for one that the driver does not know. [any] [may-block] */
  heddle_status_t* (*export_handle)(heddle_timeline_t* timeline, heddle_string_t kind, uint64_t* out_handle);
  heddle_status_t* (*import_handle)(heddle_device_t* device, heddle_string_t kind, uint64_t handle, heddle_timeline_t** out_timeline);
} heddle_timeline_interface_t;

/* The host's full-size copies of a driver's tables, with UNIMPLEMENTED in place of missing functions. The first word of each object points
 * here (HD-E-04, HD-H-01). */
struct heddle_driver_api {
  uint32_t struct_size;
  uint32_t reserved;
  const heddle_host_t* host;
  heddle_plugin_instance_t* instance;
  const heddle_device_interface_t* device;
  const heddle_buffer_interface_t* buffer;
  const heddle_transfer_interface_t* transfer;
  const heddle_param_io_interface_t* param_io;
  const heddle_dispatch_interface_t* dispatch;
  const heddle_timeline_interface_t* timeline;
  /* Those of ext/; all functions UNIMPLEMENTED if the driver does not have the interface. */
  const struct heddle_native_interface* native;
  const struct heddle_profile_interface* profile;
  const struct heddle_blocks_interface* blocks; /* since ABI 0.2 */
};

/* The first word of every driver object. */
typedef struct heddle_object {
  const heddle_driver_api_t* api;
} heddle_object_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_DRIVER_H_ */
