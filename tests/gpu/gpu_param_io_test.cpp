// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.param_io/1 on a device: several files, small chunks, little pinned memory, files that shrink or are replaced, writes.
#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "../temporary_folder.h"
#include "cuda_case.h"

namespace heddle::test {
namespace {

struct Seen {
  std::mutex mutex;
  std::vector<uint64_t> done;
  uint64_t total = 0;
  volatile uint32_t cancel = 0;
  std::function<void(uint64_t done)> then;
  static void see(void* context, uint64_t done, uint64_t total) {
    auto* at = static_cast<Seen*>(context);
    std::lock_guard<std::mutex> lock(at->mutex);
    at->done.push_back(done);
    at->total = total;
    if (at->then) at->then(done);
  }
};

class CudaParamIo : public Cuda {
 protected:
  void TearDown() override {
    if (driver_owner) {
      for (heddle_file_t* file : files_) driver().param_io_api->file_close(file);
    }
    Cuda::TearDown();
  }
  std::string path(const std::string& name) { return folder_.path(name); }
  void write_whole(const std::string& at, const std::vector<uint8_t>& bytes) {
    const int descriptor = ::open(at.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT_GE(descriptor, 0) << at;
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = ::write(descriptor, bytes.data() + done, bytes.size() - done);
      ASSERT_GT(wrote, 0);
      done += static_cast<size_t>(wrote);
    }
    ::close(descriptor);
  }
  // A file with these bytes, opened by the driver.
  heddle_file_t* make_file(const std::string& name, const std::vector<uint8_t>& bytes) {
    write_whole(path(name), bytes);
    const int descriptor = ::open(path(name).c_str(), O_RDWR | O_CLOEXEC);
    heddle_file_t* file = nullptr;
    EXPECT_OK(driver().param_io_api->file_open(driver().device, descriptor, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE, string_of(name), &file));
    ::close(descriptor);
    files_.push_back(file);
    return file;
  }
  static heddle_param_io_params_t params(uint64_t chunk_bytes, uint64_t pinned_bytes = 0, Seen* seen = nullptr) {
    heddle_param_io_params_t made = {};
    made.struct_size = sizeof made;
    made.chunk_bytes = chunk_bytes;
    made.pinned_bytes = pinned_bytes;
    if (seen) {
      made.progress = Seen::see;
      made.context = seen;
      made.cancel = &seen->cancel;
    }
    return made;
  }
  // Moves and waits; the failure of either.
  heddle_status_t* move(heddle_file_t* file, const std::vector<heddle_extent_t>& extents, const heddle_param_io_params_t* how = nullptr,
                        bool writes = false) {
    const heddle_point_t point = {driver().make_timeline(), 1};
    const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    auto* call = writes ? driver().param_io_api->write : driver().param_io_api->read;
    return driver().await(call(driver().queue, &sync, file, extents.data(), extents.size(), how), point);
  }

 private:
  const testing::TemporaryFolder folder_;
  std::vector<heddle_file_t*> files_;
};

TEST_F(CudaParamIo, ReadsWholeFilesInChunksOfEverySize) {
  const std::vector<uint8_t> bytes = noise(30000001);
  heddle_file_t* file = make_file("whole.bin", bytes);
  for (uint64_t chunk : {0ull, 1ull, 65536ull, 1000000ull, 100000000ull}) {
    for (uint32_t memory : {HEDDLE_MEMORY_DEVICE, HEDDLE_MEMORY_HOST_VISIBLE}) {
      heddle_buffer_t* buffer = driver().make_buffer(bytes.size(), memory);
      const heddle_param_io_params_t how = params(chunk);
      EXPECT_OK(move(file, {{0, bytes.size(), buffer, 0}}, &how));
      EXPECT_TRUE(driver().values_of<uint8_t>(buffer, bytes.size()) == bytes) << chunk;
      free({buffer});
    }
  }
}

TEST_F(CudaParamIo, ReadsExtentsOfSeveralFilesAtOnce) {
  constexpr uint64_t kFiles = 5, kSize = 2000000;
  std::vector<std::vector<uint8_t>> contents;
  std::vector<heddle_file_t*> files;
  heddle_buffer_t *device = driver().make_buffer(kFiles * kSize), *pinned = driver().make_buffer(kFiles * 1000, HEDDLE_MEMORY_PINNED);
  ASSERT_OK(driver().run({fill(device, 0, kFiles * kSize, 0, 1), fill(pinned, 0, kFiles * 1000, 0, 1)}));
  std::vector<uint8_t> expected(kFiles * kSize, 0), expected_pinned(kFiles * 1000, 0);
  heddle_timeline_t* timeline = driver().make_timeline();
  heddle_queue_t* other = driver().make_queue(driver().device);
  for (uint64_t f = 0; f < kFiles; ++f) {
    contents.push_back(noise(kSize, static_cast<uint32_t>(f)));
    files.push_back(make_file("part" + std::to_string(f) + ".bin", contents.back()));
  }
  for (uint64_t f = 0; f < kFiles; ++f) {
    std::vector<heddle_extent_t> extents;
    for (uint64_t i = 0; i < 40; ++i) {
      const heddle_extent_t extent = {(i * 79193) % (kSize - 70000) + 1, i == 3 ? 0 : 1 + (i * 3571) % 40000, device,
                                      f * kSize + i * 45000 + 3};
      extents.push_back(extent);
      std::copy_n(contents[f].begin() + static_cast<long>(extent.file_offset), extent.length,
                  expected.begin() + static_cast<long>(extent.buffer_offset));
    }
    extents.push_back({5, 990, pinned, f * 1000 + 7});
    std::copy_n(contents[f].begin() + 5, 990, expected_pinned.begin() + static_cast<long>(f * 1000 + 7));
    const heddle_point_t before = {timeline, f}, after = {timeline, f + 1};
    const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &before, &after};
    const heddle_param_io_params_t how = params(8192, 65536);
    ASSERT_OK(driver().param_io_api->read(f % 2 ? other : driver().queue, &sync, files[f], extents.data(), extents.size(), &how));
  }
  EXPECT_TRUE(driver().wait(timeline, kFiles, kPatience).ok());
  EXPECT_TRUE(driver().values_of<uint8_t>(device, expected.size()) == expected);
  EXPECT_TRUE(driver().values_of<uint8_t>(pinned, expected_pinned.size()) == expected_pinned);
  driver().timeline_api->destroy(timeline);
  free({device, pinned});
  EXPECT_OK(driver().device_api->queue_destroy(other));
}

TEST_F(CudaParamIo, ReadsPastThePageCacheTheSame) {
  const std::vector<uint8_t> bytes = noise(30000001);
  heddle_file_t* file = make_file("direct.bin", bytes);
  heddle_buffer_t *device = driver().make_buffer(bytes.size()), *pinned = driver().make_buffer(bytes.size(), HEDDLE_MEMORY_PINNED);
  for (const auto& [chunk, staging] : {std::pair<uint64_t, uint64_t>{0, 0}, {4096, 65536}, {300000, 5000000}}) {
    for (heddle_buffer_t* buffer : {device, pinned}) {
      heddle_param_io_params_t how = params(chunk, staging);
      how.method = HEDDLE_FILE_METHOD_DIRECT;
      ASSERT_OK(driver().run({fill(buffer, 0, bytes.size(), 0, 1)}));
      std::vector<uint8_t> expected(bytes.size(), 0);
      std::vector<heddle_extent_t> extents = {
          {19999999, 10000002, buffer, 19999999}, {4096, 4096, buffer, 4096}, {8192, 900000, buffer, 8193}};
      for (uint64_t i = 0; i < 400; ++i) {
        const uint64_t at = 1000000 + i * 40009;
        extents.push_back({at, 1 + i * 91, buffer, at + i % 3});
      }
      for (const heddle_extent_t& extent : extents) {
        std::copy_n(bytes.begin() + static_cast<long>(extent.file_offset), extent.length,
                    expected.begin() + static_cast<long>(extent.buffer_offset));
      }
      EXPECT_OK(move(file, extents, &how));
      EXPECT_TRUE(driver().values_of<uint8_t>(buffer, bytes.size()) == expected) << chunk;
    }
  }
  free({device, pinned});
}

TEST_F(CudaParamIo, SaysWhichExtentFailed) {
  heddle_file_t* file = make_file("extents.bin", noise(10000));
  heddle_buffer_t* buffer = driver().make_buffer(20000);
  EXPECT_EQ(Result(move(file, {{0, 5000, buffer, 0}, {5000, 0, buffer, 0}, {9000, 2000, buffer, 5000}, {100, 10, buffer, 15000}}))
                .payload("extent"),
            "2");
  heddle_param_io_params_t how = params(0);
  how.method = 77;
  EXPECT_FAILS(move(file, {{0, 5000, buffer, 0}}, &how), HEDDLE_STATUS_UNIMPLEMENTED, "no method number 77");
  free({buffer});
}

TEST_F(CudaParamIo, KeepsToItsPinnedMemory) {
  const std::vector<uint8_t> bytes = noise(20000000);
  heddle_file_t* file = make_file("tight.bin", bytes);
  heddle_buffer_t* buffer = driver().make_buffer(bytes.size());
  for (const auto& [chunk, pinned] : {std::pair<uint64_t, uint64_t>{4096, 4096}, {65536, 200000}, {0, 300000}, {1 << 20, 400000}}) {
    const uint64_t before = driver().statistics().bytes_reserved;
    const heddle_param_io_params_t how = params(chunk, pinned);
    EXPECT_OK(move(file, {{0, bytes.size(), buffer, 0}}, &how));
    EXPECT_LE(driver().statistics().bytes_reserved, before + pinned) << chunk;
    EXPECT_TRUE(driver().values_of<uint8_t>(buffer, 1000) == std::vector<uint8_t>(bytes.begin(), bytes.begin() + 1000));
    std::vector<uint8_t> tail(1000);
    driver().read(buffer, bytes.size() - 1000, tail.data(), 1000);
    EXPECT_TRUE(std::equal(tail.begin(), tail.end(), bytes.end() - 1000));
    ASSERT_OK(driver().run({fill(buffer, 0, bytes.size(), 0, 1)}));
  }
  free({buffer});
}

TEST_F(CudaParamIo, ReportsGrowingProgressUpToTheWhole) {
  const std::vector<uint8_t> bytes = noise(3 << 20);
  heddle_file_t* file = make_file("progress.bin", bytes);
  heddle_buffer_t* buffer = driver().make_buffer(bytes.size());
  Seen seen;
  const heddle_param_io_params_t how = params(64 << 10, 0, &seen);
  EXPECT_OK(move(file, {{0, bytes.size(), buffer, 0}}, &how));
  EXPECT_EQ(seen.total, bytes.size());
  EXPECT_EQ(seen.done.size(), 48u);
  EXPECT_TRUE(std::is_sorted(seen.done.begin(), seen.done.end()));
  ASSERT_FALSE(seen.done.empty());
  EXPECT_EQ(seen.done.back(), bytes.size());
  free({buffer});
}

TEST_F(CudaParamIo, CanBeCancelledBeforeAndMeanwhile) {
  const std::vector<uint8_t> bytes = noise(8 << 20);
  heddle_file_t* file = make_file("cancel.bin", bytes);
  heddle_buffer_t* buffer = driver().make_buffer(bytes.size());
  Seen seen;
  seen.cancel = 1;
  heddle_param_io_params_t how = params(4096, 65536, &seen);
  EXPECT_FAILS(move(file, {{0, bytes.size(), buffer, 0}}, &how), HEDDLE_STATUS_CANCELLED, "cancel.bin");
  EXPECT_TRUE(seen.done.empty());
  EXPECT_FAILS(move(file, {}, &how), HEDDLE_STATUS_CANCELLED, "cancel.bin");
  seen.cancel = 0;
  seen.then = [&](uint64_t done) {
    if (done > bytes.size() / 4) seen.cancel = 1;
  };
  EXPECT_FAILS(move(file, {{0, bytes.size(), buffer, 0}}, &how), HEDDLE_STATUS_CANCELLED, "cancel.bin");
  ASSERT_FALSE(seen.done.empty());
  EXPECT_LT(seen.done.back(), bytes.size() / 2);
  seen.cancel = 0;
  seen.then = nullptr;
  EXPECT_OK(move(file, {{0, bytes.size(), buffer, 0}}, &how));
  EXPECT_TRUE(driver().values_of<uint8_t>(buffer, bytes.size()) == bytes);
  free({buffer});
}

TEST_F(CudaParamIo, AShortFileIsDataLossWithNameAndOffset) {
  heddle_file_t* file = make_file("short.bin", noise(100000));
  heddle_buffer_t* buffer = driver().make_buffer(200000);
  const heddle_param_io_params_t how = params(4096);
  EXPECT_FAILS(move(file, {{0, 100001, buffer, 0}}, &how), HEDDLE_STATUS_DATA_LOSS, "short.bin");
  EXPECT_FAILS(move(file, {{0, 100001, buffer, 0}}, &how), HEDDLE_STATUS_DATA_LOSS, "100000");
  EXPECT_FAILS(move(file, {{0, 100, buffer, 0}, {100000, 1, buffer, 100}}), HEDDLE_STATUS_DATA_LOSS, "100000");
  EXPECT_OK(move(file, {{0, 100000, buffer, 0}}));
  ASSERT_EQ(truncate(path("short.bin").c_str(), 50000), 0);
  EXPECT_FAILS(move(file, {{0, 100000, buffer, 0}}), HEDDLE_STATUS_DATA_LOSS, "50000");
  free({buffer});
  expect_works();
}

TEST_F(CudaParamIo, AFileThatShrinksMeanwhileIsDataLoss) {
  const std::vector<uint8_t> bytes = noise(16 << 20);
  heddle_file_t* file = make_file("shrinks.bin", bytes);
  heddle_buffer_t* buffer = driver().make_buffer(bytes.size());
  Seen seen;
  seen.then = [&](uint64_t done) {
    if (done < (2 << 20)) {
      EXPECT_EQ(truncate(path("shrinks.bin").c_str(), 1 << 20), 0);
    }
  };
  heddle_param_io_params_t how = params(16 << 10, 64 << 10, &seen);
  EXPECT_FAILS(move(file, {{0, bytes.size(), buffer, 0}}, &how), HEDDLE_STATUS_DATA_LOSS, "shrinks.bin");
  free({buffer});
  expect_works();
}

// What is opened stays what it was: another file of that name is not read, and never half of each.
TEST_F(CudaParamIo, AFileThatIsReplacedMeanwhileIsReadAsItWas) {
  const std::vector<uint8_t> bytes = noise(16 << 20), others = noise(16 << 20, 9);
  heddle_file_t* file = make_file("replaced.bin", bytes);
  write_whole(path("new.bin"), others);
  heddle_buffer_t* buffer = driver().make_buffer(bytes.size());
  Seen seen;
  seen.then = [&](uint64_t) { rename(path("new.bin").c_str(), path("replaced.bin").c_str()); };
  heddle_param_io_params_t how = params(16 << 10, 64 << 10, &seen);
  EXPECT_OK(move(file, {{0, bytes.size(), buffer, 0}}, &how));
  EXPECT_TRUE(driver().values_of<uint8_t>(buffer, bytes.size()) == bytes);
  EXPECT_FALSE(std::filesystem::exists(path("new.bin")));
  free({buffer});
}

TEST_F(CudaParamIo, WritesWhatItReads) {
  heddle_file_t* file = make_file("written.bin", noise(1000));
  for (uint64_t size : {3001ull, 9000000ull}) {
    const std::vector<uint8_t> bytes = noise(size, 4);
    heddle_buffer_t *buffer = driver().make_filled(bytes), *back = driver().make_buffer(size);
    Seen seen;
    const heddle_param_io_params_t how = params(300000, 1 << 20, &seen);
    EXPECT_OK(move(file, {{5, 1000, buffer, 10}, {1005, size - 1010, buffer, 1010}}, &how, true));
    EXPECT_EQ(seen.done.back(), size - 10);
    EXPECT_OK(move(file, {{5, size - 10, back, 3}}));
    EXPECT_EQ(std::filesystem::file_size(path("written.bin")), size - 5);
    std::vector<uint8_t> got(size - 10);
    driver().read(back, 3, got.data(), got.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin() + 10)) << size;
    free({buffer, back});
  }
}

TEST_F(CudaParamIo, WaitsForItsPointsAndFailsWithThem) {
  const std::vector<uint8_t> bytes = noise(1000);
  heddle_file_t* file = make_file("waits.bin", bytes);
  heddle_buffer_t* buffer = driver().make_buffer(1000);
  heddle_timeline_t *before = driver().make_timeline(), *after = driver().make_timeline(), *failed = driver().make_timeline();
  const heddle_point_t wait = {before, 1}, signal = {after, 1}, next = {before, 2}, last = {failed, 1};
  const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal}, second = {sizeof second, 1, 1, 0, &next, &last};
  const heddle_extent_t extent = {0, 1000, buffer, 0};
  ASSERT_OK(driver().param_io_api->read(driver().queue, &sync, file, &extent, 1, nullptr));
  ASSERT_OK(driver().param_io_api->read(driver().queue, &second, file, &extent, 1, nullptr));
  EXPECT_EQ(driver().wait(after, 1, 5000000).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_OK(driver().timeline_api->signal(before, 1));
  EXPECT_TRUE(driver().wait(after, 1, kPatience).ok());
  EXPECT_TRUE(driver().values_of<uint8_t>(buffer, 1000) == bytes);
  driver().timeline_api->fail(before, 2, host->table()->status_create(nullptr, HEDDLE_STATUS_ABORTED, {}, 0, string_of("gone")));
  Result result = driver().wait(failed, 1, kPatience);
  EXPECT_EQ(result.code(), HEDDLE_STATUS_ABORTED);
  EXPECT_EQ(result.message(), "gone");
  for (heddle_timeline_t* timeline : {before, after, failed}) driver().timeline_api->destroy(timeline);
  free({buffer});
}

TEST_F(CudaParamIo, RejectsExtentsOutsideOfBuffersAndFiles) {
  heddle_file_t* file = make_file("rejects.bin", noise(1000));
  heddle_buffer_t* buffer = driver().make_buffer(100);
  EXPECT_FAILS(move(file, {{0, 101, buffer, 0}}), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  EXPECT_FAILS(move(file, {{0, 2, buffer, UINT64_MAX}}), HEDDLE_STATUS_OUT_OF_RANGE, "extent 0");
  EXPECT_FAILS(move(file, {{0, 2, buffer, 0}, {UINT64_MAX - 1, 2, buffer, 0}}), HEDDLE_STATUS_OUT_OF_RANGE, "extent 1");
  EXPECT_FAILS(move(file, {{0, 2, nullptr, 0}}), HEDDLE_STATUS_INVALID_ARGUMENT, "extent 0");
  EXPECT_FAILS(move(nullptr, {{0, 2, buffer, 0}}), HEDDLE_STATUS_INVALID_ARGUMENT, "no file");
  heddle_file_t* other = nullptr;
  EXPECT_FAILS(driver().param_io_api->file_open(driver().device, 9999, HEDDLE_FILE_READ, string_of("none.bin"), &other),
               HEDDLE_STATUS_INVALID_ARGUMENT, "none.bin");
  free({buffer});
}

}  // namespace
}  // namespace heddle::test
