/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* DLPack 1.0 for applications: tensors of Heddle for other libraries, and theirs for Heddle, without a copy. Functions of this header only, over
 * runtime.h; link libheddle. Since ABI 0.2.
 *
 * DLPack is https://dmlc.github.io/dlpack. The structs below have its layout under names of their own, so that <dlpack/dlpack.h> can be included,
 * too; the functions take and return a DLManagedTensorVersioned as void*.
 *
 *   void* managed;
 *   heddle_dlpack_export(tensor, 0, &managed);            // for another library, which calls its deleter once
 *   heddle_dlpack_import(device, theirs, 0, &tensor);     // for calls; theirs is deleted when the tensor is no longer used
 *
 * Tensors are row-major and dense on both sides. Element types are those of DLPack 1.0, and the two of 8-bit floats that DLPack 1.1 added. */
#ifndef HEDDLE_EXT_DLPACK_H_
#define HEDDLE_EXT_DLPACK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heddle/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of devices. 0 is none of DLPack's. */
#define HEDDLE_DLPACK_CPU 1
#define HEDDLE_DLPACK_CUDA 2
#define HEDDLE_DLPACK_CUDA_HOST 3 /* host memory that CUDA has pinned */
#define HEDDLE_DLPACK_ROCM 10

/* Codes of element types. */
#define HEDDLE_DLPACK_INT 0
#define HEDDLE_DLPACK_UINT 1
#define HEDDLE_DLPACK_FLOAT 2
#define HEDDLE_DLPACK_BFLOAT 4
#define HEDDLE_DLPACK_BOOL 6
#define HEDDLE_DLPACK_FLOAT8_E4M3FN 10 /* since DLPack 1.1 */
#define HEDDLE_DLPACK_FLOAT8_E5M2 12   /* since DLPack 1.1 */
/* Since ABI 0.3; since DLPack 1.1. */
#define HEDDLE_DLPACK_FLOAT8_E4M3FNUZ 11
#define HEDDLE_DLPACK_FLOAT8_E5M2FNUZ 13
#define HEDDLE_DLPACK_FLOAT8_E8M0FNU 14

#define HEDDLE_DLPACK_READ_ONLY UINT64_C(1) /* in flags: the consumer does not write */

typedef struct heddle_dlpack_device { /* DLDevice. Frozen. */
  int32_t type;                       /* HEDDLE_DLPACK_CPU, ... */
  int32_t id;
} heddle_dlpack_device_t;

typedef struct heddle_dlpack_type { /* DLDataType. Frozen. */
  uint8_t code;                     /* HEDDLE_DLPACK_INT, ... */
  uint8_t bits;
  uint16_t lanes;
} heddle_dlpack_type_t;

typedef struct heddle_dlpack_tensor { /* DLTensor. Frozen. */
  void* data;
  heddle_dlpack_device_t device;
  int32_t rank;
  heddle_dlpack_type_t type;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: row-major and dense */
  uint64_t byte_offset;
} heddle_dlpack_tensor_t;

typedef struct heddle_dlpack_managed { /* DLManagedTensorVersioned. Frozen. */
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct heddle_dlpack_managed* self); /* may be NULL. [any] [callback] */
  uint64_t flags;
  heddle_dlpack_tensor_t tensor;
} heddle_dlpack_managed_t;

/* The type by which DLPack knows an element type of Heddle; bits is 0 for types of less than 8 bits, which it had not in version 1.0. [any] [no-block] */
static inline heddle_dlpack_type_t heddle_dlpack_type_of(heddle_element_type_t type) {
  heddle_dlpack_type_t out = {0, 0, 1};
  switch (type) {
    case HEDDLE_TYPE_I8:
    case HEDDLE_TYPE_I16:
    case HEDDLE_TYPE_I32:
    case HEDDLE_TYPE_I64:
      out.code = HEDDLE_DLPACK_INT;
      break;
    case HEDDLE_TYPE_U8:
    case HEDDLE_TYPE_U16:
    case HEDDLE_TYPE_U32:
    case HEDDLE_TYPE_U64:
      out.code = HEDDLE_DLPACK_UINT;
      break;
    case HEDDLE_TYPE_F16:
    case HEDDLE_TYPE_F32:
    case HEDDLE_TYPE_F64:
      out.code = HEDDLE_DLPACK_FLOAT;
      break;
    case HEDDLE_TYPE_BF16:
      out.code = HEDDLE_DLPACK_BFLOAT;
      break;
    case HEDDLE_TYPE_BOOL:
      out.code = HEDDLE_DLPACK_BOOL;
      break;
    case HEDDLE_TYPE_F8E4M3:
      out.code = HEDDLE_DLPACK_FLOAT8_E4M3FN;
      break;
    case HEDDLE_TYPE_F8E5M2:
      out.code = HEDDLE_DLPACK_FLOAT8_E5M2;
      break;
    case HEDDLE_TYPE_F8E4M3FNUZ:
      out.code = HEDDLE_DLPACK_FLOAT8_E4M3FNUZ;
      break;
    case HEDDLE_TYPE_F8E5M2FNUZ:
      out.code = HEDDLE_DLPACK_FLOAT8_E5M2FNUZ;
      break;
    case HEDDLE_TYPE_F8E8M0:
      out.code = HEDDLE_DLPACK_FLOAT8_E8M0FNU;
      break;
    default:
      return out;
  }
  out.bits = (uint8_t)HEDDLE_TYPE_BITS(type);
  return out;
}

/* The element type of Heddle; HEDDLE_TYPE_UNDEFINED for one that it does not have, and for vectors (lanes other than 1). [any] [no-block] */
static inline heddle_element_type_t heddle_dlpack_element_type(heddle_dlpack_type_t type) {
  static const heddle_element_type_t known[] = {
      HEDDLE_TYPE_BOOL, HEDDLE_TYPE_I8,     HEDDLE_TYPE_U8,     HEDDLE_TYPE_I16,        HEDDLE_TYPE_U16,        HEDDLE_TYPE_I32,
      HEDDLE_TYPE_U32,  HEDDLE_TYPE_I64,    HEDDLE_TYPE_U64,    HEDDLE_TYPE_F16,        HEDDLE_TYPE_BF16,       HEDDLE_TYPE_F32,
      HEDDLE_TYPE_F64,  HEDDLE_TYPE_F8E4M3, HEDDLE_TYPE_F8E5M2, HEDDLE_TYPE_F8E4M3FNUZ, HEDDLE_TYPE_F8E5M2FNUZ, HEDDLE_TYPE_F8E8M0};
  size_t i;
  for (i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (type.lanes != 1 || HEDDLE_TYPE_BITS(known[i]) != type.bits) continue;
    if (heddle_dlpack_type_of(known[i]).code == type.code) return known[i];
  }
  return HEDDLE_TYPE_UNDEFINED;
}

/* The device by which DLPack knows a device of the runtime; type is 0 if DLPack has no number for it. [any] [no-block] */
static inline heddle_dlpack_device_t heddle_dlpack_device_of(heddle_runtime_device_t* device) {
  static const struct {
    const char* family;
    int32_t type;
  } known[] = {{"cpu", HEDDLE_DLPACK_CPU}, {"cuda", HEDDLE_DLPACK_CUDA}, {"rocm", HEDDLE_DLPACK_ROCM}, {"hip", HEDDLE_DLPACK_ROCM}};
  heddle_dlpack_device_t out = {0, 0};
  heddle_runtime_device_properties_t properties;
  heddle_status_t* failure;
  size_t i;
  memset(&properties, 0, sizeof properties);
  properties.struct_size = sizeof properties;
  failure = heddle_runtime_device_describe(device, &properties);
  heddle_status_free(failure);
  for (i = 0; !failure && i < sizeof known / sizeof known[0]; ++i) {
    if (properties.family.size != strlen(known[i].family)) continue;
    if (memcmp(properties.family.data, known[i].family, strlen(known[i].family)) != 0) continue;
    out.type = known[i].type;
    out.id = out.type == HEDDLE_DLPACK_CPU ? 0 : (int32_t)properties.ordinal;
  }
  return out;
}

/* For the functions below: a status with that text. */
static inline heddle_status_t* heddle_dlpack_refuse(heddle_status_code_t code, const char* text) {
  heddle_string_t message;
  message.data = text;
  message.size = strlen(text);
  return heddle_status_create(code, message);
}

/* What an export owns. */
typedef struct heddle_dlpack_export_data {
  heddle_dlpack_managed_t managed;
  heddle_tensor_t* tensor;
  int64_t extents[2 * HEDDLE_MAX_RANK]; /* shape, then strides */
} heddle_dlpack_export_data_t;

static inline void heddle_dlpack_end_export(heddle_dlpack_managed_t* managed) {
  heddle_dlpack_export_data_t* data = (heddle_dlpack_export_data_t*)managed->context;
  heddle_tensor_release(data->tensor);
  free(data);
}

/* Makes a DLManagedTensorVersioned over the tensor's memory, which stays until the deleter is called; the tensor's own handle stays the caller's. The
 * caller passes it on, or calls its deleter, which may run on any thread. The contents have to be complete before the consumer uses them: wait for them
 * (heddle_tensor_wait), or order both with a stream, as for heddle_tensor_address. flags: HEDDLE_DLPACK_READ_ONLY, or 0: the consumer may write, while
 * no call in flight uses the tensor. Memory that was imported as read-only, or that other code must not see changed, has to be exported as read-only.
 * UNIMPLEMENTED for an element type or a device that DLPack does not know, or if the driver does not expose addresses. [any] [may-block] as
 * heddle_tensor_address */
static inline heddle_status_t* heddle_dlpack_export(heddle_tensor_t* tensor, uint64_t flags, void** out_managed) {
  char text[200];
  heddle_dlpack_export_data_t* data;
  heddle_dlpack_tensor_t view;
  heddle_status_t* failure;
  uint64_t address = 0;
  int64_t dense = 1;
  uint32_t i;
  const uint32_t rank = heddle_tensor_rank(tensor);
  if (!tensor || !out_managed) {
    return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, tensor ? "dlpack: exporting a tensor failed: out_managed is NULL"
                                                                       : "dlpack: exporting a tensor failed: tensor is NULL");
  }
  *out_managed = NULL;
  memset(&view, 0, sizeof view);
  if (flags & ~HEDDLE_DLPACK_READ_ONLY) {
    snprintf(text, sizeof text, "dlpack: exporting a tensor failed: flags are 0x%llx; they may be 0 or HEDDLE_DLPACK_READ_ONLY",
             (unsigned long long)flags);
    return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, text);
  }
  view.type = heddle_dlpack_type_of(heddle_tensor_element_type(tensor));
  view.device = heddle_dlpack_device_of(heddle_tensor_device(tensor));
  view.rank = (int32_t)rank;
  if (view.type.bits == 0) {
    snprintf(text, sizeof text, "dlpack: exporting a tensor failed: DLPack 1.0 has no element type for 0x%04x; read the tensor instead",
             (unsigned)heddle_tensor_element_type(tensor));
    return heddle_dlpack_refuse(HEDDLE_STATUS_UNIMPLEMENTED, text);
  }
  if (view.device.type == 0) {
    return heddle_dlpack_refuse(HEDDLE_STATUS_UNIMPLEMENTED,
                                "dlpack: exporting a tensor failed: DLPack has no number for its device; read the tensor instead");
  }
  failure = heddle_tensor_address(tensor, &address);
  if (failure) return failure;
  data = (heddle_dlpack_export_data_t*)calloc(1, sizeof *data);
  if (!data) return heddle_dlpack_refuse(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "dlpack: exporting a tensor failed: the host is out of memory");
  for (i = rank; i-- > 0;) {
    data->extents[i] = heddle_tensor_dims(tensor)[i];
    data->extents[HEDDLE_MAX_RANK + i] = dense;
    if (data->extents[i] > 0) dense *= data->extents[i];
  }
  view.data = (void*)(uintptr_t)address;
  view.shape = data->extents;
  view.strides = data->extents + HEDDLE_MAX_RANK;
  data->tensor = heddle_tensor_retain(tensor);
  data->managed.major = 1;
  data->managed.minor = view.type.code > HEDDLE_DLPACK_BOOL;
  data->managed.context = data;
  data->managed.deleter = heddle_dlpack_end_export;
  data->managed.flags = flags;
  data->managed.tensor = view;
  *out_managed = &data->managed;
  return NULL;
}

/* What an import owns. */
typedef struct heddle_dlpack_import_data {
  heddle_dlpack_managed_t* managed;
  int is_taken; /* 0: the import failed, and the caller keeps it */
} heddle_dlpack_import_data_t;

static inline void heddle_dlpack_end_import(void* context) {
  heddle_dlpack_import_data_t* data = (heddle_dlpack_import_data_t*)context;
  if (!data->is_taken) return;
  if (data->managed->deleter) data->managed->deleter(data->managed);
  free(data);
}

/* Makes a tensor over the memory of a DLManagedTensorVersioned, for arguments and results of functions on `device` (heddle_tensor_import). From then
 * on it belongs to the tensor, whose last user calls the deleter exactly once, on any thread; the deleter may call only functions of Heddle that are
 * [no-block]. If this function fails, it stays the caller's. Heddle does not wait for the producer's work on the memory, as with
 * heddle_tensor_from_device. The caller owns the tensor.
 * flags: HEDDLE_DLPACK_READ_ONLY if the caller will not write to the tensor or pass it to a call that does: not as a result, nor donated. Memory that
 * is read-only is refused otherwise.
 * INVALID_ARGUMENT names what was expected and what was given: another version than 1, another device, strides that are not those of row-major dense
 * memory, an address without the device's alignment. UNIMPLEMENTED for an element type that Heddle does not have. [any] [may-block] */
static inline heddle_status_t* heddle_dlpack_import(heddle_runtime_device_t* device, void* managed, uint64_t flags,
                                                    heddle_tensor_t** out_tensor) {
  char text[320];
  heddle_dlpack_managed_t* const given = (heddle_dlpack_managed_t*)managed;
  heddle_dlpack_import_data_t* data;
  heddle_dlpack_device_t own;
  heddle_element_type_t type;
  heddle_device_memory_t memory;
  heddle_status_t* failure;
  uint64_t size_bytes;
  int64_t dense = 1;
  int32_t i;
  int is_empty = 0, is_host;
  if (!device || !given || !out_tensor) {
    return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, !device  ? "dlpack: importing a tensor failed: device is NULL"
                                                                : !given ? "dlpack: importing a tensor failed: managed is NULL"
                                                                         : "dlpack: importing a tensor failed: out_tensor is NULL");
  }
  *out_tensor = NULL;
  if (given->major != 1) {
    snprintf(text, sizeof text, "dlpack: importing a tensor failed: expected version 1 of DLPack, got %u.%u", (unsigned)given->major,
             (unsigned)given->minor);
    return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, text);
  }
  if ((given->flags & HEDDLE_DLPACK_READ_ONLY) && !(flags & HEDDLE_DLPACK_READ_ONLY)) {
    return heddle_dlpack_refuse(
        HEDDLE_STATUS_INVALID_ARGUMENT,
        "dlpack: importing a tensor failed: its memory is read-only; pass HEDDLE_DLPACK_READ_ONLY if no call will write "
        "to it, or a writable copy");
  }
  own = heddle_dlpack_device_of(device);
  is_host = given->tensor.device.type == HEDDLE_DLPACK_CPU || given->tensor.device.type == HEDDLE_DLPACK_CUDA_HOST;
  if (own.type == HEDDLE_DLPACK_CPU ? !is_host : own.type != given->tensor.device.type || own.id != given->tensor.device.id) {
    snprintf(text, sizeof text,
             "dlpack: importing a tensor failed: expected memory of DLPack's device (%d, %d), got one of (%d, %d); copy it to that device",
             (int)own.type, (int)own.id, (int)given->tensor.device.type, (int)given->tensor.device.id);
    return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, text);
  }
  type = heddle_dlpack_element_type(given->tensor.type);
  if (type == HEDDLE_TYPE_UNDEFINED) {
    snprintf(text, sizeof text,
             "dlpack: importing a tensor failed: Heddle has no element type of code %u, %u bits and %u lanes; convert the elements",
             (unsigned)given->tensor.type.code, (unsigned)given->tensor.type.bits, (unsigned)given->tensor.type.lanes);
    return heddle_dlpack_refuse(HEDDLE_STATUS_UNIMPLEMENTED, text);
  }
  if (given->tensor.rank < 0 || given->tensor.rank > (int32_t)HEDDLE_MAX_RANK || (given->tensor.rank > 0 && !given->tensor.shape)) {
    snprintf(text, sizeof text, "dlpack: importing a tensor failed: expected 0 to %u dimensions with a shape, got %d%s", HEDDLE_MAX_RANK,
             (int)given->tensor.rank, given->tensor.shape ? "" : " without a shape");
    return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, text);
  }
  for (i = 0; i < given->tensor.rank; ++i) {
    if (given->tensor.shape[i] < 0) {
      snprintf(text, sizeof text, "dlpack: importing a tensor failed: expected extents of 0 or more, got %lld in dimension %d",
               (long long)given->tensor.shape[i], (int)i);
      return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, text);
    }
    if (given->tensor.shape[i] == 0) is_empty = 1;
  }
  for (i = given->tensor.rank; !is_empty && i-- > 0;) {
    if (given->tensor.strides && given->tensor.shape[i] != 1 && given->tensor.strides[i] != dense) {
      snprintf(
          text, sizeof text,
          "dlpack: importing a tensor failed: expected a stride of %lld elements in dimension %d, for row-major dense memory, got %lld; "
          "make a contiguous copy",
          (long long)dense, (int)i, (long long)given->tensor.strides[i]);
      return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, text);
    }
    if (given->tensor.shape[i] > INT64_MAX / 8 / dense) {
      return heddle_dlpack_refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "dlpack: importing a tensor failed: it has more than 2^63 bytes");
    }
    dense *= given->tensor.shape[i];
  }
  size_bytes = is_empty ? 0 : (uint64_t)dense * (HEDDLE_TYPE_BITS(type) / 8);
  data = (heddle_dlpack_import_data_t*)calloc(1, sizeof *data);
  if (!data) return heddle_dlpack_refuse(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "dlpack: importing a tensor failed: the host is out of memory");
  data->managed = given;
  memset(&memory, 0, sizeof memory);
  memory.struct_size = sizeof memory;
  memory.address = (uint64_t)(uintptr_t)given->tensor.data + given->tensor.byte_offset;
  memory.size_bytes = size_bytes;
  memory.release = heddle_dlpack_end_import;
  memory.context = data;
  failure = heddle_tensor_import(device, type, given->tensor.shape, (uint32_t)given->tensor.rank, &memory, out_tensor);
  if (failure) {
    free(data);
    return failure;
  }
  data->is_taken = 1; /* nobody else has the tensor yet, so its memory is not released before this */
  return NULL;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_EXT_DLPACK_H_ */
