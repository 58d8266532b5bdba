/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What all Heddle headers share: versions, strings, element types, handles, thread tags.
 * Included by all other headers; depends on none of them.
 *
 * Glossary
 *   host      a copy of libheddle in a process: it loads plugins
 *   plugin    a shared library with one exported entry; a driver, an allocator, a library of operations, or several of these
 *   driver    a plugin that opens devices of one kind
 *   handle    a pointer to an opaque object; owned by the receiver if a create, open or load function returned it
 *   timeline  a counter that only grows, from 0 to HEDDLE_TIMELINE_MAX_VALUE, which submitted work waits for and signals
 *   point     (timeline, value): reached when the timeline's counter is at least the value
 *
 * Thread tags, used in every function's comment
 *   [any]            callable from any thread at any time, also concurrently on the same object
 *   [serial:object]  callable from any thread, but not concurrently with another serial call on the same object; [serial:plugin]: nor
 *                    on the same plugin; but a process may have several hosts, which do not wait for one another
 *   [no-block]       returns without waiting for a device, a file or another thread; may hold a lock briefly
 *   [may-block]      may wait for a device, a file or the system
 *   [callback]       called by a plugin or by the host on a thread of its own choice; must return quickly and must not call
 *                    back into the object that called it, except where the comment says so
 *   A function that ends an object (free, close, destroy, unload, shutdown) is never called concurrently with another call on that object,
 *   whatever its tag.
 *
 * Struct rules (HD-E-04)
 *   A struct that crosses the boundary by pointer starts with `uint32_t struct_size`, which the caller sets to the sizeof that it was compiled
 *   with. Fields are only ever appended. A callee reads at most struct_size bytes and takes missing fields as zero; it
 *   writes at most the caller's struct_size. Structs without struct_size never change.
 *   Flags and enumerations are uint32_t with named constants; booleans are uint32_t 0 or 1. */
#ifndef HEDDLE_TYPES_H_
#define HEDDLE_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ABI version. The major is part of the entry symbol's name (HD-E-01). A plugin and a host work together if the ranges of minors
 * that they support overlap; a host built with these headers supports HEDDLE_ABI_MIN_MINOR to HEDDLE_ABI_MINOR. */
#define HEDDLE_ABI_MAJOR 0
#define HEDDLE_ABI_MINOR 3
#define HEDDLE_ABI_MIN_MINOR 1

/* True if the other side's struct or table is long enough to contain the member (a function, a pointer or a number), and the member is not 0.
 * With this, members added in a later minor version are used only if the other side has them. Since ABI 0.2. */
#define HEDDLE_HAS(object, member) \
  ((object)->struct_size >= (uint64_t)((const char*)(&(object)->member + 1) - (const char*)(object)) && (object)->member)

#if defined(__GNUC__)
#define HEDDLE_EXPORT __attribute__((visibility("default")))
#else
#define HEDDLE_EXPORT
#endif

/* UTF-8 text, not NUL-terminated; borrowed for the duration of the call unless a comment says otherwise. Frozen. */
typedef struct heddle_string {
  const char* data;
  uint64_t size; /* bytes */
} heddle_string_t;

/* Element types. The low byte of the value is the index, the second byte the width of one element in bits (types of less than a byte are
 * packed, lowest bits first). F8E4M3 is the type that ONNX calls FLOAT8E4M3FN: it has no infinities. */
#define HEDDLE_TYPE_UNDEFINED 0u
#define HEDDLE_TYPE_BOOL 0x0801u /* one byte, 0 or 1 */
#define HEDDLE_TYPE_I4 0x0402u
#define HEDDLE_TYPE_U4 0x0403u
#define HEDDLE_TYPE_I8 0x0804u
#define HEDDLE_TYPE_U8 0x0805u
#define HEDDLE_TYPE_I16 0x1006u
#define HEDDLE_TYPE_U16 0x1007u
#define HEDDLE_TYPE_I32 0x2008u
#define HEDDLE_TYPE_U32 0x2009u
#define HEDDLE_TYPE_I64 0x400Au
#define HEDDLE_TYPE_U64 0x400Bu
#define HEDDLE_TYPE_F16 0x100Cu
#define HEDDLE_TYPE_BF16 0x100Du
#define HEDDLE_TYPE_F32 0x200Eu
#define HEDDLE_TYPE_F64 0x400Fu
#define HEDDLE_TYPE_F8E4M3 0x0810u
#define HEDDLE_TYPE_F8E5M2 0x0811u
typedef uint32_t heddle_element_type_t;
/* Width of one element in bits. */
#define HEDDLE_TYPE_BITS(type) (((type) >> 8) & 0xFFu)

/* Maximum number of dimensions of a tensor. */
#define HEDDLE_MAX_RANK 16u

/* Driver objects. The first word of each is `const heddle_driver_api_t* api`, which the driver copies from the object's parent; for a
 * device it comes from heddle_device_open_params_t (HD-H-01). It is the host's copy of the driver's table, at full size, with NULL for
 * functions that the driver lacks. So a call through any handle needs no lookup, no check of struct_size and no lock. */
typedef struct heddle_device heddle_device_t;
typedef struct heddle_queue heddle_queue_t;
typedef struct heddle_buffer heddle_buffer_t;
typedef struct heddle_timeline heddle_timeline_t;
typedef struct heddle_executable heddle_executable_t;
typedef struct heddle_entry heddle_entry_t; /* a kernel of a loaded executable; lives as long as the executable */
typedef struct heddle_recording heddle_recording_t;
typedef struct heddle_file heddle_file_t;

/* An operation of a library plugin (ext/library.h). Only the plugin knows its contents, and it has no `api` as its first word. */
typedef struct heddle_operation heddle_operation_t;

/* A status; NULL is success (status.h). */
typedef struct heddle_status heddle_status_t;

/* A point on a timeline. Frozen. */
typedef struct heddle_point {
  heddle_timeline_t* timeline;
  uint64_t value;
} heddle_point_t;

/* Largest value of a point; drivers may use the two bits above it. A larger value is OUT_OF_RANGE or INVALID_ARGUMENT. */
#define HEDDLE_TIMELINE_MAX_VALUE ((UINT64_C(1) << 62) - 1)

#define HEDDLE_TIMEOUT_INFINITE UINT64_MAX /* nanoseconds; waits without limit */

/* Log levels. */
#define HEDDLE_LOG_TRACE 0u
#define HEDDLE_LOG_DEBUG 1u
#define HEDDLE_LOG_INFO 2u
#define HEDDLE_LOG_WARN 3u
#define HEDDLE_LOG_ERROR 4u
#define HEDDLE_LOG_OFF 5u

#ifdef __cplusplus
} /* extern "C" */
#endif
/* Since ABI 0.3. Of ONNX: FLOAT8E4M3FNUZ, FLOAT8E5M2FNUZ, FLOAT8E8M0 (powers of 2, without a sign), FLOAT4E2M1, INT2 and UINT2. */
#define HEDDLE_TYPE_F8E4M3FNUZ 0x0812u
#define HEDDLE_TYPE_F8E5M2FNUZ 0x0813u
#define HEDDLE_TYPE_F8E8M0 0x0814u
#define HEDDLE_TYPE_F4E2M1 0x0415u
#define HEDDLE_TYPE_I2 0x0216u
#define HEDDLE_TYPE_U2 0x0217u
#endif /* HEDDLE_TYPES_H_ */
