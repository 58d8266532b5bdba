/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An allocator in C, with the headers alone: each block is a block of the provider, and returns there when its points are reached. It shows every
 * duty of an allocator with the simplest policy; the C++ template divides larger buffers into blocks. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "heddle/allocator.h"

/* Replace both with your own; also replace the id in the manifest. */
#define ID "org.example.system"
#define WHO "system" /* begins every error text */

#define TEXT(literal) {literal, sizeof(literal) - 1}

struct heddle_plugin_instance {
  const heddle_host_t* host;
  pthread_mutex_t mutex; /* guards allocators */
  uint64_t allocators;
};

typedef struct owner {
  struct owner* next;
  heddle_holder_t holds;
} owner_t;

typedef struct block {
  struct block* next; /* in the list of blocks that wait for points */
  heddle_block_t below;
  owner_t* owner;
  uint32_t point_count;
  heddle_point_t points[]; /* not reached when the block was freed */
} block_t;

struct heddle_allocator {
  heddle_plugin_instance_t* instance;
  const heddle_provider_t* provider;
  heddle_string_t name;  /* a copy, after this struct */
  pthread_mutex_t mutex; /* guards all members below */
  block_t* waiting;
  owner_t* owners; /* of all past and present blocks */
  uint64_t live;
  heddle_allocator_statistics_t statistics;
};

static void add(heddle_memory_count_t* count, uint64_t bytes) {
  count->current += bytes;
  count->total += bytes;
  if (count->peak < count->current) count->peak = count->current;
}

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

static heddle_status_t* forked(const heddle_host_t* host) {
  return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION, WHO ": a call in a forked child failed; make the pool again there [HD-T-01]");
}

/* Copies a caller's struct: missing fields of a smaller one become zero; the unknown end of a larger one must be zero (HD-E-04). */
static heddle_status_t* read_struct(const heddle_host_t* host, const char* what, const void* in, void* out, uint32_t size) {
  uint32_t given;
  memcpy(&given, in, sizeof given);
  memset(out, 0, size);
  memcpy(out, in, given < size ? given : size);
  memcpy(out, &size, sizeof size);
  for (uint32_t i = size; i < given; ++i) {
    if (((const unsigned char*)in)[i]) {
      return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                     WHO ": reading %s failed: byte %u is set, which this version does not know [HD-E-04]", what, i);
    }
  }
  return NULL;
}

static heddle_status_t* allocator_create(heddle_plugin_instance_t* instance, const heddle_allocator_params_t* in,
                                         heddle_allocator_t** out) {
  const heddle_host_t* host = instance->host;
  heddle_allocator_params_t params;
  *out = NULL;
  if (host->is_forked_child(host->self)) return forked(host);
  heddle_status_t* bad = read_struct(host, "heddle_allocator_params_t", in, &params, sizeof params);
  if (bad) return bad;
  if (!params.provider || !HEDDLE_HAS(params.provider, reached)) { /* the last function that this allocator calls */
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                   WHO ": creating an allocator failed: no provider, or one without a function [HD-E-04]");
  }
  heddle_allocator_t* made = host->memory_allocate(host->self, sizeof *made + params.name.size, 16);
  if (!made) return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": creating an allocator failed: host memory is exhausted");
  memset(made, 0, sizeof *made);
  made->instance = instance;
  made->provider = params.provider;
  made->name.data = (char*)(made + 1);
  made->name.size = params.name.size;
  if (params.name.size) memcpy(made + 1, params.name.data, params.name.size);
  pthread_mutex_init(&made->mutex, NULL);
  pthread_mutex_lock(&instance->mutex);
  ++instance->allocators;
  pthread_mutex_unlock(&instance->mutex);
  *out = made;
  return NULL;
}

static void give_back(heddle_allocator_t* allocator, block_t* block) {
  const heddle_host_t* host = allocator->instance->host;
  const uint64_t size = block->below.length;
  pthread_mutex_lock(&allocator->mutex);
  allocator->statistics.active.current -= size;
  allocator->statistics.bytes_reserved.current -= size;
  pthread_mutex_unlock(&allocator->mutex);
  allocator->provider->free(allocator->provider->self, &block->below, block->points, block->point_count);
  host->memory_free(host->self, block);
}

static int is_reached(heddle_allocator_t* allocator, const block_t* block) {
  for (uint32_t i = 0; i < block->point_count; ++i) {
    if (!allocator->provider->reached(allocator->provider->self, block->points[i])) return 0;
  }
  return 1;
}

/* Returns waiting blocks whose points are reached. */
static void collect(heddle_allocator_t* allocator) {
  block_t* done = NULL;
  pthread_mutex_lock(&allocator->mutex);
  for (block_t** link = &allocator->waiting; *link;) {
    block_t* block = *link;
    if (!is_reached(allocator, block)) {
      link = &block->next;
      continue;
    }
    *link = block->next;
    block->next = done;
    done = block;
  }
  pthread_mutex_unlock(&allocator->mutex);
  while (done) {
    block_t* next = done->next;
    give_back(allocator, done);
    done = next;
  }
}

/* A status whose text ends in a table of the owners; the caller has the lock, or no other call uses the allocator. */
static heddle_status_t* held_failure(const heddle_allocator_t* allocator, heddle_status_code_t code, const char* format, ...) {
  const heddle_host_t* host = allocator->instance->host;
  char text[2000];
  heddle_string_t none = {NULL, 0}, message = {text, 0};
  va_list arguments;
  va_start(arguments, format);
  int written = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (const owner_t* owner = allocator->owners; written >= 0; owner = owner->next) {
    message.size += (size_t)written;
    if (message.size >= sizeof text) message.size = sizeof text - 1;
    while (owner && owner->holds.blocks == 0) owner = owner->next;
    if (!owner) break;
    const heddle_string_t name = owner->holds.owner;
    written = snprintf(text + message.size, sizeof text - message.size, "\n  %15llu bytes in %7llu block%s %.*s",
                       (unsigned long long)owner->holds.requested.current, (unsigned long long)owner->holds.blocks,
                       owner->holds.blocks == 1 ? " :" : "s:", name.size ? (int)name.size : 13, name.size ? name.data : "unknown owner");
  }
  return host->status_create(host->self, code, none, 0, message);
}

static heddle_status_t* allocator_destroy(heddle_allocator_t* allocator) {
  if (!allocator) return NULL;
  heddle_plugin_instance_t* instance = allocator->instance;
  const heddle_host_t* host = instance->host;
  if (host->is_forked_child(host->self)) return forked(host);
  if (allocator->live) {
    return held_failure(allocator, HEDDLE_STATUS_FAILED_PRECONDITION,
                        WHO ": destroying '%.*s' failed: %llu block%s; free what is left first [HD-L-01]", (int)allocator->name.size,
                        allocator->name.data, (unsigned long long)allocator->live, allocator->live == 1 ? " lives" : "s live");
  }
  while (allocator->waiting) { /* the provider waits for their points */
    block_t* block = allocator->waiting;
    allocator->waiting = block->next;
    give_back(allocator, block);
  }
  while (allocator->owners) {
    owner_t* owner = allocator->owners;
    allocator->owners = owner->next;
    host->memory_free(host->self, owner);
  }
  pthread_mutex_destroy(&allocator->mutex);
  host->memory_free(host->self, allocator);
  pthread_mutex_lock(&instance->mutex);
  --instance->allocators;
  pthread_mutex_unlock(&instance->mutex);
  return NULL;
}

/* The counters of an owner; NULL when host memory is exhausted. */
static owner_t* owner_of(heddle_allocator_t* allocator, const heddle_string_t* name) {
  const heddle_host_t* host = allocator->instance->host;
  const heddle_string_t none = {NULL, 0}, wanted = name ? *name : none;
  pthread_mutex_lock(&allocator->mutex);
  owner_t* owner = allocator->owners;
  while (owner && (owner->holds.owner.size != wanted.size || (wanted.size && memcmp(owner->holds.owner.data, wanted.data, wanted.size)))) {
    owner = owner->next;
  }
  if (!owner && (owner = host->memory_allocate(host->self, sizeof *owner, 16))) {
    memset(owner, 0, sizeof *owner);
    owner->holds.owner = wanted;
    owner->next = allocator->owners;
    allocator->owners = owner;
  }
  pthread_mutex_unlock(&allocator->mutex);
  return owner;
}

static heddle_status_t* allocator_allocate(heddle_allocator_t* allocator, const heddle_block_params_t* in, heddle_block_t* out,
                                           heddle_point_t* out_waits, uint32_t* out_wait_count) {
  const heddle_host_t* host = allocator->instance->host;
  heddle_block_params_t params;
  (void)out_waits; /* blocks are always usable at once */
  memset(out, 0, sizeof *out);
  *out_wait_count = 0;
  if (host->is_forked_child(host->self)) return forked(host);
  heddle_status_t* bad = read_struct(host, "heddle_block_params_t", in, &params, sizeof params);
  if (bad) return bad;
  const uint64_t alignment = params.alignment_bytes ? params.alignment_bytes : 64;
  if (alignment & (alignment - 1)) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": allocating %llu bytes failed: alignment %llu is no power of two",
                   (unsigned long long)params.size_bytes, (unsigned long long)alignment);
  }
  params.after.timeline = NULL; /* its blocks have no points to wait for, at any position of the caller */
  params.wait_capacity = 0;
  collect(allocator);
  block_t* block = host->memory_allocate(host->self, sizeof *block, 16);
  if (!block) return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": allocating a block failed: host memory is exhausted");
  memset(block, 0, sizeof *block);
  block->owner = owner_of(allocator, params.owner);
  if (!block->owner) {
    host->memory_free(host->self, block);
    return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": allocating a block failed: host memory is exhausted");
  }
  const heddle_provider_t* provider = allocator->provider;
  bad = provider->allocate(provider->self, &params, &block->below, NULL, out_wait_count);
  const int again = bad && host->status_code(host->self, bad) == HEDDLE_STATUS_RESOURCE_EXHAUSTED;
  if (again) { /* after a trim, free memory of the provider may be contiguous (HD-M-03) */
    host->status_free(host->self, bad);
    collect(allocator);
    bad = provider->trim(provider->self, 0);
    if (bad) host->status_free(host->self, bad);
    bad = provider->allocate(provider->self, &params, &block->below, NULL, out_wait_count);
  }
  pthread_mutex_lock(&allocator->mutex);
  heddle_allocator_statistics_t* statistics = &allocator->statistics;
  statistics->retries += again;
  if (!bad) {
    const uint64_t size = params.size_bytes;
    ++allocator->live;
    ++statistics->allocations;
    ++statistics->provider_allocations;
    add(&statistics->requested, size);
    add(&statistics->allocated, size);
    add(&statistics->active, size);
    add(&statistics->bytes_reserved, size);
    ++block->owner->holds.blocks;
    add(&block->owner->holds.requested, size);
  } else if (host->status_code(host->self, bad) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) {
    heddle_status_t* cause = bad;
    const heddle_string_t text = host->status_message(host->self, cause);
    const char* end = text.size ? memchr(text.data, '\n', text.size) : NULL;
    ++statistics->exhaustions;
    bad = held_failure(allocator, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                       WHO ": allocating %llu bytes from '%.*s' failed: %.*s; use less [HD-M-03]", (unsigned long long)params.size_bytes,
                       (int)allocator->name.size, allocator->name.data, (int)(end ? (size_t)(end - text.data) : text.size), text.data);
    host->status_free(host->self, cause);
  }
  pthread_mutex_unlock(&allocator->mutex);
  if (bad) {
    host->memory_free(host->self, block);
    return bad;
  }
  *out = block->below;
  out->token = (uint64_t)(uintptr_t)block;
  return NULL;
}

static void allocator_free(heddle_allocator_t* allocator, const heddle_block_t* handed, const heddle_point_t* points, uint32_t count) {
  if (!handed || !handed->token) return;
  const heddle_host_t* host = allocator->instance->host;
  if (host->is_forked_child(host->self)) return;
  block_t* block = (block_t*)(uintptr_t)handed->token;
  uint32_t pending = 0;
  for (uint32_t i = 0; i < count; ++i) pending += !allocator->provider->reached(allocator->provider->self, points[i]);
  pthread_mutex_lock(&allocator->mutex);
  --allocator->live;
  ++allocator->statistics.frees;
  allocator->statistics.requested.current -= block->below.length;
  allocator->statistics.allocated.current -= block->below.length;
  --block->owner->holds.blocks;
  block->owner->holds.requested.current -= block->below.length;
  pthread_mutex_unlock(&allocator->mutex);
  if (pending == 0) {
    give_back(allocator, block);
    return;
  }
  block_t* larger = host->memory_allocate(host->self, sizeof *larger + count * sizeof *points, 16);
  if (!larger) { /* its points cannot be stored, so the block must never be reused: log it and leak the block */
    static const char message[] = WHO ": host memory is exhausted, so a block is never returned";
    heddle_string_t file = TEXT("allocator.c"), text = TEXT(message);
    host->log(host->self, HEDDLE_LOG_ERROR, file, __LINE__, text);
    return;
  }
  *larger = *block;
  larger->point_count = count;
  memcpy(larger->points, points, count * sizeof *points);
  host->memory_free(host->self, block);
  pthread_mutex_lock(&allocator->mutex);
  larger->next = allocator->waiting;
  allocator->waiting = larger;
  pthread_mutex_unlock(&allocator->mutex);
}

static heddle_status_t* allocator_statistics(heddle_allocator_t* allocator, heddle_allocator_statistics_t* out) {
  const uint32_t size = out->struct_size;
  pthread_mutex_lock(&allocator->mutex);
  heddle_allocator_statistics_t values = allocator->statistics;
  pthread_mutex_unlock(&allocator->mutex);
  values.struct_size = size;
  memcpy(out, &values, size < sizeof values ? size : sizeof values);
  return NULL;
}

static heddle_status_t* allocator_trim(heddle_allocator_t* allocator, uint64_t keep_bytes) {
  const heddle_host_t* host = allocator->instance->host;
  if (host->is_forked_child(host->self)) return forked(host);
  collect(allocator); /* no other memory is kept */
  return allocator->provider->trim(allocator->provider->self, keep_bytes);
}

static heddle_status_t* allocator_holders(heddle_allocator_t* allocator, heddle_holder_visitor_t visit, void* context) {
  const heddle_host_t* host = allocator->instance->host;
  if (host->is_forked_child(host->self)) return forked(host);
  pthread_mutex_lock(&allocator->mutex);
  for (const owner_t* owner = allocator->owners; owner; owner = owner->next) {
    if (owner->holds.blocks) visit(context, &owner->holds);
  }
  pthread_mutex_unlock(&allocator->mutex);
  return NULL;
}

static heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) {
  *out = host->memory_allocate(host->self, sizeof **out, 16);
  if (!*out) return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": creating an instance failed: host memory is exhausted");
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  pthread_mutex_init(&(*out)->mutex, NULL);
  return NULL;
}

static heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* instance) {
  const heddle_host_t* host = instance->host;
  if (host->is_forked_child(host->self)) return forked(host);
  if (instance->allocators) {
    return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION, WHO ": shutting down failed: %llu pools live; destroy them first [HD-L-01]",
                   (unsigned long long)instance->allocators);
  }
  pthread_mutex_destroy(&instance->mutex);
  host->memory_free(host->self, instance);
  return NULL;
}

static const void* plugin_get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) {
  static const heddle_allocator_interface_t table = {
      sizeof table,     0, allocator_create, allocator_destroy, allocator_allocate, allocator_free, allocator_statistics, allocator_trim,
      allocator_holders};
  (void)instance;
  return id.size == sizeof HEDDLE_ALLOCATOR_INTERFACE - 1 && memcmp(id.data, HEDDLE_ALLOCATOR_INTERFACE, id.size) == 0 ? &table : NULL;
}

HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* record) {
  static const heddle_plugin_t plugin = {sizeof plugin, HEDDLE_PLUGIN_ALLOCATOR, TEXT(ID),        TEXT("0.1.0"),
                                         NULL,          plugin_create,           plugin_shutdown, plugin_get_interface};
  const uint32_t highest = record->host_max_minor < HEDDLE_ABI_MINOR ? record->host_max_minor : HEDDLE_ABI_MINOR;
  const int agreed = highest >= record->host_min_minor && highest >= HEDDLE_ABI_MIN_MINOR;
  heddle_negotiation_t answer;
  memset(&answer, 0, sizeof answer);
  answer.struct_size = record->struct_size;
  answer.host_min_minor = record->host_min_minor;
  answer.host_max_minor = record->host_max_minor;
  answer.plugin_min_minor = HEDDLE_ABI_MIN_MINOR;
  answer.plugin_max_minor = HEDDLE_ABI_MINOR;
  answer.chosen_minor = agreed ? highest : 0;
  if (!agreed) {
    static const char reason[] = ID " speaks another minor of the ABI; install a version of either that overlaps [HD-E-02]";
    memcpy(answer.reason, reason, sizeof reason - 1);
    answer.reason_size = sizeof reason - 1;
  }
  memcpy(record, &answer, answer.struct_size < sizeof answer ? answer.struct_size : sizeof answer);
  return agreed ? &plugin : NULL;
}
