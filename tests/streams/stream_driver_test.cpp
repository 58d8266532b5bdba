// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stream driver over the host's backend, through its ABI: what the conformance kit does not see. Random lists are compared with a model, as
// submissions and as recordings; losses, imports and recipes of arguments by their texts.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "kernels.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // these have a pthread_create of their own
#define HEDDLE_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEDDLE_HAS_SANITIZER 1
#endif
#endif
#ifndef HEDDLE_HAS_SANITIZER
static std::atomic<bool> threads_are_refused{false};
// All libraries' calls arrive here, since the program's symbols take precedence.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                                                             void* argument) noexcept {
  if (threads_are_refused) return EAGAIN;
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, function, argument);
}
#endif

namespace heddle::test {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr size_t kBuffers = 6, kReadOnly = kBuffers;  // the last buffer is only read

using Contents = std::vector<std::vector<uint8_t>>;

// A command over buffers that are named by their index.
struct Step {
  uint32_t kind = HEDDLE_COMMAND_BARRIER;
  Kernel kernel = kAddF32;
  size_t from = 0, to = 0;
  uint64_t from_offset = 0, to_offset = 0, length = 0;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  uint64_t from_stride = 0, to_stride = 0, rows = 0;
  std::vector<uint8_t> bytes;
  int64_t constant = 0;
};

// Groups of commands on different buffers, with a barrier between groups.
std::vector<Step> random_steps(std::mt19937_64& random, bool can_be_recorded) {
  std::vector<Step> steps;
  for (int group = 0; group < 12; ++group) {
    std::vector<size_t> order(kBuffers);
    for (size_t i = 0; i < kBuffers; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (size_t pair = 0; pair + 1 < kBuffers; pair += 2) {
      Step step;
      step.from = order[pair];
      step.to = order[pair + 1];
      step.length = random() % 1000;
      step.from_offset = random() % (kBytes - step.length);
      step.to_offset = random() % (kBytes - step.length);
      switch (random() % 6) {
        case 0:
          step.kind = HEDDLE_COMMAND_COPY;
          break;
        case 1:
          step.kind = HEDDLE_COMMAND_FILL;
          step.pattern = random();
          step.pattern_bytes = 1u << random() % (can_be_recorded ? 3 : 4);
          if (random() % 3 == 0) step.pattern *= 0x0101010101010101u * (random() % 2);
          if (can_be_recorded) {
            step.length = std::max<uint64_t>(step.length / 8 * 8, 8);
            step.to_offset = step.to_offset / 8 * 8;
          }
          break;
        case 2:
          step.kind = HEDDLE_COMMAND_UPDATE;
          for (uint64_t i = 0; i < step.length; ++i) step.bytes.push_back(static_cast<uint8_t>(random()));
          break;
        case 3:
          step.kind = HEDDLE_COMMAND_COPY_2D;
          step.rows = 1 + random() % 7;
          step.length = 1 + random() % 60;
          step.from_stride = step.length + random() % 100 - (can_be_recorded || step.length < 10 ? 0 : random() % 10);
          step.to_stride = step.length + random() % 100;
          step.from_offset = random() % 1000;
          step.to_offset = random() % 1000;
          break;
        case 4:
          step.kind = HEDDLE_COMMAND_DISPATCH;
          step.kernel = kChain;
          step.constant = static_cast<int64_t>(random() % 1000);
          break;
        default:
          step.kind = HEDDLE_COMMAND_DISPATCH;
          break;
      }
      steps.push_back(std::move(step));
    }
    steps.emplace_back();
  }
  // Enough kernels with one binding that is only read.
  for (size_t i = 0; i < 14; ++i) {
    Step step;
    step.kind = HEDDLE_COMMAND_DISPATCH;
    step.from = i % kBuffers;
    step.to = (i + 1) % kBuffers;
    steps.push_back(step);
    steps.emplace_back();
  }
  return steps;
}

// What a step does. `at` gives the contents of a buffer that the step names first, second, ...
template <typename At>
void simulate(const Step& step, At at) {
  switch (step.kind) {
    case HEDDLE_COMMAND_COPY:
      std::memcpy(at(1, step.to) + step.to_offset, at(0, step.from) + step.from_offset, step.length);
      break;
    case HEDDLE_COMMAND_FILL:
      for (uint64_t i = 0; i < step.length; ++i) {
        at(0, step.to)[step.to_offset + i] = static_cast<uint8_t>(step.pattern >> (8 * (i % step.pattern_bytes)));
      }
      break;
    case HEDDLE_COMMAND_UPDATE:
      std::copy(step.bytes.begin(), step.bytes.end(), at(0, step.to) + step.to_offset);
      break;
    case HEDDLE_COMMAND_COPY_2D:
      for (uint64_t row = 0; row < step.rows; ++row) {
        std::memcpy(at(1, step.to) + step.to_offset + row * step.to_stride, at(0, step.from) + step.from_offset + row * step.from_stride,
                    step.length);
      }
      break;
    case HEDDLE_COMMAND_DISPATCH:
      if (step.kernel == kChain) {
        uint64_t value;
        std::memcpy(&value, at(0, step.to), 8);
        value = value * 3 + static_cast<uint64_t>(step.constant);
        std::memcpy(at(0, step.to), &value, 8);
      } else {  // to = read-only + from, of small whole numbers in f32
        for (uint64_t i = 0; i < 256; ++i) {
          float a, b;
          std::memcpy(&a, at(0, kReadOnly) + 4 * i, 4);
          std::memcpy(&b, at(1, step.from) + 4 * i, 4);
          const float sum = a + b;
          std::memcpy(at(2, step.to) + 4 * i, &sum, 4);
        }
      }
      break;
    default:
      break;
  }
}

class StreamDriver : public ::testing::Test {
 protected:
  void SetUp() override { open(1); }
  void open(int64_t seed, uint32_t devices = 1, int64_t failing_word = 0) {
    driver.reset();
    host = std::make_unique<PluginHost>();
    host->set_int("seed", seed);
    host->set_int("latency_us", 200);
    host->set_int("device_count", devices);
    host->set_bool("waits_by_event", waits_by_event);
    host->set_int("batch_us", shows_late ? 50 : 0);
    host->set_int("failing_word", failing_word);
    driver = std::make_unique<OpenDriver>(HEDDLE_TEST_STREAMS, host.get());
    ASSERT_TRUE(driver->device);
  }
  void TearDown() override {
    driver.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }

  // Buffers 0 to 5 have any bytes, the last has numbers.
  static Contents random_contents(std::mt19937_64& random) {
    Contents contents(kBuffers + 1, std::vector<uint8_t>(kBytes));
    for (auto& buffer : contents) {
      for (uint64_t i = 0; i < kBytes / 4; ++i) {
        const auto value = static_cast<float>(random() % 1000);
        std::memcpy(buffer.data() + 4 * i, &value, 4);
      }
    }
    return contents;
  }
  std::vector<heddle_buffer_t*> make_buffers(const Contents& contents) {
    std::vector<heddle_buffer_t*> buffers;
    for (const auto& bytes : contents) buffers.push_back(driver->make_filled(bytes));
    return buffers;
  }
  void expect_contents(const std::vector<heddle_buffer_t*>& buffers, const Contents& expected, const std::string& where) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_TRUE(driver->values_of<uint8_t>(buffers[i], kBytes) == expected[i]) << where << ", buffer " << i;
    }
  }

  // The commands of steps, with everything that they point to.
  struct List {
    std::vector<heddle_command_t> commands;
    std::deque<heddle_binding_t> rows;
    std::deque<std::vector<heddle_binding_t>> bindings;
    std::deque<std::vector<int64_t>> constants;
    std::vector<std::pair<size_t, size_t>> named;  // per binding: the step, and its buffer's index
  };
  static void make_list(const Kernels& kernels, const std::vector<Step>& steps, const std::vector<heddle_buffer_t*>& buffers, List* out) {
    for (size_t s = 0; s < steps.size(); ++s) {
      const Step& step = steps[s];
      heddle_command_t command = {};
      command.kind = step.kind;
      auto name = [&](std::initializer_list<size_t> names) {
        for (size_t i : names) out->named.push_back({s, i});
      };
      switch (step.kind) {
        case HEDDLE_COMMAND_COPY:
          command.as.copy = {buffers[step.from], buffers[step.to], step.from_offset, step.to_offset, step.length};
          name({step.from, step.to});
          break;
        case HEDDLE_COMMAND_FILL:
          command.as.fill = {buffers[step.to], step.to_offset, step.length, step.pattern, step.pattern_bytes, 0};
          name({step.to});
          break;
        case HEDDLE_COMMAND_UPDATE:
          command.as.update = {buffers[step.to], step.to_offset, step.length, step.bytes.data()};
          name({step.to});
          break;
        case HEDDLE_COMMAND_COPY_2D: {
          heddle_copy_2d_command_t& copy = command.as.copy_2d;
          copy.source = &out->rows.emplace_back(heddle_binding_t{buffers[step.from], step.from_offset, kBytes - step.from_offset});
          copy.target = &out->rows.emplace_back(heddle_binding_t{buffers[step.to], step.to_offset, kBytes - step.to_offset});
          copy.source_stride = step.from_stride;
          copy.target_stride = step.to_stride;
          copy.row_bytes = step.length;
          copy.rows = step.rows;
          name({step.from, step.to});
          break;
        }
        case HEDDLE_COMMAND_DISPATCH:
          if (step.kernel == kChain) {
            out->bindings.push_back({{buffers[step.to], 0, 8}});
            out->constants.push_back({step.constant});
            command = kernels.command(kChain, out->bindings.back(), out->constants.back(), 1);
            name({step.to});
          } else {
            out->bindings.push_back({{buffers[kReadOnly], 0, 1024}, {buffers[step.from], 0, 1024}, {buffers[step.to], 0, 1024}});
            out->constants.push_back({256, 64});
            command = kernels.command(kAddF32, out->bindings.back(), out->constants.back(), 4);
            name({kReadOnly, step.from, step.to});
          }
          break;
        default:
          break;
      }
      out->commands.push_back(command);
    }
  }

  bool waits_by_event = false, shows_late = false;
  std::unique_ptr<PluginHost> host;
  std::unique_ptr<OpenDriver> driver;
};

TEST_F(StreamDriver, RunsRandomLists) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    shows_late = seed >= 15;
    if (seed % 5 == 0) open(static_cast<int64_t>(seed));
    std::mt19937_64 random(seed);
    Kernels kernels(driver.get());
    const std::vector<Step> steps = random_steps(random, false);
    Contents contents = random_contents(random);
    const std::vector<heddle_buffer_t*> buffers = make_buffers(contents);
    List list;
    make_list(kernels, steps, buffers, &list);
    EXPECT_OK(driver->run(list.commands));
    for (const Step& step : steps) simulate(step, [&](int, size_t i) { return contents[i].data(); });
    expect_contents(buffers, contents, "seed " + std::to_string(seed));
    for (heddle_buffer_t* buffer : buffers) driver->buffer_api->free(buffer);
  }
}

// Each replay has other buffers in the place of those that may change.
TEST_F(StreamDriver, ReplaysRandomLists) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    shows_late = seed >= 15;
    if (seed % 5 == 0) open(static_cast<int64_t>(seed));
    std::mt19937_64 random(seed);
    Kernels kernels(driver.get());
    const std::vector<Step> steps = random_steps(random, true);
    Contents contents[2] = {random_contents(random), random_contents(random)};
    const std::vector<heddle_buffer_t*> buffers[2] = {make_buffers(contents[0]), make_buffers(contents[1])};
    List list;
    make_list(kernels, steps, buffers[0], &list);
    std::vector<uint8_t> dynamic;
    for (const auto& [s, i] : list.named) {
      const bool can_change = steps[s].kind != HEDDLE_COMMAND_COPY_2D && (seed % 3 == 0 || i == kReadOnly || random() % 2);
      dynamic.push_back(can_change ? HEDDLE_BINDING_DYNAMIC | (i == kReadOnly ? HEDDLE_BINDING_READ_ONLY : 0) : 0);
    }
    heddle_recording_t* recording = nullptr;
    ASSERT_OK(driver->dispatch_api->record(driver->queue, list.commands.data(), static_cast<uint32_t>(list.commands.size()), dynamic.data(),
                                           &recording));
    heddle_timeline_t* done = driver->make_timeline();
    for (uint64_t replay = 1; replay <= 6; ++replay) {
      const size_t set = random() % 2;
      std::vector<heddle_binding_t> bindings;
      std::vector<size_t> sets(dynamic.size(), 0);  // per binding
      size_t at = 0;
      for (size_t s = 0; s < steps.size(); ++s) {
        const Step& step = steps[s];
        for (size_t first = at; at < list.named.size() && list.named[at].first == s; ++at) {
          if (!dynamic[at]) continue;
          // One member of a group that is shared may be given other bytes than the rest.
          sets[at] = list.named[at].second == kReadOnly && replay == 5 && s % 4 == 0 ? 1 - set : set;
          heddle_binding_t binding = {buffers[sets[at]][list.named[at].second], 0, 1024};
          if (step.kind == HEDDLE_COMMAND_DISPATCH && step.kernel == kChain) binding.length = 8;
          if (step.kind != HEDDLE_COMMAND_DISPATCH) {
            const bool is_source = step.kind == HEDDLE_COMMAND_COPY && at == first;
            binding.offset = is_source ? step.from_offset : step.to_offset;
            binding.length = step.length;
          }
          bindings.push_back(binding);
        }
      }
      const heddle_point_t point = {done, replay};
      const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
      EXPECT_OK(driver->dispatch_api->replay(recording, bindings.data(), static_cast<uint32_t>(bindings.size()), &sync));
      EXPECT_OK(driver->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE));
      size_t first = 0;
      for (size_t s = 0; s < steps.size(); ++s) {
        simulate(steps[s], [&](size_t i, size_t buffer) { return contents[sets[first + i]][buffer].data(); });
        while (first < list.named.size() && list.named[first].first == s) ++first;
      }
      const std::string where = "seed " + std::to_string(seed) + ", replay " + std::to_string(replay);
      expect_contents(buffers[0], contents[0], where);
      expect_contents(buffers[1], contents[1], where);
      if (HasFailure()) break;
    }
    driver->timeline_api->destroy(done);
    driver->dispatch_api->recording_free(recording);
    for (const auto& set : buffers) {
      for (heddle_buffer_t* buffer : set) driver->buffer_api->free(buffer);
    }
    if (HasFailure()) return;
  }
}

TEST_F(StreamDriver, AReplayWhoseCopyOverlapsIsRefused) {
  heddle_buffer_t *one = driver->make_filled(std::vector<int>{1, 2, 3, 4}), *other = driver->make_filled(std::vector<int>{5, 6, 7, 8});
  heddle_command_t copy = {};
  copy.kind = HEDDLE_COMMAND_COPY;
  copy.as.copy = {one, other, 0, 0, 8};
  const uint8_t dynamic[] = {HEDDLE_BINDING_DYNAMIC, HEDDLE_BINDING_DYNAMIC};
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(driver->dispatch_api->record(driver->queue, &copy, 1, dynamic, &recording));
  heddle_timeline_t* done = driver->make_timeline();
  const heddle_point_t point = {done, 1};
  const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
  const heddle_binding_t overlapping[] = {{one, 0, 8}, {one, 4, 8}}, right[] = {{one, 0, 8}, {one, 8, 8}};
  EXPECT_FAILS(driver->dispatch_api->replay(recording, overlapping, 2, &sync), HEDDLE_STATUS_INVALID_ARGUMENT,
               "streams: replaying failed: source and target of command 0 (a copy) overlap; copy through another buffer");
  EXPECT_OK(driver->dispatch_api->replay(recording, right, 2, &sync));
  Result waited = driver->wait(done, 1);
  EXPECT_TRUE(waited.ok()) << waited.message();
  EXPECT_EQ(driver->values_of<int>(one, 4), (std::vector<int>{1, 2, 1, 2}));
  driver->timeline_api->destroy(done);
  driver->dispatch_api->recording_free(recording);
  for (heddle_buffer_t* buffer : {one, other}) driver->buffer_api->free(buffer);
}

TEST_F(StreamDriver, AReplayWhoseFillIsNotAlignedIsRefused) {
  heddle_buffer_t* buffer = driver->make_filled(std::vector<uint8_t>(12));
  heddle_command_t fill = {};
  fill.kind = HEDDLE_COMMAND_FILL;
  fill.as.fill = {buffer, 0, 4, 0x01020304, 2, 0};
  const uint8_t dynamic = HEDDLE_BINDING_DYNAMIC;
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(driver->dispatch_api->record(driver->queue, &fill, 1, &dynamic, &recording));
  heddle_timeline_t* done = driver->make_timeline();
  const heddle_point_t point = {done, 1};
  const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
  const heddle_binding_t odd = {buffer, 3, 4}, even = {buffer, 6, 4};
  EXPECT_FAILS(
      driver->dispatch_api->replay(recording, &odd, 1, &sync), HEDDLE_STATUS_UNIMPLEMENTED,
      "streams: replaying failed: dynamic binding 0 (command 0, a fill) is at 3 in its buffer, and its pattern of 2 bytes needs an "
      "aligned address; submit the list [HD-G-01]");
  EXPECT_OK(driver->dispatch_api->replay(recording, &even, 1, &sync));
  Result waited = driver->wait(done, 1);
  EXPECT_TRUE(waited.ok()) << waited.message();
  EXPECT_EQ(driver->values_of<uint8_t>(buffer, 12), (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 4, 3, 4, 3, 0, 0}));
  driver->timeline_api->destroy(done);
  driver->dispatch_api->recording_free(recording);
  driver->buffer_api->free(buffer);
}

// The strides of one row may be anything. Those of more rows have a limit in recordings.
TEST_F(StreamDriver, RecordsCopiesOfOneRowWithAnyStrides) {
  heddle_buffer_t *from = driver->make_filled(std::vector<int>{1, 2}), *to = driver->make_filled(std::vector<int>{0, 0});
  const heddle_binding_t source = {from, 4, 4}, target = {to, 0, 4};
  const uint8_t dynamic[2] = {};
  heddle_command_t copy = {};
  copy.kind = HEDDLE_COMMAND_COPY_2D;
  uint64_t value = 0;
  heddle_timeline_t* done = driver->make_timeline();
  for (uint64_t stride : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 40, UINT64_MAX}) {
    copy.as.copy_2d = {&source, &target, stride, stride, 4, 1};
    heddle_recording_t* recording = nullptr;
    ASSERT_OK(driver->dispatch_api->record(driver->queue, &copy, 1, dynamic, &recording));
    const heddle_point_t point = {done, ++value};
    const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    EXPECT_OK(driver->dispatch_api->replay(recording, nullptr, 0, &sync));
    Result waited = driver->wait(done, value);
    EXPECT_TRUE(waited.ok()) << waited.message();
    driver->dispatch_api->recording_free(recording);
  }
  EXPECT_EQ(driver->values_of<int>(to, 2), (std::vector<int>{2, 0}));
  driver->timeline_api->destroy(done);
  for (heddle_buffer_t* buffer : {from, to}) driver->buffer_api->free(buffer);
}

// The backend aborts if memory is left when its device is closed.
TEST_F(StreamDriver, GivesBackABlockWhoseAllocationFailed) {
  std::vector<heddle_buffer_t*> buffers;
  for (int i = 0; i < 300; ++i) buffers.push_back(driver->make_buffer(64));
  for (heddle_buffer_t* buffer : buffers) driver->buffer_api->free(buffer);
}

TEST_F(StreamDriver, AFillWhoseReservedFieldIsSetIsRefused) {
  heddle_buffer_t* buffer = driver->make_buffer(64);
  heddle_command_t fill = {};
  fill.kind = HEDDLE_COMMAND_FILL;
  fill.as.fill = {buffer, 0, 4, 1, 1, 7};
  EXPECT_FAILS(driver->submit({fill}, {}, {}), HEDDLE_STATUS_INVALID_ARGUMENT,
               "streams: command 0 (fill) failed: its reserved field is 7, not 0 [HD-E-04]");
  fill.as.fill.reserved = 0;
  EXPECT_OK(driver->run({fill}));
  driver->buffer_api->free(buffer);
}

// Work that takes some milliseconds, and signals.
void enqueue_slow_work(OpenDriver& driver, heddle_buffer_t* buffer, heddle_point_t point) {
  heddle_command_t fill = {};
  fill.kind = HEDDLE_COMMAND_FILL;
  fill.as.fill = {buffer, 0, 4, 1, 1, 0};
  std::vector<heddle_command_t> commands(100, fill);
  commands.back().as.fill.pattern = 9;
  EXPECT_OK(driver.submit(commands, {}, {point}));
}

TEST_F(StreamDriver, WorkIsFailedByAWaitThatFailsWhileItIsOnItsStream) {
  heddle_buffer_t* buffer = driver->make_buffer(64);
  heddle_queue_t* other = driver->make_queue(driver->device);
  heddle_timeline_t *first = driver->make_timeline(), *second = driver->make_timeline();
  enqueue_slow_work(*driver, buffer, {first, 1});
  EXPECT_OK(driver->submit({}, {{first, 1}}, {{second, 1}}, other));
  const heddle_host_t* table = host->table();
  driver->timeline_api->fail(first, 1, table->status_create(table->self, HEDDLE_STATUS_ABORTED, {}, 0, string_of("ended by the host")));
  Result waited = driver->wait(second, 1);
  EXPECT_EQ(waited.code(), HEDDLE_STATUS_ABORTED) << waited.message();
  EXPECT_EQ(waited.message(), "ended by the host");
  EXPECT_OK(driver->device_api->queue_destroy(other));
  for (heddle_timeline_t* timeline : {first, second}) driver->timeline_api->destroy(timeline);
  driver->read(buffer, 0, std::vector<char>(4).data(), 4);  // after the work that is still running
  driver->buffer_api->free(buffer);
}

#ifndef HEDDLE_HAS_SANITIZER
// The first submission that is held needs the engine's thread.
TEST_F(StreamDriver, ASubmissionThatCannotBeHeldLeavesItsQueueUsable) {
  heddle_queue_t* queue = driver->make_queue(driver->device);
  heddle_timeline_t *never = driver->make_timeline(), *done = driver->make_timeline();
  threads_are_refused = true;
  Result refused(driver->submit({}, {{never, 1}}, {{done, 1}}, queue));
  threads_are_refused = false;
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("streams: submitting failed"), std::string::npos) << refused.message();
  EXPECT_OK(driver->submit({}, {}, {{done, 1}}, queue));
  Result waited = driver->wait(done, 1);
  EXPECT_TRUE(waited.ok()) << waited.message();
  EXPECT_OK(driver->device_api->queue_destroy(queue));  // waits for all that it counts as unfinished
  for (heddle_timeline_t* timeline : {never, done}) driver->timeline_api->destroy(timeline);
}
#endif

// The queue of the work that fails is polled after the one that waits.
TEST_F(StreamDriver, WorkIsFailedByAWaitWhoseWorkCouldNotBeIssued) {
  heddle_buffer_t* buffer = driver->make_buffer(64);
  heddle_device_t* second = driver->open(0);  // the same context
  heddle_queue_t* others[] = {driver->make_queue(driver->device), driver->make_queue(second)};
  heddle_command_t fill = {};
  fill.kind = HEDDLE_COMMAND_FILL;
  fill.as.fill = {buffer, 0, 4, 0xdeadbeef, 4, 0};  // the backend refuses it
  for (int i = 0; i < 40; ++i) {
    heddle_timeline_t *first = i % 2 ? driver->make_timeline(0, second) : driver->make_timeline(), *last = driver->make_timeline();
    heddle_buffer_t* target = i % 2 ? driver->make_buffer(64, HEDDLE_MEMORY_DEVICE, second) : nullptr;
    if (target) fill.as.fill.target = target;
    EXPECT_OK(driver->submit({fill}, {}, {{first, 1}}, others[i % 2]));
    EXPECT_OK(driver->submit({}, {{first, 1}}, {{last, 1}}));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the words of both are written
    Result waited = driver->wait(last, 1);
    EXPECT_EQ(waited.code(), HEDDLE_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(waited.message(), "streams: issuing a copy on device 0 failed: BAD_VALUE (a backend on the host)");
    for (heddle_timeline_t* timeline : {last, first}) driver->timeline_api->destroy(timeline);
    if (target) driver->buffer_api->free(target);
    fill.as.fill.target = buffer;
  }
  for (heddle_queue_t* queue : others) EXPECT_OK(driver->device_api->queue_destroy(queue));
  EXPECT_OK(driver->device_api->close(second));
  driver->buffer_api->free(buffer);
}

// Work on two queues in turns, each submitted by a thread of its own: a wait may come before its work is enqueued, while it is, or after.
TEST_F(StreamDriver, QueuesOfVendorsWhoseStreamsWaitOrWriteInOtherWaysTakeTurns) {
  for (int64_t seed = 1; seed <= 4; ++seed) {
    waits_by_event = seed != 4;
    shows_late = seed >= 3;
    open(seed);
    Kernels kernels(driver.get());
    heddle_queue_t* queues[] = {driver->make_queue(driver->device), driver->make_queue(driver->device)};
    heddle_timeline_t* timeline = driver->make_timeline();
    heddle_buffer_t* buffer = driver->make_filled(std::vector<int64_t>{1});
    constexpr uint64_t kTurns = 200;
    auto submit = [&](uint64_t first) {
      for (uint64_t i = first; i < kTurns; i += 2) {
        const std::vector<heddle_binding_t> bindings = {{buffer, 0, 8}};
        const std::vector<int64_t> constants = {static_cast<int64_t>(i)};
        const std::vector<heddle_point_t> waits = i ? std::vector<heddle_point_t>{{timeline, i}} : std::vector<heddle_point_t>{};
        EXPECT_OK(driver->submit({kernels.command(kChain, bindings, constants, 1)}, waits, {{timeline, i + 1}}, queues[i % 2]));
      }
    };
    std::thread other(submit, 1);
    submit(0);
    other.join();
    Result waited = driver->wait(timeline, kTurns);
    EXPECT_TRUE(waited.ok()) << waited.message();
    heddle_buffer_t* expected_buffer = driver->make_filled(std::vector<int64_t>{1});
    for (uint64_t i = 0; i < kTurns; ++i) {
      const std::vector<heddle_binding_t> bindings = {{expected_buffer, 0, 8}};
      const std::vector<int64_t> constants = {static_cast<int64_t>(i)};
      EXPECT_OK(driver->run({kernels.command(kChain, bindings, constants, 1)}));
    }
    EXPECT_EQ(driver->values_of<int64_t>(buffer, 1), driver->values_of<int64_t>(expected_buffer, 1)) << "seed " << seed;
    for (heddle_buffer_t* each : {buffer, expected_buffer}) driver->buffer_api->free(each);
    driver->timeline_api->destroy(timeline);
    for (heddle_queue_t* queue : queues) EXPECT_OK(driver->device_api->queue_destroy(queue));
  }
}

TEST_F(StreamDriver, ACopyWaitsForTheOtherDevice) {
  open(4, 2);
  heddle_device_t* device = driver->open(1);
  heddle_queue_t* queue = driver->make_queue(device);
  heddle_buffer_t *from = driver->make_buffer(64), *to = driver->make_buffer(64, HEDDLE_MEMORY_DEVICE, device);
  heddle_timeline_t *first = driver->make_timeline(), *second = driver->make_timeline(0, device);
  for (uint64_t i = 1; i <= 3; ++i) {
    enqueue_slow_work(*driver, from, {first, i});
    const heddle_point_t wait = {first, i}, signal = {second, i};
    const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
    const heddle_binding_t source = {from, 0, 4}, target = {to, 0, 4};
    EXPECT_OK(driver->transfer_api->peer_copy(queue, &sync, &source, &target));
    Result waited = driver->wait(second, i);
    EXPECT_TRUE(waited.ok()) << waited.message();
    char bytes[4] = {};
    heddle_timeline_t* read = driver->make_timeline(0, device);
    const heddle_point_t point = {read, 1};
    const heddle_sync_t after = {sizeof after, 0, 1, 0, nullptr, &point};
    EXPECT_OK(driver->await(driver->transfer_api->download(queue, &after, &target, bytes), point));
    EXPECT_EQ(std::string(bytes, 4), std::string(4, 9));
  }
  // As does a large upload, which has a thread.
  enqueue_slow_work(*driver, from, {first, 4});
  const std::vector<char> large(1 << 20, 5);
  heddle_buffer_t* target = driver->make_buffer(large.size(), HEDDLE_MEMORY_DEVICE, device);
  const heddle_point_t wait = {first, 4}, signal = {second, 4};
  const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
  const heddle_binding_t whole = {target, 0, large.size()};
  EXPECT_OK(driver->transfer_api->upload(queue, &sync, large.data(), &whole));
  Result uploaded = driver->wait(second, 4);
  EXPECT_TRUE(uploaded.ok()) << uploaded.message();
  driver->buffer_api->free(target);
  for (heddle_timeline_t* timeline : {first, second}) driver->timeline_api->destroy(timeline);
  for (heddle_buffer_t* buffer : {from, to}) driver->buffer_api->free(buffer);
  EXPECT_OK(driver->device_api->queue_destroy(queue));
  EXPECT_OK(driver->device_api->close(device));
}

// Who waits for a point looks after its timeline's device. The queue that signals it is another device's.
TEST_F(StreamDriver, AQueueSignalsATimelineOfAnotherDevice) {
  open(4, 2);
  heddle_device_t* device = driver->open(1);
  heddle_queue_t* queue = driver->make_queue(device);
  heddle_buffer_t *near = driver->make_buffer(64), *far = driver->make_buffer(64, HEDDLE_MEMORY_DEVICE, device);
  heddle_timeline_t *first = driver->make_timeline(), *second = driver->make_timeline();
  heddle_command_t fill = {};
  fill.kind = HEDDLE_COMMAND_FILL;
  constexpr uint64_t kTimeoutNs = 20'000'000'000;
  for (uint64_t i = 1; i <= 4; ++i) {
    fill.as.fill = {far, 0, 4, i, 1, 0};
    EXPECT_OK(driver->submit(std::vector<heddle_command_t>(100, fill), {}, {{first, i}}, queue));
    heddle_point_t last = {first, i};
    if (i % 2 == 0) {  // other work on the timeline's device waits for it, too, which that device's streams cannot
      fill.as.fill.target = near;
      last = {second, i};
      EXPECT_OK(driver->submit({fill}, {{first, i}}, {last}));
    }
    Result waited(driver->timeline_api->wait(&last, 1, HEDDLE_WAIT_ALL, kTimeoutNs));
    EXPECT_TRUE(waited.ok()) << waited.message();
  }
  EXPECT_EQ(driver->values_of<uint8_t>(near, 1), std::vector<uint8_t>{4});
  for (heddle_timeline_t* timeline : {first, second}) driver->timeline_api->destroy(timeline);
  for (heddle_buffer_t* buffer : {near, far}) driver->buffer_api->free(buffer);
  EXPECT_OK(driver->device_api->queue_destroy(queue));
  EXPECT_OK(driver->device_api->close(device));
}

// A stream comes to its wait for a queue of another handle when that is closed already.
TEST_F(StreamDriver, AWordOutlivesItsQueueAndItsHandle) {
  heddle_buffer_t* buffer = driver->make_buffer(64);
  heddle_timeline_t *before = driver->make_timeline(), *first = driver->make_timeline(), *last = driver->make_timeline();
  for (uint64_t i = 1; i <= 3; ++i) {
    heddle_device_t* second = driver->open(0);  // the same context
    heddle_queue_t* queue = driver->make_queue(second);
    for (uint64_t turn = 0; turn < 3; ++turn) enqueue_slow_work(*driver, buffer, {before, 3 * i + turn});
    heddle_buffer_t* other = driver->make_buffer(64, HEDDLE_MEMORY_DEVICE, second);
    heddle_command_t fill = {};
    fill.kind = HEDDLE_COMMAND_FILL;
    fill.as.fill = {other, 0, 4, 1, 1, 0};
    EXPECT_OK(driver->submit({fill, fill, fill}, {}, {{first, i}}, queue));
    EXPECT_OK(driver->submit({}, {{first, i}}, {{last, i}}));
    EXPECT_TRUE(driver->wait(first, i).ok());
    EXPECT_OK(driver->device_api->queue_destroy(queue));
    driver->buffer_api->free(other);
    EXPECT_OK(driver->device_api->close(second));
    Result waited = driver->wait(last, i);
    EXPECT_TRUE(waited.ok()) << waited.message();
  }
  for (heddle_timeline_t* timeline : {before, first, last}) driver->timeline_api->destroy(timeline);
  driver->buffer_api->free(buffer);
}

TEST_F(StreamDriver, WorkThatWaitsForAnotherDeviceFailsWhenThatIsLost) {
  open(4, 2);
  heddle_device_t* device = driver->open(1);
  heddle_queue_t* queue = driver->make_queue(device);
  heddle_timeline_t *first = driver->make_timeline(0, device), *second = driver->make_timeline();
  {
    Kernels kernels(driver.get(), device);
    const std::vector<heddle_binding_t> none;
    const std::vector<int64_t> code = {9};
    EXPECT_OK(driver->submit({kernels.command(kFail, none, code, 1)}, {}, {{first, 1}}, queue));
    heddle_point_t point = {second, 1};
    EXPECT_OK(driver->submit({}, {{first, 1}}, {point}));
    Result waited(driver->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, 20'000'000'000));
    EXPECT_EQ(waited.code(), HEDDLE_STATUS_DEVICE_LOST) << waited.message();
    EXPECT_NE(waited.message().find("on device 1"), std::string::npos) << waited.message();
  }
  heddle_timeline_t* third = driver->make_timeline();
  EXPECT_OK(driver->submit({}, {}, {{third, 1}}));  // this device is not lost
  Result waited = driver->wait(third, 1);
  EXPECT_TRUE(waited.ok()) << waited.message();
  for (heddle_timeline_t* timeline : {first, second, third}) driver->timeline_api->destroy(timeline);
  EXPECT_OK(driver->device_api->queue_destroy(queue));
  EXPECT_OK(driver->device_api->close(device));
}

// Work that is over waits for a point that another thread is about to tell, and work on many other queues waits for that work.
TEST_F(StreamDriver, ManyQueuesWaitForOneThatAnotherThreadRetires) {
  open(5);
  struct Held {
    std::atomic<bool> is_inside{false}, may_go{false};
  } held;
  std::vector<heddle_queue_t*> queues(24);
  std::vector<heddle_timeline_t*> done(24);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i] = driver->make_queue(driver->device);
    done[i] = driver->make_timeline();
  }
  heddle_timeline_t *told = driver->make_timeline(), *late = driver->make_timeline(), *between = driver->make_timeline();
  EXPECT_OK(driver->timeline_api->notify(
      told, 1,
      [](void* context, const heddle_status_t*) {
        auto* of = static_cast<Held*>(context);
        of->is_inside = true;
        while (!of->may_go) std::this_thread::yield();
      },
      &held));
  EXPECT_OK(driver->submit({}, {}, {{told, 1}, {late, 1}}));
  while (!held.is_inside) std::this_thread::yield();
  heddle_queue_t* middle = driver->make_queue(driver->device);
  EXPECT_OK(driver->submit({}, {{late, 1}}, {{between, 1}}, middle));
  for (size_t i = 0; i < queues.size(); ++i) EXPECT_OK(driver->submit({}, {{between, 1}}, {{done[i], 1}}, queues[i]));
  std::thread lets([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.may_go = true;
  });
  for (heddle_timeline_t* timeline : done) {
    Result waited = driver->wait(timeline, 1);
    EXPECT_TRUE(waited.ok()) << waited.message();
  }
  lets.join();
  for (size_t i = 0; i < queues.size(); ++i) {
    EXPECT_OK(driver->device_api->queue_destroy(queues[i]));
    driver->timeline_api->destroy(done[i]);
  }
  EXPECT_OK(driver->device_api->queue_destroy(middle));
  for (heddle_timeline_t* timeline : {told, late, between}) driver->timeline_api->destroy(timeline);
}

// Nobody would learn that work is over.
TEST_F(StreamDriver, ADeviceThatCannotWriteAWordIsLost) {
  open(4, 1, 2);
  heddle_timeline_t* done = driver->make_timeline();
  EXPECT_OK(driver->submit({}, {}, {{done, 1}}));
  EXPECT_TRUE(driver->wait(done, 1).ok());
  EXPECT_OK(driver->submit({}, {}, {{done, 2}}));
  heddle_point_t point = {done, 2};
  Result waited(driver->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, 20'000'000'000));
  EXPECT_EQ(waited.message(), "streams: writing a queue's completion word on device 0 failed: BAD_VALUE (a backend on the host)");
  driver->timeline_api->destroy(done);
}

TEST_F(StreamDriver, ALossNamesItsKernelAndLastsAsLongAsAnyHandle) {
  heddle_device_t* second = driver->open(0);  // the same context
  {
    Kernels kernels(driver.get());
    const std::vector<heddle_binding_t> none;
    const std::vector<int64_t> code = {9};
    heddle_timeline_t* done = driver->make_timeline();
    heddle_point_t point = {done, 1};
    EXPECT_OK(driver->submit({kernels.command(kFail, none, code, 1)}, {}, {point}));
    Result failure(driver->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE));
    EXPECT_EQ(failure.code(), HEDDLE_STATUS_DEVICE_LOST);
    EXPECT_EQ(failure.message(),
              "streams: running work on device 0 ('host with streams') failed in kernel 'fail': KERNEL_FAILED (a backend on the host)");
    EXPECT_EQ(failure.payload("region"), "7");
    heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, 0};
    heddle_buffer_t* buffer = nullptr;
    EXPECT_FAILS(driver->buffer_api->allocate(driver->device, &params, &buffer), HEDDLE_STATUS_DEVICE_LOST, "in kernel 'fail'");
    driver->timeline_api->destroy(done);
  }
  heddle_device_open_params_t params = {sizeof params, 0, &driver->api, {}, -1, 0};
  heddle_device_t* refused = nullptr;
  EXPECT_FAILS(
      driver->device_api->open(driver->instance(), 0, &params, &refused), HEDDLE_STATUS_UNAVAILABLE,
      "streams: opening device 0 ('host with streams') failed while creating its context: an earlier fault in this process ended its "
      "context; close every handle of the device and open it again, or start a new process: KERNEL_FAILED");
  EXPECT_OK(driver->device_api->close(second));
  open(1);
  heddle_buffer_t* buffer = driver->make_filled(std::vector<int>{1, 2});
  EXPECT_EQ(driver->values_of<int>(buffer, 2), (std::vector<int>{1, 2}));
  driver->buffer_api->free(buffer);
}

TEST_F(StreamDriver, ALossShowsOnADeviceThatHasOnlyImportedQueues) {
  heddle_device_t* second = driver->open(0);
  uint64_t stream = 0;
  heddle_queue_t* imported = nullptr;
  EXPECT_OK(driver->native_api->stream(driver->queue, &stream));
  ASSERT_OK(driver->native_api->queue_import(second, stream, &imported));
  {
    Kernels kernels(driver.get(), second);
    const std::vector<heddle_binding_t> none;
    const std::vector<int64_t> code = {9};
    heddle_timeline_t* done = driver->make_timeline(0, second);
    EXPECT_OK(driver->submit({kernels.command(kFail, none, code, 1)}, {}, {{done, 1}}, imported));
    Result waited = driver->wait(done, 1);
    EXPECT_EQ(waited.code(), HEDDLE_STATUS_DEVICE_LOST) << waited.message();
    driver->timeline_api->destroy(done);
  }
  EXPECT_OK(driver->device_api->queue_destroy(imported));
  EXPECT_OK(driver->device_api->close(second));
}

TEST_F(StreamDriver, ImportsStreamsAndMemoryOfItsDeviceOnly) {
  open(3, 2);
  heddle_device_t* other = driver->open(1);
  heddle_queue_t* other_queue = driver->make_queue(other);
  uint64_t stream = 0, other_stream = 0;
  EXPECT_OK(driver->native_api->stream(driver->queue, &stream));
  EXPECT_OK(driver->native_api->stream(other_queue, &other_stream));
  heddle_queue_t* imported = nullptr;
  EXPECT_FAILS(driver->native_api->queue_import(driver->device, other_stream, &imported), HEDDLE_STATUS_INVALID_ARGUMENT,
               "failed: it belongs to another context; use a stream of this device");
  EXPECT_OK(driver->native_api->queue_import(driver->device, stream, &imported));
  // In order with the queue whose stream it is, without a wait.
  {
    Kernels kernels(driver.get());
    heddle_buffer_t* buffer = driver->make_filled(std::vector<uint64_t>{1});
    const std::vector<heddle_binding_t> bindings = {{buffer, 0, 8}};
    const std::vector<int64_t> constants = {1};
    heddle_timeline_t* done[2] = {driver->make_timeline(), driver->make_timeline()};
    uint64_t expected = 1;
    for (uint64_t i = 1; i <= 50; ++i) {
      expected = expected * 3 + 1;
      EXPECT_OK(
          driver->submit({kernels.command(kChain, bindings, constants, 1)}, {}, {{done[i % 2], i}}, i % 2 ? imported : driver->queue));
    }
    for (heddle_timeline_t* timeline : done) {
      Result waited = driver->wait(timeline, timeline == done[0] ? 50 : 49);
      EXPECT_TRUE(waited.ok()) << waited.message();
      driver->timeline_api->destroy(timeline);
    }
    EXPECT_EQ(driver->values_of<uint64_t>(buffer, 1)[0], expected);
    driver->buffer_api->free(buffer);
  }
  EXPECT_OK(driver->device_api->queue_destroy(imported));

  auto address = [&](heddle_buffer_t* buffer) {
    heddle_buffer_properties_t properties = {};
    properties.struct_size = sizeof properties;
    EXPECT_OK(driver->buffer_api->properties(buffer, &properties));
    return properties.device_address;
  };
  heddle_buffer_t *mine = driver->make_filled(std::vector<int>{5, 6, 7, 8}), *theirs = driver->make_buffer(16, HEDDLE_MEMORY_DEVICE, other),
                  *pinned = driver->make_buffer(16, HEDDLE_MEMORY_PINNED), *view = nullptr;
  int on_the_stack = 0;
  auto refuse = [&](uint64_t at, const char* why) {
    EXPECT_FAILS(driver->native_api->buffer_import(driver->device, at, 4, nullptr, nullptr, &view), HEDDLE_STATUS_INVALID_ARGUMENT, why);
  };
  refuse(address(theirs), "byte 0 of them is memory of the host device 1; use memory of that device");
  refuse(address(pinned), "byte 0 of them is host memory; use memory of that device");
  refuse(reinterpret_cast<uint64_t>(&on_the_stack), "byte 0 of them is not memory that the host knows; use memory of that device");
  EXPECT_OK(driver->native_api->buffer_import(driver->device, address(mine) + 4, 8, nullptr, nullptr, &view));
  EXPECT_EQ(driver->values_of<int>(view, 2), (std::vector<int>{6, 7}));
  for (heddle_buffer_t* buffer : {view, mine, theirs, pinned}) driver->buffer_api->free(buffer);
  EXPECT_OK(driver->device_api->queue_destroy(other_queue));
  EXPECT_OK(driver->device_api->close(other));
}

TEST_F(StreamDriver, PacksArgumentsByTheirRecipe) {
  const std::vector<char> image = kernel_image();
  std::vector<heddle_argument_t> recipe = {{HEDDLE_ARGUMENT_CONSTANT, 8, 8, 0, nullptr}, {HEDDLE_ARGUMENT_BINDING, 1, 0, 0, nullptr}};
  heddle_entry_params_t entry = {};
  entry.struct_size = sizeof entry;
  entry.name = string_of("chain");
  entry.binding_count = 2;
  entry.constants_bytes = 16;
  for (uint32_t& extent : entry.workgroup_size) extent = 1;
  auto load = [&](heddle_executable_t** out) {
    entry.arguments = recipe.data();
    entry.argument_count = static_cast<uint32_t>(recipe.size());
    heddle_executable_params_t params = {
        sizeof params,       1, string_of("x86_64-elf/1"), string_of("x86-64-v3"), image.data(), image.size(), &entry, sizeof entry,
        string_of("recipe"), {}};
    return driver->dispatch_api->executable_load(driver->device, &params, out);
  };
  heddle_executable_t* executable = nullptr;
  const std::string before = "streams: loading entry 0 ('chain') of executable 'recipe' failed: argument 0 of its recipe: ";
  for (const auto& [argument, why] :
       {std::pair(heddle_argument_t{HEDDLE_ARGUMENT_BINDING, 2, 0, 0, nullptr}, "there is no binding 2 [HD-C-01]"),
        std::pair(heddle_argument_t{HEDDLE_ARGUMENT_CONSTANT, 0, 3, 0, nullptr}, "a constant of 3 bytes"),
        std::pair(heddle_argument_t{HEDDLE_ARGUMENT_CONSTANT, 12, 8, 0, nullptr}, "its constant ends after"),
        std::pair(heddle_argument_t{77, 0, 8, 0, nullptr}, "its kind 77 is unknown")}) {
    const heddle_argument_t good = recipe[0];
    recipe[0] = argument;
    EXPECT_FAILS(load(&executable), HEDDLE_STATUS_INVALID_ARGUMENT, before + why);
    recipe[0] = good;
  }
  ASSERT_OK(load(&executable));
  heddle_entry_t* loaded = nullptr;
  EXPECT_OK(driver->dispatch_api->entry(executable, 0, &loaded));
  EXPECT_FAILS(driver->dispatch_api->entry(executable, 1, &loaded), HEDDLE_STATUS_NOT_FOUND,
               "streams: looking up entry 1 failed: the executable has 1");
  EXPECT_OK(driver->dispatch_api->entry(executable, 0, &loaded));
  heddle_buffer_t* buffer = driver->make_filled(std::vector<uint64_t>{10, 20});
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, 8}, {buffer, 8, 8}};
  const std::vector<int64_t> constants = {100, 5};
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_DISPATCH;
  command.as.dispatch = {loaded, bindings.data(), constants.data(), 2, 16, {1, 1, 1}, 3};
  EXPECT_OK(driver->run({command}));
  EXPECT_EQ(driver->values_of<uint64_t>(buffer, 2), (std::vector<uint64_t>{10, 65}));
  driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

}  // namespace
}  // namespace heddle::test
