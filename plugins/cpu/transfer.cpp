// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.transfer/1: copies outside of a command list. All memory is host memory, so each is one memcpy, in the caller's thread if it is
// short, otherwise on the queue.
#include "cpu/queue.h"

namespace heddle::cpu {
namespace {

using sdk::status;

heddle_status_t* transfer_properties(heddle_device_t*, heddle_transfer_properties_t* out) noexcept {
  heddle_transfer_properties_t properties = {};
  properties.flags = HEDDLE_TRANSFER_PEER;
  sdk::write_struct(properties, out);
  return nullptr;
}

// The memory of a binding, checked.
heddle_status_t* locate(Device* device, const char* what, const heddle_binding_t* binding, char** out) noexcept {
  Buffer* buffer = Buffer::from(binding->buffer);
  if (heddle_status_t* bad = sdk::check_transfer(device, what, *binding, buffer ? &buffer->size : nullptr)) return bad;
  *out = buffer->data + binding->offset;
  return nullptr;
}

heddle_status_t* submit_copy(Queue* queue, const heddle_sync_t* in, const void* source, void* target, uint64_t length) noexcept {
  Device* device = queue->device();
  heddle_sync_t sync;
  uint64_t bad_byte;
  if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
  if (length && (!source || !target)) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: copying %llu bytes failed: the host pointer is null", number(length));
  }
  const auto from = reinterpret_cast<uint64_t>(source), to = reinterpret_cast<uint64_t>(target);
  if (length && from < to + length && to < from + length) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: copying %llu bytes failed: source and target overlap",
                  number(length));
  }
  Queue::Draft draft(queue);
  if (!draft.work) return sdk::exhausted_status(device->host, "cpu: copying");
  if (heddle_status_t* bad = lower_copy(device, source, target, length, &draft.arena, draft.work)) return bad;
  return queue->submit(&draft, sync);
}

heddle_status_t* transfer_upload(heddle_queue_t* handle, const heddle_sync_t* sync, const void* source,
                                 const heddle_binding_t* target) noexcept {
  Queue* queue = Queue::from(handle);
  return sdk::guarded(queue->device()->host, "uploading", [&]() -> heddle_status_t* {
    char* to = nullptr;
    if (heddle_status_t* bad = locate(queue->device(), "uploading", target, &to)) return bad;
    return submit_copy(queue, sync, source, to, target->length);
  });
}

heddle_status_t* transfer_download(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_binding_t* source,
                                   void* target) noexcept {
  Queue* queue = Queue::from(handle);
  return sdk::guarded(queue->device()->host, "downloading", [&]() -> heddle_status_t* {
    char* from = nullptr;
    if (heddle_status_t* bad = locate(queue->device(), "downloading", source, &from)) return bad;
    return submit_copy(queue, sync, from, target, source->length);
  });
}

heddle_status_t* transfer_peer_copy(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_binding_t* source,
                                    const heddle_binding_t* target) noexcept {
  Queue* queue = Queue::from(handle);
  const heddle_host_t* host = queue->device()->host;
  return sdk::guarded(host, "copying between devices", [&]() -> heddle_status_t* {
    char *from = nullptr, *to = nullptr;
    if (heddle_status_t* bad = locate(queue->device(), "copying from", source, &from)) return bad;
    if (heddle_status_t* bad = locate(queue->device(), "copying to", target, &to)) return bad;
    if (source->length != target->length) {
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: copying %llu bytes to %llu failed: lengths differ", number(source->length),
                    number(target->length));
    }
    return submit_copy(queue, sync, from, to, source->length);
  });
}

}  // namespace

const heddle_transfer_interface_t* transfer_interface() noexcept {
  static const heddle_transfer_interface_t table = {
      sizeof(heddle_transfer_interface_t), 0, transfer_properties, transfer_upload, transfer_download, transfer_peer_copy};
  return &table;
}

}  // namespace heddle::cpu
