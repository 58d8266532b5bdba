/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The interface from libheddle_validation.so to libheddle: functions that are called between the core and a plugin and check every call in both directions, and
 * functions that inspect values. Opened by core/host/validation.cpp if the configuration requests it; it uses only the tables of the public headers.
 *
 * Internal: both libraries must have the same version, which heddle_validation_entry checks. */
#ifndef HEDDLE_CORE_VALIDATION_LAYER_H_
#define HEDDLE_CORE_VALIDATION_LAYER_H_

#include "heddle/allocator.h"
#include "heddle/driver.h"
#include "heddle/ext/library.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_VALIDATION_LIBRARY "libheddle_validation.so"
#define HEDDLE_VALIDATION_ENTRY_NAME "heddle_validation_entry"
#define HEDDLE_VALIDATION_VERSION 4u /* changes with this header and with every table of the public ones */

#define HEDDLE_VALIDATION_NAN 1u
#define HEDDLE_VALIDATION_INF 2u

/* What is searched for in the values of regions, and where it is reported. Must outlive its use. */
typedef struct heddle_validation_rules {
  uint32_t struct_size;
  uint32_t kinds; /* bits HEDDLE_VALIDATION_*: values that stop a call */
  const heddle_string_t* patterns;
  uint64_t pattern_count; /* patterns of regions to dump */
  heddle_string_t folder; /* directory for dumps */
  void* log_context;
  void (*log)(void* log_context, uint32_t level, heddle_string_t message);
  heddle_status_t* (*status_create)(heddle_status_code_t code, heddle_string_t message);
} heddle_validation_rules_t;

/* A binding of a region, with its bytes. */
typedef struct heddle_validation_binding {
  uint32_t access;       /* 1 read, 2 written, 3 both */
  uint32_t element_type; /* HEDDLE_TYPE_UNDEFINED: unknown */
  const int64_t* dims;   /* -1: known only at the call */
  uint32_t rank;
  uint32_t reserved;
  uint64_t size_bytes;
  const void* before; /* NULL if the binding is only written */
  const void* after;  /* NULL if it is only read and its bytes are written through another binding */
} heddle_validation_binding_t;

/* One dispatch of a call. */
typedef struct heddle_validation_region {
  uint64_t call;
  uint32_t order; /* position of the dispatch in its call */
  uint32_t binding_count;
  heddle_string_t name;
  const heddle_validation_binding_t* bindings;
} heddle_validation_region_t;

typedef struct heddle_validation {
  uint32_t struct_size;
  uint32_t reserved;
  /* Replaces the api's tables by the layer's; the layer then records every object that is created through them. Call before the first device is opened. */
  void (*wrap_driver)(heddle_driver_api_t* api, heddle_string_t id);
  /* Replaces the functions of an allocator's table. */
  void (*wrap_allocator)(heddle_allocator_interface_t* table, heddle_plugin_instance_t* instance, const heddle_host_t* host,
                         heddle_string_t id);
  /* Shuts the instance down through the plugin's own function, which alone decides whether live objects make it fail. */
  heddle_status_t* (*shutdown)(heddle_plugin_instance_t* instance, heddle_status_t* (*own)(heddle_plugin_instance_t* instance));
  /* The results for the calls of a wrapped instance; `first` has the first texts of violations, separated by newlines and borrowed for the visit. */
  void (*report)(heddle_plugin_instance_t* instance,
                 void (*visit)(void* context, uint64_t calls, uint64_t violations, heddle_string_t first), void* context);
  /* 1 if the region's values must be passed to the two functions below. */
  uint32_t (*looks_at)(const heddle_validation_rules_t* rules, heddle_string_t region);
  /* Dumps what the region reads. */
  heddle_status_t* (*region_begins)(const heddle_validation_rules_t* rules, const heddle_validation_region_t* region);
  /* Dumps what it wrote. ABORTED for values that stop a call, unless it read such values too; INTERNAL if it wrote to a read-only binding. */
  heddle_status_t* (*region_ended)(const heddle_validation_rules_t* rules, const heddle_validation_region_t* region);
  /* Replaces functions of the table that a plugin is created with, to detect which of them an operation calls. Call before `create`; the table must stay
   * in place until the plugin's instance ends. */
  void (*wrap_host)(heddle_host_t* table);
  /* Replaces the functions of a library's table. */
  void (*wrap_library)(heddle_library_interface_t* table, heddle_plugin_instance_t* instance, const heddle_host_t* host,
                       heddle_string_t id);
} heddle_validation_t;

/* NULL if the version differs. */
typedef const heddle_validation_t* (*heddle_validation_entry_fn_t)(uint32_t version);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_CORE_VALIDATION_LAYER_H_ */
