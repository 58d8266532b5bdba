// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.native/1 of the fake: streams of stream.h as queues, ordinary memory as memory of the device.
#include "fake.h"
#include "stream.h"

namespace heddle::fake {

using sdk::guarded;

// The submission starts when the stream comes to it, and the stream goes on when it is over.
heddle_status_t* enqueue_on_stream(Queue* queue, std::unique_ptr<Submission> submission) {
  auto gate = submission->gate = std::make_shared<std::atomic<bool>>(false);
  auto in_flight = submission->in_flight = std::make_shared<std::atomic<bool>>(false);
  if (heddle_status_t* bad = queue->device->engine->enqueue(std::move(submission))) return bad;
  queue->stream->enqueue([gate, in_flight] {
    *gate = true;
    while (*in_flight) std::this_thread::yield();
  });
  return nullptr;
}

namespace {

heddle_status_t* native_context(heddle_device_t* device, uint64_t* out) noexcept {
  *out = reinterpret_cast<uint64_t>(device);
  return nullptr;
}

heddle_status_t* native_stream(heddle_queue_t* queue, uint64_t* out) noexcept {
  *out = reinterpret_cast<uint64_t>(Queue::from(queue)->stream);
  return nullptr;
}

heddle_status_t* queue_import(heddle_device_t* handle, uint64_t stream, heddle_queue_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "importing a stream", [&]() -> heddle_status_t* {
    if (!stream)
      return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: importing a stream failed: there is no default one");
    if (heddle_status_t* lost = device->loss()) return lost;
    auto* queue = sdk::make<Queue>(device->host, Queue{device->api, device});
    queue->stream = reinterpret_cast<Stream*>(stream);
    device->live.queues += 1;
    *out = reinterpret_cast<heddle_queue_t*>(queue);
    return nullptr;
  });
}

heddle_status_t* buffer_import(heddle_device_t* handle, uint64_t address, uint64_t size, void (*release)(void*), void* context,
                               heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  heddle_status_t* failed = guarded(device->host, "importing device memory", [&]() -> heddle_status_t* {
    auto* buffer = sdk::make<Buffer>(device->host);
    buffer->api = device->api;
    buffer->device = device;
    buffer->size = size;
    buffer->alignment = kBindingAlignment;
    buffer->memory = HEDDLE_MEMORY_DEVICE;
    buffer->secret = reinterpret_cast<char*>(address);
    buffer->address = reinterpret_cast<void*>(address);
    buffer->release = release;
    buffer->release_context = context;
    device->bytes_allocated += size;
    device->live.buffers += 1;
    *out = reinterpret_cast<heddle_buffer_t*>(buffer);
    return nullptr;
  });
  if (failed && release) release(context);
  return failed;
}

}  // namespace

const heddle_native_interface_t* native_interface() noexcept {
  static const heddle_native_interface_t table = {
      sizeof(heddle_native_interface_t), 0, native_context, native_stream, queue_import, buffer_import};
  return &table;
}

}  // namespace heddle::fake
