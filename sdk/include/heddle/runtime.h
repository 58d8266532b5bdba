/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an application uses to run compiled models: runtime, devices, modules, instances, tensors, calls. Exported by libheddle.
 *
 * Glossary
 *   runtime   owns the configuration, the plugins and the devices
 *   module    one compiled .heddle file, opened and verified; names no device
 *   slot      a placeholder for a device in a module; the configuration says which device it is
 *   instance  a module whose slots are bound to devices, with its parameters loaded, and with the state that its calls share
 *   function  an entry point of a module
 *   tensor    element type, dimensions and a range of device memory, row-major and dense
 *   device    what calls run on and tensors are stored on; a runtime opens each device once
 *   call      one invocation of a function; several may be in flight
 *   region    a part of a module that runs as one step: a kernel, or an operator of a plugin
 *
 * Some functions of modules read values on the host: they need elements of a tensor before they can go on, for example to compute the shape of a
 * result that depends on them. Calls of these functions, and calls that use several devices, are enqueued in several steps.
 *
 * A minimal program. Each of these functions returns a status, which is NULL on success; a program checks it, as the example read_digit.c does.
 *
 *   float pixels[64] = {0}, scores[10];
 *   const int64_t dims[4] = {1, 1, 8, 8};
 *   const heddle_string_t path = {"digits.heddle", 13}, name = {"main", 4};
 *   heddle_runtime_t* runtime;
 *   heddle_module_t* module;
 *   heddle_instance_t* instance;
 *   heddle_function_t* function;
 *   heddle_tensor_t *image, *result = NULL;
 *   heddle_runtime_create(NULL, &runtime);
 *   heddle_module_open(runtime, path, NULL, &module);
 *   heddle_instance_create(module, NULL, &instance);
 *   heddle_instance_function(instance, name, &function);
 *   heddle_tensor_from_host(function, 0, HEDDLE_TYPE_F32, dims, 4, pixels, sizeof pixels, &image);
 *   heddle_call(function, &image, 1, &result, 1);
 *   heddle_tensor_read(result, scores, sizeof scores);
 *
 * The caller releases everything that it created here, in any order: objects keep what they depend on alive (HD-L-01).
 *
 * Thread tags (types.h has the full definitions); a function without a comment of its own is [any] [no-block]
 *   [any]            callable from any thread at any time, even concurrently on the same object, but not with the release of the last reference
 *   [serial:object]  callable from any thread, but not concurrently with another serial call on the same object
 *   [no-block]       returns without waiting for a device, a file or another thread
 *   [may-block]      may wait for a device, a file or the system
 *   [callback]       called by libheddle, on any thread; must return quickly, and must not call back into the object that called it,
 *                    except where the comment says so
 *
 * Timeouts are in nanoseconds: 0 polls, and HEDDLE_TIMEOUT_INFINITE waits without limit.
 *
 * The caller sets struct_size of every struct to its size, including structs that a function fills. The layout of a struct that is marked Frozen
 * never changes; it has no struct_size. */
#ifndef HEDDLE_RUNTIME_H_
#define HEDDLE_RUNTIME_H_

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_runtime heddle_runtime_t;
typedef struct heddle_module heddle_module_t;
typedef struct heddle_instance heddle_instance_t;
typedef struct heddle_function heddle_function_t;             /* borrowed from its instance */
typedef struct heddle_runtime_device heddle_runtime_device_t; /* since ABI 0.2 */
typedef struct heddle_tensor heddle_tensor_t;
typedef struct heddle_call heddle_call_t;
typedef struct heddle_state heddle_state_t; /* since ABI 0.2 */

/* Text owned by the caller. Both functions: [any] [no-block] */
typedef struct heddle_text heddle_text_t;
HEDDLE_EXPORT heddle_string_t heddle_text_view(const heddle_text_t* text);
HEDDLE_EXPORT void heddle_text_free(heddle_text_t* text);

/* -------------------------------------------------------------------------------------------------------- runtime */

#define HEDDLE_RUNTIME_NO_CONFIG 1u /* read no heddle.toml and no environment; /etc/heddle/heddle.toml still sets security */

typedef struct heddle_runtime_params {
  uint32_t struct_size;
  uint32_t flags; /* bits HEDDLE_RUNTIME_* */
  heddle_string_t
      config_path; /* heddle.toml; empty: $HEDDLE_CONFIG, else the user's or the system's file. ./heddle.toml is read only if named */
  heddle_string_t config_text; /* TOML that overrides the file and the environment; may be empty */
  uint32_t plugin_path_count;
  uint32_t reserved;
  const heddle_string_t* plugin_paths; /* directories with manifests, searched first */
  /* Receives the lines of the log instead of stderr; NULL: they go to stderr. level: HEDDLE_LOG_*; lines below the configured level ([log],
   * HEDDLE_LOG) are left out. component: a part of libheddle, such as "host" or "memory", or the id of a plugin. Both texts are valid until the
   * function returns. Called on any thread, by several at the same time, until every object of the runtime is released, and with locks of the
   * runtime held: it must call no function of Heddle, and must not wait for a thread that may be in one. Since ABI 0.2. [callback] */
  void (*log)(void* log_context, uint32_t level, heddle_string_t component, heddle_string_t message);
  void* log_context;
} heddle_runtime_params_t;

/* Reads the configuration and the manifests; loads no plugin yet. params may be NULL. Both functions: [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_runtime_create(const heddle_runtime_params_t* params, heddle_runtime_t** out_runtime);
HEDDLE_EXPORT void heddle_runtime_release(heddle_runtime_t* runtime);

/* Returns a report as JSON. NOT_FOUND for an unknown topic. No report opens a device. [any] [may-block] Topics:
 *   "devices"     the devices that the drivers found
 *   "plugins"     every plugin, with its state and the reason
 *   "config"      the values in force, with their origins
 *   "schema"      the JSON Schema of heddle.toml, including the options of the plugins that were found
 *   "validation"  for each plugin that is loaded with the validation layer: the numbers of calls and violations, and the first violations
 *   "trace"       writes the events so far to the file of [trace], and fails if that is impossible. Instances that are alive may add events later */
HEDDLE_EXPORT heddle_status_t* heddle_runtime_report(heddle_runtime_t* runtime, heddle_string_t topic, heddle_text_t** out_json);

/* --------------------------------------------------------------------------------------------------------- device */

/* Since ABI 0.2. A heddle_runtime_device_t is the device that instances of the runtime use, with the same pool of memory. (A heddle_device_t is a
 * driver's object, which applications never see.) After DEVICE_LOST, its functions return DEVICE_LOST, and asking the runtime again opens the device
 * anew, as a new instance does. */

/* Opens the device of that name, unless it is open already. name: as in heddle_slot_binding_t. "cpu", "cpu:0" and "heddle.cpu:0" are the same
 * device; each alias of the configuration is a device of its own, with its own settings and memory. NOT_FOUND lists the names that exist;
 * UNAVAILABLE says why the driver cannot be used. The caller owns the handle. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_runtime_device(heddle_runtime_t* runtime, heddle_string_t name, heddle_runtime_device_t** out_device);
HEDDLE_EXPORT heddle_runtime_device_t* heddle_runtime_device_retain(heddle_runtime_device_t* device);
/* The device is closed when nothing uses it any more: no handle, tensor or instance, and no runtime. NULL is allowed. [any] [may-block] */
HEDDLE_EXPORT void heddle_runtime_device_release(heddle_runtime_device_t* device);

typedef struct heddle_runtime_device_properties {
  uint32_t struct_size;
  uint32_t ordinal;       /* the driver's number of the device; on CUDA the same as cudaSetDevice's */
  heddle_string_t name;   /* borrowed from the device, like the others: the alias of the configuration, or "cpu:0" */
  heddle_string_t driver; /* the driver's id: "heddle.cpu" */
  heddle_string_t family; /* "cpu", "cuda": what addresses and streams are (ext/native.h) */
  /* Alignment of the runtime's own tensors, a power of two. Memory of the application must have it, too, to be imported (heddle_tensor_import). */
  uint64_t alignment_bytes;
} heddle_runtime_device_properties_t;
/* [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_runtime_device_describe(heddle_runtime_device_t* device,
                                                              heddle_runtime_device_properties_t* out_properties);

/* --------------------------------------------------------------------------------------------------------- module */

#define HEDDLE_MODULE_NO_HASH 1u /* skip the check of the content hash, which covers all but the parameters; structure is always verified */

typedef struct heddle_module_params {
  uint32_t struct_size;
  uint32_t flags; /* bits HEDDLE_MODULE_* */
} heddle_module_params_t;

/* Opens and verifies a module. Reads no parameters, unless the configuration lists digests of modules. DATA_LOSS for a damaged file,
 * INVALID_ARGUMENT if the file is not a module, UNIMPLEMENTED for a newer format version. params may be NULL. Both functions: [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_module_open(heddle_runtime_t* runtime, heddle_string_t path, const heddle_module_params_t* params,
                                                  heddle_module_t** out_module);
HEDDLE_EXPORT void heddle_module_release(heddle_module_t* module);
/* Returns the contents as JSON: functions with their signatures, executables with variants and entries, parameters, the compiler's report.
 * [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_module_report(heddle_module_t* module, heddle_text_t** out_json);

/* ------------------------------------------------------------------------------------------------------- instance */

typedef struct heddle_slot_binding { /* Frozen. */
  heddle_string_t slot;              /* "@a"; empty: the default slot */
  heddle_string_t device;            /* an alias of the configuration; or "cpu", "cpu:1", "heddle.cpu:0" without an alias's settings */
} heddle_slot_binding_t;

/* A safetensors file, the index of its shards (model.safetensors.index.json), or a GGUF, IRPA, .npz, .npy or ONNX file, with external data. */
typedef struct heddle_parameter_file { /* Frozen. */
  heddle_string_t scope;               /* a namespace of parameter names; empty: the default one; may have several files */
  heddle_string_t path;                /* /dev/fd/N is the process's open descriptor N */
} heddle_parameter_file_t;

/* Times every command on the device, for the report "profile". Calls are slower, since commands do not overlap. */
#define HEDDLE_INSTANCE_PROFILE 1u
/* Only binds slots and loads code: no parameters are read, and nothing of the module runs. For the reports "route" and "statistics"; calling a
 * function returns FAILED_PRECONDITION. */
#define HEDDLE_INSTANCE_ROUTE_ONLY 2u
/* Returns as soon as slots are bound, code is loaded and every parameter has been found in its file; another thread reads the parameters and computes
 * from them. Calls and reports wait for it; if it fails, each of them returns that error. Releasing the instance cancels it. Since ABI 0.2. */
#define HEDDLE_INSTANCE_IN_BACKGROUND 4u
/* Before the parameters are loaded, reads all of them once more and compares their hashes with those of the values that the module was compiled with;
 * this needs host memory for the largest one. DATA_LOSS names the first that differs. FAILED_PRECONDITION if a file stores values in
 * blocks, such as GGUF's Q4_K, other than those that were compiled, or if the module has no hashes. Tensors of overlays are not checked. Since ABI 0.2. */
#define HEDDLE_INSTANCE_CHECK_HASHES 8u

typedef struct heddle_instance_params {
  uint32_t struct_size;
  uint32_t slot_count;
  const heddle_slot_binding_t* slots;             /* slots that are not named are routed by the configuration */
  const heddle_parameter_file_t* parameter_files; /* NOT_FOUND if the module uses no tensor of one of them */
  uint32_t parameter_file_count;
  uint32_t flags; /* bits HEDDLE_INSTANCE_* */
  /* Files that are laid over the parameter files, each over those before it: where a scope has a tensor of that name already, the overlay's takes its
   * place. The module must use at least one tensor of each. Parameters that the module file stores are not replaced. Since ABI 0.2. */
  const heddle_parameter_file_t* overlays;
  uint32_t overlay_count;
  uint32_t reserved;
} heddle_instance_params_t;

/* Binds slots, loads code and parameters, and computes what kernels need from parameters, such as packed weights. params may be NULL. NOT_FOUND and
 * UNAVAILABLE name the slot, the device, and why each candidate was refused. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_create(heddle_module_t* module, const heddle_instance_params_t* params,
                                                      heddle_instance_t** out_instance);
/* Releases the instance; its functions must not be used afterwards. If the application still holds handles of calls on it, returns at once, and
 * the instance is destroyed when the last of these handles is released. Otherwise waits for calls that are still in flight (their handles were
 * released earlier). NULL is allowed. [any] [may-block] */
HEDDLE_EXPORT void heddle_instance_release(heddle_instance_t* instance);
/* Waits until the parameters are loaded (HEDDLE_INSTANCE_IN_BACKGROUND) and returns the error of loading; DEADLINE_EXCEEDED if they are still being
 * loaded after the timeout. Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_wait(heddle_instance_t* instance, uint64_t timeout_ns);
/* Returns a report as JSON. [any] [no-block], except while the parameters are loaded in the background. Topics:
 *   "route"       the device of each slot, the variant of each executable, and the reasons
 *   "statistics"  calls, dispatches, copies, and memory per device and pool
 *   "profile"     the time of each region on its device, over all calls that were waited for; FAILED_PRECONDITION without
 *                 HEDDLE_INSTANCE_PROFILE */
HEDDLE_EXPORT heddle_status_t* heddle_instance_report(heddle_instance_t* instance, heddle_string_t topic, heddle_text_t** out_json);

typedef struct heddle_refit_params { /* Since ABI 0.2. */
  uint32_t struct_size;
  uint32_t parameter_file_count;
  const heddle_parameter_file_t* parameter_files; /* as in heddle_instance_params_t */
  const heddle_parameter_file_t* overlays;
  uint32_t overlay_count;
  uint32_t reserved;
  /* NULL, or a byte with the value 0. When another thread has stored 1 there, atomically, the function soon returns CANCELLED, and the old values stay
   * in use; if it is over already, it returns what it would have returned. The byte must exist until the function returns. */
  const uint8_t* cancel;
} heddle_refit_params_t;

/* Gives a live instance the values that these files have; parameters that none of them has keep theirs. What is computed from them at load is
 * computed again; code, functions and states stay as they are. A call that began before uses only old values, also while it goes on; one that
 * begins after the function returned uses only new ones; one that begins meanwhile uses either all old or all new ones. On failure, also for lack
 * of memory, the old values stay in use. Until the last call with the old values has ended, both are in memory. Parameters that are needed only to
 * compute with new values are read again from the files that they came from: FAILED_PRECONDITION if such a file has changed, and NOT_FOUND if it is
 * gone or if the module uses no tensor of a given file. Waits for parameters that are loaded in the background; several refits run one after the
 * other. Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_refit(heddle_instance_t* instance, const heddle_refit_params_t* params);

/* Makes a state: values that functions of the instance keep between calls, zero at first. Every instance has one of its own. An application with
 * several users can make one for each: every user has values of its own, and all share the instance's parameters and code. Calls that use
 * different states run independently of each other. UNIMPLEMENTED if the module initializes its state to anything but zero. The caller owns
 * the state, and may release it while calls that use it are in flight. It is for calls of this instance only, and holds memory of the devices
 * until it is released. Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_state_create(heddle_instance_t* instance, heddle_state_t** out_state);
/* NULL is allowed. [any] [may-block] */
HEDDLE_EXPORT void heddle_state_release(heddle_state_t* state);

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
      instance;                 /* slots are bound as in heddle_instance_create; NULL: no slots are bound and no device is used */
  heddle_string_t function;     /* empty: the only one, or "main" */
  const heddle_shape_t* shapes; /* call_count times argument_count of them, call by call; NULL if all extents are static */
} heddle_memory_params_t;

/* Returns the memory that a module will need, as JSON, before any of its code or data is loaded. Figures are the bytes that one call at a time
 * requests from a device's pool ("requested" in the report "statistics"). Per device, or per slot if none are bound:
 *   "parameters", "constants", "derived"  weights: in files, in the module, and computed from both at load
 *   "state"                               what calls keep for later ones
 *   "peak_at_load"                        the most that is live while these are loaded, if all parameters are read
 *   "peak_at_load_mapped"                 the same if all parameters are mapped: pages of files are no memory of the pool. Since ABI 0.3
 * For each call:
 *   "arguments", "results", "arena"       its tensors, and its intermediate values; a result in the memory of an argument counts once
 *   "copies"                              those of the arguments that the function overwrites, needed in addition if none of them is donated
 *   "total"                               the sum of all but "copies" with weights and state
 *   "peak"                                the larger of "total" and "peak_at_load"
 * "not_counted" names amounts that cannot be known in advance. If no slots are bound, there is one list per family of devices ("cpu", "cuda"), in
 * which each slot counts as a device with an alignment of 64 bytes. If they are bound, plugins with operators that the module uses are loaded,
 * because only they know their workspace. params may be NULL. INVALID_ARGUMENT for a shape that the function does not take; errors about slots are
 * those of heddle_instance_create. Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_module_memory(heddle_module_t* module, const heddle_memory_params_t* params,
                                                    heddle_text_t** out_json);

/* Returns the function of that name; an empty name means the only function, or "main". [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_instance_function(heddle_instance_t* instance, heddle_string_t name,
                                                        heddle_function_t** out_function);

/* Type of an argument or a result. A negative dimension is dynamic. If it has a symbol, its extent follows from the shapes of the arguments. A
 * dynamic dimension of a result without a symbol depends on elements of the arguments. */
typedef struct heddle_tensor_type {
  uint32_t struct_size;
  heddle_element_type_t element_type;
  heddle_string_t name; /* borrowed from the instance */
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[HEDDLE_MAX_RANK];
  /* Since ABI 0.2. Name of the symbol of each dimension ("batch"), borrowed from the instance; empty for a dimension that is static or depends on
   * elements. Dimensions of a function with the same symbol have the same extent in one call. The module's report has the range of each symbol. */
  heddle_string_t symbols[HEDDLE_MAX_RANK];
  uint32_t flags; /* bits HEDDLE_TENSOR_TYPE_*. Since ABI 0.2 */
  uint32_t alias; /* with HEDDLE_TENSOR_TYPE_ALIASED. Since ABI 0.2 */
  /* Where the argument is expected, or the result is. Borrowed from the instance. A tensor on another device is copied by each call. Since ABI 0.2 */
  heddle_runtime_device_t* device;
} heddle_tensor_type_t;
/* An argument that the function overwrites, or of which a call makes a copy to overwrite ("Memory of arguments" below). */
#define HEDDLE_TENSOR_TYPE_CONSUMED 1u
/* An argument and a result with the same memory; `alias` is the index of the other one. */
#define HEDDLE_TENSOR_TYPE_ALIASED 2u
/* [any] [no-block] */
HEDDLE_EXPORT uint32_t heddle_function_argument_count(const heddle_function_t* function);
HEDDLE_EXPORT uint32_t heddle_function_result_count(const heddle_function_t* function);
/* OUT_OF_RANGE for an index that does not exist. [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_function_argument(const heddle_function_t* function, uint32_t index, heddle_tensor_type_t* out_type);
HEDDLE_EXPORT heddle_status_t* heddle_function_result(const heddle_function_t* function, uint32_t index, heddle_tensor_type_t* out_type);

/* --------------------------------------------------------------------------------------------------------- tensor */

/* Makes a tensor on the device of that argument of the function, with a copy of `bytes`. INVALID_ARGUMENT if the byte count does not fit
 * type and dims. The caller owns the tensor. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_from_host(heddle_function_t* function, uint32_t argument, heddle_element_type_t type,
                                                       const int64_t* dims, uint32_t rank, const void* bytes, uint64_t size_bytes,
                                                       heddle_tensor_t** out_tensor);

/* Makes a tensor on the device, with a copy of `bytes`; NULL with a size_bytes of 0: the contents are undefined until they are written, uploaded, or
 * filled by a call. It may be an argument or a result of every function on that device, of any instance and module of the runtime.
 * INVALID_ARGUMENT if the byte count does not fit type and dims; RESOURCE_EXHAUSTED if the pool has too little memory. The caller owns the tensor.
 * Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_create(heddle_runtime_device_t* device, heddle_element_type_t type, const int64_t* dims,
                                                    uint32_t rank, const void* bytes, uint64_t size_bytes, heddle_tensor_t** out_tensor);

/* Device memory of the application. */
#define HEDDLE_DEVICE_MEMORY_RESULT 1u /* for a result: `index` of heddle_tensor_from_device counts results, not arguments */
/* A call that overwrites the argument (HEDDLE_TENSOR_TYPE_CONSUMED) may do so in this memory, although the tensor is not donated: its contents are
 * undefined afterwards, and the tensor and the memory stay the caller's. If another argument or a result of the call shares a byte with it, a copy is
 * overwritten instead. Since ABI 0.3 */
#define HEDDLE_DEVICE_MEMORY_CONSUMABLE 2u
typedef struct heddle_device_memory {
  uint32_t struct_size;
  uint32_t flags; /* bits HEDDLE_DEVICE_MEMORY_* */
  /* In the vendor's API (ext/native.h): on CUDA a CUdeviceptr, such as data_ptr() of a PyTorch tensor; on a CPU a pointer. */
  uint64_t address;
  uint64_t size_bytes;
  void (*release)(void* context); /* may be NULL. [callback] */
  void* context;
} heddle_device_memory_t;

/* Makes a tensor over memory of the application on the device of that argument or result, without a copy. release is called exactly once: by the
 * last user of the tensor or, if this function fails, before it returns. Heddle does not wait for work that the application has enqueued on the
 * memory, unless a call is ordered with the application's stream (heddle_call_params_t). INVALID_ARGUMENT for memory of another device, and for an
 * address that is not a multiple of the device's alignment, which the message names; UNIMPLEMENTED if the driver does not support it. The caller
 * owns the tensor. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_from_device(heddle_function_t* function, uint32_t index, heddle_element_type_t type,
                                                         const int64_t* dims, uint32_t rank, const heddle_device_memory_t* memory,
                                                         heddle_tensor_t** out_tensor);
/* The same for every function on that device, as heddle_tensor_create; memory->flags is 0. Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_import(heddle_runtime_device_t* device, heddle_element_type_t type, const int64_t* dims,
                                                    uint32_t rank, const heddle_device_memory_t* memory, heddle_tensor_t** out_tensor);
/* Returns the address of the tensor's bytes on the device, valid while the application holds the tensor. The call that fills them may still be
 * running: use them on the stream with which that call was ordered, or wait for it first. UNIMPLEMENTED if the driver does not expose addresses.
 * [any] [may-block]: waits only for a result whose call reads values on the host, or uses several devices */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_address(heddle_tensor_t* tensor, uint64_t* out_address);
HEDDLE_EXPORT heddle_tensor_t* heddle_tensor_retain(heddle_tensor_t* tensor);
HEDDLE_EXPORT void heddle_tensor_release(heddle_tensor_t* tensor);
HEDDLE_EXPORT heddle_element_type_t heddle_tensor_element_type(const heddle_tensor_t* tensor);
HEDDLE_EXPORT uint32_t heddle_tensor_rank(const heddle_tensor_t* tensor);
/* heddle_tensor_dims returns `rank` extents, borrowed from the tensor, and heddle_tensor_size returns bytes. If an extent of a result depends on
 * elements (heddle_tensor_type_t), both are valid only after its call. [any] [no-block] */
HEDDLE_EXPORT const int64_t* heddle_tensor_dims(const heddle_tensor_t* tensor);
HEDDLE_EXPORT uint64_t heddle_tensor_size(const heddle_tensor_t* tensor);
/* The device that the tensor is on, borrowed from the tensor. Since ABI 0.2. [any] [no-block] */
HEDDLE_EXPORT heddle_runtime_device_t* heddle_tensor_device(const heddle_tensor_t* tensor);
/* Waits until the contents are complete, and returns the error of the call or the upload that should have filled them; DEADLINE_EXCEEDED if it is
 * still running after the timeout. Since ABI 0.2. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_wait(heddle_tensor_t* tensor, uint64_t timeout_ns);
/* Waits for the tensor's producer and copies the contents out; size_bytes must be heddle_tensor_size. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_read(heddle_tensor_t* tensor, void* bytes, uint64_t size_bytes);
/* Waits for the call that fills the tensor, if any, and replaces the contents; after this, a tensor whose call failed is usable again. Does not wait
 * for calls that read the tensor: the caller must make sure that none is in flight. [serial:tensor] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_write(heddle_tensor_t* tensor, const void* bytes, uint64_t size_bytes);
/* Replaces the contents as heddle_tensor_write does, without waiting for the copy. `bytes` must stay valid and unchanged until release(context),
 * which is called exactly once, whether the copy succeeds or fails; if this function fails, before it returns. It runs on a thread of the runtime
 * or on the caller's, perhaps before this function returns, and may call only functions that are [no-block]. NULL: none.
 *
 * Calls that are started from now on and use the tensor run after the copy. Reading the tensor, and heddle_tensor_wait, wait for the copy. If it
 * fails, all of these return its error, until the contents are replaced. If a call or an upload is still filling the tensor, the copy runs after
 * it, and fails if it fails. Calls that still read the tensor are not waited for: the caller must make sure that none is in flight. The handle may
 * be released before the copy is over.
 *
 * If this function fails, the contents are unchanged: INVALID_ARGUMENT if size_bytes is not heddle_tensor_size, FAILED_PRECONDITION for a donated
 * tensor. Since ABI 0.2. [serial:tensor] [no-block], except in these cases: a call that reads values on the host or uses several devices is still
 * filling the tensor; or the driver cannot copy asynchronously, or cannot notify the runtime */
HEDDLE_EXPORT heddle_status_t* heddle_tensor_upload(heddle_tensor_t* tensor, const void* bytes, uint64_t size_bytes,
                                                    void (*release)(void* context), void* context);

/* ----------------------------------------------------------------------------------------------------------- call */

/* State. Calls that touch the same state run in the order in which they were started. If one of them fails after any of its work was enqueued, the
 * state is undefined, and every later call that touches it fails with the same error; a new state, or a new instance, starts with fresh values. After
 * DEVICE_LOST all calls of existing instances on the device return DEVICE_LOST; a new instance opens the device again. */

/* Memory of arguments. A call borrows its arguments: it reads them, and they stay as they are. In two cases it does not:
 *
 *   donated     The caller gives the tensor up (donated_arguments of heddle_call_params_t). From the beginning of the call on, every use of the
 *               tensor is FAILED_PRECONDITION and names the call, whichever handle is used. Only its type, extents and size can still be asked
 *               for, and every handle still has to be released. If the call does not begin, the tensor is unchanged.
 *   in place    The caller passes one tensor twice: as a result with HEDDLE_TENSOR_TYPE_ALIASED, and as the argument with the index `alias`. The call
 *               replaces its contents, and it stays the caller's, even if the argument is donated, too.
 *
 * A function that was compiled with --donate or --alias overwrites some of its arguments (HEDDLE_TENSOR_TYPE_CONSUMED):
 *
 *   donated     It becomes the result, or its memory is used for intermediate values. If other handles of it exist (heddle_tensor_retain), or another
 *               call that uses it is not over, a copy is used instead, with a warning in the log. Over memory of the application
 *               (heddle_tensor_import), the result is in that memory; `release` is called when the result is released, and nothing uses the
 *               memory after that.
 *   in place    It is overwritten.
 *   borrowed    A copy is overwritten, unless no result takes its memory, and it is over memory with HEDDLE_DEVICE_MEMORY_CONSUMABLE.
 *
 * A copy is made before the call begins, which waits for it. If the function does not overwrite an argument, donating it only means that its
 * memory is freed when the call is over, and a warning in the log says so. */

/* Calls the function and waits. arguments: one per argument, borrowed until the function returns. results: an array with an element for every
 * result. An element that is not NULL is a tensor of the right type to write into, and stays the caller's. It is neither another result nor an
 * argument of this call, except in place (see above), and shares no byte with one: two tensors over memory of the application could (INVALID_ARGUMENT;
 * only a driver that provides no addresses cannot tell). A NULL element is replaced by a new tensor, owned by the caller; if the call fails, it
 * stays NULL.
 * INVALID_ARGUMENT names the input, what was expected and what was given. [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_call(heddle_function_t* function, heddle_tensor_t* const* arguments, uint32_t argument_count,
                                           heddle_tensor_t** results, uint32_t result_count);

#define HEDDLE_CALL_NATIVE_STREAM 1u /* native_stream is set; 0 is valid, too: CUDA's default stream */
/* With a native stream: starting a call whose kernels check indices or divisors does not wait for what they find, if the call is one submission and uses
 * no state. heddle_call_wait returns the failure once the call is over, and from then on reading a result fails. Until then, all that uses the results
 * finds undefined contents: later work on the stream, other calls, and heddle_tensor_read. If the handle is released before, nobody is told. While such a
 * call runs, the status of a wait that timed out has the payload "checks". Without a native stream the flag has no effect. Since ABI 0.3 */
#define HEDDLE_CALL_LATE_CHECKS 2u
typedef struct heddle_call_params {
  uint32_t struct_size;
  uint32_t flags;         /* bits HEDDLE_CALL_* */
  uint64_t deadline_ns;   /* a time on CLOCK_MONOTONIC; 0: none */
  uint64_t native_stream; /* a stream of the vendor's API (ext/native.h): on CUDA cudaStream_t */
  heddle_state_t* state;  /* the state that the call uses; NULL: the instance's own. Since ABI 0.2 */
  /* Indices of arguments whose tensors the call takes, each at most once; such a tensor neither is nor overlaps another argument of the
   * call. [serial:tensor]. Since ABI 0.2 */
  const uint32_t* donated_arguments;
  uint32_t donated_argument_count;
  uint32_t reserved;
} heddle_call_params_t;

/* The same without waiting. Result tensors can be used at once, such as for another call; reading one waits until the call has filled it. The
 * handles of arguments and results may be released before that. params may be NULL, out_call may not.
 *
 * If an earlier call is still filling a tensor that is an argument or a result of this call, this call waits for it on the device, and fails if it
 * fails. Calls that are still reading a tensor are not waited for: the caller must make sure that no call in flight reads a tensor that is passed
 * as a result.
 *
 * If the deadline passes before all work of the call is enqueued, the rest never is: what is enqueued finishes, then the call and its results fail
 * with DEADLINE_EXCEEDED, and the message names the region that would have run next. Once all work is enqueued, the deadline has no effect. A call
 * whose result tensors are still filled by earlier work is over only after that work.
 *
 * If a native stream is given, the call is ordered with it: it runs after the work that is already on the stream, and work that the application
 * enqueues there later runs after the call. So memory that the stream fills can be an argument, and the stream can use the results. The results of
 * a failed call are undefined for the stream, too. INVALID_ARGUMENT for a stream of another device, FAILED_PRECONDITION for one that is being
 * captured, UNIMPLEMENTED if the driver does not support it. The stream must stay valid until the call is over.
 *
 * [any] [no-block], except in these cases: the parameters are loaded in the background; an argument is on another device; an argument that the
 * function overwrites is copied, or donated while a call that reads values on the host or uses several devices fills it; the shape of an argument
 * depends on a call in flight; the runtime records the commands of this call, usually the third with these extents, so that later calls replay
 * them; or a native stream is given, and the function reads values on the host, uses several devices, or checks indices or divisors without
 * HEDDLE_CALL_LATE_CHECKS */
HEDDLE_EXPORT heddle_status_t* heddle_call_start(heddle_function_t* function, const heddle_call_params_t* params,
                                                 heddle_tensor_t* const* arguments, uint32_t argument_count, heddle_tensor_t** results,
                                                 uint32_t result_count, heddle_call_t** out_call);
/* Waits for the call and returns its error. DEADLINE_EXCEEDED has two meanings: the timeout passed and the call goes on, or the call missed its own
 * deadline and is over. Only in the second case does the status have the payload "deadline" (since ABI 0.2). [any] [may-block] */
HEDDLE_EXPORT heddle_status_t* heddle_call_wait(heddle_call_t* call, uint64_t timeout_ns);
/* Calls callback(context) once when the call is over, even if its handle has been released by then. If the handle is still held, heddle_call_wait
 * returns the call's error without waiting from that moment on. The callback runs on a thread of the runtime, perhaps before this function returns.
 * It must not block, so it may call only functions that are [no-block]. There is one exception: while the application holds the instance, it may
 * also call heddle_call_wait and heddle_call_release on this call, which is over. If heddle_call_notify fails, the callback is not called. Since ABI
 * 0.2. [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_call_notify(heddle_call_t* call, void (*callback)(void* context), void* context);
/* Drops the work that is not yet enqueued; if there was any, the call fails with CANCELLED (HD-Q-05). [any] [no-block] */
HEDDLE_EXPORT void heddle_call_cancel(heddle_call_t* call);
/* Releases the handle. A call in flight goes on and keeps its arguments and results alive; its results are filled, and its failure is returned by
 * heddle_tensor_read of each of them. NULL is allowed. [any] [may-block]: waits only if the instance was released before and
 * the application holds no other call handle of it; then it waits for all calls of the instance in flight */
HEDDLE_EXPORT void heddle_call_release(heddle_call_t* call);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_RUNTIME_H_ */
