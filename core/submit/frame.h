// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A frame: everything that one call in flight needs for itself: its arena, a patched copy of the plan's commands, a timeline.
// Frames are kept with their plan after the call, so that a steady caller allocates and patches next to nothing.
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

class State;

class Frame {
 public:
  // Allocates the plan's arenas and copies its commands. devices: those of the instance.
  static Result<std::unique_ptr<Frame>> create(memory::Ref<Plan> plan, std::span<const memory::Ref<memory::Device>> devices);
  // The same for a piece of a suspended call: the arenas of earlier pieces come first and keep their indices.
  static Result<std::unique_ptr<Frame>> create_piece(memory::Ref<Plan> plan, std::span<const memory::Ref<memory::Device>> devices,
                                                     std::span<const heddle_block_t> earlier_arenas);
  ~Frame();

  const Plan& plan() const { return *plan_; }
  // Adds the times of the last submissions' commands to the plan's profile, once. The commands have finished.
  [[gnu::cold]] void collect_times();
  // Binds the commands to a call's arguments and results, and to the state; NULL if the program uses none.
  void bind(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results, const State* state);
  // A copy among the commands gets another source or target, of the same length. After bind.
  void move_copy(uint32_t command, bool is_source, const heddle_binding_t& place) {
    heddle_copy_command_t& copy = commands_[command].as.copy;
    (is_source ? copy.source : copy.target) = place.buffer;
    (is_source ? copy.source_offset : copy.target_offset) = place.offset;
  }
  // Enqueues one segment (not a crossing) on its device, or replays it if it is recorded. *replayed: whether it was replayed.
  heddle_status_t* submit(const Segment& segment, const heddle_sync_t& sync, bool* replayed) const {
    *replayed = false;
    if (direct_) [[likely]] {
      heddle_submission_t submission{sizeof(submission), segment.count, commands_.data() + segment.first, sync};
      return direct_(queue_, &submission);
    }
    return submit_otherwise(segment, sync, replayed);
  }
  // Enqueues a single command of it. [may-block]
  heddle_status_t* submit_one(const Segment& segment, uint32_t command, const heddle_sync_t& sync) const {
    return submit_commands(segment, command, 1, sync);
  }
  // Whether the kernels accepted the call's values; its work has finished. A failure's text is only the cause. Blocks only if verdict_may_block().
  Status verdict() const;
  bool verdict_may_block() const;
  const heddle_command_t& command(uint32_t index) const { return commands_[index]; }
  std::span<const heddle_command_t> commands() const { return commands_; }
  // Records the segment of a single() plan if the device supports it and the frame is used repeatedly. Call after bind; may take a while, so no
  // lock is held meanwhile.
  void record_if_due() {
    if (submissions_until_record_ != kNever && submissions_until_record_-- == 0) record();
  }
  // The current memory of a place, after bind.
  heddle_binding_t locate(const Place& place, std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results,
                          const State* state) const;
  std::span<const heddle_block_t> arenas() const { return arenas_; }

  // The timeline of a single() plan's device; a failed timeline is removed, and the next call creates another.
  Status have_timeline() { return timeline_ ? Status() : make_timeline(); }
  const memory::Ref<memory::Timeline>& timeline_ref() const { return timeline_; }
  memory::Ref<memory::Timeline> take_timeline() { return std::move(timeline_); }

  // For the function that keeps it: its place among its plan's frames, and whether the current call submitted it.
  static constexpr uint32_t kNoPlace = 0xFFFFFFFFu;
  uint32_t place() const { return place_; }
  void set_place(uint32_t place) { place_ = place; }
  bool submitted() const { return submitted_; }
  void set_submitted(bool submitted) { submitted_ = submitted; }

 private:
  static constexpr uint32_t kNever = 0xFFFFFFFFu;
  // Where a patch's buffer and offset are written.
  struct Target {
    heddle_buffer_t** buffer;
    uint64_t* offset;
  };
  Frame() = default;
  Target target_of(const Patch& patch);
  heddle_status_t* submit_commands(const Segment& segment, uint32_t first, uint32_t count, const heddle_sync_t& sync) const;
  heddle_status_t* submit_otherwise(const Segment& segment, const heddle_sync_t& sync, bool* replayed) const;
  [[gnu::cold]] Status make_timeline();
  [[gnu::cold]] Status make_verdicts();
  // Records the only segment; from then on bind() fills in dynamic_. A driver that cannot record is not asked again.
  [[gnu::cold]] void record();

  // Members that a call uses come first.
  memory::Ref<Plan> plan_;
  std::vector<Target> targets_;  // for the plan's patches after those of arenas
  std::vector<heddle_command_t> commands_;
  decltype(heddle_dispatch_interface_t::submit) direct_ =
      nullptr;                       // submit of the only segment's device, while the list is neither timed nor recorded
  heddle_queue_t* queue_ = nullptr;  // the queue for direct_
  memory::Ref<memory::Timeline> timeline_;
  heddle_recording_t* recording_ = nullptr;
  std::span<const memory::Ref<memory::Device>> devices_;
  uint32_t submissions_until_record_ = kNever;
  uint32_t place_ = kNoPlace;
  bool submitted_ = false;
  std::vector<heddle_binding_t> bindings_;
  std::vector<heddle_block_t> arenas_;
  std::vector<uint32_t> arena_devices_;
  std::vector<memory::Device::Shared> verdicts_;      // per device
  mutable std::vector<heddle_command_time_t> times_;  // per command, with a profile: written by drivers
  mutable std::vector<uint64_t> submitted_ns_;        // per segment, with a profile: approximate start of the drivers' times
  size_t first_own_arena_ = 0;
  std::vector<Target> recorded_;           // locations in the list that correspond to dynamic_
  std::vector<heddle_binding_t> dynamic_;  // of the recording: bindings to arguments and results, in order of appearance
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_FRAME_H_
