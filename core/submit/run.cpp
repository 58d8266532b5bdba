// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running plans segment by segment and programs piece by piece.
// Copies between devices go through host memory (HD-Q-02).
#include "core/submit/run.h"

#include <algorithm>
#include <memory>

namespace heddle::submit {

namespace {

constexpr uint64_t kStagingBytes = uint64_t{4} << 20;
// Each piece knows the arenas of all pieces before it, which stay until the call is over.
constexpr size_t kMostArenas = 1024;

Status cross(const heddle_binding_t& from, const heddle_binding_t& to, memory::Device& source, memory::Device& target) {
  uint64_t step = std::min(from.length, kStagingBytes);
  std::unique_ptr<char[]> staging(new char[step]);
  for (uint64_t done = 0; done < from.length; done += step) {
    uint64_t now = std::min(step, from.length - done);
    HEDDLE_RETURN_IF_ERROR(source.download({from.buffer, from.offset + done, now}, staging.get()));
    HEDDLE_RETURN_IF_ERROR(target.upload(staging.get(), {to.buffer, to.offset + done, now}));
  }
  return Status();
}

bool is_set(const std::atomic<bool>* flag) {
  return flag && flag->load(std::memory_order_acquire);
}

Status cancelled_status() {
  return error(HEDDLE_STATUS_CANCELLED, "the call was cancelled");
}

}  // namespace

void count(const Plan& plan, Counters& counters) {
  counters.submissions.fetch_add(plan.submission_count, std::memory_order_relaxed);
  counters.dispatches.fetch_add(plan.dispatch_count, std::memory_order_relaxed);
  if (plan.copy_count) counters.copies.fetch_add(plan.copy_count, std::memory_order_relaxed);
  if (plan.copied_bytes) counters.copied_bytes.fetch_add(plan.copied_bytes, std::memory_order_relaxed);
  if (plan.crossing_count) counters.crossings.fetch_add(plan.crossing_count, std::memory_order_relaxed);
}

Status run_segments(const Frame& frame, std::span<memory::Tensor* const> arguments, std::span<memory::Tensor* const> results,
                    std::span<const memory::Ref<memory::Device>> devices, const std::atomic<bool>* cancelled, Counters& counters,
                    bool* started) {
  for (const Segment& segment : frame.plan().segments) {
    if (is_set(cancelled)) return cancelled_status();
    *started = true;
    if (segment.crossing) {
      HEDDLE_RETURN_IF_ERROR(cross(frame.locate(segment.from, arguments, results), frame.locate(segment.to, arguments, results),
                                   *devices[segment.from.device], *devices[segment.to.device]));
    } else {
      HEDDLE_RETURN_IF_ERROR(devices[segment.device]->signalled([&](const heddle_sync_t* sync) { return frame.submit(segment, *sync); }));
    }
  }
  count(frame.plan(), counters);
  return Status();
}

Status run_program(const ProgramRun& run, Counters& counters) {
  Interpreter interpreter(run.program, run.signature, run.argument_dims, run.symbols);
  interpreter.limit_grids(run.machine.grid_of_slot);
  Resolver resolver(run.program, run.signature, run.machine, run.argument_dims);
  std::vector<std::unique_ptr<Frame>> frames;  // of the pieces that own arenas, and of the current one
  std::vector<heddle_block_t> arenas;
  std::vector<bool> prepared(run.results.size(), false);
  size_t done = 0;
  for (;;) {
    if (is_set(run.cancelled)) return cancelled_status();
    Result<Interpreter::Outcome> outcome = interpreter.run();
    if (!outcome.ok()) return outcome.take_status();
    Result<memory::Ref<Plan>> plan = resolver.resolve(interpreter, done);
    if (!plan.ok()) return plan.take_status();
    done = interpreter.recording().commands.size();
    for (uint32_t i = 0; i < run.results.size(); ++i) {
      if (prepared[i] || !(*plan)->result_known[i]) continue;
      HEDDLE_RETURN_IF_ERROR(run.prepare(i, (*plan)->results[i]));
      prepared[i] = true;
    }
    bool finished = *outcome == Interpreter::Outcome::kFinished;
    bool empty = (*plan)->commands.empty() && (*plan)->crossing_count == 0;
    Result<std::unique_ptr<Frame>> frame = Frame::create_piece(std::move(*plan), run.devices, arenas);
    if (!frame.ok()) return frame.take_status();
    frames.push_back(std::move(*frame));
    if (!empty) {
      frames.back()->bind(run.arguments, run.results);
      HEDDLE_RETURN_IF_ERROR(run_segments(*frames.back(), run.arguments, run.results, run.devices, run.cancelled, counters, run.started));
    }
    if (finished) return Status();
    Result<Place> place = resolver.place(interpreter, interpreter.scalar());
    if (!place.ok()) return place.take_status();
    int64_t value = 0;
    HEDDLE_RETURN_IF_ERROR(run.devices[place->device]->download(frames.back()->locate(*place, run.arguments, run.results), &value));
    counters.scalars_read.fetch_add(1, std::memory_order_relaxed);
    interpreter.answer(value);
    // A loop of scalars may have millions of pieces.
    if (frames.back()->arenas().size() == arenas.size()) {
      frames.pop_back();
    } else {
      arenas.assign(frames.back()->arenas().begin(), frames.back()->arenas().end());
      if (arenas.size() > kMostArenas) {
        return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                     "the program allocates intermediate values {} times between reads of scalars, above {}; compile the model again",
                     arenas.size(), kMostArenas);
      }
    }
  }
}

}  // namespace heddle::submit
