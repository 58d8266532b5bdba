// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.device/1, heddle.native/1 and the look-up of heddle.profile/1, checked. Found through the tables at the end.
#include "core/validation/call.h"

namespace heddle::validation {
namespace {

// For a function of an instance, which has no record.
bool of_instance(Call& call, heddle_plugin_instance_t* instance) {
  if (Plugin* plugin = registry().of(instance)) {
    call.set_plugin(plugin);
    return true;
  }
  call.host_broke("HD-L-01", "instance is {}, which is not a live instance", fmt::ptr(instance));
  return false;
}

heddle_status_t* count(heddle_plugin_instance_t* instance, uint32_t* out_count) noexcept {
  Call call("heddle.device/1 count");
  if (!of_instance(call, instance)) return call.refusal();
  return call.answer(call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.device->count(instance, out_count); }));
}

heddle_status_t* describe(heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out_description) noexcept {
  Call call("heddle.device/1 describe");
  if (!of_instance(call, instance)) return call.refusal();
  heddle_status_t* status = call.fill(Tag::kMayBlock, out_description, [&](heddle_device_description_t* out) {
    return call.plugin().driver.device->describe(instance, ordinal, out);
  });
  if (call.refused() || status || out_description->struct_size < sizeof(*out_description)) return call.answer(status);
  const uint64_t alignment = out_description->min_alignment_bytes;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    call.plugin_broke("HD-M-04", "its min_alignment_bytes is {}, not a power of two", alignment);
  }
  if (out_description->code_format_count && !out_description->code_formats) {
    call.plugin_broke("HD-E-07", "its code_format_count is {}, but it has none", out_description->code_format_count);
  }
  return call.answer(nullptr);
}

heddle_status_t* link(heddle_plugin_instance_t* instance, uint32_t a, uint32_t b, heddle_device_link_t* out_link) noexcept {
  Call call("heddle.device/1 link");
  if (!of_instance(call, instance)) return call.refusal();
  heddle_status_t* status = call.fill(Tag::kMayBlock, out_link,
                                      [&](heddle_device_link_t* out) { return call.plugin().driver.device->link(instance, a, b, out); });
  return call.answer(status);
}

heddle_status_t* open(heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                      heddle_device_t** out_device) noexcept {
  Call call("heddle.device/1 open");
  if (!of_instance(call, instance)) return call.refusal();
  Plugin& plugin = call.plugin();
  const heddle_device_open_params_t given = call.read(params, "params");
  if (!call.refused() && given.api != plugin.api) {
    call.host_broke("HD-H-01", "params.api is {}, not the table {} of this driver", fmt::ptr(given.api), fmt::ptr(plugin.api));
  }
  if (call.refused()) return call.refusal();
  auto record = std::make_shared<Device>();
  record->limits.struct_size = sizeof(record->limits);
  if (heddle_status_t* status =
          call.pass(Tag::kMayBlock, [&] { return plugin.driver.device->describe(instance, ordinal, &record->limits); })) {
    plugin.host->status_free(plugin.host->self, status);  // open will report it too
    record->limits = {};
  }
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return plugin.driver.device->open(instance, ordinal, params, out_device); });
  heddle_status_t* answer = call.keep<Device>(status, out_device, record, nullptr, [&](heddle_device_t* made) {
    if (heddle_status_t* closed = plugin.driver.device->close(made)) plugin.host->status_free(plugin.host->self, closed);
  });
  if (!answer) ++plugin.live;
  return answer;
}

heddle_status_t* close(heddle_device_t* device) noexcept {
  Call call("heddle.device/1 close");
  std::shared_ptr<Device> record = call.live<Device>(device, "device");
  if (record) call.enter_serial(record, "device");
  if (call.refused()) return call.refusal();
  const uint64_t children = record->children;
  if (children != 0) {
    call.host_broke("HD-L-01", "device is {}, which has {} live objects", fmt::ptr(device),
                    children);  // the driver must report this as well
  }
  call.forget(record);  // another open may return the same address before this returns
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.device->close(device); });
  if (!status && children != 0) call.plugin_broke("HD-L-01", "it closed a device that has {} live objects", children);
  if (status) {
    registry().live<Device>()[device] = record;
  } else {
    --call.plugin().live;
  }
  return status;  // also if a rule was broken: the device is closed
}

heddle_status_t* keep_queue(Call& call, heddle_status_t* status, heddle_queue_t** out_queue, const std::shared_ptr<Device>& parent,
                            bool blocks) {
  auto record = std::make_shared<Queue>();
  record->blocks = blocks;
  return call.keep<Queue>(status, out_queue, record, parent, [&](heddle_queue_t* made) {
    const Plugin& plugin = call.plugin();
    if (heddle_status_t* ended = plugin.driver.device->queue_destroy(made)) plugin.host->status_free(plugin.host->self, ended);
  });
}

heddle_status_t* queue_create(heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out_queue) noexcept {
  Call call("heddle.device/1 queue_create");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.device->queue_create(device, params, out_queue); });
  return keep_queue(call, status, out_queue, parent, false);
}

heddle_status_t* queue_destroy(heddle_queue_t* queue) noexcept {
  Call call("heddle.device/1 queue_destroy");
  std::shared_ptr<Queue> record = call.live<Queue>(queue, "queue");
  if (record) call.enter_serial(record, "queue");
  if (call.refused()) return call.refusal();
  call.forget(record);
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.device->queue_destroy(queue); });
  if (const Use* use = record->uses.unfinished(); use && !status) {
    call.plugin_broke("HD-Q-06", "it returned before the end of the queue's work, which is at value {} of timeline {}", use->value,
                      fmt::ptr(use->timeline->handle));
  }
  return status;
}

heddle_status_t* statistics(heddle_device_t* device, heddle_device_statistics_t* out_statistics) noexcept {
  Call call("heddle.device/1 statistics");
  call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.fill(
      Tag::kNoBlock, out_statistics, [&](heddle_device_statistics_t* out) { return call.plugin().driver.device->statistics(device, out); });
  return call.answer(status);
}

// --------------------------------------------------------------------------------------------------------- heddle.native/1

heddle_status_t* context(heddle_device_t* device, uint64_t* out_context) noexcept {
  Call call("heddle.native/1 context");
  call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  return call.answer(call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.native->context(device, out_context); }));
}

heddle_status_t* stream(heddle_queue_t* queue, uint64_t* out_stream) noexcept {
  Call call("heddle.native/1 stream");
  call.live<Queue>(queue, "queue");
  if (call.refused()) return call.refusal();
  return call.answer(call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.native->stream(queue, out_stream); }));
}

heddle_status_t* queue_import(heddle_device_t* device, uint64_t stream, heddle_queue_t** out_queue) noexcept {
  Call call("heddle.native/1 queue_import");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.native->queue_import(device, stream, out_queue); });
  return keep_queue(call, status, out_queue, parent, true);
}

heddle_status_t* buffer_import(heddle_device_t* device, uint64_t address, uint64_t size_bytes, void (*release)(void* context),
                               void* context, heddle_buffer_t** out_buffer) noexcept {
  Call call("heddle.native/1 buffer_import");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  if (call.refused()) {
    if (release) release(context);
    return call.refusal();
  }
  void* number = registry().add_callback({&call.plugin(), "release", nullptr, release, context, nullptr, 0});
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] {
    return call.plugin().driver.native->buffer_import(device, address, size_bytes, release_callback, number, out_buffer);
  });
  auto record = std::make_shared<Buffer>();
  record->size = size_bytes;
  record->address = address;
  return call.keep<Buffer>(status, out_buffer, record, parent, [&](heddle_buffer_t* made) { call.plugin().driver.buffer->free(made); });
}

}  // namespace

const heddle_device_interface_t kDeviceTable = {
    sizeof(heddle_device_interface_t), 0, count, describe, link, open, close, queue_create, queue_destroy, statistics};
const heddle_native_interface_t kNativeTable = {sizeof(heddle_native_interface_t), 0, context, stream, queue_import, buffer_import};

}  // namespace heddle::validation
