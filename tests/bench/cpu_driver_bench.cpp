// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the CPU driver itself costs: a submission, a dispatch in a list, a fork-join.
#include <benchmark/benchmark.h>

#include "kernels.h"

namespace heddle::test {
namespace {

struct Fixture {
  PluginHost host;
  OpenDriver driver;
  Kernels kernels;
  Fixture() : driver(HEDDLE_TEST_PLUGINS "/libheddle_cpu.so", &host), kernels(&driver) {}
};

// One submission of `range(0)` dependent dispatches of an empty kernel, and a wait for it.
void submit_and_wait(benchmark::State& state) {
  Fixture f;
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<heddle_binding_t> none;
  const std::vector<int64_t> constants;
  std::vector<heddle_command_t> commands;
  for (size_t i = 0; i < count; ++i) {
    commands.push_back(f.kernels.command(kNothing, none, constants, 1));
    commands.push_back(barrier());
  }
  heddle_timeline_t* timeline = f.driver.make_timeline();
  uint64_t value = 0;
  for (auto _ : state) {
    heddle_point_t point = {timeline, ++value};
    heddle_submission_t submission = {
        sizeof submission, static_cast<uint32_t>(commands.size()), commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
    f.driver.dispatch_api->submit(f.driver.queue, &submission);
    f.driver.timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
  }
  state.counters["ns_per_dispatch"] =
      benchmark::Counter(static_cast<double>(count) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  f.driver.timeline_api->destroy(timeline);
}
BENCHMARK(submit_and_wait)->Arg(0)->Arg(1)->Arg(10)->Arg(100);

// The same with three bindings and two constants.
void submit_with_bindings(benchmark::State& state) {
  Fixture f;
  const auto count = static_cast<size_t>(state.range(0));
  heddle_buffer_t* a = f.driver.make_buffer(64);
  heddle_buffer_t* b = f.driver.make_buffer(64);
  heddle_buffer_t* c = f.driver.make_buffer(64);
  const std::vector<heddle_binding_t> bindings = {{a, 0, 64}, {b, 0, 64}, {c, 0, 64}};
  const std::vector<int64_t> constants = {16, 16};
  std::vector<heddle_command_t> commands;
  for (size_t i = 0; i < count; ++i) {
    commands.push_back(f.kernels.command(kAddF32, bindings, constants, 1));
    commands.push_back(barrier());
  }
  heddle_timeline_t* timeline = f.driver.make_timeline();
  uint64_t value = 0;
  for (auto _ : state) {
    heddle_point_t point = {timeline, ++value};
    heddle_submission_t submission = {
        sizeof submission, static_cast<uint32_t>(commands.size()), commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
    f.driver.dispatch_api->submit(f.driver.queue, &submission);
    f.driver.timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
  }
  f.driver.timeline_api->destroy(timeline);
  for (heddle_buffer_t* buffer : {a, b, c}) f.driver.buffer_api->free(buffer);
}
BENCHMARK(submit_with_bindings)->Arg(1)->Arg(40);

// A list that goes through the queue's thread: 1 or 100 dispatches of four workgroups of unknown cost, each a fork-join.
void fork_join(benchmark::State& state) {
  Fixture f;
  const auto count = static_cast<size_t>(state.range(0));
  heddle_buffer_t* counts = f.driver.make_filled(std::vector<uint32_t>(1024, 0));
  const std::vector<heddle_binding_t> bindings = {{counts, 0, 4096}};
  const std::vector<int64_t> constants;
  std::vector<heddle_command_t> commands;
  for (size_t i = 0; i < count; ++i) {
    commands.push_back(f.kernels.command(kCountWorkgroups, bindings, constants, 4));
    commands.push_back(barrier());
  }
  heddle_timeline_t* timeline = f.driver.make_timeline();
  uint64_t value = 0;
  for (auto _ : state) {
    heddle_point_t point = {timeline, ++value};
    heddle_submission_t submission = {
        sizeof submission, static_cast<uint32_t>(commands.size()), commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
    f.driver.dispatch_api->submit(f.driver.queue, &submission);
    f.driver.timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
  }
  state.counters["ns_per_dispatch"] =
      benchmark::Counter(static_cast<double>(count) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  f.driver.timeline_api->destroy(timeline);
  f.driver.buffer_api->free(counts);
}
BENCHMARK(fork_join)->Arg(1)->Arg(100)->UseRealTime();

void upload_small(benchmark::State& state) {
  Fixture f;
  heddle_buffer_t* buffer = f.driver.make_buffer(64);
  heddle_timeline_t* timeline = f.driver.make_timeline();
  const char bytes[64] = {};
  uint64_t value = 0;
  for (auto _ : state) {
    heddle_point_t point = {timeline, ++value};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    heddle_binding_t binding = {buffer, 0, 64};
    f.driver.transfer_api->upload(f.driver.queue, &sync, bytes, &binding);
  }
  f.driver.timeline_api->destroy(timeline);
  f.driver.buffer_api->free(buffer);
}
BENCHMARK(upload_small);

}  // namespace
}  // namespace heddle::test

BENCHMARK_MAIN();
