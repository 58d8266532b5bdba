// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recordings of heddle.cuda: command lists as graphs, replayed with other buffers.
#include <algorithm>
#include <numeric>

#include "cuda_case.h"

namespace heddle::test {
namespace {

class CudaRecording : public Cuda {
 protected:
  heddle_status_t* record(const std::vector<heddle_command_t>& commands, const std::vector<uint8_t>& dynamic, heddle_recording_t** out) {
    *out = nullptr;
    return driver().dispatch_api->record(driver().queue, commands.data(), static_cast<uint32_t>(commands.size()), dynamic.data(), out);
  }
  // Replays and waits; the failure of either.
  heddle_status_t* replay(heddle_recording_t* recording, const std::vector<heddle_binding_t>& bindings) {
    const heddle_point_t point = {driver().make_timeline(), 1};
    const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    return driver().await(driver().dispatch_api->replay(recording, bindings.data(), static_cast<uint32_t>(bindings.size()), &sync), point);
  }
  void free_recording(heddle_recording_t* recording) { driver().dispatch_api->recording_free(recording); }
};

TEST_F(CudaRecording, ReplaysKernelsWithOtherBuffers) {
  Loaded add(&driver(), add_facts());
  const uint64_t count = 10000, bytes = count * 4;
  std::vector<float> ones(count, 1), ramp(count);
  std::iota(ramp.begin(), ramp.end(), 0.0f);
  heddle_buffer_t *a = driver().make_filled(ones), *b = driver().make_filled(ramp), *middle = driver().make_buffer(bytes);
  heddle_buffer_t* outs[] = {driver().make_buffer(bytes), driver().make_buffer(2 * bytes)};
  const std::vector<heddle_binding_t> first = {{a, 0, bytes}, {b, 0, bytes}, {middle, 0, bytes}};
  const std::vector<heddle_binding_t> second = {{middle, 0, bytes}, {b, 0, bytes}, {outs[0], 0, bytes}};
  const std::vector<int64_t> constants = {static_cast<int64_t>(count), 2};
  const uint32_t grid = (count + 127) / 128;
  heddle_recording_t* recording = nullptr;
  // The inputs of both and the output of the second change; what lies between does not.
  ASSERT_OK(record({add.command(first, constants, grid), barrier(), add.command(second, constants, grid)}, {1, 1, 0, 0, 1, 1}, &recording));
  for (int turn = 0; turn < 20; ++turn) {
    heddle_buffer_t* out = outs[turn % 2];
    const uint64_t offset = turn % 2 ? bytes : 0;
    heddle_buffer_t *left = turn % 3 ? a : b, *right = turn % 3 ? b : a;
    ASSERT_OK(replay(recording, {{left, 0, bytes}, {right, 0, bytes}, {right, 0, bytes}, {out, offset, bytes}}));
    std::vector<float> got(count);
    driver().read(out, offset, got.data(), bytes);
    size_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) wrong += got[i] != ones[i] + ramp[i] + 2 + (turn % 3 ? ramp[i] : ones[i]) + 2;
    EXPECT_EQ(wrong, 0u) << turn;
    EXPECT_OK(driver().run({fill(out, offset, bytes, 0, 4)}));
  }
  free_recording(recording);
  free({a, b, middle, outs[0], outs[1]});
}

TEST_F(CudaRecording, ReplaysCopiesFillsAndUpdates) {
  const std::vector<uint8_t> bytes = noise(5000), other_bytes = noise(5000, 2);
  heddle_buffer_t *a = driver().make_filled(bytes), *b = driver().make_filled(other_bytes);
  heddle_buffer_t *x = driver().make_buffer(6000), *y = driver().make_buffer(6000),
                  *z = driver().make_filled(std::vector<uint8_t>(1000, 0));
  std::vector<uint8_t> words = noise(100, 3);
  const std::vector<uint8_t> captured = words;
  const heddle_binding_t rows_from = {a, 0, 1000}, rows_to = {z, 0, 1000};
  heddle_command_t rows = {};
  rows.kind = HEDDLE_COMMAND_COPY_2D;
  rows.as.copy_2d = {&rows_from, &rows_to, 20, 30, 11, 8};
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(record({fill(x, 0, 6000, 0x5a, 1), barrier(), copy(a, 100, x, 1, 777), fill(x, 1000, 400, 0x11223344, 4),
                    update(x, 2001, words.data(), 100), rows, fill(x, 0, 0, 0, 1), copy(a, 0, x, 0, 0)},
                   {1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, &recording));
  words.assign(100, 0);
  for (int turn = 0; turn < 4; ++turn) {
    heddle_buffer_t *from = turn % 2 ? b : a, *to = turn < 2 ? x : y;
    const std::vector<uint8_t>& source = turn % 2 ? other_bytes : bytes;
    ASSERT_OK(replay(recording, {{to, 0, 6000}, {from, 200, 777}, {to, 5, 777}, {to, 1200, 400}, {to, 2501, 100}}));
    std::vector<uint8_t> expected(6000, 0x5a);
    std::copy_n(source.begin() + 200, 777, expected.begin() + 5);
    for (size_t i = 0; i < 400; ++i) expected[1200 + i] = static_cast<uint8_t>(0x11223344u >> (8 * (i % 4)));
    std::copy(captured.begin(), captured.end(), expected.begin() + 2501);
    const std::vector<uint8_t> got = driver().values_of<uint8_t>(to, 6000);
    const auto differs = std::mismatch(got.begin(), got.end(), expected.begin());
    EXPECT_TRUE(got == expected) << turn << ", from byte " << differs.first - got.begin();
  }
  std::vector<uint8_t> expected(1000, 0);
  for (long row = 0; row < 8; ++row) std::copy_n(bytes.begin() + row * 20, 11, expected.begin() + row * 30);
  EXPECT_EQ(driver().values_of<uint8_t>(z, 1000), expected);
  free_recording(recording);
  free({a, b, x, y, z});
}

TEST_F(CudaRecording, RefusesBindingsThatDoNotFit) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t *value = driver().make_filled(std::vector<uint64_t>(10, 1)), *other = driver().make_filled(std::vector<uint64_t>(10, 1));
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const std::vector<int64_t> constants = {4};
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(record({chain.command(bindings, constants), barrier(), copy(value, 0, other, 0, 16)}, {1, 1, 1}, &recording));
  const heddle_binding_t kernel = {value, 0, 8}, from = {value, 0, 16}, to = {other, 0, 16};
  EXPECT_FAILS(replay(recording, {kernel, from}), HEDDLE_STATUS_INVALID_ARGUMENT, "2 bindings");
  EXPECT_FAILS(replay(recording, {{value, 0, 16}, from, to}), HEDDLE_STATUS_INVALID_ARGUMENT, "HD-G-01");
  EXPECT_FAILS(replay(recording, {{value, 73, 8}, from, to}), HEDDLE_STATUS_OUT_OF_RANGE, "chain");
  EXPECT_FAILS(replay(recording, {{nullptr, 0, 8}, from, to}), HEDDLE_STATUS_OUT_OF_RANGE, "no buffer");
  EXPECT_FAILS(replay(recording, {kernel, from, {other, 65, 16}}), HEDDLE_STATUS_OUT_OF_RANGE, "80 bytes");
  EXPECT_FAILS(replay(recording, {kernel, from, {other, 0, 17}}), HEDDLE_STATUS_INVALID_ARGUMENT, "16 were recorded");
  EXPECT_FAILS(replay(recording, {kernel, from, {value, 8, 16}}), HEDDLE_STATUS_INVALID_ARGUMENT, "overlap");
  EXPECT_EQ(driver().values_of<uint64_t>(value, 10), std::vector<uint64_t>(10, 1)) << "nothing of a refused replay runs";
  // A refused replay leaves no trace in the next.
  ASSERT_OK(replay(recording, {{value, 64, 8}, {value, 64, 16}, {other, 64, 16}}));
  EXPECT_EQ(driver().values_of<uint64_t>(value, 9)[8], 7u);
  EXPECT_EQ(driver().values_of<uint64_t>(other, 9)[8], 7u);
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], 1u);
  free_recording(recording);
  free({value, other});
}

TEST_F(CudaRecording, SaysWhatItCannotRecord) {
  heddle_buffer_t* buffer = driver().make_buffer(100);
  heddle_recording_t* recording = nullptr;
  EXPECT_FAILS(record({fill(buffer, 0, 96, 0x0102030405060708, 8)}, {0}, &recording), HEDDLE_STATUS_UNIMPLEMENTED, "command 0");
  EXPECT_FAILS(record({barrier(), fill(buffer, 0, 99, 0x0102, 2)}, {0}, &recording), HEDDLE_STATUS_UNIMPLEMENTED, "command 1");
  const heddle_binding_t rows_from = {buffer, 0, 0}, rows_to = {buffer, 50, 0};
  heddle_command_t rows = {};
  rows.kind = HEDDLE_COMMAND_COPY_2D;
  rows.as.copy_2d = {&rows_from, &rows_to, 16, 16, 8, 3};
  EXPECT_FAILS(record({rows}, {0, 1}, &recording), HEDDLE_STATUS_UNIMPLEMENTED, "2-D copy");
  EXPECT_FAILS(record({fill(buffer, 0, 101, 0, 1)}, {0}, &recording), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  EXPECT_EQ(recording, nullptr);
  free({buffer});
}

TEST_F(CudaRecording, RunsLongListsManyTimesInARow) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* values[] = {driver().make_filled(std::vector<uint64_t>{1}), driver().make_filled(std::vector<uint64_t>{1})};
  const std::vector<heddle_binding_t> bindings = {{values[0], 0, 8}};
  std::vector<std::vector<int64_t>> constants;
  for (int64_t i = 0; i < 200; ++i) constants.push_back({i});
  std::vector<heddle_command_t> commands;
  for (const std::vector<int64_t>& constant : constants) commands.insert(commands.end(), {chain.command(bindings, constant), barrier()});
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(record(commands, std::vector<uint8_t>(200, 1), &recording));
  heddle_timeline_t* timeline = driver().make_timeline();
  uint64_t expected[] = {1, 1};
  for (uint64_t turn = 0; turn < 100; ++turn) {
    const size_t which = turn / 3 % 2;
    const std::vector<heddle_binding_t> all(200, {values[which], 0, 8});
    const heddle_point_t before = {timeline, turn}, after = {timeline, turn + 1};
    const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &before, &after};
    ASSERT_OK(driver().dispatch_api->replay(recording, all.data(), 200, &sync));
    ASSERT_TRUE(driver().wait(timeline, turn + 1, kPatience).ok());
    for (uint64_t i = 0; i < 200; ++i) expected[which] = expected[which] * 3 + i;
  }
  for (int i : {0, 1}) EXPECT_EQ(driver().values_of<uint64_t>(values[i], 1)[0], expected[i]);
  EXPECT_EQ(driver().statistics().dispatches, 20000u);
  driver().timeline_api->destroy(timeline);
  free_recording(recording);
  free({values[0], values[1]});
}

// Groups of many commands between barriers, which are joined.
TEST_F(CudaRecording, OrdersWideGroups) {
  Loaded chain(&driver(), chain_facts());
  constexpr uint64_t kWidth = 20, kDepth = 6;
  heddle_buffer_t* values = driver().make_filled(std::vector<uint64_t>(kWidth * 32, 1));
  heddle_buffer_t* others = driver().make_filled(std::vector<uint64_t>(kWidth * 32, 0));
  std::vector<std::vector<heddle_binding_t>> bindings;
  for (uint64_t i = 0; i < kWidth; ++i) bindings.push_back({{values, i * 256, 8}});
  const std::vector<int64_t> constants = {5};
  std::vector<heddle_command_t> commands;
  for (uint64_t level = 0; level < kDepth; ++level) {
    for (uint64_t i = 0; i < kWidth; ++i) commands.push_back(chain.command(bindings[i], constants));
    commands.push_back(barrier());
    // Everyone takes what the neighbour has.
    commands.push_back(copy(values, 0, others, 256, (kWidth - 1) * 256));
    commands.push_back(copy(values, (kWidth - 1) * 256, others, 0, 256));
    commands.push_back(barrier());
    commands.push_back(copy(others, 0, values, 0, kWidth * 256));
    commands.push_back(barrier());
    commands.push_back(barrier());
  }
  uint64_t dynamic = kDepth * (kWidth + 6);
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(record(commands, std::vector<uint8_t>(dynamic, 0), &recording));
  ASSERT_OK(driver().run({fill(values, 0, kWidth * 256, 0, 1), barrier()}));
  for (uint64_t i = 0; i < kWidth; ++i) driver().write(values, i * 256, &i, 8);
  ASSERT_OK(replay(recording, {}));
  std::vector<uint64_t> expected(kWidth);
  std::iota(expected.begin(), expected.end(), 0u);
  for (uint64_t level = 0; level < kDepth; ++level) {
    for (uint64_t& value : expected) value = value * 3 + 5;
    std::rotate(expected.rbegin(), expected.rbegin() + 1, expected.rend());
  }
  const std::vector<uint64_t> got = driver().values_of<uint64_t>(values, kWidth * 32);
  for (uint64_t i = 0; i < kWidth; ++i) EXPECT_EQ(got[i * 32], expected[i]) << i;
  free_recording(recording);
  free({values, others});
}

TEST_F(CudaRecording, EarlyStartKeepsAChainInOrder) {
  if (!is_hopper) GTEST_SKIP() << "SKIP: early start needs compute capability 9.0";
  Loaded shuffle(&driver(), {"shuffle", 2, 2, {256, 1, 1}}, "sm_90a");
  const uint32_t count = 200003, steps = 100;
  const uint64_t bytes = count * 4;
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0u);
  heddle_buffer_t *a = driver().make_filled(values), *b = driver().make_buffer(bytes);
  const std::vector<heddle_binding_t> there = {{a, 0, bytes}, {b, 0, bytes}}, back = {{b, 0, bytes}, {a, 0, bytes}};
  const std::vector<int64_t> constants = {count, 4099};
  std::vector<heddle_command_t> commands;
  for (uint32_t i = 0; i < steps; ++i) {
    commands.insert(commands.end(), {shuffle.command(i % 2 ? back : there, constants, (count + 255) / 256), barrier()});
  }
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(record(commands, std::vector<uint8_t>(2 * steps, 0), &recording));
  std::vector<uint32_t> next(count);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_OK(replay(recording, {}));
    for (uint32_t i = 0; i < steps; ++i) {
      for (uint32_t at = 0; at < count; ++at) next[at] = values[(at + 4099) % count] * 3 + 1;
      values.swap(next);
    }
    EXPECT_TRUE(driver().values_of<uint32_t>(a, count) == values) << turn;
  }
  free_recording(recording);
  free({a, b});
}

// out = ((b + b) + b) + ... by `steps` additions that only read b, and one that copies b's first bytes to `head`. Small and many: b is copied
// into place; large or few: every node is patched.
class CudaReadOnlyRecording : public CudaRecording, public ::testing::WithParamInterface<std::pair<uint64_t, size_t>> {};

TEST_P(CudaReadOnlyRecording, ReplaysWithOtherBuffers) {
  const auto [count, steps] = GetParam();
  const uint64_t bytes = count * 4;
  Loaded add(&driver(), add_facts());
  std::vector<float> ramp(2 * count + 64);
  std::iota(ramp.begin(), ramp.end(), 1.0f);
  heddle_buffer_t *b = driver().make_filled(ramp), *other = driver().make_filled(std::vector<float>(count, 3));
  heddle_buffer_t* sums[] = {driver().make_buffer(bytes), driver().make_buffer(bytes)};
  heddle_buffer_t *out = driver().make_buffer(bytes), *head = driver().make_buffer(64);
  std::vector<std::vector<heddle_binding_t>> bindings;
  const std::vector<int64_t> constants = {static_cast<int64_t>(count), 0};
  constexpr uint8_t kRead = HEDDLE_BINDING_DYNAMIC | HEDDLE_BINDING_READ_ONLY;
  std::vector<uint8_t> dynamic;
  for (size_t i = 0; i < steps; ++i) {
    const bool is_first = i == 0, is_last = i + 1 == steps;
    heddle_buffer_t *from = is_first ? b : sums[i % 2], *to = is_last ? out : sums[(i + 1) % 2];
    bindings.push_back({{from, 0, bytes}, {b, 0, bytes}, {to, 0, bytes}});
    dynamic.insert(dynamic.end(), {is_first ? kRead : uint8_t{0}, kRead, is_last ? uint8_t{HEDDLE_BINDING_DYNAMIC} : uint8_t{0}});
  }
  std::vector<heddle_command_t> commands;
  const auto grid = static_cast<uint32_t>((count + 127) / 128);
  for (const std::vector<heddle_binding_t>& one : bindings) commands.insert(commands.end(), {add.command(one, constants, grid), barrier()});
  commands.push_back(copy(b, 0, head, 0, 64));
  dynamic.insert(dynamic.end(), {kRead, HEDDLE_BINDING_DYNAMIC});
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(record(commands, dynamic, &recording));

  // Which bytes each addition reads: as recorded, moved all at once, one apart from the rest, and together again.
  const heddle_binding_t here = {b, 0, bytes}, moved = {b, 64, bytes}, elsewhere = {other, 0, bytes};
  auto value = [&](const heddle_binding_t& from, uint64_t at) {
    return from.buffer == other ? 3.0 : static_cast<double>(at + from.offset / 4 + 1);
  };
  const std::vector<std::pair<heddle_binding_t, heddle_binding_t>> turns = {
      // all but one, and that one
      {here, here}, {moved, moved}, {elsewhere, elsewhere}, {moved, here}, {here, elsewhere}, {moved, moved}, {here, here}};
  size_t turn = 0;
  for (const auto& [most, one] : turns) {
    const size_t odd_one = turn % 2 ? steps : steps / 2;  // counted with the first operand of the first addition
    std::vector<heddle_binding_t> all;
    for (size_t i = 0; i <= steps; ++i) all.push_back(i == odd_one ? one : most);
    all.push_back({out, 0, bytes});
    all.push_back({most.buffer, most.offset, 64});
    all.push_back({head, 0, 64});
    // One that is refused in the middle leaves no trace.
    std::vector<heddle_binding_t> bad = all;
    bad[0] = moved, bad[1] = elsewhere, bad[steps / 2 + 1].offset = UINT64_MAX;
    EXPECT_FAILS(replay(recording, bad), HEDDLE_STATUS_OUT_OF_RANGE, "add_f32");
    ASSERT_OK(replay(recording, all));
    const std::vector<float> got = driver().values_of<float>(out, count);
    size_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) {
      wrong += got[i] != static_cast<float>(value(most, i) * static_cast<double>(steps) + value(one, i));
    }
    EXPECT_EQ(wrong, 0u) << turn;
    EXPECT_EQ(driver().values_of<float>(head, 1)[0], static_cast<float>(value(most, 0))) << turn;
    ASSERT_OK(driver().run({fill(out, 0, bytes, 0, 4), fill(head, 0, 64, 0, 4)}));
    ++turn;
  }
  free_recording(recording);
  free({b, other, sums[0], sums[1], out, head});
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaReadOnlyRecording,
                         ::testing::Values(std::pair<uint64_t, size_t>{1000, 40}, std::pair<uint64_t, size_t>{300000, 40},
                                           std::pair<uint64_t, size_t>{1000, 5}));

TEST_F(CudaRecording, IsAChildOfItsDevice) {
  heddle_device_t* device = driver().open(0);
  heddle_queue_t* queue = driver().make_queue(device);
  heddle_recording_t* recording = nullptr;
  ASSERT_OK(driver().dispatch_api->record(queue, nullptr, 0, nullptr, &recording));
  EXPECT_FAILS(driver().device_api->close(device), HEDDLE_STATUS_FAILED_PRECONDITION, "1 recording");
  free_recording(recording);
  EXPECT_OK(driver().device_api->queue_destroy(queue));
  EXPECT_OK(driver().device_api->close(device));
}

}  // namespace
}  // namespace heddle::test
