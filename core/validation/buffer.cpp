// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.buffer/1 and heddle.transfer/1, checked.
#include "core/validation/call.h"

namespace heddle::validation {
namespace {

// Checks the addresses and sizes that a driver reports.
void check_properties(Call& call, Buffer& expected, heddle_buffer_t* buffer) {
  heddle_buffer_properties_t shown{};
  shown.struct_size = sizeof(shown);
  heddle_status_t* unknown = call.fill(
      Tag::kNoBlock, &shown, [&](heddle_buffer_properties_t* out) { return call.plugin().driver.buffer->properties(buffer, out); });
  if (unknown) return call.plugin().host->status_free(call.plugin().host->self, unknown);
  expected.address = shown.device_address;
  if (shown.size_bytes != expected.size) {
    call.plugin_broke("HD-M-02", "{} bytes were requested, but its buffer reports {}", expected.size, shown.size_bytes);
  }
  if (expected.alignment && shown.device_address % expected.alignment != 0) {
    call.plugin_broke("HD-M-04", "its buffer is at {:#x}, not a multiple of {}", shown.device_address, expected.alignment);
  }
}

heddle_status_t* allocate(heddle_device_t* device, const heddle_buffer_params_t* params, heddle_buffer_t** out_buffer) noexcept {
  Call call("heddle.buffer/1 allocate");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  const heddle_buffer_params_t given = call.read(params, "params");
  call.check_power_of_two(given.alignment_bytes, "params.alignment_bytes");
  if (call.refused()) return call.refusal();
  const heddle_buffer_interface_t& driver = *call.plugin().driver.buffer;
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return driver.allocate(device, params, out_buffer); });
  call.check_lost(status);
  auto record = std::make_shared<Buffer>();
  record->size = given.size_bytes;
  record->alignment = std::max(given.alignment_bytes, parent->limits.min_alignment_bytes);
  if (!status && *out_buffer) check_properties(call, *record, *out_buffer);
  return call.keep<Buffer>(status, out_buffer, record, parent, [&](heddle_buffer_t* made) { driver.free(made); });
}

void free(heddle_buffer_t* buffer) noexcept {
  Call call("heddle.buffer/1 free");
  if (!buffer) {  // allowed, and belongs to no device
    return;
  }
  std::shared_ptr<Buffer> record = call.live<Buffer>(buffer, "buffer");
  if (!record) return;
  call.check_unused(*record, "buffer");
  if (record->recordings) {
    call.host_broke("HD-G-01", "buffer is {}, which {} recordings use permanently", fmt::ptr(buffer), record->recordings);
  }
  // Work still touches it: leaking the memory is the lesser harm.
  if (call.refused()) return;
  call.forget(record);
  call.pass(Tag::kMayBlock, [&] { call.plugin().driver.buffer->free(buffer); });
}

heddle_status_t* map(heddle_buffer_t* buffer, uint64_t offset, uint64_t length, uint32_t flags, void** out_pointer) noexcept {
  Call call("heddle.buffer/1 map");
  std::shared_ptr<Buffer> record = call.live<Buffer>(buffer, "buffer");
  if (record) call.check_range(offset, length, record->size, "the range");
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.buffer->map(buffer, offset, length, flags, out_pointer); });
  if (status && *out_pointer) {
    call.plugin_broke("HD-E-07", "it failed and left {} in its output", fmt::ptr(*out_pointer));
    *out_pointer = nullptr;
  }
  if (!status && !*out_pointer && length) call.plugin_broke("HD-E-07", "it succeeded, but returned no pointer");
  if (!status) ++record->maps;
  return call.answer(status);
}

heddle_status_t* unmap(heddle_buffer_t* buffer) noexcept {
  Call call("heddle.buffer/1 unmap");
  std::shared_ptr<Buffer> record = call.live<Buffer>(buffer, "buffer");
  if (record && record->maps == 0) call.host_broke("HD-M-06", "buffer is {}, which is not mapped", fmt::ptr(buffer));
  if (call.refused()) return call.refusal();
  --record->maps;
  return call.answer(call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.buffer->unmap(buffer); }));
}

template <const char* name, auto function>
heddle_status_t* make_visible(heddle_buffer_t* buffer, uint64_t offset, uint64_t length) noexcept {
  Call call(name);
  std::shared_ptr<Buffer> record = call.live<Buffer>(buffer, "buffer");
  if (record) call.check_range(offset, length, record->size, "the range");
  if (record && record->maps == 0) call.host_broke("HD-M-06", "buffer is {}, which is not mapped", fmt::ptr(buffer));
  if (call.refused()) return call.refusal();
  return call.answer(call.pass(Tag::kMayBlock, [&] { return (call.plugin().driver.buffer->*function)(buffer, offset, length); }));
}
constexpr char kFlush[] = "heddle.buffer/1 flush", kInvalidate[] = "heddle.buffer/1 invalidate";

heddle_status_t* import_host(heddle_device_t* device, void* memory, uint64_t size_bytes, void (*release)(void* context), void* context,
                             heddle_buffer_t** out_buffer) noexcept {
  Call call("heddle.buffer/1 import_host");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (call.refused()) {
    if (release) release(context);
    return call.refusal();
  }
  void* number = registry().add_callback({&call.plugin(), "release", nullptr, release, context, nullptr, 0});
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] {
    return call.plugin().driver.buffer->import_host(device, memory, size_bytes, release_callback, number, out_buffer);
  });
  auto record = std::make_shared<Buffer>();
  record->size = size_bytes;
  record->address = reinterpret_cast<uint64_t>(memory);
  return call.keep<Buffer>(status, out_buffer, record, parent, [&](heddle_buffer_t* made) { call.plugin().driver.buffer->free(made); });
}

heddle_status_t* properties(heddle_buffer_t* buffer, heddle_buffer_properties_t* out_properties) noexcept {
  Call call("heddle.buffer/1 properties");
  call.live<Buffer>(buffer, "buffer");
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.fill(
      Tag::kNoBlock, out_properties, [&](heddle_buffer_properties_t* out) { return call.plugin().driver.buffer->properties(buffer, out); });
  return call.answer(status);
}

// ------------------------------------------------------------------------------------------------------ heddle.transfer/1

heddle_status_t* transfer_properties(heddle_device_t* device, heddle_transfer_properties_t* out_properties) noexcept {
  Call call("heddle.transfer/1 properties");
  call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.fill(Tag::kNoBlock, out_properties, [&](heddle_transfer_properties_t* out) {
    return call.plugin().driver.transfer->properties(device, out);
  });
  return call.answer(status);
}

// Calls `enqueue` for work on one range of a buffer and on host memory.
template <class Enqueue>
heddle_status_t* transfer(const char* name, heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* binding,
                          const void* memory, Enqueue enqueue) {
  Call call(name);
  std::shared_ptr<Queue> record = call.live<Queue>(queue, "queue");
  std::vector<Named> named;
  if (binding) {
    check_binding(call, *binding, "the binding", &named);
    if (!memory && binding->length) call.host_broke("HD-M-02", "the host memory is NULL, for {} bytes", binding->length);
  } else {
    call.host_broke("HD-M-02", "the binding is NULL");
  }
  Sync points(call, record, sync);
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(record->blocks ? Tag::kMayBlock : Tag::kNoBlock, [&] { return enqueue(*call.plugin().driver.transfer); });
  points.enqueued(!status);
  if (!status) points.uses(named);
  call.check_lost(status);
  return status;  // the work is enqueued, even if another rule was broken
}

heddle_status_t* upload(heddle_queue_t* queue, const heddle_sync_t* sync, const void* source, const heddle_binding_t* target) noexcept {
  return transfer("heddle.transfer/1 upload", queue, sync, target, source,
                  [&](const heddle_transfer_interface_t& driver) { return driver.upload(queue, sync, source, target); });
}

heddle_status_t* download(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source, void* target) noexcept {
  return transfer("heddle.transfer/1 download", queue, sync, source, target,
                  [&](const heddle_transfer_interface_t& driver) { return driver.download(queue, sync, source, target); });
}

heddle_status_t* peer_copy(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                           const heddle_binding_t* target) noexcept {
  Call call("heddle.transfer/1 peer_copy");
  std::shared_ptr<Queue> record = call.live<Queue>(queue, "queue");
  std::vector<Named> named;
  bool own = false;
  for (const heddle_binding_t* binding : {source, target}) {
    // The buffers may be of two devices, but of one driver.
    std::shared_ptr<Buffer> buffer = call.live<Buffer>(binding ? binding->buffer : nullptr, "a binding's buffer");
    if (!buffer) continue;
    if (record && buffer->plugin != record->plugin) call.host_broke("HD-Q-02", "a binding's buffer belongs to another driver");
    own = own || !record || buffer->device == record->device;
    if (call.check_range(binding->offset, binding->length, buffer->size, "a binding")) {
      named.push_back({buffer, binding->offset, binding->length});
    }
  }
  if (!own && named.size() == 2) call.host_broke("HD-Q-02", "neither binding's buffer belongs to the queue's device");
  Sync points(call, record, sync);
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.transfer->peer_copy(queue, sync, source, target); });
  points.enqueued(!status);
  if (!status) points.uses(named);
  call.check_lost(status);
  return status;
}

}  // namespace

const heddle_buffer_interface_t kBufferTable = {sizeof(heddle_buffer_interface_t),
                                                0,
                                                allocate,
                                                free,
                                                map,
                                                unmap,
                                                make_visible<kFlush, &heddle_buffer_interface_t::flush>,
                                                make_visible<kInvalidate, &heddle_buffer_interface_t::invalidate>,
                                                import_host,
                                                properties};
const heddle_transfer_interface_t kTransferTable = {
    sizeof(heddle_transfer_interface_t), 0, transfer_properties, upload, download, peer_copy};
}  // namespace heddle::validation
