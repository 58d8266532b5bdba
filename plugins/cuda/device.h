// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin's instance and its devices. Included by every file of the driver that uses a device.
//
// How completion is signalled: every queue has a 64-bit word in pinned memory. As its last step on the queue's stream a submission writes its
// number there; a reader only loads memory and does not call the driver. Timelines are host objects, advanced by the thread that detects that a
// submission is done ("retires" it): a waiting thread, a later submit, or the device's engine thread.
#ifndef HEDDLE_CUDA_DEVICE_H_
#define HEDDLE_CUDA_DEVICE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/errors.h"
#include "heddle/code.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"
#include "heddle/sdk/device_root.h"
#include "heddle/sdk/status.h"

namespace heddle::cuda {

constexpr uint32_t kMaxBindings = 256;
constexpr uint32_t kMaxConstantsBytes = 2048;  // with all bindings, 4 KiB: the argument size that every device supports
constexpr uint64_t kAlignment = 256;

struct Options {
  uint64_t pool_retain_bytes = uint64_t{64} << 20;
  uint64_t staging_bytes = uint64_t{64} << 20;
  uint64_t spin_ns = 200000;
  bool graphs = true;
};

// The facts about a device before it is opened; its strings live as long as the instance.
struct Facts {
  CUdevice device = 0;
  std::string name, pci;
  uint8_t uuid[16] = {};
  int numa_node = -1;
  uint64_t memory_bytes = 0;
  int capability = 0;  // 90: compute capability 9.0
  int multiprocessors = 0, max_threads = 0, registers_per_block = 0, warp = 32;
  int shared_bytes = 0, shared_optin_bytes = 0;
  int grid[3] = {};
  int block[3] = {};
  bool memory_pools = false, stream_memory_operations = false, unified_addressing = false;
};

struct Instance {
  const heddle_host_t* host = nullptr;
  const Api* api = nullptr;
  Options options;
  std::vector<Facts> devices;  // per ordinal
  std::atomic<uint64_t> open_devices{0};

  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
};

struct Counters {
  std::atomic<uint64_t> submissions{0}, dispatches{0}, copies{0}, bytes_allocated{0}, pool_bytes{0},
      bytes_overhead{0};  // pool_bytes: the part of bytes_allocated in CUDA's pool
};

// A completion word in pinned memory. It belongs to the device and is passed from queue to queue; its value only grows.
struct Word {
  std::atomic<uint64_t>* value = nullptr;
  CUdeviceptr address = 0;
};

// A kernel that may have faulted.
struct Suspect {
  std::string name;
  uint32_t region;
};

class Queue;
class Ring;
class Staging;
class Engine;
class Decoders;

struct Device : sdk::DeviceRoot {
  Device(Instance* instance, uint32_t ordinal, const heddle_driver_api_t* api);
  ~Device();
  // The steps of opening that can fail.
  heddle_status_t* start();

  static Device* from(heddle_device_t* handle) noexcept { return static_cast<Device*>(reinterpret_cast<sdk::DeviceRoot*>(handle)); }
  heddle_device_t* handle() noexcept { return reinterpret_cast<heddle_device_t*>(static_cast<sdk::DeviceRoot*>(this)); }
  const Facts& facts() const noexcept { return instance->devices[ordinal]; }

  // A status for a failed call. A result that ends the context marks the device as lost, and the text then names the kernels that were running.
  // `what` does not contain the result. Must not be called with a queue's lock or queues_mutex held.
  heddle_status_t* failed(CUresult result, const char* what) noexcept;
  // Remembers the first loss and takes ownership of `failure`. All work in flight fails.
  void lose(heddle_status_t* failure) noexcept;
  bool is_lost() const noexcept { return lost_flag.load(std::memory_order_acquire); }
  // NULL, or the loss, owned by the caller.
  heddle_status_t* loss() noexcept;

  // Retires completed work on all queues; true if there was any.
  bool poll() noexcept;
  // Asks CUDA whether the context is still alive; marks the device as lost if not. More expensive than poll.
  void check() noexcept;

  // Enables copies of this device to access the other device's memory, once per pair; if CUDA refuses, it copies through host memory itself. The
  // first time takes a while.
  void introduce(Device* other);

  // The kernels that may be running now on any queue.
  std::vector<Suspect> suspects();

  Instance* instance;
  uint32_t ordinal;
  const Api& cuda;
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  CUstream allocation_stream = nullptr;  // used for allocations and frees only
  Counters counters;
  std::mutex queues_mutex;
  std::vector<Queue*> queues;               // under queues_mutex
  std::vector<Word> idle_words, all_words;  // under queues_mutex
  std::vector<CUevent> idle_events;         // events for timing; under queues_mutex
  const uint64_t serial;                    // unique among all devices ever opened in this process
  std::mutex peers_mutex;
  std::vector<uint64_t> peers;  // serials of devices whose memory copies can access; under peers_mutex
  std::atomic<bool> lost_flag{false};
  std::mutex lost_mutex;
  heddle_status_t* lost_status = nullptr;  // under lost_mutex
  std::unique_ptr<Staging> staging;
  std::unique_ptr<Ring> ring;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Decoders> decoders;
};

// Makes the device's context current, and restores the caller's at the end (HD-T-02). Meanwhile a capture by the application, on this or another
// thread, does not forbid our calls, which do not affect it.
class ContextScope {
 public:
  explicit ContextScope(const Device* device) noexcept : cuda_(device->cuda) {
    cuda_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
    CUcontext now = nullptr;
    if (cuda_.cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == device->context) return;
    pushed_ = cuda_.cuCtxPushCurrent(device->context) == CUDA_SUCCESS;
  }
  ~ContextScope() {
    CUcontext ignored;
    if (pushed_) cuda_.cuCtxPopCurrent(&ignored);
    cuda_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Api& cuda_;
  CUstreamCaptureMode capture_mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // the thread's mode during the lifetime of this object
  bool pushed_ = false;
};

const heddle_device_interface_t* device_interface() noexcept;
const heddle_buffer_interface_t* buffer_interface() noexcept;
const heddle_transfer_interface_t* transfer_interface() noexcept;
const heddle_param_io_interface_t* param_io_interface() noexcept;
const heddle_dispatch_interface_t* dispatch_interface() noexcept;
const heddle_timeline_interface_t* timeline_interface() noexcept;
const heddle_native_interface_t* native_interface() noexcept;
const heddle_profile_interface_t* profile_interface() noexcept;
// NULL if the plugin was built without the kernels.
const heddle_blocks_interface_t* blocks_interface() noexcept;

// Reads the facts that enumeration reports; NULL, or why the machine's devices cannot be listed. [may-block]
heddle_status_t* find_devices(const heddle_host_t* host, const Api& api, std::vector<Facts>* out);

// queue.cpp
heddle_status_t* queue_create(heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept;
heddle_status_t* queue_destroy(heddle_queue_t* queue) noexcept;

using sdk::number;
inline int shown(std::string_view text) noexcept {
  return static_cast<int>(text.size() < 160 ? text.size() : 160);
}

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_DEVICE_H_
