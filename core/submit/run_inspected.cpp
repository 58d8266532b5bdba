// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of Run for instances whose values are inspected: one command at a time.
#include "core/submit/run.h"

namespace heddle::submit {

using memory::Device;

Task Run::inspect(const Frame& frame, const Segment& segment) {
  const Inspection& inspection = *params_.machine.inspection;
  Device& device = *params_.devices[segment.device];
  if (inspected_call_ == 0) inspected_call_ = params_.machine.inspection->next_call();
  Status may_block = co_await pace_.may_block();
  if (!may_block.ok()) co_return std::move(may_block);
  Status before = co_await lane_over(segment.device);
  if (!before.ok()) co_return std::move(before);
  uint32_t enqueued = 0;
  for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
    const heddle_command_t& command = frame.command(i);
    if (command.kind == HEDDLE_COMMAND_BARRIER) continue;  // each command has finished before the next begins
    const bool looks = command.kind == HEDDLE_COMMAND_DISPATCH;
    Inspection::Look look;
    if (looks) {
      HEDDLE_CO_RETURN_IF_ERROR(check(frame, {segment.device, i, 1, false, {}, {}}));
      const module_format::DispatchSite* site = params_.program.dispatches()->Get(command.as.dispatch.region);
      look = {inspected_call_, ++inspected_, &device, site, &command.as.dispatch, false, {}, {}, {}};
      HEDDLE_CO_RETURN_IF_ERROR(inspection.before(look));
    }
    auto submit = [&](const heddle_sync_t* sync) { return frame.submit_one(segment, i, *sync); };
    HEDDLE_CO_RETURN_IF_ERROR(add(segment.device, [&] { return device.start(submit, lanes_[segment.device].waits()); }));
    Status over = co_await lane_over(segment.device);
    if (!over.ok()) co_return std::move(over);
    if (looks) HEDDLE_CO_RETURN_IF_ERROR(inspection.after(look));
    ++enqueued;
  }
  if (enqueued > 1) counters_.submissions.fetch_add(enqueued - 1, std::memory_order_relaxed);  // the plan already counts one
  co_return Status();
}

}  // namespace heddle::submit
