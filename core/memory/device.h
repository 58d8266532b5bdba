// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An opened device: its queue, its pool, timelines to borrow, and data movement between host and device.
// Created by DeviceTable for core/submit; knows nothing of modules or programs.
//
// Every function is [any] unless stated otherwise. A device lives as long as a tensor, a timeline, an instance or its runtime's table
// refers to it, and keeps the host alive. A lost device (HD-S-02) leaves the table: opening it again creates a new one.
#ifndef HEDDLE_CORE_MEMORY_DEVICE_H_
#define HEDDLE_CORE_MEMORY_DEVICE_H_

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/host/host.h"
#include "core/memory/pool.h"
#include "core/memory/ref.h"

namespace heddle::memory {

class Device;
class ForeignStream;

// A driver's timeline and the last value assigned to work on it. One user at a time assigns values.
class Timeline final : public Counted {
 public:
  enum class Signalled { kByDriver, kByHost };
  Timeline(Ref<Device> device, heddle_timeline_t* timeline, uint64_t last = 0, Signalled signalled = Signalled::kByDriver)
      : device_(std::move(device)), timeline_(timeline), last_(last), signalled_(signalled) {}
  ~Timeline() override;
  heddle_timeline_t* get() const { return timeline_; }
  Device& device() const { return *device_; }
  // The next value to signal. [serial:timeline]
  uint64_t next() { return ++last_; }
  uint64_t last() const { return last_; }
  // Waits for one point; a poisoned point returns its failure. [any] [may-block]
  Status wait(uint64_t value, uint64_t timeout_ns = HEDDLE_TIMEOUT_INFINITE) const;
  // Whether the value is reached; false also if it never will be. [any] [no-block]
  bool reached(uint64_t value) const;
  // Whether the value is neither reached nor failed. [any] [no-block]
  bool pending(uint64_t value) const;
  // Returns the outcome of a wait or a notification, and remembers a loss of the device.
  Status noted(Status&& outcome) const;
  // Signals or fails a timeline that the host itself signals.
  void finish(uint64_t value, Status&& outcome) const;
  // Transfers ownership of the driver's timeline: this object destroys nothing.
  heddle_timeline_t* take() { return std::exchange(timeline_, nullptr); }

 private:
  Ref<Device> device_;
  heddle_timeline_t* timeline_;
  uint64_t last_;
  Signalled signalled_;
};

// A read-only snapshot of the transfers that core made through a device, in addition to the driver's own counters.
struct TransferCounts {
  uint64_t uploads = 0, downloads = 0, upload_bytes = 0, download_bytes = 0;
};

class Device final : public Counted {
 public:
  // Opens the device and its pool: the configuration's allocators, else heddle.pool if available, else the driver's buffers.
  static Result<Ref<Device>> open(std::shared_ptr<host::Host> host, const host::DeviceInfo& info);
  ~Device() override;

  const std::string& alias() const { return alias_; }
  const std::string& driver_id() const { return driver_id_; }
  uint32_t driver_minor() const { return driver_minor_; }  // minor version of the ABI that the host and the driver use
  const heddle_device_description_t& description() const { return description_; }
  const host::DeviceConfig* config() const { return config_; }
  const heddle_driver_api_t& api() const { return *api_; }
  heddle_device_t* get() const { return device_; }
  heddle_queue_t* queue() const { return queue_; }
  Pool& pool() { return *pool_; }
  host::Host& host() const { return *host_; }
  bool unified() const { return (description_.features & HEDDLE_DEVICE_UNIFIED_MEMORY) != 0; }

  // The driver returned DEVICE_LOST once: from then on every call of the core returns it too, regardless of what the driver returns later.
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // The loss, or success.
  Status check() const { return lost() ? loss() : Status(); }
  // Returns the answer of this device's driver, and remembers a loss.
  Status noted(Status&& answer) const {
    if (!answer.ok() && answer.code() == HEDDLE_STATUS_DEVICE_LOST) remember_loss(answer);
    return std::move(answer);
  }

  Result<Ref<Timeline>> create_timeline(Timeline::Signalled signalled = Timeline::Signalled::kByDriver);
  // The queue for the application's stream with that native handle; created on first use and kept for a while. [may-block]
  Result<std::shared_ptr<ForeignStream>> foreign_stream(uint64_t native);
  // ForeignStream::finish of all of them. [may-block]
  void finish_foreign_streams(const void* user);
  // Pool::allocate, for a device that is not lost.
  Status allocate(uint64_t size_bytes, uint64_t alignment_bytes, const heddle_string_t& owner, heddle_block_t* out_block,
                  uint64_t soon_bytes = 0) {
    HEDDLE_RETURN_IF_ERROR(check());
    return noted(pool_->allocate(size_bytes, alignment_bytes, owner, out_block, soon_bytes));
  }
  // Copies host bytes to device memory; complete on return. [may-block]
  Status upload(const void* source, const heddle_binding_t& target);
  // Copies device memory to host bytes; earlier work on it must be complete. [may-block]
  Status download(const heddle_binding_t& source, void* target);
  // Runs commands and waits. [may-block]
  Status submit_and_wait(const heddle_command_t* commands, uint32_t count);
  // Calls function with a point to signal on a timeline from a free list, and waits for it. [may-block]
  template <typename Function>
  Status signalled(Function function) {
    Result<Pending> pending = start(function);
    if (!pending.ok()) return pending.take_status();
    return finish(std::move(*pending));
  }
  // The same in two steps. Started work must be finished: until then it may access the memory that it names.
  struct Pending {
    Ref<Timeline> timeline;
    uint64_t value = 0;
  };
  template <typename Function>
  Result<Pending> start(Function function, std::span<const heddle_point_t> waits = {}) {
    return start_by([](void* called, const heddle_sync_t* sync) { return (*static_cast<Function*>(called))(sync); }, &function, waits);
  }
  Status finish(Pending pending) {
    HEDDLE_RETURN_IF_ERROR(pending.timeline->wait(pending.value));
    recycle(std::move(pending));
    return Status();
  }
  // For work that is known to have finished successfully: its timeline is used again.
  void recycle(Pending pending) { return_timeline(std::move(pending.timeline)); }
  // upload and download in two steps, for devices without unified memory. Bounds and lifetimes as in driver.h. [no-block]
  Result<Pending> start_upload(const void* source, const heddle_binding_t& target, std::span<const heddle_point_t> waits);
  Result<Pending> start_download(const heddle_binding_t& source, void* target, std::span<const heddle_point_t> waits);
  // Maps device memory into the host, for devices with unified memory; the device must not use it meanwhile. [may-block]
  Result<void*> map(const heddle_binding_t& memory, uint32_t flags);
  Status unmap(const heddle_binding_t& memory, uint32_t flags);

  // Registers a buffer that the driver made over a file: its pages must not be passed to another device. [any]
  void note_file(const heddle_buffer_t* buffer);
  void forget_file(const heddle_buffer_t* buffer);
  bool is_file(const heddle_buffer_t* buffer) const;

  // Host memory for copies between devices, kStagingBytes each: pinned if the driver offers that. A few are kept. [may-block]
  struct Staging {
    heddle_buffer_t* buffer = nullptr;  // NULL: ordinary memory
    void* memory = nullptr;
  };
  static constexpr uint64_t kStagingBytes = uint64_t{4} << 20;
  Result<Staging> borrow_staging();
  void return_staging(Staging staging);
  // A small block that kernels write and the host reads: mapped if the driver has pinned memory, else downloaded. A few are kept. [may-block]
  struct Shared {
    heddle_buffer_t* buffer = nullptr;
    const void* memory = nullptr;  // NULL: not mapped
    uint64_t size_bytes = 0;
  };
  Result<Shared> borrow_shared(uint64_t bytes);
  // Reads the results of kernels that have finished. Does not block if the block is mapped.
  Status read_shared(const Shared& shared, uint64_t offset, uint64_t bytes, void* out);
  void return_shared(const Shared& shared);
  TransferCounts transfer_counts() const;

 private:
  Device() = default;
  Result<Pending> start_by(heddle_status_t* (*call)(void* function, const heddle_sync_t* sync), void* function,
                           std::span<const heddle_point_t> waits);
  Result<Ref<Timeline>> borrow_timeline();
  void return_timeline(Ref<Timeline> timeline);
  Status make_pinned(uint64_t bytes, Staging* out);
  void free_staging(Staging staging);
  void free_shared(const Shared& shared);
  [[gnu::cold]] Status loss() const;
  [[gnu::cold]] void remember_loss(const Status& answer) const;

  std::shared_ptr<host::Host> host_;
  std::string alias_;
  std::string driver_id_;
  uint32_t driver_minor_ = 0;
  std::string cpus_;
  heddle_device_description_t description_{};
  const host::DeviceConfig* config_ = nullptr;
  const heddle_driver_api_t* api_ = nullptr;
  heddle_device_t* device_ = nullptr;
  heddle_queue_t* queue_ = nullptr;
  std::unique_ptr<Pool> pool_;
  mutable std::mutex mutex_;
  mutable std::atomic<bool> lost_{false};
  mutable Status loss_;
  std::vector<heddle_timeline_t*> idle_timelines_;
  std::vector<uint64_t> idle_values_;
  std::vector<Staging> idle_staging_;
  std::vector<Shared> idle_shared_;
  mutable std::mutex files_mutex_;
  std::unordered_set<const heddle_buffer_t*> files_;
  std::vector<std::shared_ptr<ForeignStream>> foreign_streams_;  // the most recently used is last
  std::atomic<uint64_t> uploads_{0}, downloads_{0}, upload_bytes_{0}, download_bytes_{0};
};

// The opened devices of a runtime: one Device per driver, ordinal and configuration, opened on first use and again
// after a loss. A device with two names ("cpu", "heddle.cpu:0") is one device.
class DeviceTable {
 public:
  explicit DeviceTable(std::shared_ptr<host::Host> host) : host_(std::move(host)) {}
  Result<Ref<Device>> open(const host::DeviceInfo& info);
  // Closes the device if it is open and unused. Devices that were opened only for a query would otherwise keep memory of their driver.
  void close_unused(const host::DeviceInfo& info);

 private:
  static bool same(const Device& device, const host::DeviceInfo& info);
  std::shared_ptr<host::Host> host_;
  std::mutex mutex_;
  std::vector<Ref<Device>> devices_;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_DEVICE_H_
