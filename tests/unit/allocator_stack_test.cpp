// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocators over allocators: what the adaptors add, what they pass on, and heddle.arena.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "../temporary_folder.h"
#include "allocator_case.h"
#include "memory_trace.h"

namespace heddle::test {
namespace {

class StackTest : public AllocatorCase {};

TEST_F(StackTest, LimitCountsWhatWasAskedForAndNamesTheHolders) {
  open("limit pool", {{"limit", {bytes("limit", 3000)}}});
  const heddle_block_t first = allocate(1000, {}, 0, &kTensors), second = allocate(2000, {}, 0, &kWeights);
  const uint64_t asked = memory.asked;
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(1, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED,
               "limit: allocating 1 bytes from 'test' failed: the limit of 3000 bytes leaves 0; raise limit or use less [HD-M-03]\n"
               "             2000 bytes in       1 block : weights\n             1000 bytes in       1 block : tensors");
  EXPECT_EQ(memory.asked.load(), asked);
  EXPECT_EQ(statistics().exhaustions, 1u);
  EXPECT_EQ(statistics(*allocators[0]).exhaustions, 0u);
  free(first);
  EXPECT_FAILS(try_allocate(UINT64_MAX, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "leaves 1000");
  free(allocate(1000));
  free(second);
  free(allocate(3000));
  EXPECT_FAILS(try_allocate(3001, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "leaves 3000");
}

TEST_F(StackTest, LimitBelowAPoolMakesItTrim) {
  open("pool limit", {{"limit", {bytes("limit", 100 << 20)}}});
  const heddle_block_t both[] = {allocate(48 << 20), allocate(50 << 20)};
  for (const heddle_block_t& block : both) free(block);
  free(allocate(20 << 20, {}, 0, &kWeights));
  const heddle_block_t block = allocate(90 << 20);
  EXPECT_LE(memory.peak_bytes(), 100u << 20);
  heddle_block_t more = {};
  EXPECT_FAILS(try_allocate(20 << 20, &more), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the limit of 104857600 bytes leaves");
  free(block);
  EXPECT_EQ(memory.owners().front(), "chunks of heddle.pool");
}

TEST_F(StackTest, TrackCountsByOwner) {
  open("track pool");
  const heddle_block_t first = allocate(1000, {}, 0, &kTensors), second = allocate(2000, {}, 0, &kTensors);
  free(first);
  const heddle_block_t third = allocate(500, {}, 0, &kTensors), weights = allocate(7, {}, 0, &kWeights);
  EXPECT_EQ(holders()["tensors"].blocks, 2u);
  EXPECT_EQ(holders()["tensors"].requested.current, 2500u);
  EXPECT_EQ(holders()["tensors"].requested.peak, 3000u);
  EXPECT_EQ(holders()["tensors"].requested.total, 3500u);
  EXPECT_EQ(holders()["weights"].requested.current, 7u);
  for (const heddle_block_t& block : {second, third, weights}) free(block);
  EXPECT_EQ(holders()["tensors"].requested.current, 0u);
  EXPECT_EQ(holders()["tensors"].requested.peak, 3000u);
}

TEST_F(StackTest, TrackRefusesBlocksThatDoNotLive) {
  open("track pool");
  const heddle_block_t block = allocate(1000), other = allocate(10);
  heddle_block_t changed = block;
  changed.length = 999;
  free(changed);
  changed = block;
  changed.offset += 256;
  free(changed);
  free(block);
  free(block);
  const std::vector<std::string> logged = host.logged_lines();
  ASSERT_EQ(logged.size(), 3u);
  EXPECT_NE(logged[0].find("freeing 999 bytes"), std::string::npos) << logged[0];
  EXPECT_NE(logged[2].find("no such block is live"), std::string::npos) << logged[2];
  EXPECT_EQ(statistics().frees, 1u) << "it was passed on";
  free(other);
}

TEST_F(StackTest, TrackNamesTheOldestLeaks) {
  open("track pool");
  std::vector<heddle_block_t> blocks;
  for (uint64_t i = 1; i <= 20; ++i) blocks.push_back(allocate(100 * i, {}, 0, &kWeights));
  free(blocks.front());
  EXPECT_FAILS(top().destroy(), HEDDLE_STATUS_FAILED_PRECONDITION, "19 live blocks");
  const std::vector<std::string> logged = host.logged_lines();
  ASSERT_EQ(logged.size(), 16u);
  EXPECT_EQ(logged[0], "track: 'test' still has allocation 2: 200 bytes for weights");
  EXPECT_EQ(logged[15], "track: 'test' still has allocation 17: 1700 bytes for weights");
  for (size_t i = 1; i < blocks.size(); ++i) free(blocks[i]);
}

TEST_F(StackTest, LogWritesATraceThatCanBeReplayed) {
  heddle::testing::TemporaryFolder folder;
  const std::string path = folder.path("trace");
  open("log pool", {{"log", {text("file", path.c_str())}}});
  const heddle_string_t odd = {"a\nb", 3};
  const heddle_block_t first = allocate(1000, {}, 0, &kWeights), second = allocate(20, {}, 4096, &odd);
  free(first, {{timeline(1), 1}, {timeline(2), 1}});
  memory.capacity = memory.live_bytes();
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(uint64_t{1} << 40, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "provider is full");
  const heddle_block_t third = allocate(30);
  free(second);
  free(third);
  memory.reach(timeline(1), 1);
  memory.reach(timeline(2), 1);
  allocators.pop_back();
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "heddle-memory-trace 1\na 0 1000 64 weights\na 1 20 4096 a b\nf 0 2\nx 1099511627776 64 \na 2 30 64 \nf 1 0\nf 2 0\n");
  std::istringstream again(text);
  const MemoryTrace trace = read_trace("recorded", again);
  EXPECT_EQ(trace.blocks(), 3u);
  EXPECT_EQ(trace.events.size(), 6u);
  EXPECT_EQ(trace.peak_live_bytes(), 1020u);
}

TEST_F(StackTest, LogSaysWhichFileItCannotWrite) {
  open("pool");
  StackedAllocator log(host, std::string(HEDDLE_TEST_PLUGINS) + "/libheddle_log.so", top().table());
  heddle_allocator_t* other = nullptr;
  EXPECT_FAILS(log.create({text("file", "/nonexistent/trace")}, &other), HEDDLE_STATUS_UNAVAILABLE, "/nonexistent/trace");
}

// What others could have put in its place keeps its bytes, and nobody waits for it.
TEST_F(StackTest, LogWritesIntoAFileOfItsOwnAlone) {
  heddle::testing::TemporaryFolder folder;
  const std::string theirs = folder.path("theirs"), link = folder.path("link"), name = folder.path("name"), fifo = folder.path("fifo");
  std::ofstream(theirs) << "kept";
  std::filesystem::create_symlink(theirs, link);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  open("pool");
  auto refused = [&](const std::string& path) {
    StackedAllocator log(host, std::string(HEDDLE_TEST_PLUGINS) + "/libheddle_log.so", top().table());
    heddle_allocator_t* other = nullptr;
    EXPECT_FAILS(log.create({text("file", path.c_str())}, &other), HEDDLE_STATUS_UNAVAILABLE,
                 "which is a link, a pipe or not this user's alone");
  };
  refused(link);
  refused(fifo);
  std::filesystem::create_hard_link(theirs, name);
  refused(name);
  std::ifstream file(theirs);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "kept");
}

TEST_F(StackTest, ThreeAdaptorsPassStreamOrderOn) {
  open("limit track log pool", {{"limit", {bytes("limit", 64 << 20)}}});
  const heddle_block_t first = allocate(10 << 20, {}, 0, &kTensors);
  free(first, {{timeline(1), 5}});
  const heddle_block_t host_block = allocate(10 << 20);
  EXPECT_NE(host_block.buffer, first.buffer);
  const heddle_block_t behind = allocate(10 << 20, {timeline(1), 5});
  EXPECT_EQ(behind.buffer, first.buffer);
  EXPECT_EQ(wait_count, 0u);
  free(behind, {{timeline(1), 6}});
  memory.capacity = memory.live_bytes();
  const heddle_block_t handed = allocate(10 << 20, {timeline(2), 1});
  ASSERT_EQ(wait_count, 1u);
  EXPECT_EQ(waits[0].value, 6u);
  free(handed);
  free(host_block);
  EXPECT_EQ(statistics().allocations, 4u);
  EXPECT_EQ(holders()["tensors"].requested.total, 10u << 20);
}

TEST_F(StackTest, APoolOverAPoolGivesItsChunksBack) {
  open("pool pool");
  free(allocate(10 << 20));
  EXPECT_EQ(statistics(*allocators[0]).requested.current, 10u << 20);
  EXPECT_OK(trim(0));
  EXPECT_EQ(statistics(*allocators[0]).bytes_reserved.current, 0u);
  EXPECT_EQ(memory.live(), 0u);
}

TEST_F(StackTest, ArenaCutsBlocksOneBehindAnother) {
  open("arena", {{"arena", {bytes("chunk", 1 << 20)}}});
  const heddle_block_t first = allocate(1000), second = allocate(1000);
  EXPECT_EQ(second.buffer, first.buffer);
  EXPECT_EQ(second.offset, first.offset + 1024);
  free(first);
  const heddle_block_t third = allocate(1000);
  EXPECT_EQ(third.offset, second.offset + 1024) << "not reused while a block of the chunk lives";
  EXPECT_EQ(statistics().inactive_split.current, (1u << 20) - 2048);
  free(second);
  free(third);
  EXPECT_EQ(statistics().largest_free, 1u << 20);
  const heddle_block_t fourth = allocate(1000);
  EXPECT_EQ(fourth.offset, first.offset);
  const heddle_block_t large = allocate(3 << 20);
  EXPECT_EQ(memory.buffer(large.buffer).size, 3u << 20);
  free(fourth);
  free(large);
  EXPECT_EQ(memory.asked.load(), 2u);
}

TEST_F(StackTest, ArenaReusesAChunkInStreamOrder) {
  open("arena", {{"arena", {bytes("chunk", 1 << 20)}}});
  const heddle_block_t first = allocate(1 << 20);
  free(first, {{timeline(1), 5}});
  const heddle_block_t host_block = allocate(1 << 20);
  EXPECT_NE(host_block.buffer, first.buffer);
  const heddle_block_t behind = allocate(1000, {timeline(1), 5});
  EXPECT_EQ(behind.buffer, first.buffer);
  const heddle_block_t other = allocate(1000, {timeline(2), 9});
  EXPECT_NE(other.buffer, first.buffer) << "the chunk still waits for the first queue";
  free(behind, {{timeline(1), 6}});
  EXPECT_EQ(statistics().active.current, (1u << 20) + (1u << 20) + 1024 + 1024);
  memory.reach(timeline(1), 6);
  EXPECT_EQ(statistics().active.current, (1u << 20) + 1024);
  free(host_block);
  free(other);
}

TEST_F(StackTest, ArenaHandsOverMemoryInUseOnlyWithItsPoints) {
  open("arena", {{"arena", {bytes("chunk", 1 << 20)}}});
  memory.capacity = 1 << 20;
  free(allocate(1 << 20), {{timeline(1), 5}});
  heddle_block_t block = {};
  EXPECT_FAILS(try_allocate(1000, &block), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "1048576 freed but still in use");
  block = allocate(1000, {timeline(2), 1});
  ASSERT_EQ(wait_count, 1u);
  EXPECT_EQ(waits[0].value, 5u);
  free(block);
}

}  // namespace
}  // namespace heddle::test
