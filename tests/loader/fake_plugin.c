/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A driver plugin that does as little as a driver may, and one thing wrong: the one whose FAKE_ macro is defined.
 * Loaded by the tests of this folder through the host; it knows only the public headers. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "heddle/driver.h"

#define TEXT(literal) {literal, sizeof(literal) - 1}

struct heddle_plugin_instance {
  const heddle_host_t* host;
  heddle_string_t name;
};

#if defined(FAKE_UNRESOLVED)
extern int heddle_test_nobody_has_this(void);
#endif
#if defined(FAKE_NEEDS_ABSENT)
extern int heddle_test_absent_function(void);
#endif

/* A null pointer that the compiler cannot see through. */
static int* volatile nowhere = NULL;

#if defined(FAKE_ALLOCATE_PROBE) || defined(FAKE_EAT_CONSTRUCTOR) || defined(FAKE_EAT_ENTRY) || defined(FAKE_EAT_PROBE) || \
    defined(FAKE_EAT_CREATE)
/* Memory that is written to, whether it is there or not, and never given back. Page by page: memset would be a sanitizer's, which takes more. */
static void take(size_t size) {
  volatile char* memory = malloc(size);
  for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
}
#endif

#if defined(FAKE_EAT_CONSTRUCTOR)
__attribute__((constructor)) static void eat_in_constructor(void) {
  for (;;) take((size_t)16 << 20);
}
#endif
#if defined(FAKE_CRASH_CONSTRUCTOR)
__attribute__((constructor)) static void crash_in_constructor(void) {
  *nowhere = 1;
}
#endif

#if defined(FAKE_CRASH_DESTRUCTOR)
__attribute__((destructor)) static void crash_in_destructor(void) {
  *nowhere = 1;
}
#endif
#if defined(FAKE_CRASH_ATEXIT)
static void crash_at_exit(void) {
  *nowhere = 1;
}
#endif
#if defined(FAKE_EXIT_ATEXIT)
static void exit_at_exit(void) {
  _exit(7);
}
#endif
#if defined(FAKE_EXPORT_MORE)
HEDDLE_EXPORT int fake_malloc_stats(void);
int fake_malloc_stats(void) {
  return 0;
}
HEDDLE_EXPORT int fake_counter = 1;
#endif
#if defined(FAKE_THROW_PROBE) || defined(FAKE_THROW_CREATE)
extern void heddle_test_throw(void); /* throw.cpp */
#endif

static heddle_status_t* count(heddle_plugin_instance_t* instance, uint32_t* out_count) {
  (void)instance;
#if defined(FAKE_TWO_DEVICES)
  *out_count = 2;
#elif defined(FAKE_MANY_DEVICES)
  *out_count = 4000000000u;
#else
  *out_count = 1;
#endif
  return NULL;
}

static heddle_status_t* describe(heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out) {
  static const heddle_string_t family = TEXT("fake");
  static const heddle_string_t pci[2] = {TEXT("0000:41:00.0"), TEXT("0000:42:00.0")};
  if (ordinal > 1) {
    heddle_string_t text = TEXT("fake: no such device");
    heddle_string_t none = TEXT("");
    return instance->host->status_create(instance->host->self, HEDDLE_STATUS_OUT_OF_RANGE, none, 0, text);
  }
  out->ordinal = ordinal;
  out->name = instance->name;
  out->family = family;
  out->pci = pci[ordinal];
  memset(out->uuid, 0x1b + (int)ordinal, sizeof(out->uuid));
  out->numa_node = -1;
  out->min_alignment_bytes = 64;
  return NULL;
}

static heddle_status_t* allocate(heddle_device_t* device, const heddle_buffer_params_t* params, heddle_buffer_t** out_buffer) {
  (void)device;
  (void)params;
  *out_buffer = NULL;
  return NULL;
}

#if defined(FAKE_LARGE_TABLE)
/* A table of a later minor version: what this host does not know comes last. */
static const struct {
  heddle_device_interface_t known;
  void* later[4];
} device_table = {{sizeof(device_table), 0, count, describe, NULL, NULL, NULL, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL}};
#elif defined(FAKE_SMALL_TABLE)
/* A table of an earlier minor version: it ends after describe. */
static const struct {
  uint32_t struct_size;
  uint32_t reserved;
  heddle_status_t* (*count)(heddle_plugin_instance_t*, uint32_t*);
  heddle_status_t* (*describe)(heddle_plugin_instance_t*, uint32_t, heddle_device_description_t*);
} device_table = {24, 0, count, describe};
#elif defined(FAKE_LYING_SIZE)
/* Claims to be whole, but data follows where functions should be. */
static const struct {
  uint32_t struct_size;
  uint32_t reserved;
  heddle_status_t* (*count)(heddle_plugin_instance_t*, uint32_t*);
  heddle_status_t* (*describe)(heddle_plugin_instance_t*, uint32_t, heddle_device_description_t*);
  uint64_t not_functions[6];
} device_table = {sizeof(heddle_device_interface_t), 0, count, describe, {0x6c6c6f63, 0x617465, 77, 78, 79, 80}};
#else
static const heddle_device_interface_t device_table = {sizeof(device_table), 0, count, describe, NULL, NULL, NULL, NULL, NULL, NULL};
#endif

/* Whole in size, empty but for one function: every hole answers UNIMPLEMENTED. */
static const heddle_buffer_interface_t buffer_table = {
#if defined(FAKE_NULL_FUNCTION)
    .struct_size = sizeof(buffer_table),
    .allocate = NULL,
#else
    .struct_size = sizeof(buffer_table),
    .allocate = allocate,
#endif
};
static const heddle_transfer_interface_t transfer_table = {.struct_size = sizeof(transfer_table)};
static const heddle_param_io_interface_t param_io_table = {.struct_size = sizeof(param_io_table)};
static const heddle_dispatch_interface_t dispatch_table = {.struct_size = sizeof(dispatch_table)};
static const heddle_timeline_interface_t timeline_table = {.struct_size = sizeof(timeline_table)};

static const void* get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) {
  static const struct {
    const char* id;
    const void* table;
  } tables[] = {{HEDDLE_DEVICE_INTERFACE, &device_table},     {HEDDLE_BUFFER_INTERFACE, &buffer_table},
                {HEDDLE_TRANSFER_INTERFACE, &transfer_table}, {HEDDLE_PARAM_IO_INTERFACE, &param_io_table},
                {HEDDLE_DISPATCH_INTERFACE, &dispatch_table}, {HEDDLE_TIMELINE_INTERFACE, &timeline_table}};
  (void)instance;
  for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); ++i) {
    if (strlen(tables[i].id) != id.size || memcmp(tables[i].id, id.data, id.size) != 0) continue;
#if defined(FAKE_MISSING_INTERFACE)
    if (tables[i].table == &timeline_table) return NULL;
#elif defined(FAKE_BAD_TABLE_POINTER)
    if (tables[i].table == &buffer_table) return (const void*)16;
#endif
    return tables[i].table;
  }
  return NULL;
}

#if defined(FAKE_NO_DEVICE) || defined(FAKE_NO_PERMISSION) || defined(FAKE_UNKNOWN_VERDICT) || defined(FAKE_TELL_PROBE)
static void answer(heddle_probe_result_t* out, uint32_t verdict, const char* reason) {
  out->verdict = verdict;
  out->reason_size = (uint32_t)strlen(reason);
  memcpy(out->reason, reason, out->reason_size);
}
#endif

static heddle_status_t* probe(const heddle_host_t* host, heddle_probe_result_t* out) {
  (void)host;
  out->verdict = HEDDLE_PROBE_AVAILABLE;
  out->device_count = 1;
#if defined(FAKE_ABORT_PROBE)
  fprintf(stderr, "fake: assertion failed: the moon is full\n");
  abort();
#elif defined(FAKE_CRASH_PROBE)
  *nowhere = 1;
#elif defined(FAKE_THROW_PROBE)
  heddle_test_throw();
#elif defined(FAKE_CRASH_ATEXIT)
  atexit(crash_at_exit);
#elif defined(FAKE_EXIT_ATEXIT)
  atexit(exit_at_exit);
#elif defined(FAKE_FORGE_DISABLED) || defined(FAKE_FORGE_UNTRUSTED)
  /* An answer of its own, on the descriptor that is the host's. */
#if defined(FAKE_FORGE_DISABLED)
  static const char forged[] = "state 0\ndevices 1\nvendor \nreason the configuration disables it\nend\n";
#else
  static const char forged[] = "state 1\ndevices 1\nvendor \nreason it is not to be trusted\nend\n";
#endif
  _exit(write(3, forged, sizeof(forged) - 1) < 0 ? 1 : 0);
#elif defined(FAKE_TELL_PROBE)
  /* Where it finds itself. */
  static char text[512];
  char adjusted[16] = "?";
  const char* folders = getenv("LD_LIBRARY_PATH");
  struct rlimit core, file, cpu;
  int terminal = open("/dev/tty", O_RDWR), score = open("/proc/self/oom_score_adj", O_RDONLY);
  const ssize_t size = read(score, adjusted, sizeof(adjusted) - 1);
  if (size > 0) adjusted[size - 1] = '\0';
  getrlimit(RLIMIT_CORE, &core);
  getrlimit(RLIMIT_FSIZE, &file);
  getrlimit(RLIMIT_CPU, &cpu);
  snprintf(text, sizeof(text), "oom %s, core %d, file %d, cpu %d, leader %d, terminal %d, input %d, LD_LIBRARY_PATH %s", adjusted,
           core.rlim_max == 0, file.rlim_max <= (rlim_t)4 << 30, cpu.rlim_max != RLIM_INFINITY, getsid(0) == getpid(), terminal >= 0,
           (int)read(0, adjusted, 1), folders ? folders : "unset");
  answer(out, HEDDLE_PROBE_NO_DEVICE, text);
#elif defined(FAKE_ALLOCATE_PROBE)
  take((size_t)1 << 30);
#elif defined(FAKE_EAT_PROBE)
  for (;;) take((size_t)16 << 20);
#elif defined(FAKE_ILL_PROBE)
  __builtin_trap();
#elif defined(FAKE_SPIN_PROBE)
  for (volatile unsigned count = 0;; ++count) {
  }
#elif defined(FAKE_HANG_PROBE)
  for (;;) usleep(1000);
#elif defined(FAKE_FLOOD_PROBE)
  static char noise[4096];
  memset(noise, 'x', sizeof(noise));
  for (;;) {
    if (write(1, noise, sizeof(noise)) < 0) usleep(1000);
  }
#elif defined(FAKE_EXIT_PROBE)
  exit(0);
#elif defined(FAKE_EXIT_WITH_CHILD)
  /* The grandchild keeps every descriptor open. */
  if (fork() == 0) {
    sleep(30);
    _exit(0);
  }
  _exit(0);
#elif defined(FAKE_CLOSE_ANSWER)
  for (int i = 0; i < 16; ++i) close(i);
#elif defined(FAKE_PRINT_PROBE)
  /* Looks like an answer, but printing is none. */
  printf("heddle-probe/2\nstate 4\ndevices 99\nreason forged\nend\n");
  fflush(stdout);
#elif defined(FAKE_NO_DEVICE)
  answer(out, HEDDLE_PROBE_NO_DEVICE,
         "no fake card is plugged in\n\x1b[31m \xc2\x9b"
         "31m \xe2\x80\xae\xff");
#elif defined(FAKE_NO_PERMISSION)
  answer(out, HEDDLE_PROBE_NO_PERMISSION, "add the user to group fake");
#elif defined(FAKE_UNKNOWN_VERDICT)
  answer(out, 42, "");
  out->reason_size = 100000;
#endif
  return NULL;
}

static heddle_status_t* create(const heddle_host_t* host, heddle_plugin_instance_t** out_instance) {
  *out_instance = NULL;
#if defined(FAKE_CRASH_CREATE)
  *nowhere = 1;
#elif defined(FAKE_EAT_CREATE)
  for (;;) take((size_t)16 << 20);
#elif defined(FAKE_THROW_CREATE)
  heddle_test_throw();
#elif defined(FAKE_CREATE_FAILS)
  heddle_string_t domain = TEXT("fake");
  heddle_string_t message = TEXT("fake: creating an instance failed: the firmware is upside down; turn it");
  return host->status_create(host->self, HEDDLE_STATUS_INTERNAL, domain, 17, message);
#elif defined(FAKE_NULL_INSTANCE)
  return NULL;
#endif
  heddle_plugin_instance_t* instance = host->memory_allocate(host->self, sizeof(*instance), 16);
  heddle_option_t name;
  heddle_status_t* missing;
  static const heddle_string_t fallback = TEXT("a fake");
  static const heddle_string_t key = TEXT("name");
  instance->host = host;
  instance->name = fallback;
  memset(&name, 0, sizeof(name));
  name.struct_size = sizeof(name);
  missing = host->option(host->self, key, &name);
  if (missing) {
    host->status_free(host->self, missing);
  } else {
    instance->name = name.string_value;
  }
  *out_instance = instance;
  return NULL;
}

static heddle_status_t* shut_down(heddle_plugin_instance_t* instance) {
#if defined(FAKE_HANG_SHUTDOWN)
  for (;;) usleep(1000);
#endif
  instance->host->memory_free(instance->host->self, instance);
  return NULL;
}

static const heddle_plugin_t plugin_table = {
    sizeof(plugin_table),
#if defined(FAKE_KIND_NONE)
    0,
#else
    HEDDLE_PLUGIN_DRIVER,
#endif
#if defined(FAKE_OTHER_ID)
    TEXT("fake.somebody_else"),
#else
    TEXT(FAKE_ID),
#endif
    TEXT("1.0.0"),
    probe,
    create,
    shut_down,
    get_interface,
};

#if !defined(FAKE_NO_ENTRY)
HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation);
const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
#if defined(FAKE_CRASH_ENTRY)
  *nowhere = 1;
#elif defined(FAKE_ILL_ENTRY)
  __builtin_trap();
#elif defined(FAKE_EAT_ENTRY)
  for (;;) take((size_t)16 << 20);
#elif defined(FAKE_ABI_RANGE)
  static const char reason[] = "built for tomorrow";
  negotiation->plugin_min_minor = 5;
  negotiation->plugin_max_minor = 7;
  memcpy(negotiation->reason, reason, sizeof(reason) - 1);
  negotiation->reason_size = sizeof(reason) - 1;
  return NULL;
#elif defined(FAKE_NULL_TABLE)
  return NULL;
#elif defined(FAKE_UNRESOLVED)
  negotiation->plugin_min_minor = (uint32_t)heddle_test_nobody_has_this();
#elif defined(FAKE_NEEDS_ABSENT)
  negotiation->plugin_min_minor = (uint32_t)heddle_test_absent_function();
#endif
  negotiation->plugin_min_minor = HEDDLE_ABI_MINOR;
  negotiation->plugin_max_minor = HEDDLE_ABI_MINOR;
  negotiation->chosen_minor = HEDDLE_ABI_MINOR;
  return &plugin_table;
}
#else
/* Kept, so that the file has something in it. */
const void* heddle_test_not_the_entry(void);
const void* heddle_test_not_the_entry(void) {
  return &plugin_table;
}
#endif
