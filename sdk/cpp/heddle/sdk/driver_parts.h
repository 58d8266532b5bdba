// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of drivers that do not derive from the classes of driver.h: checks, files, slots of tables. They need no more of a driver's types than the
// members that their functions use: a device derives from DeviceRoot, and every other object has a member `device`.
#ifndef HEDDLE_SDK_DRIVER_PARTS_H_
#define HEDDLE_SDK_DRIVER_PARTS_H_

#include <unistd.h>

#include "heddle/sdk/file.h"
#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

// Why a sync is refused.
heddle_status_t* bad_sync(const DeviceRoot* device, const heddle_sync_t& sync) noexcept;

// Checks a sync and its points, whose timelines are HostTimelines.
inline heddle_status_t* check_sync(const DeviceRoot* device, const heddle_sync_t& sync) noexcept {
  if ((sync.wait_count && !sync.waits) || (sync.signal_count && !sync.signals)) [[unlikely]]
    return bad_sync(device, sync);
  for (uint32_t i = 0; i < sync.wait_count; ++i) {
    if (!sync.waits[i].timeline) [[unlikely]]
      return bad_sync(device, sync);
  }
  for (uint32_t i = 0; i < sync.signal_count; ++i) {
    const heddle_point_t& point = sync.signals[i];
    if (!point.timeline || point.value <= HostTimeline::from(point.timeline)->reached() || point.value > HostTimeline::kMaxValue)
        [[unlikely]]
      return bad_sync(device, sync);
  }
  return nullptr;
}

// Reads and checks the argument of queue_create.
heddle_status_t* read_queue_params(const DeviceRoot* device, const heddle_queue_params_t* in, heddle_queue_params_t* out) noexcept;
// The flags of map.
heddle_status_t* check_map_flags(const DeviceRoot* device, uint64_t length, uint32_t flags) noexcept;
// The range of import_host.
heddle_status_t* check_import(const DeviceRoot* device, const void* memory, uint64_t size) noexcept;
// The binding of a transfer; buffer_size is NULL if it has no buffer.
heddle_status_t* check_transfer(const DeviceRoot* device, const char* what, const heddle_binding_t& binding,
                                const uint64_t* buffer_size) noexcept;
// The text for an entry's flags that are unknown, or contradict each other; NULL if they are right.
inline const char* wrong_entry_flags(const heddle_entry_params_t& entry) noexcept {
  return entry.flags <= HEDDLE_ENTRY_IN_ORDER && entry.reserved == 0 ? nullptr : "its flags are unknown or contradict each other [HD-E-04]";
}
heddle_status_t* no_entry_status(const DeviceRoot* device, uint32_t index, size_t count) noexcept;

// The first loss of a device; from then on every handle returns it (HD-S-02).
class Loss {
 public:
  explicit Loss(const DeviceRoot* device) noexcept : device_(device) {}
  ~Loss();
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;

  bool is_lost() const noexcept { return is_lost_.load(std::memory_order_acquire); }
  // NULL, or the loss, owned by the caller.
  heddle_status_t* status() const noexcept { return is_lost() ? copy() : nullptr; }
  // Takes the failure; the first one is kept.
  void lose(heddle_status_t* failure) noexcept;

 private:
  heddle_status_t* copy() const noexcept;

  const DeviceRoot* device_;
  std::atomic<bool> is_lost_{false};
  mutable std::mutex mutex_;
  heddle_status_t* failure_ = nullptr;  // under mutex_
};

// A file of heddle.param_io/1, and the slots open and close. A driver whose map keeps the contents of files (HEDDLE_FILE_STEADY) says so by
// `static constexpr bool kKeepsMappedFiles = true` in its Device; without it, such files are refused, and the host reads them.
template <class Device>
struct DeviceFile {
  const heddle_driver_api_t* api;  // HD-H-01: the first word
  Device* device;
  File file;

  static DeviceFile* from(heddle_file_t* handle) noexcept { return reinterpret_cast<DeviceFile*>(handle); }
  heddle_file_t* handle() noexcept { return reinterpret_cast<heddle_file_t*>(this); }

  static heddle_status_t* open(heddle_device_t* handle, int32_t descriptor, uint32_t access, heddle_string_t name,
                               heddle_file_t** out) noexcept {
    *out = nullptr;
    Device* device = Device::from(handle);
    return guarded(device->host, "opening a file", [&]() -> heddle_status_t* {
      if constexpr (requires { device->loss(); }) {
        if (heddle_status_t* lost = device->loss()) return lost;
      }
      constexpr bool kKeeps = [] {
        if constexpr (requires { Device::kKeepsMappedFiles; }) return Device::kKeepsMappedFiles;
        return false;
      }();
      File own;
      if (heddle_status_t* bad = open_file(device->host, device->who, descriptor, access, name, &own, kKeeps)) return bad;
      try {
        *out = make<DeviceFile>(device->host, DeviceFile{device->api, device, own})->handle();
      } catch (...) {
        ::close(own.descriptor);
        throw;
      }
      device->live.files.fetch_add(1);
      return nullptr;
    });
  }

  static void close(heddle_file_t* handle) noexcept {
    if (!handle) return;
    DeviceFile* file = from(handle);
    Device* device = file->device;
    guarded_release(device->host, [&] {
      ::close(file->file.descriptor);
      unmake(device->host, file);
      device->live.files.fetch_sub(1);
    });
  }
};

// The slot unload. Executables that need more release it in their destructor.
template <class Executable>
void unload_executable(heddle_executable_t* handle) noexcept {
  if (!handle) return;
  Executable* executable = Executable::from(handle);
  auto* device = executable->device;
  guarded_release(device->host, [&] {
    unmake(device->host, executable);
    device->live.executables.fetch_sub(1);
  });
}

// The slot entry.
template <class Executable>
heddle_status_t* find_entry(heddle_executable_t* handle, uint32_t index, heddle_entry_t** out) noexcept {
  *out = nullptr;
  Executable* executable = Executable::from(handle);
  if (index >= executable->entries.size()) {
    return guarded(executable->device->host, "looking up an entry",
                   [&] { return no_entry_status(executable->device, index, executable->entries.size()); });
  }
  *out = executable->entries[index].handle();
  return nullptr;
}

// The slot queue_destroy, over a queue with a function device().
template <class Queue>
heddle_status_t* destroy_queue(heddle_queue_t* handle) noexcept {
  if (!handle) return nullptr;
  Queue* queue = Queue::from(handle);
  auto* device = queue->device();
  return guarded(device->host, "destroying a queue", [&]() -> heddle_status_t* {
    unmake(device->host, queue);
    device->live.queues.fetch_sub(1);
    return nullptr;
  });
}

// The slot import_host, or that of heddle.native/1: import() makes a buffer of type Buffer; release is called if it fails, else with the buffer.
template <class Buffer, class Import>
heddle_status_t* import_buffer(const heddle_host_t* host, const char* what, void (*release)(void*), void* context, heddle_buffer_t** out,
                               Import&& import) noexcept {
  *out = nullptr;
  heddle_status_t* failed = guarded(host, what, std::forward<Import>(import));
  if (!failed) {
    Buffer::from(*out)->release = release;
    Buffer::from(*out)->release_context = context;
  } else if (release) {
    release(context);
  }
  return failed;
}

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_DRIVER_PARTS_H_
