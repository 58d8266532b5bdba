// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.native/1: the application's streams as queues, its device memory as buffers, and access to our handles for the application.
#include "cuda/memory.h"
#include "cuda/queue.h"

namespace heddle::cuda {
namespace {

using sdk::guarded;
using sdk::status;

heddle_status_t* native_context(heddle_device_t* device, uint64_t* out) noexcept {
  *out = reinterpret_cast<uint64_t>(Device::from(device)->context);
  return nullptr;
}

heddle_status_t* native_stream(heddle_queue_t* queue, uint64_t* out) noexcept {
  *out = reinterpret_cast<uint64_t>(Queue::from(queue)->stream());
  return nullptr;
}

heddle_status_t* queue_import(heddle_device_t* handle, uint64_t word, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "importing a stream", [&]() -> heddle_status_t* {
    ContextScope scope(device);
    if (heddle_status_t* lost = device->loss()) return lost;
    auto* stream = reinterpret_cast<CUstream>(word);
    if (heddle_status_t* bad = check_not_captured(device, stream)) return bad;
    CUcontext context = nullptr;
    const CUresult asked = device->cuda.cuStreamGetCtx(stream, &context);
    if (asked != CUDA_SUCCESS) return device->failed(asked, "asking for the context of the application's stream");
    if (context != device->context) {
      return status(
          device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
          "cuda: importing stream %llx to device %u ('%s') failed: it belongs to another context; use a stream of the CUDA runtime, "
          "or of the primary context, on this device",
          number(word), device->ordinal, device->facts().name.c_str());
    }
    auto* queue = sdk::make<Queue>(device->host, device);
    if (heddle_status_t* bad = queue->start_over(stream)) {
      sdk::unmake(device->host, queue);
      return bad;
    }
    device->live.queues.fetch_add(1);
    *out = queue->handle();
    return nullptr;
  });
}

// NULL, or why the byte is not in memory of the device.
heddle_status_t* check_byte(Device* device, CUdeviceptr at, uint64_t address, uint64_t size) {
  const Api& cuda = device->cuda;
  unsigned int type = 0;
  CUresult asked = cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
  int ordinal = -1;
  if (asked == CUDA_SUCCESS) asked = cuda.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
  if (asked != CUDA_SUCCESS && asked != CUDA_ERROR_INVALID_VALUE) return device->failed(asked, "querying the owner of the memory");
  if (asked == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && ordinal == device->facts().device) return nullptr;
  const std::string why = asked != CUDA_SUCCESS          ? "is not memory that CUDA knows"
                          : type != CU_MEMORYTYPE_DEVICE ? "is host memory"
                                                         : "is memory of CUDA device " + std::to_string(ordinal);
  return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                "cuda: importing %llu bytes at %llx to device %u ('%s') failed: byte %llu of them %s; use memory of that device",
                number(size), number(address), device->ordinal, device->facts().name.c_str(), number(at - address), why.c_str());
}

heddle_status_t* import_memory(Device* device, uint64_t address, uint64_t size, heddle_buffer_t** out) {
  ContextScope scope(device);
  if (heddle_status_t* lost = device->loss()) return lost;
  if (size > UINT64_MAX - address) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cuda: importing %llu bytes at %llx failed: they end after the address space", number(size), number(address));
  }
  if (size) {  // the range may consist of several mappings, which CUDA reports one at a time
    if (heddle_status_t* bad = check_byte(device, address, address, size)) return bad;
    if (heddle_status_t* bad = check_byte(device, address + size - 1, address, size)) return bad;
  }
  auto* buffer = sdk::make<Buffer>(device->host);
  buffer->api = device->api;
  buffer->device = device;
  buffer->address = size ? address : 0;
  buffer->size = size;
  buffer->memory = HEDDLE_MEMORY_DEVICE;
  buffer->alignment = size ? address & (~address + 1) : kAlignment;
  device->counters.bytes_allocated.fetch_add(size);
  device->live.buffers.fetch_add(1);
  *out = buffer->handle();
  return nullptr;
}

heddle_status_t* buffer_import(heddle_device_t* handle, uint64_t address, uint64_t size, void (*release)(void*), void* context,
                               heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  heddle_status_t* failed = guarded(device->host, "importing device memory", [&] { return import_memory(device, address, size, out); });
  if (!failed) {
    Buffer::from(*out)->release = release;
    Buffer::from(*out)->release_context = context;
  } else if (release) {
    release(context);
  }
  return failed;
}

}  // namespace

const heddle_native_interface_t* native_interface() noexcept {
  static const heddle_native_interface_t table = {
      sizeof(heddle_native_interface_t), 0, native_context, native_stream, queue_import, buffer_import};
  return &table;
}

}  // namespace heddle::cuda
