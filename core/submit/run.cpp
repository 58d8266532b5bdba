// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs plans segment by segment, programs piece by piece, and copies between devices. Called through run.h.
#include "core/submit/run.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "core/submit/links.h"
#include "core/submit/profile.h"

namespace heddle::submit {

using memory::Device;

namespace {

// Each piece knows the arenas of all earlier pieces, which stay until the call has finished.
constexpr size_t kMostArenas = 1024;
// Submissions that steps of a loop enqueue before the host waits for them.
constexpr size_t kMostInFlight = 16;
// Steps of a loop that are one submission.
constexpr size_t kMostStepsTogether = 16;
// Commands of steady pieces that a call keeps, so that it resolves them once. Pieces may overlap, so that these may be more than the program has.
constexpr size_t kMostSteadyCommands = size_t{1} << 20;

// Device memory mapped into the host for the lifetime of this object.
class Mapped {
 public:
  ~Mapped() { static_cast<void>(unmap()); }
  Status map(Device& device, const heddle_binding_t& memory, uint32_t flags) {
    Result<void*> mapped = device.map(memory, flags);
    if (!mapped.ok()) return mapped.take_status();
    device_ = &device;
    memory_ = memory;
    flags_ = flags & (HEDDLE_MAP_READ | HEDDLE_MAP_WRITE);
    bytes_ = *mapped;
    return Status();
  }
  // NULL if nothing is mapped.
  void* bytes() const { return bytes_; }
  Status unmap() { return std::exchange(bytes_, nullptr) ? device_->unmap(memory_, flags_) : Status(); }

 private:
  Device* device_ = nullptr;
  heddle_binding_t memory_{};
  uint32_t flags_ = 0;
  void* bytes_ = nullptr;
};

}  // namespace

Status in_region(Status&& failure, const module_format::Program& program, std::string context) {
  // A driver identifies a region by number; the module knows its name.
  std::string_view region = view(heddle_status_payload(failure.get(), to_c("region")));
  uint32_t index = 0;
  if (std::from_chars(region.data(), region.data() + region.size(), index).ec == std::errc() && index < program.dispatches()->size()) {
    std::string name = program.dispatches()->Get(index)->name()->str();
    context += ": in region '" + name + "'";
    return wrap(std::move(failure), context).payload("region_name", name);
  }
  return wrap(std::move(failure), context);
}

void count(const Plan& plan, uint64_t calls, Counters& counters) {
  counters.submissions.fetch_add(calls * plan.submission_count, std::memory_order_relaxed);
  counters.dispatches.fetch_add(calls * plan.dispatch_count, std::memory_order_relaxed);
  counters.copies.fetch_add(calls * plan.copy_count, std::memory_order_relaxed);
  counters.copied_bytes.fetch_add(calls * plan.copied_bytes, std::memory_order_relaxed);
  counters.crossings.fetch_add(calls * plan.crossing_count, std::memory_order_relaxed);
}

Status Run::check(const Frame& frame, const Segment& next) const {
  if (!pace_.over()) return Status();
  if (next.crossing) {
    return pace_.check(fmt::format("{} bytes were copied from device '{}' to device '{}'", next.from.length,
                                   params_.devices[next.from.device]->alias(), params_.devices[next.to.device]->alias()));
  }
  for (uint32_t i = next.first; i < next.first + next.count; ++i) {
    const heddle_command_t& command = frame.plan().commands[i];
    if (command.kind != HEDDLE_COMMAND_DISPATCH) continue;
    return pace_.check("that region was enqueued").payload("region", std::to_string(command.as.dispatch.region));
  }
  return pace_.check("its last copies were enqueued");
}

Result<void*> Run::borrow(uint32_t device) {
  if (borrowed_.size() == borrowed_.capacity()) borrowed_.reserve(2 * borrowed_.size() + 2);
  Result<Device::Staging> staging = params_.devices[device]->borrow_staging();
  if (!staging.ok()) return staging.take_status();
  borrowed_.push_back({device, *staging});
  return staging->memory;
}

Task Run::lane_over(uint32_t device) {
  const Pending last = lanes_[device].last;
  if (!last.timeline) co_return Status();
  Status outcome = co_await pace_.reached(last.timeline, last.value);
  lanes_[device].last = {};
  co_return std::move(outcome);
}

Task Run::incoming_over(uint32_t device) {
  const Pending incoming = lanes_[device].incoming;
  if (!incoming.timeline) co_return Status();
  Status outcome = co_await pace_.reached(incoming.timeline, incoming.value);
  lanes_[device].incoming = {};
  co_return std::move(outcome);
}

Task Run::settle(Status& outcome) {
  for (InFlight& one : in_flight_) {
    Status ended = co_await pace_.reached(one.pending.timeline, one.pending.value);
    // A failure leaves the timeline poisoned: it is not used again.
    if (ended.ok()) {
      params_.devices[one.device]->recycle(std::move(one.pending));
    } else if (outcome.ok()) {
      outcome = std::move(ended);
    }
  }
  in_flight_.clear();
  std::fill(lanes_.begin(), lanes_.end(), Lane());
  for (const Borrowed& one : borrowed_) params_.devices[one.device]->return_staging(one.staging);
  borrowed_.clear();
  co_return std::move(outcome);
}

Task Run::plan(const Frame& frame, bool may_go_on) {
  Status outcome;
  Task settled = settle(outcome);
  outcome = co_await pieces_of(frame);
  may_go_on &= outcome.ok() && in_flight_.size() < kMostInFlight && frame.plan().verdicts.empty() && !frame.plan().profile;
  if (may_go_on) co_return Status();
  Status ended = co_await std::move(settled);
  if (ended.ok() && frame.verdict_may_block()) ended = co_await pace_.may_block();
  co_return ended.ok() ? frame.verdict() : std::move(ended);
}

Task Run::pieces_of(const Frame& frame) {
  for (const Segment& segment : frame.plan().segments) {
    if (!segment.crossing && lanes_[segment.device].incoming.timeline) {
      Status brought = co_await incoming_over(segment.device);
      if (!brought.ok()) co_return std::move(brought);
    }
    HEDDLE_CO_RETURN_IF_ERROR(check(frame, segment));
    if (segment.crossing) {
      uint64_t began_ns = 0;
      if (frame.plan().profile) {  // the time of the copy does not include that of the commands before it
        for (const uint32_t device : {segment.from.device, segment.to.device}) HEDDLE_CO_RETURN_IF_ERROR(co_await lane_over(device));
        began_ns = host::clock_ns();
      }
      Status crossed = co_await cross(frame, segment);
      if (began_ns != 0) {
        if (crossed.ok()) crossed = co_await incoming_over(segment.to.device);
        frame.plan().profile->add_crossing(params_.devices[segment.from.device]->alias(), params_.devices[segment.to.device]->alias(),
                                           segment.from.length, began_ns, host::clock_ns() - began_ns);
      }
      if (!crossed.ok()) co_return std::move(crossed);
      continue;
    }
    if (params_.machine.inspection) {
      Status looked = co_await inspect(frame, segment);
      if (!looked.ok()) co_return std::move(looked);
      continue;
    }
    bool replayed = false;
    auto submit = [&](const heddle_sync_t* sync) { return frame.submit(segment, *sync, &replayed); };
    HEDDLE_CO_RETURN_IF_ERROR(
        add(segment.device, [&] { return params_.devices[segment.device]->start(submit, lanes_[segment.device].waits()); }));
    if (replayed) counters_.replays.fetch_add(1, std::memory_order_relaxed);
  }
  count(frame.plan(), 1, counters_);
  co_return Status();
}

// ------------------------------------------------------------------------------------------------- between two devices

Task Run::cross(const Frame& frame, const Segment& segment) {
  const heddle_binding_t from = frame.locate(segment.from, params_.arguments, params_.results, params_.state);
  const heddle_binding_t to = frame.locate(segment.to, params_.arguments, params_.results, params_.state);
  const uint32_t source = segment.from.device, target = segment.to.device;
  HEDDLE_CO_RETURN_IF_ERROR(params_.devices[source]->check());
  HEDDLE_CO_RETURN_IF_ERROR(params_.devices[target]->check());
  const Link& link = params_.machine.links[link_index(params_.devices.size(), source, target)];
  Status brought = co_await incoming_over(source);  // its target may be the source of this copy
  if (!brought.ok()) co_return std::move(brought);
  if (link.direct) {
    Status copied = co_await cross_directly(from, to, source, target);
    // A driver of an older ABI was not asked whether it supports this.
    if (copied.ok() || link.required || copied.code() != HEDDLE_STATUS_UNIMPLEMENTED) co_return std::move(copied);
  }
  brought = co_await incoming_over(target);
  if (!brought.ok()) co_return std::move(brought);
  if (params_.devices[source]->unified() || params_.devices[target]->unified()) {
    co_return co_await cross_mapped(from, to, source, target);
  }
  co_return co_await cross_staged(from, to, source, target);
}

// On the source's queue, after the source's earlier work. The target no longer uses the bytes that are overwritten.
Task Run::cross_directly(heddle_binding_t from, heddle_binding_t to, uint32_t source, uint32_t target) {
  Status over = co_await lane_over(target);
  if (over.ok() && lanes_[target].incoming_from != source) over = co_await incoming_over(target);
  if (!over.ok()) co_return std::move(over);
  Device& a = *params_.devices[source];
  auto copy = [&](const heddle_sync_t* sync) { return a.api().transfer->peer_copy(a.queue(), sync, &from, &to); };
  Status enqueued = add(source, [&] { return a.start(copy, lanes_[source].waits()); });
  if (!enqueued.ok()) {
    co_return wrap(std::move(enqueued), fmt::format("copying {} bytes from device '{}' directly to device '{}'", from.length, a.alias(),
                                                    params_.devices[target]->alias()));
  }
  lanes_[target].incoming = lanes_[source].last;
  lanes_[target].incoming_from = source;
  counters_.peer_copies.fetch_add(1, std::memory_order_relaxed);
  co_return Status();
}

// One of the two has its memory where the host and the other device's copies can access it: copies directly from or into it.
Task Run::cross_mapped(heddle_binding_t from, heddle_binding_t to, uint32_t source, uint32_t target) {
  Device &a = *params_.devices[source], &b = *params_.devices[target];
  // The driver does not know who else accesses mapped memory, so its own use must be complete first.
  if (a.unified()) {
    Status over = co_await lane_over(source);
    if (!over.ok()) co_return std::move(over);
  }
  if (b.unified()) {
    Status over = co_await lane_over(target);
    if (!over.ok()) co_return std::move(over);
  }
  Mapped to_host, from_host;
  if (b.unified()) {
    HEDDLE_CO_RETURN_IF_ERROR(to_host.map(b, to, HEDDLE_MAP_WRITE | HEDDLE_MAP_DISCARD));
    note_start();
  }
  if (a.unified()) HEDDLE_CO_RETURN_IF_ERROR(from_host.map(a, from, HEDDLE_MAP_READ));
  void *const bytes_from = from_host.bytes(), *const bytes_to = to_host.bytes();
  Status moved;
  if (bytes_from && bytes_to) {
    moved = co_await pace_.may_block();
    if (moved.ok()) std::memcpy(bytes_to, bytes_from, from.length);
  } else if (bytes_from && a.is_file(from.buffer)) {
    moved = co_await upload_copied(bytes_from, to, target);
  } else {
    const uint32_t busy = bytes_from ? target : source;
    Task over = lane_over(busy);  // created first: once the copy is enqueued there may be no memory to wait for it
    moved = add(busy, [&] {
      return bytes_from ? b.start_upload(bytes_from, to, lanes_[target].waits()) : a.start_download(from, bytes_to, lanes_[source].waits());
    });
    if (moved.ok()) moved = co_await std::move(over);
  }
  Status read = from_host.unmap(), written = to_host.unmap();
  co_return std::move(!moved.ok() ? moved : !read.ok() ? read : written);
}

// For pages of a file, which must not be passed to a driver of another device: it may pin them.
Task Run::upload_copied(const void* from, heddle_binding_t to, uint32_t target) {
  Device& b = *params_.devices[target];
  Result<void*> staging = borrow(target);
  if (!staging.ok()) co_return staging.take_status();
  Status moved = co_await pace_.may_block();
  for (uint64_t done = 0; moved.ok() && done < to.length; done += Device::kStagingBytes) {
    const uint64_t length = std::min(to.length - done, Device::kStagingBytes);
    std::memcpy(*staging, static_cast<const std::byte*>(from) + done, length);
    moved = add(target, [&] { return b.start_upload(*staging, {to.buffer, to.offset + done, length}, lanes_[target].waits()); });
    if (moved.ok()) moved = co_await lane_over(target);
  }
  co_return std::move(moved);
}

// Through two pinned blocks: one is filled while the other is emptied. Does not wait for the last upload.
Task Run::cross_staged(heddle_binding_t from, heddle_binding_t to, uint32_t source, uint32_t target) {
  Device &a = *params_.devices[source], &b = *params_.devices[target];
  void* memory[2] = {};
  Pending uploads[2], download;
  const uint64_t pieces = (from.length + Device::kStagingBytes - 1) / Device::kStagingBytes;
  // Downloads piece i, then uploads piece i - 1.
  for (uint64_t i = 0; i <= pieces; ++i) {
    const Pending before = download;
    if (i < pieces) {
      const uint64_t offset = i * Device::kStagingBytes, length = std::min(from.length - offset, Device::kStagingBytes);
      void*& slot = memory[i % 2];
      if (!slot) {
        Result<void*> staging = borrow(source);
        if (!staging.ok()) co_return staging.take_status();
        slot = *staging;
      } else {
        const Pending emptied = uploads[i % 2];
        Status over = co_await pace_.reached(emptied.timeline, emptied.value);
        if (!over.ok()) co_return std::move(over);
      }
      HEDDLE_CO_RETURN_IF_ERROR(
          add(source, [&] { return a.start_download({from.buffer, from.offset + offset, length}, slot, lanes_[source].waits()); }));
      download = lanes_[source].last;
    }
    if (i > 0) {
      const uint64_t offset = (i - 1) * Device::kStagingBytes, length = std::min(to.length - offset, Device::kStagingBytes);
      Status over = co_await pace_.reached(before.timeline, before.value);
      if (!over.ok()) co_return std::move(over);
      HEDDLE_CO_RETURN_IF_ERROR(add(
          target, [&] { return b.start_upload(memory[(i - 1) % 2], {to.buffer, to.offset + offset, length}, lanes_[target].waits()); }));
      uploads[(i - 1) % 2] = lanes_[target].last;
    }
  }
  co_return Status();
}

// ------------------------------------------------------------------------------------------------------------- programs

Status Run::move_copies(Frame& frame, const Frame& whole, const Interpreter& interpreter, const Resolver& resolver) const {
  const std::vector<uint32_t>& moving = frame.plan().moving;
  for (size_t at = 0; at < moving.size(); at += 2) {
    const module_format::CopySite* site = params_.program.copies()->Get(moving[at + 1]);
    for (const bool is_source : {true, false}) {
      RecordedBinding range;
      HEDDLE_RETURN_IF_ERROR(interpreter.binding(is_source ? site->source() : site->target(), &range));
      Result<Place> place = resolver.place_of(range);
      if (!place.ok()) return place.take_status();
      if (place->length != frame.command(moving[at]).as.copy.length)
        return error(HEDDLE_STATUS_OUT_OF_RANGE, "a copy has {} bytes, and other ones in another step", place->length);
      frame.move_copy(moving[at], is_source, whole.locate(*place, params_.arguments, params_.results, params_.state));
    }
  }
  return Status();
}

bool Run::joins_steps(const Frame& frame) const {
  const Plan& plan = frame.plan();
  return params_.devices.size() == 1 && plan.single() && plan.verdicts.empty() && !plan.profile;
}

void Run::StepLimit::adapt(bool is_over_at_once) {
  if (!is_over_at_once && was_over_at_once) {
    count = std::max<size_t>(count / 2, 1);
    is_found = true;
  } else if (!is_over_at_once || !is_found) {
    count = std::min(2 * count, kMostStepsTogether);
  }
  was_over_at_once = is_over_at_once;
}

Status Run::add_step(const Frame& frame) {
  if (!steps_.empty()) steps_.push_back(heddle_command_t{});  // HEDDLE_COMMAND_BARRIER
  steps_.insert(steps_.end(), frame.commands().begin(), frame.commands().end());
  count(frame.plan(), 1, counters_);
  if (++step_count_ < step_limit_.count) return Status();
  HEDDLE_RETURN_IF_ERROR(enqueue_steps());
  const Pending& last = lanes_[0].last;
  uint64_t reached = 0;
  const Status queried(params_.devices[0]->api().timeline->query(last.timeline->get(), &reached));
  step_limit_.adapt(queried.ok() && reached >= last.value);
  return Status();
}

Status Run::enqueue_steps() {
  if (steps_.empty()) return Status();
  Device& device = *params_.devices[0];
  auto submit = [&](const heddle_sync_t* sync) {
    const heddle_submission_t submission{sizeof(submission), static_cast<uint32_t>(steps_.size()), steps_.data(), *sync};
    return device.api().dispatch->submit(device.queue(), &submission);
  };
  Status added = add(0, [&] { return device.start(submit, lanes_[0].waits()); });
  counters_.submissions.fetch_sub(step_count_ - 1, std::memory_order_relaxed);  // each step counted its own
  steps_.clear();
  step_count_ = 0;
  return added;
}

Task Run::whole_program(const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols, const Prepare& prepare,
                        std::span<const uint32_t> pauses, const std::function<Status()>& paused) {
  std::vector<std::unique_ptr<Frame>> frames;  // of the pieces that own arenas or are steady, and of the current piece
  Status outcome;
  Task settled = settle(outcome);
  outcome = co_await pieces_of_program(argument_dims, symbols, prepare, pauses, paused, frames);
  co_return co_await std::move(settled);
}

Task Run::pieces_of_program(const std::vector<std::vector<int64_t>>& argument_dims, std::span<const int64_t> symbols,
                            const Prepare& prepare, std::span<const uint32_t> pauses, const std::function<Status()>& paused,
                            std::vector<std::unique_ptr<Frame>>& frames) {
  const Machine& machine = params_.machine;
  Interpreter interpreter(params_.program, params_.signature, argument_dims, symbols);
  interpreter.describe_slots(machine.slots);
  interpreter.pause_before(pauses);
  if (params_.runs) interpreter.record_only(*params_.runs);
  Resolver resolver(params_.program, params_.signature, machine, argument_dims, params_.globals);
  std::vector<heddle_block_t> arenas;
  std::vector<bool> prepared(params_.results.size(), false);
  std::vector<uint32_t> steady;  // frames of steady pieces, by their first commands
  size_t steady_commands = 0;
  Frame* whole = nullptr;  // has all arenas
  if (!pauses.empty()) {   // only in a program that reads no scalars
    Interpreter ahead(params_.program, params_.signature, argument_dims, symbols);
    ahead.describe_slots(machine.slots);
    if (params_.runs) ahead.record_only(*params_.runs);
    Result<Interpreter::Outcome> recorded = ahead.run();
    if (!recorded.ok()) co_return recorded.take_status();
    HEDDLE_CO_RETURN_IF_ERROR(resolver.plan_ahead(ahead));
  } else if (is_in_pieces(params_.program)) {
    resolver.place_all();
  }
  for (;;) {
    HEDDLE_CO_RETURN_IF_ERROR(pace_.check("the program went on"));
    interpreter.begin_piece();
    Result<Interpreter::Outcome> outcome = interpreter.run();
    if (!outcome.ok()) co_return outcome.take_status();
    const bool is_known = interpreter.was_skipped();
    Frame* current = is_known ? frames[steady[interpreter.piece()]].get() : nullptr;
    bool is_steady = is_known;
    if (!is_known) {
      Result<memory::Ref<Plan>> resolved = resolver.resolve(interpreter, 0);
      if (!resolved.ok()) co_return resolved.take_status();
      for (uint32_t i = 0; i < params_.results.size(); ++i) {
        if (prepared[i] || !(*resolved)->result_known[i]) continue;
        HEDDLE_CO_RETURN_IF_ERROR(prepare(i, (*resolved)->results[i]));
        prepared[i] = true;
      }
      is_steady = steady_commands < kMostSteadyCommands && interpreter.is_steady() && !(*resolved)->moves_between_devices;
      Result<std::unique_ptr<Frame>> frame = Frame::create_piece(std::move(*resolved), params_.devices, arenas);
      if (!frame.ok()) co_return frame.take_status();
      frames.push_back(std::move(*frame));
      current = frames.back().get();
      if (current->arenas().size() != arenas.size() || !whole) whole = current;
      if (is_steady) {
        steady.resize(params_.program.code()->size());
        steady[interpreter.piece()] = static_cast<uint32_t>(frames.size() - 1);
        interpreter.skip_piece();
        steady_commands += current->plan().commands.size();
      }
    }
    const bool finished = *outcome == Interpreter::Outcome::kFinished;
    const bool empty = current->plan().commands.empty() && current->plan().crossing_count == 0;
    if (!empty) {
      if (!is_known || current->plan().profile) current->bind(params_.arguments, params_.results, params_.state);
      if (is_known) HEDDLE_CO_RETURN_IF_ERROR(move_copies(*current, *whole, interpreter, resolver));
    }
    const bool is_step = is_known && !empty && *outcome == Interpreter::Outcome::kSubmit && joins_steps(*current);
    if (is_step) {
      HEDDLE_CO_RETURN_IF_ERROR(add_step(*current));
      // On the host's cores, the thread that waits runs what it waits for, and one that goes on would take a core from it.
      if (in_flight_.size() >= (params_.devices[0]->unified() ? 1 : kMostInFlight)) {
        Status ended;
        ended = co_await settle(ended);
        if (!ended.ok()) co_return std::move(ended);
      }
    } else {
      HEDDLE_CO_RETURN_IF_ERROR(enqueue_steps());
      step_limit_ = {};
    }
    if (!empty && !is_step) {
      Status ran = co_await plan(*current, is_steady && *outcome != Interpreter::Outcome::kNeedsScalar);
      if (!ran.ok()) co_return std::move(ran);
    }
    if (finished) co_return Status();
    if (*outcome == Interpreter::Outcome::kPaused) HEDDLE_CO_RETURN_IF_ERROR(paused());
    if (*outcome == Interpreter::Outcome::kNeedsScalar) {
      Result<Place> place = resolver.place(interpreter, interpreter.scalar());
      if (!place.ok()) co_return place.take_status();
      if (empty) {  // pieces before it may be in flight
        Status ended;
        ended = co_await settle(ended);
        if (!ended.ok()) co_return std::move(ended);
      }
      int64_t value = 0;
      Device& device = *params_.devices[place->device];
      const heddle_binding_t scalar = whole->locate(*place, params_.arguments, params_.results, params_.state);
      if (device.unified()) {
        HEDDLE_CO_RETURN_IF_ERROR(device.download(scalar, &value));
      } else {
        HEDDLE_CO_RETURN_IF_ERROR(device.check());
        Status read;
        Task settled = settle(read);
        HEDDLE_CO_RETURN_IF_ERROR(add(place->device, [&] { return device.start_download(scalar, &value, {}); }));
        read = co_await std::move(settled);
        if (!read.ok()) co_return std::move(read);
      }
      counters_.scalars_read.fetch_add(1, std::memory_order_relaxed);
      interpreter.answer(value);
    }
    // A loop may have millions of pieces.
    arenas.assign(whole->arenas().begin(), whole->arenas().end());
    if (current != whole && !is_steady) frames.pop_back();
    if (arenas.size() > kMostArenas) {
      co_return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                      "the program allocates intermediate values {} times between reads of scalars, above {}; compile the model again",
                      arenas.size(), kMostArenas);
    }
  }
}

}  // namespace heddle::submit
