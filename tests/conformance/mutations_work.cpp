// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of transfers, parameter I/O and dispatches. Each breaks one rule of the contract; mutants_test.py says which case of the kit must catch it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cfenv>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "mutation.h"

namespace heddle::odd {
namespace {

std::map<heddle_file_t*, const volatile char*> mapped_files;
void (*their_progress)(void*, uint64_t, uint64_t);

}  // namespace

const std::vector<Change> kWorkMutations = {
    // ---- transfers
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
    // ---- parameter I/O
    {"reads_a_byte_less", [] { change_extents<[](heddle_extent_t* extent) { extent->length -= (1 << 16) < extent->length; }>(); }},
    {"reads_into_one_buffer",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         std::vector<heddle_extent_t> changed(extents, extents + count);
         for (heddle_extent_t& extent : changed) extent.buffer = extents[0].buffer;
         return good.param_io.read(queue, sync, file, changed.data(), count, params);
       };
     }},
    {"direct_reads_begin_on_blocks",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         std::vector<heddle_extent_t> changed(extents, extents + count);
         if (params && params->method == HEDDLE_FILE_METHOD_DIRECT) changed[0].file_offset &= ~uint64_t{4095};
         return good.param_io.read(queue, sync, file, changed.data(), count, params);
       };
     }},
    {"takes_any_method",
     [] {
       change_io_params<[](heddle_param_io_params_t* params) {
         if (HEDDLE_FILE_METHOD_DIRECT < params->method) params->method = HEDDLE_FILE_METHOD_ANY;
       }>();
     }},
    {"reads_whole_sectors", [] { change_extents<[](heddle_extent_t* extent) { extent->file_offset &= ~uint64_t{511}; }>(); }},
    {"short_reads_are_fine",
     [] { change_extents<[](heddle_extent_t* extent) { extent->length = std::min<uint64_t>(extent->length, 8); }>(); }},
    {"opens_by_name",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         const auto* own = *reinterpret_cast<sdk::Device* const*>(reinterpret_cast<const char*>(file) + sizeof(void*));
         (void)own;
         const int descriptor = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(file) + 2 * sizeof(void*));
         char path[256] = {};
         if (readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path, sizeof path - 1) > 0) {
           if (char* deleted = std::strstr(path, " (deleted)")) *deleted = 0;
           const int again = open(path, O_RDONLY | O_CLOEXEC);
           if (again >= 0) {
             dup2(again, descriptor);
             close(again);
           }
         }
         return good.param_io.read(queue, sync, file, extents, count, params);
       };
     }},
    {"maps_files",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         Status status = good.param_io.file_open(device, descriptor, access, name, out);
         struct stat facts;
         if (status || fstat(descriptor, &facts) != 0 || facts.st_size == 0) return status;
         void* memory = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
         mapped_files[*out] = static_cast<const char*>(memory);
         return nullptr;
       };
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         for (uint64_t i = 0; i < count; ++i) {
           if (mapped_files[file][extents[i].file_offset + extents[i].length + 4096 * 3] == 1) usleep(1);
         }
         return good.param_io.read(queue, sync, file, extents, count, params);
       };
     }},
    {"writes_one_further",
     [] {
       odd.param_io.write = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                               uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         std::vector<heddle_extent_t> changed(extents, extents + count);
         for (heddle_extent_t& extent : changed) extent.file_offset += 1;
         return good.param_io.write(queue, sync, file, changed.data(), count, params);
       };
     }},
    {"writes_what_was_opened_for_reading",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         return good.param_io.file_open(device, descriptor, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE, name, out);
       };
     }},
    {"moves_the_callers_offset",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         lseek(descriptor, 0, SEEK_SET);
         return good.param_io.file_open(device, descriptor, access, name, out);
       };
     }},
    {"progress_runs_back",
     [] {
       change_io_params<[](heddle_param_io_params_t* params) {
         their_progress = params->progress;
         if (params->progress)
           params->progress = [](void* context, uint64_t done, uint64_t total) { their_progress(context, total - done, total); };
       }>();
     }},
    {"cannot_be_cancelled", [] { change_io_params<[](heddle_param_io_params_t* params) { params->cancel = nullptr; }>(); }},
    {"looks_for_cancellation_once",
     [] {
       change_io_params<[](heddle_param_io_params_t* params) {
         if (params->cancel && !*params->cancel) params->cancel = nullptr;
       }>();
     }},
    {"file_offsets_of_32_bits",
     [] { change_extents<[](heddle_extent_t* extent) { extent->file_offset = static_cast<uint32_t>(extent->file_offset); }>(); }},
    {"extents_of_32_bits",
     [] { change_extents<[](heddle_extent_t* extent) { extent->length = static_cast<uint32_t>(extent->length); }>(); }},
    {"clamps_extents",
     [] {
       change_extents<[](heddle_extent_t* extent) {
         if (!extent->buffer) return;
         extent->buffer_offset = std::min(extent->buffer_offset, size_of(extent->buffer));
         extent->length = std::min(extent->length, size_of(extent->buffer) - extent->buffer_offset);
       }>();
     }},
    {"reads_whole_files_into_memory",
     [] {
       odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                              uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
         for (uint64_t i = 0; i < count; ++i) {
           const size_t bytes = std::min<uint64_t>(extents[i].length, 1 << 30) + 1;
           void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
           munmap(memory, bytes);
         }
         return good.param_io.read(queue, sync, file, extents, count, params);
       };
     }},
    {"leaks_files",
     [] {
       odd.param_io.file_open = [](heddle_device_t* device, int32_t descriptor, uint32_t access, heddle_string_t name,
                                   heddle_file_t** out) noexcept -> Status {
         if (dup(descriptor) < 0) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: no such descriptor");
         return good.param_io.file_open(device, descriptor, access, name, out);
       };
     }},
    // ---- dispatch
    {"constants_are_zero",
     [] {
       change_commands<[](heddle_command_t* command) {
         static const char zeroes[4096] = {};
         if (is(command, HEDDLE_COMMAND_DISPATCH) && command->as.dispatch.constants) command->as.dispatch.constants = zeroes;
       }>();
     }},
    {"one_workgroup_less",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_DISPATCH) && 1 < command->as.dispatch.grid[0]) command->as.dispatch.grid[0] -= 1;
       }>();
     }},
    {"refuses_no_workgroups",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_DISPATCH) && command->as.dispatch.grid[0] == 0) command->kind = 99;
       }>();
     }},
    {"grids_of_16_bits",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (is(command, HEDDLE_COMMAND_DISPATCH)) command->as.dispatch.grid[0] = std::min(command->as.dispatch.grid[0], 65535u);
       }>();
     }},
    {"clamps_grids",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (!is(command, HEDDLE_COMMAND_DISPATCH)) return;
         for (uint32_t& side : command->as.dispatch.grid) side = std::min(side, 1u << 20);
       }>();
     }},
    {"corrects_counts",  // an executable is loaded whatever its entries declare
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* params,
                                         heddle_executable_t** out) noexcept -> Status {
         if (params->entry_stride != sizeof(heddle_entry_params_t)) return good.dispatch.executable_load(device, params, out);
         std::vector<heddle_entry_params_t> entries(params->entries, params->entries + params->entry_count);
         for (heddle_entry_params_t& entry : entries) {
           const std::string_view name(entry.name.data, entry.name.size);
           entry.binding_count = name == "add" ? 3 : 1;
           entry.constants_bytes = name == "add" ? 16 : name == "chain" ? 8 : 0;
         }
         heddle_executable_params_t changed = *params;
         changed.entries = entries.data();
         return good.dispatch.executable_load(device, &changed, out);
       };
     }},
    {"trusts_counts",
     [] {
       change_commands<[](heddle_command_t* command) {
         if (!is(command, HEDDLE_COMMAND_DISPATCH) || !command->as.dispatch.entry) return;
         const heddle_entry_params_t& params = sdk::Entry::from(command->as.dispatch.entry)->params;
         command->as.dispatch.binding_count = params.binding_count;
         command->as.dispatch.constants_bytes = params.constants_bytes;
       }>();
     }},
    {"clamps_bindings",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         for (uint32_t i = 0; i < in->command_count; ++i) {
           const heddle_dispatch_command_t& dispatch = in->commands[i].as.dispatch;
           if (in->commands[i].kind != HEDDLE_COMMAND_DISPATCH || !dispatch.bindings) continue;
           for (uint32_t k = 0; k < dispatch.binding_count; ++k) {
             auto& binding = const_cast<heddle_binding_t&>(dispatch.bindings[k]);
             binding.offset = std::min(binding.offset, size_of(binding.buffer));
             binding.length = std::min(binding.length, size_of(binding.buffer) - binding.offset);
           }
         }
         return good.dispatch.submit(queue, in);
       };
     }},
    {"reads_constants_late",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         if (in->command_count != 5) return good.dispatch.submit(queue, in);  // the list of the case
         const std::vector<heddle_command_t> commands(in->commands, in->commands + in->command_count);
         heddle_submission_t kept = *in;
         const heddle_point_t signal = *in->sync.signals;
         std::vector<std::vector<heddle_binding_t>> bindings;
         for (const heddle_command_t& command : commands) {
           const heddle_dispatch_command_t& dispatch = command.as.dispatch;
           bindings.emplace_back();
           if (command.kind == HEDDLE_COMMAND_DISPATCH)
             bindings.back().assign(dispatch.bindings, dispatch.bindings + dispatch.binding_count);
         }
         later(5000, [=]() mutable {
           std::vector<heddle_command_t> own = commands;
           for (size_t i = 0; i < own.size(); ++i) {
             if (own[i].kind == HEDDLE_COMMAND_DISPATCH) own[i].as.dispatch.bindings = bindings[i].data();
           }
           kept.commands = own.data();
           kept.sync.wait_count = 0;
           kept.sync.signals = &signal;
           good.dispatch.submit(queue, &kept);
         });
         return nullptr;
       };
     }},
    {"cuts_long_lists",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         heddle_submission_t cut = *in;
         cut.command_count = std::min(cut.command_count, 1024u);
         return good.dispatch.submit(queue, &cut);
       };
     }},
    {"runs_waiting_work_first",
     [] {
       // What waits for nothing is done late, what waits is done at once.
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         heddle_submission_t now = *in;
         now.sync.wait_count = 0;
         if (in->sync.wait_count || in->command_count != 1 || in->commands->kind != HEDDLE_COMMAND_DISPATCH) {
           return good.dispatch.submit(queue, in->sync.wait_count ? &now : in);
         }
         const heddle_command_t command = *in->commands;
         const heddle_dispatch_command_t& dispatch = command.as.dispatch;
         const std::vector<heddle_binding_t> bindings(dispatch.bindings, dispatch.bindings + dispatch.binding_count);
         const std::vector<char> constants(static_cast<const char*>(dispatch.constants),
                                           static_cast<const char*>(dispatch.constants) + dispatch.constants_bytes);
         const heddle_point_t signal = *in->sync.signals;
         later(2000, [=] {
           heddle_command_t own = command;
           own.as.dispatch.bindings = bindings.data();
           own.as.dispatch.constants = constants.data();
           const heddle_submission_t submission = {sizeof submission, 1, &own, {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &signal}};
           good.dispatch.submit(queue, &submission);
         });
         return nullptr;
       };
     }},
    {"finds_any_kernel",
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* in,
                                         heddle_executable_t** out) noexcept -> Status {
         std::vector<heddle_entry_params_t> entries;
         for (uint32_t i = 0; i < in->entry_count; ++i) {
           entries.push_back(in->entries[i]);
           if (sdk::view_of(entries[i].name) == "no_such_kernel") entries[i].name = sdk::string_of("add");
         }
         heddle_executable_params_t params = *in;
         params.entries = entries.data();
         return good.dispatch.executable_load(device, &params, out);
       };
     }},
    {"ranks_everything",
     [] {
       odd.dispatch.variant_rank = [](heddle_device_t*, heddle_string_t, heddle_string_t, uint32_t* out) noexcept -> Status {
         *out = 1;
         return nullptr;
       };
     }},
    {"loads_no_code",
     [] {
       odd.dispatch.executable_load = [](heddle_device_t*, const heddle_executable_params_t*,
                                         heddle_executable_t** out) noexcept -> Status {
         *out = nullptr;
         return refuse(HEDDLE_STATUS_UNIMPLEMENTED, "odd: no code of this format");
       };
     }},
    {"loads_anything",
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* in,
                                         heddle_executable_t** out) noexcept -> Status {
         std::string code;
         for (uint32_t i = 0; i < in->entry_count; ++i) {
           code += "kernel " + std::string(sdk::view_of(in->entries[i].name)) + " " + std::to_string(in->entries[i].binding_count) + " " +
                   std::to_string(in->entries[i].constants_bytes) + "\n";
         }
         heddle_executable_params_t params = *in;
         params.code = code.data();
         params.code_bytes = code.size();
         return good.dispatch.executable_load(device, &params, out);
       };
     }},
    {"ignores_strides",
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* in,
                                         heddle_executable_t** out) noexcept -> Status {
         heddle_executable_params_t params = *in;
         params.entry_stride = sizeof(heddle_entry_params_t);
         return good.dispatch.executable_load(device, &params, out);
       };
     }},
    {"entries_by_position",  // the first one is the code's first kernel, whatever its name
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* in,
                                         heddle_executable_t** out) noexcept -> Status {
         if (in->entry_stride != sizeof(heddle_entry_params_t)) return good.dispatch.executable_load(device, in, out);
         std::vector<heddle_entry_params_t> entries(in->entries, in->entries + in->entry_count);
         std::istringstream code(std::string(static_cast<const char*>(in->code), in->code_bytes));
         std::deque<std::string> names;
         for (std::string line, word; names.size() < entries.size() && std::getline(code, line);) {
           std::istringstream words(line);
           if (!(words >> word) || word != "kernel" || !(words >> word)) continue;
           names.push_back(word);
           entries[names.size() - 1].name = {names.back().data(), names.back().size()};
         }
         heddle_executable_params_t params = *in;
         params.entries = entries.data();
         return good.dispatch.executable_load(device, &params, out);
       };
     }},
    {"keeps_the_callers_code",
     [] {
       static std::map<heddle_executable_t*, heddle_executable_params_t> kept;
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* in,
                                         heddle_executable_t** out) noexcept -> Status {
         Status status = good.dispatch.executable_load(device, in, out);
         if (!status) kept[*out] = *in;
         return status;
       };
       odd.dispatch.entry = [](heddle_executable_t* executable, uint32_t index, heddle_entry_t** out) noexcept -> Status {
         const heddle_executable_params_t& params = kept[executable];
         *out = nullptr;
         if (static_cast<const volatile char*>(params.code)[params.code_bytes / 2] == 0x55 ||
             std::memchr(params.code, 0, params.code_bytes)) {
           return refuse(HEDDLE_STATUS_DATA_LOSS, "odd: the code is gone");
         }
         return good.dispatch.entry(executable, index, out);
       };
     }},
    {"refuses_empty_lists",
     [] {
       odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
         if (in->command_count == 0 && !in->sync.wait_count) {
           static std::atomic<int> count{0};  // the kit's own warm-up is an empty list
           if (++count > 1) return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: an empty list");
         }
         return good.dispatch.submit(queue, in);
       };
     }},
};

}  // namespace heddle::odd
