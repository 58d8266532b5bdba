/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What makes a shared library a Heddle plugin: one exported entry, a negotiation, a plugin table, interfaces by id.
 * Plugin authors read this header first; driver.h, allocator.h and ext/library.h have the interfaces themselves.
 *
 * Life of a plugin
 *   entry (pure) -> probe -> create -> get_interface ... -> shutdown. All tables and strings that a plugin returns live as long as
 *   the library stays loaded: until the process ends, unless load.unloadable in its manifest says otherwise (HD-L-02).
 *
 * Where tables are
 *   The plugin table, its two strings (at most 256 bytes each), interface tables, and the functions that they name must be in mapped segments of
 *   a loaded library, tables readable and aligned to 8 bytes, functions executable. Static data meets this; memory from an allocator does not,
 *   and a plugin that uses it is refused as incompatible. The host copies the tables when it makes an instance, and does not see later changes.
 *
 * Shared preconditions
 *   Pointers are non-NULL unless a comment allows NULL. Functions that end an object accept NULL and do nothing, except that shutdown is never
 *   given NULL. In a submission, missing buffers, timelines and arrays are INVALID_ARGUMENT.
 *   When a function fails, a pointer that it returns through a pointer is NULL; a struct or a number that it was to fill is unspecified, unless
 *   a comment says otherwise (that of query in heddle.timeline/1 does). */
#ifndef HEDDLE_PLUGIN_H_
#define HEDDLE_PLUGIN_H_

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A plugin's own state, made by create. */
typedef struct heddle_plugin_instance heddle_plugin_instance_t;

/* Kinds of a configuration value. */
#define HEDDLE_OPTION_INT 1u
#define HEDDLE_OPTION_BOOL 2u
#define HEDDLE_OPTION_FLOAT 3u
#define HEDDLE_OPTION_STRING 4u

/* One typed configuration value: an option of the manifest's [options], with its default or the value from heddle.toml. No environment
 * variable sets it. */
typedef struct heddle_option {
  uint32_t struct_size;
  uint32_t kind;        /* HEDDLE_OPTION_*; type = "bytes" in a manifest becomes HEDDLE_OPTION_INT */
  heddle_string_t name; /* valid as long as the host's table, as is string_value; in heddle_allocator_params_t, for the call */
  int64_t int_value;    /* for INT, and 0 or 1 for BOOL; else 0 */
  double float_value;   /* for FLOAT; else 0 */
  heddle_string_t string_value;
} heddle_option_t;

/* The host's table, given to probe and create. In probe it is valid until probe returns; from create on, until shutdown succeeds or create
 * fails. Every function is [any]. */
typedef struct heddle_host heddle_host_t;
struct heddle_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* the negotiated minor */
  void* self;         /* passed back as the first argument of every function below */

  /* Memory of the host's allocator. alignment: power of two, at least 8. Returns NULL when memory is exhausted; freeing NULL is allowed.
   * [any] [no-block], as are all functions of this table */
  void* (*memory_allocate)(void* self, uint64_t size_bytes, uint64_t alignment_bytes);
  void (*memory_free)(void* self, void* memory);

  /* A new status with a copy of the text; owned by the caller. domain may be empty. Never NULL: when memory is exhausted, it is a static
   * RESOURCE_EXHAUSTED (HD-S-01). [any] [no-block] */
  heddle_status_t* (*status_create)(void* self, heddle_status_code_t code, heddle_string_t domain, int64_t native_code,
                                    heddle_string_t message);
  /* Stores `value` under `key`, both copied; does nothing for NULL. To be called before the status is passed on. If a key is set several
   * times, the last value counts. [any] [no-block] */
  void (*status_set_payload)(void* self, heddle_status_t* status, heddle_string_t key, heddle_string_t value);
  /* A second reference to the same status; owned by the caller. NULL for NULL. [any] [no-block] */
  heddle_status_t* (*status_clone)(void* self, const heddle_status_t* status);
  /* OK for NULL. [any] [no-block] */
  heddle_status_code_t (*status_code)(void* self, const heddle_status_t* status);
  /* Borrowed until the status is freed; empty for NULL. [any] [no-block] */
  heddle_string_t (*status_message)(void* self, const heddle_status_t* status);
  /* Frees one reference; NULL is allowed. [any] [no-block] */
  void (*status_free)(void* self, heddle_status_t* status);

  /* Lowest level that is logged for this plugin; test it before formatting. [any] [no-block] */
  uint32_t (*log_level)(void* self);
  void (*log)(void* self, uint32_t level, heddle_string_t file, uint32_t line, heddle_string_t message);

  /* Trace events of the calling thread; `name` is copied. [any] [no-block] */
  void (*trace_begin)(void* self, heddle_string_t category, heddle_string_t name);
  void (*trace_end)(void* self);
  void (*trace_counter)(void* self, heddle_string_t name, int64_t value);

  /* Runs function(context) once on a thread of the host, perhaps before this returns. On a failure it is not run: UNAVAILABLE while the
   * host shuts down. `function` may block, but there are only one to four threads, which all plugins share. A function that waits for long
   * needs a thread of its own, and accepted work of a queue must proceed without these threads, because all of them may be waiting for it.
   * `function` throws nothing. The plugin makes sure that all of these functions are over before shutdown returns. [any] [no-block] */
  heddle_status_t* (*execute)(void* self, void (*function)(void* context), void* context);

  /* The plugin's option of that name; NOT_FOUND if the manifest does not declare it. [any] [no-block] */
  heddle_status_t* (*option)(void* self, heddle_string_t name, heddle_option_t* out_option);

  /* Monotonic clock in nanoseconds, the same one that timeouts and traces use. [any] [no-block] */
  uint64_t (*clock_ns)(void* self);

  /* 1 in a child that was forked after the host started: there handles answer FAILED_PRECONDITION and releases do nothing (HD-T-01). [any]
   * [no-block] */
  uint32_t (*is_forked_child)(void* self);
};

/* Verdicts of probe. */
#define HEDDLE_PROBE_AVAILABLE 0u
#define HEDDLE_PROBE_NO_DEVICE 1u
#define HEDDLE_PROBE_MISSING_DEPENDENCY 2u
#define HEDDLE_PROBE_INCOMPATIBLE 3u /* e.g. a vendor driver too old */
#define HEDDLE_PROBE_NO_PERMISSION 4u

typedef struct heddle_probe_result {
  uint32_t struct_size;
  uint32_t verdict;      /* HEDDLE_PROBE_* */
  uint32_t device_count; /* devices that open would find now; 0 unless AVAILABLE */
  uint32_t reason_size;  /* bytes used in reason; ignored with AVAILABLE */
  char reason[256];      /* what is missing, and what to install or change; not NUL-terminated */
  uint32_t vendor_version_size;
  char vendor_version[64]; /* version of the vendor's driver, for the probe cache */
} heddle_probe_result_t;

/* Kinds of plugins: bits. */
#define HEDDLE_PLUGIN_DRIVER 1u
#define HEDDLE_PLUGIN_ALLOCATOR 2u
#define HEDDLE_PLUGIN_LIBRARY 4u /* since ABI 0.2 */
#define HEDDLE_PLUGIN_TARGET 8u  /* since ABI 0.3: a compiler's target (target.h), which the host does not load */

/* The plugin table (HD-E-03). */
typedef struct heddle_plugin {
  uint32_t struct_size;
  uint32_t kind;           /* bits HEDDLE_PLUGIN_* */
  heddle_string_t id;      /* e.g. "heddle.cpu"; reverse DNS for third parties; "heddle.*" is reserved */
  heddle_string_t version; /* semantic version of the plugin itself */

  /* Finds out whether the plugin could work here: opens the vendor's library (HD-B-02), counts devices. Runs in another process than
   * create, or not at all, because the host keeps its verdict: nothing that it opens or stores may be needed later, and create opens the
   * vendor's library again. If a configuration says so, it runs in the same process, so it must leave nothing behind. A missing device or
   * library is a verdict, not a failed status. NULL: always AVAILABLE. [serial:plugin] [may-block] */
  heddle_status_t* (*probe)(const heddle_host_t* host, heddle_probe_result_t* out_result);
  /* Makes an instance; required. `host` stays valid until shutdown succeeds. Instances share no state (HD-E-06). [serial:plugin]
   * [may-block] */
  heddle_status_t* (*create)(const heddle_host_t* host, heddle_plugin_instance_t** out_instance);
  /* Ends an instance. With live children it fails with FAILED_PRECONDITION, lists them and changes nothing (HD-L-01). It joins the
   * instance's threads before it returns (HD-T-01). NULL: instances are never ended, and keep their resources until the process ends.
   * [serial:instance] [may-block] */
  heddle_status_t* (*shutdown)(heddle_plugin_instance_t* instance);
  /* The table of an interface, e.g. "heddle.device/1"; NULL if the plugin does not have it. Static. For HEDDLE_PLUGIN_DRIVER the host
   * requests all six interfaces of driver.h, for HEDDLE_PLUGIN_ALLOCATOR heddle.allocator/1, for HEDDLE_PLUGIN_LIBRARY heddle.library/1; a
   * plugin without one of them is refused as incompatible. A function of a table may be NULL: the host then answers UNIMPLEMENTED in its
   * place, so a driver leaves out what it does not support. driver.h says which functions a host requires. [any] [no-block] */
  const void* (*get_interface)(heddle_plugin_instance_t* instance, heddle_string_t id);
} heddle_plugin_t;

/* The negotiation record (HD-E-02). The host fills its range; the plugin fills its own range, the chosen minor and, if it refuses, a
 * reason. */
typedef struct heddle_negotiation {
  uint32_t struct_size;
  uint32_t host_min_minor;
  uint32_t host_max_minor;
  uint32_t plugin_min_minor; /* out */
  uint32_t plugin_max_minor; /* out */
  uint32_t chosen_minor;     /* out: the highest that both have */
  uint32_t reason_size;      /* out: bytes used in reason, 0 unless refused */
  char reason[256];          /* out: not NUL-terminated */
} heddle_negotiation_t;

/* The only exported symbol. Pure: no allocation, no threads, no vendor library, no output (HD-E-02). Returns a static table, or NULL with a
 * reason if the ranges do not overlap. [any] [no-block] */
typedef const heddle_plugin_t* (*heddle_plugin_entry_fn_t)(heddle_negotiation_t* negotiation);
#define HEDDLE_PLUGIN_ENTRY heddle_plugin_entry_0
#define HEDDLE_PLUGIN_ENTRY_NAME "heddle_plugin_entry_0"

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_PLUGIN_H_ */
