// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens and closes devices, chooses their pool, and moves bytes between host and device.
// Called through device.h; knows nothing of tensors or programs.
#include "core/memory/device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/memory/foreign_stream.h"

namespace heddle::memory {

namespace {

constexpr size_t kKeptStaging = 8;
constexpr size_t kKeptShared = 16;
constexpr uint64_t kSharedBytes = 4096;  // size of the kept blocks
constexpr size_t kForeignStreams = 16;   // number kept; more exist only while calls use them

}  // namespace

Result<Ref<Device>> Device::open(std::shared_ptr<host::Host> host, const host::DeviceInfo& info) {
  Ref<Device> device = Ref<Device>::adopt(new Device());
  device->host_ = std::move(host);
  device->alias_ = info.alias;
  device->driver_id_ = info.driver->id;
  device->driver_minor_ = info.driver->abi_minor;
  device->cpus_ = info.cpus;
  device->description_ = info.description;
  device->config_ = info.config;
  device->api_ = &info.driver->api;
  const heddle_driver_api_t& api = info.driver->api;

  heddle_device_open_params_t params{};
  params.struct_size = sizeof(params);
  params.api = &api;
  params.cpus = to_c(device->cpus_);
  params.numa_node = info.numa;
  Status opened(api.device->open(api.instance, info.ordinal, &params, &device->device_));
  if (!opened.ok()) return wrap(std::move(opened), "opening device '" + info.alias + "'");
  heddle_queue_params_t queue{sizeof(queue), 0};
  HEDDLE_RETURN_IF_ERROR(Status(api.device->queue_create(device->device_, &queue, &device->queue_)));

  Result<std::vector<host::AllocatorLayer>> stack = device->host_->allocators(info);
  if (!stack.ok()) return wrap(stack.take_status(), "opening device '" + info.alias + "'");
  Result<std::unique_ptr<Pool>> pool = Pool::create(device->device_, api, info.alias, info.description, *stack);
  if (!pool.ok()) return wrap(pool.take_status(), "making the pool of device '" + info.alias + "'");
  device->pool_ = std::move(*pool);
  return device;
}

Device::~Device() {
  if (!device_) return;
  foreign_streams_.clear();
  for (heddle_timeline_t* timeline : idle_timelines_) api_->timeline->destroy(timeline);
  for (Staging staging : idle_staging_) free_staging(staging);
  for (const Shared& shared : idle_shared_) free_shared(shared);
  if (queue_) static_cast<void>(Status(api_->device->queue_destroy(queue_)));
  // Live blocks mean that an object outlived the device although it holds a reference to it: a bug of the core. The pool is then leaked.
  if (pool_) {
    if (Status ended = pool_->end(); !ended.ok()) {
      host_->log(HEDDLE_LOG_ERROR, "memory", ended.message());
      static_cast<void>(pool_.release());
    }
  }
  pool_.reset();
  Status closed(api_->device->close(device_));
  if (!closed.ok()) host_->log(HEDDLE_LOG_ERROR, "memory", closed.message());
}

Status Device::loss() const {
  std::lock_guard lock(mutex_);
  return loss_.clone();
}

void Device::remember_loss(const Status& answer) const {
  std::lock_guard lock(mutex_);
  if (!loss_.ok()) return;
  loss_ = answer.clone();
  lost_.store(true, std::memory_order_release);
  try {
    host_->log(HEDDLE_LOG_ERROR, "memory", fmt::format("device '{}' is lost: {}", alias_, answer.message()));
  } catch (const std::bad_alloc&) {  // recording the loss matters more than the log line
  }
}

Result<Ref<Timeline>> Device::create_timeline(Timeline::Signalled signalled) {
  HEDDLE_RETURN_IF_ERROR(check());
  heddle_timeline_t* timeline = nullptr;
  HEDDLE_RETURN_IF_ERROR(noted(Status(api_->timeline->create(device_, 0, &timeline))));
  try {
    return Ref<Timeline>::adopt(new Timeline(Ref<Device>(this), timeline, 0, signalled));
  } catch (const std::bad_alloc&) {
    api_->timeline->destroy(timeline);
    throw;
  }
}

Result<std::shared_ptr<ForeignStream>> Device::foreign_stream(uint64_t native) {
  HEDDLE_RETURN_IF_ERROR(check());
  auto find = [&]() -> std::shared_ptr<ForeignStream> {  // under the lock
    auto known = std::ranges::find(foreign_streams_, native, [](const auto& one) { return one->native(); });
    if (known == foreign_streams_.end()) return nullptr;
    std::rotate(known, known + 1, foreign_streams_.end());
    return foreign_streams_.back();
  };
  {
    std::lock_guard lock(mutex_);
    if (std::shared_ptr<ForeignStream> known = find()) return known;
  }
  Result<std::unique_ptr<ForeignStream>> made = ForeignStream::open(*this, native);
  if (!made.ok()) return made.take_status();
  std::shared_ptr<ForeignStream> stream = std::move(*made), dropped;  // destroyed outside the lock
  std::lock_guard lock(mutex_);
  if (std::shared_ptr<ForeignStream> known = find()) return known;  // another thread was faster
  if (foreign_streams_.size() >= kForeignStreams) {
    dropped = std::move(foreign_streams_.front());
    foreign_streams_.erase(foreign_streams_.begin());
  }
  foreign_streams_.push_back(stream);
  return stream;
}

void Device::finish_foreign_streams(const void* user) {
  std::vector<std::shared_ptr<ForeignStream>> streams;
  {
    std::lock_guard lock(mutex_);
    streams = foreign_streams_;
  }
  for (const std::shared_ptr<ForeignStream>& stream : streams) stream->finish(user);
}

Status Device::upload(const void* source, const heddle_binding_t& target) {
  HEDDLE_RETURN_IF_ERROR(check());
  if (target.length == 0) return Status();
  if (!unified()) {
    Result<Pending> started = start_upload(source, target, {});
    return started.ok() ? finish(std::move(*started)) : started.take_status();
  }
  uploads_.fetch_add(1, std::memory_order_relaxed);
  upload_bytes_.fetch_add(target.length, std::memory_order_relaxed);
  Result<void*> mapped = map(target, HEDDLE_MAP_WRITE | HEDDLE_MAP_DISCARD);
  if (!mapped.ok()) return mapped.take_status();
  std::memcpy(*mapped, source, target.length);
  return unmap(target, HEDDLE_MAP_WRITE);
}

Status Device::download(const heddle_binding_t& source, void* target) {
  HEDDLE_RETURN_IF_ERROR(check());
  if (source.length == 0) return Status();
  if (!unified()) {
    Result<Pending> started = start_download(source, target, {});
    return started.ok() ? finish(std::move(*started)) : started.take_status();
  }
  downloads_.fetch_add(1, std::memory_order_relaxed);
  download_bytes_.fetch_add(source.length, std::memory_order_relaxed);
  Result<void*> mapped = map(source, HEDDLE_MAP_READ);
  if (!mapped.ok()) return mapped.take_status();
  std::memcpy(target, *mapped, source.length);
  return unmap(source, HEDDLE_MAP_READ);
}

Result<Device::Pending> Device::start_upload(const void* source, const heddle_binding_t& target, std::span<const heddle_point_t> waits) {
  uploads_.fetch_add(1, std::memory_order_relaxed);
  upload_bytes_.fetch_add(target.length, std::memory_order_relaxed);
  return start([&](const heddle_sync_t* sync) { return api_->transfer->upload(queue_, sync, source, &target); }, waits);
}

Result<Device::Pending> Device::start_download(const heddle_binding_t& source, void* target, std::span<const heddle_point_t> waits) {
  downloads_.fetch_add(1, std::memory_order_relaxed);
  download_bytes_.fetch_add(source.length, std::memory_order_relaxed);
  return start([&](const heddle_sync_t* sync) { return api_->transfer->download(queue_, sync, &source, target); }, waits);
}

Result<void*> Device::map(const heddle_binding_t& memory, uint32_t flags) {
  void* mapped = nullptr;
  HEDDLE_RETURN_IF_ERROR(noted(Status(api_->buffer->map(memory.buffer, memory.offset, memory.length, flags, &mapped))));
  if (!(flags & HEDDLE_MAP_READ)) return mapped;
  Status invalidated(api_->buffer->invalidate(memory.buffer, memory.offset, memory.length));
  if (invalidated.ok()) return mapped;
  static_cast<void>(Status(api_->buffer->unmap(memory.buffer)));
  return noted(std::move(invalidated));
}

Status Device::unmap(const heddle_binding_t& memory, uint32_t flags) {
  Status flushed;
  if (flags & HEDDLE_MAP_WRITE) flushed = Status(api_->buffer->flush(memory.buffer, memory.offset, memory.length));
  Status unmapped(api_->buffer->unmap(memory.buffer));
  return noted(flushed.ok() ? std::move(unmapped) : std::move(flushed));
}

Status Device::make_pinned(uint64_t bytes, Staging* out) {
  heddle_buffer_params_t params{sizeof(params), HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED, bytes, 0};
  HEDDLE_RETURN_IF_ERROR(noted(Status(api_->buffer->allocate(device_, &params, &out->buffer))));
  Status mapped(api_->buffer->map(out->buffer, 0, bytes, HEDDLE_MAP_READ | HEDDLE_MAP_WRITE, &out->memory));
  if (mapped.ok()) return mapped;
  api_->buffer->free(out->buffer);
  return noted(std::move(mapped));
}

Result<Device::Shared> Device::borrow_shared(uint64_t bytes) {
  HEDDLE_RETURN_IF_ERROR(check());
  Shared shared{.size_bytes = std::max(bytes, kSharedBytes)};
  if (shared.size_bytes == kSharedBytes) {
    std::lock_guard lock(mutex_);
    idle_shared_.reserve(kKeptShared);  // so that returning needs no memory
    if (!idle_shared_.empty()) {
      shared = idle_shared_.back();
      idle_shared_.pop_back();
      return shared;
    }
  }
  Staging pinned;
  if ((description_.memory_kinds & HEDDLE_MEMORY_PINNED) && make_pinned(shared.size_bytes, &pinned).ok()) {
    shared.buffer = pinned.buffer;
    shared.memory = pinned.memory;
    return shared;
  }
  heddle_buffer_params_t params{sizeof(params), HEDDLE_MEMORY_DEVICE, shared.size_bytes, 0};
  HEDDLE_RETURN_IF_ERROR(noted(Status(api_->buffer->allocate(device_, &params, &shared.buffer))));
  return shared;
}

Status Device::read_shared(const Shared& shared, uint64_t offset, uint64_t bytes, void* out) {
  if (!shared.memory) return download({shared.buffer, offset, bytes}, out);
  HEDDLE_RETURN_IF_ERROR(noted(Status(api_->buffer->invalidate(shared.buffer, offset, bytes))));
  std::memcpy(out, static_cast<const std::byte*>(shared.memory) + offset, bytes);
  return Status();
}

void Device::return_shared(const Shared& shared) {
  {
    std::lock_guard lock(mutex_);
    if (shared.size_bytes == kSharedBytes && idle_shared_.size() < kKeptShared) {
      idle_shared_.push_back(shared);
      return;
    }
  }
  free_shared(shared);
}

void Device::free_shared(const Shared& shared) {
  if (shared.memory) static_cast<void>(Status(api_->buffer->unmap(shared.buffer)));
  api_->buffer->free(shared.buffer);
}

Result<Device::Staging> Device::borrow_staging() {
  HEDDLE_RETURN_IF_ERROR(check());
  {
    std::lock_guard lock(mutex_);
    idle_staging_.reserve(kKeptStaging);  // so that returning needs no memory
    if (!idle_staging_.empty()) {
      Staging staging = idle_staging_.back();
      idle_staging_.pop_back();
      return staging;
    }
  }
  Staging staging;
  if (description_.memory_kinds & HEDDLE_MEMORY_PINNED) {
    Status made = make_pinned(kStagingBytes, &staging);
    if (made.ok()) return staging;
    host_->log(HEDDLE_LOG_DEBUG, "memory",
               fmt::format("device '{}' did not provide {} bytes of pinned memory; ordinary memory is used: {}", alias_, kStagingBytes,
                           made.message()));
  }
  staging.buffer = nullptr;
  staging.memory = ::operator new(kStagingBytes, std::nothrow);
  if (!staging.memory)
    return error(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "no {} bytes of host memory are available to copy through", kStagingBytes);
  return staging;
}

void Device::note_file(const heddle_buffer_t* buffer) {
  std::lock_guard lock(files_mutex_);
  files_.insert(buffer);
}
void Device::forget_file(const heddle_buffer_t* buffer) {
  std::lock_guard lock(files_mutex_);
  files_.erase(buffer);
}
bool Device::is_file(const heddle_buffer_t* buffer) const {
  std::lock_guard lock(files_mutex_);
  return files_.contains(buffer);
}

void Device::return_staging(Staging staging) {
  {
    std::lock_guard lock(mutex_);
    if (idle_staging_.size() < kKeptStaging) {
      idle_staging_.push_back(staging);
      return;
    }
  }
  free_staging(staging);
}

void Device::free_staging(Staging staging) {
  if (staging.buffer) {
    static_cast<void>(Status(api_->buffer->unmap(staging.buffer)));
    api_->buffer->free(staging.buffer);
  } else {
    ::operator delete(staging.memory);
  }
}

Result<Device::Pending> Device::start_by(heddle_status_t* (*call)(void* function, const heddle_sync_t* sync), void* function,
                                         std::span<const heddle_point_t> waits) {
  Result<Ref<Timeline>> timeline = borrow_timeline();
  if (!timeline.ok()) return timeline.take_status();
  heddle_point_t point{(*timeline)->get(), (*timeline)->next()};
  heddle_sync_t sync{sizeof(heddle_sync_t), static_cast<uint32_t>(waits.size()), 1, 0, waits.data(), &point};
  // A failure leaves the timeline poisoned, or its value never signalled: it is not used again.
  HEDDLE_RETURN_IF_ERROR(noted(Status(call(function, &sync))));
  return Pending{std::move(*timeline), point.value};
}

Status Device::submit_and_wait(const heddle_command_t* commands, uint32_t count) {
  return signalled([&](const heddle_sync_t* sync) {
    heddle_submission_t submission{sizeof(submission), count, commands, *sync};
    return api_->dispatch->submit(queue_, &submission);
  });
}

TransferCounts Device::transfer_counts() const {
  return {uploads_.load(std::memory_order_relaxed), downloads_.load(std::memory_order_relaxed),
          upload_bytes_.load(std::memory_order_relaxed), download_bytes_.load(std::memory_order_relaxed)};
}

// Idle timelines are kept as raw handles: a Ref would hold a reference to the device and keep it alive forever.
Result<Ref<Timeline>> Device::borrow_timeline() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_timelines_.empty()) {
      Ref<Timeline> borrowed = Ref<Timeline>::adopt(new Timeline(Ref<Device>(this), idle_timelines_.back(), idle_values_.back()));
      idle_timelines_.pop_back();
      idle_values_.pop_back();
      return borrowed;
    }
  }
  return create_timeline();
}

void Device::return_timeline(Ref<Timeline> timeline) {
  std::lock_guard lock(mutex_);
  const size_t kept = idle_timelines_.size();
  try {
    idle_values_.push_back(timeline->last());
    idle_timelines_.push_back(timeline->get());
  } catch (const std::bad_alloc&) {  // then it is destroyed; the caller must continue its clean-up
    idle_values_.resize(kept);
    return;
  }
  timeline->take();
}

bool DeviceTable::same(const Device& device, const host::DeviceInfo& info) {
  return &device.api() == &info.driver->api && device.description().ordinal == info.ordinal && device.config() == info.config;
}

void DeviceTable::close_unused(const host::DeviceInfo& info) {
  std::lock_guard lock(mutex_);  // held while closing too: a second open waits
  std::erase_if(devices_, [&](const Ref<Device>& device) { return same(*device, info) && device->sole(); });
}

Result<Ref<Device>> DeviceTable::open(const host::DeviceInfo& info) {
  std::lock_guard lock(mutex_);
  std::erase_if(devices_, [](const Ref<Device>& device) { return device->lost(); });
  for (const Ref<Device>& device : devices_) {
    if (same(*device, info)) return device;
  }
  Result<Ref<Device>> device = Device::open(host_, info);
  if (device.ok()) devices_.push_back(*device);
  return device;
}

}  // namespace heddle::memory
