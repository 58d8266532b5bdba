// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base classes of a driver: checks and bookkeeping that every driver needs are here, and a driver adds the calls of its vendor's API. They
// implement five of the six tables of driver.h (host_timeline.h has the sixth): thunks that let no exception out (HD-B-01), sized structs
// (HD-E-04), ranges and
// limits, live children (HD-L-01), a lost device (HD-S-02), forked children (HD-T-01), and lists kept for replay.
//
// Ownership: a function that creates an object uses sdk::make(host, ...) and returns it; the base class destroys it with sdk::unmake. So each
// object derives from one class of this file, and from nothing else.
//
// Thread tags are those of driver.h: a virtual function is called on the thread of the host's call that it serves, and Device::read and write on
// the one that calls run_on_host. Arguments are checked, unless a comment says otherwise. Functions may throw: exceptions become a status, except
// on a thread of the driver's own, which needs sdk::guarded around its work. Functions that are noexcept here must not throw. If a function fails
// or throws, it must destroy what it has created, and *out is ignored.
#ifndef HEDDLE_SDK_DRIVER_H_
#define HEDDLE_SDK_DRIVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/sdk/device_root.h"
#include "heddle/sdk/file.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

class Buffer;
class Device;
class Executable;
class Queue;

// The plugin's instance.
class Driver {
 public:
  // who begins every error text.
  Driver(const heddle_host_t* host, const char* who) noexcept : host_(host), who_(who) {}
  virtual ~Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  static Driver* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Driver*>(handle); }
  heddle_plugin_instance_t* handle() noexcept { return reinterpret_cast<heddle_plugin_instance_t*>(this); }

  virtual uint32_t device_count() = 0;
  // Strings must live as long as the driver. struct_size is ignored.
  virtual heddle_status_t* describe(uint32_t ordinal, heddle_device_description_t* out) = 0;
  virtual heddle_status_t* open(uint32_t ordinal, const heddle_device_open_params_t& params, Device** out) = 0;
  // For two different devices; the link of a device to itself is always its own memory.
  virtual heddle_device_link_t link(uint32_t a, uint32_t b);

  const heddle_host_t* host() const noexcept { return host_; }
  const char* who() const noexcept { return who_; }
  std::atomic<uint64_t> open_devices{0};

 private:
  const heddle_host_t* host_;
  const char* who_;
};

// The implementation of the plugin table's shutdown: destroys the instance, unless devices are open.
heddle_status_t* shut_down(heddle_plugin_instance_t* instance) noexcept;
// The table with that id, NULL for an unknown one.
const void* driver_interface(heddle_string_t id) noexcept;

// A buffer's first word, so that it is not the vtable pointer (HD-H-01).
struct BufferRoot {
  const heddle_driver_api_t* api;
};

class Buffer : public BufferRoot {
 public:
  Buffer(Device* device, uint64_t size_bytes, uint32_t memory, uint64_t alignment_bytes) noexcept;
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  static Buffer* from(heddle_buffer_t* handle) noexcept {
    return handle ? static_cast<Buffer*>(reinterpret_cast<BufferRoot*>(handle)) : nullptr;
  }
  heddle_buffer_t* handle() noexcept { return reinterpret_cast<heddle_buffer_t*>(static_cast<BufferRoot*>(this)); }

  // The host address of the first byte; NULL if the host cannot access the memory.
  virtual char* host_address() const noexcept { return nullptr; }
  virtual uint64_t device_address() const noexcept { return reinterpret_cast<uint64_t>(host_address()); }
  // Nothing to do for coherent memory.
  virtual heddle_status_t* flush(uint64_t, uint64_t) { return nullptr; }
  virtual heddle_status_t* invalidate(uint64_t, uint64_t) { return nullptr; }

  bool holds(uint64_t offset, uint64_t length) const noexcept { return offset <= size && length <= size - offset; }

  Device* device;
  uint64_t size;
  uint32_t memory;  // bits HEDDLE_MEMORY_*
  uint64_t alignment;
  void (*release)(void*) = nullptr;  // for imported memory
  void* release_context = nullptr;
};

// A kernel of a loaded executable.
struct Entry {
  const heddle_driver_api_t* api;  // HD-H-01
  Device* device;
  std::string name;
  const void* kernel;            // the result of Executable::find
  heddle_entry_params_t params;  // its pointers must not be followed: they belonged to the caller
  static Entry* from(heddle_entry_t* handle) noexcept { return reinterpret_cast<Entry*>(handle); }
  heddle_entry_t* handle() noexcept { return reinterpret_cast<heddle_entry_t*>(this); }
};

struct ExecutableRoot {
  const heddle_driver_api_t* api;
};

class Executable : public ExecutableRoot {
 public:
  explicit Executable(Device* device) noexcept;
  virtual ~Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  static Executable* from(heddle_executable_t* handle) noexcept {
    return static_cast<Executable*>(reinterpret_cast<ExecutableRoot*>(handle));
  }
  heddle_executable_t* handle() noexcept { return reinterpret_cast<heddle_executable_t*>(static_cast<ExecutableRoot*>(this)); }

  // The driver's kernel with that name, stored in Entry::kernel; NULL if there is none.
  virtual const void* find(std::string_view name) = 0;

  Device* device;
  std::vector<Entry> entries;
};

// The argument of Device::load. The strings and bytes belong to the caller.
struct Code {
  std::string_view format, target, name;
  const char* bytes;
  uint64_t size;
  std::vector<heddle_entry_params_t> entries;
  std::string_view own_kernels;  // pattern of the names of those that may run portable code; empty: any
};

// DeviceRoot's `who` begins every error text.
class Device : public DeviceRoot {
 public:
  Device(Driver* driver, uint32_t ordinal, const heddle_driver_api_t* api);
  virtual ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  static Device* from(heddle_device_t* handle) noexcept { return static_cast<Device*>(reinterpret_cast<DeviceRoot*>(handle)); }
  heddle_device_t* handle() noexcept { return reinterpret_cast<heddle_device_t*>(static_cast<DeviceRoot*>(this)); }

  // alignment_bytes is at least the device's. RESOURCE_EXHAUSTED if the system has no memory; the device's own limits are already checked.
  virtual heddle_status_t* allocate(const heddle_buffer_params_t& params, Buffer** out) = 0;
  virtual heddle_status_t* import_host(void* memory, uint64_t size_bytes, Buffer** out);
  virtual heddle_status_t* make_queue(const heddle_queue_params_t& params, Queue** out) = 0;
  virtual uint32_t rank(std::string_view format, std::string_view target) = 0;
  virtual heddle_status_t* load(const Code& code, Executable** out) = 0;
  // How load() would have the nodes of a kernel of portable code run (heddle/sdk/portable/own_kernels.h). The default returns UNIMPLEMENTED: all are
  // interpreted.
  virtual heddle_status_t* portable_parts(const heddle_portable_query_t& query,
                                          const std::function<void(const heddle_portable_part_t&)>& part);
  // struct_size is ignored.
  virtual heddle_transfer_properties_t transfer_properties() { return {}; }
  // For parameter I/O on memory that the host cannot access: moves bytes now, on a thread of the driver. The default returns UNIMPLEMENTED.
  virtual heddle_status_t* write(Buffer* target, uint64_t offset, const char* bytes, uint64_t length);
  virtual heddle_status_t* read(Buffer* source, uint64_t offset, char* bytes, uint64_t length);

  // The device is lost: every handle returns this failure from now on (HD-S-02). Takes the status; the first one is kept.
  void lose(heddle_status_t* failure) noexcept;
  // The failure, owned by the caller; NULL if the device is not lost.
  heddle_status_t* loss() noexcept;

  Driver* driver;
  uint32_t ordinal;
  heddle_device_description_t limits;  // as returned by describe
  std::atomic<uint64_t> submissions{0}, dispatches{0}, copies{0}, bytes_allocated{0}, bytes_reserved{0};
  // A driver that runs portable code counts these itself (heddle_device_statistics_t).
  std::atomic<uint64_t> interpreted{0}, interpreted_ns{0}, kernel_ns{0}, staged_bytes{0};

 private:
  std::mutex lost_mutex_;
  heddle_status_t* lost_ = nullptr;  // under lost_mutex_
  std::atomic<bool> is_lost_{false};
};

struct Range {
  Buffer* buffer;  // NULL only for an empty binding of a dispatch
  uint64_t offset, length;
};

// One command, checked and independent of the caller's memory, except that an upload and a download name host memory.
struct Operation {
  enum class Kind { kBarrier, kDispatch, kCopy, kFill, kUpdate, kCopy2d, kUpload, kDownload, kFile };
  Kind kind = Kind::kBarrier;
  // kBarrier    none                             kUpdate    [0] target, of bytes.size() bytes
  // kDispatch   its bindings, in order           kCopy2d    [0] source, [1] target: each from its first row to the end of its last
  // kCopy       [0] source, [1] target           kUpload    [0] target
  // kFill       [0] target                       kDownload  [0] source
  // kFile       none: the chunks of `file` name their buffers
  // A length may be 0.
  std::vector<Range> ranges;
  std::vector<char> bytes;  // a dispatch's constants, an update's bytes
  // dispatch
  const Entry* entry = nullptr;
  uint32_t grid[3] = {};
  uint64_t workgroups = 0;
  uint32_t region = 0;
  // fill
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 0;
  // 2-D copy
  uint64_t source_stride = 0, target_stride = 0, row_bytes = 0, rows = 0;
  // upload, download
  const char* host_source = nullptr;
  char* host_target = nullptr;
  // files
  std::shared_ptr<FileJob> file;
};

struct Submission {
  std::vector<Operation> operations;
  std::vector<heddle_point_t> waits, signals;
};

struct QueueRoot {
  const heddle_driver_api_t* api;
};

class Queue : public QueueRoot {
 public:
  explicit Queue(Device* its_device) noexcept : QueueRoot{its_device->api}, device(its_device) {}
  // Waits for all enqueued work.
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  static Queue* from(heddle_queue_t* handle) noexcept { return static_cast<Queue*>(reinterpret_cast<QueueRoot*>(handle)); }
  heddle_queue_t* handle() noexcept { return reinterpret_cast<heddle_queue_t*>(static_cast<QueueRoot*>(this)); }

  // Enqueues, and calls retire() when the work has finished. A failure means that nothing is enqueued. [any] [no-block]
  virtual heddle_status_t* enqueue(std::unique_ptr<Submission> submission) = 0;

  Device* device;
};

// For a queue whose work is done by a host thread:
// Waits for the submission's waits; returns the failure of the first that failed, or the device's loss.
heddle_status_t* await_waits(Device* device, const Submission& submission) noexcept;
// Runs everything except dispatches, if every buffer has a host_address(), except that files use Device::write and read. FAILED_PRECONDITION for
// a dispatch, and for a buffer without a host_address(). A barrier is a no-op for a thread that works in order.
heddle_status_t* run_on_host(Device* device, const Operation& operation) noexcept;
// Like run_on_host, for buffers without a host_address() too: their bytes go through Device::read and write, a block at a time.
heddle_status_t* run_by_copies(Device* device, const Operation& operation) noexcept;
// Counts the work, and reaches or fails its signals. Takes the failure. Does not touch the submission's objects afterwards (HD-Q-06).
void retire(Device* device, std::unique_ptr<Submission> submission, heddle_status_t* failure) noexcept;

// Checks commands and converts them to operations; for drivers that replace a slot of the tables below.
heddle_status_t* read_commands(Device* device, const heddle_command_t* commands, uint32_t count, std::vector<Operation>* out);
heddle_status_t* read_sync(Device* device, const heddle_sync_t* in, Submission* out);
heddle_status_t* record(heddle_queue_t* queue, const heddle_command_t* commands, uint32_t command_count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept;
heddle_status_t* replay(heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t binding_count,
                        const heddle_sync_t* sync) noexcept;
void recording_free(heddle_recording_t* recording) noexcept;

// The tables, for driver_interface and for drivers that replace a slot.
const heddle_device_interface_t* device_interface() noexcept;
const heddle_buffer_interface_t* buffer_interface() noexcept;
const heddle_transfer_interface_t* transfer_interface() noexcept;
const heddle_param_io_interface_t* param_io_interface() noexcept;
const heddle_dispatch_interface_t* dispatch_interface() noexcept;
const heddle_timeline_interface_t* timeline_interface() noexcept;

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_DRIVER_H_
