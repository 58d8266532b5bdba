/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One operator in C, with the headers alone: org.example::Scale/1, y = x * factor, f32 of one shape. It shows every duty of a library plugin;
 * the C++ template leaves most of them to heddle/sdk/library.h. */
#include <fenv.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "heddle/ext/library.h"

#define TEXT(literal) {literal, sizeof literal - 1}

/* Replace both with your own; also replace the id in the manifest. */
#define ID "org.example.scale"
#define WHO "scale" /* begins every error text */

static const char kNeeds[] = ID " needs ABI 0.2 or newer; install a newer libheddle [HD-E-02]";

struct heddle_plugin_instance {
  const heddle_host_t* host;
  atomic_ullong operations;
};

struct heddle_operation {
  heddle_plugin_instance_t* instance;
  uint64_t elements;
  uint32_t shards;
  double factor;
};

static heddle_status_t* failure(const heddle_host_t* host, heddle_status_code_t code, const char* format, ...) {
  char text[400];
  heddle_string_t none = {NULL, 0}, message = {text, 0};
  va_list arguments;
  va_start(arguments, format);
  const int written = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  message.size = written < 0 ? 0 : (size_t)written < sizeof text ? (size_t)written : sizeof text - 1;
  return host->status_create(host->self, code, none, 0, message);
}

static int is(heddle_string_t text, const char* expected) {
  return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

static heddle_status_t* forked(const heddle_host_t* host) {
  if (!host->is_forked_child(host->self)) return NULL;
  return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION, WHO ": it was made before this process was forked [HD-T-01]");
}

/* Copies a caller's struct (HD-E-04): missing fields of a smaller one become zero; the unknown end of a larger one must be zero. */
static int read_struct(const void* in, void* out, size_t size) {
  uint32_t given;
  memcpy(&given, in, sizeof given);
  memset(out, 0, size);
  memcpy(out, in, given < size ? given : size);
  for (size_t i = size; i < given; ++i) {
    if (((const char*)in)[i] != 0) return 0;
  }
  return 1;
}

/* Fills a caller's struct up to its struct_size, which does not change. */
static void write_struct(const void* from, void* to) {
  uint32_t own, given;
  memcpy(&own, from, sizeof own);
  memcpy(&given, to, sizeof given);
  const size_t size = given < own ? given : own;
  if (size > sizeof given) memcpy((char*)to + sizeof given, (const char*)from + sizeof given, size - sizeof given);
}

/* Checks a request. NULL: it is supported, and *out describes the operation. */
static heddle_status_t* understand(const heddle_host_t* host, const heddle_operation_request_t* in, heddle_operation_t* out) {
  heddle_operation_request_t request;
  heddle_operand_t operands[2];
  heddle_attribute_t factor;
  if (!read_struct(in, &request, sizeof request)) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": the request has fields of a newer host that are not zero [HD-E-04]");
  }
  if (!is(request.domain, "org.example") || !is(request.name, "Scale") || request.version != 1) {
    return failure(host, HEDDLE_STATUS_NOT_FOUND, "there is no such operator; it has org.example::Scale/1 [HD-O-01]");
  }
  if (!is(request.target, HEDDLE_LIBRARY_TARGET_HOST)) {
    return failure(host, HEDDLE_STATUS_UNIMPLEMENTED, WHO ": it runs on " HEDDLE_LIBRARY_TARGET_HOST " only [HD-O-01]");
  }
  if (request.input_count != 1 || request.output_count != 1) {
    return failure(host, HEDDLE_STATUS_UNIMPLEMENTED, WHO ": it has one input and one output [HD-O-01]");
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const void* at = (const char*)request.operands + i * request.operand_stride;
    if (!read_struct(at, &operands[i], sizeof operands[i])) {
      return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": operand %u has fields of a newer host that are not zero [HD-E-04]", i);
    }
  }
  if (operands[0].element_type != HEDDLE_TYPE_F32 || operands[1].element_type != HEDDLE_TYPE_F32 || operands[0].rank != operands[1].rank ||
      (operands[0].rank && memcmp(operands[0].dims, operands[1].dims, operands[0].rank * sizeof(int64_t)) != 0)) {
    return failure(host, HEDDLE_STATUS_UNIMPLEMENTED, WHO ": x and y are not f32 of one shape [HD-O-01]");
  }
  int found = 0;
  for (uint32_t i = 0; i < request.attribute_count; ++i) {
    heddle_attribute_t attribute;
    if (!read_struct((const char*)request.attributes + i * request.attribute_stride, &attribute, sizeof attribute)) {
      return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": attribute %u has fields of a newer host that are not zero [HD-E-04]", i);
    }
    if (!is(attribute.name, "factor") || attribute.kind != HEDDLE_ATTRIBUTE_FLOAT) {
      return failure(host, HEDDLE_STATUS_UNIMPLEMENTED,
                     WHO ": attribute '%.*s' of kind %u is not known; 'factor' of kind %u, a float, was expected [HD-O-01]",
                     attribute.name.size < 100 ? (int)attribute.name.size : 100, attribute.name.data, attribute.kind,
                     HEDDLE_ATTRIBUTE_FLOAT);
    }
    factor = attribute;
    found = 1;
  }
  if (!found) return failure(host, HEDDLE_STATUS_UNIMPLEMENTED, WHO ": attribute 'factor' is missing [HD-O-01]");
  out->elements = 1;
  for (uint32_t i = 0; i < operands[0].rank; ++i) out->elements *= (uint64_t)operands[0].dims[i];
  out->factor = factor.floats[0];
  /* For a shard of less than a few thousand elements, distribution costs more than the work. */
  const uint64_t worth = out->elements / 2048 + 1, cores = request.compute_units ? request.compute_units : 1;
  out->shards = (uint32_t)(worth < cores ? worth : cores);
  return NULL;
}

static heddle_status_t* library_query(heddle_plugin_instance_t* instance, const heddle_operation_request_t* request,
                                      heddle_operation_properties_t* out) {
  heddle_operation_t operation;
  heddle_operation_properties_t properties;
  memset(&properties, 0, sizeof properties);
  properties.struct_size = sizeof properties;
  heddle_status_t* refused = forked(instance->host);
  if (!refused) refused = understand(instance->host, request, &operation);
  if (!refused) {
    properties.shard_count = operation.shards;
    properties.cost_ns = operation.elements / operation.shards / 4 + 1;
  }
  write_struct(&properties, out);
  return refused;
}

static heddle_status_t* library_prepare(heddle_plugin_instance_t* instance, const heddle_operation_request_t* request,
                                        heddle_operation_t** out) {
  const heddle_host_t* host = instance->host;
  heddle_operation_t operation;
  *out = NULL;
  heddle_status_t* refused = forked(host);
  if (!refused) refused = understand(host, request, &operation);
  if (refused) return refused;
  operation.instance = instance;
  heddle_operation_t* made = host->memory_allocate(host->self, sizeof *made, 8);
  if (!made) return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": preparing an operation failed: out of memory");
  *made = operation;
  atomic_fetch_add(&instance->operations, 1);
  *out = made;
  return NULL;
}

static void library_destroy(heddle_operation_t* operation) {
  if (!operation) return;
  heddle_plugin_instance_t* instance = operation->instance;
  const heddle_host_t* host = instance->host;
  if (host->is_forked_child(host->self)) return;
  host->memory_free(host->self, operation);
  atomic_fetch_sub(&instance->operations, 1);
}

/* Called from several threads at once: it reads the operation and its operands, and writes its part of y. It restores the caller's
 * floating-point environment, because the computation sets flags, for example that of an inexact result (HD-T-02). */
static heddle_status_t* library_enqueue(heddle_operation_t* operation, const heddle_operation_call_t* call) {
  heddle_status_t* refused = forked(operation->instance->host);
  if (refused) return refused;
  const float* x = call->operands[0];
  float* y = call->operands[1];
  fenv_t environment;
  fegetenv(&environment);
  const float factor = (float)operation->factor;
  const uint64_t each = (operation->elements + operation->shards - 1) / operation->shards;
  const uint64_t end = call->last_shard * each < operation->elements ? call->last_shard * each : operation->elements;
  for (uint64_t i = call->first_shard * each; i < end; ++i) y[i] = x[i] * factor;
  fesetenv(&environment);
  return NULL;
}

static heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) {
  *out = NULL;
  heddle_plugin_instance_t* instance = host->memory_allocate(host->self, sizeof *instance, 8);
  if (!instance) return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": creating an instance failed: out of memory");
  instance->host = host;
  atomic_init(&instance->operations, 0);
  *out = instance;
  return NULL;
}

static heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* instance) {
  const heddle_host_t* host = instance->host;
  heddle_status_t* refused = forked(host);
  if (refused) return refused;
  const unsigned long long live = atomic_load(&instance->operations);
  if (live) {
    return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                   WHO ": shutting down failed: %llu operations live; destroy them first [HD-L-01]", live);
  }
  host->memory_free(host->self, instance);
  return NULL;
}

static const void* plugin_get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) {
  static const heddle_library_interface_t table = {sizeof table, 0, library_query, library_prepare, library_destroy, library_enqueue};
  (void)instance;
  return is(id, HEDDLE_LIBRARY_INTERFACE) ? &table : NULL;
}

HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* record) {
  static const heddle_plugin_t plugin = {sizeof plugin, HEDDLE_PLUGIN_LIBRARY, TEXT(ID),        TEXT("0.1.0"),
                                         NULL,          plugin_create,         plugin_shutdown, plugin_get_interface};
  const uint32_t oldest = 2; /* the first minor with heddle.library/1 */
  const uint32_t highest = record->host_max_minor < HEDDLE_ABI_MINOR ? record->host_max_minor : HEDDLE_ABI_MINOR;
  const int agreed = highest >= record->host_min_minor && highest >= oldest;
  heddle_negotiation_t answer;
  memset(&answer, 0, sizeof answer);
  answer.struct_size = sizeof answer;
  answer.host_min_minor = record->host_min_minor;
  answer.host_max_minor = record->host_max_minor;
  answer.plugin_min_minor = oldest;
  answer.plugin_max_minor = HEDDLE_ABI_MINOR;
  answer.chosen_minor = agreed ? highest : 0;
  if (!agreed) {
    memcpy(answer.reason, kNeeds, sizeof kNeeds - 1);
    answer.reason_size = sizeof kNeeds - 1;
  }
  write_struct(&answer, record);
  return agreed ? &plugin : NULL;
}
