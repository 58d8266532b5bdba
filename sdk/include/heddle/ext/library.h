/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* heddle.library/1, the interface of library plugins: hand-written operations, found by their id. An operator of a model that the compiler does
 * not know (an ONNX node of a foreign domain) becomes such an operation. An operator that the compiler does know (of the domain "ai.onnx",
 * in the version in which ONNX defined it last) may also run as an operation. Implemented by plugins of kind HEDDLE_PLUGIN_LIBRARY, called by libheddle (query, prepare, destroy) and by
 * drivers (enqueue, through operation_load of heddle.dispatch/1). Since ABI 0.2.
 *
 * Glossary
 *   operator   domain, name and major version, e.g. "com.acme", "Whiten", 1: what a plugin's manifest lists in [[operator]]
 *   operand    a tensor that an operator reads or writes; dense, row-major, its last dimension the fastest
 *   record     an operator's attributes, sorted by the bytes of their names, each name once: equal attributes are equal records
 *   operation  an operator prepared for one record, one list of operand types and one device; immutable, so that calls may share it
 *   target     how enqueue reaches a device: an id, which the device's description names
 *   shard      a part of an operation's work; shards of a call run in any order, also concurrently
 *
 * Life of an operation
 *   query -> prepare -> enqueue, by any number of calls at once -> destroy. query and prepare get the same request. They are called when an
 *   instance of a module is made, or at the first call with new extents; enqueue is called by every call.
 *
 * Targets
 *   "host/1"  the device is the host's own cores. enqueue does the work itself. It runs on threads of the driver or of its callers, in its
 *             order in the queue, as a compiled kernel does (code.h). Addresses are host memory. The floating-point state is round to nearest, no flush to zero,
 *             exceptions masked, and is left unchanged, as are errno and the signal mask (HD-T-02). At most 64 KiB of stack. `stream` is 0.
 *   "cuda/1"  reserved: enqueue puts the work on `stream`, a CUstream of the current context, and returns; addresses are CUdeviceptr. No driver
 *             supports it yet.
 *
 * Library is a kind of plugin of its own, so that the author of an operator need not write a driver. A driver that also has its vendor's
 * kernels has both kinds, HEDDLE_PLUGIN_DRIVER and HEDDLE_PLUGIN_LIBRARY, and gets its own device in the request. */
#ifndef HEDDLE_EXT_LIBRARY_H_
#define HEDDLE_EXT_LIBRARY_H_

#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_LIBRARY_INTERFACE "heddle.library/1"

#define HEDDLE_LIBRARY_TARGET_HOST "host/1"

/* Kinds of attributes. */
#define HEDDLE_ATTRIBUTE_INT 1u    /* one element of ints */
#define HEDDLE_ATTRIBUTE_FLOAT 2u  /* one element of floats */
#define HEDDLE_ATTRIBUTE_STRING 3u /* text: any bytes, UTF-8 by convention */
#define HEDDLE_ATTRIBUTE_INTS 4u
#define HEDDLE_ATTRIBUTE_FLOATS 5u

/* Maximum number of operands of an operator, inputs and outputs together, and of attributes. */
#define HEDDLE_MAX_OPERANDS 64u
#define HEDDLE_MAX_ATTRIBUTES 64u

typedef struct heddle_attribute {
  uint32_t struct_size;
  uint32_t kind; /* HEDDLE_ATTRIBUTE_* */
  heddle_string_t name;
  uint64_t count;       /* of ints or floats; may be 0 for INTS and FLOATS */
  const int64_t* ints;  /* INT, INTS; else NULL */
  const double* floats; /* FLOAT, FLOATS: an ONNX float, widened; else NULL */
  heddle_string_t text; /* STRING; else empty */
} heddle_attribute_t;

/* One tensor that an operation reads or writes; all extents are known. */
typedef struct heddle_operand {
  uint32_t struct_size;
  heddle_element_type_t element_type;
  uint32_t rank; /* at most HEDDLE_MAX_RANK; 0: one element */
  uint32_t reserved;
  const int64_t* dims;
} heddle_operand_t;

/* A request for an operation. Everything is borrowed for the duration of the call. */
typedef struct heddle_operation_request {
  uint32_t struct_size;
  uint32_t version; /* major version of the operator */
  heddle_string_t domain;
  heddle_string_t name;
  heddle_string_t target; /* of the device, e.g. HEDDLE_LIBRARY_TARGET_HOST */
  heddle_string_t family; /* of the device: "cpu", "cuda" */
  uint32_t compute_units; /* of the device: a hint for how many shards are useful */
  uint32_t attribute_count;
  const heddle_attribute_t* attributes; /* the record */
  uint64_t attribute_stride;            /* bytes from one to the next (HD-E-04), as operand_stride */
  const heddle_operand_t* operands;     /* input_count inputs, then output_count outputs */
  uint64_t operand_stride;
  uint32_t input_count;
  uint32_t output_count;
  heddle_device_t* device; /* open, if the plugin is its driver too; else NULL */
} heddle_operation_request_t;

/* What an operation will need. */
typedef struct heddle_operation_properties {
  uint32_t struct_size;
  uint32_t shard_count;               /* number of parts that the work is divided into; 0 and 1: not divided */
  uint64_t workspace_bytes;           /* scratch memory of one call, shared by its shards; contents undefined; 0: none */
  uint64_t workspace_alignment_bytes; /* power of two, at most 4096; 0: 64 */
  uint64_t cost_ns;                   /* estimate of one shard on one core; 0: unknown. A cheap call may run in the caller's thread */
} heddle_operation_properties_t;

/* One run of some of an operation's shards. Filled by the driver; borrowed until enqueue returns. */
typedef struct heddle_operation_call {
  uint32_t struct_size;
  uint32_t operand_count;
  void* const* operands;         /* operand_count addresses: of the inputs, then of the outputs */
  const uint64_t* operand_bytes; /* of each, according to its type */
  void* workspace;               /* NULL if workspace_bytes is 0 */
  uint64_t workspace_bytes;
  uint64_t first_shard; /* runs shards [first_shard, last_shard) */
  uint64_t last_shard;
  uint64_t stream; /* of the target */
} heddle_operation_call_t;

typedef struct heddle_library_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* Whether the plugin supports the request, and what it needs. NOT_FOUND: it does not have the operator in this version. UNIMPLEMENTED,
   * with the reason: it does not support these types, extents or attributes, or this target. An attribute that it does not know, or that
   * has another kind than it takes, is such a reason: it never guesses (HD-O-01). [any] [may-block] */
  heddle_status_t* (*query)(heddle_plugin_instance_t* instance, const heddle_operation_request_t* request,
                            heddle_operation_properties_t* out_properties);
  /* owned by the caller: destroy it before the instance is shut down (HD-L-01). Everything that the work needs besides workspace is
   * allocated, loaded and tuned here. The request is the same as that of an earlier query. [any] [may-block] */
  heddle_status_t* (*prepare)(heddle_plugin_instance_t* instance, const heddle_operation_request_t* request,
                              heddle_operation_t** out_operation);
  /* The caller makes sure that no call uses it any more. [any] [may-block] */
  void (*destroy)(heddle_operation_t* operation);
  /* Reads the inputs, writes every byte of the outputs, uses the workspace freely, and touches nothing else. It does not allocate, lock,
   * wait or call the host, except to make the status of a failure, and keeps nothing of the call. The same inputs give the same bytes.
   * Called concurrently for disjoint shards of one call, and for several calls that have their own operands and workspace (HD-O-03). A
   * failure fails the submission with this status; the call's outputs are undefined then (HD-S-02). [any]. On "host/1" it returns when the work is
   * done; on other targets before that, and is [no-block] */
  heddle_status_t* (*enqueue)(heddle_operation_t* operation, const heddle_operation_call_t* call);
} heddle_library_interface_t;

/* An argument of operation_load (heddle.dispatch/1), which makes an executable that runs an operation. The library's table and the operation outlive the
 * executable. */
typedef struct heddle_operation_params {
  uint32_t struct_size;
  uint32_t operand_count;
  heddle_string_t name; /* of the operator, "com.acme::Whiten/1": for tools and error texts */
  heddle_string_t target;
  const heddle_library_interface_t* library; /* the host's copy of the plugin's table */
  heddle_operation_t* operation;
  uint64_t workspace_bytes; /* as query said: if not 0, the binding after the operands is the workspace */
  uint64_t cost_ns;         /* as query said */
} heddle_operation_params_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_EXT_LIBRARY_H_ */
