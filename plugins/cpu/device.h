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
#include "cpu/threads.h"
#include "heddle/code.h"
#include "heddle/ext/profile.h"
#include "heddle/sdk/device_root.h"
#include "heddle/sdk/status.h"

namespace heddle::cpu {

constexpr uint32_t kMaxBindings = 256;
constexpr uint32_t kMaxConstantsBytes = 4096;
constexpr uint32_t kMaxGrid = 0x7fffffffu;
constexpr uint64_t kAlignment = 64;

// Which x86-64 levels the processor and the system run: 0 (neither), 3 or 4.
uint32_t x86_64_level() noexcept;

// What the manifest's [options] say.
struct Options {
  uint32_t device_count = 1;
  uint32_t threads = 0;  // 0: one a core
  uint64_t spin_ns = 200000;
  bool pin = true;
  bool gdb_symbols = true;
  bool perf_map = false;
  uint32_t level = 0;  // the highest x86-64 level to run, at most the processor's
};

struct Instance {
  const heddle_host_t* host = nullptr;
  Options options;
  std::string name;
  std::vector<std::vector<uint32_t>> device_cpus;  // by ordinal, each ascending and of few NUMA nodes
  GroupLimits limits;                              // when the instance was made
  std::atomic<uint64_t> open_devices{0};

  // The most threads of a device of `cores` cores, and the memory that all devices have.
  uint32_t most_threads(size_t cores) const noexcept;
  uint64_t memory_bytes() const noexcept;

  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
};

// Memory that a kernel gets for itself; grows, never shrinks.
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
  // Threads are pinned if their cores were claimed; else they are anywhere on the processors.
  Device(Instance* instance_, uint32_t ordinal_, const heddle_driver_api_t* api_, std::vector<uint32_t> cpus, uint32_t threads,
         bool claimed, CoreClaims claims_);
  ~Device();

  static Device* from(heddle_device_t* handle) noexcept { return static_cast<Device*>(reinterpret_cast<sdk::DeviceRoot*>(handle)); }
  heddle_device_t* handle() noexcept { return reinterpret_cast<heddle_device_t*>(static_cast<sdk::DeviceRoot*>(this)); }

  Instance* instance;
  uint32_t ordinal;
  uint64_t memory_bytes;
  std::vector<uint32_t> numa_nodes;  // of its cores: where large buffers are; none: wherever they are touched first
  CoreClaims claims;
  Workers workers;
  std::unique_ptr<Workspace[]> workspaces;           // by place
  std::atomic<Workspace*> spare_workspace{nullptr};  // for lists that run in the caller's thread
  std::atomic<uint32_t> pinned_queues{0};
  Counters counters;
  std::mutex queues_mutex;
  std::vector<Queue*> queues;  // under queues_mutex
};

const heddle_device_interface_t* device_interface() noexcept;
const heddle_buffer_interface_t* buffer_interface() noexcept;
const heddle_transfer_interface_t* transfer_interface() noexcept;
const heddle_param_io_interface_t* param_io_interface() noexcept;
const heddle_dispatch_interface_t* dispatch_interface() noexcept;
const heddle_profile_interface_t* profile_interface() noexcept;

// queue.cpp
heddle_status_t* queue_create(heddle_device_t* device, const heddle_queue_params_t* params, heddle_queue_t** out) noexcept;
heddle_status_t* queue_destroy(heddle_queue_t* queue) noexcept;
// DeviceRoot::help of a CPU device.
bool help(sdk::DeviceRoot* device, heddle_point_t point) noexcept;

using sdk::number;

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_DEVICE_H_
