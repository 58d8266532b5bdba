// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams, events, and words that streams write and wait for.
#include "heddle/sdk/futex.h"
#include "runtime.h"

namespace heddle::test::hip {
namespace {

std::mutex handles_mutex;
std::set<Stream*>& streams = *new std::set<Stream*>;
std::map<Event*, std::shared_ptr<Event>>& events = *new std::map<Event*, std::shared_ptr<Event>>;  // pending work keeps them, too
std::map<int, Stream*>& default_streams = *new std::map<int, Stream*>;

std::shared_ptr<Event> event_of(void* handle) {
  std::lock_guard<std::mutex> lock(handles_mutex);
  const auto found = events.find(static_cast<Event*>(handle));
  return found == events.end() ? nullptr : found->second;
}

Stream* make_stream(Device* device) {
  auto made = std::make_shared<Stream>();
  Stream* stream = made.get();
  stream->device = device;
  std::lock_guard<std::mutex> lock(device->mutex);
  if (device->queues.empty()) {
    stream->own_queue = std::make_unique<LateStream>(&device->ended, next_seed(), settings().latency_us);
    stream->queue = stream->own_queue.get();
  } else {
    stream->queue = device->queues[device->next_queue++ % device->queues.size()].get();
  }
  device->streams[stream] = std::move(made);
  return stream;
}

constexpr int kMostKeptWrites = 64;

// Waits as a queue does, which also ends when the context has.
template <typename IsOver>
int wait_in_queue(Device* device, const IsOver& is_over) {
  while (!is_over() && device->ended == kSuccess) std::this_thread::sleep_for(std::chrono::microseconds(5));
  return kSuccess;
}

}  // namespace

Stream* stream_of(void* handle) {
  std::lock_guard<std::mutex> lock(handles_mutex);
  if (handle) return streams.contains(static_cast<Stream*>(handle)) ? static_cast<Stream*>(handle) : nullptr;
  Device* self = current();
  if (!self) return nullptr;
  Stream*& made = default_streams[self->ordinal];
  if (!made) made = make_stream(self);
  return made;
}

int Stream::enqueue(LateStream::Work work) {
  if (const int bad = state(device)) return bad;
  std::lock_guard<std::mutex> lock(mutex);
  last = queue->enqueue(std::move(work));
  return kSuccess;
}
void Stream::land() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Landing& each : landing) std::memcpy(each.to, each.bytes.data(), each.bytes.size());
  landing.clear();
}
int Stream::synchronize() {
  kept_writes = 0;
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(mutex);
    number = last;
  }
  queue->wait_for(number);
  land();
  return state(device);
}
bool Stream::is_idle() {
  std::lock_guard<std::mutex> lock(mutex);
  return queue->is_done(last);
}

extern "C" {

int hipDeviceGetStreamPriorityRange(int* out_least, int* out_greatest) {
  *out_least = 1;
  *out_greatest = -1;
  return kSuccess;
}
int hipStreamCreateWithPriority(void** out, unsigned flags, int priority) {
  Device* self = current();
  if (const int bad = state(self)) return result(bad);
  if (flags > 1 || priority < -1 || priority > 1) return result(kInvalidValue);
  Stream* stream = make_stream(self);
  std::lock_guard<std::mutex> lock(handles_mutex);
  streams.insert(stream);
  *out = stream;
  return kSuccess;
}
int hipStreamDestroy(void* handle) {
  Stream* stream = handle ? stream_of(handle) : nullptr;
  if (!stream) return result(kContextIsDestroyed);
  stream->synchronize();
  {
    std::lock_guard<std::mutex> lock(handles_mutex);
    streams.erase(stream);
  }
  std::shared_ptr<Stream> keep;  // beyond the lock
  {
    std::lock_guard<std::mutex> lock(stream->device->mutex);
    keep = std::move(stream->device->streams[stream]);
    stream->device->streams.erase(stream);
  }
  return kSuccess;
}
int hipStreamSynchronize(void* handle) {
  Stream* stream = stream_of(handle);
  return result(stream ? stream->synchronize() : kContextIsDestroyed);
}
int hipStreamQuery(void* handle) {
  Stream* stream = stream_of(handle);
  if (!stream) return result(kContextIsDestroyed);
  stream->kept_writes = 0;
  if (const int bad = state(stream->device)) return result(bad);
  return result(stream->is_idle() ? kSuccess : kNotReady);
}
int hipStreamIsCapturing(void* handle, int* out) {
  *out = 0;
  return result(stream_of(handle) ? kSuccess : kContextIsDestroyed);
}
int hipGetStreamDeviceId(void* handle) {
  Stream* stream = stream_of(handle);
  return stream ? stream->device->ordinal : -1;
}
int hipStreamWriteValue64(void* handle, void* word, uint64_t value, unsigned) {
  Stream* stream = stream_of(handle);
  GpuMemory::Block block;
  uint64_t offset = 0;
  const auto address = reinterpret_cast<uint64_t>(word);
  if (!stream) return result(kContextIsDestroyed);
  if (!GpuMemory::all().find(address, 8, &block, &offset) || address % 8 != 0) return result(kInvalidValue);
  if (++stream->kept_writes > kMostKeptWrites) {
    say("a stream of device %d keeps the commands of more than %d writes: nobody has waited for it, queried it, or recorded an event on it",
        stream->device->ordinal, kMostKeptWrites);
    return result(kOutOfMemory);
  }
  return result(stream->enqueue([=]() -> int {
    std::shared_ptr<void> keep;
    uint32_t flags = 0;
    char* at = reach(stream->device, address, 8, false, &keep, &flags);
    if (!at) return kIllegalAddress;
    if (flags & kNonCoherentFlag) {
      std::lock_guard<std::mutex> lock(stream->mutex);
      const char* bytes = reinterpret_cast<const char*>(&value);
      stream->landing.push_back({at, {bytes, bytes + 8}});
    } else {
      reinterpret_cast<std::atomic<uint64_t>*>(at)->store(value, std::memory_order_release);
    }
    return kSuccess;
  }));
}
int hipStreamWaitValue64(void* handle, void* word, uint64_t value, unsigned flags, uint64_t mask) {
  Stream* stream = stream_of(handle);
  const auto address = reinterpret_cast<uint64_t>(word);
  GpuMemory::Block block;
  uint64_t offset = 0;
  if (!stream) return result(kContextIsDestroyed);
  if (flags != 0 || settings().signal_waits || !GpuMemory::all().find(address, 8, &block, &offset)) return result(kInvalidValue);
  return result(stream->enqueue([=]() -> int {
    std::shared_ptr<void> keep;
    const char* at = reach(stream->device, address, 8, false, &keep);
    if (!at) return kIllegalAddress;
    return wait_in_queue(stream->device, [&] {
      return (reinterpret_cast<const std::atomic<uint64_t>*>(at)->load(std::memory_order_acquire) & mask) >= value;
    });
  }));
}

int hipEventCreateWithFlags(void** out, unsigned flags) {
  if (const int bad = state(current())) return result(bad);
  auto event = std::make_shared<Event>();
  event->is_timed = (flags & 2) == 0;
  std::lock_guard<std::mutex> lock(handles_mutex);
  events[event.get()] = event;
  *out = event.get();
  return kSuccess;
}
int hipEventDestroy(void* handle) {
  std::lock_guard<std::mutex> lock(handles_mutex);
  return result(events.erase(static_cast<Event*>(handle)) ? kSuccess : kInvalidHandle);
}
int hipEventRecord(void* handle, void* on) {
  const std::shared_ptr<Event> event = event_of(handle);
  Stream* stream = stream_of(on);
  if (!event || !stream) return result(kInvalidHandle);
  stream->kept_writes = 0;
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    number = ++event->recorded;
    event->stream = stream;
    event->device = stream->device;
  }
  return result(stream->enqueue([event, number]() -> int {
    std::lock_guard<std::mutex> lock(event->mutex);
    event->passed = std::max(event->passed, number);
    event->time_ns = sdk::monotonic_ns();
    event->changed.notify_all();
    return kSuccess;
  }));
}
int hipStreamWaitEvent(void* handle, void* of, unsigned flags) {
  Stream* stream = stream_of(handle);
  const std::shared_ptr<Event> event = event_of(of);
  if (!stream || !event || flags) return result(kInvalidHandle);
  uint64_t number;
  {
    std::lock_guard<std::mutex> lock(event->mutex);
    number = event->recorded;  // what has been recorded so far; nothing: no wait
  }
  return result(stream->enqueue([=]() -> int {
    return wait_in_queue(stream->device, [&] {
      std::lock_guard<std::mutex> lock(event->mutex);
      return event->passed >= number;
    });
  }));
}
int hipEventSynchronize(void* handle) {
  const std::shared_ptr<Event> event = event_of(handle);
  if (!event) return result(kInvalidHandle);
  std::unique_lock<std::mutex> lock(event->mutex);
  const uint64_t number = event->recorded;
  Stream* stream = event->stream;
  Device* on = event->device;
  if (!number) return kSuccess;
  while (event->passed < number && state(on) == kSuccess) event->changed.wait_for(lock, std::chrono::milliseconds(1));
  lock.unlock();
  const int over = state(on);
  if (over == kSuccess && stream_of(stream) == stream) stream->land();
  return result(over);
}
int hipEventElapsedTime(float* out_ms, void* from, void* to) {
  const std::shared_ptr<Event> first = event_of(from), last = event_of(to);
  if (!first || !last || !first->is_timed || !last->is_timed) return result(kInvalidHandle);
  std::scoped_lock lock(first->mutex, last->mutex);
  if (first->passed < first->recorded || last->passed < last->recorded || !first->passed) return result(kNotReady);
  *out_ms = static_cast<float>(static_cast<double>(last->time_ns - first->time_ns) * 1e-6);
  return kSuccess;
}
}

}  // namespace heddle::test::hip
