/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Statuses: the result of every function that can fail. NULL is success. All memory of statuses is libheddle's, so a status stays valid
 * when the plugin that reported it is unloaded (HD-S-01). Plugins use the functions of heddle_host_t (plugin.h), applications those below.
 * types.h explains the tags [any] and [no-block].
 *
 * Message: `<who>: <operation with values and units> failed: <cause>; <next step> [RULE]`, lower case, no final period. */
#ifndef HEDDLE_STATUS_H_
#define HEDDLE_STATUS_H_

#include "heddle/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The canonical codes, with the numbers that absl and gRPC use. */
#define HEDDLE_STATUS_OK 0u
#define HEDDLE_STATUS_CANCELLED 1u
#define HEDDLE_STATUS_UNKNOWN 2u
#define HEDDLE_STATUS_INVALID_ARGUMENT 3u
#define HEDDLE_STATUS_DEADLINE_EXCEEDED 4u
#define HEDDLE_STATUS_NOT_FOUND 5u
#define HEDDLE_STATUS_ALREADY_EXISTS 6u
#define HEDDLE_STATUS_PERMISSION_DENIED 7u
#define HEDDLE_STATUS_RESOURCE_EXHAUSTED 8u
#define HEDDLE_STATUS_FAILED_PRECONDITION 9u
#define HEDDLE_STATUS_ABORTED 10u
#define HEDDLE_STATUS_OUT_OF_RANGE 11u
#define HEDDLE_STATUS_UNIMPLEMENTED 12u
#define HEDDLE_STATUS_INTERNAL 13u
#define HEDDLE_STATUS_UNAVAILABLE 14u
#define HEDDLE_STATUS_DATA_LOSS 15u
#define HEDDLE_STATUS_UNAUTHENTICATED 16u
/* Specific to Heddle: the device's context is lost; every call on that device returns this code (HD-S-02). */
#define HEDDLE_STATUS_DEVICE_LOST 17u
typedef uint32_t heddle_status_code_t;

/* Code of a status; OK for NULL. [any] [no-block] */
HEDDLE_EXPORT heddle_status_code_t heddle_status_code(const heddle_status_t* status);
/* Message, borrowed until the status is freed; empty for NULL. [any] [no-block] */
HEDDLE_EXPORT heddle_string_t heddle_status_message(const heddle_status_t* status);
/* Domain of the native code ("errno", "cuda", ...), empty if there is none. [any] [no-block] */
HEDDLE_EXPORT heddle_string_t heddle_status_domain(const heddle_status_t* status);
/* The error code of that domain, 0 if there is none. [any] [no-block] */
HEDDLE_EXPORT int64_t heddle_status_native_code(const heddle_status_t* status);
/* The payload stored under `key`, empty if there is none; borrowed until the status is freed. The runtime keeps payloads when it adds to a
 * message. Its own keys are "region" (the number in the module, in decimal) and "region_name" when a kernel failed, "operator" when no
 * plugin offers an operator, "deadline" when a call missed its deadline, and "checks" when a wait timed out for a call that may fail late
 * (HEDDLE_CALL_LATE_CHECKS). [any] [no-block] */
HEDDLE_EXPORT heddle_string_t heddle_status_payload(const heddle_status_t* status, heddle_string_t key);
/* Name of a code, e.g. "NOT_FOUND"; static. [any] [no-block] */
HEDDLE_EXPORT heddle_string_t heddle_status_code_name(heddle_status_code_t code);
/* A new status with a copy of the message; NULL for OK. If there is no memory for it, a static RESOURCE_EXHAUSTED is returned.
 * For other libraries of Heddle, such as the compiler; plugins use heddle_host_t. [any] [no-block] */
HEDDLE_EXPORT heddle_status_t* heddle_status_create(heddle_status_code_t code, heddle_string_t message);
/* Frees a status that the caller owns; NULL is allowed. [any] [no-block] */
HEDDLE_EXPORT void heddle_status_free(heddle_status_t* status);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_STATUS_H_ */
