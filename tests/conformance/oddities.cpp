// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Oddities: each is unusual and keeps every rule, so the kit must pass it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "heddle/code.h"
#include "odd_driver.h"

namespace heddle::odd {
namespace {

using Status = heddle_status_t*;

constexpr std::string_view kAsSample = "sample-portable/1";

heddle_string_t as_portable(heddle_string_t format) {
  return sdk::view_of(format) == kAsSample ? sdk::string_of(HEDDLE_CODE_PORTABLE) : format;
}

// Of all oddities that are chosen, in their order; the entry, which fills it, allocates nothing (HD-E-02).
using DescriptionChange = void (*)(heddle_device_description_t*);
DescriptionChange description_changes[8] = {};
size_t description_change_count = 0;

void change_description(DescriptionChange change) {
  description_changes[description_change_count++] = change;
  odd.device.describe = [](heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out) noexcept -> Status {
    heddle_device_description_t whole = {};
    whole.struct_size = sizeof whole;
    Status status = good.device.describe(instance, ordinal, &whole);
    if (status) return status;
    for (size_t i = 0; i < description_change_count; ++i) description_changes[i](&whole);
    sdk::write_struct(whole, out);
    return nullptr;
  };
  // What the base class checks is what the host was told.
  odd.device.open = [](heddle_plugin_instance_t* instance, uint32_t ordinal, const heddle_device_open_params_t* params,
                       heddle_device_t** out) noexcept -> Status {
    Status status = good.device.open(instance, ordinal, params, out);
    for (size_t i = 0; i < description_change_count && !status; ++i) description_changes[i](&sdk::Device::from(*out)->limits);
    return status;
  };
}

// Copies host memory in pieces through a staging block, as a device without access to pageable memory must.
constexpr uint64_t kStaging = 4096;

}  // namespace

const std::vector<Change> kOddities = {
    {"decodes_blocks", [] { add_blocks(); }},
    {"tiny",
     [] {
       change_description([](heddle_device_description_t* limits) {
         limits->memory_bytes = 16 << 20;
         limits->max_allocation_bytes = 2 << 20;
         limits->max_bindings = 3;
         limits->max_constants_bytes = 16;
         for (uint32_t& most : limits->max_workgroup_count) most = 128;
       });
     }},
    {"one_queue",
     [] {
       odd.device.queue_create = [](heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept -> Status {
         static std::mutex mutex;
         std::lock_guard<std::mutex> lock(mutex);
         sdk::Device* opened = sdk::Device::from(device);
         const heddle_host_t* host = opened->host;
         Status lost = opened->loss();
         host->status_free(host->self, lost);
         if (!lost && opened->live.queues.load() && !host->is_forked_child(host->self) && params->struct_size == sizeof *params) {
           *out = nullptr;
           return refuse(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "odd: this device has one queue");
         }
         return good.device.queue_create(device, params, out);
       };
     }},
    {"hidden_memory",
     [] {
       change_description([](heddle_device_description_t* limits) {
         limits->memory_kinds = HEDDLE_MEMORY_DEVICE;
         limits->features &= ~HEDDLE_DEVICE_UNIFIED_MEMORY;
       });
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         Status status = good.buffer.allocate(device, in, out);
         if (!status) sdk::Buffer::from(*out)->memory = HEDDLE_MEMORY_DEVICE;
         return status;
       };
       odd.buffer.import_host = nullptr;
     }},
    {"wide_alignment", [] { change_description([](heddle_device_description_t* limits) { limits->min_alignment_bytes = 1 << 16; }); }},
    {"ends_at_a_fault",
     [] {
       change_description([](heddle_device_description_t* limits) { limits->features |= HEDDLE_DEVICE_FAULT_ENDS_PROCESS; });
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         for (uint32_t i = 0; i < in->command_count && in->commands; ++i) {
           const sdk::Entry* entry =
               in->commands[i].kind == HEDDLE_COMMAND_DISPATCH ? sdk::Entry::from(in->commands[i].as.dispatch.entry) : nullptr;
           if (!entry || entry->name != "lose") continue;
           later(2000, [] { std::abort(); });
           return nullptr;  // the signal is never reached
         }
         return good.dispatch.submit(queue, in);
       };
     }},
    {"staged_copies",
     [] {
       // Every upload goes through a list of updates of 4 KiB, each captured: the caller's memory is free as soon as it returns.
       odd.transfer.properties = [](heddle_device_t*, heddle_transfer_properties_t* out) noexcept -> Status {
         heddle_transfer_properties_t properties = {};
         properties.flags = HEDDLE_TRANSFER_CAPTURES_SOURCE;
         properties.staging_bytes = kStaging;
         sdk::write_struct(properties, out);
         return nullptr;
       };
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         const sdk::Buffer* buffer = sdk::Buffer::from(target->buffer);
         if (!buffer || !source || !buffer->holds(target->offset, target->length)) return good.transfer.upload(queue, sync, source, target);
         std::vector<heddle_command_t> commands;
         for (uint64_t at = 0; at < target->length; at += kStaging) {
           heddle_command_t command = {};
           command.kind = HEDDLE_COMMAND_UPDATE;
           command.as.update = {target->buffer, target->offset + at, std::min(kStaging, target->length - at),
                                static_cast<const char*>(source) + at};
           commands.push_back(command);
         }
         const heddle_submission_t submission = {sizeof submission, static_cast<uint32_t>(commands.size()), commands.data(), *sync};
         return good.dispatch.submit(queue, &submission);
       };
     }},
    {"first_waits_are_late",
     [] {
       // As on a machine whose other work ends meanwhile.
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         static std::atomic<int> waits{0};
         if (waits++ < 6) usleep(40000);
         return good.timeline.wait(points, count, mode, timeout);
       };
     }},
    {"least_functions",
     [] {
       // All that driver.h lets a driver leave out.
       odd.plugin.probe = nullptr;
       odd.device.link = nullptr;
       odd.device.statistics = nullptr;
       odd.buffer.import_host = nullptr;
       odd.buffer.properties = nullptr;
       odd.transfer.properties = nullptr;
       odd.transfer.peer_copy = nullptr;
       odd.param_io.write = nullptr;
       odd.timeline.export_handle = nullptr;
       odd.timeline.import_handle = nullptr;
       odd.dispatch.record = nullptr;
       odd.dispatch.replay = nullptr;
       odd.dispatch.recording_free = nullptr;
       change_description([](heddle_device_description_t* limits) { limits->features &= ~HEDDLE_DEVICE_RECORDING; });
     }},
    {"short_tables",
     [] {
       // Tables of an older minor, which end before their last functions.
       odd.timeline.struct_size = offsetof(heddle_timeline_interface_t, export_handle);
       odd.dispatch.struct_size = offsetof(heddle_dispatch_interface_t, record);
       change_description([](heddle_device_description_t* limits) { limits->features &= ~HEDDLE_DEVICE_RECORDING; });
     }},
    {"runs_portable_as_sample",
     [] {
       // For the targets of tests/target_plugins: portable code as a format of the device.
       odd.dispatch.variant_rank = [](heddle_device_t* device, heddle_string_t format, heddle_string_t target,
                                      uint32_t* out) noexcept -> Status {
         return good.dispatch.variant_rank(device, as_portable(format), target, out);
       };
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* params,
                                         heddle_executable_t** out) noexcept -> Status {
         if (!params || sdk::view_of(params->format) != kAsSample) return good.dispatch.executable_load(device, params, out);
         heddle_executable_params_t changed = *params;
         changed.format = as_portable(params->format);
         return good.dispatch.executable_load(device, &changed, out);
       };
     }},
};

}  // namespace heddle::odd
