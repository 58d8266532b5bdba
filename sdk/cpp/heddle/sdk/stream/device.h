// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The instance of a plugin over streams, and its devices. Included by every file that uses a device.
//
// How completion is signalled: every queue has a 64-bit word in pinned memory. As its last step on the queue's stream a submission writes its
// number there; a reader only loads memory and does not call the vendor's library. Timelines are host objects, advanced by the thread that detects
// that a submission is done ("retires" it): a waiting thread, a later submit, or the device's engine thread.
#ifndef HEDDLE_SDK_STREAM_DEVICE_H_
#define HEDDLE_SDK_STREAM_DEVICE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"
#include "heddle/sdk/driver_parts.h"
#include "heddle/sdk/status.h"
#include "heddle/sdk/stream/backend.h"

namespace heddle::sdk::stream {

constexpr uint32_t kMaxBindings = 256;
constexpr uint32_t kMaxConstantsBytes = 2048;  // with all bindings, 4 KiB: the argument size that every device supports
constexpr uint64_t kAlignment = 256;

struct Options {
  uint64_t pool_retain_bytes = uint64_t{64} << 20;
  uint64_t staging_bytes = uint64_t{64} << 20;
  uint64_t spin_ns = 200000;
  bool graphs = true;
};

// What is known of a device before it is opened. A vendor derives from it what else it reads; strings live as long as the instance.
struct Facts {
  std::string name, pci;
  std::string level;  // for texts: "compute capability 9.0"
  uint8_t uuid[16] = {};
  int numa_node = -1;
  uint64_t memory_bytes = 0;
  int compute_units = 0, max_threads = 0, registers_per_thread = 0, subgroup_size = 0;
  int shared_bytes = 0;  // most that a workgroup can have
  int grid[3] = {}, block[3] = {};
};

// What is said of a vendor in texts.
struct Vendor {
  const char* id;       // of the plugin: "heddle.cuda"
  const char* version;  // of the plugin
  const char* who;      // begins every error text and is the domain of the vendor's results: "cuda"
  const char* name;     // "CUDA"
  const char* family;   // of compiled programs: "cuda"
  const char* look;     // what to look at if a device is missing: "check nvidia-smi and CUDA_VISIBLE_DEVICES"
  const char* streams;  // which streams of an application can be imported: "use a stream of the CUDA runtime, ..."
};

struct BlockCode;  // blocks.h

// A vendor derives from it. Destroyed without open devices.
class Instance {
 public:
  Instance(const heddle_host_t* its_host, const Vendor& its_vendor) noexcept : host(its_host), vendor(its_vendor) {}
  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
  heddle_plugin_instance_t* handle() noexcept { return reinterpret_cast<heddle_plugin_instance_t*>(this); }

  // The kinds of code, for descriptions.
  virtual std::span<const heddle_string_t> code_formats() const noexcept = 0;
  // Of two different devices.
  virtual heddle_device_link_t link(uint32_t a, uint32_t b) const = 0;
  // What a device lacks that the driver needs, e.g. "memory pools"; NULL if nothing.
  virtual const char* lack(uint32_t ordinal) const = 0;
  virtual std::unique_ptr<Backend> make_backend(uint32_t ordinal) = 0;

  const heddle_host_t* host;
  const Vendor& vendor;
  Options options;
  std::vector<const Facts*> devices;       // per ordinal; set by the vendor
  std::span<const BlockCode> block_codes;  // of the plugin
  bool has_graphs = true;                  // set by the vendor; false: a recording is a checked list, which each replay issues
  bool fault_ends_process = false;         // set by the vendor, if its library ends the process when a kernel faults
  std::atomic<uint64_t> open_devices{0};
};

struct Counters {
  std::atomic<uint64_t> submissions{0}, dispatches{0}, copies{0}, bytes_allocated{0}, pool_bytes{0},
      bytes_overhead{0};  // pool_bytes: the part of bytes_allocated in the vendor's pool
};

// The completion words of a context, until its last device is closed: a stream may still wait for a word of a queue that is gone, of another handle.
struct Words {
  std::mutex mutex;
  std::vector<std::unique_ptr<Word>> all;  // under mutex
  std::vector<Word*> idle;                 // under mutex; has room for all
};

// A kernel that may have faulted.
struct Suspect {
  std::string name;
  uint32_t region;
};

class Decoders;
class Queue;
class Ring;
class Staging;
class Engine;
struct Device;

// Devices whose engines retire work and notice a loss, although no thread may wait for them there: others depend on it. They must exist until end().
class Watches {
 public:
  Watches() = default;
  Watches(Watches&&) = default;
  Watches& operator=(Watches&&) = delete;
  ~Watches() { end(); }
  // May throw; then nothing has changed.
  void add(Device* device);
  // For every point whose timeline is of another device than `own`.
  void add_others(const std::vector<heddle_point_t>& points, const Device* own);
  void end() noexcept;

 private:
  std::vector<Device*> devices_;
};

struct Device : sdk::DeviceRoot {
  Device(Instance* instance, uint32_t ordinal, const heddle_driver_api_t* api, std::unique_ptr<Backend> backend);
  ~Device();
  // The steps of opening that can fail.
  heddle_status_t* start();

  static Device* from(heddle_device_t* handle) noexcept { return static_cast<Device*>(reinterpret_cast<sdk::DeviceRoot*>(handle)); }
  heddle_device_t* handle() noexcept { return reinterpret_cast<heddle_device_t*>(static_cast<sdk::DeviceRoot*>(this)); }
  const Facts& facts() const noexcept { return facts_; }
  bool ends_context(Result result) const noexcept { return result != kSuccess && backend.meaning(result) == Meaning::kContextEnded; }

  // A status for a failed call. A result that ends the context marks the device as lost, and the text then names the kernels that were running.
  // `what` does not contain the result. Must not be called with a queue's lock or queues_mutex held.
  heddle_status_t* failed(Result result, const char* what) noexcept;
  // Takes ownership of `failure`. All work in flight fails.
  void lose(heddle_status_t* failure) noexcept { loss_.lose(failure); }
  bool is_lost() const noexcept { return loss_.is_lost(); }
  // NULL, or the first loss, owned by the caller.
  heddle_status_t* loss() noexcept { return loss_.status(); }

  // Retires completed work on all queues; true if there was any.
  bool poll() noexcept;
  // Asks the vendor whether the context is still alive; marks the device as lost if not. More expensive than poll.
  void check() noexcept;

  // Enables copies of this device to access the other device's memory, once per pair; if the vendor refuses, its library copies through host
  // memory. The first time takes a while.
  void introduce(Device* other);

  // The kernels that may be running now on any queue.
  std::vector<Suspect> suspects();

  Instance* instance;
  uint32_t ordinal;
  const std::unique_ptr<Backend> owned_backend;
  Backend& backend;
  Counters counters;
  std::mutex queues_mutex;
  std::vector<Queue*> queues;      // under queues_mutex
  std::vector<Event> idle_events;  // events for timing; under queues_mutex
  std::shared_ptr<Words> words;    // held by devices only
  const uint64_t serial;           // unique among all devices ever opened in this process
  std::mutex peers_mutex;
  std::vector<uint64_t> peers;  // serials of devices whose memory copies can access; under peers_mutex
  std::unique_ptr<Staging> staging;
  std::unique_ptr<Ring> ring;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Decoders> decoders;

 private:
  const Facts& facts_;
  sdk::Loss loss_{this};
};

// Makes the device's context current, and restores the caller's at the end (HD-T-02).
class ContextScope {
 public:
  explicit ContextScope(const Device* device) noexcept : ContextScope(device->backend) {}
  explicit ContextScope(const Backend& backend) noexcept : backend_(backend) { backend_.enter(&scope_); }
  ~ContextScope() { backend_.leave(scope_); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Backend& backend_;
  Backend::Scope scope_;
};

// A status whose text begins with "<who>: ".
[[gnu::format(printf, 3, 4)]] heddle_status_t* status(const DeviceRoot* device, heddle_status_code_t code, const char* format,
                                                      ...) noexcept;
[[gnu::format(printf, 3, 4)]] heddle_status_t* status(const Instance* instance, heddle_status_code_t code, const char* format,
                                                      ...) noexcept;
// The same of the vendor's domain; the text ends in the result's name and text.
[[gnu::format(printf, 4, 5)]] heddle_status_t* result_status(const Device* device, heddle_status_code_t code, Result result,
                                                             const char* format, ...) noexcept;
// The same without a device: name and text are those of the result, or NULL.
[[gnu::format(printf, 7, 8)]] heddle_status_t* result_status(const heddle_host_t* host, const char* who, heddle_status_code_t code,
                                                             Result result, const char* name, const char* text, const char* format,
                                                             ...) noexcept;
// Logs "<who>: " and the text.
[[gnu::format(printf, 4, 5)]] void log_line(const DeviceRoot* device, uint32_t level, const char* file, const char* format, ...) noexcept;

using sdk::guarded;
using sdk::number;
using sdk::status;

// The status of the exception that is being handled: "<who>: <what> failed: ...".
heddle_status_t* thrown_status(const DeviceRoot* device, const char* what) noexcept;
// sdk::guarded with "<who>: " in the text.
template <class F>
heddle_status_t* guarded(const DeviceRoot* device, const char* what, F&& function) noexcept {
  return sdk::guarded(device->host, what, [&]() -> heddle_status_t* {
    try {
      return function();
    } catch (...) {
      return thrown_status(device, what);
    }
  });
}
// For %.*s: the size of a text that a caller gave.
inline int shown(std::string_view text) noexcept {
  return static_cast<int>(text.size() < 160 ? text.size() : 160);
}

const heddle_device_interface_t* device_interface() noexcept;
const heddle_buffer_interface_t* buffer_interface() noexcept;
const heddle_transfer_interface_t* transfer_interface() noexcept;
const heddle_param_io_interface_t* param_io_interface() noexcept;
const heddle_dispatch_interface_t* dispatch_interface() noexcept;
const heddle_timeline_interface_t* timeline_interface() noexcept;
const heddle_native_interface_t* native_interface() noexcept;
const heddle_profile_interface_t* profile_interface() noexcept;

// queue.cpp
heddle_status_t* queue_create(heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept;

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_DEVICE_H_
