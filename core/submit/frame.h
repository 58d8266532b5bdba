// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A frame: everything one call in flight needs for itself: its arena, a patched copy of the plan's commands, a timeline.
// Frames are kept with their plan when the call is over, so that a steady caller allocates and patches next to nothing.
#ifndef HEDDLE_CORE_SUBMIT_FRAME_H_
#define HEDDLE_CORE_SUBMIT_FRAME_H_

#include <memory>
#include <span>
#include <vector>

#include "core/memory/device.h"
#include "core/memory/tensor.h"
#include "core/submit/plan.h"
#include "heddle/ext/profile.h"

namespace heddle::submit {

class Frame {
 public:
  // Allocates the plan's arenas and copies its commands. devices: the instance's.
  static Result<std::unique_ptr<Frame>> create(memory::Ref<Plan> plan, std::span<const memory::Ref<memory::Device>> devices);
  // The same for a piece of a suspended call: arenas of earlier pieces come first and stay theirs.
  static Result<std::unique_ptr<Frame>> create_piece(memory::Ref<Plan> plan, std::span<const memory::Ref<memory::Device>> devices,
                                                     std::span<const heddle_block_t> earlier_arenas);
  ~Frame();

  const Plan& plan() const { return *plan_; }
  // Adds what the commands of the last submissions took to the plan's profile, once. They are over.
  void collect_times();
  // Points the commands at a call's arguments and results.
  void bind(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results);
  // Enqueues one segment (not a crossing) on its device, or replays it where it is recorded. *replayed: which of the two it was.
  heddle_status_t* submit(const Segment& segment, const heddle_sync_t& sync, bool* replayed) const;
  // Enqueues one of its commands alone. [may-block]
  heddle_status_t* submit_one(const Segment& segment, uint32_t command, const heddle_sync_t& sync) const {
    return submit_commands(segment, command, 1, sync);
  }
  const heddle_command_t& command(uint32_t index) const { return commands_[index]; }
  // Records the segment of a single() plan where the device can and the frame is used again and again. After bind; may take a while, so
  // that nothing is locked meanwhile.
  void record_if_due();
  // Where a place is now, after bind.
  heddle_binding_t locate(const Place& place, std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results) const;
  std::span<const heddle_block_t> arenas() const { return arenas_; }

  // The timeline of single() plans' device; a failed one is dropped, the next call makes another.
  Result<memory::Timeline*> timeline();
  memory::Ref<memory::Timeline> timeline_ref() const { return timeline_; }
  void drop_timeline() { timeline_ = {}; }

 private:
  // One place to fill in: where the buffer and the offset go, and what is added to the block's offset.
  struct Target {
    heddle_buffer_t** buffer;
    uint64_t* offset;
    uint64_t added;
    uint32_t index;
    Source source;
  };
  Frame() = default;
  Target target_of(const Patch& patch);
  heddle_status_t* submit_commands(const Segment& segment, uint32_t first, uint32_t count, const heddle_sync_t& sync) const;
  // Records the only segment; from then on bind() fills in dynamic_. A driver that cannot is not asked again.
  void record();

  memory::Ref<Plan> plan_;
  std::span<const memory::Ref<memory::Device>> devices_;
  std::vector<heddle_command_t> commands_;
  std::vector<heddle_binding_t> bindings_;
  std::vector<Target> targets_;  // of arguments and results
  std::vector<heddle_block_t> arenas_;
  std::vector<uint32_t> arena_devices_;
  mutable std::vector<heddle_command_time_t> times_;  // by command, with a profile: written by drivers
  mutable std::vector<uint64_t> submitted_ns_;        // by segment, with a profile: drivers' times begin about there
  size_t first_own_arena_ = 0;
  memory::Ref<memory::Timeline> timeline_;
  uint32_t submissions_until_record_ = kNever;
  heddle_recording_t* recording_ = nullptr;
  std::vector<Target> recorded_;           // where the list itself has what dynamic_ has
  std::vector<heddle_binding_t> dynamic_;  // of the recording: bindings that name arguments and results, in order of appearance

  static constexpr uint32_t kNever = 0xFFFFFFFFu;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_FRAME_H_
