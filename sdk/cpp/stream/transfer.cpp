// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.transfer/1: copies outside of a command list. The queue's stream copies pinned memory; a small amount of ordinary memory goes through a
// staging slice; a large amount goes through the ring, moved by host threads.
#include "heddle/sdk/driver_parts.h"
#include "heddle/sdk/stream/queue.h"
#include "stream/engine.h"
#include "stream/ring.h"

namespace heddle::sdk::stream {
namespace {

constexpr uint64_t kLargest = uint64_t{256} << 10;  // maximum bytes that go through a staging slice

heddle_status_t* transfer_properties(heddle_device_t* handle, heddle_transfer_properties_t* out) noexcept {
  heddle_transfer_properties_t properties = {};
  const Device* device = Device::from(handle);
  properties.flags = device->backend.capabilities().copies_to_peers ? HEDDLE_TRANSFER_PEER : 0;
  properties.staging_bytes = device->instance->options.staging_bytes;
  sdk::write_struct(properties, out);
  return nullptr;
}

heddle_status_t* locate(Device* device, const char* what, const heddle_binding_t* binding, const Buffer** out) noexcept {
  *out = Buffer::from(binding->buffer);
  return check_transfer(device, what, *binding, *out ? &(*out)->size : nullptr);
}

// Whether the vendor knows the host memory, so that its engines can read it.
bool is_pinned(Backend& backend, const void* memory) noexcept {
  Owner owner = Owner::kUnknown;
  int ignored = 0;
  return backend.owner_of(reinterpret_cast<Address>(memory), &owner, &ignored) == kSuccess && owner == Owner::kHost;
}

// Between ordinary host memory and a buffer, on the device's thread for jobs.
heddle_status_t* move_by_ring(Queue* queue, const heddle_sync_t& sync, const Buffer* buffer, uint64_t offset, char* memory, uint64_t length,
                              bool to_device) {
  Device* device = queue->device();
  if (heddle_status_t* bad = check_sync(device, sync)) return bad;
  auto run = [=]() -> heddle_status_t* {
    Ring::Plan plan(to_device, length, Ring::kPieceBytes, 0, 0);
    for (uint64_t at = 0; at < length; at += Ring::kPieceBytes) {
      plan.add(buffer->address + offset + at, buffer->host ? buffer->host + offset + at : nullptr, std::min(Ring::kPieceBytes, length - at),
               0, at != 0);
    }
    plan.host_side = [&](uint64_t index, char* slot) {
      const uint64_t at = index * Ring::kPieceBytes, bytes = std::min(Ring::kPieceBytes, length - at);
      std::memcpy(to_device ? slot : memory + at, to_device ? memory + at : slot, bytes);
      return true;
    };
    return device->ring->move(plan);
  };
  device->engine->enqueue({{sync.waits, sync.waits + sync.wait_count}, {sync.signals, sync.signals + sync.signal_count}, run, queue});
  return nullptr;
}

heddle_status_t* copy_host(heddle_queue_t* handle, const heddle_sync_t* in, const heddle_binding_t* binding, void* memory, bool to_device) {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device();
  const char* what = to_device ? "uploading" : "downloading";
  heddle_sync_t sync;
  uint64_t bad_byte;
  if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
  const Buffer* buffer = nullptr;
  if (heddle_status_t* bad = locate(device, what, binding, &buffer)) return bad;
  const uint64_t length = binding->length;
  if (length && !memory) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "%s %llu bytes failed: the host pointer is null", what, number(length));
  }
  ContextScope scope(device);
  if (heddle_status_t* lost = device->loss()) return lost;
  const bool pinned = length && is_pinned(device->backend, memory);
  if (!pinned && length > kLargest) {
    return move_by_ring(queue, sync, buffer, binding->offset, static_cast<char*>(memory), length, to_device);
  }
  Submission* draft = queue->draft();
  List& list = draft->list;
  auto host = reinterpret_cast<Address>(memory);
  if (length && !pinned) {
    Staging::Slice slice;
    if (heddle_status_t* bad = device->staging->take(length, &slice)) {
      queue->abandon(draft);
      return bad;
    }
    list.slices.push_back(slice);
    if (to_device) {
      std::memcpy(slice.data, memory, length);
    } else {
      draft->downloads.push_back({memory, slice.data, length});
    }
    host = reinterpret_cast<Address>(slice.data);
  }
  list.copies = 1;
  if (length) {
    Op& op = list.ops.emplace_back();
    op.kind = Op::Kind::kCopy;
    const Address at = buffer->address + binding->offset;
    op.copy = {to_device ? at : host, to_device ? host : at, length};
  }
  return queue->submit(draft, sync);
}

heddle_status_t* transfer_upload(heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                 const heddle_binding_t* target) noexcept {
  return guarded(Queue::from(queue)->device()->host, "uploading",
                 [&] { return copy_host(queue, sync, target, const_cast<void*>(source), true); });
}

heddle_status_t* transfer_download(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                                   void* target) noexcept {
  return guarded(Queue::from(queue)->device()->host, "downloading", [&] { return copy_host(queue, sync, source, target, false); });
}

heddle_status_t* transfer_peer_copy(heddle_queue_t* handle, const heddle_sync_t* in, const heddle_binding_t* source,
                                    const heddle_binding_t* target) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device();
  return guarded(device->host, "copying between devices", [&]() -> heddle_status_t* {
    heddle_sync_t sync;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (heddle_status_t* lost = device->loss()) return lost;
    const Buffer *from = nullptr, *to = nullptr;
    if (heddle_status_t* bad = locate(device, "copying from", source, &from)) return bad;
    if (heddle_status_t* bad = locate(device, "copying to", target, &to)) return bad;
    if (source->length != target->length) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "copying %llu bytes to %llu failed: lengths differ", number(source->length),
                    number(target->length));
    }
    Device* other = from->device == device ? to->device : from->device;
    if (from->device != device && to->device != device) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "copying %llu bytes between devices %u and %u failed: the queue is device %u's; use one of either [HD-Q-02]",
                    number(source->length), from->device->ordinal, to->device->ordinal, device->ordinal);
    }
    if (other->is_lost()) {
      return status(device, HEDDLE_STATUS_UNAVAILABLE,
                    "copying %llu bytes from device %u to device %u failed: device %u, the other one, is lost [HD-S-02]",
                    number(source->length), from->device->ordinal, to->device->ordinal, other->ordinal);
    }
    if (other != device && !device->backend.capabilities().copies_to_peers) {
      return status(device, HEDDLE_STATUS_UNIMPLEMENTED,
                    "copying %llu bytes from device %u to device %u failed: they do not reach each other's memory; copy through the host",
                    number(source->length), from->device->ordinal, to->device->ordinal);
    }
    device->introduce(other);
    Submission* draft = queue->draft();
    draft->list.copies = 1;
    if (source->length) {
      Op& op = draft->list.ops.emplace_back();
      op.kind = Op::Kind::kPeerCopy;
      op.peer_copy = {to->address + target->offset, from->address + source->offset, to->device->backend.context(),
                      from->device->backend.context(), source->length};
    }
    return queue->submit(draft, sync);
  });
}

}  // namespace

const heddle_transfer_interface_t* transfer_interface() noexcept {
  static const heddle_transfer_interface_t table = {
      sizeof(heddle_transfer_interface_t), 0, transfer_properties, transfer_upload, transfer_download, transfer_peer_copy};
  return &table;
}

}  // namespace heddle::sdk::stream
