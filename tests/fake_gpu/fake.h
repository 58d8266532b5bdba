// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver that behaves as a GPU's would at its worst: device memory at addresses that nobody is told, work that is done late by one engine
// per device, in shuffled order wherever the contract allows it. It runs the CPU's code, so that every test of the core can use it.
//
// What it imitates, beside the contract's words, of drivers that were met:
//
//   behaviour                                                              how
//   signals come late, several submissions' at once, in any order          options latency_us, batch_us
//   a submission behind a failed wait runs all the same                    by chance
//   or it ends at once, while other things that it waits for go on         option early_failures
//   one submission's failure would hide another's end on one timeline      option strict refuses a second unfinished one
//   an upload's source, a download's target are in use until the signal    always
//   a list that cannot be recorded; a replay that finds no room            options record, exhausted_replays
//   2-D copies whose bindings change are not recorded                      always
//   a replay uses the bindings it is given, one replay at a time           always; one that overlaps is refused
//   a failure names its region; a loss ends every handle, a new one works  option loss_code
//   a file that breaks in the middle of many extents                       option bad_byte
//   an upload out of a mapped file would pin its pages                     option pins refuses it
//   waits that only the host can end, or another device                    held back, or refused with option strict
//   times of commands are there only once the signals are                  always: heddle.profile/1 writes them last
//   a vendor's library raises floating-point flags in whoever calls it     always, in probe
//   a copy between devices that breaks, or ends one of them                option peer_fault
#ifndef HEDDLE_TESTS_FAKE_GPU_FAKE_H_
#define HEDDLE_TESTS_FAKE_GPU_FAKE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpu/image.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"
#include "heddle/sdk/device_root.h"
#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/status.h"

namespace heddle::fake {

struct Instance {
  const heddle_host_t* host = nullptr;
  uint32_t device_count = 1;
  uint64_t seed = 1;
  uint64_t latency_us = 100;
  uint64_t batch_us = 0;           // signals come at multiples of it
  uint32_t records = 1;            // 0: every record is refused
  uint64_t exhausted_replays = 0;  // of so many replays one is refused; 0: none
  int64_t bad_byte = -1;           // of files: reading it fails
  uint64_t memory_bytes = uint64_t{16} << 30;
  uint32_t peer = 1;          // 0: no copies between devices
  uint32_t peer_fault = 0;    // of copies between devices: 1 fails them, 2 loses the queue's device, 3 the other one, 4 refuses them
  uint32_t strict = 0;        // check what the host promises: HD-Q-01, HD-Q-02
  uint32_t pins = 0;          // refuse uploads out of files that are mapped
  int64_t loss_code = 0;      // a kernel that returns it loses the device; 0: none does
  uint64_t shared_bytes = 0;  // what the devices claim to have
  uint32_t max_grid = 0x7fffffffu;
  uint32_t early_failures = 0;  // work ends as soon as one of its waits has failed
  uint32_t aligned = 0;         // refuse bindings that do not start on kBindingAlignment bytes
  std::atomic<uint64_t> open_devices{0};
  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
};

struct Device;

constexpr uint64_t kBindingAlignment = 256;  // of devices, and of bindings where the instance is told to ask for it

// One step of a submission: done on the engine's thread, at any time between two barriers. The result is NULL or its failure.
using Step = std::function<heddle_status_t*()>;

class Stream;  // stream.h

struct Queue {
  const heddle_driver_api_t* api;
  Device* device;
  uint64_t unfinished = 0;   // under the engine's lock
  Stream* stream = nullptr;  // the application's that it is over
  static Queue* from(heddle_queue_t* handle) noexcept { return reinterpret_cast<Queue*>(handle); }
};

struct Submission {
  Queue* queue = nullptr;
  std::vector<std::vector<Step>> groups{1};  // barriers between them
  std::vector<heddle_point_t> waits, signals;
  uint64_t dispatches = 0, copies = 0;
  std::shared_ptr<std::atomic<bool>> in_flight;  // of a recording, or on a stream: false again before the signals
  std::shared_ptr<std::atomic<bool>> gate;       // on a stream: true once the stream has come to it
  std::vector<heddle_command_time_t> measured;   // of each command, by the clock; empty where nobody asked
  heddle_command_time_t* out_times = nullptr;    // the caller's, written just before the signals
  void write_times() const noexcept;             // as the caller wants them: since the first command began
};

// Runs submissions whose waits are over, in no particular order, and signals late.
class Engine {
 public:
  explicit Engine(Device* device);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Refused, when the instance is strict, if it waits for what nothing enqueued will signal (HD-Q-01).
  heddle_status_t* enqueue(std::unique_ptr<Submission> submission);
  void drain(Queue* queue);
  // Of the engine's thread.
  std::mt19937_64& random() { return random_; }

 private:
  // Work that is over and is told later.
  struct Finished {
    uint64_t due_ns;
    std::unique_ptr<Submission> submission;
    heddle_status_t* failure;
  };
  void loop();
  heddle_status_t* execute(Submission& submission);
  void tell(Finished finished);
  uint64_t due();
  template <typename Predicate>
  bool any_unfinished(Predicate predicate) const;  // of signals; under the lock

  Device* device_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool will_signal(heddle_point_t point) const;  // under the lock

  std::vector<std::unique_ptr<Submission>> pending_;
  std::vector<heddle_point_t> running_, told_;  // signals of the submission that is executed, or told: their timelines may be gone by then
  std::vector<Finished> finished_;
  bool stop_ = false;
  std::thread thread_;
};

struct Device : sdk::DeviceRoot {
  Device(Instance* instance_, uint32_t ordinal_, const heddle_driver_api_t* api_);
  static Device* from(heddle_device_t* handle) noexcept { return static_cast<Device*>(reinterpret_cast<sdk::DeviceRoot*>(handle)); }
  heddle_device_t* handle() noexcept { return reinterpret_cast<heddle_device_t*>(static_cast<sdk::DeviceRoot*>(this)); }

  // Takes the status; the first one stays.
  void lose(heddle_status_t* failure) noexcept;
  // The loss, owned by the caller; NULL while all is well.
  heddle_status_t* loss() noexcept;

  Instance* instance;
  uint32_t ordinal;
  std::mutex lost_mutex;
  heddle_status_t* lost = nullptr;
  std::atomic<uint64_t> replays{0};
  std::atomic<uint64_t> submissions{0}, dispatches{0}, copies{0}, bytes_allocated{0}, bytes_reserved{0};
  ~Device();
  std::unique_ptr<Engine> engine;  // last: its thread uses the rest
};

struct Buffer {
  const heddle_driver_api_t* api = nullptr;
  Device* device = nullptr;
  uint64_t size = 0;
  uint64_t alignment = 0;
  uint32_t memory = 0;
  char* secret = nullptr;   // where the bytes are; only the engine goes there, unless the memory is host visible
  void* address = nullptr;  // what properties() shows: for device memory, a range that faults
  void* mapped[2] = {};
  uint64_t mapped_bytes[2] = {};
  uint64_t reserved_bytes = 0;
  void (*release)(void*) = nullptr;
  void* release_context = nullptr;
  static Buffer* from(heddle_buffer_t* handle) noexcept { return reinterpret_cast<Buffer*>(handle); }
  bool holds(uint64_t offset, uint64_t length) const noexcept { return offset <= size && length <= size - offset; }
};

struct Entry {
  const heddle_driver_api_t* api;
  Device* device;
  heddle_x86_64_kernel_t kernel;
  uint32_t binding_count, constants_bytes;
  uint64_t workspace_bytes;
  std::string name;
  static Entry* from(heddle_entry_t* handle) noexcept { return reinterpret_cast<Entry*>(handle); }
};

struct Executable {
  const heddle_driver_api_t* api;
  Device* device;
  cpu::Image image;
  std::vector<Entry> entries;
  static Executable* from(heddle_executable_t* handle) noexcept { return reinterpret_cast<Executable*>(handle); }
};

// Checks commands and makes steps of them, that are timed where somebody asked.
heddle_status_t* read_commands(Queue* queue, const heddle_command_t* commands, uint32_t count, std::unique_ptr<Submission>* out,
                               heddle_command_time_t* out_times = nullptr);
// native.cpp
heddle_status_t* enqueue_on_stream(Queue* queue, std::unique_ptr<Submission> submission);
// Checks a sync and copies it into the submission.
heddle_status_t* read_sync(Device* device, const heddle_sync_t* in, Submission* out);

heddle_status_t* record(heddle_queue_t* queue, const heddle_command_t* commands, uint32_t command_count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept;
heddle_status_t* replay(heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t binding_count,
                        const heddle_sync_t* sync) noexcept;
void recording_free(heddle_recording_t* recording) noexcept;

const heddle_buffer_interface_t* buffer_interface() noexcept;
const heddle_transfer_interface_t* transfer_interface() noexcept;
const heddle_param_io_interface_t* param_io_interface() noexcept;
const heddle_dispatch_interface_t* dispatch_interface() noexcept;
const heddle_native_interface_t* native_interface() noexcept;
const heddle_profile_interface_t* profile_interface() noexcept;
const heddle_blocks_interface_t* blocks_interface() noexcept;

using sdk::number;

}  // namespace heddle::fake
#endif  // HEDDLE_TESTS_FAKE_GPU_FAKE_H_
