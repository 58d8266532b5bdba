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
  [[gnu::cold]] void collect_times();
  // Points the commands at a call's arguments and results.
  void bind(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results);
  // Enqueues one segment (not a crossing) on its device, or replays it where it is recorded. *replayed: which of the two it was.
  heddle_status_t* submit(const Segment& segment, const heddle_sync_t& sync, bool* replayed) const {
    *replayed = false;
    if (direct_) [[likely]] {
      heddle_submission_t submission{sizeof(submission), segment.count, commands_.data() + segment.first, sync};
      return direct_(queue_, &submission);
    }
    return submit_otherwise(segment, sync, replayed);
  }
  // Enqueues one of its commands alone. [may-block]
  heddle_status_t* submit_one(const Segment& segment, uint32_t command, const heddle_sync_t& sync) const {
    return submit_commands(segment, command, 1, sync);
  }
  // Whether the kernels found the call's values in order; its work is over. A failure's text is the cause alone. Blocks only
  // if verdict_may_block().
  Status verdict() const;
  bool verdict_may_block() const;
  const heddle_command_t& command(uint32_t index) const { return commands_[index]; }
  // Records the segment of a single() plan where the device can and the frame is used again and again. After bind; may take a while, so
  // that nothing is locked meanwhile.
  void record_if_due() {
    if (submissions_until_record_ != kNever && submissions_until_record_-- == 0) record();
  }
  // Where a place is now, after bind.
  heddle_binding_t locate(const Place& place, std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results) const;
  std::span<const heddle_block_t> arenas() const { return arenas_; }

  // The timeline of single() plans' device; a failed one is taken away, the next call makes another.
  Status have_timeline() { return timeline_ ? Status() : make_timeline(); }
  const memory::Ref<memory::Timeline>& timeline_ref() const { return timeline_; }
  memory::Ref<memory::Timeline> take_timeline() { return std::move(timeline_); }

  // For the function that keeps it: its place among its plan's frames, and whether the call that has it submitted it.
  static constexpr uint32_t kNoPlace = 0xFFFFFFFFu;
  uint32_t place() const { return place_; }
  void set_place(uint32_t place) { place_ = place; }
  bool submitted() const { return submitted_; }
  void set_submitted(bool submitted) { submitted_ = submitted; }

 private:
  static constexpr uint32_t kNever = 0xFFFFFFFFu;
  // Where the buffer and the offset of a patch go.
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
  // Records the only segment; from then on bind() fills in dynamic_. A driver that cannot is not asked again.
  [[gnu::cold]] void record();

  // What a call touches comes first.
  memory::Ref<Plan> plan_;
  std::vector<Target> targets_;  // of the plan's patches behind those of arenas
  std::vector<heddle_command_t> commands_;
  decltype(heddle_dispatch_interface_t::submit) direct_ =
      nullptr;                       // of the only segment's device, while the list is neither timed nor recorded
  heddle_queue_t* queue_ = nullptr;  // for it
  memory::Ref<memory::Timeline> timeline_;
  heddle_recording_t* recording_ = nullptr;
  std::span<const memory::Ref<memory::Device>> devices_;
  uint32_t submissions_until_record_ = kNever;
  uint32_t place_ = kNoPlace;
  bool submitted_ = false;
  std::vector<heddle_binding_t> bindings_;
  std::vector<heddle_block_t> arenas_;
  std::vector<uint32_t> arena_devices_;
  std::vector<memory::Device::Shared> verdicts_;      // by device
  mutable std::vector<heddle_command_time_t> times_;  // by command, with a profile: written by drivers
  mutable std::vector<uint64_t> submitted_ns_;        // by segment, with a profile: drivers' times begin about there
  size_t first_own_arena_ = 0;
  std::vector<Target> recorded_;           // where the list itself has what dynamic_ has
  std::vector<heddle_binding_t> dynamic_;  // of the recording: bindings that name arguments and results, in order of appearance
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_FRAME_H_
