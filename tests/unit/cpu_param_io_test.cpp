// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading parameters through file handles: whole, in pieces, short, cancelled, written back. Runs on heddle.cpu and on test.streams.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "../temporary_folder.h"
#include "plugin_host.h"

namespace heddle::test {
namespace {

class ParamIo : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { descriptor = testing::open_unnamed_file(); }
  void TearDown() override {
    if (file) driver->param_io_api->file_close(file);
    close(descriptor);
    driver.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }
  std::vector<uint8_t> fill(uint64_t size) {
    std::vector<uint8_t> bytes(size);
    std::mt19937 random(5);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    EXPECT_EQ(pwrite(descriptor, bytes.data(), size, 0), static_cast<ssize_t>(size));
    EXPECT_OK(
        driver->param_io_api->file_open(driver->device, descriptor, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE, string_of("weights.bin"), &file));
    return bytes;
  }
  // Reads and waits; the failure of either.
  heddle_status_t* move(const std::vector<heddle_extent_t>& extents, const heddle_param_io_params_t* params = nullptr,
                        bool writes = false) {
    heddle_timeline_t* done = driver->make_timeline();
    heddle_point_t point = {done, 1};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    auto* call = writes ? driver->param_io_api->write : driver->param_io_api->read;
    heddle_status_t* failure = call(driver->queue, &sync, file, extents.data(), extents.size(), params);
    if (!failure) failure = driver->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
    driver->timeline_api->destroy(done);
    return failure;
  }

  PluginHost host;
  std::unique_ptr<OpenDriver> driver = std::make_unique<OpenDriver>(GetParam(), &host);
  heddle_file_t* file = nullptr;
  int descriptor = -1;
};

INSTANTIATE_TEST_SUITE_P(Drivers, ParamIo,
                         ::testing::Values(HEDDLE_TEST_PLUGINS "/libheddle_cpu.so", HEDDLE_TEST_DRIVERS "/libheddle_test_streams.so"),
                         [](const auto& info) {
                           return std::string(info.param).find("streams") == std::string::npos ? "heddle_cpu" : "streams";
                         });

TEST_P(ParamIo, ReadsAWholeFile) {
  for (uint64_t chunk : {0ull, 4096ull, 1000000ull}) {
    const std::vector<uint8_t> bytes = fill(9000001);
    heddle_buffer_t* buffer = driver->make_buffer(bytes.size());
    heddle_param_io_params_t params = {};
    params.struct_size = sizeof params;
    params.chunk_bytes = chunk;
    EXPECT_OK(move({{0, bytes.size(), buffer, 0}}, &params));
    EXPECT_EQ(driver->values_of<uint8_t>(buffer, bytes.size()), bytes);
    driver->buffer_api->free(buffer);
    driver->param_io_api->file_close(file);
    file = nullptr;
  }
}

TEST_P(ParamIo, ReadsScatteredExtentsAtOddPlaces) {
  const std::vector<uint8_t> bytes = fill(100000);
  heddle_buffer_t* buffer = driver->make_buffer(50000);
  driver->write(buffer, 0, std::vector<uint8_t>(50000, 0).data(), 50000);
  std::vector<heddle_extent_t> extents;
  std::vector<uint8_t> expected(50000, 0);
  for (uint64_t i = 0; i < 40; ++i) {
    const heddle_extent_t extent = {(i * 7919) % 90000 + 1, i == 3 ? 0 : 1 + (i * 131) % 1000, buffer, i * 1200 + 3};
    extents.push_back(extent);
    std::copy_n(bytes.begin() + static_cast<long>(extent.file_offset), extent.length,
                expected.begin() + static_cast<long>(extent.buffer_offset));
  }
  EXPECT_OK(move(extents));
  EXPECT_EQ(driver->values_of<uint8_t>(buffer, 50000), expected);
  driver->buffer_api->free(buffer);
}

TEST_P(ParamIo, AShortFileIsDataLossWithNameAndOffset) {
  fill(10000);
  heddle_buffer_t* buffer = driver->make_buffer(20000);
  EXPECT_FAILS(move({{0, 10001, buffer, 0}}), HEDDLE_STATUS_DATA_LOSS, "weights.bin");
  EXPECT_FAILS(move({{0, 100, buffer, 0}, {10000, 1, buffer, 100}}), HEDDLE_STATUS_DATA_LOSS, "10000");
  EXPECT_OK(move({{0, 10000, buffer, 0}}));
  ASSERT_EQ(ftruncate(descriptor, 5000), 0);
  EXPECT_FAILS(move({{0, 10000, buffer, 0}}), HEDDLE_STATUS_DATA_LOSS, "5000");
  driver->buffer_api->free(buffer);
}

TEST_P(ParamIo, SaysWhichExtentFailed) {
  fill(10000);
  heddle_buffer_t* buffer = driver->make_buffer(20000);
  EXPECT_EQ(
      Result(move({{0, 5000, buffer, 0}, {5000, 0, buffer, 0}, {9000, 2000, buffer, 5000}, {100, 10, buffer, 15000}})).payload("extent"),
      "2");
  driver->buffer_api->free(buffer);
}

// Past the page cache whole blocks are read, which is nothing that anybody sees: not at odd places, not at the end of the file.
TEST_P(ParamIo, ReadsPastThePageCacheTheSame) {
  const std::vector<uint8_t> bytes = fill(3000001);
  heddle_buffer_t* buffer = driver->make_buffer(3000001);
  heddle_param_io_params_t params = {};
  params.struct_size = sizeof params;
  params.method = HEDDLE_FILE_METHOD_DIRECT;
  for (uint64_t chunk : {0ull, 4096ull, 300000ull}) {
    params.chunk_bytes = chunk;
    driver->write(buffer, 0, std::vector<uint8_t>(bytes.size(), 0).data(), bytes.size());
    std::vector<uint8_t> expected(bytes.size(), 0);
    std::vector<heddle_extent_t> extents = {{1999999, 1000002, buffer, 1999999}, {4096, 4096, buffer, 4096}, {8192, 900000, buffer, 8193}};
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t at = 1000000 + i * 20011;
      extents.push_back({at, 1 + i * 331, buffer, at + i % 3});
    }
    for (const heddle_extent_t& extent : extents) {
      std::copy_n(bytes.begin() + static_cast<long>(extent.file_offset), extent.length,
                  expected.begin() + static_cast<long>(extent.buffer_offset));
    }
    EXPECT_OK(move(extents, &params));
    EXPECT_TRUE(driver->values_of<uint8_t>(buffer, bytes.size()) == expected) << chunk;
  }
  EXPECT_FAILS(move({{0, 1900000, buffer, 0}, {2000001, 1000001, buffer, 1900000}}, &params), HEDDLE_STATUS_DATA_LOSS, "3000001");
  driver->buffer_api->free(buffer);
}

// As much as no machine has memory for, of a file that is a hole: nothing of it is in the page cache.
TEST_P(ParamIo, PassesThePageCacheByWhereTheFileWouldFillIt) {
  fill(1);
  constexpr uint64_t kEach = 64 << 20, kCount = 100'000;
  ASSERT_EQ(ftruncate(descriptor, kEach), 0);
  heddle_buffer_t* buffer = driver->make_buffer(kEach);
  volatile uint32_t cancel = 0;
  heddle_param_io_params_t params = {};
  params.struct_size = sizeof params;
  params.chunk_bytes = kEach;
  params.queue_depth = 1;
  params.progress = [](void* context, uint64_t, uint64_t) { *static_cast<volatile uint32_t*>(context) = 1; };
  params.context = const_cast<uint32_t*>(&cancel);
  params.cancel = &cancel;
  const std::vector<heddle_extent_t> all(kCount, {0, kEach, buffer, 0});
  EXPECT_FAILS(move(all, &params), HEDDLE_STATUS_CANCELLED, "cancelled");
  EXPECT_NE(host.logged().find("'weights.bin' is read bypassing the page cache: 6"), std::string::npos) << host.logged();
  driver->buffer_api->free(buffer);
}

// A file may be opened past the cache only by who may open it at all.
TEST_P(ParamIo, ReadsThroughThePageCacheWhereItMayNotPassItBy) {
  const std::vector<uint8_t> bytes = fill(3000001);
  ASSERT_EQ(fchmod(descriptor, 0), 0);
  const bool is_root = geteuid() == 0;  // to whom permissions mean nothing
  if (is_root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  heddle_buffer_t* buffer = driver->make_buffer(bytes.size());
  heddle_param_io_params_t params = {};
  params.struct_size = sizeof params;
  params.method = HEDDLE_FILE_METHOD_DIRECT;
  EXPECT_OK(move({{0, bytes.size(), buffer, 0}}, &params));
  params.method = HEDDLE_FILE_METHOD_DIRECT_ONLY;
  EXPECT_FAILS(move({{0, bytes.size(), buffer, 0}}, &params), HEDDLE_STATUS_UNIMPLEMENTED,
               "reading 'weights.bin' bypassing the page cache failed: Permission denied");
  params.method = HEDDLE_FILE_METHOD_GDS;
  EXPECT_FAILS(move({{0, bytes.size(), buffer, 0}}, &params), HEDDLE_STATUS_UNIMPLEMENTED, "this driver has no GPUDirect Storage");
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_TRUE(driver->values_of<uint8_t>(buffer, bytes.size()) == bytes);
  EXPECT_NE(host.logged().find("'weights.bin' is read through the page cache"), std::string::npos) << host.logged();
  driver->buffer_api->free(buffer);
}

TEST_P(ParamIo, CanBeCancelled) {
  fill(1 << 20);
  heddle_buffer_t* buffer = driver->make_buffer(1 << 20);
  const volatile uint32_t cancel = 1;
  heddle_param_io_params_t params = {};
  params.struct_size = sizeof params;
  params.cancel = &cancel;
  EXPECT_FAILS(move({{0, 1 << 20, buffer, 0}}, &params), HEDDLE_STATUS_CANCELLED, "cancelled");
  driver->buffer_api->free(buffer);
}

struct Seen {
  std::mutex mutex;
  std::vector<uint64_t> done;
  uint64_t total = 0;
};

TEST_P(ParamIo, ReportsGrowingProgressUpToTheWhole) {
  fill(1 << 20);
  heddle_buffer_t* buffer = driver->make_buffer(1 << 20);
  Seen seen;
  heddle_param_io_params_t params = {};
  params.struct_size = sizeof params;
  params.chunk_bytes = 64 << 10;
  params.context = &seen;
  params.progress = [](void* context, uint64_t done, uint64_t total) {
    auto* at = static_cast<Seen*>(context);
    std::lock_guard<std::mutex> lock(at->mutex);
    at->done.push_back(done);
    at->total = total;
  };
  EXPECT_OK(move({{0, 1 << 20, buffer, 0}}, &params));
  EXPECT_EQ(seen.total, 1u << 20);
  ASSERT_FALSE(seen.done.empty());
  EXPECT_TRUE(std::is_sorted(seen.done.begin(), seen.done.end()));
  EXPECT_EQ(seen.done.back(), 1u << 20);
  driver->buffer_api->free(buffer);
}

TEST_P(ParamIo, WritesBack) {
  fill(1000);
  std::vector<uint8_t> bytes(300000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 3);
  heddle_buffer_t* buffer = driver->make_filled(bytes);
  EXPECT_OK(move({{5, 299990, buffer, 10}}, nullptr, true));
  std::vector<uint8_t> back(299990);
  ASSERT_EQ(pread(descriptor, back.data(), back.size(), 5), static_cast<ssize_t>(back.size()));
  EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin() + 10));
  driver->buffer_api->free(buffer);
}

TEST_P(ParamIo, RejectsExtentsOutsideOfBuffersAndFiles) {
  fill(1000);
  heddle_buffer_t* buffer = driver->make_buffer(100);
  EXPECT_FAILS(move({{0, 101, buffer, 0}}), HEDDLE_STATUS_OUT_OF_RANGE, "100 bytes");
  EXPECT_FAILS(move({{0, 2, buffer, UINT64_MAX}}), HEDDLE_STATUS_OUT_OF_RANGE, "extent 0");
  EXPECT_FAILS(move({{0, 2, buffer, 0}, {UINT64_MAX - 1, 2, buffer, 0}}), HEDDLE_STATUS_OUT_OF_RANGE, "extent 1");
  EXPECT_FAILS(move({{0, 2, nullptr, 0}}), HEDDLE_STATUS_INVALID_ARGUMENT, "extent 0");
  driver->buffer_api->free(buffer);
}

// Drivers of the SDK do not promise by accident to keep the contents of mapped files.
TEST_P(ParamIo, OnlyADriverThatKeepsMappedFilesOpensThemForThat) {
  auto open_for = [&](uint32_t access) {
    return driver->param_io_api->file_open(driver->device, descriptor, access, string_of("weights.bin"), &file);
  };
  if (std::string(GetParam()).find("streams") == std::string::npos) {
    EXPECT_OK(open_for(HEDDLE_FILE_READ | HEDDLE_FILE_STEADY));
  } else {
    EXPECT_FAILS(open_for(HEDDLE_FILE_READ | HEDDLE_FILE_STEADY), HEDDLE_STATUS_INVALID_ARGUMENT,
                 "does not keep the contents of mapped files");
  }
}

TEST_P(ParamIo, ChecksDescriptorsAndKeepsItsOwn) {
  heddle_file_t* other = nullptr;
  EXPECT_FAILS(driver->param_io_api->file_open(driver->device, 9999, HEDDLE_FILE_READ, string_of("no file"), &other),
               HEDDLE_STATUS_INVALID_ARGUMENT, "no file");
  EXPECT_FAILS(driver->param_io_api->file_open(driver->device, descriptor, 0, string_of("no access"), &other),
               HEDDLE_STATUS_INVALID_ARGUMENT, "no access");
  const int only_read = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_FAILS(driver->param_io_api->file_open(driver->device, only_read, HEDDLE_FILE_WRITE, string_of("exe"), &other),
               HEDDLE_STATUS_INVALID_ARGUMENT, "exe");
  ASSERT_OK(driver->param_io_api->file_open(driver->device, only_read, HEDDLE_FILE_READ, string_of("exe"), &file));
  close(only_read);
  heddle_buffer_t* buffer = driver->make_buffer(4);
  EXPECT_OK(move({{0, 4, buffer, 0}}));
  EXPECT_EQ(driver->values_of<uint8_t>(buffer, 4)[1], 'E');
  EXPECT_FAILS(move({{0, 4, buffer, 0}}, nullptr, true), HEDDLE_STATUS_INVALID_ARGUMENT, "without that access");
  driver->buffer_api->free(buffer);
}

TEST_P(ParamIo, WaitsForItsPoints) {
  const std::vector<uint8_t> bytes = fill(1000);
  heddle_buffer_t* buffer = driver->make_buffer(1000);
  heddle_timeline_t* before = driver->make_timeline();
  heddle_timeline_t* after = driver->make_timeline();
  const heddle_point_t wait = {before, 1}, signal = {after, 1};
  const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
  const heddle_extent_t extent = {0, 1000, buffer, 0};
  ASSERT_OK(driver->param_io_api->read(driver->queue, &sync, file, &extent, 1, nullptr));
  EXPECT_EQ(driver->wait(after, 1, 5000000).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  EXPECT_OK(driver->timeline_api->signal(before, 1));
  EXPECT_TRUE(driver->wait(after, 1).ok());
  EXPECT_EQ(driver->values_of<uint8_t>(buffer, 1000), bytes);
  driver->timeline_api->destroy(before);
  driver->timeline_api->destroy(after);
  driver->buffer_api->free(buffer);
}

}  // namespace
}  // namespace heddle::test
