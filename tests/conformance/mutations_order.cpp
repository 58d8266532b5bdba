// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of recordings, timelines, failures and threads. Each breaks one rule of the contract; mutants_test.py says which case of the kit must catch it.
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "mutation.h"

namespace heddle::odd {
namespace {

std::map<heddle_timeline_t*, int> failures;

}  // namespace

const std::vector<Change> kOrderMutations = {
    // ---- recordings
    {"replays_the_first_bindings",
     [] {
       odd.dispatch.replay = [](heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t count,
                                const heddle_sync_t* sync) noexcept -> Status {
         static std::map<heddle_recording_t*, std::vector<heddle_binding_t>> first;
         if (first[recording].empty()) first[recording].assign(bindings, bindings + count);
         return good.dispatch.replay(recording, first[recording].data(), count, sync);
       };
     }},
    {"records_late",
     [] {
       static std::map<heddle_recording_t*, const void**> sources;
       odd.dispatch.record = [](heddle_queue_t* queue, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic,
                                heddle_recording_t** out) noexcept -> Status {
         if (count == 1 && commands->kind == HEDDLE_COMMAND_UPDATE) {
           static char zeroes[4096];
           heddle_command_t late = *commands;
           late.as.update.source = zeroes;  // what the caller's memory holds by then
           return good.dispatch.record(queue, &late, 1, dynamic, out);
         }
         return good.dispatch.record(queue, commands, count, dynamic, out);
       };
     }},
    {"replays_once",
     [] {
       odd.dispatch.replay = [](heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t count,
                                const heddle_sync_t* sync) noexcept -> Status {
         static std::set<heddle_recording_t*> done;
         if (done.insert(recording).second) return good.dispatch.replay(recording, bindings, count, sync);
         give_signals(sync);
         return nullptr;
       };
     }},
    {"read_only_is_static",
     [] {
       odd.dispatch.record = [](heddle_queue_t* queue, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic,
                                heddle_recording_t** out) noexcept -> Status {
         if (count != 2 || commands[0].kind != HEDDLE_COMMAND_COPY) return good.dispatch.record(queue, commands, count, dynamic, out);
         uint8_t changed[4];
         for (int i = 0; i < 4; ++i) changed[i] = dynamic[i] == HEDDLE_BINDING_DYNAMIC;
         return good.dispatch.record(queue, commands, count, changed, out);
       };
     }},
    {"replays_unchecked",
     [] {
       odd.dispatch.replay = [](heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t count,
                                const heddle_sync_t* sync) noexcept -> Status {
         std::vector<heddle_binding_t> changed(bindings, bindings + count);
         for (heddle_binding_t& binding : changed) binding.length = binding.length == 65 ? 64 : binding.length;
         return good.dispatch.replay(recording, changed.data(), count, sync);
       };
     }},
    {"records_secretly", [] { change_description<[](heddle_device_description_t* out) { out->features &= ~HEDDLE_DEVICE_RECORDING; }>(); }},
    // ---- timelines
    {"starts_at_0",
     [] {
       odd.timeline.create = [](heddle_device_t* device, uint64_t, heddle_timeline_t** out) noexcept -> Status {
         return good.timeline.create(device, 0, out);
       };
     }},
    {"queries_one_less",
     [] {
       odd.timeline.query = [](heddle_timeline_t* timeline, uint64_t* out) noexcept -> Status {
         Status status = good.timeline.query(timeline, out);
         *out -= *out > 0;
         return status;
       };
     }},
    {"signals_anything",
     [] {
       odd.timeline.signal = [](heddle_timeline_t* timeline, uint64_t value) noexcept -> Status {
         HostTimeline::from(timeline)->advance(value);
         return nullptr;
       };
     }},
    {"ignores_bad_points",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         heddle_submission_t other = *in;
         if (other.sync.wait_count && (!other.sync.waits || !other.sync.waits->timeline)) other.sync.wait_count = 0;
         return good.dispatch.submit(queue, &other);
       };
     }},
    {"any_is_all",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         return good.timeline.wait(points, count, mode == HEDDLE_WAIT_ANY ? HEDDLE_WAIT_ALL : mode, timeout / 100);
       };
     }},
    {"timeouts_poison",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         Status status = good.timeline.wait(points, count, mode, timeout);
         if (status && timeout && points[0].timeline)
           good.timeline.fail(points[0].timeline, points[0].value, refuse(HEDDLE_STATUS_ABORTED, "odd: too late"));
         return status;
       };
     }},
    {"gives_up_early",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         return good.timeline.wait(points, count, mode, std::min<uint64_t>(timeout, 200000));
       };
     }},
    {"forgets_waits_on_other_queues",
     [] {
       // The template's one thread works in order, so that what is waited for has to be late, too: a fill that waits itself.
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         static std::mutex mutex;
         static std::map<heddle_timeline_t*, heddle_queue_t*> signalled;  // each timeline by one queue at a time (HD-Q-01)
         const heddle_sync_t& sync = in->sync;
         if (!sync.wait_count || !sync.signal_count || !sync.waits || !sync.signals || in->command_count != 1)
           return good.dispatch.submit(queue, in);
         std::lock_guard<std::mutex> lock(mutex);
         const auto by = signalled.find(sync.waits->timeline);
         heddle_submission_t other = *in;
         if (by != signalled.end() && by->second != queue) other.sync.wait_count = 0;
         if (!is(in->commands, HEDDLE_COMMAND_FILL)) return good.dispatch.submit(queue, &other);
         signalled[sync.signals->timeline] = queue;
         const heddle_command_t command = *in->commands;
         const std::vector<heddle_point_t> waits(sync.waits, sync.waits + sync.wait_count),
             signals(sync.signals, sync.signals + sync.signal_count);
         later(20000, [=] {
           heddle_submission_t late = other;
           late.commands = &command;
           late.sync.waits = waits.data();
           late.sync.signals = signals.data();
           good.dispatch.submit(queue, &late);
         });
         return nullptr;
       };
     }},
    {"signals_first",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         if (in->sync.wait_count || !in->command_count) return good.dispatch.submit(queue, in);
         heddle_submission_t silent = *in;
         silent.sync = without(in->sync, false, true);
         Status status = good.dispatch.submit(queue, &silent);
         if (!status) give_signals(&in->sync);
         return status;
       };
     }},
    {"downloads_late",
     [] {
       odd.transfer.download = [](heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                                  void* target) noexcept -> Status {
         // So late that nobody sees them come: who is kept from its core must not find them there after all.
         static char elsewhere[4 << 20];
         if (sync->wait_count || source->length < 1 << 16 || source->length > sizeof elsewhere)
           return good.transfer.download(queue, sync, source, target);
         const heddle_sync_t silent = without(*sync, false, true);
         Status status = good.transfer.download(queue, &silent, source, elsewhere);
         if (!status) give_signals(sync);
         return status;
       };
     }},
    {"submit_blocks",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         Status status = good.dispatch.submit(queue, in);
         if (!status) good.timeline.wait(in->sync.signals, in->sync.signal_count, HEDDLE_WAIT_ALL, UINT64_MAX);
         return status;
       };
     }},
    {"waits_for_few",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         if (count > 64) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: too many points");
         return good.timeline.wait(points, count, mode, timeout);
       };
     }},
    {"keeps_timelines",
     [] {
       odd.timeline.destroy = [](heddle_timeline_t* timeline) noexcept {
         static std::atomic<int> count{0};
         if (++count % 100 != 0) good.timeline.destroy(timeline);
       };
     }},
    {"notifies_twice",
     [] {
       odd.timeline.notify = [](heddle_timeline_t* timeline, uint64_t value, void (*function)(void*, const heddle_status_t*),
                                void* context) noexcept -> Status {
         if (Status status = good.timeline.notify(timeline, value, function, context)) return status;
         return good.timeline.notify(timeline, value, function, context);
       };
     }},
    {"exports_anything",
     [] {
       odd.timeline.export_handle = [](heddle_timeline_t*, heddle_string_t, uint64_t* out) noexcept -> Status {
         *out = 1;
         return nullptr;
       };
     }},
    // ---- failures
    {"the_last_failure_wins",
     [] {
       odd.timeline.fail = [](heddle_timeline_t* timeline, uint64_t value, Status status) noexcept {
         ++failures[timeline];
         good.timeline.fail(timeline, value, status);
       };
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         Status status = good.timeline.wait(points, count, mode, timeout);
         if (!status || failures[points[0].timeline] < 2) return status;
         sdk::Device* device = static_cast<sdk::Device*>(HostTimeline::from(points[0].timeline)->device());
         device->host->status_free(device->host->self, status);
         return refuse(HEDDLE_STATUS_ABORTED, "the last failure");
       };
     }},
    {"failures_take_back",
     [] {
       odd.timeline.fail = [](heddle_timeline_t* timeline, uint64_t value, Status status) noexcept {
         failures[timeline] = 1;
         good.timeline.fail(timeline, value, status);
       };
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         if (failures.count(points[0].timeline)) return refuse(HEDDLE_STATUS_ABORTED, "odd: failed");
         return good.timeline.wait(points, count, mode, timeout);
       };
     }},
    {"any_sees_failures_first",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         for (uint64_t i = 0; mode == HEDDLE_WAIT_ANY && i < count; ++i) {
           if (Status failure = HostTimeline::from(points[i].timeline)->failure(points[i].value)) return failure;
         }
         return good.timeline.wait(points, count, mode, timeout);
       };
     }},
    {"failures_do_not_wake",
     [] {
       odd.timeline.fail = [](heddle_timeline_t* timeline, uint64_t, Status status) noexcept {
         const heddle_host_t* host = HostTimeline::from(timeline)->device()->host;
         host->status_free(host->self, status);
       };
     }},
    {"failures_stay_behind",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         heddle_submission_t other = *in;
         other.sync.wait_count = 0;
         return good.dispatch.submit(queue, &other);
       };
     }},
    {"transfers_do_not_fail",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         const heddle_sync_t other = without(*sync, true, false);
         return good.transfer.upload(queue, &other, source, target);
       };
     }},
    {"kernels_fail_without_a_region",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         Status status = good.timeline.wait(points, count, mode, timeout);
         if (!status) return nullptr;
         const heddle_host_t* host = HostTimeline::from(points[0].timeline)->device()->host;
         Status plain = host->status_create(host->self, host->status_code(host->self, status), {nullptr, 0}, 0,
                                            host->status_message(host->self, status));
         host->status_free(host->self, status);
         return plain;
       };
     }},
    {"lost_devices_are_unavailable",
     [] {
       odd.device.queue_create = [](heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept -> Status {
         Status lost = sdk::Device::from(device)->loss();
         if (!lost) return good.device.queue_create(device, params, out);
         const heddle_host_t* host = sdk::Device::from(device)->host;
         host->status_free(host->self, lost);
         *out = nullptr;
         return refuse(HEDDLE_STATUS_UNAVAILABLE, "odd: gone");
       };
     }},
    {"says_that_it_ends",
     [] { change_description<[](heddle_device_description_t* out) { out->features |= HEDDLE_DEVICE_FAULT_ENDS_PROCESS; }>(); }},
    {"allocate_leaks_when_it_fails",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         const heddle_host_t* host = sdk::Device::from(device)->host;
         void* memory = host->memory_allocate(host->self, 16, 8);
         Status status = good.buffer.allocate(device, in, out);
         if (!status) host->memory_free(host->self, memory);
         return status;
       };
     }},
    {"load_leaks_when_it_fails",
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* in,
                                         heddle_executable_t** out) noexcept -> Status {
         const heddle_host_t* host = sdk::Device::from(device)->host;
         void* memory = host->memory_allocate(host->self, 16, 8);
         Status status = good.dispatch.executable_load(device, in, out);
         if (!status) host->memory_free(host->self, memory);
         return status;
       };
     }},
    {"no_null_releases",
     [] {
       odd.buffer.free = [](heddle_buffer_t* buffer) noexcept {
         if (!buffer) std::abort();
         good.buffer.free(buffer);
       };
     }},
    // ---- threads
    {"allocates_alone",
     [] {
       odd.buffer.allocate = [](heddle_device_t* device, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept -> Status {
         *out = nullptr;
         return alone([&] { return good.buffer.allocate(device, in, out); });
       };
     }},
    {"submits_alone",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         return alone([&] { return good.dispatch.submit(queue, in); });
       };
     }},
    {"waits_alone",
     [] {
       odd.timeline.wait = [](const heddle_point_t* points, uint64_t count, uint32_t mode, uint64_t timeout) noexcept -> Status {
         return alone([&] { return good.timeline.wait(points, count, mode, timeout); });
       };
     }},
};

}  // namespace heddle::odd
