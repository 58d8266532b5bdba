// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CPU driver and host timelines under many threads; also run under ThreadSanitizer. And what only the CPU driver has: options, cores,
// threads that come and go.
#include <dirent.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "../temporary_folder.h"
#include "kernels.h"

namespace heddle::test {
namespace {

constexpr const char* kCpu = HEDDLE_TEST_PLUGINS "/libheddle_cpu.so";

size_t entries_of(const char* folder) {
  DIR* open = opendir(folder);
  size_t count = 0;
  while (open && readdir(open)) ++count;
  if (open) closedir(open);
  return count;
}

// The number of threads, as soon as it is at most the expected one, or after ten seconds: Linux lists a thread for a moment after it was joined.
size_t threads_falling_to(size_t expected) {
  size_t count = 0;
  for (int i = 0; i < 10'000 && (count = entries_of("/proc/self/task")) > expected; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return count;
}

TEST(CpuStress, ThreadsShareOneQueue) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  Kernels kernels(&driver);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      heddle_buffer_t* value = driver.make_filled(std::vector<uint64_t>(1, 0));
      heddle_timeline_t* timeline = driver.make_timeline();
      const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
      uint64_t expected = 0;
      for (uint64_t i = 0; i < 300; ++i) {
        const std::vector<int64_t> constants = {static_cast<int64_t>(i)};
        // Some run in this thread, some in the queue's, each behind the last.
        const Kernel kind = (i + static_cast<uint64_t>(t)) % 3 ? kChain : kChainUnknownCost;
        Result submitted(driver.submit({kernels.command(kind, bindings, constants, 1)},
                                       i ? std::vector<heddle_point_t>{{timeline, i}} : std::vector<heddle_point_t>{},
                                       {{timeline, i + 1}}));
        if (!submitted.ok()) ++wrong;
        expected = expected * 3 + i;
      }
      if (!driver.wait(timeline, 300).ok()) ++wrong;
      if (driver.values_of<uint64_t>(value, 1)[0] != expected) ++wrong;
      driver.timeline_api->destroy(timeline);
      driver.buffer_api->free(value);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CpuStress, ManyQueuesShareTheWorkers) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  Kernels kernels(&driver);
  std::vector<heddle_queue_t*> queues;
  std::vector<heddle_timeline_t*> timelines;
  std::vector<heddle_buffer_t*> buffers;
  constexpr uint32_t kGrid = 503, kRounds = 20;
  for (int i = 0; i < 20; ++i) {
    queues.push_back(driver.make_queue(driver.device));
    timelines.push_back(driver.make_timeline());
    buffers.push_back(driver.make_filled(std::vector<uint32_t>(kGrid, 0)));
  }
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < queues.size(); ++i) {
      const std::vector<heddle_binding_t> bindings = {{buffers[i], 0, kGrid * 4}};
      ASSERT_OK(driver.submit({kernels.command(kCountWorkgroups, bindings, {}, kGrid)}, {}, {{timelines[i], round + 1}}, queues[i]));
    }
  }
  for (size_t i = 0; i < queues.size(); ++i) {
    EXPECT_TRUE(driver.wait(timelines[i], kRounds).ok());
    EXPECT_EQ(driver.values_of<uint32_t>(buffers[i], kGrid), std::vector<uint32_t>(kGrid, kRounds));
    EXPECT_OK(driver.device_api->queue_destroy(queues[i]));
    driver.timeline_api->destroy(timelines[i]);
    driver.buffer_api->free(buffers[i]);
  }
}

TEST(CpuStress, ATimelineMayGoAsSoonAsItsValueIsSeen) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    heddle_timeline_t* timeline = driver.make_timeline();
    std::thread signaller;
    const bool asleep = random() % 16 == 0;
    if (asleep || random() % 4 == 0) {
      signaller = std::thread([&, asleep] {
        if (asleep) std::this_thread::sleep_for(std::chrono::microseconds(100));
        driver.timeline_api->signal(timeline, 1);
      });
    } else {
      ASSERT_OK(driver.submit({}, {}, {{timeline, 1}}));
    }
    EXPECT_TRUE(driver.wait(timeline, 1).ok());
    if (signaller.joinable()) {
      // The signalling call itself has to return before its timeline goes; a queue's signal need not.
      signaller.join();
    }
    driver.timeline_api->destroy(timeline);
  }
}

TEST(CpuStress, WaitersNotifiersAndFailuresMeet) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  for (int round = 0; round < 50; ++round) {
    heddle_timeline_t* a = driver.make_timeline();
    heddle_timeline_t* b = driver.make_timeline();
    std::atomic<int> notified{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        const heddle_point_t points[] = {{a, 10}, {b, 10}};
        Result waited(driver.timeline_api->wait(points, 2, t % 2 ? HEDDLE_WAIT_ANY : HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE));
        // Any: the good timeline may be seen first.
        EXPECT_TRUE(waited.code() == HEDDLE_STATUS_ABORTED || (t % 2 == 1 && waited.ok())) << waited.message();
        for (uint64_t i = 1; i <= 10; ++i) {
          EXPECT_OK(driver.timeline_api->notify(
              b, i, [](void* context, const heddle_status_t*) { ++*static_cast<std::atomic<int>*>(context); }, &notified));
        }
      });
    }
    threads.emplace_back([&] {
      for (uint64_t i = 1; i <= 10; ++i) EXPECT_OK(driver.timeline_api->signal(a, i));
    });
    threads.emplace_back([&] {
      for (uint64_t i = 1; i <= 5; ++i) EXPECT_OK(driver.timeline_api->signal(b, i));
      driver.timeline_api->fail(b, 6, host.table()->status_create(nullptr, HEDDLE_STATUS_ABORTED, {}, 0, string_of("stop")));
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(notified, 40);
    driver.timeline_api->destroy(a);
    driver.timeline_api->destroy(b);
  }
  EXPECT_EQ(PluginHost::live_statuses().load(), 0);
}

TEST(CpuStress, DevicesComeAndGoWithoutGrowth) {
  PluginHost host;
  size_t threads_before = 0, files_before = 0;
  for (int i = 0; i < 60; ++i) {
    {
      OpenDriver driver(kCpu, &host);
      Kernels kernels(&driver);
      heddle_buffer_t* counts = driver.make_filled(std::vector<uint32_t>(100, 0));
      const std::vector<heddle_binding_t> bindings = {{counts, 0, 400}};
      ASSERT_OK(driver.run({kernels.command(kCountWorkgroups, bindings, {}, 100)}));
      driver.buffer_api->free(counts);
    }
    if (i == 10) {
      threads_before = entries_of("/proc/self/task");
      files_before = entries_of("/proc/self/fd");
    }
  }
  EXPECT_LE(threads_falling_to(threads_before), threads_before);
  EXPECT_EQ(entries_of("/proc/self/fd"), files_before);
}

TEST(Cpu, CheapListsStartNoThread) {
  PluginHost host;
  const size_t before = entries_of("/proc/self/task");
  OpenDriver driver(kCpu, &host);
  Kernels kernels(&driver);
  heddle_buffer_t* value = driver.make_filled(std::vector<uint64_t>(1, 1));
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const std::vector<int64_t> constants = {1};
  ASSERT_OK(driver.run(std::vector<heddle_command_t>(100, kernels.command(kChain, bindings, constants, 1))));
  EXPECT_LE(entries_of("/proc/self/task"), before);
  driver.buffer_api->free(value);
}

TEST(Cpu, SplitsItsCoresIntoDevices) {
  PluginHost host;
  host.set_int("device_count", 3);
  OpenDriver driver(kCpu, &host);
  uint32_t count = 0;
  ASSERT_OK(driver.device_api->count(driver.instance(), &count));
  ASSERT_EQ(count, 3u);
  uint32_t units = 0;
  for (uint32_t i = 0; i < count; ++i) {
    heddle_device_description_t description = {};
    description.struct_size = sizeof description;
    ASSERT_OK(driver.device_api->describe(driver.instance(), i, &description));
    EXPECT_GE(description.compute_units, 1u);
    units += description.compute_units;
  }
  EXPECT_GE(units, 3u);
  // Work crosses from one to the other.
  heddle_device_t* other = driver.open(1);
  heddle_queue_t* queue = driver.make_queue(other);
  heddle_buffer_t* a = driver.make_filled(std::vector<uint32_t>{1, 2, 3});
  heddle_buffer_t* b = driver.make_buffer(12, HEDDLE_MEMORY_DEVICE, other);
  heddle_timeline_t* timeline = driver.make_timeline(0, other);
  const heddle_point_t point = {timeline, 1};
  const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
  const heddle_binding_t from = {a, 0, 12}, to = {b, 0, 12};
  ASSERT_OK(driver.transfer_api->peer_copy(queue, &sync, &from, &to));
  EXPECT_TRUE(driver.wait(timeline, 1).ok());
  EXPECT_EQ(driver.values_of<uint32_t>(b, 3), (std::vector<uint32_t>{1, 2, 3}));
  // A kernel of one device does not run on the other's queue.
  Kernels kernels(&driver);
  EXPECT_FAILS(driver.submit({kernels.command(kNothing, {}, {}, 1)}, {}, {}, queue), HEDDLE_STATUS_INVALID_ARGUMENT, "HD-Q-02");
  driver.timeline_api->destroy(timeline);
  driver.buffer_api->free(a);
  driver.buffer_api->free(b);
  EXPECT_OK(driver.device_api->queue_destroy(queue));
  EXPECT_OK(driver.device_api->close(other));
}

// Two dispatches that wait for each other, each of one workgroup.
TEST(Cpu, DispatchesBetweenTwoBarriersOverlap) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  ASSERT_OK(driver.device_api->describe(driver.instance(), 0, &description));
  if (description.compute_units < 2) GTEST_SKIP() << "the device has one thread";
  Kernels kernels(&driver);
  heddle_buffer_t* words = driver.make_buffer(16);
  const std::vector<heddle_binding_t> bindings = {{words, 0, 16}};
  auto meet = [&](int64_t patience, bool apart) {
    const std::vector<uint32_t> none(4, 0);
    driver.write(words, 0, none.data(), 16);
    const std::vector<int64_t> first = {0, patience}, second = {1, patience};
    std::vector<heddle_command_t> commands = {kernels.command(kMeet, bindings, first, 1), kernels.command(kMeet, bindings, second, 1)};
    if (apart) commands.insert(commands.begin() + 1, barrier());
    EXPECT_OK(driver.run(commands));
    return driver.values_of<uint32_t>(words, 4);
  };
  EXPECT_EQ(meet(200'000, false), (std::vector<uint32_t>{1, 1, 1, 1})) << "each waits for the other, for seconds";
  EXPECT_EQ(meet(10, true), (std::vector<uint32_t>{1, 1, 0, 1})) << "the first is over before the second begins";
  driver.buffer_api->free(words);
}

// A model is loaded, as slowly as could be, and another one's call ends meanwhile; it is waited for with a limit, which helps nobody.
TEST(Cpu, NothingStandsBehindAFileThatIsRead) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  Kernels kernels(&driver);
  const int descriptor = testing::open_unnamed_file();
  ASSERT_EQ(ftruncate(descriptor, 1000), 0);
  heddle_file_t* file = nullptr;
  ASSERT_OK(driver.param_io_api->file_open(driver.device, descriptor, HEDDLE_FILE_READ, string_of("weights.bin"), &file));
  heddle_buffer_t* weights = driver.make_buffer(1000);
  heddle_buffer_t* counts = driver.make_filled(std::vector<uint32_t>(100, 0));
  heddle_timeline_t* gate = driver.make_timeline();
  heddle_timeline_t* loaded = driver.make_timeline();
  heddle_timeline_t* called = driver.make_timeline();
  const heddle_point_t wait = {gate, 1}, signal = {loaded, 1};
  const heddle_sync_t sync = {sizeof sync, 1, 1, 0, &wait, &signal};
  const heddle_extent_t extent = {0, 1000, weights, 0};
  ASSERT_OK(driver.param_io_api->read(driver.queue, &sync, file, &extent, 1, nullptr));
  const std::vector<heddle_binding_t> bindings = {{counts, 0, 400}};
  ASSERT_OK(driver.submit({kernels.command(kCountWorkgroups, bindings, {}, 100)}, {}, {{called, 1}}));
  EXPECT_TRUE(driver.wait(called, 1, uint64_t{10} * 1000000000).ok());
  EXPECT_EQ(driver.wait(loaded, 1, 0).code(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  ASSERT_OK(driver.timeline_api->signal(gate, 1));
  EXPECT_TRUE(driver.wait(loaded, 1).ok());
  EXPECT_TRUE(driver.wait(called, 1).ok());
  for (heddle_timeline_t* timeline : {gate, loaded, called}) driver.timeline_api->destroy(timeline);
  driver.buffer_api->free(weights);
  driver.buffer_api->free(counts);
  driver.param_io_api->file_close(file);
  close(descriptor);
}

TEST(Cpu, LargeBuffersAreOnTheDevicesNodes) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  ASSERT_OK(driver.device_api->describe(driver.instance(), 0, &description));
  heddle_buffer_t* buffer = driver.make_buffer(1 << 20);
  heddle_buffer_properties_t properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_OK(driver.buffer_api->properties(buffer, &properties));
  int mode = 0;
  unsigned long nodes[16] = {};
  const long failed = syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, properties.device_address, MPOL_F_ADDR);
  driver.buffer_api->free(buffer);
  if (failed || access("/sys/devices/system/node/online", R_OK) != 0) GTEST_SKIP() << "no policies of memory here";
  if (description.numa_node < 0) {
    EXPECT_EQ(mode, MPOL_INTERLEAVE);
  } else {
    EXPECT_EQ(mode, MPOL_PREFERRED);
    const auto node = static_cast<size_t>(description.numa_node);
    EXPECT_EQ(nodes[node / 64], 1ul << (node % 64));
  }
}

// Bytes of huge pages in the mappings that overlap [first, last).
uint64_t huge_bytes(uint64_t first, uint64_t last) {
  std::ifstream maps("/proc/self/smaps");
  uint64_t bytes = 0;
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long start = 0, end = 0, kilobytes = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &start, &end) == 2) is_inside = start < last && first < end;
    if (is_inside && std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kilobytes) == 1) bytes += uint64_t{kilobytes} << 10;
  }
  return bytes;
}
uint64_t huge_pages_refused() {
  std::ifstream counters("/proc/vmstat");
  uint64_t value = 0;
  for (std::string name; counters >> name >> value;) {
    if (name == "thp_fault_fallback") return value;
  }
  return 0;
}

TEST(CpuDriver, NeighboringBuffersShareHugePages) {
  std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  if (!std::getline(enabled, modes) || modes.find("[never]") != std::string::npos) GTEST_SKIP() << "no huge pages here";
  constexpr size_t kBuffers = 24, kBytes = (1 << 20) - 4096;
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  std::vector<heddle_buffer_t*> buffers;
  std::vector<char*> bytes;
  for (size_t i = 0; i < kBuffers; ++i) {
    buffers.push_back(driver.make_buffer(kBytes));
    heddle_buffer_properties_t properties = {};
    properties.struct_size = sizeof properties;
    ASSERT_OK(driver.buffer_api->properties(buffers.back(), &properties));
    bytes.push_back(reinterpret_cast<char*>(properties.device_address));
  }
  const uint64_t refused = huge_pages_refused();
  for (size_t i = 0; i < kBuffers; ++i) std::memset(bytes[i], static_cast<int>(i + 1), kBytes);
  const auto [first, last] = std::minmax_element(bytes.begin(), bytes.end());
  const uint64_t huge = huge_bytes(reinterpret_cast<uint64_t>(*first), reinterpret_cast<uint64_t>(*last) + kBytes);
  if (huge_pages_refused() == refused) {  // else the system has too few
    EXPECT_GE(huge, kBuffers * kBytes / 2);
  }
  // A buffer that is freed takes nothing of the others with it, and its addresses do not confuse later ones.
  for (size_t i = 0; i < kBuffers; i += 2) driver.buffer_api->free(buffers[i]);
  for (size_t i = 0; i < kBuffers; i += 2) {
    buffers[i] = driver.make_buffer(kBytes / 2);
    heddle_buffer_properties_t properties = {};
    properties.struct_size = sizeof properties;
    ASSERT_OK(driver.buffer_api->properties(buffers[i], &properties));
    std::memset(reinterpret_cast<char*>(properties.device_address), 0, kBytes / 2);
  }
  for (size_t i = 1; i < kBuffers; i += 2)
    EXPECT_EQ(std::count(bytes[i], bytes[i] + kBytes, static_cast<char>(i + 1)), static_cast<int64_t>(kBytes)) << i;
  for (heddle_buffer_t* buffer : buffers) driver.buffer_api->free(buffer);
}

// The first large buffer of a device, and the next ones, which are to be next to it.
TEST(CpuDriver, AlignsLargeBuffersWhereverTheyAre) {
  for (const uint64_t alignment :
       {uint64_t{4096}, uint64_t{8192}, uint64_t{1} << 16, uint64_t{1} << 21, uint64_t{1} << 23, uint64_t{1} << 30}) {
    for (const uint64_t size : {uint64_t{300'000}, uint64_t{2} << 20, uint64_t{5'000'000}}) {
      PluginHost host;
      OpenDriver driver(kCpu, &host);
      std::vector<heddle_buffer_t*> buffers;
      for (int i = 0; i < 4; ++i) {
        const heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, size, i % 2 ? 0 : alignment};
        heddle_buffer_t* buffer = nullptr;
        ASSERT_OK(driver.buffer_api->allocate(driver.device, &params, &buffer));
        buffers.push_back(buffer);
        heddle_buffer_properties_t properties = {};
        properties.struct_size = sizeof properties;
        ASSERT_OK(driver.buffer_api->properties(buffer, &properties));
        EXPECT_EQ(properties.device_address % (i % 2 ? 64 : alignment), 0u) << size << " bytes aligned to " << alignment;
        std::memset(reinterpret_cast<char*>(properties.device_address), 1, size);
      }
      for (heddle_buffer_t* buffer : buffers) driver.buffer_api->free(buffer);
      EXPECT_EQ(driver.statistics().bytes_reserved, 0u);
    }
  }
}

// This process in a control group of its own, below the one that it is in.
class OwnGroup {
 public:
  explicit OwnGroup(const std::string& quota_us) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const size_t first = line.find(':'), second = line.find(':', first + 1);
      if (second == std::string::npos) continue;
      const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
      const bool is_first_version = controllers.find(",cpu,") != std::string::npos;
      if (!is_first_version && controllers != ",,") continue;
      const std::string parent = (is_first_version ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup") + line.substr(second + 1);
      const std::string own = parent + "/heddle-test-" + std::to_string(getpid());
      if (mkdir(own.c_str(), 0755) != 0) continue;
      const bool limited = is_first_version ? write(own + "/cpu.cfs_quota_us", quota_us) : write(own + "/cpu.max", quota_us + " 100000");
      if (limited && write(own + "/cgroup.procs", "0")) {  // who writes
        own_ = own;
        parent_ = parent;
        return;
      }
      rmdir(own.c_str());
    }
  }
  ~OwnGroup() {
    if (own_.empty()) return;
    EXPECT_TRUE(write(parent_ + "/cgroup.procs", "0"));
    for (int i = 0; i < 1000 && rmdir(own_.c_str()) != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  bool entered() const { return !own_.empty(); }

 private:
  static bool write(const std::string& path, const std::string& text) {
    const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    return written;
  }
  std::string own_, parent_;
};

TEST(Cpu, AQuotaBoundsItsThreads) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one thread is all there is";
  PluginHost host;
  const OwnGroup group("150000");  // the time of one and a half processors
  if (!group.entered()) GTEST_SKIP() << "no control group with a quota can be made here";
  const size_t before = entries_of("/proc/self/task");
  OpenDriver driver(kCpu, &host);
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  ASSERT_OK(driver.device_api->describe(driver.instance(), 0, &description));
  EXPECT_EQ(description.compute_units, 1u);
  Kernels kernels(&driver);
  heddle_buffer_t* counts = driver.make_filled(std::vector<uint32_t>(100, 0));
  const std::vector<heddle_binding_t> bindings = {{counts, 0, 400}};
  ASSERT_OK(driver.run({kernels.command(kCountWorkgroups, bindings, {}, 100)}));
  EXPECT_EQ(driver.values_of<uint32_t>(counts, 100), std::vector<uint32_t>(100, 1));
  EXPECT_LE(entries_of("/proc/self/task"), before + 1) << "a queue's thread, and no worker";
  driver.buffer_api->free(counts);
}

TEST(Cpu, RefusesOptionsOutOfRange) {
  LoadedPlugin plugin(kCpu);
  heddle_plugin_instance_t* instance = nullptr;
  PluginHost host;
  host.set_int("device_count", 0);
  EXPECT_FAILS(plugin->create(host.table(), &instance), HEDDLE_STATUS_INVALID_ARGUMENT, "device_count");
  host.set_int("device_count", 1);
  host.set_string("max_level", "v7");
  EXPECT_FAILS(plugin->create(host.table(), &instance), HEDDLE_STATUS_INVALID_ARGUMENT, "v7");
  EXPECT_EQ(instance, nullptr);
}

TEST(Cpu, MaxLevelCapsTheRank) {
  PluginHost host;
  host.set_string("max_level", "v3");
  OpenDriver driver(kCpu, &host);
  uint32_t rank = 99;
  ASSERT_OK(driver.dispatch_api->variant_rank(driver.device, string_of("x86_64-elf/1"), string_of("x86-64-v4"), &rank));
  EXPECT_EQ(rank, 0u);
  ASSERT_OK(driver.dispatch_api->variant_rank(driver.device, string_of("x86_64-elf/1"), string_of("x86-64-v3"), &rank));
  EXPECT_EQ(rank, 30u);
}

TEST(Cpu, OpensOnChosenCores) {
  PluginHost host;
  OpenDriver driver(kCpu, &host);
  heddle_device_t* device = nullptr;
  auto open = [&](const char* cpus) {
    heddle_device_open_params_t params = {sizeof params, 0, &driver.api, string_of(cpus), -1, 0};
    return driver.device_api->open(driver.instance(), 0, &params, &device);
  };
  EXPECT_FAILS(open("0-"), HEDDLE_STATUS_INVALID_ARGUMENT, "\"0-\"");
  EXPECT_FAILS(open("3-1"), HEDDLE_STATUS_INVALID_ARGUMENT, "\"3-1\"");
  EXPECT_FAILS(open("0,,1"), HEDDLE_STATUS_INVALID_ARGUMENT, "0-3,8");
  EXPECT_FAILS(open("99999999999999999999"), HEDDLE_STATUS_INVALID_ARGUMENT, "");
  EXPECT_FAILS(open("900000"), HEDDLE_STATUS_INVALID_ARGUMENT, "none of them");
  ASSERT_OK(open("0-1048575"));
  EXPECT_OK(driver.device_api->close(device));
  heddle_device_open_params_t params = {sizeof params, 0, &driver.api, {}, 4000, 0};
  EXPECT_FAILS(driver.device_api->open(driver.instance(), 0, &params, &device), HEDDLE_STATUS_NOT_FOUND, "NUMA");
}

TEST(Cpu, NegotiatesAndRefusesWithAReason) {
  LoadedPlugin plugin(kCpu);
  auto entry = reinterpret_cast<heddle_plugin_entry_fn_t>(dlsym(plugin.library(), HEDDLE_PLUGIN_ENTRY_NAME));
  heddle_negotiation_t record = {};
  record.struct_size = sizeof record;
  record.host_min_minor = 70;
  record.host_max_minor = 80;
  EXPECT_EQ(entry(&record), nullptr);
  EXPECT_NE(std::string(record.reason, record.reason_size).find("0.70 to 0.80"), std::string::npos);
  record = {};
  record.struct_size = sizeof record;
  record.host_max_minor = 80;
  EXPECT_NE(entry(&record), nullptr);
  EXPECT_EQ(record.chosen_minor, static_cast<uint32_t>(HEDDLE_ABI_MINOR));
  EXPECT_EQ(plugin->get_interface(nullptr, string_of("heddle.no_such/1")), nullptr);
}

TEST(Cpu, ProbeFindsItsDevices) {
  LoadedPlugin plugin(kCpu);
  PluginHost host;
  host.set_int("device_count", 2);
  heddle_probe_result_t result = {};
  result.struct_size = sizeof result;
  ASSERT_OK(plugin->probe(host.table(), &result));
  EXPECT_EQ(result.verdict, HEDDLE_PROBE_AVAILABLE);
  EXPECT_EQ(result.device_count, 2u);
}

}  // namespace
}  // namespace heddle::test
