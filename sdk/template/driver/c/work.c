/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The sample driver in C: executables, submissions, and the thread that runs them in the order of arrival. Its code format, "sample-fixed/1",
 * stands for a device with built-in functions: an image is the word sample-fixed, names of functions, and the word end. See driver.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

/* ---- functions of the device. Each returns 0, 1 for a failure, 2 for the loss of the device, 3 for an index outside a binding. */

struct work {
  char* bindings[MAX_BINDINGS];
  uint64_t lengths[MAX_BINDINGS];
  int64_t constants[MAX_CONSTANTS / 8];
  uint64_t workgroups;
};

static int do_add(const struct work* work) {
  const uint64_t count = (uint64_t)work->constants[0];
  for (int i = 0; i < 3; ++i) {
    if (count > work->lengths[i] / 4) return 3;
  }
  for (uint64_t i = 0; i < count && i < work->workgroups * (uint64_t)work->constants[1]; ++i) {
    float a, b;
    memcpy(&a, work->bindings[0] + i * 4, 4);
    memcpy(&b, work->bindings[1] + i * 4, 4);
    a += b;
    memcpy(work->bindings[2] + i * 4, &a, 4);
  }
  return 0;
}

static int do_count(const struct work* work) {
  if (work->workgroups > work->lengths[0] / 4) return 3;
  for (uint64_t i = 0; i < work->workgroups; ++i) ++((uint32_t*)(void*)work->bindings[0])[i];
  return 0;
}

static int do_chain(const struct work* work) {
  if (work->lengths[0] < 8) return 3;
  for (uint64_t i = 0; i < work->workgroups; ++i) {
    uint64_t* value = (uint64_t*)(void*)work->bindings[0];
    *value = *value * 3 + (uint64_t)work->constants[0];
  }
  return 0;
}

static int do_fail(const struct work* work) {
  return work->workgroups ? 1 : 0;
}
static int do_lose(const struct work* work) {
  return work->workgroups ? 2 : 0;
}

static const struct function {
  const char* name;
  uint32_t bindings, constants_bytes;
  int (*run)(const struct work* work);
} functions[] = {
    {"add", 3, 16, do_add}, {"count", 1, 0, do_count}, {"chain", 1, 8, do_chain}, {"fail", 1, 0, do_fail}, {"lose", 1, 0, do_lose}};

struct heddle_entry {
  const heddle_driver_api_t* api;
  heddle_device_t* device;
  const struct function* function;
};

struct heddle_executable {
  const heddle_driver_api_t* api;
  heddle_device_t* device;
  uint32_t entry_count;
  heddle_entry_t entries[];
};

/* ---- executables */

static int is(heddle_string_t text, const char* expected) {
  return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

/* The next word of the image. */
static heddle_string_t next_word(const char** at, const char* end) {
  while (*at < end && **at == ' ') ++*at;
  heddle_string_t word = {*at, 0};
  while (*at < end && **at != ' ') ++*at;
  word.size = (uint64_t)(*at - word.data);
  return word;
}

static const struct function* find(heddle_string_t name) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    if (is(name, functions[i].name)) return &functions[i];
  }
  return NULL;
}

/* 1 if the image is complete; *out_named is 1 if it names `wanted`. */
static int read_image(const char* at, uint64_t size, heddle_string_t wanted, int* out_named) {
  const char* end = at + size;
  *out_named = 0;
  if (!size || !is(next_word(&at, end), "sample-fixed")) return 0;
  for (;;) {
    const heddle_string_t word = next_word(&at, end);
    if (is(word, "end")) return at == end;
    if (!find(word)) return 0;
    *out_named |= word.size == wanted.size && memcmp(word.data, wanted.data, word.size) == 0;
  }
}

static heddle_status_t* variant_rank(heddle_device_t* device, heddle_string_t format, heddle_string_t target, uint32_t* out) {
  (void)device;
  *out = is(format, "sample-fixed/1") && is(target, "generic") ? 10 : 0;
  return NULL;
}

static heddle_status_t* read_entry(heddle_device_t* device, const heddle_executable_params_t* params, uint32_t index, heddle_entry_t* out) {
  const heddle_host_t* host = device->host;
  heddle_entry_params_t entry;
  int named = 0;
  heddle_status_t* bad =
      read_struct(host, "heddle_entry_params_t", (const char*)params->entries + index * params->entry_stride, &entry, sizeof entry);
  if (bad) return bad;
  read_image(params->code, params->code_bytes, entry.name, &named);
  const struct function* function = named ? find(entry.name) : NULL;
  if (!function) {
    return failure(host, HEDDLE_STATUS_NOT_FOUND, WHO ": loading entry %u failed: the image names no '%.*s'", index,
                   (int)(entry.name.size < 100 ? entry.name.size : 100), entry.name.data);
  }
  if (entry.binding_count != function->bindings || entry.constants_bytes != function->constants_bytes || entry.argument_count) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": loading entry %u failed: '%s' takes %u bindings and %u bytes of constants",
                   index, function->name, function->bindings, function->constants_bytes);
  }
  if (entry.flags > HEDDLE_ENTRY_IN_ORDER || entry.reserved) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": loading entry %u failed: its flags %x are unknown [HD-E-04]", index,
                   entry.flags);
  }
  *out = (heddle_entry_t){device->api, device, function};
  return NULL;
}

static heddle_status_t* executable_load(heddle_device_t* device, const heddle_executable_params_t* in, heddle_executable_t** out) {
  const heddle_host_t* host = device->host;
  heddle_executable_params_t params;
  uint32_t rank;
  int named;
  *out = NULL;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = read_struct(host, "heddle_executable_params_t", in, &params, sizeof params);
  if (bad) return bad;
  variant_rank(device, params.format, params.target, &rank);
  if (!rank) return failure(host, HEDDLE_STATUS_FAILED_PRECONDITION, WHO ": loading code failed: it is for another device [HD-C-01]");
  if (!read_image(params.code, params.code_bytes, params.name, &named) || params.entry_count > 1024) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": loading %llu bytes of code failed: they are not a complete image [HD-C-01]",
                   (number_t)params.code_bytes);
  }
  heddle_executable_t* executable = host->memory_allocate(host->self, sizeof *executable + params.entry_count * sizeof(heddle_entry_t), 16);
  if (!executable) return no_memory(host, "loading code");
  executable->api = device->api;
  executable->device = device;
  executable->entry_count = params.entry_count;
  for (uint32_t i = 0; i < params.entry_count && !bad; ++i) bad = read_entry(device, &params, i, &executable->entries[i]);
  if (bad) {
    host->memory_free(host->self, executable);
    return bad;
  }
  pthread_mutex_lock(&device->mutex);
  ++device->executables;
  pthread_mutex_unlock(&device->mutex);
  *out = executable;
  return NULL;
}

static void executable_unload(heddle_executable_t* executable) {
  if (!executable) return;
  heddle_device_t* device = executable->device;
  if (device->host->is_forked_child(device->host->self)) return;
  pthread_mutex_lock(&device->mutex);
  --device->executables;
  pthread_mutex_unlock(&device->mutex);
  device->host->memory_free(device->host->self, executable);
}

static heddle_status_t* executable_entry(heddle_executable_t* executable, uint32_t index, heddle_entry_t** out) {
  *out = NULL;
  if (index >= executable->entry_count) {
    return failure(executable->device->host, HEDDLE_STATUS_NOT_FOUND, WHO ": looking up entry %u failed: there are %u", index,
                   executable->entry_count);
  }
  *out = &executable->entries[index];
  return NULL;
}

/* ---- submissions */

struct op {
  const struct function* function; /* for a dispatch; NULL: rows are copied or filled */
  struct work work;
  uint32_t region;
  char* target;
  const char* source; /* NULL: a fill */
  uint64_t rows, row_bytes, source_stride, target_stride;
  uint64_t pattern;
  uint32_t pattern_bytes;
};

struct io {
  const heddle_file_t* file;
  heddle_param_io_params_t params;
  uint64_t count;
  heddle_extent_t extents[];
};

struct item {
  struct item* next;
  heddle_queue_t* queue;
  uint32_t op_count, wait_count, signal_count;
  struct op* ops;
  heddle_point_t *waits, *signals;
  char* bytes;   /* captured bytes of updates */
  struct io* io; /* or NULL */
};

/* Allocates an item together with its arrays. */
static struct item* make_item(const heddle_host_t* host, uint64_t ops, const heddle_sync_t* sync, uint64_t bytes) {
  const uint64_t points = ((uint64_t)sync->wait_count + sync->signal_count) * sizeof(heddle_point_t);
  struct item* item = host->memory_allocate(host->self, sizeof *item + ops * sizeof(struct op) + points + bytes, 16);
  if (!item) return NULL;
  memset(item, 0, sizeof *item);
  item->ops = (struct op*)(void*)(item + 1);
  memset(item->ops, 0, ops * sizeof *item->ops);
  item->waits = (heddle_point_t*)(void*)(item->ops + ops);
  item->signals = item->waits + sync->wait_count;
  item->bytes = (char*)(item->signals + sync->signal_count);
  item->wait_count = sync->wait_count;
  item->signal_count = sync->signal_count;
  if (sync->wait_count) memcpy(item->waits, sync->waits, sync->wait_count * sizeof *sync->waits);
  if (sync->signal_count) memcpy(item->signals, sync->signals, sync->signal_count * sizeof *sync->signals);
  return item;
}

static heddle_status_t* check_sync(heddle_device_t* device, const heddle_sync_t* sync) {
  heddle_status_t* bad = NULL;
  if ((sync->wait_count && !sync->waits) || (sync->signal_count && !sync->signals)) {
    return failure(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": submitting failed: waits or signals are null");
  }
  pthread_mutex_lock(&device->mutex);
  for (uint32_t i = 0; i < sync->wait_count + sync->signal_count && !bad; ++i) {
    const int waits = i < sync->wait_count;
    const heddle_point_t point = waits ? sync->waits[i] : sync->signals[i - sync->wait_count];
    if (!point.timeline || point.timeline->device != device ||
        (!waits && (point.value <= point.timeline->value || point.value > HEDDLE_TIMELINE_MAX_VALUE))) {
      bad = failure(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    WHO ": submitting failed: a point has no timeline of this device, or value %llu", (number_t)point.value);
    }
  }
  pthread_mutex_unlock(&device->mutex);
  return bad;
}

static heddle_status_t* enqueue(heddle_queue_t* queue, struct item* item) {
  heddle_device_t* device = queue->device;
  item->queue = queue;
  pthread_mutex_lock(&device->mutex);
  if (device->first) {
    device->last->next = item;
  } else {
    device->first = item;
  }
  device->last = item;
  ++queue->unfinished;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->mutex);
  return NULL;
}

static heddle_status_t* locate(const heddle_host_t* host, uint32_t index, const heddle_buffer_t* buffer, uint64_t offset, uint64_t length,
                               char** out) {
  if (!buffer) return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: no buffer", index);
  if (!holds(buffer, offset, length)) {
    return failure(host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": command %u failed: %llu bytes at %llu of a buffer of %llu", index,
                   (number_t)length, (number_t)offset, (number_t)buffer->size);
  }
  *out = buffer->data + offset;
  return NULL;
}

static heddle_status_t* rows(const heddle_host_t* host, uint32_t index, const heddle_copy_2d_command_t* copy, struct op* op) {
  const uint64_t count = copy->row_bytes ? copy->rows : 0;
  uint64_t from = 0, to = 0;
  char* source = NULL;
  if (count && (__builtin_mul_overflow(count - 1, copy->source_stride, &from) || __builtin_add_overflow(from, copy->row_bytes, &from) ||
                __builtin_mul_overflow(count - 1, copy->target_stride, &to) || __builtin_add_overflow(to, copy->row_bytes, &to))) {
    return failure(host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": command %u failed: its rows are more than 2^64 bytes", index);
  }
  heddle_status_t* bad = locate(host, index, copy->source->buffer, copy->source->offset, from, &source);
  if (!bad) bad = locate(host, index, copy->target->buffer, copy->target->offset, to, &op->target);
  if (bad) return bad;
  if ((count && source < op->target + to && op->target < source + from) || (count > 1 && copy->target_stride < copy->row_bytes)) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: source and target overlap; copy through another buffer",
                   index);
  }
  op->source = source;
  op->rows = count;
  op->row_bytes = copy->row_bytes;
  op->source_stride = copy->source_stride;
  op->target_stride = copy->target_stride;
  return NULL;
}

static heddle_status_t* dispatch(heddle_device_t* device, uint32_t index, const heddle_dispatch_command_t* command, struct op* op) {
  const heddle_entry_t* entry = command->entry;
  const heddle_host_t* host = device->host;
  if (!entry || entry->device != device || command->binding_count != entry->function->bindings ||
      command->constants_bytes != entry->function->constants_bytes || !command->bindings ||
      (command->constants_bytes && !command->constants)) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: no kernel of this device takes %u bindings and %u bytes",
                   index, command->binding_count, command->constants_bytes);
  }
  op->function = entry->function;
  op->region = command->region;
  op->work.workgroups = 1;
  for (int i = 0; i < 3; ++i) {
    if (command->grid[i] > MAX_GRID) {
      return failure(host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": command %u failed: a grid side of %u is more than %u", index,
                     command->grid[i], MAX_GRID);
    }
    op->work.workgroups *= command->grid[i]; /* at most 2^60 */
  }
  for (uint32_t i = 0; i < command->binding_count; ++i) {
    const heddle_binding_t* binding = &command->bindings[i];
    op->work.lengths[i] = binding->length;
    if (!binding->buffer && !binding->offset && !binding->length) continue;
    heddle_status_t* bad = locate(host, index, binding->buffer, binding->offset, binding->length, &op->work.bindings[i]);
    if (bad) return bad;
  }
  if (command->constants_bytes) memcpy(op->work.constants, command->constants, command->constants_bytes);
  return NULL;
}

static heddle_status_t* read_command(heddle_device_t* device, uint32_t index, const heddle_command_t* command, struct item* item,
                                     struct op* op) {
  const heddle_host_t* host = device->host;
  const heddle_fill_command_t* fill = &command->as.fill;
  const heddle_update_command_t* update = &command->as.update;
  heddle_status_t* bad = NULL;
  if (command->flags)
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: its flags %x are unknown [HD-E-04]", index,
                   command->flags);
  switch (command->kind) {
    case HEDDLE_COMMAND_BARRIER: /* commands run in order */
      return NULL;
    case HEDDLE_COMMAND_DISPATCH:
      return dispatch(device, index, &command->as.dispatch, op);
    case HEDDLE_COMMAND_COPY: {
      const heddle_copy_command_t* copy = &command->as.copy;
      const heddle_binding_t source = {copy->source, copy->source_offset, 0}, target = {copy->target, copy->target_offset, 0};
      const heddle_copy_2d_command_t one = {&source, &target, copy->length, copy->length, copy->length, 1};
      return rows(host, index, &one, op);
    }
    case HEDDLE_COMMAND_COPY_2D:
      if (command->as.copy_2d.source && command->as.copy_2d.target) return rows(host, index, &command->as.copy_2d, op);
      return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: no source or no target", index);
    case HEDDLE_COMMAND_FILL:
      if (fill->pattern_bytes != 1 && fill->pattern_bytes != 2 && fill->pattern_bytes != 4 && fill->pattern_bytes != 8) {
        return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: a pattern of %u bytes", index, fill->pattern_bytes);
      }
      if (fill->reserved)
        return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: its reserved field is %u, not 0 [HD-E-04]", index,
                       fill->reserved);
      bad = locate(host, index, fill->target, fill->offset, fill->length, &op->target);
      op->rows = 1;
      op->row_bytes = fill->length;
      op->pattern = fill->pattern;
      op->pattern_bytes = fill->pattern_bytes;
      return bad;
    case HEDDLE_COMMAND_UPDATE:
      bad = locate(host, index, update->target, update->offset, update->length, &op->target);
      if (bad || !update->length) return bad;
      if (!update->source) return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: no source", index);
      memcpy(item->bytes, update->source, update->length);
      op->source = item->bytes;
      op->rows = 1;
      op->row_bytes = update->length;
      item->bytes += update->length;
      return NULL;
    default:
      return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": command %u failed: its kind %u is unknown", index, command->kind);
  }
}

static heddle_status_t* submit(heddle_queue_t* queue, const heddle_submission_t* in) {
  heddle_device_t* device = queue->device;
  const heddle_host_t* host = device->host;
  heddle_submission_t submission;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = read_struct(host, "heddle_submission_t", in, &submission, sizeof submission);
  if (!bad) bad = check_sync(device, &submission.sync);
  if (bad) return bad;
  if (submission.command_count && !submission.commands) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": submitting %u commands failed: the list is null", submission.command_count);
  }
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < submission.command_count; ++i) {
    const heddle_command_t* command = &submission.commands[i];
    if (command->kind != HEDDLE_COMMAND_UPDATE || !command->as.update.target || command->as.update.length > command->as.update.target->size)
      continue;
    bytes += command->as.update.length;
  }
  struct item* item = make_item(host, submission.command_count, &submission.sync, bytes);
  if (!item) return no_memory(host, "submitting");
  item->op_count = submission.command_count;
  for (uint32_t i = 0; i < submission.command_count && !bad; ++i)
    bad = read_command(device, i, &submission.commands[i], item, &item->ops[i]);
  if (!bad) return enqueue(queue, item);
  host->memory_free(host->self, item);
  return bad;
}

const heddle_dispatch_interface_t dispatch_table = {
    .struct_size = sizeof dispatch_table,
    .variant_rank = variant_rank,
    .executable_load = executable_load,
    .executable_unload = executable_unload,
    .entry = executable_entry,
    .submit = submit,
};

/* ---- transfers */

static heddle_status_t* host_copy(heddle_queue_t* queue, const heddle_sync_t* in, const heddle_binding_t* binding, const void* source,
                                  void* target) {
  heddle_device_t* device = queue->device;
  const heddle_host_t* host = device->host;
  heddle_sync_t sync;
  char* memory = NULL;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = read_struct(host, "heddle_sync_t", in, &sync, sizeof sync);
  if (!bad) bad = check_sync(device, &sync);
  if (!bad) bad = locate(host, 0, binding->buffer, binding->offset, binding->length, &memory);
  if (bad) return bad;
  if (binding->length && !source && !target)
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": copying failed: the host pointer is null");
  struct item* item = make_item(host, 1, &sync, 0);
  if (!item) return no_memory(host, "copying");
  item->op_count = 1;
  item->ops->source = source ? source : memory;
  item->ops->target = source ? memory : target;
  item->ops->rows = binding->length != 0;
  item->ops->row_bytes = binding->length;
  return enqueue(queue, item);
}

static heddle_status_t* upload(heddle_queue_t* queue, const heddle_sync_t* sync, const void* source, const heddle_binding_t* target) {
  return host_copy(queue, sync, target, source, NULL);
}

static heddle_status_t* download(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source, void* target) {
  return host_copy(queue, sync, source, NULL, target);
}

const heddle_transfer_interface_t transfer_table = {.struct_size = sizeof transfer_table, .upload = upload, .download = download};

/* ---- heddle.param_io/1: directly into the buffer, in chunks */

static heddle_status_t* file_open(heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name, heddle_file_t** out) {
  const heddle_host_t* host = device->host;
  const int saved = errno; /* HD-T-02 */
  *out = NULL;
  heddle_status_t* bad = refused(device);
  if (bad) return bad;
  heddle_file_t* file = host->memory_allocate(host->self, sizeof *file, 16);
  if (!file) return no_memory(host, "opening a file");
  memset(file, 0, sizeof *file);
  file->api = device->api;
  file->device = device;
  file->access = access;
  memcpy(file->name, name.data, name.size < sizeof file->name ? name.size : sizeof file->name - 1);
  file->descriptor = access && access <= 3 ? fcntl(descriptor, F_DUPFD_CLOEXEC, 3) : -1;
  const int flags = file->descriptor < 0 ? 0 : fcntl(file->descriptor, F_GETFL);
  errno = saved;
  if (file->descriptor < 0 || ((access & HEDDLE_FILE_READ) && (flags & O_ACCMODE) == O_WRONLY)) {
    if (file->descriptor >= 0) close(file->descriptor);
    bad = failure(host, HEDDLE_STATUS_INVALID_ARGUMENT, WHO ": opening '%s' (descriptor %d) with access %x failed", file->name, descriptor,
                  access);
    host->memory_free(host->self, file);
    return bad;
  }
  pthread_mutex_lock(&device->mutex);
  ++device->files;
  pthread_mutex_unlock(&device->mutex);
  *out = file;
  return NULL;
}

static void file_close(heddle_file_t* file) {
  if (!file) return;
  heddle_device_t* device = file->device;
  if (device->host->is_forked_child(device->host->self)) return;
  const int saved = errno;
  close(file->descriptor);
  errno = saved;
  pthread_mutex_lock(&device->mutex);
  --device->files;
  pthread_mutex_unlock(&device->mutex);
  device->host->memory_free(device->host->self, file);
}

static heddle_status_t* file_read(heddle_queue_t* queue, const heddle_sync_t* in, heddle_file_t* file, const heddle_extent_t* extents,
                                  uint64_t count, const heddle_param_io_params_t* params) {
  heddle_device_t* device = queue->device;
  const heddle_host_t* host = device->host;
  heddle_sync_t sync;
  char* ignored;
  heddle_status_t* bad = refused(device);
  if (!bad) bad = read_struct(host, "heddle_sync_t", in, &sync, sizeof sync);
  if (!bad) bad = check_sync(device, &sync);
  if (bad) return bad;
  if (!file || !(file->access & HEDDLE_FILE_READ) || (count && !extents) || count > UINT32_MAX) {
    return failure(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                   WHO ": reading %llu extents failed: no list, no file, or one not opened for reading", (number_t)count);
  }
  struct item* item = make_item(host, 0, &sync, sizeof(struct io) + count * sizeof *extents);
  if (!item) return no_memory(host, "reading a file");
  item->io = (struct io*)(void*)item->bytes;
  memset(item->io, 0, sizeof *item->io);
  if (params) bad = read_struct(host, "heddle_param_io_params_t", params, &item->io->params, sizeof item->io->params);
  if (!bad && item->io->params.method > HEDDLE_FILE_METHOD_DIRECT) {
    bad = failure(host, HEDDLE_STATUS_UNIMPLEMENTED, WHO ": reading '%s' failed: it is read through the page cache alone", file->name);
  }
  item->io->file = file;
  item->io->count = count;
  for (uint64_t i = 0; i < count && !bad; ++i) {
    item->io->extents[i] = extents[i];
    if (!extents[i].length) continue;
    bad = locate(host, (uint32_t)i, extents[i].buffer, extents[i].buffer_offset, extents[i].length, &ignored);
    if (!bad && (extents[i].file_offset > INT64_MAX || extents[i].length > INT64_MAX - extents[i].file_offset)) {
      bad = failure(host, HEDDLE_STATUS_OUT_OF_RANGE, WHO ": extent %llu of '%s' ends beyond 2^63", (number_t)i, file->name);
    }
  }
  if (!bad) return enqueue(queue, item);
  host->memory_free(host->self, item);
  return bad;
}

const heddle_param_io_interface_t param_io_table = {
    .struct_size = sizeof param_io_table, .file_open = file_open, .file_close = file_close, .read = file_read};

/* Adds a number, in decimal, to a status. */
static void set_number(const heddle_host_t* host, heddle_status_t* status, const char* key, uint64_t number) {
  char digits[24];
  const heddle_string_t name = {key, strlen(key)}, value = {digits, (uint64_t)snprintf(digits, sizeof digits, "%llu", (number_t)number)};
  host->status_set_payload(host->self, status, name, value);
}

static heddle_status_t* run_io(const heddle_host_t* host, const struct io* io) {
  const uint64_t chunk = io->params.chunk_bytes ? io->params.chunk_bytes : 1 << 20;
  uint64_t done = 0, total = 0;
  for (uint64_t i = 0; i < io->count; ++i) total += io->extents[i].length;
  for (uint64_t i = 0; i < io->count; ++i) {
    const heddle_extent_t* extent = &io->extents[i];
    for (uint64_t at = 0; at < extent->length;) {
      const uint64_t wanted = extent->length - at < chunk ? extent->length - at : chunk;
      uint64_t moved = 0;
      if (io->params.cancel && *io->params.cancel) break;
      while (moved < wanted) {
        const ssize_t got = pread(io->file->descriptor, extent->buffer->data + extent->buffer_offset + at + moved, wanted - moved,
                                  (off_t)(extent->file_offset + at + moved));
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
          heddle_status_t* status = failure(host, HEDDLE_STATUS_DATA_LOSS, WHO ": reading '%s' at byte %llu failed: %s", io->file->name,
                                            (number_t)(extent->file_offset + at + moved), got ? strerror(errno) : "the file ends there");
          set_number(host, status, "extent", i);
          return status;
        }
        moved += got > 0 ? (uint64_t)got : 0;
      }
      at += wanted;
      done += wanted;
      if (io->params.progress) io->params.progress(io->params.context, done, total);
    }
  }
  if (io->params.cancel && *io->params.cancel) {
    return failure(host, HEDDLE_STATUS_CANCELLED, WHO ": reading '%s' failed: cancelled by the caller", io->file->name);
  }
  return NULL;
}

/* ---- the thread */

static heddle_status_t* run_op(heddle_device_t* device, const struct op* op) {
  static const char* const why[] = {"", "it failed", "the device is gone; open it again", "it accessed memory outside a binding"};
  const heddle_host_t* host = device->host;
  if (!op->function) {
    for (uint64_t row = 0; row < op->rows; ++row) {
      char* target = op->target + row * op->target_stride;
      if (op->source) {
        memcpy(target, op->source + row * op->source_stride, op->row_bytes);
      } else {
        uint64_t filled = op->pattern_bytes < op->row_bytes ? op->pattern_bytes : op->row_bytes;
        for (uint64_t i = 0; i < filled; ++i) target[i] = (char)(op->pattern >> (8 * i));
        while (filled < op->row_bytes) { /* the pattern is stored once; double the filled part */
          const uint64_t more = op->row_bytes - filled < filled ? op->row_bytes - filled : filled;
          memcpy(target + filled, target, more);
          filled += more;
        }
      }
    }
    return NULL;
  }
  const int outcome = op->function->run(&op->work);
  if (!outcome) return NULL;
  heddle_status_t* status = failure(host, outcome == 2 ? HEDDLE_STATUS_DEVICE_LOST : HEDDLE_STATUS_INTERNAL,
                                    WHO ": running kernel '%s' (region %u) failed: %s", op->function->name, op->region, why[outcome]);
  set_number(host, status, "region", op->region);
  if (outcome == 2) {
    pthread_mutex_lock(&device->mutex);
    if (!device->lost) device->lost = host->status_clone(host->self, status);
    pthread_mutex_unlock(&device->mutex);
  }
  return status;
}

void* work_loop(void* opaque) {
  heddle_device_t* device = opaque;
  const heddle_host_t* host = device->host;
  fesetenv(FE_DFL_ENV); /* not the one of the thread that opened the device */
  pthread_mutex_lock(&device->mutex);
  for (;;) {
    while (!device->stop && !device->first) pthread_cond_wait(&device->changed, &device->mutex);
    struct item* item = device->first;
    if (!item) break;
    device->first = item->next;
    /* The work that it waits for was enqueued earlier (HD-Q-01), and this thread works in order. */
    heddle_status_t* status = await(device, item->waits, item->wait_count);
    if (!status) status = host->status_clone(host->self, device->lost);
    pthread_mutex_unlock(&device->mutex);
    for (uint32_t i = 0; i < item->op_count && !status; ++i) status = run_op(device, &item->ops[i]);
    if (item->io && !status) status = run_io(host, item->io);
    struct watch* due = NULL;
    pthread_mutex_lock(&device->mutex);
    for (uint32_t i = 0; i < item->signal_count; ++i) reach(device, item->signals[i], status, &due);
    --item->queue->unfinished;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->mutex);
    host->status_free(host->self, status);
    host->memory_free(host->self, item);
    tell(host, due);
    pthread_mutex_lock(&device->mutex);
  }
  pthread_mutex_unlock(&device->mutex);
  return NULL;
}
