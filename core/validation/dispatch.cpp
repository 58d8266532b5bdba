// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.dispatch/1 and heddle.profile/1, checked: code, command lists and recordings.
#include "core/validation/call.h"

namespace heddle::validation {
namespace {

heddle_status_t* variant_rank(heddle_device_t* device, heddle_string_t format, heddle_string_t target, uint32_t* out_rank) noexcept {
  Call call("heddle.dispatch/1 variant_rank");
  call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  return call.answer(
      call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.dispatch->variant_rank(device, format, target, out_rank); }));
}

heddle_status_t* portable_parts(heddle_device_t* device, const heddle_portable_query_t* query,
                                void (*part)(void* context, const heddle_portable_part_t* part), void* context) noexcept {
  Call call("heddle.dispatch/1 portable_parts");
  call.live<Device>(device, "device");
  if (!query || !part) call.host_broke("HD-M-02", "query or part is NULL");
  if (call.refused()) return call.refusal();
  return call.answer(
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.dispatch->portable_parts(device, query, part, context); }));
}

heddle_status_t* executable_load(heddle_device_t* device, const heddle_executable_params_t* params,
                                 heddle_executable_t** out_executable) noexcept {
  Call call("heddle.dispatch/1 executable_load");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  auto record = std::make_shared<Executable>();
  const heddle_executable_params_t given = call.read(params, "params");
  if (given.entry_count && (!given.entries || given.entry_stride < sizeof(uint32_t))) {
    call.host_broke("HD-E-04", "params counts {} entries at a stride of {}, but has none", given.entry_count, given.entry_stride);
  }
  if (given.code_bytes && !given.code) call.host_broke("HD-M-02", "params.code is NULL, for {} bytes", given.code_bytes);
  for (uint32_t i = 0; !call.refused() && i < given.entry_count; ++i) {
    const auto* entry =
        reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(given.entries) + i * given.entry_stride);
    if (entry->struct_size > given.entry_stride) {
      call.host_broke("HD-E-04", "params.entries[{}].struct_size is {}, at a stride of {}", i, entry->struct_size, given.entry_stride);
    }
    const heddle_entry_params_t known = call.read(entry, "an entry");
    record->entries.emplace_back(known.binding_count, known.constants_bytes);
  }
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.dispatch->executable_load(device, params, out_executable); });
  call.check_lost(status);
  return call.keep<Executable>(status, out_executable, record, parent,
                               [&](heddle_executable_t* made) { call.plugin().driver.dispatch->executable_unload(made); });
}

heddle_status_t* operation_load(heddle_device_t* device, const heddle_operation_params_t* params,
                                heddle_executable_t** out_executable) noexcept {
  Call call("heddle.dispatch/1 operation_load");
  std::shared_ptr<Device> parent = call.live<Device>(device, "device");
  const heddle_operation_params_t given = call.read(params, "params");
  if (!given.library) call.host_broke("HD-M-02", "params.library is NULL");
  auto record = std::make_shared<Executable>();
  if (parent) record->operation = call.live<Operation>(given.operation, "params.operation");
  if (const Operation* operation = record->operation.get()) {
    if (given.operand_count != operation->operand_bytes.size()) {
      call.host_broke("HD-O-02", "params.operand_count is {}; the operation was prepared for {}", given.operand_count,
                      operation->operand_bytes.size());
    }
    if (given.workspace_bytes != operation->workspace_bytes()) {
      call.host_broke("HD-O-02", "params.workspace_bytes is {}, but query returned {}", given.workspace_bytes,
                      operation->workspace_bytes());
    }
    if (view(given.target) != operation->target) {
      call.host_broke("HD-O-02", "params.target is '{}'; the operation was prepared for '{}'", view(given.target), operation->target);
    }
  }
  if (call.refused()) return call.refusal();
  record->entries.emplace_back(given.operand_count + (given.workspace_bytes != 0), 0);
  heddle_status_t* status =
      call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.dispatch->operation_load(device, params, out_executable); });
  call.check_lost(status);
  heddle_status_t* answer = call.keep<Executable>(
      status, out_executable, record, parent, [&](heddle_executable_t* made) { call.plugin().driver.dispatch->executable_unload(made); });
  if (!answer) {
    ++record->operation->loads;
    record->operation->driver = call.plugin().id;
  }
  return answer;
}

void executable_unload(heddle_executable_t* executable) noexcept {
  Call call("heddle.dispatch/1 executable_unload");
  if (!executable) return;
  std::shared_ptr<Executable> record = call.live<Executable>(executable, "executable");
  if (!record) return;
  call.check_unused(*record, "executable");
  for (const auto& [handle, recording] : registry().live<Recording>()) {
    for (const std::shared_ptr<Entry>& entry : recording->entries) {
      if (entry->executable.lock() == record) {
        call.host_broke("HD-G-01", "executable is {}, but recording {} uses one of its kernels", fmt::ptr(executable), fmt::ptr(handle));
        break;
      }
    }
  }
  if (call.refused()) return;
  for (const void* entry : record->given) registry().live<Entry>().erase(entry);
  if (record->operation) --record->operation->loads;
  call.forget(record);
  call.pass(Tag::kMayBlock, [&] { call.plugin().driver.dispatch->executable_unload(executable); });
}

heddle_status_t* entry(heddle_executable_t* executable, uint32_t index, heddle_entry_t** out_entry) noexcept {
  Call call("heddle.dispatch/1 entry");
  std::shared_ptr<Executable> parent = call.live<Executable>(executable, "executable");
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.dispatch->entry(executable, index, out_entry); });
  // The same entry may be requested again.
  if (!status && *out_entry && std::find(parent->given.begin(), parent->given.end(), *out_entry) != parent->given.end())
    return call.answer(status);
  if (!call.made<Entry>(status, out_entry, call.plugin().api)) return call.answer(status);
  if (index >= parent->entries.size()) call.plugin_broke("HD-M-02", "it returned entry {} of {}", index, parent->entries.size());
  if (call.refused()) {
    *out_entry = nullptr;
    return call.answer(nullptr);
  }
  auto record = std::make_shared<Entry>();
  record->handle = *out_entry;
  record->plugin = parent->plugin;
  record->device = parent->device;
  record->executable = parent;
  std::tie(record->bindings, record->constants_bytes) = parent->entries[index];
  registry().live<Entry>()[*out_entry] = record;
  parent->given.push_back(*out_entry);
  return nullptr;
}

// The objects that a list of commands uses. `dynamic` as in record; NULL: it is submitted.
struct List {
  std::vector<Named> named;  // in the order of the binding numbers
  std::vector<std::shared_ptr<Entry>> entries;

  void check(Call& call, const std::shared_ptr<Queue>& queue, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic);

 private:
  // `written`: the command writes to it, which is forbidden for a read-only binding.
  void binding(Call& call, const heddle_binding_t& binding, const std::string& what, const uint8_t* dynamic, bool written) {
    const size_t before = named.size();
    check_binding(call, binding, what, &named);
    if (named.size() == before) named.emplace_back();  // wrong, but counted
    if (dynamic && written && (dynamic[named.size() - 1] & HEDDLE_BINDING_READ_ONLY)) {
      call.host_broke("HD-G-01", "{} is written to, but recorded as read-only", what);
    }
  }
  void dispatch(Call& call, const Device& device, const heddle_dispatch_command_t& command, const std::string& at, const uint8_t* dynamic);
};

// The dispatch of an operation must match the plugin's answers: shards, operands, workspace.
void check_operation(Call& call, const Operation& operation, const heddle_dispatch_command_t& command, const std::string& at) {
  if (command.grid[0] != operation.shards() || command.grid[1] != 1 || command.grid[2] != 1) {
    call.host_broke("HD-O-02", "{}.grid is {}x{}x{}; the operation has {} shards", at, command.grid[0], command.grid[1], command.grid[2],
                    operation.shards());
  }
  for (uint32_t i = 0; i < command.binding_count; ++i) {
    const bool workspace = i == operation.operand_bytes.size();
    const uint64_t expected = workspace ? operation.workspace_bytes() : i < operation.operand_bytes.size() ? operation.operand_bytes[i] : 0;
    const uint64_t length = command.bindings[i].length;
    if (workspace ? length < expected : length != expected) {
      call.host_broke("HD-O-02", "{}.bindings[{}] has {} bytes, but {} has {}", at, i, length,
                      workspace ? "the operation's workspace" : "its operand", expected);
    }
  }
}

void List::dispatch(Call& call, const Device& device, const heddle_dispatch_command_t& command, const std::string& at,
                    const uint8_t* dynamic) {
  std::shared_ptr<Entry> entry = call.live_here<Entry>(command.entry, at + ".entry");
  if (entry && (command.binding_count != entry->bindings || command.constants_bytes != entry->constants_bytes)) {
    call.host_broke("HD-C-01", "{} has {} bindings and {} bytes of constants; its kernel takes {} and {}", at, command.binding_count,
                    command.constants_bytes, entry->bindings, entry->constants_bytes);
  }
  if ((command.binding_count && !command.bindings) || (command.constants_bytes && !command.constants)) {
    return call.host_broke("HD-M-02", "{} counts bindings or constants, but has none", at);
  }
  for (int i = 0; i < 3; ++i) {
    const uint32_t most = device.limits.max_workgroup_count[i];
    if (most != 0 && command.grid[i] > most)
      call.host_broke("HD-M-04", "{}.grid[{}] is {}, but the device's limit is {}", at, i, command.grid[i], most);
  }
  if (entry) {
    if (std::shared_ptr<Executable> executable = entry->executable.lock(); executable && executable->operation) {
      check_operation(call, *executable->operation, command, at);
    }
  }
  for (uint32_t i = 0; i < command.binding_count; ++i) {
    binding(call, command.bindings[i], fmt::format("{}.bindings[{}] (region {})", at, i, command.region), dynamic, false);
  }
  if (entry) entries.push_back(std::move(entry));
}

void List::check(Call& call, const std::shared_ptr<Queue>& queue, const heddle_command_t* commands, uint32_t count,
                 const uint8_t* dynamic) {
  if (!queue) return;
  if (count && !commands) return call.host_broke("HD-M-02", "commands is NULL, but command_count is {}", count);
  for (uint32_t i = 0; i < count; ++i) {
    const heddle_command_t& command = commands[i];
    const std::string at = fmt::format("commands[{}]", i);
    switch (command.kind) {
      case HEDDLE_COMMAND_BARRIER:
        break;
      case HEDDLE_COMMAND_DISPATCH:
        dispatch(call, *queue->device, command.as.dispatch, at, dynamic);
        break;
      case HEDDLE_COMMAND_COPY: {
        const heddle_copy_command_t& copy = command.as.copy;
        binding(call, {copy.source, copy.source_offset, copy.length}, at + ".source", dynamic, false);
        binding(call, {copy.target, copy.target_offset, copy.length}, at + ".target", dynamic, true);
        if (copy.source == copy.target && copy.source_offset < copy.target_offset + copy.length &&
            copy.target_offset < copy.source_offset + copy.length) {
          call.host_broke("HD-M-02", "{} copies {} bytes at {} to {} of the same buffer, which overlap", at, copy.length,
                          copy.source_offset, copy.target_offset);
        }
        break;
      }
      case HEDDLE_COMMAND_FILL: {
        const heddle_fill_command_t& fill = command.as.fill;
        binding(call, {fill.target, fill.offset, fill.length}, at + ".target", dynamic, true);
        if (fill.pattern_bytes != 1 && fill.pattern_bytes != 2 && fill.pattern_bytes != 4 && fill.pattern_bytes != 8) {
          call.host_broke("HD-M-02", "{}.pattern_bytes is {}, not 1, 2, 4 or 8", at, fill.pattern_bytes);
        }
        break;
      }
      case HEDDLE_COMMAND_UPDATE: {
        const heddle_update_command_t& update = command.as.update;
        binding(call, {update.target, update.offset, update.length}, at + ".target", dynamic, true);
        if (!update.source && update.length) call.host_broke("HD-M-02", "{}.source is NULL", at);
        break;
      }
      case HEDDLE_COMMAND_COPY_2D: {
        const heddle_copy_2d_command_t& copy = command.as.copy_2d;
        auto rows = [&](const heddle_binding_t* side, uint64_t stride, const char* what, bool written) {
          uint64_t length = 0;
          if (!side || (copy.rows && (__builtin_mul_overflow(copy.rows - 1, stride, &length) ||
                                      __builtin_add_overflow(length, copy.row_bytes, &length)))) {
            return call.host_broke("HD-M-02", "{}.{} is NULL or overflows", at, what);
          }
          binding(call, {side->buffer, side->offset, length}, at + "." + what, dynamic, written);
        };
        rows(copy.source, copy.source_stride, "source", false);
        rows(copy.target, copy.target_stride, "target", true);
        break;
      }
      default:
        call.host_broke("HD-E-04", "{}.kind is {}, which is not a command", at, command.kind);
    }
  }
}

void enqueued(Sync& sync, const List& list) {
  sync.uses(list.named);
  for (const std::shared_ptr<Entry>& entry : list.entries) {
    if (std::shared_ptr<Executable> executable = entry->executable.lock()) sync.uses(*executable);
  }
}

template <class Enqueue>
heddle_status_t* submit_through(const char* name, heddle_queue_t* queue, const heddle_submission_t* submission, Enqueue enqueue) {
  Call call(name);
  std::shared_ptr<Queue> record = call.live<Queue>(queue, "queue");
  if (!submission || submission->struct_size < sizeof(*submission)) {
    call.host_broke("HD-E-04", "submission.struct_size is {}", submission ? submission->struct_size : 0);
    return call.refusal();
  }
  List list;
  list.check(call, record, submission->commands, submission->command_count, nullptr);
  Sync points(call, record, &submission->sync);
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(record->blocks ? Tag::kMayBlock : Tag::kNoBlock, [&] { return enqueue(call.plugin().driver); });
  points.enqueued(!status);
  if (!status) enqueued(points, list);
  call.check_lost(status);
  return status;  // the work is enqueued, even if another rule was broken
}

heddle_status_t* submit(heddle_queue_t* queue, const heddle_submission_t* submission) noexcept {
  return submit_through("heddle.dispatch/1 submit", queue, submission,
                        [&](const heddle_driver_api_t& driver) { return driver.dispatch->submit(queue, submission); });
}

heddle_status_t* profiled_submit(heddle_queue_t* queue, const heddle_submission_t* submission, heddle_command_time_t* out_times) noexcept {
  return submit_through("heddle.profile/1 submit", queue, submission,
                        [&](const heddle_driver_api_t& driver) { return driver.profile->submit(queue, submission, out_times); });
}

heddle_status_t* record(heddle_queue_t* queue, const heddle_command_t* commands, uint32_t command_count, const uint8_t* dynamic,
                        heddle_recording_t** out_recording) noexcept {
  Call call("heddle.dispatch/1 record");
  std::shared_ptr<Queue> of_queue = call.live<Queue>(queue, "queue");
  List list;
  list.check(call, of_queue, commands, command_count, dynamic);
  if (!dynamic && !list.named.empty()) call.host_broke("HD-G-01", "dynamic is NULL, for {} bindings", list.named.size());
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(
      Tag::kMayBlock, [&] { return call.plugin().driver.dispatch->record(queue, commands, command_count, dynamic, out_recording); });
  auto made = std::make_shared<Recording>();
  heddle_status_t* answer = call.keep<Recording>(status, out_recording, made, of_queue->device,
                                                 [&](heddle_recording_t* wrong) { call.plugin().driver.dispatch->recording_free(wrong); });
  if (answer) return answer;
  for (size_t i = 0; i < list.named.size(); ++i) {
    if (dynamic[i] & HEDDLE_BINDING_DYNAMIC) {
      made->dynamic.push_back(list.named[i].length);
    } else {
      made->fixed.push_back(list.named[i].buffer);
      ++made->fixed.back()->recordings;
    }
  }
  made->entries = std::move(list.entries);
  return nullptr;
}

heddle_status_t* replay(heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t binding_count,
                        const heddle_sync_t* sync) noexcept {
  Call call("heddle.dispatch/1 replay");
  std::shared_ptr<Recording> record = call.live<Recording>(recording, "recording");
  if (!record) return call.refusal();
  call.enter_serial(record, "recording");
  call.check_unused(*record, "recording");
  std::vector<Named> named;
  if (binding_count != record->dynamic.size() || (binding_count && !bindings)) {
    call.host_broke("HD-G-01", "binding_count is {}; {} were recorded as dynamic", binding_count, record->dynamic.size());
  } else {
    for (uint32_t i = 0; i < binding_count; ++i) {
      check_binding(call, bindings[i], fmt::format("bindings[{}]", i), &named);
      if (bindings[i].length != record->dynamic[i]) {
        call.host_broke("HD-G-01", "bindings[{}] has {} bytes; {} were recorded", i, bindings[i].length, record->dynamic[i]);
      }
    }
  }
  auto no_queue = std::make_shared<Queue>();  // belongs to the recording: outlives it and is not reported here
  Sync points(call, no_queue, sync);
  if (call.refused()) return call.refusal();
  heddle_status_t* status =
      call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.dispatch->replay(recording, bindings, binding_count, sync); });
  points.enqueued(!status);
  if (!status) {
    points.uses(*record);
    points.uses(named);
    for (const std::shared_ptr<Buffer>& buffer : record->fixed) points.uses(*buffer);
  }
  call.check_lost(status);
  return status;
}

void recording_free(heddle_recording_t* recording) noexcept {
  Call call("heddle.dispatch/1 recording_free");
  if (!recording) return;
  std::shared_ptr<Recording> record = call.live<Recording>(recording, "recording");
  if (!record) return;
  call.enter_serial(record, "recording");
  call.check_unused(*record, "recording");
  if (call.refused()) return;
  for (const std::shared_ptr<Buffer>& buffer : record->fixed) --buffer->recordings;
  call.forget(record);
  call.pass(Tag::kMayBlock, [&] { call.plugin().driver.dispatch->recording_free(recording); });
}

}  // namespace

const heddle_dispatch_interface_t kDispatchTable = {sizeof(heddle_dispatch_interface_t),
                                                    0,
                                                    variant_rank,
                                                    executable_load,
                                                    executable_unload,
                                                    entry,
                                                    submit,
                                                    record,
                                                    replay,
                                                    recording_free,
                                                    operation_load,
                                                    portable_parts};
const heddle_profile_interface_t kProfileTable = {sizeof(heddle_profile_interface_t), 0, profiled_submit};

}  // namespace heddle::validation
