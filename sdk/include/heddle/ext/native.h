/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* heddle.native/1, an optional interface of drivers. It gives access to the vendor's handles, and takes streams and device memory of an
 * application or of another library, which are then used without a copy and without blocking the host. Implemented by drivers, called by libheddle
 * for heddle_tensor_from_device, heddle_tensor_import and for calls that are ordered with a stream (runtime.h).
 *
 * Meaning of the 64-bit words, by the family of the device:
 *   cuda    context: CUcontext, always the device's primary one, as the CUDA runtime uses it; stream: CUstream or cudaStream_t, 0 the legacy
 *           default stream; address: CUdeviceptr
 *   hip     context: HIP's number of the device, since HIP has no contexts; stream: hipStream_t, 0 the default stream; address: a pointer of HIP
 *   cpu     address: a pointer of this process; a device has no context and no streams
 * There are no functions for events: the application records them on streams that it gives to queue_import, or gets from `stream`. */
#ifndef HEDDLE_EXT_NATIVE_H_
#define HEDDLE_EXT_NATIVE_H_

#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_NATIVE_INTERFACE "heddle.native/1"

typedef struct heddle_native_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* The vendor's context of a device, borrowed while the device is open. [any] [no-block] */
  heddle_status_t* (*context)(heddle_device_t* device, uint64_t* out_context);
  /* The vendor's stream of a queue, borrowed while the queue lives. [any] [no-block] */
  heddle_status_t* (*stream)(heddle_queue_t* queue, uint64_t* out_stream);
  /* A queue over a stream of the application: a submission runs after the work that is already on the stream, and work that the application
   * enqueues there later runs after the submission. To keep this order, the queue's submit() returns only when the work that the submission
   * waits for is enqueued, too; it fails with FAILED_PRECONDITION while the stream is being captured. The stream belongs to the application,
   * which keeps it while anyone submits to the queue; queue_destroy does not use it. INVALID_ARGUMENT for a stream of another device. The
   * caller owns the queue (queue_destroy). [any] [may-block] */
  heddle_status_t* (*queue_import)(heddle_device_t* device, uint64_t stream, heddle_queue_t** out_queue);
  /* A buffer over device memory of the application. release(context) is called exactly once, when the buffer is freed or if this call
   * fails, as for import_host. INVALID_ARGUMENT for memory that is not entirely on this device. [any] [may-block] */
  heddle_status_t* (*buffer_import)(heddle_device_t* device, uint64_t address, uint64_t size_bytes, void (*release)(void* context),
                                    void* context, heddle_buffer_t** out_buffer);
} heddle_native_interface_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_EXT_NATIVE_H_ */
