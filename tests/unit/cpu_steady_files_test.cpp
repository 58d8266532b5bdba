// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that heddle.cpu maps although others may write to them: whatever a writer does, the buffer keeps what it has, and the writer goes on.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "../temporary_folder.h"
#include "plugin_host.h"

namespace heddle::test {
namespace {

constexpr uint64_t kBytes = (uint64_t{70} << 20) + 12345;  // more than a piece of the copy, and no whole page

uint64_t value_at(uint64_t index) {
  return index * 0x9E3779B97F4A7C15 + 1;
}

class SteadyFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    values_.resize(kBytes / 8 + 1);
    for (uint64_t i = 0; i < values_.size(); ++i) values_[i] = value_at(i);
    const int made = ::open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ASSERT_GE(made, 0);
    ASSERT_EQ(write(made, values_.data(), kBytes), static_cast<ssize_t>(kBytes));
    close(made);
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const bool has_leases = fcntl(descriptor_, F_SETLEASE, F_RDLCK) == 0 && fcntl(descriptor_, F_SETLEASE, F_UNLCK) == 0;
    if (!has_leases || std::filesystem::exists("/sys/devices/system/node/node1"))
      GTEST_SKIP() << "TMPDIR has no leases, or memory has several nodes: heddle.cpu reads files";
  }
  void TearDown() override {
    if (buffer_) driver_->buffer_api->free(buffer_);
    if (file_) driver_->param_io_api->file_close(file_);
    close(descriptor_);
    driver_.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }
  void open_file(uint32_t access = HEDDLE_FILE_READ | HEDDLE_FILE_STEADY) {
    ASSERT_OK(driver_->param_io_api->file_open(driver_->device, descriptor_, access, string_of("weights.bin"), &file_));
  }
  heddle_status_t* map(uint64_t offset = 0, uint64_t length = kBytes) {
    from_ = offset;
    return driver_->param_io_api->map(file_, offset, length, &buffer_);
  }
  heddle_status_t* read(uint64_t offset, uint64_t length, uint64_t buffer_offset) {
    heddle_timeline_t* done = driver_->make_timeline();
    heddle_point_t point = {done, 1};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    const heddle_extent_t extent = {offset, length, buffer_, buffer_offset};
    heddle_status_t* failure = driver_->param_io_api->read(driver_->queue, &sync, file_, &extent, 1, nullptr);
    if (!failure) failure = driver_->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
    driver_->timeline_api->destroy(done);
    return failure;
  }
  // Some bytes of the buffer by the device.
  heddle_status_t* download() {
    heddle_timeline_t* done = driver_->make_timeline();
    heddle_point_t point = {done, 1};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    char bytes[64];
    const heddle_binding_t from = {buffer_, 0, sizeof bytes};
    heddle_status_t* failure = driver_->transfer_api->download(driver_->queue, &sync, &from, bytes);
    if (!failure) failure = driver_->timeline_api->wait(&point, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
    driver_->timeline_api->destroy(done);
    return failure;
  }
  void expect_no_results() { EXPECT_FAILS(download(), HEDDLE_STATUS_DATA_LOSS, "parameters from '" + path_ + "' may have changed"); }
  // The one that holds the lease of the file; -1 if there is none.
  int driver_descriptor() {
    for (int one = 3; one < 256; ++one) {
      if (one != descriptor_ && fcntl(one, F_GETLEASE) == F_RDLCK) return one;
    }
    return -1;
  }
  const char* memory() {
    heddle_buffer_properties_t properties = {};
    properties.struct_size = sizeof properties;
    EXPECT_OK(driver_->buffer_api->properties(buffer_, &properties));
    return reinterpret_cast<const char*>(properties.device_address);
  }
  // Of the mapped part, which goes to the end of the file.
  void expect_values() { EXPECT_EQ(std::memcmp(memory(), reinterpret_cast<const char*>(values_.data()) + from_, kBytes - from_), 0); }
  // Runs a writer while other threads use the memory; the writer may not wait for long.
  void write_by(const std::function<void()>& writer) {
    std::atomic<bool> over{false};
    std::atomic<uint64_t> wrong{0};
    std::thread user([&] {
      const auto* words = reinterpret_cast<const uint64_t*>(memory());
      while (!over) {
        for (uint64_t i = 0; i < (kBytes - from_) / 8; i += 97) wrong += words[i] != value_at(from_ / 8 + i);
      }
    });
    const auto begin = std::chrono::steady_clock::now();
    writer();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "the lease was not given back";
    over = true;
    user.join();
    EXPECT_EQ(wrong, 0u);
    expect_values();
    const std::string bytes = std::to_string(kBytes - from_ / 4096 * 4096),
                      expected = "writes to '" + path_ + "', which is mapped; " + bytes + " of " + bytes +
                                 " bytes were copied; they are memory of the process now";
    for (int i = 0; i < 1000 && host_.logged().find(expected) == std::string::npos; ++i)
      usleep(10'000);  // it is told after the writer may go on
    EXPECT_NE(host_.logged().find(expected), std::string::npos) << host_.logged();
  }

  testing::TemporaryFolder folder_;
  std::string path_ = folder_.path("weights.bin");
  std::vector<uint64_t> values_;
  uint64_t from_ = 0;  // where the mapped part begins
  PluginHost host_;
  std::unique_ptr<OpenDriver> driver_ = std::make_unique<OpenDriver>(HEDDLE_TEST_PLUGINS "/libheddle_cpu.so", &host_);
  heddle_file_t* file_ = nullptr;
  heddle_buffer_t* buffer_ = nullptr;
  int descriptor_ = -1;
};

TEST_F(SteadyFiles, ReadingToWhereAFileIsMappedMakesItPresent) {
  open_file();
  ASSERT_OK(map());
  ASSERT_OK(read(0, kBytes, 0));
  expect_values();
  // Pages of the file, and not copies of them.
  size_t pages = 0;
  std::ifstream smaps("/proc/self/smaps");
  bool is_ours = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find("weights.bin") != std::string::npos) is_ours = true;
    if (is_ours && line.starts_with("Rss:")) pages = std::stoull(line.substr(4)) / 4;
    if (is_ours && line.starts_with("Anonymous:")) {
      EXPECT_NE(line.find(" 0 kB"), std::string::npos) << line;
      break;
    }
  }
  EXPECT_EQ(pages, (kBytes + 4095) / 4096) << "all are in the table of the process";
}

TEST_F(SteadyFiles, BytesOfOtherPlacesAreRead) {
  open_file();
  ASSERT_OK(map());
  ASSERT_OK(read(4096, 8192, 64));
  EXPECT_EQ(std::memcmp(memory(), values_.data(), 64), 0);
  EXPECT_EQ(std::memcmp(memory() + 64, reinterpret_cast<const char*>(values_.data()) + 4096, 8192), 0);
  EXPECT_EQ(std::memcmp(memory() + 64 + 8192, reinterpret_cast<const char*>(values_.data()) + 64 + 8192, kBytes - 64 - 8192), 0);
}

TEST_F(SteadyFiles, APartFromOnePageOn) {
  open_file();
  constexpr uint64_t kFrom = (4096 * 7) + 64;
  ASSERT_OK(map(kFrom, kBytes - kFrom));
  ASSERT_OK(read(kFrom, kBytes - kFrom, 0));
  expect_values();
  write_by([&] { EXPECT_EQ(truncate(path_.c_str(), 0), 0); });
}

TEST_F(SteadyFiles, TruncatedByOpening) {
  open_file();
  ASSERT_OK(map());
  ASSERT_OK(read(0, kBytes, 0));
  write_by([&] {
    const int writer = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    ASSERT_GE(writer, 0);
    EXPECT_EQ(pwrite(writer, "new", 3, 0), 3);
    close(writer);
  });
  EXPECT_EQ(std::filesystem::file_size(path_), 3u);
}

TEST_F(SteadyFiles, TruncatedByName) {
  open_file();
  ASSERT_OK(map());
  write_by([&] { EXPECT_EQ(truncate(path_.c_str(), 100), 0); });  // although no page was used before
  // What is read from then on is not there, which is an error as for any file.
  heddle_buffer_t* none = nullptr;
  EXPECT_FAILS(driver_->param_io_api->map(file_, 0, kBytes, &none), HEDDLE_STATUS_DATA_LOSS, "truncated or was replaced");
}

TEST_F(SteadyFiles, WrittenInPlace) {
  open_file();
  ASSERT_OK(map());
  write_by([&] {
    const int writer = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(writer, 0);
    std::vector<char> zeros(kBytes);
    EXPECT_EQ(pwrite(writer, zeros.data(), zeros.size(), 0), static_cast<ssize_t>(zeros.size()));
    close(writer);
  });
}

// The contents are lost then: it is told, no result is given out, and the writer does not wait.
TEST_F(SteadyFiles, WithoutMemoryForACopyTheWriterGoesOn) {
  open_file();
  ASSERT_OK(map());
  unsigned long long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit tight = {pages * 4096 + (32 << 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const int writer = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_GE(writer, 0);
  EXPECT_EQ(ftruncate(writer, 0), 0);
  close(writer);
  expect_no_results();
  EXPECT_EQ(memory()[4096], 0) << "the place of the file's pages is memory, although the file is truncated";
  driver_->buffer_api->free(buffer_);
  buffer_ = nullptr;
  const std::string logged = host_.logged();
  EXPECT_NE(logged.find(
                "; 0 of 73412665 bytes were copied; calls on this device fail until the instances that use the file are closed (error 12)"),
            std::string::npos)
      << logged;
}

// As if the process had been stopped for so long that the kernel let the writer go on: the lease is taken away, and the copy is of what was written.
TEST_F(SteadyFiles, ALeaseThatWasTakenAwayIsALoss) {
  open_file();
  ASSERT_OK(map());
  ASSERT_OK(download());
  const int lease = driver_descriptor();
  ASSERT_GE(lease, 0);
  ASSERT_EQ(fcntl(lease, F_SETLEASE, F_UNLCK), 0);
  const int writer = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_EQ(pwrite(writer, "new", 3, 0), 3);
  close(writer);
  for (int i = 0; i < 1000 && host_.logged().find("but too late, and may have changed") == std::string::npos; ++i) usleep(10'000);
  EXPECT_NE(host_.logged().find("bytes were copied, but too late, and may have changed: calls on this device fail"), std::string::npos)
      << host_.logged();
  expect_no_results();
  // Without what was lost, the device works again.
  driver_->buffer_api->free(buffer_);
  buffer_ = nullptr;
  ASSERT_OK(map());
  EXPECT_OK(download());
}

// Then the kernel cannot queue the lease's signal, nor can the thread be told to end.
TEST_F(SteadyFiles, WithoutSignalsWritersAreFoundAndTheDeviceCloses) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_SIGPENDING, &before), 0);
  const rlimit none = {0, before.rlim_max};
  alarm(100);  // ends a test that hangs
  open_file();
  ASSERT_OK(map());
  ASSERT_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
  write_by([&] { EXPECT_EQ(truncate(path_.c_str(), 0), 0); });
  driver_->buffer_api->free(buffer_);
  buffer_ = nullptr;
  driver_->param_io_api->file_close(file_);
  file_ = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  driver_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  alarm(0);
  ASSERT_EQ(setrlimit(RLIMIT_SIGPENDING, &before), 0);
}

// A filter of system calls, as containers have them; it is the thread's, and of the threads that it starts.
TEST_F(SteadyFiles, WhereNothingCanBeCopiedNothingIsMapped) {
  open_file();
  std::thread([&] {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter = {std::size(code), code};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
    EXPECT_FAILS(map(), HEDDLE_STATUS_UNIMPLEMENTED, "does not let the process copy its pages");
  }).join();
  EXPECT_OK(map());
}

TEST_F(SteadyFiles, MoreThanCanBeCopiedWhileAWriterWaitsIsNotMapped) {
  uint64_t seconds = 0;
  std::ifstream("/proc/sys/fs/lease-break-time") >> seconds;
  if (seconds == 0) seconds = 45;
  const uint64_t most = seconds << 27;                                     // at 128 MiB a second
  ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(most + 4096)), 0);  // without blocks on the disk
  open_file();
  EXPECT_FAILS(map(0, most + 4096), HEDDLE_STATUS_UNIMPLEMENTED, "longer than writers wait");
  // Together with what is mapped already; what was copied does not count.
  ASSERT_OK(map());
  heddle_buffer_t* none = nullptr;
  EXPECT_FAILS(driver_->param_io_api->map(file_, 0, most - kBytes + 4096, &none), HEDDLE_STATUS_UNIMPLEMENTED, "longer than writers wait");
  write_by([&] { close(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)); });
  const Result mapped(driver_->param_io_api->map(file_, 0, most - kBytes + 4096, &none));
  EXPECT_EQ(mapped.message().find("longer than writers wait"), std::string::npos);
  if (mapped.ok()) driver_->buffer_api->free(none);  // else it may be larger than the page cache should be
}

TEST_F(SteadyFiles, AFileThatIsOpenForWritingIsNotMapped) {
  const int writer = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  open_file();
  EXPECT_FAILS(map(), HEDDLE_STATUS_UNIMPLEMENTED, "it is open for writing");
  close(writer);
  EXPECT_OK(map());
}

TEST_F(SteadyFiles, ASmallPartIsNotMapped) {
  open_file();
  EXPECT_FAILS(map(0, 1 << 20), HEDDLE_STATUS_UNIMPLEMENTED, "it is small");
}

TEST_F(SteadyFiles, ABufferThatIsFreedKeepsNobodyWaiting) {
  open_file();
  ASSERT_OK(map());
  EXPECT_EQ(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC), -1) << "there is no lease";
  EXPECT_EQ(errno, EWOULDBLOCK);
  driver_->buffer_api->free(buffer_);
  buffer_ = nullptr;
  const int writer = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_GE(writer, 0) << std::strerror(errno);
  close(writer);
}

TEST_F(SteadyFiles, AFileThatIsRemovedOrReplacedStays) {
  open_file();
  ASSERT_OK(map());
  testing::write_file(folder_.path("other"), "new");
  std::filesystem::rename(folder_.path("other"), path_);
  expect_values();
  EXPECT_EQ(host_.logged(), "") << "nothing had to be copied";
}

TEST_F(SteadyFiles, NotForWriting) {
  EXPECT_FAILS(driver_->param_io_api->file_open(driver_->device, descriptor_, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE | HEDDLE_FILE_STEADY,
                                                string_of("weights.bin"), &file_),
               HEDDLE_STATUS_INVALID_ARGUMENT, "access 7");
}

// What a user gets who asks for mapping alone ("mmap" in param_io.method): the documented outcome.
using SteadyFilesDeathTest = SteadyFiles;
TEST_F(SteadyFilesDeathTest, WithoutItATruncatedFileEndsTheProcess) {
  open_file(HEDDLE_FILE_READ);
  ASSERT_OK(map());
  ASSERT_EQ(truncate(path_.c_str(), 0), 0);
  EXPECT_EXIT(static_cast<void>(*static_cast<const volatile char*>(memory() + 4096)), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace heddle::test
