// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.profile/1 of heddle.cuda: times of commands beside times on the host.
#include <chrono>

#include "cuda_case.h"

namespace heddle::test {
namespace {

class CudaProfile : public Cuda {
 protected:
  heddle_status_t* run_timed(const std::vector<heddle_command_t>& commands, std::vector<heddle_command_time_t>* times) {
    times->assign(commands.size(), {7, 7});
    const heddle_point_t point = {driver().make_timeline(), 1};
    const heddle_submission_t submission = {
        sizeof submission, static_cast<uint32_t>(commands.size()), commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
    return driver().await(driver().profile_api->submit(driver().queue, &submission, times->data()), point);
  }
};

TEST_F(CudaProfile, TellsWhenEachCommandRan) {
  EXPECT_TRUE(description.features & HEDDLE_DEVICE_TIMESTAMPS);
  ASSERT_TRUE(driver().profile_api);
  Loaded linger(&driver(), linger_facts()), add(&driver(), add_facts());
  const uint64_t bytes = 64 << 20;
  heddle_buffer_t *a = driver().make_buffer(bytes), *b = driver().make_buffer(bytes);
  const std::vector<heddle_binding_t> none, three = {{a, 0, 16}, {a, 0, 16}, {b, 0, 16}};
  const std::vector<int64_t> two_ms = {2000000}, five_ms = {5000000}, sizes = {4, 0};
  const std::vector<heddle_command_t> commands = {linger.command(none, two_ms),  barrier(),          linger.command(none, five_ms),
                                                  copy(a, 0, b, 0, bytes),       barrier(),          fill(a, 0, bytes, 0, 1),
                                                  add.command(three, sizes, 0u), copy(a, 0, b, 0, 0)};
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<heddle_command_time_t> times;
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_OK(run_timed(commands, &times));
    const auto wall = static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    auto duration = [&](size_t i) { return times[i].end_ns - times[i].begin_ns; };
    EXPECT_GE(duration(0), 1990000u);
    EXPECT_LT(duration(0), 2500000u);
    EXPECT_GE(duration(2), 4990000u);
    EXPECT_LT(duration(2), 5500000u);
    for (size_t i : {3u, 5u}) {  // at least the time of the device's fastest memory
      EXPECT_GT(duration(i), 5000u) << i;
      EXPECT_LT(duration(i), 2000000u) << i;
    }
    for (size_t i : {1u, 4u, 6u, 7u}) EXPECT_EQ(times[i].end_ns, 0u) << i << ": nothing ran";
    EXPECT_LE(times[0].end_ns, times[2].begin_ns);
    EXPECT_LE(times[2].end_ns, times[3].begin_ns);
    EXPECT_LE(times[3].end_ns, times[5].begin_ns);
    EXPECT_LE(times[5].end_ns, wall);
  }
  // Nothing is left behind: an ordinary list on the same queue.
  EXPECT_OK(driver().run({fill(a, 0, 4096, 0x5a, 1)}));
  EXPECT_EQ(driver().values_of<uint8_t>(a, 4096), std::vector<uint8_t>(4096, 0x5a));
  free({a, b});
}

TEST_F(CudaProfile, ARefusedListHasNoTimes) {
  heddle_buffer_t* a = driver().make_buffer(100);
  std::vector<heddle_command_time_t> times;
  EXPECT_FAILS(run_timed({fill(a, 0, 100, 0, 1), fill(a, 0, 101, 0, 1)}, &times), HEDDLE_STATUS_OUT_OF_RANGE, "command 1");
  EXPECT_OK(run_timed({}, &times));
  free({a});
}

}  // namespace
}  // namespace heddle::test
