/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What libheddle_validation.so gives to libheddle: functions that stand between the core and a plugin and check every call in both directions, and what
 * looks into values. Opened by core/host/validation.cpp when the configuration asks for it; it sees the tables of the public headers only.
 *
 * Not for others: both libraries are of one version, which heddle_validation_entry compares. */
#ifndef HEDDLE_CORE_VALIDATION_LAYER_H_
#define HEDDLE_CORE_VALIDATION_LAYER_H_

#include "heddle/allocator.h"
#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_VALIDATION_LIBRARY "libheddle_validation.so"
#define HEDDLE_VALIDATION_ENTRY_NAME "heddle_validation_entry"
#define HEDDLE_VALIDATION_VERSION 1u /* changes with this header and with every table of the public ones */

#define HEDDLE_VALIDATION_NAN 1u
#define HEDDLE_VALIDATION_INF 2u

/* What a scan of values found. */
typedef struct heddle_validation_found {
  uint64_t count; /* 0: nothing */
  uint64_t first; /* index of the first element */
  uint32_t kind;  /* HEDDLE_VALIDATION_NAN or _INF of the first */
  uint32_t reserved;
} heddle_validation_found_t;

typedef struct heddle_validation {
  uint32_t struct_size;
  uint32_t reserved;
  /* Points the api's tables to the layer's; every object made through them from then on is known. Before the first device is opened. */
  void (*wrap_driver)(heddle_driver_api_t* api, heddle_string_t id);
  /* Replaces the functions of an allocator's table. */
  void (*wrap_allocator)(heddle_allocator_interface_t* table, heddle_plugin_instance_t* instance, const heddle_host_t* host,
                         heddle_string_t id);
  /* Ends the instance through the plugin's own function, which stays the only one that fails where objects live. */
  heddle_status_t* (*shutdown)(heddle_plugin_instance_t* instance, heddle_status_t* (*own)(heddle_plugin_instance_t* instance));
  /* What became of the calls of an instance that was wrapped; `first` are the first texts of violations, with newlines between, borrowed for the visit. */
  void (*report)(heddle_plugin_instance_t* instance,
                 void (*visit)(void* context, uint64_t calls, uint64_t violations, heddle_string_t first), void* context);
  /* Looks for what `kinds` says in `size_bytes` of elements of that type; nothing is found in types that have no such values. */
  heddle_validation_found_t (*scan)(heddle_element_type_t type, const void* data, uint64_t size_bytes, uint32_t kinds);
  /* Writes a .npy file that appears under its name when it is whole. What NumPy has no type for is written as its bytes. The text of what is wrong goes
   * to `wrong`, of at most `capacity` bytes with the NUL; returns 0 then. */
  uint32_t (*dump)(const char* path, heddle_element_type_t type, const int64_t* dims, uint32_t rank, const void* data, uint64_t size_bytes,
                   char* wrong, uint64_t capacity);
} heddle_validation_t;

/* NULL for another version. */
typedef const heddle_validation_t* (*heddle_validation_entry_fn_t)(uint32_t version);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_CORE_VALIDATION_LAYER_H_ */
