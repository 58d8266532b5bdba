// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin's instance and its devices: logical CPUs with disjoint cores, each with its own workers. Included by every file of the
// driver.
#ifndef HEDDLE_CPU_DEVICE_H_
#define HEDDLE_CPU_DEVICE_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/control_groups.h"
#include "cpu/core_claims.h"
#include "cpu/steady_files.h"
#include "cpu/threads.h"
#include "cpu/topology.h"
#include "heddle/code.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"
#include "heddle/sdk/driver_parts.h"
#include "heddle/sdk/status.h"

namespace heddle::cpu {

constexpr uint32_t kMaxBindings = 256;
constexpr uint32_t kMaxConstantsBytes = 4096;
constexpr uint32_t kMaxGrid = 0x7fffffffu;
constexpr uint64_t kAlignment = 64;

// The x86-64 level that the processor and the system support: 0 (neither), 3 or 4.
uint32_t x86_64_level() noexcept;

// The values of the manifest's [options].
struct Options {
  uint32_t device_count = 1;
  uint32_t threads = 0;  // 0: one per core
  uint64_t spin_ns = 200000;
  bool pin = true;
  bool share = true;
  bool gdb_symbols = true;
  bool perf_map = false;
  uint32_t level = 0;  // the highest x86-64 level to run, at most that of the processor
};

struct Instance {
  const heddle_host_t* host = nullptr;
  Options options;
  std::string name;
  std::vector<std::vector<uint32_t>> device_cpus;  // per ordinal, each ascending and on few NUMA nodes
  GroupLimits limits;                              // at the creation of the instance,
  std::vector<NodeCpus> nodes;                     // as are the system's NUMA nodes
  std::atomic<uint64_t> open_devices{0};

  // The maximum number of threads of a device with `cores` cores, and the memory that all devices share.
  uint32_t most_threads(size_t cores) const noexcept;
  uint64_t memory_bytes() const noexcept;

  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
};

// Scratch memory of a kernel; grows, never shrinks. Pages that were used stay, even if it moves.
class Workspace {
 public:
  Workspace() noexcept = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  // False if memory is exhausted.
  bool reserve(uint64_t bytes) noexcept;
  void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

struct Counters {
  std::atomic<uint64_t> submissions{0}, dispatches{0}, copies{0}, bytes_allocated{0}, bytes_reserved{0};
};

class Queue;

struct Device : sdk::DeviceRoot {
  // Threads are pinned if their cores were claimed; otherwise they may run on any of the processors.
  Device(Instance* instance_, uint32_t ordinal_, const heddle_driver_api_t* api_, std::vector<uint32_t> cpus, uint32_t threads,
         bool claimed, CoreClaims claims_, bool shares);
  ~Device();

  static Device* from(heddle_device_t* handle) noexcept { return static_cast<Device*>(reinterpret_cast<sdk::DeviceRoot*>(handle)); }
  heddle_device_t* handle() noexcept { return reinterpret_cast<heddle_device_t*>(static_cast<sdk::DeviceRoot*>(this)); }

  static constexpr bool kKeepsMappedFiles = true;  // steady_files

  Instance* instance;
  uint32_t ordinal;
  uint64_t memory_bytes;
  std::vector<uint32_t> numa_nodes;      // NUMA nodes of its cores, for large buffers; empty: where the memory is first touched
  std::atomic<uint64_t> last_mapped{0};  // the address of the last large buffer
  CoreClaims claims;
  Workers workers;
  std::unique_ptr<Workspace[]> workspaces;           // per place
  std::atomic<Workspace*> spare_workspace{nullptr};  // for lists that run in the caller's thread
  std::atomic<uint32_t> pinned_queues{0};
  Counters counters;
  SteadyFiles steady_files;
  std::mutex queues_mutex;
  std::vector<Queue*> queues;  // under queues_mutex
};

const heddle_device_interface_t* device_interface() noexcept;
const heddle_buffer_interface_t* buffer_interface() noexcept;
const heddle_transfer_interface_t* transfer_interface() noexcept;
const heddle_param_io_interface_t* param_io_interface() noexcept;
const heddle_dispatch_interface_t* dispatch_interface() noexcept;
const heddle_native_interface_t* native_interface() noexcept;
const heddle_profile_interface_t* profile_interface() noexcept;

// queue.cpp
heddle_status_t* queue_create(heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept;
// DeviceRoot::help of a CPU device.
bool help(sdk::DeviceRoot* device, heddle_point_t point) noexcept;

using sdk::number;

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_DEVICE_H_
