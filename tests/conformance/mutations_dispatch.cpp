// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mutants of executables and dispatches. Each breaks one rule of the contract; mutants_test.py says which case of the kit must catch it.
#include <cstring>
#include <deque>
#include <map>
#include <sstream>
#include <string>

#include "mutation.h"

namespace heddle::odd {

const std::vector<Change> kDispatchMutations = {
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
    {"ignores_command_flags", [] { change_commands<[](heddle_command_t* command) { command->flags = 0; }>(); }},
    {"ignores_entry_flags",
     [] {
       odd.dispatch.executable_load = [](heddle_device_t* device, const heddle_executable_params_t* params,
                                         heddle_executable_t** out) noexcept -> Status {
         if (params->entry_stride != sizeof(heddle_entry_params_t)) return good.dispatch.executable_load(device, params, out);
         std::vector<heddle_entry_params_t> entries(params->entries, params->entries + params->entry_count);
         for (heddle_entry_params_t& entry : entries) entry.flags = 0;
         heddle_executable_params_t changed = *params;
         changed.entries = entries.data();
         return good.dispatch.executable_load(device, &changed, out);
       };
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
