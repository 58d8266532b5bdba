/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* heddle/ext/dlpack.h from C, on a CPU device: tensors out and in, every element type, strides, and how often a deleter is called.
 * usage: core_dlpack_test PLUGINS */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heddle/ext/dlpack.h"

static int failures = 0;

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

static void expect_ok(int line, heddle_status_t* status) {
  const heddle_string_t text = heddle_status_message(status);
  if (!status) return;
  fprintf(stderr, "%s:%d: %.*s\n", __FILE__, line, (int)text.size, text.data);
  heddle_status_free(status);
  ++failures;
}
#define OK(call) expect_ok(__LINE__, call)

static void expect_failure(int line, heddle_status_t* status, heddle_status_code_t code, const char* part) {
  char text[1024] = "";
  const heddle_string_t message = heddle_status_message(status);
  snprintf(text, sizeof text, "%.*s", (int)message.size, message.data);
  if (heddle_status_code(status) != code || !strstr(text, part)) {
    fprintf(stderr, "%s:%d: expected a failure %u with '%s', got %u '%s'\n", __FILE__, line, (unsigned)code, part,
            (unsigned)heddle_status_code(status), text);
    ++failures;
  }
  heddle_status_free(status);
}
#define FAILS(call, code, part) expect_failure(__LINE__, call, code, part)

/* The layout of DLPack 1.0's structs on a 64-bit machine. */
_Static_assert(sizeof(heddle_dlpack_device_t) == 8, "DLDevice");
_Static_assert(sizeof(heddle_dlpack_type_t) == 4, "DLDataType");
_Static_assert(sizeof(heddle_dlpack_tensor_t) == 48 && offsetof(heddle_dlpack_tensor_t, rank) == 16 &&
                   offsetof(heddle_dlpack_tensor_t, type) == 20 && offsetof(heddle_dlpack_tensor_t, shape) == 24 &&
                   offsetof(heddle_dlpack_tensor_t, strides) == 32 && offsetof(heddle_dlpack_tensor_t, byte_offset) == 40,
               "DLTensor");
_Static_assert(sizeof(heddle_dlpack_managed_t) == 80 && offsetof(heddle_dlpack_managed_t, context) == 8 &&
                   offsetof(heddle_dlpack_managed_t, deleter) == 16 && offsetof(heddle_dlpack_managed_t, flags) == 24 &&
                   offsetof(heddle_dlpack_managed_t, tensor) == 32,
               "DLManagedTensorVersioned");

/* A tensor of another library over static memory, and how often it was deleted. */
typedef struct foreign {
  heddle_dlpack_managed_t managed;
  int64_t shape[HEDDLE_MAX_RANK + 1], strides[HEDDLE_MAX_RANK + 1];
  int deletions;
} foreign_t;

static void delete_foreign(heddle_dlpack_managed_t* managed) {
  ++((foreign_t*)managed->context)->deletions;
}

static _Alignas(256) unsigned char memory[4096];

static void make_foreign(foreign_t* out, int64_t rows, int64_t columns) {
  memset(out, 0, sizeof *out);
  out->shape[0] = rows;
  out->shape[1] = columns;
  out->strides[0] = columns;
  out->strides[1] = 1;
  out->managed.major = 1;
  out->managed.context = out;
  out->managed.deleter = delete_foreign;
  out->managed.tensor.data = memory;
  out->managed.tensor.device.type = HEDDLE_DLPACK_CPU;
  out->managed.tensor.rank = 2;
  out->managed.tensor.type.code = HEDDLE_DLPACK_FLOAT;
  out->managed.tensor.type.bits = 32;
  out->managed.tensor.type.lanes = 1;
  out->managed.tensor.shape = out->shape;
  out->managed.tensor.strides = out->strides;
}

static void every_element_type(heddle_runtime_device_t* device) {
  static const struct {
    heddle_element_type_t type;
    uint8_t code, bits;
  } types[] = {{HEDDLE_TYPE_BOOL, 6, 8},        {HEDDLE_TYPE_I8, 0, 8},      {HEDDLE_TYPE_U8, 1, 8},      {HEDDLE_TYPE_I16, 0, 16},
               {HEDDLE_TYPE_U16, 1, 16},        {HEDDLE_TYPE_I32, 0, 32},    {HEDDLE_TYPE_U32, 1, 32},    {HEDDLE_TYPE_I64, 0, 64},
               {HEDDLE_TYPE_U64, 1, 64},        {HEDDLE_TYPE_F16, 2, 16},    {HEDDLE_TYPE_BF16, 4, 16},   {HEDDLE_TYPE_F32, 2, 32},
               {HEDDLE_TYPE_F64, 2, 64},        {HEDDLE_TYPE_F8E4M3, 10, 8}, {HEDDLE_TYPE_F8E5M2, 12, 8}, {HEDDLE_TYPE_F8E4M3FNUZ, 11, 8},
               {HEDDLE_TYPE_F8E5M2FNUZ, 13, 8}, {HEDDLE_TYPE_F8E8M0, 14, 8}};
  const int64_t dims[3] = {2, 1, 3};
  size_t i;
  for (i = 0; i < sizeof types / sizeof types[0]; ++i) {
    unsigned char bytes[48], back[48];
    const uint64_t size = 6u * types[i].bits / 8;
    heddle_tensor_t *tensor = NULL, *again = NULL;
    heddle_dlpack_managed_t* managed;
    void* out = NULL;
    uint64_t address = 0, second = 0;
    size_t k;
    for (k = 0; k < size; ++k) bytes[k] = (unsigned char)(k & 1u);
    OK(heddle_tensor_create(device, types[i].type, dims, 3, bytes, size, &tensor));
    OK(heddle_tensor_address(tensor, &address));
    OK(heddle_dlpack_export(tensor, HEDDLE_DLPACK_READ_ONLY, &out));
    managed = (heddle_dlpack_managed_t*)out;
    heddle_tensor_release(tensor); /* the export keeps it */
    EXPECT(managed->major == 1 && managed->minor == (types[i].code > 6) && managed->flags == HEDDLE_DLPACK_READ_ONLY);
    EXPECT(managed->tensor.device.type == HEDDLE_DLPACK_CPU && managed->tensor.device.id == 0);
    EXPECT(managed->tensor.type.code == types[i].code && managed->tensor.type.bits == types[i].bits && managed->tensor.type.lanes == 1);
    EXPECT(managed->tensor.rank == 3 && memcmp(managed->tensor.shape, dims, sizeof dims) == 0);
    EXPECT(managed->tensor.strides[0] == 3 && managed->tensor.strides[1] == 3 && managed->tensor.strides[2] == 1);
    EXPECT((uint64_t)(uintptr_t)managed->tensor.data == address && managed->tensor.byte_offset == 0);
    EXPECT(memcmp(managed->tensor.data, bytes, size) == 0);
    FAILS(heddle_dlpack_import(device, managed, 0, &again), HEDDLE_STATUS_INVALID_ARGUMENT, "its memory is read-only");
    OK(heddle_dlpack_import(device, managed, HEDDLE_DLPACK_READ_ONLY, &again));
    EXPECT(heddle_tensor_element_type(again) == types[i].type && heddle_tensor_rank(again) == 3 && heddle_tensor_size(again) == size);
    OK(heddle_tensor_address(again, &second));
    EXPECT(second == address);
    OK(heddle_tensor_read(again, back, size));
    EXPECT(memcmp(back, bytes, size) == 0);
    heddle_tensor_release(again);
  }
}

static void what_dlpack_does_not_have(heddle_runtime_device_t* device) {
  const int64_t dims[1] = {4};
  const unsigned char bytes[2] = {1, 2};
  heddle_tensor_t* tensor = NULL;
  void* out = &tensor;
  OK(heddle_tensor_create(device, HEDDLE_TYPE_I4, dims, 1, bytes, 2, &tensor));
  FAILS(heddle_dlpack_export(tensor, 0, &out), HEDDLE_STATUS_UNIMPLEMENTED, "no element type for 0x0402");
  EXPECT(out == NULL);
  FAILS(heddle_dlpack_export(tensor, 2, &out), HEDDLE_STATUS_INVALID_ARGUMENT, "flags are 0x2");
  FAILS(heddle_dlpack_export(NULL, 0, &out), HEDDLE_STATUS_INVALID_ARGUMENT, "tensor is NULL");
  FAILS(heddle_dlpack_export(tensor, 0, NULL), HEDDLE_STATUS_INVALID_ARGUMENT, "out_managed is NULL");
  EXPECT(heddle_dlpack_device_of(NULL).type == 0);
  heddle_tensor_release(tensor);
}

/* Each refusal names what was expected and what came, and leaves the tensor with the caller. */
static void what_is_refused(heddle_runtime_device_t* device) {
  foreign_t foreign;
  heddle_tensor_t* tensor = NULL;
  const heddle_status_code_t invalid = HEDDLE_STATUS_INVALID_ARGUMENT;
#define REFUSED(change, code, part)                                                \
  do {                                                                             \
    make_foreign(&foreign, 4, 6);                                                  \
    change;                                                                        \
    FAILS(heddle_dlpack_import(device, &foreign.managed, 0, &tensor), code, part); \
    EXPECT(foreign.deletions == 0 && tensor == NULL);                              \
  } while (0)
  REFUSED(foreign.managed.major = 2, invalid, "expected version 1 of DLPack, got 2.0");
  REFUSED(foreign.managed.flags = 1, invalid, "its memory is read-only");
  REFUSED(foreign.managed.tensor.device.type = HEDDLE_DLPACK_CUDA, invalid, "expected memory of DLPack's device (1, 0), got one of (2, 0)");
  REFUSED(foreign.managed.tensor.type.lanes = 4, HEDDLE_STATUS_UNIMPLEMENTED, "no element type of code 2, 32 bits and 4 lanes");
  REFUSED(foreign.managed.tensor.type.code = 5, HEDDLE_STATUS_UNIMPLEMENTED, "no element type of code 5, 32 bits and 1 lanes");
  REFUSED(foreign.managed.tensor.type.bits = 24, HEDDLE_STATUS_UNIMPLEMENTED, "code 2, 24 bits");
  REFUSED(foreign.managed.tensor.rank = -1, invalid, "expected 0 to 16 dimensions with a shape, got -1");
  REFUSED(foreign.managed.tensor.rank = 17, invalid, "got 17");
  REFUSED(foreign.managed.tensor.shape = NULL, invalid, "got 2 without a shape");
  REFUSED(foreign.shape[1] = -6, invalid, "expected extents of 0 or more, got -6 in dimension 1");
  REFUSED(foreign.strides[0] = 8, invalid, "expected a stride of 6 elements in dimension 0, for row-major dense memory, got 8");
  REFUSED((foreign.strides[0] = 1, foreign.strides[1] = 4), invalid, "expected a stride of 1 elements in dimension 1");
  REFUSED((foreign.shape[0] = INT64_MAX / 8, foreign.managed.tensor.strides = NULL), invalid, "more than 2^63 bytes");
  REFUSED(foreign.managed.tensor.byte_offset = 4, invalid, "multiple of 64 bytes");
  FAILS(heddle_dlpack_import(NULL, &foreign.managed, 0, &tensor), invalid, "device is NULL");
  FAILS(heddle_dlpack_import(device, NULL, 0, &tensor), invalid, "managed is NULL");
  FAILS(heddle_dlpack_import(device, &foreign.managed, 0, NULL), invalid, "out_tensor is NULL");
}

static void who_deletes(heddle_runtime_device_t* device) {
  foreign_t foreign;
  heddle_tensor_t *tensor = NULL, *shared;
  heddle_dlpack_managed_t* out = NULL;
  void* managed = NULL;
  float values[24], back[24];
  int i;
  for (i = 0; i < 24; ++i) values[i] = (float)i;
  memcpy(memory + 256, values, sizeof values);
  make_foreign(&foreign, 4, 6);
  foreign.managed.tensor.byte_offset = 256;
  foreign.strides[0] = 6;
  OK(heddle_dlpack_import(device, &foreign.managed, 0, &tensor));
  OK(heddle_tensor_read(tensor, back, sizeof back));
  EXPECT(memcmp(back, values, sizeof back) == 0);
  values[3] = 33;
  OK(heddle_tensor_write(tensor, values, sizeof values));
  EXPECT(memcmp(memory + 256, values, sizeof values) == 0); /* no copy between them */
  /* Out again: the memory is in use until the second consumer is done with it, too. */
  OK(heddle_dlpack_export(tensor, 0, &managed));
  out = (heddle_dlpack_managed_t*)managed;
  EXPECT(out->tensor.data == memory + 256 && out->flags == 0);
  shared = heddle_tensor_retain(tensor);
  heddle_tensor_release(tensor);
  heddle_tensor_release(shared);
  EXPECT(foreign.deletions == 0);
  out->deleter(out);
  EXPECT(foreign.deletions == 1);

  /* No strides; a stride that does not matter; no elements; a scalar; no deleter. */
  make_foreign(&foreign, 4, 6);
  foreign.managed.tensor.strides = NULL;
  OK(heddle_dlpack_import(device, &foreign.managed, 0, &tensor));
  heddle_tensor_release(tensor);
  EXPECT(foreign.deletions == 1);
  make_foreign(&foreign, 1, 6);
  foreign.strides[0] = 1234;
  OK(heddle_dlpack_import(device, &foreign.managed, 0, &tensor));
  heddle_tensor_release(tensor);
  EXPECT(foreign.deletions == 1);
  make_foreign(&foreign, INT64_MAX, 0);
  foreign.strides[0] = foreign.strides[1] = 9;
  OK(heddle_dlpack_import(device, &foreign.managed, 0, &tensor));
  EXPECT(heddle_tensor_size(tensor) == 0);
  heddle_tensor_release(tensor);
  EXPECT(foreign.deletions == 1);
  make_foreign(&foreign, 1, 1);
  foreign.managed.tensor.rank = 0;
  foreign.managed.tensor.shape = NULL;
  foreign.managed.deleter = NULL;
  foreign.managed.tensor.device.type = HEDDLE_DLPACK_CUDA_HOST;
  OK(heddle_dlpack_import(device, &foreign.managed, 0, &tensor));
  EXPECT(heddle_tensor_rank(tensor) == 0 && heddle_tensor_size(tensor) == 4);
  heddle_tensor_release(tensor);
}

int main(int count, char** arguments) {
  heddle_runtime_params_t params;
  heddle_runtime_t* runtime = NULL;
  heddle_runtime_device_t* device = NULL;
  heddle_string_t path, name;
  if (count != 2) {
    fprintf(stderr, "usage: core_dlpack_test PLUGINS\n");
    return 2;
  }
  path.data = arguments[1];
  path.size = strlen(arguments[1]);
  name.data = "heddle.cpu:0";
  name.size = strlen(name.data);
  memset(&params, 0, sizeof params);
  params.struct_size = sizeof params;
  params.flags = HEDDLE_RUNTIME_NO_CONFIG;
  params.plugin_path_count = 1;
  params.plugin_paths = &path;
  OK(heddle_runtime_create(&params, &runtime));
  OK(heddle_runtime_device(runtime, name, &device));
  if (failures != 0) return 1;
  every_element_type(device);
  what_dlpack_does_not_have(device);
  what_is_refused(device);
  who_deletes(device);
  heddle_runtime_device_release(device);
  heddle_runtime_release(runtime);
  printf("%d failures\n", failures);
  return failures != 0;
}
