/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an application uses to run compiled models: runtime, devices, modules, instances, tensors, calls. Exported by libheddle.
 *
 * Glossary
 *   runtime   one host: configuration, plugins, devices
 *   module    one compiled .heddle file, opened and verified; names no device
 *   instance  a module bound to devices, with its parameters loaded and its state
 *   function  an entry point of a module
 *   tensor    element type, dimensions and a range of device memory, row-major and dense
 *   call      one invocation of a function; several may be in flight
 *
 * A minimal program: runtime_create, module_open, instance_create, function_find, tensor_from_host, call, tensor_read.
 * Everything created here is released by the caller; children keep their parents alive (HD-L-01), so the order does not matter. */
#ifndef HEDDLE_RUNTIME_H_
#define HEDDLE_RUNTIME_H_

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_runtime heddle_runtime_t;
typedef struct heddle_module heddle_module_t;
typedef struct heddle_instance heddle_instance_t;
typedef struct heddle_function heddle_function_t; /* borrowed from its instance */
typedef struct heddle_tensor heddle_tensor_t;
typedef struct heddle_call heddle_call_t;

/* Text owned by the caller. Both functions: [any] [no-block] */
typedef struct heddle_text heddle_text_t;
HEDDLE_EXPORT heddle_string_t heddle_text_view(const heddle_text_t* text);
HEDDLE_EXPORT void heddle_text_free(heddle_text_t* text);

/* -------------------------------------------------------------------------------------------------------- runtime */

#define HEDDLE_RUNTIME_NO_CONFIG 1u /* read no heddle.toml and no environment; what /etc/heddle/heddle.toml says of security holds */

typedef struct heddle_runtime_params {
  uint32_t struct_size;
  uint32_t flags;              /* bits HEDDLE_RUNTIME_* */
  heddle_string_t config_path; /* heddle.toml; empty: $HEDDLE_CONFIG, ./heddle.toml is never read unasked */
  heddle_string_t config_text; /* TOML that wins over the file; may be empty */
  uint32_t plugin_path_count;
  uint32_t reserved;
  const heddle_string_t* plugin_paths; /* folders with manifests, searched first */
} heddle_runtime_params_t;

/* Reads the configuration and the manifests; loads no plugin yet. params may be NULL. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_runtime_create(const heddle_runtime_params_t* params, heddle_runtime_t** out_runtime);
HEDDLE_EXPORT void heddle_runtime_release(heddle_runtime_t* runtime);

/* A report as JSON: "devices", "plugins" (with state and reason of each), "config" (values with their origins),
 * "schema" (JSON Schema of heddle.toml, with the options of the plugins found), "validation" (of each plugin that is loaded behind the
 * validation layer: calls, violations, and the texts of the first).
 * Devices are opened by no report. NOT_FOUND for another topic. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_runtime_report(heddle_runtime_t* runtime, heddle_string_t topic, heddle_text_t** out_json);

/* --------------------------------------------------------------------------------------------------------- module */

#define HEDDLE_MODULE_NO_HASH 1u /* skip the check of the content hash; structure is always verified */

typedef struct heddle_module_params {
  uint32_t struct_size;
  uint32_t flags; /* bits HEDDLE_MODULE_* */
} heddle_module_params_t;

/* Opens and verifies; reads no parameter data. DATA_LOSS for a damaged file, INVALID_ARGUMENT for another kind of file,
 * UNIMPLEMENTED for a newer format version. params may be NULL. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_module_open(heddle_runtime_t* runtime, heddle_string_t path, const heddle_module_params_t* params,
                                                  heddle_module_t** out_module);
HEDDLE_EXPORT void heddle_module_release(heddle_module_t* module);
/* What is inside, as JSON: functions with their signatures, executables with variants and entries, parameters, compiler's
 * report. [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_module_report(heddle_module_t* module, heddle_text_t** out_json);

/* ------------------------------------------------------------------------------------------------------- instance */

typedef struct heddle_slot_binding { /* Frozen. */
  heddle_string_t slot;              /* "@a"; empty: the default slot */
  heddle_string_t device;            /* an alias of the configuration, or "cpu", "cpu:1", "heddle.cpu:0" */
} heddle_slot_binding_t;

typedef struct heddle_parameter_file { /* Frozen. */
  heddle_string_t scope;               /* empty: the default scope; a scope may have several files */
  heddle_string_t path;                /* safetensors, or the index of its shards, model.safetensors.index.json */
} heddle_parameter_file_t;

/* Times every command on the device, for the report "profile". Lists are not recorded then, and their commands do not overlap: calls are slower. */
#define HEDDLE_INSTANCE_PROFILE 1u
/* Binds slots and loads code, and stops there: no parameters are read and nothing of the module runs. For the reports "route" and "statistics"; its functions
 * answer FAILED_PRECONDITION. */
#define HEDDLE_INSTANCE_ROUTE_ONLY 2u

typedef struct heddle_instance_params {
  uint32_t struct_size;
  uint32_t slot_count;
  const heddle_slot_binding_t* slots; /* what is not named is routed by the configuration */
  const heddle_parameter_file_t* parameter_files;
  uint32_t parameter_file_count;
  uint32_t flags; /* bits HEDDLE_INSTANCE_* */
} heddle_instance_params_t;

/* Binds slots, loads code and parameters, packs what the variant wants packed. params may be NULL. NOT_FOUND and UNAVAILABLE name
 * the slot, the device, and why each candidate was refused. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_create(heddle_module_t* module, const heddle_instance_params_t* params,
                                                      heddle_instance_t** out_instance);
HEDDLE_EXPORT void heddle_instance_release(heddle_instance_t* instance);
/* "route" (device of each slot, variant of each executable, and why), "statistics" (dispatches, copies, bytes) or "profile" (time on the device of
 * each region, over all calls that are waited for; FAILED_PRECONDITION without HEDDLE_INSTANCE_PROFILE), as JSON. [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_report(heddle_instance_t* instance, heddle_string_t topic, heddle_text_t** out_json);

/* Extents of one argument. */
typedef struct heddle_shape { /* Frozen. */
  uint32_t rank;
  uint32_t reserved;
  const int64_t* dims;
} heddle_shape_t;

typedef struct heddle_memory_params { /* Since ABI 0.2. */
  uint32_t struct_size;
  uint32_t call_count;
  const heddle_instance_params_t*
      instance;                 /* slots are bound as heddle_instance_create would; NULL: they are not, and no device is looked at */
  heddle_string_t function;     /* empty: the only one, or "main" */
  const heddle_shape_t* shapes; /* call_count times one for each argument; none are needed where all extents are static */
} heddle_memory_params_t;

/* What memory a module will need, as JSON, before any of its code or data is loaded: for each device, or for each slot where none are bound, the
 * bytes of weights ("parameters", "constants", and "derived" from them at load) and of "state", the most that lives while they are loaded
 * ("peak_at_load"), and for each call the bytes of its "arguments", "results" and "arena", their sum with weights and state ("total"), and the
 * larger of that and the load ("peak"). They are what a device's pool is asked for ("requested" of the report "statistics"), by one call at a time. Of slots that
 * are not bound a list for each family of programs is given, as if each were a device without wishes about alignment. What nobody can
 * know before is named in "not_counted". Plugins with operators that a bound module uses are loaded, since only they know their workspace.
 * params may be NULL. INVALID_ARGUMENT for a shape that the function does not take; of slots, errors are as of heddle_instance_create.
 * Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_module_memory(heddle_module_t* module, const heddle_memory_params_t* params,
                                                    heddle_text_t** out_json);

/* The function of that name; empty: the only one, or "main". [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_function(heddle_instance_t* instance, heddle_string_t name,
                                                        heddle_function_t** out_function);

/* Type of an argument or a result. dims[i] < 0: not known before the call. */
typedef struct heddle_tensor_type {
  uint32_t struct_size;
  heddle_element_type_t element_type;
  heddle_string_t name; /* borrowed from the instance */
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[HEDDLE_MAX_RANK];
} heddle_tensor_type_t;
/* [any] [no-block] */
HEDDLE_EXPORT uint32_t heddle_function_argument_count(const heddle_function_t* function);
HEDDLE_EXPORT uint32_t heddle_function_result_count(const heddle_function_t* function);
/* OUT_OF_RANGE for an index that is not there. [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_function_argument(const heddle_function_t* function, uint32_t index, heddle_tensor_type_t* out_type);
HEDDLE_EXPORT heddle_status_t* heddle_function_result(const heddle_function_t* function, uint32_t index, heddle_tensor_type_t* out_type);

/* --------------------------------------------------------------------------------------------------------- tensor */

/* A tensor on the device of that argument of the function, with a copy of `bytes`; INVALID_ARGUMENT if the byte count does
 * not fit type and dims. owned by the caller. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_from_host(heddle_function_t* function, uint32_t argument, heddle_element_type_t type,
                                                       const int64_t* dims, uint32_t rank, const void* bytes, uint64_t size_bytes,
                                                       heddle_tensor_t** out_tensor);

/* Device memory of the application's. */
#define HEDDLE_DEVICE_MEMORY_RESULT 1u /* for a result to be written into; index is a result's */
typedef struct heddle_device_memory {
  uint32_t struct_size;
  uint32_t flags;   /* bits HEDDLE_DEVICE_MEMORY_* */
  uint64_t address; /* as the vendor's API names it (ext/native.h): on CUDA what data_ptr() gives */
  uint64_t size_bytes;
  void (*release)(void* context); /* may be NULL. [callback] */
  void* context;
} heddle_device_memory_t;

/* A tensor over memory of the application's on the device of that argument or result, without a copy. release is called exactly once: when nobody
 * uses the tensor any more, by whoever saw the last of it, or before this returns a failure. What work the application has enqueued on the memory,
 * calls find done if they are ordered with its stream (heddle_call_params_t). INVALID_ARGUMENT for memory of another device, and for an address that
 * is no multiple of what the device wants; UNIMPLEMENTED where the driver cannot. owned by the caller. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_from_device(heddle_function_t* function, uint32_t index, heddle_element_type_t type,
                                                         const int64_t* dims, uint32_t rank, const heddle_device_memory_t* memory,
                                                         heddle_tensor_t** out_tensor);
/* Where the device sees the tensor's bytes, while the application holds it. What fills them may be under way: work on a stream finds it done if the
 * call was ordered with that stream. UNIMPLEMENTED where the driver shows no addresses. [any] [no-block], except for a result of a call in
 * several pieces */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_address(heddle_tensor_t* tensor, uint64_t* out_address);
HEDDLE_EXPORT heddle_tensor_t* heddle_tensor_retain(heddle_tensor_t* tensor);
HEDDLE_EXPORT void heddle_tensor_release(heddle_tensor_t* tensor);
HEDDLE_EXPORT heddle_element_type_t heddle_tensor_element_type(const heddle_tensor_t* tensor);
HEDDLE_EXPORT uint32_t heddle_tensor_rank(const heddle_tensor_t* tensor);
/* rank values, borrowed; the size is in bytes. Those of a result of a function that reads values on the host are known, and may be asked for, once
 * its call is over. [any] [no-block] */
HEDDLE_EXPORT const int64_t* heddle_tensor_dims(const heddle_tensor_t* tensor);
HEDDLE_EXPORT uint64_t heddle_tensor_size(const heddle_tensor_t* tensor);
/* Waits for the tensor's producer and copies it out; size_bytes must be heddle_tensor_size. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_read(heddle_tensor_t* tensor, void* bytes, uint64_t size_bytes);
/* Waits for earlier work and replaces the contents; a tensor whose call failed is usable again then. The caller knows that no call in flight reads
 * it. [serial:tensor] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_write(heddle_tensor_t* tensor, const void* bytes, uint64_t size_bytes);

/* ----------------------------------------------------------------------------------------------------------- call */

/* Calls that touch a module's state run in the order in which they were started. Once one of them fails after its work was enqueued, the state is
 * undefined and every later one on that instance fails with it; a new instance begins anew. After DEVICE_LOST everything on the device answers so;
 * a new instance opens it again.
 *
 * Calls and waits. arguments: one per argument, borrowed until it returns. results: room for every result; an entry that
 * is not NULL on entry is a tensor of the right type to write into (it stays the caller's), a NULL one is replaced
 * by a new tensor owned by the caller. INVALID_ARGUMENT names the input, what was expected and what came. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_call(heddle_function_t* function, heddle_tensor_t* const* arguments, uint32_t argument_count,
                                           heddle_tensor_t** results, uint32_t result_count);

#define HEDDLE_CALL_NATIVE_STREAM 1u /* native_stream is given; 0 is a stream too */
typedef struct heddle_call_params {
  uint32_t struct_size;
  uint32_t flags;         /* bits HEDDLE_CALL_* */
  uint64_t deadline_ns;   /* of CLOCK_MONOTONIC; 0: none */
  uint64_t native_stream; /* a stream of the vendor's API (ext/native.h): on CUDA cudaStream_t */
} heddle_call_params_t;

/* The same without waiting: result tensors are valid at once and filled on completion; reading one waits. A result to write into that an earlier call
 * still fills is waited for by the work, like an argument; if that call fails, so does this one. The caller knows that no call in flight reads
 * it. params may be NULL.
 *
 * Once its deadline has passed, nothing more of the call is enqueued: what is enqueued finishes, and the call and its results fail with
 * DEADLINE_EXCEEDED and the region that was next. A call whose work is all enqueued by then goes on to its end.
 *
 * With a native stream the call's work comes behind what is on the stream, and what the application enqueues on the stream later comes behind the
 * call, without anybody waiting on the host: memory that the stream fills can be an argument, and results are ready for the stream. A call in
 * several pieces, or on several devices, is waited for on the host instead. What a failed call should have written is undefined for the stream too.
 * INVALID_ARGUMENT for a stream of another device, FAILED_PRECONDITION for one that is being captured, UNIMPLEMENTED where the driver cannot.
 * The stream lives until the call is over. [any] [no-block], except where an
 * argument comes from another device, or its extents from a call in flight, or a list is recorded */
HEDDLE_EXPORT heddle_status_t* heddle_call_start(heddle_function_t* function, const heddle_call_params_t* params,
                                                 heddle_tensor_t* const* arguments, uint32_t argument_count, heddle_tensor_t** results,
                                                 uint32_t result_count, heddle_call_t** out_call);
/* Waits; gives the call's failure. DEADLINE_EXCEEDED leaves it running. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_call_wait(heddle_call_t* call, uint64_t timeout_ns);
/* Drops what is not yet enqueued, as a deadline does: CANCELLED (HD-Q-05). [any] [no-block] */
HEDDLE_EXPORT void heddle_call_cancel(heddle_call_t* call);
HEDDLE_EXPORT void heddle_call_release(heddle_call_t* call);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_RUNTIME_H_ */
