// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for libhsa-runtime64.so.1: GPUs of gfx90a whose kernels tests/amdgpu interprets, so that AMD's HIP library runs without a GPU. This
// header is what the files of this directory share; the interface to others is AMD's headers. docs/vendors/amd.md says what it shows.
//
// Threads: every function may be called from any thread. The state of the process is created once and never destroyed, since AMD's library waits
// for signals from destructors of static objects.
#pragma once

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/amdgpu/interpreter.h"

namespace heddle::hsa {

// What environment variables choose; docs/vendors/amd.md lists them.
struct Settings {
  uint64_t seed = 0;
  uint64_t delay_us = 100;             // work that could run waits for up to 20 times as long; 0: none does
  uint64_t memory_bytes = 4ull << 30;  // of each GPU
  uint32_t gpus = 1;
  bool large_bar = false;  // the host reaches the memory of GPUs
  bool trace = false;
  std::string statistics;  // a file to append to when the process ends
};
const Settings& settings();

// Prints "hsa stand-in: <where>: <text>" and returns the status.
hsa_status_t refuse(hsa_status_t status, const char* where, const std::string& text);
// The end of the process, as for a fault that AMD's runtime does not report to anybody.
[[noreturn]] void die(const std::string& text);
void trace(const std::string& text);
std::string hex(uint64_t value);
uint64_t now();  // ticks of the system's clock: nanoseconds

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) {}
  uint64_t next();
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

// Agents: 0 is the host, 1 and up are the GPUs.
constexpr uint64_t kAgentBase = 0xa6e00000;
inline hsa_agent_t agent_handle(uint32_t index) {
  return {kAgentBase + index};
}
bool agent_index(hsa_agent_t agent, uint32_t& index);  // false if there is none
bool initialized();

enum class Segment : uint8_t { HostFine, HostKernarg, HostCoarse, DeviceCoarse, DeviceFine, Group };
struct Pool {
  uint32_t agent;
  Segment segment;
};
hsa_amd_memory_pool_t pool_handle(Pool pool);
bool find_pool(hsa_amd_memory_pool_t handle, Pool& pool);
uint32_t global_flags(Segment segment);
uint64_t pool_bytes(Pool pool);

// One range of addresses.
struct Block {
  enum Kind : uint8_t { Allocation, Locked, Code, Signals, Queue } kind = Allocation;
  uint64_t address = 0;       // for GPUs and copies
  uint64_t bytes = 0;         // that were asked for
  std::byte* host = nullptr;  // where the contents are; of memory of a GPU, at an address that the user does not know
  uint64_t mapped_bytes = 0;
  Pool pool{0, Segment::HostFine};
  bool writable = true;
  bool gpu_access = true;  // of memory of the host: whether GPUs were allowed to access it
  std::string name;
};

// Memory that GPUs, copies and kernels reach. Memory of a GPU and pinned memory of the host have addresses for GPUs at which the host has no access.
class AddressSpace {
 public:
  hsa_status_t allocate(Pool pool, uint64_t bytes, void** out);
  hsa_status_t free(void* address);
  hsa_status_t allow_access(const void* address, bool gpu);
  hsa_status_t lock(void* host, uint64_t bytes, Pool pool, void** out);
  hsa_status_t unlock(void* host);
  // Segments of code, and signals. The caller owns the memory.
  void add(Block block);
  void remove(uint64_t address);
  // Memory of a GPU for a code object, whose segments the caller adds; false if there is none.
  bool map_code(uint32_t gpu, uint64_t bytes, Block& image);
  void unmap_code(const Block& image);
  void retire_queue(void* shared, uint64_t bytes);  // takes memory from ::mmap
  // The contents of a range of one block, or null and a text that says what is wrong.
  std::byte* find(uint64_t address, uint64_t bytes, bool write, std::string& problem);
  std::optional<Block> containing(uint64_t address);
  amdgpu::Memory for_kernel();  // what a kernel may access
  uint64_t used(uint32_t agent);
  // While a kernel or a copy is under way, what is freed stays mapped.
  void begin_use() { ++users_; }
  void end_use() { --users_; }

 private:
  uint64_t reserve(uint64_t bytes);  // addresses without access; 0 if there are none
  std::string describe(uint64_t address) const;
  void retire(const Block& block);  // unmaps it after others that are freed

  std::mutex mutex_;
  std::map<uint64_t, Block> blocks_;          // by address for GPUs
  std::multimap<uint64_t, uint64_t> locked_;  // host address to address for GPUs
  std::map<uint32_t, uint64_t> used_;
  std::deque<Block> freed_;
  uint64_t freed_bytes_ = 0;
  std::atomic<uint64_t> users_{0};
  uint64_t fill_ = 0;
};
AddressSpace& memory();

// Signals. A handle is the address of an amd_signal_t.
amd_signal_t* signal_of(hsa_signal_t signal, const char* where);  // ends the process if it is none
hsa_status_t create_signal(hsa_signal_value_t value, int64_t kind, hsa_signal_t* out);
int64_t load(const amd_signal_t* signal);
void store(amd_signal_t* signal, int64_t value, bool notify = true);
void add(amd_signal_t* signal, int64_t value);
bool holds(int64_t value, hsa_signal_condition_t condition, int64_t compared);
// Wakes whoever waits for a change of a signal, a queue or the list of copies.
void changed();
// Waits for a change after `seen`, which is updated, or for the time to pass.
uint64_t changes();
void wait_for_change(uint64_t& seen, uint64_t nanoseconds);

// A kernel that is loaded, found by the address of its descriptor.
struct LoadedKernel {
  amdgpu::CodeObject* code = nullptr;
  const amdgpu::Kernel* kernel = nullptr;
  std::shared_ptr<void> keeps;  // the executable
};
bool find_kernel(uint64_t descriptor, LoadedKernel& out);

struct Copy {
  struct Part {
    uint64_t destination, source, bytes;
  };
  std::vector<Part> parts;
  std::vector<hsa_signal_t> dependencies;
  hsa_signal_t completion{0};
};
void start_copy(Copy copy);
// Start the threads of the stand-in, once.
void start_scheduler();
void start_handlers();

// What was done, for HEDDLE_HSA_STATISTICS.
struct Totals {
  std::atomic<uint64_t> kernels{0}, instructions{0}, lanes{0}, copies{0}, copied_bytes{0}, packets{0}, kernel_ns{0};
};
Totals& totals();

// Runs `function`, which gets the name of the caller, and turns exceptions into a status.
template <class Function>
hsa_status_t guarded(const char* where, const Function& function) noexcept {
  try {
    if (!initialized()) return refuse(HSA_STATUS_ERROR_NOT_INITIALIZED, where, "hsa_init was not called");
    return function(where);
  } catch (const std::bad_alloc&) {
    return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, where, "the host has no memory left");
  } catch (const std::exception& e) {
    return refuse(HSA_STATUS_ERROR, where, e.what());
  }
}

}  // namespace heddle::hsa
