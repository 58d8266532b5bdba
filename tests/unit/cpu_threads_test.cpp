// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CPU driver's threads without the driver: limits of control groups, claims of cores, teams of workers. Also run under ThreadSanitizer.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "../temporary_folder.h"
#include "cpu/control_groups.h"
#include "cpu/core_claims.h"
#include "cpu/neighbors.h"
#include "cpu/threads.h"
#include "cpu/topology.h"

namespace heddle::test {
namespace {

using cpu::CoreClaims;
using cpu::group_limits;
using cpu::GroupLimits;
using cpu::Neighbors;
using cpu::Workers;

// A folder with files of a system below it.
class SystemFiles : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root() const { return root_.path().string(); }
  GroupLimits limits() const { return group_limits(root()); }

 private:
  heddle::testing::TemporaryFolder root_;
};

class ControlGroups : public SystemFiles {};

TEST_F(ControlGroups, NoneIsNoLimit) {
  EXPECT_EQ(limits().processor_thousandths, UINT64_MAX);
  EXPECT_EQ(limits().memory_bytes, UINT64_MAX);
  write("/proc/self/cgroup", "0::/user.slice\n");
  write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_EQ(limits().processor_thousandths, UINT64_MAX);
  EXPECT_EQ(limits().memory_bytes, UINT64_MAX);
}

TEST_F(ControlGroups, TheTightestOfAllGroupsCounts) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "40000 10000\n");
  write("/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/a/b/c/memory.max", "2147483648\n");
  EXPECT_EQ(limits().processor_thousandths, 2500u);
  EXPECT_EQ(limits().memory_bytes, uint64_t{1} << 30);
}

TEST_F(ControlGroups, AContainersOwnGroupIsTheMount) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(limits().processor_thousandths, 1500u);
}

TEST_F(ControlGroups, Version1HasAFolderForEachController) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/0123\n4:memory:/docker/0123\n3:cpuset:/docker/0123\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(limits().processor_thousandths, 3000u);
  EXPECT_EQ(limits().memory_bytes, uint64_t{512} << 20);
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(limits().processor_thousandths, UINT64_MAX);
}

TEST_F(ControlGroups, NonsenseIsNoLimit) {
  write("/proc/self/cgroup", "0::\nno line\n:::::\n\n0::/a\n");
  write("/sys/fs/cgroup/a/cpu.max", "100000 0\n");
  write("/sys/fs/cgroup/cpu.max", "18446744073709551615 1\n");
  write("/sys/fs/cgroup/a/memory.max", "12x\n");
  EXPECT_EQ(limits().processor_thousandths, UINT64_MAX);
  EXPECT_EQ(limits().memory_bytes, UINT64_MAX);
}

TEST_F(ControlGroups, ADeviceHasAThreadForEachWholeProcessor) {
  write("/proc/self/cgroup", "0::/a\n");
  EXPECT_EQ(cpu::threads_within(limits(), 1, 0, 16), 16u);
  EXPECT_EQ(cpu::threads_within(limits(), 1, 3, 16), 3u);
  EXPECT_EQ(cpu::threads_within(limits(), 1, 99, 16), 16u);
  write("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
  EXPECT_EQ(cpu::threads_within(limits(), 1, 0, 16), 3u);
  EXPECT_EQ(cpu::threads_within(limits(), 1, 2, 16), 2u);
  EXPECT_EQ(cpu::threads_within(limits(), 1, 8, 16), 3u);
  EXPECT_EQ(cpu::threads_within(limits(), 1, 0, 2), 2u);
  EXPECT_EQ(cpu::threads_within(limits(), 2, 0, 8), 1u) << "devices share the time";
  write("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu::threads_within(limits(), 4, 0, 4), 1u);
}

class NumaNodes : public SystemFiles {
 protected:
  std::vector<cpu::NodeCpus> nodes_of(const std::vector<uint32_t>& cpus) { return cpu::by_numa_node(cpus, cpu::numa_nodes(root())); }
};

TEST_F(NumaNodes, ProcessorsAreDividedNodeByNode) {
  const std::vector<uint32_t> cpus = {0, 1, 2, 3, 5, 6, 7, 8};
  ASSERT_EQ(nodes_of(cpus).size(), 1u) << "nothing is known";
  EXPECT_EQ(nodes_of(cpus)[0].node, -1);
  EXPECT_EQ(nodes_of(cpus)[0].cpus, cpus);
  // Their numbers alternate; node 1 has memory alone, and nobody knows where processor 8 is.
  write("/sys/devices/system/node/online", "0-2\n");
  write("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
  write("/sys/devices/system/node/node1/cpulist", "\n");
  write("/sys/devices/system/node/node2/cpulist", "1,3,5,7\n");
  const std::vector<cpu::NodeCpus> nodes = nodes_of(cpus);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].node, 0);
  EXPECT_EQ(nodes[0].cpus, (std::vector<uint32_t>{0, 2, 6}));
  EXPECT_EQ(nodes[1].node, 2);
  EXPECT_EQ(nodes[1].cpus, (std::vector<uint32_t>{1, 3, 5, 7}));
  EXPECT_EQ(nodes[2].node, -1);
  EXPECT_EQ(nodes[2].cpus, std::vector<uint32_t>{8});
  EXPECT_EQ(cpu::joined(nodes), (std::vector<uint32_t>{0, 2, 6, 1, 3, 5, 7, 8}));
}

TEST_F(NumaNodes, ADeviceIsOfOneNodeWherePossible) {
  // As long as the lists of machines whose numbers alternate.
  std::string even, odd;
  std::vector<uint32_t> all, evens, odds;
  for (uint32_t cpu = 0; cpu < 512; ++cpu) {
    (cpu % 2 ? odd : even) += std::to_string(cpu) + (cpu < 510 ? "," : "\n");
    (cpu % 2 ? odds : evens).push_back(cpu);
    all.push_back(cpu);
  }
  write("/sys/devices/system/node/online", "0-1\n");
  write("/sys/devices/system/node/node0/cpulist", even);
  write("/sys/devices/system/node/node1/cpulist", odd);
  EXPECT_EQ(cpu::split(nodes_of(all), 2), (std::vector<std::vector<uint32_t>>{evens, odds}));
  EXPECT_EQ(cpu::split(nodes_of(all), 1), std::vector<std::vector<uint32_t>>{all});
  EXPECT_EQ(cpu::split(nodes_of({0, 1, 2, 3}), 4), (std::vector<std::vector<uint32_t>>{{0}, {2}, {1}, {3}}));
  EXPECT_EQ(cpu::split(nodes_of({0, 1, 2, 3}), 3), (std::vector<std::vector<uint32_t>>{{0}, {2}, {1, 3}}));
  EXPECT_EQ(cpu::split(nodes_of({4}), 2), (std::vector<std::vector<uint32_t>>{{4}, {4}}));
}

// Numbers that no machine has, so that no device's threads are there, nor another run of this test.
const uint32_t kFirst = 1'000'000 + static_cast<uint32_t>(getpid()) * 16;

TEST(CoreClaimsOf, NobodyGetsWhatAnotherHas) {
  const std::vector<uint32_t> all = {kFirst, kFirst + 1, kFirst + 2, kFirst + 3};
  CoreClaims first;
  const std::vector<uint32_t> two = first.take(all, 2);
  if (two.empty()) GTEST_SKIP() << "no sockets";
  EXPECT_EQ(two, (std::vector<uint32_t>{kFirst, kFirst + 1}));
  {
    CoreClaims second, third;
    EXPECT_TRUE(third.take(all, 3).empty()) << "all or none";
    EXPECT_EQ(second.take(all, 2), (std::vector<uint32_t>{kFirst + 2, kFirst + 3}));
    EXPECT_TRUE(third.take(all, 1).empty());
  }
  CoreClaims moved(std::move(first)), fourth;
  EXPECT_EQ(fourth.take(all, 2), (std::vector<uint32_t>{kFirst + 2, kFirst + 3})) << "claims end with their object";
}

TEST(CoreClaimsOf, OneUserCountForOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may take another user's place";
  const std::vector<uint32_t> all = {kFirst + 10, kFirst + 11};
  CoreClaims ours;
  if (ours.take(all, 1).empty()) GTEST_SKIP() << "no sockets";
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(2);
    CoreClaims theirs;
    _exit(theirs.take(all, 2).empty() && theirs.take(all, 1) == std::vector<uint32_t>{kFirst + 11} ? 0 : 1);
  }
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_EQ(end, 0);
  EXPECT_EQ(CoreClaims().take(all, 1), std::vector<uint32_t>{kFirst + 11}) << "claims end with their process";
}

TEST(NeighborsOf, AreCountedWhileTheyCompute) {
  const std::vector<uint32_t> cpus = {kFirst + 12, kFirst + 13};
  Neighbors ours(cpus), theirs(cpus), third(cpus), elsewhere({kFirst + 12, kFirst + 14});
  theirs.enter();
  if (!theirs.has_entered()) GTEST_SKIP() << "no sockets";
  theirs.enter();
  EXPECT_EQ(ours.count(), 1u);
  EXPECT_EQ(ours.count(), 1u) << "also after its queue of connections is full";
  EXPECT_EQ(theirs.count(), 0u) << "itself is no neighbor";
  EXPECT_EQ(elsewhere.count(), 0u);
  ours.enter();
  third.enter();
  EXPECT_EQ(ours.count(), 2u);
  theirs.leave();
  theirs.leave();
  EXPECT_EQ(ours.count(), 1u);
}

TEST(NeighborsOf, LeaveThoughAForkedProcessHasTheirSocket) {
  const std::vector<uint32_t> cpus = {kFirst + 14, kFirst + 15};
  Neighbors ours(cpus), theirs(cpus);
  theirs.enter();
  if (!theirs.has_entered()) GTEST_SKIP() << "no sockets";
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[1]);
    char byte;
    _exit(static_cast<int>(read(pipe_ends[0], &byte, 1)));  // until the other process says so
  }
  close(pipe_ends[0]);
  EXPECT_EQ(ours.count(), 1u);
  theirs.leave();
  EXPECT_EQ(ours.count(), 0u);
  theirs.enter();  // by another name
  EXPECT_EQ(ours.count(), 1u);
  close(pipe_ends[1]);
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
}

TEST(NeighborsOf, ShareTheThreads) {
  const std::vector<uint32_t> cpus = {kFirst + 6, kFirst + 7, kFirst + 8, kFirst + 9};
  Neighbors theirs(cpus);
  theirs.enter();
  if (!theirs.has_entered()) GTEST_SKIP() << "no sockets";
  Workers workers(cpus, 4, false, 1000, true);
  auto members_of_a_long_call = [&] {
    Workers::Team team(&workers);
    uint32_t members = 0;
    for (int i = 0; i < 100; ++i) {
      usleep(100);
      members = team.settle(4);
    }
    return members;
  };
  EXPECT_EQ(members_of_a_long_call(), 2u);
  EXPECT_EQ(theirs.count(), 1u) << "a long call says that it computes";
  theirs.leave();
  EXPECT_EQ(members_of_a_long_call(), 4u);
  theirs.enter();
  EXPECT_EQ(members_of_a_long_call(), 2u);
  for (int i = 0; i < 500 && theirs.count() != 0; ++i) usleep(10000);
  EXPECT_EQ(theirs.count(), 0u) << "a device without calls leaves";
}

// Counts how often each item is run, and where.
struct Items {
  explicit Items(size_t count) : runs(count) {}
  static int32_t body(void* context, uint64_t first, uint64_t last, uint32_t place) noexcept {
    auto* items = static_cast<Items*>(context);
    for (uint64_t i = first; i < last; ++i) items->runs[i].fetch_add(1, std::memory_order_relaxed);
    if (items->busy && items->busy[place].exchange(1) != 0) items->shared = true;
    if (items->busy) items->busy[place].store(0);
    return 0;
  }
  bool each_once() {
    for (auto& count : runs) {
      if (count.exchange(0) != 1) return false;
    }
    return true;
  }
  std::vector<std::atomic<int>> runs;
  std::atomic<int>* busy = nullptr;  // by place
  std::atomic<bool> shared{false};
};

std::vector<uint32_t> any_cpus(uint32_t threads) {
  const std::vector<uint32_t> allowed = cpu::allowed_cpus();
  std::vector<uint32_t> cpus;
  for (uint32_t i = 0; i < threads; ++i) cpus.push_back(allowed[i % allowed.size()]);
  return cpus;
}

TEST(Teams, OneHasAllWorkers) {
  Workers workers(any_cpus(4), 4, false, 1000);
  Workers::Team team(&workers);
  EXPECT_EQ(team.settle(4), 4u);
  EXPECT_EQ(team.settle(3), 3u);
  std::set<uint32_t> places;
  for (uint32_t member = 0; member < 4; ++member) places.insert(team.place(member));
  EXPECT_EQ(places.size(), 4u);
  EXPECT_LT(*places.rbegin(), workers.places());
  for (size_t count : {1, 2, 3, 17, 1000}) {
    Items items(count);
    EXPECT_EQ(team.run(Items::body, &items, count, team.settle(4), 1), 0);
    EXPECT_TRUE(items.each_once()) << count;
  }
}

TEST(Teams, ShareTheWorkers) {
  Workers workers(any_cpus(7), 7, false, 1000);
  Workers::Team first(&workers);
  EXPECT_EQ(first.settle(7), 7u);
  {
    Workers::Team second(&workers);
    EXPECT_EQ(second.settle(7), 1u) << "the first has not let go";
    EXPECT_EQ(first.settle(7), 4u) << "seven are two callers and five workers";
    EXPECT_EQ(second.settle(7), 3u);
    std::set<uint32_t> places;
    for (uint32_t member = 0; member < 4; ++member) places.insert(first.place(member));
    for (uint32_t member = 0; member < 3; ++member) places.insert(second.place(member));
    EXPECT_EQ(places.size(), 7u);
  }
  EXPECT_EQ(first.settle(7), 7u);
}

TEST(Teams, AsManyCallersAsCoresWorkAlone) {
  Workers workers(any_cpus(2), 2, false, 1000);
  Workers::Team first(&workers), second(&workers), third(&workers);
  EXPECT_EQ(first.settle(2), 1u);
  EXPECT_EQ(second.settle(2), 1u);
  EXPECT_EQ(third.settle(2), 1u);
}

// Shares that begin where the caller says; some are empty.
TEST(Teams, SharesMayBeUneven) {
  Workers workers(any_cpus(4), 4, false, 1000);
  Workers::Team team(&workers);
  Items items(10);
  const Workers::Bound bound = [](void*, uint64_t share, uint64_t shares) noexcept -> uint64_t {
    constexpr uint64_t kFirsts[] = {0, 7, 7, 8};
    return share == shares ? 10 : kFirsts[share];
  };
  for (uint64_t pieces : {0, 1, 3, 100}) {
    EXPECT_EQ(team.run(Items::body, &items, bound, team.settle(4), pieces), 0);
    EXPECT_TRUE(items.each_once()) << pieces;
  }
}

TEST(Teams, OneFailureIsReported) {
  Workers workers(any_cpus(3), 3, false, 1000);
  Workers::Team team(&workers);
  const Workers::Body body = [](void*, uint64_t first, uint64_t last, uint32_t) noexcept -> int32_t {
    return first <= 500 && 500 < last ? 7 : 0;
  };
  EXPECT_EQ(team.run(body, nullptr, 1000, team.settle(3), 1), 7);
  EXPECT_EQ(team.run(body, nullptr, 400, team.settle(3), 1), 0);
}

// More than one word of sleepers, whose bits are the same: of 40 workers that sleep, a job wakes those that it has a share for.
TEST(Teams, AJobWakesTheWorkersThatItUses) {
  constexpr uint32_t kThreads = 41;
  Workers workers(any_cpus(kThreads), kThreads, false, 0);
  Workers::Team team(&workers);
  for (const uint32_t wanted : {3u, 2u, 36u}) {
    // Who was about to sleep while the job began may be awake without having been woken, on a busy machine: that does not happen every time.
    bool exact = false;
    for (int tries = 0; tries < 20 && !exact; ++tries) {
      ASSERT_EQ(team.settle(kThreads), kThreads);
      for (int i = 0; i < 10'000 && workers.sleeping() != kThreads - 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_EQ(workers.sleeping(), kThreads - 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::vector<uint64_t> before, expected;
      for (uint32_t worker = 0; worker + 1 < kThreads; ++worker) {
        before.push_back(workers.wakes(worker));
        expected.push_back(before.back());
      }
      for (uint32_t member = 1; member < wanted; ++member) ++expected[team.place(member)];
      Items items(1000);
      EXPECT_EQ(team.run(Items::body, &items, items.runs.size(), team.settle(wanted), 1), 0);
      EXPECT_TRUE(items.each_once());
      for (int i = 0; i < 1000 && workers.sleeping() != kThreads - 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      exact = true;
      for (uint32_t worker = 0; worker + 1 < kThreads; ++worker) exact = exact && workers.wakes(worker) == expected[worker];
    }
    EXPECT_TRUE(exact) << wanted;
  }
}

// Callers that come and go, more of them than seats; workers that sleep at once.
TEST(Teams, ManyCallersComeAndGo) {
  for (uint64_t spin_ns : {0, 20'000}) {
    Workers workers(any_cpus(5), 5, false, spin_ns);
    std::vector<std::atomic<int>> busy(workers.places());
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 20; ++i) {
      callers.emplace_back([&, i] {
        Items items(100 + static_cast<size_t>(i));
        items.busy = busy.data();
        for (int turn = 0; turn < 50; ++turn) {
          Workers::Team team(&workers);
          for (int job = 0; job < 5; ++job) {
            team.run(Items::body, &items, items.runs.size(), team.settle(5), 1);
            if (!items.each_once()) ++wrong;
          }
        }
        if (items.shared) ++wrong;
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace heddle::test
