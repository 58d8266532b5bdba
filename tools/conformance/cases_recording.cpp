// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: lists that are recorded and replayed. They use copies and fills, which need no kernels, and dispatches if kernels are available.
#include <algorithm>
#include <cstring>

#include "session.h"

namespace heddle::conformance {
namespace {

constexpr uint8_t kDynamic = HEDDLE_BINDING_DYNAMIC, kReadOnly = HEDDLE_BINDING_READ_ONLY;

class Recording {
 public:
  Recording(Session* session, const List& list, const std::vector<uint8_t>& dynamic) : session_(session) {
    if (!(session->description.features & HEDDLE_DEVICE_RECORDING)) absent("the device does not record");
    Result status(session->tables().dispatch.record(session->queue, list.commands.data(), static_cast<uint32_t>(list.commands.size()),
                                                    dynamic.data(), &handle));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it does not record this list, which is optional: %s", status.text().c_str());
    REQUIRE(status.ok() && handle, "recording returned %s", status.text().c_str());
  }
  ~Recording() { session_->tables().dispatch.recording_free(handle); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  // Replays and waits; returns the failure of either.
  Result replay(const std::vector<heddle_binding_t>& bindings) {
    const heddle_point_t done = session_->point();
    const std::vector<heddle_point_t> signals = {done};
    const heddle_sync_t sync = session_->sync({}, signals);
    heddle_status_t* failure = session_->tables().dispatch.replay(handle, bindings.data(), static_cast<uint32_t>(bindings.size()), &sync);
    return failure ? Result(failure) : session_->wait(done);
  }

 private:
  Session* session_;
  heddle_recording_t* handle = nullptr;
};

void new_bindings() {
  Session session;
  const uint64_t size = session.round_up(1000);
  heddle_buffer_t* first = session.buffer(3 * size);
  heddle_buffer_t* second = session.buffer(3 * size);
  heddle_buffer_t* through = session.buffer(size);
  const std::vector<char> bytes = random_bytes(3 * size), other = random_bytes(3 * size);
  session.upload(first, 0, bytes.data(), 3 * size);
  session.upload(second, 0, other.data(), 3 * size);
  List list;
  list.copy(first, 0, through, 0, 1000).barrier().fill(through, 10, 5, 0x42, 1).barrier().copy(through, 0, first, size, 1000);
  Recording recording(&session, list, {kDynamic, 0, 0, 0, kDynamic});  // the first source and the last target are dynamic
  list.scribble();
  auto expect = [&](heddle_buffer_t* target, uint64_t offset, std::vector<char> expected, const char* what) {
    std::memset(expected.data() + 10, 0x42, 5);
    CHECK(session.download(target, offset, 1000) == expected, "%s", what);
  };
  REQUIRE_OK(recording.replay({{first, 0, 1000}, {first, size, 1000}}).release());
  expect(first, size, {bytes.begin(), bytes.begin() + 1000}, "a replay with the recorded bindings is wrong");
  REQUIRE_OK(recording.replay({{second, size, 1000}, {second, 2 * size, 1000}}).release());
  expect(second, 2 * size, {other.begin() + static_cast<long>(size), other.begin() + static_cast<long>(size) + 1000},
         "a replay with new bindings used other bindings");
  CHECK(session.download(second, 0, size) == std::vector<char>(other.begin(), other.begin() + static_cast<long>(size)),
        "a replay wrote outside of its bindings");
  for (uint64_t i = 0; i < 20; ++i) {
    heddle_buffer_t* from = i % 2 ? first : second;
    REQUIRE_OK(recording.replay({{from, 0, 1000}, {from, 2 * size, 1000}}).release());
  }
  expect(first, 2 * size, {bytes.begin(), bytes.begin() + 1000}, "after 20 replays the last is wrong");
}

void captures() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(4096);
  const std::vector<char> bytes = random_bytes(100);
  List list;
  list.update(buffer, 0, bytes.data(), 100);
  Recording recording(&session, list, {0});
  list.scribble();
  for (int i = 0; i < 3; ++i) {
    List clear;
    session.run(clear.fill(buffer, 0, 4096, 0, 1));
    REQUIRE_OK(recording.replay({}).release());
    CHECK(session.download(buffer, 0, 100) == bytes, "an update's bytes were not captured when it was recorded");
  }
}

void dispatches() {
  Session session;
  Kernels kernels(&session);
  const uint64_t step = session.round_up(8);
  heddle_buffer_t* values = session.buffer(3 * step);
  List clear;
  session.run(clear.fill(values, 0, 3 * step, 0, 1));
  List list;
  list.dispatch(kernels, "chain", {{values, 0, 8}}, {5}, 1).barrier().dispatch(kernels, "chain", {{values, step, 8}}, {9}, 1);
  Recording recording(&session, list, {kDynamic, 0});
  list.scribble();
  REQUIRE_OK(recording.replay({{values, 0, 8}}).release());
  REQUIRE_OK(recording.replay({{values, 2 * step, 8}}).release());
  REQUIRE_OK(recording.replay({{values, 2 * step, 8}}).release());
  auto word = [&](uint64_t offset) {
    uint64_t value = 0;
    std::memcpy(&value, session.download(values, offset, 8).data(), 8);
    return value;
  };
  CHECK(word(0) == 5 && word(2 * step) == 20, "the dynamic binding of replayed dispatches has %llu and %llu; 5 and 20 were expected",
        number(word(0)), number(word(2 * step)));
  CHECK(word(step) == 117, "the static binding of replayed dispatches has %llu; 117 was expected", number(word(step)));
}

// A driver may copy read-only bindings, but only at the start of each replay.
void read_only() {
  Session session;
  const uint64_t size = session.round_up(1000);
  heddle_buffer_t* sources = session.buffer(2 * size);
  heddle_buffer_t* others = session.buffer(2 * size);
  heddle_buffer_t* target = session.buffer(2 * size);
  heddle_buffer_t* fixed = session.buffer(size);
  List list;
  list.copy(sources, 0, target, 0, 1000).copy(fixed, 0, target, size, 1000);
  Recording recording(&session, list, {kDynamic | kReadOnly, kDynamic, kReadOnly, 0});
  list.scribble();
  for (heddle_buffer_t* from : {sources, others, sources}) {
    for (const uint64_t offset : {uint64_t{0}, size}) {
      const std::vector<char> bytes = random_bytes(1000), of_fixed = random_bytes(1000);
      session.upload(from, offset, bytes.data(), 1000);
      session.upload(fixed, 0, of_fixed.data(), 1000);
      REQUIRE_OK(recording.replay({{from, offset, 1000}, {target, 0, 1000}}).release());
      CHECK(session.download(target, 0, 1000) == bytes, "a replay did not read the buffer that was passed for a read-only binding");
      CHECK(session.download(target, size, 1000) == of_fixed, "a replay did not read the current contents of a static read-only binding");
      CHECK(session.download(from, offset, 1000) == bytes, "a replay wrote to a read-only binding");
    }
  }
}

void checked_like_submit() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(4096);
  List list;
  list.fill(buffer, 0, 64, 7, 1);
  Recording recording(&session, list, {kDynamic});
  EXPECT_CODE(recording.replay({}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(recording.replay({{buffer, 0, 64}, {buffer, 64, 64}}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_REFUSED(recording.replay({{buffer, 0, 65}}).release());
  EXPECT_CODE(recording.replay({{buffer, 4096 - 63, 64}}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_OK(recording.replay({{buffer, 4096 - 64, 64}}).release());
  List bad;
  bad.fill(buffer, 4090, 64, 7, 1);
  heddle_recording_t* handle = nullptr;
  const uint8_t none = 0;
  EXPECT_CODE(session.tables().dispatch.record(session.queue, bad.commands.data(), 1, &none, &handle), HEDDLE_STATUS_OUT_OF_RANGE);
}

void not_offered() {
  Session session;
  if (session.description.features & HEDDLE_DEVICE_RECORDING) absent("the device records");
  heddle_buffer_t* buffer = session.buffer(64);
  List list;
  list.fill(buffer, 0, 64, 7, 1);
  heddle_recording_t* handle = nullptr;
  const uint8_t dynamic = kDynamic;
  EXPECT_CODE(session.tables().dispatch.record(session.queue, list.commands.data(), 1, &dynamic, &handle), HEDDLE_STATUS_UNIMPLEMENTED);
}

}  // namespace

void add_recording_cases(Cases* out) {
  out->insert(out->end(),
              {{"recording.new_bindings", "a replay uses its own bindings, and the recorded ones if they are static [HD-G-01]",
                new_bindings, Kind::kDriver},
               {"recording.captures", "everything that is not dynamic is captured when it is recorded", captures, Kind::kDriver},
               {"recording.dispatches", "dispatches are replayed", dispatches, Kind::kDriver},
               {"recording.read_only", "read-only bindings are read at each replay, from its buffers [HD-G-01]", read_only, Kind::kDriver},
               {"recording.checked", "recording and replay check as submit does", checked_like_submit, Kind::kDriver},
               {"recording.not_offered", "a device that does not record returns UNIMPLEMENTED [HD-G-01]", not_offered, Kind::kDriver}});
}

}  // namespace heddle::conformance
