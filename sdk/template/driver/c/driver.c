/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The sample driver in C: entry, devices, buffers, timelines. See driver.h. */
#define _GNU_SOURCE
#include "driver.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const uint64_t kMemory = (uint64_t)8 << 30, kAlignment = 64;
static const uint32_t kKinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;

heddle_status_t* failure(const heddle_host_t* host, heddle_status_code_t code, const char* format, ...) {
  char text[400];
  heddle_string_t none = {NULL, 0}, message = {text, 0};
  va_list arguments;
  va_start(arguments, format);
  const int written = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  message.size = written < 0 ? 0 : (size_t)written < sizeof text ? (size_t)written : sizeof text - 1;
  return host->status_create(host->self, code, none, 0, message);
}

heddle_status_t* no_memory(const heddle_host_t* host, const char* what) {
  return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": %s failed: host memory is exhausted [HD-S-01]", what);
}

heddle_status_t* read_struct(const heddle_host_t* host, const char* what, const void* in, void* out, uint32_t size) {
  uint32_t given;
  memcpy(&given, in, sizeof given);
  memset(out, 0, size);
  memcpy(out, in, given < size ? given : size);
  for (uint32_t i = size; i < given; ++i) {
    if (((const unsigned char*)in)[i]) {
      return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                     WHO ": reading %s failed: byte %u is set, which this version does not know [HD-E-04]", what, i);
    }
  }
  return NULL;
}

/* Fills a caller's struct up to its struct_size, which is the first field and does not change (HD-E-04). */
static void write_struct(const void* value, void* out, uint32_t size) {
  uint32_t given;
  memcpy(&given, out, sizeof given);
  if (given > sizeof given)
    memcpy((char*)out + sizeof given, (const char*)value + sizeof given, (given < size ? given : size) - sizeof given);
}

static heddle_status_t* forked(const heddle_host_t* host) {
  if (!host->is_forked_child(host->self)) return NULL;
  return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION, WHO ": a call in a forked child failed; open the device again there [HD-T-01]");
}

heddle_status_t* refused(heddle_device_t* device) {
  heddle_status_t* status = forked(device->host);
  if (status) return status;
  pthread_mutex_lock(&device->mutex);
  status = device->host->status_clone(device->host->self, device->lost);
  pthread_mutex_unlock(&device->mutex);
  return status;
}

static void count_live(heddle_device_t* device, uint64_t* counter, int more) {
  pthread_mutex_lock(&device->mutex);
  *counter += (uint64_t)(int64_t)more;
  pthread_mutex_unlock(&device->mutex);
}

/* ---- heddle.device/1 */

static heddle_status_t* check_ordinal(heddle_plugin_instance_t* instance, uint32_t ordinal) {
  heddle_status_t* status = forked(instance->host);
  if (status || ordinal == 0) return status;
  return failure(instance->host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": finding device %u failed: there is one, number 0", ordinal);
}

static heddle_status_t* device_count(heddle_plugin_instance_t* instance, uint32_t* out) {
  (void)instance;
  *out = 1;
  return NULL;
}

static heddle_status_t* device_describe(heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out) {
  static const heddle_string_t formats[] = {TEXT("sample-fixed/1")};
  heddle_device_description_t description = {.name = TEXT("sample device in C"),
                                             .family = TEXT("sample_c"),
                                             .uuid = {0}, /* unknown: fill in the vendor's id of this device */
                                             .numa_node = -1,
                                             .features = HEDDLE_DEVICE_UNIFIED_MEMORY,
                                             .compute_units = 1,
                                             .max_workgroup_size = 1,
                                             .subgroup_size = 1,
                                             .max_workgroup_count = {MAX_GRID, MAX_GRID, MAX_GRID},
                                             .max_bindings = MAX_BINDINGS,
                                             .max_constants_bytes = MAX_CONSTANTS,
                                             .code_format_count = 1,
                                             .code_formats = formats};
  heddle_status_t* bad = check_ordinal(instance, ordinal);
  if (bad) return bad;
  description.memory_kinds = kKinds;
  description.memory_bytes = description.max_allocation_bytes = kMemory;
  description.min_alignment_bytes = kAlignment;
  write_struct(&description, out, sizeof description);
  return NULL;
}

static heddle_status_t* device_open(heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* in,
                                    heddle_device_t** out) {
  const heddle_host_t* host = instance->host;
  heddle_device_open_params_t params;
  *out = NULL;
  heddle_status_t* bad = check_ordinal(instance, ordinal);
  if (!bad) bad = read_struct(host, "heddle_device_open_params_t", in, &params, sizeof params);
  if (bad) return bad;
  if (!params.api) return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": opening a device failed: there is no table [HD-H-01]");
  heddle_device_t* device = host->memory_allocate(host->self, sizeof *device, 16);
  if (!device) return no_memory(host, "opening a device");
  memset(device, 0, sizeof *device);
  device->api = params.api;
  device->host = host;
  device->instance = instance;
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&device->mutex, NULL);
  pthread_cond_init(&device->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  /* A thread of a plugin handles no signals of the application (HD-T-02). */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&device->worker, NULL, work_loop, device);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) {
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->mutex);
    host->memory_free(host->self, device);
    return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": starting a device's thread failed: %s", strerror(error));
  }
  pthread_mutex_lock(&instance->mutex);
  ++instance->devices;
  pthread_mutex_unlock(&instance->mutex);
  *out = device;
  return NULL;
}

static heddle_status_t* device_close(heddle_device_t* device) {
  if (!device) return NULL;
  heddle_plugin_instance_t* instance = device->instance;
  const heddle_host_t* host = device->host;
  heddle_status_t* bad = forked(host);
  if (bad) return bad;
  pthread_mutex_lock(&device->mutex);
  const int live = device->queues || device->buffers || device->timelines || device->executables || device->files;
  if (live) {
    bad = failure(host, HEDDLE_STATUS_FAILED_PRECONDITION,
                  WHO ": closing a device failed: %llu queues, %llu buffers, %llu timelines, %llu executables, %llu files live [HD-L-01]",
                  (number_t)device->queues, (number_t)device->buffers, (number_t)device->timelines, (number_t)device->executables,
                  (number_t)device->files);
  }
  device->stop = !live;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  if (live) return bad;
  pthread_join(device->worker, NULL);
  host->status_free(host->self, device->lost);
  pthread_cond_destroy(&device->changed);
  pthread_mutex_destroy(&device->mutex);
  host->memory_free(host->self, device);
  pthread_mutex_lock(&instance->mutex);
  --instance->devices;
  pthread_mutex_unlock(&instance->mutex);
  return NULL;
}

static heddle_status_t* queue_create(heddle_device_t* device, const heddle_queue_params_t* in, heddle_queue_t** out) {
  const heddle_host_t* host = device->host;
  heddle_queue_params_t params;
  *out = NULL;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = read_struct(host, "heddle_queue_params_t", in, &params, sizeof params);
  if (bad) return bad;
  if (params.priority > 1)
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": creating a queue failed: priority %u", params.priority);
  heddle_queue_t* queue = host->memory_allocate(host->self, sizeof *queue, 16);
  if (!queue) return no_memory(host, "creating a queue");
  *queue = (heddle_queue_t){device->api, device, 0};
  count_live(device, &device->queues, 1);
  *out = queue;
  return NULL;
}

static heddle_status_t* queue_destroy(heddle_queue_t* queue) {
  if (!queue) return NULL;
  heddle_device_t* device = queue->device;
  heddle_status_t* bad = forked(device->host);
  if (bad) return bad;
  pthread_mutex_lock(&device->mutex);
  while (queue->unfinished) pthread_cond_wait(&device->changed, &device->mutex);
  --device->queues;
  pthread_mutex_unlock(&device->mutex);
  device->host->memory_free(device->host->self, queue);
  return NULL;
}

static const heddle_device_interface_t device_table = {
    .struct_size = sizeof device_table,
    .count = device_count,
    .describe = device_describe,
    .open = device_open,
    .close = device_close,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy, /* for omitted functions the host answers UNIMPLEMENTED */
};

/* ---- heddle.buffer/1 */

int holds(const heddle_buffer_t* buffer, uint64_t offset, uint64_t length) {
  return offset <= buffer->size && length <= buffer->size - offset;
}

static heddle_status_t* buffer_allocate(heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) {
  const heddle_host_t* host = device->host;
  heddle_buffer_params_t params;
  *out = NULL;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = read_struct(host, "heddle_buffer_params_t", in, &params, sizeof params);
  if (bad) return bad;
  const uint64_t alignment = params.alignment_bytes > kAlignment ? params.alignment_bytes : kAlignment;
  if ((params.memory & ~kKinds) || (alignment & (alignment - 1)) || (params.alignment_bytes & (params.alignment_bytes - 1)) ||
      alignment > kMemory) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": allocating %llu bytes of kinds %x aligned to %llu failed",
                   (number_t)params.size_bytes, params.memory, (number_t)params.alignment_bytes);
  }
  pthread_mutex_lock(&device->mutex);
  const uint64_t left = kMemory - device->bytes;
  const int fits = params.size_bytes <= left;
  if (fits) device->bytes += params.size_bytes;
  pthread_mutex_unlock(&device->mutex);
  if (!fits) {
    return failure(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, WHO ": allocating %llu bytes failed: %llu of %llu are free [HD-M-03]",
                   (number_t)params.size_bytes, (number_t)left, (number_t)kMemory);
  }
  const int saved = errno; /* HD-T-02 */
  const uint64_t mapped_bytes = params.size_bytes + alignment;
  heddle_buffer_t* buffer = host->memory_allocate(host->self, sizeof *buffer, 16);
  void* mapped = buffer ? mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
  errno = saved;
  if (mapped == MAP_FAILED) {
    host->memory_free(host->self, buffer);
    pthread_mutex_lock(&device->mutex);
    device->bytes -= params.size_bytes;
    pthread_mutex_unlock(&device->mutex);
    return no_memory(host, "allocating a buffer");
  }
  char* data = (char*)(((uintptr_t)mapped + alignment - 1) & ~(uintptr_t)(alignment - 1));
  *buffer = (heddle_buffer_t){device->api, device, params.size_bytes, alignment, data, mapped, mapped_bytes};
  count_live(device, &device->buffers, 1);
  *out = buffer;
  return NULL;
}

static void buffer_free(heddle_buffer_t* buffer) {
  if (!buffer) return;
  heddle_device_t* device = buffer->device;
  const heddle_host_t* host = device->host;
  if (host->is_forked_child(host->self)) return;
  const int saved = errno;
  munmap(buffer->mapped, buffer->mapped_bytes);
  errno = saved;
  pthread_mutex_lock(&device->mutex);
  device->bytes -= buffer->size;
  --device->buffers;
  pthread_mutex_unlock(&device->mutex);
  host->memory_free(host->self, buffer);
}

/* Also used as flush and invalidate, because the memory is the host's. */
static heddle_status_t* check_range(heddle_buffer_t* buffer, uint64_t offset, uint64_t length) {
  heddle_status_t* bad = refused(buffer->device);
  if (bad || holds(buffer, offset, length)) return bad;
  return failure(buffer->device->host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": mapping %llu bytes at %llu failed: the buffer has %llu",
                 (number_t)length, (number_t)offset, (number_t)buffer->size);
}

static heddle_status_t* buffer_map(heddle_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t flags, void** out) {
  *out = NULL;
  heddle_status_t* bad = check_range(buffer, offset, length);
  if (bad) return bad;
  if (flags > 7 || !(flags & (HEDDLE_MAP_READ | HEDDLE_MAP_WRITE)) || ((flags & HEDDLE_MAP_DISCARD) && !(flags & HEDDLE_MAP_WRITE))) {
    return failure(buffer->device->host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": mapping with flags %x failed: read, write or both", flags);
  }
  *out = buffer->data + offset;
  return NULL;
}

static heddle_status_t* buffer_unmap(heddle_buffer_t* buffer) {
  return forked(buffer->device->host); /* a buffer stays mapped as long as it lives */
}

static heddle_status_t* buffer_properties(heddle_buffer_t* buffer, heddle_buffer_properties_t* out) {
  const heddle_buffer_properties_t properties = {0, kKinds, buffer->size, buffer->alignment, (uint64_t)(uintptr_t)buffer->data};
  write_struct(&properties, out, sizeof properties);
  return NULL;
}

static const heddle_buffer_interface_t buffer_table = {
    .struct_size = sizeof buffer_table,
    .allocate = buffer_allocate,
    .free = buffer_free,
    .map = buffer_map,
    .unmap = buffer_unmap,
    .flush = check_range,
    .invalidate = check_range,
    .properties = buffer_properties,
};

/* ---- heddle.timeline/1 */

static heddle_status_t* check_value(heddle_device_t* device, uint64_t value) {
  if (value <= HEDDLE_TIMELINE_MAX_VALUE) return NULL;
  return failure(device->host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": value %llu of a timeline is beyond 2^62-1", (number_t)value);
}

static heddle_status_t* timeline_create(heddle_device_t* device, uint64_t initial_value, heddle_timeline_t** out) {
  const heddle_host_t* host = device->host;
  *out = NULL;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = check_value(device, initial_value);
  if (bad) return bad;
  heddle_timeline_t* timeline = host->memory_allocate(host->self, sizeof *timeline, 16);
  if (!timeline) return no_memory(host, "creating a timeline");
  *timeline = (heddle_timeline_t){device->api, device, initial_value, 0, NULL, NULL};
  count_live(device, &device->timelines, 1);
  *out = timeline;
  return NULL;
}

static void timeline_destroy(heddle_timeline_t* timeline) {
  if (!timeline) return;
  heddle_device_t* device = timeline->device;
  const heddle_host_t* host = device->host;
  if (host->is_forked_child(host->self)) return;
  count_live(device, &device->timelines, -1);
  host->status_free(host->self, timeline->failure);
  host->memory_free(host->self, timeline);
}

static heddle_status_t* timeline_query(heddle_timeline_t* timeline, uint64_t* out) {
  heddle_device_t* device = timeline->device;
  *out = 0;
  heddle_status_t* status = forked(device->host);
  if (status) return status;
  pthread_mutex_lock(&device->mutex);
  *out = timeline->value;
  status = device->host->status_clone(device->host->self, timeline->failure);
  pthread_mutex_unlock(&device->mutex);
  return status;
}

static int has_failed(const heddle_timeline_t* timeline, uint64_t value) {
  return value > timeline->value && timeline->failure && value >= timeline->failed_at;
}

struct watch {
  struct watch* next;
  uint64_t value;
  void (*function)(void* context, const heddle_status_t* failure);
  void* context;
  heddle_status_t* failure; /* set when it is due */
};

/* With the lock held: removes the watches whose value is reached or has failed from the timeline, and appends them to *due. */
static void take_due(heddle_device_t* device, heddle_timeline_t* timeline, struct watch** due) {
  while (*due) due = &(*due)->next;
  for (struct watch** link = &timeline->watches; *link;) {
    struct watch* watch = *link;
    const int failed = has_failed(timeline, watch->value);
    if (!failed && watch->value > timeline->value) {
      link = &watch->next;
      continue;
    }
    *link = watch->next;
    watch->next = NULL;
    if (failed) watch->failure = device->host->status_clone(device->host->self, timeline->failure);
    *due = watch;
    due = &watch->next;
  }
}

void tell(const heddle_host_t* host, struct watch* due) {
  while (due) {
    struct watch* watch = due;
    due = watch->next;
    watch->function(watch->context, watch->failure);
    host->status_free(host->self, watch->failure);
    host->memory_free(host->self, watch);
  }
}

void reach(heddle_device_t* device, heddle_point_t point, const heddle_status_t* failed, struct watch** due) {
  heddle_timeline_t* timeline = point.timeline;
  if (failed) {
    const uint64_t from = point.value > timeline->value ? point.value : timeline->value + 1; /* reached values stay reached */
    if (!timeline->failure) {
      timeline->failure = device->host->status_clone(device->host->self, failed);
      timeline->failed_at = from;
    } else if (from < timeline->failed_at) {
      timeline->failed_at = from; /* the first failure stays, and now holds from here */
    }
  } else if (point.value > timeline->value && !has_failed(timeline, point.value)) {
    timeline->value = point.value;
  }
  take_due(device, timeline, due);
  pthread_cond_broadcast(&device->changed);
}

static heddle_status_t* timeline_signal(heddle_timeline_t* timeline, uint64_t value) {
  heddle_device_t* device = timeline->device;
  heddle_status_t* bad = forked(device->host);
  if (!bad) bad = check_value(device, value);
  if (bad) return bad;
  struct watch* due = NULL;
  pthread_mutex_lock(&device->mutex);
  if (value <= timeline->value) {
    bad = failure(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": signalling value %llu failed: the timeline has reached %llu",
                  (number_t)value, (number_t)timeline->value);
  } else if (has_failed(timeline, value)) {
    bad = device->host->status_clone(device->host->self, timeline->failure);
  } else {
    reach(device, (heddle_point_t){timeline, value}, NULL, &due);
  }
  pthread_mutex_unlock(&device->mutex);
  tell(device->host, due);
  return bad;
}

static void timeline_fail(heddle_timeline_t* timeline, uint64_t value, heddle_status_t* status) {
  heddle_device_t* device = timeline->device;
  if (device->host->is_forked_child(device->host->self)) return;
  struct watch* due = NULL;
  if (!status) status = failure(device->host, HEDDLE_STATUS_UNKNOWN, WHO ": a timeline was failed without a reason");
  pthread_mutex_lock(&device->mutex);
  reach(device, (heddle_point_t){timeline, value}, status, &due);
  pthread_mutex_unlock(&device->mutex);
  device->host->status_free(device->host->self, status);
  tell(device->host, due);
}

static heddle_status_t* timeline_notify(heddle_timeline_t* timeline, uint64_t value,
                                        void (*function)(void* context, const heddle_status_t* failure), void* context) {
  heddle_device_t* device = timeline->device;
  const heddle_host_t* host = device->host;
  heddle_status_t* bad = forked(host);
  if (bad) return bad;
  struct watch* watch = host->memory_allocate(host->self, sizeof *watch, 16);
  if (!watch) return no_memory(host, "asking for a notification");
  *watch = (struct watch){NULL, value, function, context, NULL};
  struct watch* due = NULL;
  pthread_mutex_lock(&device->mutex);
  struct watch** last = &timeline->watches;
  while (*last) last = &(*last)->next;
  *last = watch;
  take_due(device, timeline, &due); /* includes the new watch, if it is due already */
  pthread_mutex_unlock(&device->mutex);
  tell(host, due);
  return NULL;
}

/* 1 if the wait is over, with its failure in *out; 0 if it continues. */
static int judge(heddle_device_t* device, const heddle_point_t* points, uint64_t count, uint32_t mode, heddle_status_t** out) {
  const heddle_timeline_t* failed = NULL;
  uint64_t reached = 0;
  for (uint64_t i = 0; i < count; ++i) {
    reached += points[i].timeline->value >= points[i].value;
    if (!failed && has_failed(points[i].timeline, points[i].value)) failed = points[i].timeline;
  }
  if (reached == count || (mode == HEDDLE_WAIT_ANY && reached)) return 1;
  if (failed) *out = device->host->status_clone(device->host->self, failed->failure);
  return failed != NULL;
}

heddle_status_t* await(heddle_device_t* device, const heddle_point_t* points, uint32_t count) {
  heddle_status_t* status = NULL;
  while (!judge(device, points, count, HEDDLE_WAIT_ALL, &status)) pthread_cond_wait(&device->changed, &device->mutex);
  return status;
}

static heddle_status_t* timeline_wait(const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout_ns) {
  if (count == 0 || !points[0].timeline) return NULL;
  heddle_device_t* device = points[0].timeline->device;
  heddle_status_t* status = forked(device->host);
  if (status) return status;
  for (uint64_t i = 0; i < count; ++i) {
    if (mode > HEDDLE_WAIT_ANY || !points[i].timeline || points[i].timeline->device != device) {
      return failure(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": waiting failed: mode %u, point %llu", mode, (number_t)i);
    }
  }
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  const uint64_t most = UINT64_MAX / 4;
  const uint64_t at = (uint64_t)end.tv_nsec + (timeout_ns < most ? timeout_ns : most);
  end.tv_sec += (time_t)(at / 1000000000u);
  end.tv_nsec = (long)(at % 1000000000u);
  int late = timeout_ns == 0;
  pthread_mutex_lock(&device->mutex);
  while (!judge(device, points, count, mode, &status)) {
    if (late) {
      status = failure(device->host, HEDDLE_STATUS_DEADLINE_EXCEEDED, WHO ": waiting for %llu points failed: not reached within %llu ns",
                       (number_t)count, (number_t)timeout_ns);
      break;
    }
    late = pthread_cond_timedwait(&device->changed, &device->mutex, &end) == ETIMEDOUT;
  }
  pthread_mutex_unlock(&device->mutex);
  return status;
}

static const heddle_timeline_interface_t timeline_table = {
    .struct_size = sizeof timeline_table,
    .create = timeline_create,
    .destroy = timeline_destroy,
    .query = timeline_query,
    .signal = timeline_signal,
    .fail = timeline_fail,
    .wait = timeline_wait,
    .notify = timeline_notify,
};

/* ---- the plugin */

static heddle_status_t* plugin_probe(const heddle_host_t* host, heddle_probe_result_t* out) {
  const heddle_probe_result_t result = {.verdict = HEDDLE_PROBE_AVAILABLE, .device_count = 1};
  (void)host;
  write_struct(&result, out, sizeof result);
  return NULL;
}

static heddle_status_t* plugin_create(const heddle_host_t* host, heddle_plugin_instance_t** out) {
  *out = host->memory_allocate(host->self, sizeof **out, 16);
  if (!*out) return no_memory(host, "creating an instance");
  memset(*out, 0, sizeof **out);
  (*out)->host = host;
  pthread_mutex_init(&(*out)->mutex, NULL);
  return NULL;
}

static heddle_status_t* plugin_shutdown(heddle_plugin_instance_t* instance) {
  const heddle_host_t* host = instance->host;
  heddle_status_t* bad = forked(host);
  if (bad) return bad;
  if (instance->devices) {
    return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION, WHO ": shutting down failed: %llu devices are open [HD-L-01]",
                   (number_t)instance->devices);
  }
  pthread_mutex_destroy(&instance->mutex);
  host->memory_free(host->self, instance);
  return NULL;
}

static const void* plugin_get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) {
  static const struct {
    heddle_string_t id;
    const void* table;
  } known[] = {{TEXT(HEDDLE_DEVICE_INTERFACE), &device_table},     {TEXT(HEDDLE_BUFFER_INTERFACE), &buffer_table},
               {TEXT(HEDDLE_TRANSFER_INTERFACE), &transfer_table}, {TEXT(HEDDLE_PARAM_IO_INTERFACE), &param_io_table},
               {TEXT(HEDDLE_DISPATCH_INTERFACE), &dispatch_table}, {TEXT(HEDDLE_TIMELINE_INTERFACE), &timeline_table}};
  (void)instance;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (known[i].id.size == id.size && memcmp(known[i].id.data, id.data, id.size) == 0) return known[i].table;
  }
  return NULL;
}

HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* record) {
  static const heddle_plugin_t plugin = {sizeof plugin, HEDDLE_PLUGIN_DRIVER, TEXT(ID),        TEXT("0.1.0"),
                                         plugin_probe,  plugin_create,        plugin_shutdown, plugin_get_interface};
  static const char reason[] = ID " speaks another minor of the ABI; install a version of either that overlaps [HD-E-02]";
  const uint32_t highest = record->host_max_minor < HEDDLE_ABI_MINOR ? record->host_max_minor : HEDDLE_ABI_MINOR;
  const int agreed = highest >= record->host_min_minor && highest >= HEDDLE_ABI_MIN_MINOR;
  heddle_negotiation_t answer = {0};
  answer.host_min_minor = record->host_min_minor;
  answer.host_max_minor = record->host_max_minor;
  answer.plugin_min_minor = HEDDLE_ABI_MIN_MINOR;
  answer.plugin_max_minor = HEDDLE_ABI_MINOR;
  answer.chosen_minor = agreed ? highest : 0;
  if (!agreed) {
    memcpy(answer.reason, reason, sizeof reason - 1);
    answer.reason_size = sizeof reason - 1;
  }
  write_struct(&answer, record, sizeof answer);
  return agreed ? &plugin : NULL;
}
