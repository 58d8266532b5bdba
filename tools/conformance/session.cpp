// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See session.h.
#include "session.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace heddle::conformance {

Instance::Instance() : Instance(plugin_options()) {}

Instance::Instance(std::vector<OptionValue> options) : host(std::move(options)) {
  REQUIRE_OK(plugin().table.create(host.table(), &handle));
  REQUIRE(handle, "create returned neither a status nor an instance [HD-E-03]");
  copy_tables(handle, &tables);
  api = {sizeof api,       0,
         host.table(),     handle,
         &tables.device,   &tables.buffer,
         &tables.transfer, &tables.param_io,
         &tables.dispatch, &tables.timeline,
         &tables.native,   &tables.profile,
         &tables.blocks};
}

Instance::~Instance() {
  if (!handle) return;
  EXPECT_OK(plugin().table.shutdown(handle));
  CHECK(host.live_memory() == 0, "shutdown left %lld pieces of host memory", static_cast<long long>(host.live_memory()));
}

heddle_device_description_t describe_device(Instance* instance, uint32_t ordinal) {
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  REQUIRE_OK(instance->tables.device.describe(instance->handle, ordinal, &description));
  return description;
}

heddle_device_t* open_device(Instance* instance, uint32_t ordinal, Result* out_failure) {
  heddle_device_open_params_t params = {sizeof params, 0, &instance->api, {nullptr, 0}, -1, 0};
  heddle_device_t* device = nullptr;
  heddle_status_t* failure = instance->tables.device.open(instance->handle, ordinal, &params, &device);
  if (out_failure) {
    new (out_failure) Result(failure);
  } else {
    REQUIRE_OK(failure);
  }
  return device;
}

Session::Session(uint32_t ordinal) {
  uint32_t count = 0;
  REQUIRE_OK(tables().device.count(instance.handle, &count));
  REQUIRE(count > ordinal, "the plugin has %u devices; the kit needs one", count);
  description = describe_device(&instance, ordinal);
  device = open_device(&instance, ordinal, nullptr);
  REQUIRE(device, "open returned neither a status nor a device");
  Result failure(nullptr);
  queue = try_queue(&failure);
  REQUIRE(queue, "a device's first queue returned %s", failure.text().c_str());
}

Session::~Session() {
  for (heddle_timeline_t* timeline : timelines_) tables().timeline.destroy(timeline);
  for (heddle_queue_t* each : queues_) EXPECT_OK(tables().device.queue_destroy(each));
  for (heddle_buffer_t* each : buffers_) tables().buffer.free(each);
  EXPECT_OK(tables().device.close(device));
}

heddle_queue_t* Session::try_queue(Result* out_failure) {
  heddle_queue_params_t params = {sizeof params, 0};
  heddle_queue_t* made = nullptr;
  heddle_status_t* failure = tables().device.queue_create(device, &params, &made);
  if (made) queues_.push_back(made);
  out_failure->~Result();
  new (out_failure) Result(failure);
  return made;
}

heddle_queue_t* Session::other_queue_or_first() {
  Result failure(nullptr);
  if (heddle_queue_t* made = try_queue(&failure)) return made;
  REQUIRE(failure.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "a second queue returned %s; a device without one returns RESOURCE_EXHAUSTED",
          failure.text().c_str());
  return queue;
}

heddle_queue_t* Session::other_queue() {
  heddle_queue_t* other = other_queue_or_first();
  if (other == queue) absent("the device has one queue");
  return other;
}

void Session::destroy_queue(heddle_queue_t* which) {
  EXPECT_OK(tables().device.queue_destroy(which));
  std::erase(queues_, which);
}

heddle_buffer_t* Session::buffer(uint64_t size, uint32_t memory) {
  heddle_buffer_params_t params = {sizeof params, memory ? memory : has_memory(HEDDLE_MEMORY_DEVICE) ? HEDDLE_MEMORY_DEVICE : 0u, size, 0};
  heddle_buffer_t* made = nullptr;
  REQUIRE_OK(tables().buffer.allocate(device, &params, &made));
  REQUIRE(made, "allocate returned neither a status nor a buffer");
  buffers_.push_back(made);
  return made;
}

heddle_timeline_t* Session::timeline(uint64_t initial_value) {
  heddle_timeline_t* made = nullptr;
  REQUIRE_OK(tables().timeline.create(device, initial_value, &made));
  REQUIRE(made, "create returned neither a status nor a timeline");
  timelines_.push_back(made);
  return made;
}

void Session::free(heddle_buffer_t* which) {
  tables().buffer.free(which);
  std::erase(buffers_, which);
}

void Session::destroy(heddle_timeline_t* which) {
  tables().timeline.destroy(which);
  std::erase(timelines_, which);
}

heddle_sync_t Session::sync(const std::vector<heddle_point_t>& waits, const std::vector<heddle_point_t>& signals) const {
  return {sizeof(heddle_sync_t), static_cast<uint32_t>(waits.size()), static_cast<uint32_t>(signals.size()), 0, waits.data(),
          signals.data()};
}

void Session::upload(heddle_buffer_t* target, uint64_t offset, const void* bytes, uint64_t length) {
  const heddle_point_t done = point();
  const std::vector<heddle_point_t> signals = {done};
  const heddle_sync_t with = sync({}, signals);
  const heddle_binding_t binding = {target, offset, length};
  REQUIRE_OK(tables().transfer.upload(queue, &with, bytes, &binding));
  reach(done);
  destroy(done.timeline);
}

std::vector<char> Session::download(heddle_buffer_t* source, uint64_t offset, uint64_t length) {
  std::vector<char> bytes(length, 0x5c);
  const heddle_point_t done = point();
  const std::vector<heddle_point_t> signals = {done};
  const heddle_sync_t with = sync({}, signals);
  const heddle_binding_t binding = {source, offset, length};
  REQUIRE_OK(tables().transfer.download(queue, &with, &binding, bytes.data()));
  reach(done);
  destroy(done.timeline);
  return bytes;
}

Result Session::submit(const List& list, const std::vector<heddle_point_t>& waits, const std::vector<heddle_point_t>& signals,
                       heddle_queue_t* on) {
  const heddle_submission_t submission = {sizeof submission, static_cast<uint32_t>(list.commands.size()), list.commands.data(),
                                          sync(waits, signals)};
  return tables().dispatch.submit(on ? on : queue, &submission);
}

Result Session::try_run(const List& list, heddle_queue_t* on) {
  const heddle_point_t done = point();
  Result failure = submit(list, {}, {done}, on);
  if (!failure.ok()) return failure;
  Result waited = wait(done);
  REQUIRE(waited.code() != HEDDLE_STATUS_DEADLINE_EXCEEDED, "a submission's signal was not reached within %llu s",
          number(patience_ns() / 1000000000));
  destroy(done.timeline);
  return waited;
}

void Session::run(const List& list, heddle_queue_t* on) {
  Result result = try_run(list, on);
  REQUIRE(result.ok(), "a list of %zu commands returned %s", list.commands.size(), result.text().c_str());
}

Result Session::wait(heddle_point_t point, uint64_t timeout_ns) {
  return tables().timeline.wait(&point, 1, HEDDLE_WAIT_ALL, timeout_ns);
}

void Session::reach(heddle_point_t point) {
  Result result = wait(point);
  REQUIRE(result.ok(), "waiting for value %llu returned %s", number(point.value), result.text().c_str());
}

namespace {
constexpr uint64_t kBusyNs = 30000000;
constexpr uint32_t kMostBusyFills = 2048;
}  // namespace

void Session::keep_busy(heddle_point_t signal, heddle_queue_t* on) {
  uint64_t size = fitting(8 << 20);
  while (busy_fills_ == 0) {
    busy_ = buffer(size);
    busy_bytes_ = size;
    uint64_t shortest = UINT64_MAX;  // of one fill; the first also touches the memory
    for (int i = 0; i < 4; ++i) {
      const uint64_t start = now_ns();
      run(fills_of_busy(1));
      shortest = std::min(shortest, now_ns() - start);
    }
    // Few long commands: submitting a list of thousands takes time itself.
    if (shortest < 100000 && size < fitting(512 << 20)) {
      free(busy_);
      size = fitting(size * 4);
      continue;
    }
    busy_fills_ = static_cast<uint32_t>(std::clamp<uint64_t>(kBusyNs / std::max<uint64_t>(shortest, 1), 1, kMostBusyFills));
    // Other work on the machine may have delayed all of these fills, and then they say too much of one.
    for (;;) {
      const uint64_t start = now_ns();
      run(fills_of_busy(busy_fills_));
      if (now_ns() - start >= kBusyNs / 2 || !keep_busy_longer()) break;
    }
  }
  Result result = submit(fills_of_busy(busy_fills_), {}, {signal}, on);
  REQUIRE(result.ok(), "submitting long work returned %s", result.text().c_str());
}

bool Session::keep_busy_longer() {
  if (busy_fills_ >= kMostBusyFills) return false;
  busy_fills_ = std::min(busy_fills_ * 2, kMostBusyFills);
  return true;
}

List Session::fills_of_busy(uint32_t fills) const {
  List list;
  for (uint32_t i = 0; i < fills; ++i) list.fill(busy_, 0, busy_bytes_, i, 1).barrier();
  return list;
}

uint64_t Session::fitting(uint64_t wanted) const {
  const uint64_t most = std::min(description.max_allocation_bytes, description.memory_bytes) / 16;
  return most ? std::min(wanted, most) : wanted;
}

uint32_t Session::mappable() const {
  if (!(description.memory_kinds & HEDDLE_MEMORY_HOST_VISIBLE)) absent("the device has no memory that the host can map");
  return HEDDLE_MEMORY_HOST_VISIBLE;
}

namespace {

heddle_command_t command(uint32_t kind) {
  heddle_command_t made = {};
  made.kind = kind;
  return made;
}

}  // namespace

List& List::barrier() {
  commands.push_back(command(HEDDLE_COMMAND_BARRIER));
  return *this;
}

List& List::copy(heddle_buffer_t* source, uint64_t source_offset, heddle_buffer_t* target, uint64_t target_offset, uint64_t length) {
  commands.push_back(command(HEDDLE_COMMAND_COPY));
  commands.back().as.copy = {source, target, source_offset, target_offset, length};
  return *this;
}

List& List::fill(heddle_buffer_t* target, uint64_t offset, uint64_t length, uint64_t pattern, uint32_t pattern_bytes) {
  commands.push_back(command(HEDDLE_COMMAND_FILL));
  commands.back().as.fill = {target, offset, length, pattern, pattern_bytes, 0};
  return *this;
}

List& List::update(heddle_buffer_t* target, uint64_t offset, const void* source, uint64_t length) {
  constants.emplace_back((length + 7) / 8);
  if (length) std::memcpy(constants.back().data(), source, length);
  commands.push_back(command(HEDDLE_COMMAND_UPDATE));
  commands.back().as.update = {target, offset, length, constants.back().data()};
  return *this;
}

List& List::copy_2d(heddle_binding_t source, heddle_binding_t target, uint64_t source_stride, uint64_t target_stride, uint64_t row_bytes,
                    uint64_t rows) {
  bindings.push_back({source, target});
  commands.push_back(command(HEDDLE_COMMAND_COPY_2D));
  commands.back().as.copy_2d = {&bindings.back()[0], &bindings.back()[1], source_stride, target_stride, row_bytes, rows};
  return *this;
}

List& List::dispatch(const Kernels& kernels, const std::string& entry, std::vector<heddle_binding_t> with, std::vector<int64_t> values,
                     uint32_t x, uint32_t y, uint32_t z) {
  return dispatch(kernels.entry(entry), std::move(with), std::move(values), x, y, z);
}

List& List::dispatch(heddle_entry_t* entry, std::vector<heddle_binding_t> with, std::vector<int64_t> values, uint32_t x, uint32_t y,
                     uint32_t z) {
  bindings.push_back(std::move(with));
  constants.push_back(std::move(values));
  commands.push_back(command(HEDDLE_COMMAND_DISPATCH));
  commands.back().as.dispatch = {entry,
                                 bindings.back().data(),
                                 constants.back().data(),
                                 static_cast<uint32_t>(bindings.back().size()),
                                 static_cast<uint32_t>(constants.back().size() * 8),
                                 {x, y, z},
                                 4711};
  return *this;
}

void List::scribble() {
  for (auto& each : bindings) {
    for (heddle_binding_t& binding : each) binding = {nullptr, 0x5555, 0x5555};
  }
  for (auto& each : constants) std::fill(each.begin(), each.end(), 0x5555555555555555);
  for (heddle_command_t& each : commands) std::memset(&each, 0x55, sizeof each);
}

TemporaryFile::TemporaryFile(const std::vector<char>& contents) {
  path = temporary_path(std::string(kTemporaryPrefix) + "XXXXXX");
  descriptor = mkostemp(path.data(), O_CLOEXEC);
  REQUIRE(descriptor >= 0, "making a temporary file in %s failed", path.c_str());
  made_file(path.substr(path.rfind('/') + 1));
  uint64_t written = 0;
  while (written < contents.size()) {
    const ssize_t moved = write(descriptor, contents.data() + written, contents.size() - written);
    REQUIRE(moved > 0, "writing %zu bytes to %s failed", contents.size(), path.c_str());
    written += static_cast<uint64_t>(moved);
  }
}

TemporaryFile::~TemporaryFile() {
  close(descriptor);
  unlink(path.c_str());
}

void expect_no_growth(const char* what, int rounds, uint64_t budget_ns, const std::function<void()>& life) {
  const uint64_t start = now_ns();
  auto within = [&] { return now_ns() - start < budget_ns; };
  for (int i = 0; i < std::max(rounds / 10, 5) && within(); ++i) life();
  // Freed memory stays resident under a sanitizer: only the heap is compared there.
  auto memory_bytes = [] { return kHasShadowMemory ? heap_bytes() : static_cast<int64_t>(resident_bytes()); };
  const uint64_t descriptors = count_descriptors(), threads = count_threads(), mappings = count_mappings();
  const int64_t memory = memory_bytes();
  int done = 0;
  for (; done < rounds && within(); ++done) life();
  CHECK(count_descriptors() <= descriptors, "%d times %s: %llu descriptors grew to %llu", done, what, number(descriptors),
        number(count_descriptors()));
  for (int i = 0; i < 500 && count_threads() > threads; ++i) usleep(2000);
  CHECK(count_threads() <= threads, "%d times %s: %llu threads grew to %llu", done, what, number(threads), number(count_threads()));
  CHECK(count_mappings() <= mappings + 8 + static_cast<uint64_t>(done) / 50, "%d times %s: %llu mappings grew to %llu", done, what,
        number(mappings), number(count_mappings()));
  const int64_t grown = memory_bytes() - memory;
  CHECK(grown <= 8 << 20, "%d times %s: memory grew by %llu KiB", done, what, number(static_cast<uint64_t>(grown) >> 10));
}

}  // namespace heddle::conformance
