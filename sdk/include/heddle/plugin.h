/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What makes a shared library a Heddle plugin: one exported entry, a negotiation, a plugin table, interfaces by id.
 * Read by plugin authors first; driver.h, allocator.h and ext/library.h hold the interfaces themselves.
 *
 * Life of a plugin
 *   entry (pure) -> probe -> create -> get_interface ... -> shutdown. All tables and strings a plugin returns live as long as
 *   the library stays loaded: until the process ends, unless load.unloadable of its manifest says otherwise (HD-L-02).
 *
 * Tables lie in the plugin's library: the plugin table, its two strings (at most 256 bytes each), interface tables, and the functions they
 * name must be in mapped segments of a loaded library, tables readable and aligned to 8 bytes, functions executable. Static data is; memory
 * from an allocator is not, and such a plugin is refused as incompatible. The host copies tables when it makes an instance: what changes in them
 * later is not seen.
 *
 * Shared preconditions
 *   Pointers are non-NULL unless a comment allows it. Functions that end an object accept NULL and do nothing; shutdown alone is never given it.
 *   In a submission, missing buffers, timelines and arrays are INVALID_ARGUMENT.
 *   Where a function fails, what it gives by pointer to pointer is NULL; a struct or a number that it was to fill is unspecified, unless a
 *   comment says otherwise (query of heddle.timeline/1 does). */
#ifndef HEDDLE_PLUGIN_H_
#define HEDDLE_PLUGIN_H_

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A plugin's own state, made by create. */
typedef struct heddle_plugin_instance heddle_plugin_instance_t;

/* Log levels. */
#define HEDDLE_LOG_TRACE 0u
#define HEDDLE_LOG_DEBUG 1u
#define HEDDLE_LOG_INFO 2u
#define HEDDLE_LOG_WARN 3u
#define HEDDLE_LOG_ERROR 4u
#define HEDDLE_LOG_OFF 5u

/* Kinds of a configuration value. */
#define HEDDLE_OPTION_INT 1u
#define HEDDLE_OPTION_BOOL 2u
#define HEDDLE_OPTION_FLOAT 3u
#define HEDDLE_OPTION_STRING 4u

/* One typed configuration value: an option of the manifest's [options], with its default or with what heddle.toml says. No environment variable
 * sets one. */
typedef struct heddle_option {
  uint32_t struct_size;
  uint32_t kind;        /* HEDDLE_OPTION_*; type = "bytes" of a manifest arrives as HEDDLE_OPTION_INT */
  heddle_string_t name; /* lives as long as the host's table, as does string_value; in heddle_allocator_params_t, for the call */
  int64_t int_value;    /* of INT, and 0 or 1 of BOOL; else 0 */
  double float_value;   /* of FLOAT; else 0 */
  heddle_string_t string_value;
} heddle_option_t;

/* The host's table, given to probe and create: in probe valid until it returns; from create on until shutdown succeeds, or create fails. Every
 * function is [any]. */
typedef struct heddle_host heddle_host_t;
struct heddle_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* the chosen one */
  void* self;         /* passed back as the first argument of every function below */

  /* Memory of the host's allocator. alignment: power of two, at least 8. NULL when exhausted; freeing NULL is allowed.
   * [any] [no-block], as are all functions of this table */
  void* (*memory_allocate)(void* self, uint64_t size_bytes, uint64_t alignment_bytes);
  void (*memory_free)(void* self, void* memory);

  /* A new status with its text copied; owned by the caller. domain may be empty. Never NULL: when memory is
   * exhausted it is one static RESOURCE_EXHAUSTED (HD-S-01). [any] [no-block] */
  heddle_status_t* (*status_create)(void* self, heddle_status_code_t code, heddle_string_t domain, int64_t native_code,
                                    heddle_string_t message);
  /* Files `value` under `key`, both copied; nothing for NULL. Before the status is given away. Of several under one key the last counts.
   * [any] [no-block] */
  void (*status_set_payload)(void* self, heddle_status_t* status, heddle_string_t key, heddle_string_t value);
  /* A second reference to the same status; owned by the caller. NULL gives NULL. [any] [no-block] */
  heddle_status_t* (*status_clone)(void* self, const heddle_status_t* status);
  /* OK for NULL. [any] [no-block] */
  heddle_status_code_t (*status_code)(void* self, const heddle_status_t* status);
  /* Borrowed until the status is freed; empty for NULL. [any] [no-block] */
  heddle_string_t (*status_message)(void* self, const heddle_status_t* status);
  /* One reference; NULL is allowed. [any] [no-block] */
  void (*status_free)(void* self, heddle_status_t* status);

  /* Lowest level that anyone listens to for this plugin; test it before formatting. [any] [no-block] */
  uint32_t (*log_level)(void* self);
  void (*log)(void* self, uint32_t level, heddle_string_t file, uint32_t line, heddle_string_t message);

  /* Trace events of the calling thread; `name` is copied. [any] [no-block] */
  void (*trace_begin)(void* self, heddle_string_t category, heddle_string_t name);
  void (*trace_end)(void* self);
  void (*trace_counter)(void* self, heddle_string_t name, int64_t value);

  /* Runs function(context) once on a thread of the host, perhaps before this returns. On a failure it is not run: UNAVAILABLE while the host
   * shuts down. `function` may block, but the threads are few (one to four) and shared by all plugins: what waits for long takes a thread of its
   * own, and what a queue has accepted gets on without it, since all of them may be waiting for that. It throws nothing. The plugin sees to it
   * that all of it is over before shutdown returns. [any] [no-block] */
  heddle_status_t* (*execute)(void* self, void (*function)(void* context), void* context);

  /* The plugin's option of that name; NOT_FOUND if the manifest does not declare it. [any] [no-block] */
  heddle_status_t* (*option)(void* self, heddle_string_t name, heddle_option_t* out_option);

  /* Monotonic clock in nanoseconds, the same one that timeouts and traces use. [any] [no-block] */
  uint64_t (*clock_ns)(void* self);

  /* 1 in a child forked after the host started: handles answer FAILED_PRECONDITION there and releases do
   * nothing (HD-T-01). [any] [no-block] */
  uint32_t (*is_forked_child)(void* self);
};

/* What probe found out. */
#define HEDDLE_PROBE_AVAILABLE 0u
#define HEDDLE_PROBE_NO_DEVICE 1u
#define HEDDLE_PROBE_MISSING_DEPENDENCY 2u
#define HEDDLE_PROBE_INCOMPATIBLE 3u /* e.g. a vendor driver too old */
#define HEDDLE_PROBE_NO_PERMISSION 4u

typedef struct heddle_probe_result {
  uint32_t struct_size;
  uint32_t verdict;      /* HEDDLE_PROBE_* */
  uint32_t device_count; /* devices that open would find now; 0 with another verdict than AVAILABLE */
  uint32_t reason_size;  /* bytes used in reason; not looked at with AVAILABLE */
  char reason[256];      /* what is missing and what to install or change; not NUL-terminated */
  uint32_t vendor_version_size;
  char vendor_version[64]; /* version of the vendor's driver, for the probe cache */
} heddle_probe_result_t;

/* What kind of plugin: bits. */
#define HEDDLE_PLUGIN_DRIVER 1u
#define HEDDLE_PLUGIN_ALLOCATOR 2u
#define HEDDLE_PLUGIN_LIBRARY 4u /* since ABI 0.2 */

/* The plugin table (HD-E-03). */
typedef struct heddle_plugin {
  uint32_t struct_size;
  uint32_t kind;           /* bits HEDDLE_PLUGIN_* */
  heddle_string_t id;      /* e.g. "heddle.cpu"; reverse DNS for third parties; "heddle.*" is reserved */
  heddle_string_t version; /* semantic version of the plugin itself */

  /* Looks whether the plugin could work here: opens the vendor's library (HD-B-02), counts devices. Runs in another process than create, or not
   * at all (its verdict is kept): nothing it opens or stores may be needed later; create opens the vendor's library again. Or in the same one,
   * where a configuration says so: it leaves nothing behind. A missing device or library is a verdict, not a failed status. NULL: always
   * AVAILABLE. [serial:plugin] [may-block] */
  heddle_status_t* (*probe)(const heddle_host_t* host, heddle_probe_result_t* out_result);
  /* Makes an instance, and is required. `host` stays valid until shutdown succeeds. No state is shared between instances (HD-E-06).
   * [serial:plugin] [may-block] */
  heddle_status_t* (*create)(const heddle_host_t* host, heddle_plugin_instance_t** out_instance);
  /* Ends an instance. With live children it fails with FAILED_PRECONDITION, lists them and changes nothing (HD-L-01). Private
   * threads are joined before it returns (HD-T-01). NULL: instances are never ended, and keep what they hold until the process ends.
   * [serial:instance] [may-block] */
  heddle_status_t* (*shutdown)(heddle_plugin_instance_t* instance);
  /* The table of an interface, e.g. "heddle.device/1"; NULL if the plugin does not have it. Static. Of a plugin whose kind has
   * HEDDLE_PLUGIN_DRIVER the host asks for all six interfaces of driver.h, of one with HEDDLE_PLUGIN_ALLOCATOR for heddle.allocator/1, of one
   * with HEDDLE_PLUGIN_LIBRARY for heddle.library/1; without one of them it is refused as incompatible. A function of a table may be NULL: the
   * host then answers UNIMPLEMENTED in its place, so that a driver leaves out what it cannot do; driver.h says what a host cannot do without.
   * [any] [no-block] */
  const void* (*get_interface)(heddle_plugin_instance_t* instance, heddle_string_t id);
} heddle_plugin_t;

/* The negotiation record (HD-E-02). The host fills its range; the plugin fills its own, the chosen minor and, on refusal, a reason. */
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

/* The one exported symbol. Pure: no allocation, no threads, no vendor library, no output (HD-E-02). Returns a static table, or
 * NULL with a reason when the ranges do not overlap. [any] [no-block] */
typedef const heddle_plugin_t* (*heddle_plugin_entry_fn_t)(heddle_negotiation_t* negotiation);
#define HEDDLE_PLUGIN_ENTRY heddle_plugin_entry_0
#define HEDDLE_PLUGIN_ENTRY_NAME "heddle_plugin_entry_0"

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_PLUGIN_H_ */
