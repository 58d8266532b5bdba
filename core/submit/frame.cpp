// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Frames: copying a plan's commands, binding them to memory, and enqueuing them.
// bind() and submit() are on the path of every call; the rest runs once per frame.
#include "core/submit/frame.h"

#include <algorithm>
#include <utility>

#include "core/submit/profile.h"
#include "core/submit/state.h"

namespace heddle::submit {

namespace {

// Recording costs more than a few submissions and pays off from the second replay on; short lists are as cheap to submit.
constexpr uint32_t kSubmissionsBeforeRecord = 2;
constexpr uint32_t kCommandsWorthRecording = 4;

}  // namespace

Result<std::unique_ptr<Frame>> Frame::create(memory::Ref<Plan> plan, std::span<const memory::Ref<memory::Device>> devices) {
  return create_piece(std::move(plan), devices, {});
}

Result<std::unique_ptr<Frame>> Frame::create_piece(memory::Ref<Plan> plan, std::span<const memory::Ref<memory::Device>> devices,
                                                   std::span<const heddle_block_t> earlier_arenas) {
  std::unique_ptr<Frame> frame(new Frame());
  frame->plan_ = std::move(plan);
  frame->devices_ = devices;
  const Plan& source = *frame->plan_;
  frame->arenas_.assign(earlier_arenas.begin(), earlier_arenas.end());
  frame->arena_devices_.resize(earlier_arenas.size(), 0);
  frame->first_own_arena_ = earlier_arenas.size();
  frame->arenas_.reserve(earlier_arenas.size() + source.arenas.size());
  frame->arena_devices_.reserve(earlier_arenas.size() + source.arenas.size());
  for (const ArenaNeed& need : source.arenas) {
    heddle_block_t block{};
    Status allocated = devices[need.device]->allocate(need.size_bytes, need.alignment_bytes, memory::kIntermediates, &block);
    if (!allocated.ok()) {
      return wrap(std::move(allocated), fmt::format("allocating {} bytes for intermediate values on device '{}'", need.size_bytes,
                                                    devices[need.device]->alias()));
    }
    frame->arenas_.push_back(block);
    frame->arena_devices_.push_back(need.device);
  }
  if (!source.verdicts.empty()) HEDDLE_RETURN_IF_ERROR(frame->make_verdicts());
  frame->commands_ = source.commands;
  frame->bindings_ = source.bindings;
  for (size_t i = 0; i < frame->commands_.size(); ++i) {
    heddle_command_t& command = frame->commands_[i];
    if (command.kind == HEDDLE_COMMAND_DISPATCH) command.as.dispatch.bindings = frame->bindings_.data() + source.first_binding[i];
  }
  for (uint32_t i = 0; i < source.frame_patch_count; ++i) {
    const Patch& patch = source.patches[i];
    const Target target = frame->target_of(patch);
    const bool is_verdict = patch.source == Source::kVerdict;
    *target.buffer = is_verdict ? frame->verdicts_[patch.index].buffer : frame->arenas_[patch.index].buffer;
    *target.offset = is_verdict ? patch.offset : frame->arenas_[patch.index].offset + patch.offset;
  }
  frame->targets_.reserve(source.patches.size() - source.frame_patch_count);
  for (size_t i = source.frame_patch_count; i < source.patches.size(); ++i) frame->targets_.push_back(frame->target_of(source.patches[i]));
  if (source.profile) {
    frame->times_.resize(source.commands.size());
    frame->submitted_ns_.resize(source.segments.size());
  }
  if (!source.profile && source.single()) {
    const memory::Device& device = *devices[source.segments[0].device];
    frame->direct_ = device.api().dispatch->submit;
    frame->queue_ = device.queue();
    if (source.segments[0].count >= kCommandsWorthRecording && (device.description().features & HEDDLE_DEVICE_RECORDING)) {
      frame->submissions_until_record_ = kSubmissionsBeforeRecord;
    }
  }
  return frame;
}

Frame::~Frame() {
  collect_times();
  if (recording_) devices_[plan_->segments[0].device]->api().dispatch->recording_free(recording_);
  for (size_t i = first_own_arena_; i < arenas_.size(); ++i) devices_[arena_devices_[i]]->pool().free(arenas_[i]);
  for (size_t device = 0; device < verdicts_.size(); ++device) {
    if (verdicts_[device].buffer) devices_[device]->return_shared(verdicts_[device]);
  }
}

Status Frame::make_verdicts() {
  verdicts_.resize(devices_.size());
  std::vector<uint64_t> bytes(devices_.size(), 0);
  for (const VerdictNeed& need : plan_->verdicts) bytes[need.device] = std::max(bytes[need.device], need.offset + sizeof(int64_t));
  for (size_t device = 0; device < bytes.size(); ++device) {
    if (bytes[device] == 0) continue;
    Result<memory::Device::Shared> shared = devices_[device]->borrow_shared(bytes[device]);
    if (!shared.ok())
      return wrap(shared.take_status(),
                  fmt::format("allocating {} bytes for checks on device '{}'", bytes[device], devices_[device]->alias()));
    verdicts_[device] = *shared;
  }
  return Status();
}

bool Frame::verdict_may_block() const {
  return std::any_of(plan_->verdicts.begin(), plan_->verdicts.end(),
                     [this](const VerdictNeed& need) { return !verdicts_[need.device].memory; });
}

Status Frame::verdict() const {
  for (const VerdictNeed& need : plan_->verdicts) {
    int64_t verdict = 0;
    HEDDLE_RETURN_IF_ERROR(devices_[need.device]->read_shared(verdicts_[need.device], need.offset, sizeof verdict, &verdict));
    if (verdict < need.limit) continue;
    const module_format::KernelCheck& check = *plan_->program->checks()->all()->Get(need.check);
    const std::string_view message = plan_->program->messages()->Get(check.message())->string_view();
    if (check.kind() == module_format::CheckKind::Divisor) return error(HEDDLE_STATUS_INVALID_ARGUMENT, "{}", message);
    const int64_t index = verdict % 2 == 0 ? verdict / 2 : -(verdict / 2) - 1, extent = need.limit / 2;
    if (extent == 0) return error(HEDDLE_STATUS_OUT_OF_RANGE, "{}: index {} of a dimension without elements", message, index);
    return error(HEDDLE_STATUS_OUT_OF_RANGE, "{}: index {} is outside {}..{}", message, index, -extent, extent - 1);
  }
  return Status();
}

Frame::Target Frame::target_of(const Patch& patch) {
  switch (patch.field) {
    case Field::kBinding:
      return {&bindings_[patch.at].buffer, &bindings_[patch.at].offset};
    case Field::kCopySource:
      return {&commands_[patch.at].as.copy.source, &commands_[patch.at].as.copy.source_offset};
    case Field::kCopyTarget:
      return {&commands_[patch.at].as.copy.target, &commands_[patch.at].as.copy.target_offset};
    case Field::kFillTarget:
      break;
  }
  return {&commands_[patch.at].as.fill.target, &commands_[patch.at].as.fill.offset};
}

void Frame::bind(std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results, const State* state) {
  if (plan_->profile) [[unlikely]]
    collect_times();
  const Patch* patch = plan_->patches.data() + plan_->frame_patch_count;
  for (const Target& target : targets_) {
    const heddle_block_t& block = patch->source == Source::kState
                                      ? state->block(patch->index)
                                      : (patch->source == Source::kArgument ? arguments : results)[patch->index]->block();
    *target.buffer = block.buffer;
    *target.offset = block.offset + patch->offset;
    ++patch;
  }
}

heddle_status_t* Frame::submit_commands(const Segment& segment, uint32_t first, uint32_t count, const heddle_sync_t& sync) const {
  heddle_submission_t submission{sizeof(submission), count, commands_.data() + first, sync};
  const memory::Device& device = *devices_[segment.device];
  if (plan_->profile && (device.description().features & HEDDLE_DEVICE_TIMESTAMPS)) {
    submitted_ns_[static_cast<size_t>(&segment - plan_->segments.data())] = host::clock_ns();
    return device.api().profile->submit(device.queue(), &submission, times_.data() + first);
  }
  return device.api().dispatch->submit(device.queue(), &submission);
}

void Frame::collect_times() {
  if (times_.empty()) return;  // no profile, or creation did not complete
  for (size_t s = 0; s < plan_->segments.size(); ++s) {
    const Segment& segment = plan_->segments[s];
    bool any = false;
    for (uint32_t i = segment.first; i < segment.first + segment.count; ++i) {
      const heddle_command_time_t time = std::exchange(times_[i], {});
      if (time.end_ns == 0) continue;
      any = true;
      const heddle_command_t& command = commands_[i];
      const bool is_dispatch = command.kind == HEDDLE_COMMAND_DISPATCH;
      plan_->profile->add(is_dispatch                           ? "dispatch"
                          : command.kind == HEDDLE_COMMAND_COPY ? "copy"
                                                                : "fill",
                          is_dispatch ? plan_->program->dispatches()->Get(command.as.dispatch.region) : nullptr, plan_->candidates[i],
                          devices_[segment.device]->alias(),
                          is_dispatch                           ? 0
                          : command.kind == HEDDLE_COMMAND_COPY ? command.as.copy.length
                                                                : command.as.fill.length,
                          submitted_ns_[s] + time.begin_ns, time.end_ns - time.begin_ns);
    }
    if (any) plan_->profile->add_memory(*devices_[segment.device]);
  }
}

void Frame::record() {
  submissions_until_record_ = kNever;
  // Index of each command's first binding in the numbering that `dynamic` uses.
  std::vector<uint32_t> first(commands_.size());
  uint32_t count = 0;
  for (size_t i = 0; i < commands_.size(); ++i) {
    first[i] = count;
    if (commands_[i].kind == HEDDLE_COMMAND_DISPATCH) count += commands_[i].as.dispatch.binding_count;
    if (commands_[i].kind == HEDDLE_COMMAND_COPY) count += 2;
    if (commands_[i].kind == HEDDLE_COMMAND_FILL) count += 1;
  }
  std::vector<uint32_t> of_binding(bindings_.size());  // maps a position in bindings_ to a dispatch's binding
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i].kind != HEDDLE_COMMAND_DISPATCH) continue;
    for (uint32_t j = 0; j < commands_[i].as.dispatch.binding_count; ++j) of_binding[plan_->first_binding[i] + j] = first[i] + j;
  }
  struct Dynamic {
    uint32_t at;
    uint32_t target;
    uint64_t length;
  };
  std::vector<uint8_t> dynamic(count, 0);
  std::vector<Dynamic> order;
  for (size_t i = plan_->frame_patch_count; i < plan_->patches.size(); ++i) {
    const Patch& patch = plan_->patches[i];
    const heddle_command_t& command = commands_[patch.field == Field::kBinding ? 0 : patch.at];
    uint32_t at = 0;
    uint64_t length = 0;
    switch (patch.field) {
      case Field::kBinding:
        at = of_binding[patch.at];
        length = bindings_[patch.at].length;
        break;
      case Field::kCopySource:
        at = first[patch.at];
        length = command.as.copy.length;
        break;
      case Field::kCopyTarget:
        at = first[patch.at] + 1;
        length = command.as.copy.length;
        break;
      case Field::kFillTarget:
        at = first[patch.at];
        length = command.as.fill.length;
        break;
    }
    dynamic[at] = HEDDLE_BINDING_DYNAMIC;
    // A verified program writes only to arguments that it consumes.
    if (patch.source == Source::kArgument && !plan_->signature->arguments[patch.index].is_consumed) dynamic[at] |= HEDDLE_BINDING_READ_ONLY;
    order.push_back({at, static_cast<uint32_t>(i - plan_->frame_patch_count), length});
  }
  std::sort(order.begin(), order.end(), [](const Dynamic& a, const Dynamic& b) { return a.at < b.at; });
  const Segment& segment = plan_->segments[0];
  const memory::Device& device = *devices_[segment.device];
  heddle_recording_t* recording = nullptr;
  Status recorded = device.noted(
      Status(device.api().dispatch->record(device.queue(), commands_.data() + segment.first, segment.count, dynamic.data(), &recording)));
  if (!recorded.ok() || !recording) {
    // Not a user error: the list is submitted as before.
    devices_[segment.device]->host().log(
        recorded.code() == HEDDLE_STATUS_UNIMPLEMENTED ? HEDDLE_LOG_DEBUG : HEDDLE_LOG_WARN, "submit",
        fmt::format("recording a list of {} commands on device '{}' failed: {}", segment.count, device.alias(), recorded.message()));
    return;
  }
  recording_ = recording;
  direct_ = nullptr;
  dynamic_.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    Target& target = targets_[order[i].target];
    recorded_.push_back(target);
    dynamic_[i] = {*target.buffer, *target.offset, order[i].length};
    target.buffer = &dynamic_[i].buffer;
    target.offset = &dynamic_[i].offset;
  }
}

heddle_status_t* Frame::submit_otherwise(const Segment& segment, const heddle_sync_t& sync, bool* replayed) const {
  if (!recording_) return submit_commands(segment, segment.first, segment.count, sync);
  *replayed = true;
  const memory::Device& device = *devices_[segment.device];
  Status replay =
      device.noted(Status(device.api().dispatch->replay(recording_, dynamic_.data(), static_cast<uint32_t>(dynamic_.size()), &sync)));
  if (replay.code() != HEDDLE_STATUS_RESOURCE_EXHAUSTED) return replay.release();
  // The list needs fewer resources than its replay: nothing was enqueued, so it can still be submitted normally.
  *replayed = false;
  for (size_t i = 0; i < dynamic_.size(); ++i) {
    *recorded_[i].buffer = dynamic_[i].buffer;
    *recorded_[i].offset = dynamic_[i].offset;
  }
  return submit_commands(segment, segment.first, segment.count, sync);
}

heddle_binding_t Frame::locate(const Place& place, std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results,
                               const State* state) const {
  if (place.source == Source::kFixed) return {place.buffer, place.offset, place.length};
  if (place.source == Source::kVerdict) return {verdicts_[place.index].buffer, place.offset, place.length};
  const heddle_block_t& block = place.source == Source::kArgument ? arguments[place.index]->block()
                                : place.source == Source::kResult ? results[place.index]->block()
                                : place.source == Source::kState  ? state->block(place.index)
                                                                  : arenas_[place.index];
  return {block.buffer, block.offset + place.offset, place.length};
}

Status Frame::make_timeline() {
  const Segment& only = plan_->segments[0];
  Result<memory::Ref<memory::Timeline>> made = devices_[only.crossing ? 0 : only.device]->create_timeline();
  if (!made.ok()) return made.take_status();
  timeline_ = std::move(*made);
  return Status();
}

}  // namespace heddle::submit
