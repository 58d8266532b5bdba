// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The validation layer on what a driver tells of its reads and writes: progress that is not true, late, too often or at once, and a cancellation that it
// does not heed. Runs on every driver, between which and the layer a function stands that breaks a rule.
#include <unistd.h>

#include <thread>

#include "../temporary_folder.h"
#include "validation_case.h"

namespace heddle::test {
namespace {

constexpr uint64_t kChunk = 64 << 10;  // of a read, so that there are many
constexpr uint64_t kSize = 1024 * kChunk;

using Progress = void (*)(void* context, uint64_t done_bytes, uint64_t total_bytes);
// Of the read that is on its way: what the layer gave the driver.
heddle_param_io_params_t told_to_driver;
Progress twist;  // what the driver reports to instead

class ParamIoFaults : public Validated {
 protected:
  void SetUp() override {
    descriptor = testing::open_unnamed_file();
    ASSERT_EQ(ftruncate(descriptor, kSize), 0);
    params.struct_size = sizeof params;
    params.chunk_bytes = kChunk;
  }
  void open_with(Progress function) {
    twist = function;
    open([] {
      bad.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* of, const heddle_extent_t* extents,
                             uint64_t count, const heddle_param_io_params_t* given) noexcept {
        told_to_driver = *given;
        heddle_param_io_params_t own = *given;
        own.progress = twist;
        return good.param_io.read(queue, sync, of, extents, count, &own);
      };
    });
    open_file();
  }
  void open_file() {
    EXPECT_OK(driver().param_io_api->file_open(driver().device, descriptor, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE, string_of("weights.bin"),
                                               &file));
    buffer = driver().make_buffer(kSize);
  }
  static void tell(uint64_t done, uint64_t total) { told_to_driver.progress(told_to_driver.context, done, total); }

  // Reads, or writes, and waits; the failure of either.
  heddle_status_t* move(const std::vector<heddle_extent_t>& extents, bool writes = false, bool with_params = true) {
    heddle_timeline_t* done = driver().make_timeline();
    const heddle_point_t point = {done, 1};
    const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    auto* function = writes ? driver().param_io_api->write : driver().param_io_api->read;
    return driver().await(function(driver().queue, &sync, file, extents.data(), extents.size(), with_params ? &params : nullptr), point);
  }
  heddle_status_t* read() { return move({{0, kSize, buffer, 0}}); }
  void expect_one(const std::string& rule, const std::string& text) {
    expect_told("the plugin", rule);
    EXPECT_NE(host.logged().find(text), std::string::npos) << host.logged();
    EXPECT_EQ(violations(), 1u) << host.logged();
  }
  void TearDown() override {
    if (file) driver().param_io_api->file_close(file);
    if (buffer) driver().buffer_api->free(buffer);
    close(descriptor);
    Validated::TearDown();
  }

  int descriptor = -1;
  heddle_file_t* file = nullptr;
  heddle_buffer_t* buffer = nullptr;
  heddle_param_io_params_t params = {};
};
INSTANTIATE_TEST_SUITE_P(Drivers, ParamIoFaults, every_driver(), name_of);

TEST_P(ParamIoFaults, NothingIsToldOfWhatIsRight) {
  open();
  open_file();
  EXPECT_OK(read());
  EXPECT_OK(move({{0, kSize, buffer, 0}}, true));
  EXPECT_OK(move({{0, kSize, buffer, 0}}, false, false));
  EXPECT_OK(move({{1, 10000, buffer, 3}, {5000, 0, buffer, 0}, {77777, 4097, buffer, 20001}}));
  EXPECT_OK(move({}));
  uint64_t last = 0;
  params.progress = [](void* to, uint64_t done, uint64_t) { *static_cast<uint64_t*>(to) = done; };
  params.context = &last;
  EXPECT_OK(read());
  EXPECT_EQ(last, kSize);  // the host is told as well
  EXPECT_FAILS(move({{kSize - 10, 11, buffer, 0}}), HEDDLE_STATUS_DATA_LOSS, "");
  const volatile uint32_t cancel = 1;
  params.cancel = &cancel;
  EXPECT_FAILS(read(), HEDDLE_STATUS_CANCELLED, "");
  params.cancel = nullptr;
  params.struct_size = 4;  // of a host that knows no more
  EXPECT_OK(read());
  EXPECT_EQ(violations(), 0u) << host.logged();
}

TEST_P(ParamIoFaults, GoesBack) {
  open_with([](void*, uint64_t done, uint64_t total) {
    tell(done, total);
    if (done == total / 2) tell(done - 1, total);
  });
  EXPECT_OK(read());
  expect_one("HD-T-04", "33554431 bytes are reported as done, but 33554432 were before");
}

TEST_P(ParamIoFaults, TellsMoreThanThereIs) {
  open_with([](void*, uint64_t done, uint64_t total) { tell(done, done == total ? total + 1 : total); });
  EXPECT_OK(read());
  expect_one("HD-T-04", "67108864 of 67108865 bytes are reported, but the extents have 67108864");
}

TEST_P(ParamIoFaults, NeverTellsTheEnd) {
  open_with([](void*, uint64_t done, uint64_t total) {
    if (done != total) tell(done, total);
  });
  EXPECT_OK(read());  // the bytes are there
  expect_one("HD-T-04", "only 67043328 of 67108864 bytes were reported when all of them were complete");
}

TEST_P(ParamIoFaults, NeverTells) {
  open_with([](void*, uint64_t, uint64_t) {});
  EXPECT_OK(read());
  expect_one("HD-T-04", "only 0 of 67108864 bytes were reported when all of them were complete");
}

TEST_P(ParamIoFaults, TellsMoreOftenThanEveryChunk) {
  open_with([](void*, uint64_t done, uint64_t total) {
    tell(done, total);
    tell(done, total);
  });
  EXPECT_OK(read());
  expect_one("HD-T-04", "which have at most 1027 chunks");
}

TEST_P(ParamIoFaults, TellsTwiceAtOnce) {
  open_with([](void*, uint64_t done, uint64_t total) { tell(done, total); });
  params.progress = [](void*, uint64_t done, uint64_t total) {  // as if another thread of the driver's came meanwhile
    if (done == total / 2) std::thread([=] { tell(done, total); }).join();
  };
  EXPECT_OK(read());
  expect_one("HD-T-04", "while another report was in progress");
}

TEST_P(ParamIoFaults, TellsAfterTheSignal) {
  open_with([](void*, uint64_t done, uint64_t total) { tell(done, total); });
  static int reports;
  reports = 0;
  params.progress = [](void*, uint64_t, uint64_t) { ++reports; };
  EXPECT_OK(read());
  EXPECT_EQ(violations(), 0u) << host.logged();
  const int before = reports;
  tell(kSize, kSize);
  expect_one("HD-Q-06", "67108864 bytes were reported after the end of the work");
  EXPECT_EQ(reports, before);  // the host does not expect it
}

TEST_P(ParamIoFaults, SignalsBeforeAReportIsOver) {
  static std::atomic<bool> inside, leave;
  inside = leave = false;
  open_with([](void*, uint64_t, uint64_t) {});
  params.progress = [](void*, uint64_t, uint64_t) {
    inside = true;
    while (!leave) std::this_thread::yield();
  };
  heddle_timeline_t* done = driver().make_timeline();
  const heddle_point_t point = {done, 1};
  const heddle_extent_t extent = {0, kSize, buffer, 0};
  const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
  EXPECT_OK(driver().param_io_api->read(driver().queue, &sync, file, &extent, 1, &params));
  std::thread report([] { tell(kSize, kSize); });
  while (!inside) std::this_thread::yield();
  EXPECT_TRUE(driver().wait(done, 1).ok());
  leave = true;
  report.join();
  expect_one("HD-Q-06", "its signal came before a report of 67108864 bytes had returned");
  driver().timeline_api->destroy(done);
}

TEST_P(ParamIoFaults, DoesNotHeedACancellation) {
  open([] {
    bad.param_io.read = [](heddle_queue_t* queue, const heddle_sync_t* sync, heddle_file_t* of, const heddle_extent_t* extents,
                           uint64_t count, const heddle_param_io_params_t* given) noexcept {
      heddle_param_io_params_t own = *given;
      own.cancel = nullptr;
      return good.param_io.read(queue, sync, of, extents, count, &own);
    };
  });
  open_file();
  static std::atomic<uint32_t> cancel;
  cancel = 1;
  params.cancel = reinterpret_cast<const volatile uint32_t*>(&cancel);
  EXPECT_OK(read());
  expect_one("HD-T-04", "it was cancelled when 0 of 67108864 bytes were done");
  // Not before, but while it reads.
  cancel = 0;
  params.progress = [](void*, uint64_t done, uint64_t total) { cancel = done >= total / 4; };
  EXPECT_OK(read());
  EXPECT_EQ(violations(), 2u) << host.logged();
  // At its end, when it was too late.
  params.progress = [](void*, uint64_t done, uint64_t total) { cancel = done >= total - total / 8; };
  cancel = 0;
  EXPECT_OK(read());
  EXPECT_EQ(violations(), 2u) << host.logged();
}

TEST_P(ParamIoFaults, TheHostGivesExtentsThatAreNone) {
  open();
  open_file();
  for (const heddle_extent_t& extent : {heddle_extent_t{0, kSize + 1, buffer, 0}, heddle_extent_t{0, 1, buffer, kSize},
                                        heddle_extent_t{UINT64_MAX, 2, buffer, 0}, heddle_extent_t{0, 2, buffer, UINT64_MAX}}) {
    expect_host_fault(move({extent}), "HD-M-02");
  }
  params.struct_size = 0;
  expect_host_fault(read(), "HD-E-04");
  expect_host_fault(driver().param_io_api->file_open(driver().device, -1, HEDDLE_FILE_READ, {}, &file), "HD-M-02");
}

}  // namespace
}  // namespace heddle::test
