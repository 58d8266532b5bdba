// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What mutants are made of: slots that change what goes into the template's function.
#ifndef HEDDLE_TESTS_CONFORMANCE_MUTATION_H_
#define HEDDLE_TESTS_CONFORMANCE_MUTATION_H_

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "odd_driver.h"

namespace heddle::odd {

using Status = heddle_status_t*;
using sdk::HostTimeline;

// The call is refused when another thread is inside: a missing lock, made visible by staying for a while.
template <class Call>
Status alone(Call call, unsigned microseconds = 100) {
  static std::atomic<int> inside{0};
  if (inside.fetch_add(1) > 0) {
    --inside;
    return refuse(HEDDLE_STATUS_INTERNAL, "odd: two threads at once");
  }
  usleep(microseconds);
  Status status = call();
  --inside;
  return status;
}

// Submits another list in the place of the caller's.
inline Status submit_list(heddle_queue_t* queue, const heddle_submission_t* in, const std::vector<heddle_command_t>& commands) {
  heddle_submission_t other = *in;
  other.commands = commands.data();
  other.command_count = static_cast<uint32_t>(commands.size());
  return good.dispatch.submit(queue, &other);
}

// Replaces submit by one that changes a copy of each command first.
template <auto change>
void change_commands() {
  odd.dispatch.submit = [](heddle_queue_t* queue, const heddle_submission_t* in) noexcept -> Status {
    std::vector<heddle_command_t> commands(in->commands, in->commands + (in->commands ? in->command_count : 0));
    for (heddle_command_t& command : commands) change(&command);
    return in->commands || !in->command_count ? submit_list(queue, in, commands) : good.dispatch.submit(queue, in);
  };
}

template <auto change>
void change_extents() {
  odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                         uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
    std::vector<heddle_extent_t> changed(extents, extents + count);
    for (heddle_extent_t& extent : changed) change(&extent);
    return good.param_io.read(queue, sync, file, changed.data(), count, params);
  };
}

template <auto change>
void change_io_params() {
  odd.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* file, const heddle_extent_t* extents,
                         uint64_t count, const heddle_param_io_params_t* params) noexcept -> Status {
    if (!params) return good.param_io.read(queue, sync, file, extents, count, params);
    heddle_param_io_params_t changed = *params;
    change(&changed);
    return good.param_io.read(queue, sync, file, extents, count, &changed);
  };
}

template <auto change>
void change_description() {
  odd.device.describe = [](heddle_plugin_instance_t* instance, uint32_t ordinal, heddle_device_description_t* out) noexcept -> Status {
    Status status = good.device.describe(instance, ordinal, out);
    if (!status) change(out);
    return status;
  };
}

inline uint64_t size_of(heddle_buffer_t* buffer) {
  return sdk::Buffer::from(buffer)->size;
}
inline bool is(const heddle_command_t* command, uint32_t kind) {
  return command->kind == kind;
}
inline void give_signals(const heddle_sync_t* sync) {
  for (uint32_t i = 0; i < sync->signal_count; ++i) HostTimeline::from(sync->signals[i].timeline)->advance(sync->signals[i].value);
}

}  // namespace heddle::odd
#endif  // HEDDLE_TESTS_CONFORMANCE_MUTATION_H_
