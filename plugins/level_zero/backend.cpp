// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/backend.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "level_zero/kernel.h"

namespace heddle::level_zero {

using stream::Copy2d;
using stream::Fill;
using stream::kSuccess;
using stream::Owner;

namespace {

constexpr uint64_t kStampsPerBlock = 512;
constexpr size_t kPage = 4096;

// Of a completion word.
struct Progress {
  struct Step {
    uint64_t value;
    std::shared_ptr<Signal> signal;
  };
  std::mutex mutex;
  std::deque<Step> steps;  // not seen as reached yet, in order; under mutex
};

// Of an event: what was recorded last.
struct Recorded {
  uint64_t* stamp = nullptr;  // for times: where the device writes its clock
  std::mutex mutex;
  std::shared_ptr<Signal> signal;  // under mutex
};

CommandStream& commands(Stream stream) noexcept {
  return *reinterpret_cast<CommandStream*>(stream);
}
Progress& progress_of(const Word& word) noexcept {
  return *reinterpret_cast<Progress*>(word.event);
}
Recorded& recorded(Event event) noexcept {
  return *reinterpret_cast<Recorded*>(event);
}
void* pointer(Address address) noexcept {
  return reinterpret_cast<void*>(address);
}

}  // namespace

Backend::Backend(const Api& its_api, const std::vector<Facts>& all, const Settings& settings, uint32_t ordinal) noexcept
    : api(its_api), facts(all[ordinal]), settings_(settings), all_(all), ordinal_(static_cast<int>(ordinal)) {
  capabilities_.waits_follow_writes = true;
  capabilities_.polls_words = true;
  capabilities_.pitched_fill_unit = 0;
  capabilities_.max_pitch = UINT32_MAX;
  capabilities_.out_of_memory = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  capabilities_.unsupported = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

Backend::~Backend() {
  if (!shared_) return;
  for (void* block : stamp_blocks_) api.zeMemFree(shared_->handle, block);
}

Result Backend::start(uint64_t retain_bytes, const char** out_step) {
  *out_step = "creating a context";
  ze_result_t result = ZE_RESULT_SUCCESS;
  shared_ = SharedContext::of(api, facts.place.driver, &result);
  if (!shared_) return seen(result);
  memory_ = std::make_unique<MemoryPool>(shared_, facts.place.device, facts.largest_allocation, retain_bytes);
  capabilities_.registers_host = shared_->imports.are_possible() || facts.reaches_all_memory;
  capabilities_.copies_to_peers = std::all_of(all_.begin(), all_.end(), [&](const Facts& other) { return reaches(other.place); });
  *out_step = "asking how it is";
  if (Result bad = check_context()) return bad;
  context_ = reinterpret_cast<stream::Context>(facts.place.device);
  return kSuccess;
}

Result Backend::seen(ze_result_t result) noexcept {
  if (result != ZE_RESULT_SUCCESS && meaning_of(result) == stream::Meaning::kContextEnded) {
    Result none = kSuccess;
    ended_.compare_exchange_strong(none, result);
  }
  return result;
}

template <class F>
Result Backend::guarded(const F& function) noexcept {
  try {
    return seen(function());
  } catch (...) {
    return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  }
}

Result Backend::check_context() noexcept {
  if (Result ended = ended_) return ended;
  return seen(api.zeDeviceGetStatus(facts.place.device));
}

// An event belongs to the context of all devices of the driver, so its status may tell of the loss of another one.
ze_result_t Backend::query(const Signal& signal) noexcept {
  const ze_result_t asked = signal.query();
  if (meaning_of(asked) != stream::Meaning::kContextEnded) return asked;
  return check_context() == kSuccess ? ZE_RESULT_NOT_READY : asked;
}

Result Backend::await(const Signal& signal) noexcept {
  for (;;) {
    const ze_result_t waited = signal.wait();
    if (meaning_of(waited) != stream::Meaning::kContextEnded) return waited;
    const ze_result_t asked = query(signal);
    if (asked != ZE_RESULT_NOT_READY) return asked;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Result Backend::create_stream(uint32_t priority, Stream* out) noexcept {
  return guarded([&] {
    CommandStream::Place place;
    place.context = shared_;
    place.device = facts.place.device;
    place.queue_group = facts.queue_group;
    if (priority) place.priority = ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH;
    place.immediate = settings_.immediate;
    auto made = std::make_unique<CommandStream>(std::move(place));
    const ze_result_t result = made->start();
    if (result == ZE_RESULT_SUCCESS) *out = reinterpret_cast<Stream>(made.release());
    return result;
  });
}
void Backend::destroy_stream(Stream which) noexcept {
  delete &commands(which);
}
uint64_t Backend::native_stream(Stream of) const noexcept {
  return commands(of).native();
}
Result Backend::synchronize_stream(Stream which) noexcept {
  return guarded([&] {
    std::shared_ptr<Signal> end;
    if (const ze_result_t bad = Signal::make(shared_, &end)) return bad;
    if (const ze_result_t bad = commands(which).signal(end)) return bad;
    return static_cast<ze_result_t>(await(*end));
  });
}
// A stream of the application would be a command list, and this loader's API does not tell whose it is.
Result Backend::is_captured(Stream, bool* out) noexcept {
  *out = false;
  return kSuccess;
}
Result Backend::context_of(Stream, stream::Context*) noexcept {
  return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

Result Backend::create_word(Word* out) noexcept {
  return guarded([&] {
    auto value = std::make_unique<std::atomic<uint64_t>>(0);
    out->event = reinterpret_cast<Event>(new Progress);
    out->value = value.release();
    return ZE_RESULT_SUCCESS;
  });
}
void Backend::destroy_word(const Word& word) noexcept {
  delete &progress_of(word);
  delete word.value;
}

Result Backend::write_word(Stream on, const Word& word, uint64_t value) noexcept {
  return guarded([&] {
    Progress& progress = progress_of(word);
    std::shared_ptr<Signal> signal;
    if (const ze_result_t bad = Signal::make(shared_, &signal)) return bad;
    std::lock_guard<std::mutex> lock(progress.mutex);
    progress.steps.push_back({value, signal});
    const ze_result_t result = commands(on).signal(signal);
    if (result != ZE_RESULT_SUCCESS) progress.steps.pop_back();
    return result;
  });
}

Result Backend::wait_word(Stream on, const Word& word, uint64_t value) noexcept {
  return guarded([&] {
    std::shared_ptr<Signal> signal;
    {
      Progress& progress = progress_of(word);
      std::lock_guard<std::mutex> lock(progress.mutex);
      for (const Progress::Step& step : progress.steps) {
        if (step.value < value) continue;
        signal = step.signal;
        break;
      }
    }
    return signal ? commands(on).wait(signal) : ZE_RESULT_SUCCESS;  // without one, it was reached
  });
}

void Backend::poll_word(const Word& word) noexcept {
  Progress& progress = progress_of(word);
  std::unique_lock<std::mutex> lock(progress.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread looks, or adds a step
  while (!progress.steps.empty()) {
    if (query(*progress.steps.front().signal) != ZE_RESULT_SUCCESS) return;
    word.value->store(progress.steps.front().value, std::memory_order_release);
    progress.steps.pop_front();
  }
}

Result Backend::launch(const Launch& launch, bool, Stream on) noexcept {
  Kernel& kernel = Kernel::of(launch.entry);
  return guarded([&] {
    return commands(on).append([&](ze_command_list_handle_t list) { return kernel.append(list, launch.grid, launch.arguments); });
  });
}
Result Backend::copy(Address to, Address from, uint64_t bytes, Stream on) noexcept {
  return guarded([&] {
    return commands(on).append([&](ze_command_list_handle_t list) {
      return api.zeCommandListAppendMemoryCopy(list, pointer(to), pointer(from), bytes, nullptr, 0, nullptr);
    });
  });
}
// Intel's driver has kernels for it, which until 2025 computed the offset of a row in 32 bits.
Result Backend::copy_2d(const Copy2d& copy, Stream on) noexcept {
  constexpr uint64_t kMostRows = uint64_t{1} << 24, kMostBytes = uint64_t{1} << 31;
  const uint64_t stride = std::max({copy.to_stride, copy.from_stride, uint64_t{1}});
  const uint64_t most = std::clamp(kMostBytes / stride, uint64_t{1}, kMostRows);
  for (uint64_t done = 0; done < copy.rows; done += most) {
    const auto rows = static_cast<uint32_t>(std::min(most, copy.rows - done));
    const ze_copy_region_t region = {0, 0, 0, static_cast<uint32_t>(copy.row_bytes), rows, 0};
    const Result result = guarded([&] {
      return commands(on).append([&](ze_command_list_handle_t list) {
        return api.zeCommandListAppendMemoryCopyRegion(
            list, pointer(copy.to + done * copy.to_stride), &region, static_cast<uint32_t>(copy.to_stride), 0,
            pointer(copy.from + done * copy.from_stride), &region, static_cast<uint32_t>(copy.from_stride), 0, nullptr, 0, nullptr);
      });
    });
    if (result != kSuccess) return result;
  }
  return kSuccess;
}
// Where there is no access, the runtime copies through host memory, since link() says so.
Result Backend::copy_peer(Address to, stream::Context to_context, Address from, stream::Context from_context, uint64_t bytes,
                          Stream on) noexcept {
  const auto other = reinterpret_cast<ze_device_handle_t>(to_context == context_ ? from_context : to_context);
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Facts& known) { return known.place.device == other; });
  if (found == all_.end() || !reaches(found->place)) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  return copy(to, from, bytes, on);
}
Result Backend::fill(const Fill& fill, Stream on) noexcept {
  return guarded([&] { return commands(on).fill(pointer(fill.to), fill.value, fill.unit, fill.count); });
}
Result Backend::fill_pitched(const Fill&, uint64_t, Stream) noexcept {
  return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

Result Backend::allocate_host(uint64_t bytes, bool, void** out) noexcept {
  const auto description = structure<ze_host_mem_alloc_desc_t>(ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC);
  return seen(api.zeMemAllocHost(shared_->handle, &description, bytes, kPage, out));
}
void Backend::free_host(void* memory) noexcept {
  api.zeMemFree(shared_->handle, memory);
}
Result Backend::register_host(void* memory, uint64_t bytes, bool) noexcept {
  if (!shared_->imports.are_possible()) return facts.reaches_all_memory ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  return guarded([&] { return shared_->imports.add(memory, bytes); });
}
void Backend::unregister_host(void* memory) noexcept {
  shared_->imports.remove(memory);
}
// All memory has one address for the host and the devices.
Result Backend::address_of(void* memory, Address* out) noexcept {
  *out = reinterpret_cast<Address>(memory);
  return kSuccess;
}
// Shared memory counts as the device's: it can be imported as its memory, and copies of it go through pinned memory.
Result Backend::owner_of(Address of, Owner* out, int* out_ordinal) noexcept {
  auto properties = structure<ze_memory_allocation_properties_t>(ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
  ze_device_handle_t device = nullptr;
  *out = Owner::kUnknown;
  if (!of) return kSuccess;
  const ze_result_t asked = api.zeMemGetAllocProperties(shared_->handle, pointer(of), &properties, &device);
  if (asked != ZE_RESULT_SUCCESS) return meaning_of(asked) == stream::Meaning::kContextEnded ? seen(asked) : kSuccess;
  if (properties.type == ZE_MEMORY_TYPE_HOST) *out = Owner::kHost;
  if (properties.type == ZE_MEMORY_TYPE_DEVICE || properties.type == ZE_MEMORY_TYPE_SHARED) {
    *out = Owner::kDevice;
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Facts& known) { return known.place.device == device; });
    *out_ordinal = found == all_.end() ? -1 : static_cast<int>(found - all_.begin());
  }
  return kSuccess;
}

Result Backend::allocate(uint64_t bytes, bool pooled, Address* out) noexcept {
  return guarded([&] { return memory_->allocate(bytes, pooled, out); });
}
void Backend::memory_info(uint64_t* out_free, uint64_t* out_total) noexcept {
  const uint64_t used = memory_->allocated_bytes();
  *out_total = facts.memory_bytes;
  *out_free = facts.memory_bytes > used ? facts.memory_bytes - used : 0;
}
// Access needs no step of its own.
Result Backend::enable_peer(stream::Backend& other) noexcept {
  return reaches(static_cast<Backend&>(other).facts.place) ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}
// Whether copies of this device reach memory of the other. Memory of another driver is of another context.
bool Backend::reaches(const Place& other) const noexcept {
  if (other.device == facts.place.device) return true;
  ze_bool_t found = false;
  if (other.driver != facts.place.driver) return false;
  return api.zeDeviceCanAccessPeer(facts.place.device, other.device, &found) == ZE_RESULT_SUCCESS && found;
}

// Eight bytes of host memory.
uint64_t* Backend::take_stamp() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stamps_.empty()) {
    stamp_blocks_.reserve(stamp_blocks_.size() + 1);
    stamps_.reserve((stamp_blocks_.size() + 1) * kStampsPerBlock);  // so that destroy_event needs no memory
    void* block = nullptr;
    if (allocate_host(kStampsPerBlock * sizeof(uint64_t), true, &block) != kSuccess) return nullptr;
    stamp_blocks_.push_back(block);
    for (uint64_t i = 0; i < kStampsPerBlock; ++i) stamps_.push_back(static_cast<uint64_t*>(block) + i);
  }
  uint64_t* stamp = stamps_.back();
  stamps_.pop_back();
  return stamp;
}

Result Backend::create_event(bool timed, Event* out) noexcept {
  return guarded([&] {
    auto made = std::make_unique<Recorded>();
    if (timed) made->stamp = take_stamp();
    if (timed && !made->stamp) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    *out = reinterpret_cast<Event>(made.release());
    return ZE_RESULT_SUCCESS;
  });
}
void Backend::destroy_event(Event which) noexcept {
  if (recorded(which).stamp) {
    std::lock_guard<std::mutex> lock(mutex_);
    stamps_.push_back(recorded(which).stamp);
  }
  delete &recorded(which);
}
// With a time: the device's clock, at that point of the stream.
Result Backend::record_event(Event which, Stream on) noexcept {
  return guarded([&] {
    Recorded& event = recorded(which);
    if (event.stamp) {
      const ze_result_t stamped = commands(on).append([&](ze_command_list_handle_t list) {
        return api.zeCommandListAppendWriteGlobalTimestamp(list, event.stamp, nullptr, 0, nullptr);
      });
      if (stamped != ZE_RESULT_SUCCESS) return stamped;
    }
    std::shared_ptr<Signal> signal;
    if (const ze_result_t bad = Signal::make(shared_, &signal)) return bad;
    if (const ze_result_t bad = commands(on).signal(signal)) return bad;
    std::lock_guard<std::mutex> lock(event.mutex);
    event.signal.swap(signal);
    return ZE_RESULT_SUCCESS;
  });
}
Result Backend::synchronize_event(Event which) noexcept {
  std::shared_ptr<Signal> signal;
  {
    std::lock_guard<std::mutex> lock(recorded(which).mutex);
    signal = recorded(which).signal;
  }
  return signal ? await(*signal) : kSuccess;
}
Result Backend::elapsed(Event from, Event to, float* out_ms) noexcept {
  const uint64_t* began = recorded(from).stamp;
  const uint64_t* ended = recorded(to).stamp;
  if (!began || !ended || facts.timer_hz == 0) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  const uint64_t ticks = (*ended - *began) & facts.timer_mask;  // the clock wraps around
  *out_ms = static_cast<float>(static_cast<double>(ticks) * 1e3 / static_cast<double>(facts.timer_hz));
  return kSuccess;
}

}  // namespace heddle::level_zero
