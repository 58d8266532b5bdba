// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of transfers, and of what every call leaves as it was. Each breaks one rule of the contract; mutants_test.py says which case of the kit must catch it.
#include <cerrno>
#include <cfenv>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "mutation.h"

namespace heddle::odd {

const std::vector<Change> kTransferMutations = {
    {"loses_the_last_byte",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         heddle_binding_t other = *target;
         if (other.length % 2 && other.length < UINT64_MAX / 2) other.length -= 1;
         return good.transfer.upload(queue, sync, source, &other);
       };
     }},
    {"offsets_of_32_bits",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         heddle_binding_t other = *target;
         other.offset = static_cast<uint32_t>(other.offset);
         return good.transfer.upload(queue, sync, source, &other);
       };
     }},
    {"lengths_of_32_bits",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_FILL)) command->as.fill.length = static_cast<uint32_t>(command->as.fill.length);
         if (is(command, HEDDLE_COMMAND_COPY)) command->as.copy.length = static_cast<uint32_t>(command->as.copy.length);
       }>();
     }},
    {"fills_without_tail",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_FILL) && command->as.fill.pattern_bytes)
           command->as.fill.length -= command->as.fill.length % command->as.fill.pattern_bytes;
       }>();
     }},
    {"fills_aligned",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_FILL) && command->as.fill.offset % 8 && command->as.fill.length)
           command->as.fill.offset &= ~uint64_t{7};
       }>();
     }},
    {"fills_any_pattern",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_FILL) && command->as.fill.pattern_bytes == 3) command->as.fill.pattern_bytes = 1;
       }>();
     }},
    {"copies_from_the_start",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_COPY) && command->as.copy.source != command->as.copy.target && command->as.copy.length < 1 << 20 &&
             command->as.copy.source_offset < 1 << 20) {
           command->as.copy.source_offset = 0;
         }
       }>();
     }},
    {"swallows_overlaps",
     [] {
       change_commands<[](heddle_command_t* command) {
         const heddle_copy_command_t& copy = command->as.copy;
         if (is(command, HEDDLE_COMMAND_COPY) && copy.source == copy.target && copy.source_offset < copy.target_offset + copy.length &&
             copy.target_offset < copy.source_offset + copy.length) {
           command->kind = HEDDLE_COMMAND_BARRIER;
         }
       }>();
     }},
    {"swaps_strides",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_COPY_2D)) std::swap(command->as.copy_2d.source_stride, command->as.copy_2d.target_stride);
       }>();
     }},
    {"clamps_uploads",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         heddle_binding_t other = *target;
         if (other.buffer) {
           other.offset = std::min(other.offset, size_of(other.buffer));
           other.length = std::min(other.length, size_of(other.buffer) - other.offset);
         }
         return good.transfer.upload(queue, sync, source, &other);
       };
     }},
    {"clamps_fills",
     [] {
       change_commands<[](heddle_command_t* command) {
         heddle_fill_command_t& fill = command->as.fill;
         if (!is(command, HEDDLE_COMMAND_FILL) || !fill.target) return;
         fill.offset = std::min(fill.offset, size_of(fill.target));
         fill.length = std::min(fill.length, size_of(fill.target) - fill.offset);
       }>();
     }},
    {"uploads_nothing_from_null",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         heddle_binding_t other = *target;
         if (!source) other.length = 0;
         return good.transfer.upload(queue, sync, source, &other);
       };
     }},
    {"runs_half_a_list",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         Status status = good.dispatch.submit(queue, in);
         if (!status || in->command_count < 2 || !in->commands) return status;
         heddle_submission_t first = *in;
         first.command_count = 1;
         first.sync = without(in->sync, false, true);
         if (Status again = good.dispatch.submit(queue, &first)) sdk::Queue::from(queue)->device->host->status_free(nullptr, again);
         return status;
       };
     }},
    {"skips_unknown_commands",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (HEDDLE_COMMAND_COPY_2D < command->kind) command->kind = HEDDLE_COMMAND_BARRIER;
       }>();
     }},
    {"ignores_barriers",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         std::vector<heddle_command_t> commands(in->commands, in->commands + (in->commands ? in->command_count : 0));
         std::reverse(commands.begin(), commands.end());
         return submit_list(queue, in, commands);
       };
     }},
    {"reads_updates_late",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         if (in->command_count != 1 || !in->commands || in->commands->kind != HEDDLE_COMMAND_UPDATE) return good.dispatch.submit(queue, in);
         const heddle_command_t command = *in->commands;
         heddle_submission_t kept = *in;
         const std::vector<heddle_point_t> signals(in->sync.signals, in->sync.signals + in->sync.signal_count);
         later(5000, [=]() mutable {
           kept.commands = &command;
           kept.sync.wait_count = 0;
           kept.sync.signals = signals.data();
           good.dispatch.submit(queue, &kept);
         });
         return nullptr;
       };
     }},
    {"captures_no_uploads",
     [] {
       odd.transfer.properties = [](heddle_device_t*, heddle_transfer_properties_t* out) noexcept -> Status {
         heddle_transfer_properties_t properties = {};
         properties.flags = HEDDLE_TRANSFER_CAPTURES_SOURCE;
         sdk::write_struct(properties, out);
         return nullptr;
       };
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         const heddle_binding_t binding = *target;
         const heddle_point_t signal = *sync->signals;
         later(3000, [=] {
           const heddle_sync_t own = {sizeof own, 0, 1, 0, nullptr, &signal};
           good.transfer.upload(queue, &own, source, &binding);
         });
         return nullptr;
       };
     }},
    {"reads_pinned_memory_as_zeroes",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         static char zeroes[2 << 20];
         const bool pinned = reinterpret_cast<uint64_t>(source) % 4096 == 0 && target->length >= 65536 && target->length <= sizeof zeroes;
         return good.transfer.upload(queue, sync, pinned ? zeroes : source, target);
       };
     }},
    {"claims_peer_copies", [] { odd.transfer.peer_copy = nullptr; }},
    {"peer_copies_at_once",
     [] {
       odd.transfer.peer_copy = [](heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                                   const heddle_binding_t* target) noexcept -> Status {
         heddle_sync_t changed = *sync;
         changed.wait_count = 0;
         return good.transfer.peer_copy(queue, &changed, source, target);
       };
     }},
    {"peer_copies_nothing",
     [] {
       odd.transfer.peer_copy = [](heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_binding_t* source,
                                   const heddle_binding_t* target) noexcept -> Status {
         heddle_binding_t from = *source, to = *target;
         if (from.length == to.length && from.length < size_of(from.buffer)) from.length = to.length = 0;
         return good.transfer.peer_copy(queue, sync, &from, &to);
       };
     }},
    {"crashes",
     [] {
       odd.transfer.upload = [](heddle_queue_t*, const heddle_sync_t*, const void*, const heddle_binding_t*) noexcept -> Status {
         static int* volatile nowhere = reinterpret_cast<int*>(64);  // of NULL a sanitizer would make an exit
         *nowhere = 1;
         return nullptr;
       };
     }},
    {"hangs",
     [] {
       odd.transfer.upload = [](heddle_queue_t*, const heddle_sync_t*, const void*, const heddle_binding_t*) noexcept -> Status {
         for (;;) pause();
       };
     }},
    {"exits",
     [] {
       odd.transfer.upload = [](heddle_queue_t*, const heddle_sync_t*, const void*, const heddle_binding_t*) noexcept -> Status {
         _exit(0);
       };
     }},
    {"throws",
     [] {
       odd.transfer.upload = [](heddle_queue_t*, const heddle_sync_t*, const void*, const heddle_binding_t*) -> Status {
         throw std::runtime_error("odd");
       };
     }},
    {"clobbers_errno",
     [] {
       odd.transfer.upload = [](heddle_queue_t* queue, const heddle_sync_t* sync, const void* source,
                                const heddle_binding_t* target) noexcept -> Status {
         errno = EAGAIN;
         Status status = good.transfer.upload(queue, sync, source, target);
         errno = EAGAIN;
         return status;
       };
     }},
    {"clobbers_the_signal_mask",
     [] {
       odd.device.queue_create = [](heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept -> Status {
         sigset_t usr1;
         sigemptyset(&usr1);
         sigaddset(&usr1, SIGUSR1);
         pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
         return good.device.queue_create(device, params, out);
       };
     }},
    {"clobbers_floating_point",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         fesetround(FE_TOWARDZERO);
         return good.dispatch.submit(queue, in);
       };
     }},
    {"leaks_statuses",
     [] {
       odd.dispatch.variant_rank = [](heddle_device_t* device, heddle_string_t format, heddle_string_t target,
                                      uint32_t* out) noexcept -> Status {
         refuse(HEDDLE_STATUS_INTERNAL, "odd: nobody frees this");
         return good.dispatch.variant_rank(device, format, target, out);
       };
     }},
};

}  // namespace heddle::odd
