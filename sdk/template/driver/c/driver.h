/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The sample driver in C, with the headers of the SDK alone: declarations that its two files share. driver.c has the plugin, devices, buffers
 * and timelines; work.c has executables, submissions and the thread that runs them. One mutex per device guards everything that changes. */
#ifndef SAMPLE_DRIVER_H_
#define SAMPLE_DRIVER_H_

#include <pthread.h>

#include "heddle/driver.h"

#define MAX_GRID (1u << 20)
#define MAX_BINDINGS 16u
#define MAX_CONSTANTS 128u

/* Replace both with your own; also replace the id in the manifest. */
#define ID "org.example.sample_c"
#define WHO "sample_c" /* begins every error text */

/* An initializer of a heddle_string_t. */
#define TEXT(literal) {literal, sizeof(literal) - 1}

typedef unsigned long long number_t; /* for %llu */

struct heddle_plugin_instance {
  const heddle_host_t* host;
  pthread_mutex_t mutex;
  uint64_t devices; /* open ones, under mutex */
};

struct item;  /* one enqueued submission (work.c) */
struct watch; /* one requested notification (driver.c) */

struct heddle_device {
  const heddle_driver_api_t* api; /* the first word of every handle (HD-H-01) */
  const heddle_host_t* host;
  heddle_plugin_instance_t* instance;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* a timeline, the list of items or a queue's count */
  pthread_t worker;
  struct item *first, *last;
  int stop;
  uint64_t bytes, queues, buffers, timelines, executables, files; /* live */
  heddle_status_t* lost;                                          /* why the device is lost; NULL if it is not */
};

struct heddle_queue {
  const heddle_driver_api_t* api;
  heddle_device_t* device;
  uint64_t unfinished;
};

struct heddle_buffer {
  const heddle_driver_api_t* api;
  heddle_device_t* device;
  uint64_t size;
  uint64_t alignment;
  char* data;
  void* mapped;
  uint64_t mapped_bytes;
};

struct heddle_timeline {
  const heddle_driver_api_t* api;
  heddle_device_t* device;
  uint64_t value;
  uint64_t failed_at; /* valid if failure is not NULL */
  heddle_status_t* failure;
  struct watch* watches; /* in the order of the requests */
};

struct heddle_file {
  const heddle_driver_api_t* api;
  heddle_device_t* device;
  int descriptor;
  uint32_t access;
  char name[200];
};

/* A status with a formatted text. */
heddle_status_t* failure(const heddle_host_t* host, heddle_status_code_t code, const char* format, ...);
heddle_status_t* no_memory(const heddle_host_t* host, const char* what);
/* Copies a caller's struct: missing fields of a smaller one become zero; the unknown end of a larger one must be zero (HD-E-04). */
heddle_status_t* read_struct(const heddle_host_t* host, const char* what, const void* in, void* out, uint32_t size);
/* Every call begins with this: NULL, or why it is refused: a forked child (HD-T-01), a lost device (HD-S-02). */
heddle_status_t* refused(heddle_device_t* device);
int holds(const heddle_buffer_t* buffer, uint64_t offset, uint64_t length);

/* With the device's lock held: reaches or fails the point. Takes no ownership of the failure. Appends the notifications that are due to *due. */
void reach(heddle_device_t* device, heddle_point_t point, const heddle_status_t* failed, struct watch** due);
/* Without the lock: a notified function may submit, signal, and destroy the timeline. */
void tell(const heddle_host_t* host, struct watch* due);
/* With the device's lock held: waits for all points. Returns the failure of one, owned by the caller. */
heddle_status_t* await(heddle_device_t* device, const heddle_point_t* points, uint32_t count);

void* work_loop(void* device);
extern const heddle_transfer_interface_t transfer_table;
extern const heddle_param_io_interface_t param_io_table;
extern const heddle_dispatch_interface_t dispatch_table;

#endif /* SAMPLE_DRIVER_H_ */
