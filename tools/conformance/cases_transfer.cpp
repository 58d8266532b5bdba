// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: copies, fills and updates, in lists and outside of them.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "session.h"

namespace heddle::conformance {
namespace {

using Bytes = std::vector<char>;

Result upload_async(Session& session, const heddle_binding_t& target, const void* source, heddle_point_t done) {
  const std::vector<heddle_point_t> signals = {done};
  const heddle_sync_t sync = session.sync({}, signals);
  return session.tables().transfer.upload(session.queue, &sync, source, &target);
}

Result download_async(Session& session, const heddle_binding_t& source, void* target, heddle_point_t done) {
  const std::vector<heddle_point_t> signals = {done};
  const heddle_sync_t sync = session.sync({}, signals);
  return session.tables().transfer.download(session.queue, &sync, &source, target);
}

// A buffer with random bytes, and these bytes.
struct Filled {
  Filled(Session& session, uint64_t size, uint32_t memory = 0) : buffer(session.buffer(size, memory)), bytes(random_bytes(size)) {
    session.upload(buffer, 0, bytes.data(), size);
  }
  void expect(Session& session, const char* what) const {
    const Bytes found = session.download(buffer, 0, bytes.size());
    const auto [at, expected] = std::mismatch(found.begin(), found.end(), bytes.begin());
    CHECK(at == found.end(), "%s: byte %zu of %zu is %02x; %02x was expected", what, static_cast<size_t>(at - found.begin()), bytes.size(),
          static_cast<unsigned char>(*at), static_cast<unsigned char>(*expected));
  }
  heddle_buffer_t* buffer;
  Bytes bytes;
};

void sizes_and_offsets() {
  Session session;
  const uint64_t capacity = session.fitting(5 << 20);
  Filled buffer(session, capacity);
  for (uint64_t size : {uint64_t{1}, uint64_t{3}, uint64_t{4}, uint64_t{63}, uint64_t{64}, uint64_t{4095}, uint64_t{4096}, uint64_t{4097},
                        uint64_t{65537}, (uint64_t{1} << 20) + 1, (uint64_t{4} << 20) + 13}) {
    for (uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{4093}}) {
      if (offset + size > capacity) continue;
      Bytes source = random_bytes(size + 3);  // host pointers of every alignment, too
      const uint64_t skew = offset % 3;
      session.upload(buffer.buffer, offset, source.data() + skew, size);
      std::memcpy(buffer.bytes.data() + offset, source.data() + skew, size);
      const Bytes back = session.download(buffer.buffer, offset, size);
      CHECK(std::memcmp(back.data(), source.data() + skew, size) == 0, "%llu bytes at %llu came back changed", number(size),
            number(offset));
    }
  }
  buffer.expect(session, "after uploads of many sizes");
}

void beyond_4_gib() {
  Session session;
  const uint64_t far = (uint64_t{1} << 32) + 4099;
  if (session.description.max_allocation_bytes < far + (1 << 20)) absent("a buffer of the device has less than 4 GiB");
  heddle_buffer_params_t params = {sizeof params, 0, far + (1 << 20), 0};
  heddle_buffer_t* buffer = nullptr;
  Result status(session.tables().buffer.allocate(session.device, &params, &buffer));
  if (!status.ok()) absent("4 GiB could not be allocated: %s", status.text().c_str());
  const Bytes near_bytes = random_bytes(1000), far_bytes = random_bytes(1000);
  session.upload(buffer, 4099, near_bytes.data(), 1000);
  session.upload(buffer, far, far_bytes.data(), 1000);
  CHECK(session.download(buffer, 4099, 1000) == near_bytes, "a write beyond 4 GiB landed 4 GiB below");
  CHECK(session.download(buffer, far, 1000) == far_bytes, "1000 bytes beyond 4 GiB came back changed");
  heddle_buffer_t* small = session.buffer(2000);
  List list;
  list.copy(buffer, far, small, 0, 1000).barrier().fill(buffer, far + 10, 5, 0x99, 1).barrier().copy(buffer, far, small, 1000, 1000);
  session.run(list);
  Bytes expected = far_bytes;
  expected.insert(expected.end(), far_bytes.begin(), far_bytes.end());
  std::memset(expected.data() + 1010, 0x99, 5);
  CHECK(session.download(small, 0, 2000) == expected, "copies and fills beyond 4 GiB are wrong");
  session.tables().buffer.free(buffer);
}

void over_4_gib_at_once() {
  if (!settings().large) absent("--large was not given");
  Session session;
  const uint64_t size = (uint64_t{1} << 32) + 12345;
  if (session.description.max_allocation_bytes < size) absent("a buffer of the device has less than 4 GiB");
  heddle_buffer_t* source = session.buffer(size);
  heddle_buffer_t* target = session.buffer(size);
  List list;
  list.fill(source, 0, size, 0x1122334455667788, 8).barrier().copy(source, 0, target, 0, size);
  session.run(list);
  const Bytes tail = session.download(target, size - 8 - 1, 9);  // 12345 = 8 * 1543 + 1
  const unsigned char expected[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x88};
  REQUIRE(std::memcmp(tail.data(), expected, 9) == 0, "the end of a copy of more than 4 GiB is wrong");
  void* host = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(host != MAP_FAILED, "mapping 4 GiB of host memory failed");
  const heddle_point_t done = session.point();
  REQUIRE_OK(download_async(session, {target, 0, size}, host, done).release());
  session.reach(done);
  const char* bytes = static_cast<char*>(host);
  CHECK(std::memcmp(bytes + size - 9, expected, 9) == 0 && std::memcmp(bytes + (uint64_t{1} << 32), expected, 8) == 0,
        "a download of more than 4 GiB is wrong");
  munmap(host, size);
}

void fills() {
  Session session;
  Filled buffer(session, 8192);
  for (uint32_t pattern_bytes : {1u, 2u, 4u, 8u}) {
    for (uint64_t offset : {0, 64, 128, 1000}) {
      for (uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{64}, uint64_t{1001}, uint64_t{4099}}) {
        const uint64_t pattern = random_numbers()();
        List list;
        list.fill(buffer.buffer, offset, length, pattern, pattern_bytes);
        session.run(list);
        for (uint64_t i = 0; i < length; ++i) buffer.bytes[offset + i] = static_cast<char>(pattern >> (8 * (i % pattern_bytes)));
      }
    }
    buffer.expect(session, "after fills whose length is not a multiple of the pattern");
  }
}

void fill_at_any_offset() {
  Session session;
  Filled buffer(session, 256);
  for (uint64_t offset : {1, 2, 3, 5, 7}) {
    for (uint32_t pattern_bytes : {1u, 2u, 4u, 8u}) {
      List list;
      list.fill(buffer.buffer, offset, 33, 0x0102030405060708, pattern_bytes);
      session.run(list);
      for (uint64_t i = 0; i < 33; ++i)
        buffer.bytes[offset + i] = static_cast<char>(uint64_t{0x0102030405060708} >> (8 * (i % pattern_bytes)));
      buffer.expect(session, "after a fill at an odd offset");
    }
  }
}

void bad_patterns() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(64);
  for (uint32_t pattern_bytes : {0u, 3u, 5u, 16u}) {
    List list;
    list.fill(buffer, 0, 64, 1, pattern_bytes);
    EXPECT_CODE(session.try_run(list).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
}

void copies_on_a_device() {
  Session session;
  const uint64_t capacity = session.fitting(300000);
  Filled source(session, capacity), target(session, capacity);
  for (int i = 0; i < 20; ++i) {
    const uint64_t length = random_below(capacity / 2), from = random_below(capacity - length), to = random_below(capacity - length);
    List list;
    list.copy(source.buffer, from, target.buffer, to, length);
    session.run(list);
    std::memcpy(target.bytes.data() + to, source.bytes.data() + from, length);
  }
  target.expect(session, "after copies between two buffers");
  source.expect(session, "the source of copies");
  List inside;
  inside.copy(source.buffer, 0, source.buffer, capacity / 2, capacity / 2 - 10);
  session.run(inside);
  std::memcpy(source.bytes.data() + capacity / 2, source.bytes.data(), capacity / 2 - 10);
  source.expect(session, "after a copy inside one buffer");
}

void overlap_is_refused() {
  Session session;
  Filled buffer(session, 4096);
  for (auto [from, to, length] :
       {std::tuple<uint64_t, uint64_t, uint64_t>{0, 1, 100}, {1, 0, 100}, {50, 50, 1}, {0, 4000, 4001 - 1 + 90}}) {
    if (to + length > 4096 || from + length > 4096) continue;
    List list;
    list.copy(buffer.buffer, from, buffer.buffer, to, length);
    EXPECT_CODE(session.try_run(list).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  buffer.expect(session, "after copies that were refused");
}

void copies_2d() {
  Session session;
  Filled source(session, 16384), target(session, 16384);
  for (auto [row, rows, source_stride, target_stride, from, to] :
       {std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t>{16, 10, 64, 16, 0, 0},
        {13, 7, 17, 100, 5, 3},
        {64, 1, 0, 0, 100, 200},
        {1, 100, 3, 2, 1, 1},
        {0, 5, 10, 10, 0, 0},
        {16, 10, 64, 64, 0, 8},     // bytes between rows do not change, even if the rows look like one block
        {16, 256, 64, 64, 48, 48},  // the last row ends with its buffer
        {256, 30, 256, 300, 0, 64}}) {
    const heddle_binding_t in = {source.buffer, from, 0}, out = {target.buffer, to, 0};
    List list;
    list.copy_2d(in, out, source_stride, target_stride, row, rows);
    Result status = session.try_run(list);
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it has no 2-D copies: %s", status.text().c_str());
    REQUIRE(status.ok(), "a 2-D copy returned %s", status.text().c_str());
    for (uint64_t i = 0; i < rows; ++i) {
      std::memcpy(target.bytes.data() + to + i * target_stride, source.bytes.data() + from + i * source_stride, row);
    }
    target.expect(session, "after a 2-D copy");
  }
  List list;
  list.copy_2d({source.buffer, 0, 0}, {target.buffer, 0, 0}, 4096, 16, 16, 5);
  EXPECT_CODE(session.try_run(list).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  List wraps;
  wraps.copy_2d({source.buffer, 0, 0}, {target.buffer, 0, 0}, uint64_t{1} << 63, 16, 16, 3);
  EXPECT_CODE(session.try_run(wraps).release(), HEDDLE_STATUS_OUT_OF_RANGE);
}

void bounds() {
  Session session;
  Filled buffer(session, 4096);
  heddle_buffer_t* large = session.buffer(8192);
  char host[64] = {};
  for (auto [offset, length] : {std::pair<uint64_t, uint64_t>{4090, 7}, {4097, 0}, {0, 4097}, {UINT64_MAX, 2}, {8, UINT64_MAX - 4}}) {
    const heddle_binding_t binding = {buffer.buffer, offset, length};
    EXPECT_CODE(upload_async(session, binding, host, session.point()).release(), HEDDLE_STATUS_OUT_OF_RANGE);
    EXPECT_CODE(download_async(session, binding, host, session.point()).release(), HEDDLE_STATUS_OUT_OF_RANGE);
    List fill, from, to;
    EXPECT_CODE(session.try_run(fill.fill(buffer.buffer, offset, length, 1, 1)).release(), HEDDLE_STATUS_OUT_OF_RANGE);
    EXPECT_CODE(session.try_run(from.copy(buffer.buffer, offset, large, 0, length)).release(), HEDDLE_STATUS_OUT_OF_RANGE);
    EXPECT_CODE(session.try_run(to.copy(large, 0, buffer.buffer, offset, length)).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  }
  List update;
  update.update(buffer.buffer, 4090, host, 7);
  EXPECT_CODE(session.try_run(update).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  buffer.expect(session, "after ranges that were refused");
}

void null_arguments() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(64);
  char host[64] = {};
  EXPECT_CODE(upload_async(session, {nullptr, 0, 64}, host, session.point()).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(upload_async(session, {buffer, 0, 64}, nullptr, session.point()).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(download_async(session, {buffer, 0, 64}, nullptr, session.point()).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  List fill, copy;
  EXPECT_CODE(session.try_run(fill.fill(nullptr, 0, 64, 1, 1)).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(session.try_run(copy.copy(buffer, 0, nullptr, 0, 64)).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
}

void lists_are_all_or_nothing() {
  Session session;
  Filled buffer(session, 4096);
  const heddle_point_t done = session.point();
  List list;
  list.fill(buffer.buffer, 0, 4096, 0, 1).barrier().fill(buffer.buffer, 4096, 1, 0, 1);
  EXPECT_CODE(session.submit(list, {}, {done}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_CODE(session.wait(done, 20000000).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  buffer.expect(session, "after a list whose last command was refused");
  // The same signal can still be used.
  session.submit(List(), {}, {done});
  session.reach(done);
}

void unknown_commands() {
  Session session;
  List list;
  list.barrier();
  list.commands[0].kind = 1234;
  EXPECT_CODE(session.try_run(list).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
}

void barriers_order() {
  Session session;
  const uint64_t size = session.fitting(200000);
  heddle_buffer_t* a = session.buffer(size);
  heddle_buffer_t* b = session.buffer(size);
  heddle_buffer_t* c = session.buffer(size);
  for (int round = 0; round < 5; ++round) {
    List list;
    // Read after write, write after read, write after write.
    list.fill(a, 0, size, 1, 1).barrier().copy(a, 0, b, 0, size).barrier().fill(a, 0, size, 2, 1).barrier().copy(a, 0, c, 0, size);
    list.barrier().fill(a, 0, size, 3, 1).barrier().fill(a, 0, size / 2, 4, 1);
    session.run(list);
    auto all = [&](heddle_buffer_t* buffer, uint64_t from, uint64_t to, char value) {
      const Bytes bytes = session.download(buffer, from, to - from);
      return std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte == value; });
    };
    REQUIRE(all(b, 0, size, 1), "a copy after a barrier did not see the fill before it, or saw the one after it [HD-Q-07]");
    REQUIRE(all(c, 0, size, 2), "a copy after a barrier did not see the fill before it [HD-Q-07]");
    REQUIRE(all(a, 0, size / 2, 4) && all(a, size / 2, size, 3), "two fills with a barrier between them are in the wrong order [HD-Q-07]");
  }
}

void updates_are_captured() {
  Session session;
  const uint64_t size = session.fitting(50000);
  heddle_buffer_t* buffer = session.buffer(size);
  const heddle_point_t busy = session.point(), done = session.point();
  const Bytes bytes = random_bytes(size);
  session.keep_busy(busy);
  List list;
  list.update(buffer, 0, bytes.data(), size);
  Result status = session.submit(list, {busy}, {done});
  list.scribble();
  REQUIRE(status.ok(), "an update returned %s", status.text().c_str());
  session.reach(done);
  CHECK(session.download(buffer, 0, size) == bytes, "an update's bytes were not captured when it was enqueued");
}

void uploads_are_captured() {
  Session session;
  heddle_transfer_properties_t properties = {};
  properties.struct_size = sizeof properties;
  Result status(session.tables().transfer.properties(session.device, &properties));
  if (!status.ok() || !(properties.flags & HEDDLE_TRANSFER_CAPTURES_SOURCE))
    absent("its properties do not state that uploads capture their source");
  const uint64_t size = session.fitting(1 << 20);
  heddle_buffer_t* buffer = session.buffer(size);
  for (uint64_t length : {uint64_t{1}, uint64_t{1000}, size}) {
    const heddle_point_t done = session.point();
    Bytes bytes = random_bytes(length);
    const Bytes expected = bytes;
    REQUIRE_OK(upload_async(session, {buffer, 0, length}, bytes.data(), done).release());
    std::fill(bytes.begin(), bytes.end(), 0x55);
    session.reach(done);
    CHECK(session.download(buffer, 0, length) == expected, "an upload of %llu bytes was not captured, although the driver states it",
          number(length));
  }
}

void pinned_equals_pageable() {
  Session session;
  if (!session.has_memory(HEDDLE_MEMORY_PINNED | HEDDLE_MEMORY_HOST_VISIBLE)) absent("the device has no pinned memory");
  const uint64_t size = session.fitting(1 << 20);
  Filled pinned(session, size, HEDDLE_MEMORY_PINNED | HEDDLE_MEMORY_HOST_VISIBLE);
  void* memory = nullptr;
  REQUIRE_OK(session.tables().buffer.map(pinned.buffer, 0, size, HEDDLE_MAP_READ | HEDDLE_MAP_WRITE, &memory));
  heddle_buffer_t* target = session.buffer(size);
  session.upload(target, 0, memory, size);
  CHECK(session.download(target, 0, size) == pinned.bytes, "an upload from pinned memory gives other bytes");
  const heddle_point_t done = session.point();
  std::memset(memory, 0, size);
  REQUIRE_OK(download_async(session, {target, 0, size}, memory, done).release());
  session.reach(done);
  CHECK(std::memcmp(memory, pinned.bytes.data(), size) == 0, "a download into pinned memory gives other bytes");
  EXPECT_OK(session.tables().buffer.unmap(pinned.buffer));
}

// A second device of the driver, or the first one opened again, with a buffer and a queue.
struct Peer {
  Peer(Session* session_, uint64_t size) : session(session_) {
    heddle_transfer_properties_t properties = {};
    properties.struct_size = sizeof properties;
    claims = Result(session->tables().transfer.properties(session->device, &properties)).ok() && (properties.flags & HEDDLE_TRANSFER_PEER);
    uint32_t count = 0;
    REQUIRE_OK(session->tables().device.count(session->instance.handle, &count));
    device = open_device(&session->instance, count > 1 ? 1 : 0, nullptr);
    const heddle_buffer_params_t params = {sizeof params, 0, size, 0};
    REQUIRE_OK(session->tables().buffer.allocate(device, &params, &buffer));
    const heddle_queue_params_t queue_params = {sizeof queue_params, 0};
    REQUIRE_OK(session->tables().device.queue_create(device, &queue_params, &queue));
    REQUIRE_OK(session->tables().timeline.create(device, 0, &timeline));
  }
  ~Peer() {
    session->tables().timeline.destroy(timeline);
    session->tables().buffer.free(buffer);
    EXPECT_OK(session->tables().device.queue_destroy(queue));
    EXPECT_OK(session->tables().device.close(device));
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Enqueues on the queue; the case is absent if the driver does not support it and does not claim to.
  Result enqueue(heddle_queue_t* on, const heddle_binding_t& from, const heddle_binding_t& to, const std::vector<heddle_point_t>& waits,
                 heddle_point_t done) {
    const std::vector<heddle_point_t> signals = {done};
    const heddle_sync_t sync = session->sync(waits, signals);
    Result status(session->tables().transfer.peer_copy(on, &sync, &from, &to));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) {
      REQUIRE(!claims, "its properties have HEDDLE_TRANSFER_PEER, but copying between devices returned %s", status.text().c_str());
      absent("it does not copy between devices and reports that, so the host stages: %s", status.text().c_str());
    }
    return status;
  }

  Session* session;
  heddle_device_t* device = nullptr;
  heddle_buffer_t* buffer = nullptr;
  heddle_queue_t* queue = nullptr;
  heddle_timeline_t* timeline = nullptr;  // timeline of the other device
  bool claims = false;
};

void peer_copies() {
  Session session;
  const uint64_t size = session.fitting(100000);
  Peer peer(&session, size);
  heddle_buffer_t* far = peer.buffer;
  Filled here(session, size), back(session, size);
  auto copy = [&](const heddle_binding_t& from, const heddle_binding_t& to) {
    const heddle_point_t done = session.point();
    Result status = peer.enqueue(session.queue, from, to, {}, done);
    if (status.ok()) session.reach(done);
    return status;
  };
  REQUIRE_OK(copy({here.buffer, 5, size - 5}, {far, 0, size - 5}).release());
  REQUIRE_OK(copy({far, 0, size - 5}, {back.buffer, 0, size - 5}).release());
  std::copy(here.bytes.begin() + 5, here.bytes.end(), back.bytes.begin());
  back.expect(session, "after copies to another device and back");
  EXPECT_CODE(copy({here.buffer, 0, size + 1}, {far, 0, size + 1}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_REFUSED(copy({here.buffer, 0, 8}, {far, 0, 9}).release());
  // As the host does it: on the queue of the source's device, with its timelines.
  List clear;
  session.run(clear.fill(back.buffer, 0, size, 0, 1));
  REQUIRE_OK(peer.enqueue(peer.queue, {far, 0, size - 5}, {back.buffer, 0, size - 5}, {}, {peer.timeline, 1}).release());
  session.reach({peer.timeline, 1});
  std::fill(back.bytes.begin() + static_cast<long>(size - 5), back.bytes.end(), 0);
  back.expect(session, "after a copy on the other device's queue");
}

// After the work that it waits for, and finished when its signal is reached.
void peer_copies_in_order() {
  Session session;
  const uint64_t size = session.fitting(4 << 20);
  Peer peer(&session, size);
  Filled here(session, size), back(session, size);
  for (uint8_t turn = 1; turn <= 8; ++turn) {
    const heddle_point_t busy = session.point(), filled = session.point(), there = session.point(), done = session.point();
    List fill;
    session.keep_busy(busy);
    REQUIRE_OK(session.submit(fill.fill(here.buffer, 0, size, turn, 1), {busy}, {filled}).release());
    REQUIRE_OK(peer.enqueue(session.queue, {here.buffer, 0, size}, {peer.buffer, 0, size}, {filled}, there).release());
    session.reach(there);
    // The source may be overwritten again, and the bytes are at the target.
    List other;
    REQUIRE_OK(session.submit(other.fill(here.buffer, 0, size, 0xee, 1), {}, {done}).release());
    REQUIRE_OK(peer.enqueue(peer.queue, {peer.buffer, 0, size}, {back.buffer, 0, size}, {}, {peer.timeline, turn}).release());
    session.reach({peer.timeline, turn});
    session.reach(done);
    std::fill(back.bytes.begin(), back.bytes.end(), static_cast<char>(turn));
    back.expect(session, "after copies to another device and back, after a fill");
  }
  // A failed wait becomes the copy's failure.
  const heddle_point_t poisoned = session.point(), after = session.point();
  session.tables().timeline.fail(poisoned.timeline, 1, make_status(HEDDLE_STATUS_ABORTED, "the kit's"));
  Result enqueued = peer.enqueue(session.queue, {here.buffer, 0, size}, {peer.buffer, 0, size}, {poisoned}, after);
  REQUIRE(enqueued.ok(), "a copy between devices whose wait has failed returned %s; its signal fails", enqueued.text().c_str());
  EXPECT_CODE(session.wait(after).release(), HEDDLE_STATUS_ABORTED);
}

}  // namespace

void add_transfer_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"transfer.sizes_and_offsets", "bytes go to the device and back, at every size and offset", sizes_and_offsets, Kind::kDriver},
       {"transfer.beyond_4_gib", "offsets have 64 bits", beyond_4_gib, Kind::kDriver},
       {"transfer.over_4_gib_at_once", "lengths have 64 bits", over_4_gib_at_once, Kind::kDriver},
       {"transfer.fill", "patterns of 1, 2, 4 and 8 bytes are repeated, and truncated at the end", fills, Kind::kDriver},
       {"transfer.fill_at_any_offset", "a fill starts at any byte", fill_at_any_offset, Kind::kDriver},
       {"transfer.fill_pattern", "a pattern of another size is INVALID_ARGUMENT", bad_patterns, Kind::kDriver},
       {"transfer.copy", "copies on a device are correct, and change nothing else", copies_on_a_device, Kind::kDriver},
       {"transfer.overlap", "a copy whose source and target overlap is INVALID_ARGUMENT", overlap_is_refused, Kind::kDriver},
       {"transfer.copy_2d", "rows are copied at strides, and checked to the last byte", copies_2d, Kind::kDriver},
       {"transfer.bounds", "a range beyond its buffer is OUT_OF_RANGE, also if sums overflow [HD-M-02]", bounds, Kind::kDriver},
       {"transfer.null", "a missing buffer or host pointer is INVALID_ARGUMENT", null_arguments, Kind::kDriver},
       {"transfer.all_or_nothing", "a list is enqueued or refused as a whole", lists_are_all_or_nothing, Kind::kDriver},
       {"transfer.unknown_command", "an unknown command is INVALID_ARGUMENT", unknown_commands, Kind::kDriver},
       {"transfer.barrier", "a barrier orders reads and writes before it and after it", barriers_order, Kind::kDriver},
       {"transfer.update_captured", "an update's bytes are captured at enqueue", updates_are_captured, Kind::kDriver},
       {"transfer.upload_captured", "an upload's source is captured if the driver states it", uploads_are_captured, Kind::kDriver},
       {"transfer.pinned", "pinned memory holds the same bytes as pageable memory", pinned_equals_pageable, Kind::kDriver},
       {"transfer.peer",
        "bytes go to another device of the driver and back, on either's queue, or the driver reports that it does not copy [HD-Q-02]",
        peer_copies, Kind::kDriver},
       {"transfer.peer_order", "a copy between devices begins after its waits, has finished at its signal, and fails with its waits",
        peer_copies_in_order, Kind::kDriver}});
}

}  // namespace heddle::conformance
