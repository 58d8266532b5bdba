// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for AMD's libamdhip64.so: the functions of HIP's runtime API that a driver needs, over the interpreter of AMDGPU code (tests/amdgpu). It has
// the symbols and layouts of the major in its file's name (libamdhip64.so.5, .6 or .7), and does what HIP may do and hardware rarely does:
//
//   behaviour                                                                    how
//   work of a stream starts late, and takes its turn with other streams'         by chance
//   streams share hardware queues, in which one waits for another                setting queues
//   nodes of a graph run in any order that their edges allow                     always
//   memory of a pool exists from its place on the stream on, to its release there   always; earlier or later accesses are faults
//   fresh and freed memory has other bytes                                       always
//   ordinary memory is read when the call is made, or late                       by chance
//   what is written to pinned memory that is not coherent shows at a synchronisation   always
//   a device reaches memory of another only after hipDeviceEnablePeerAccess      always
//   arguments are those of the call, and all that the kernel reads must be there always
//   a device says that it has pools when it has none (HIP 6.0.0)                  settings claims_pools,pools=0
//   streams wait only for memory of signals (HIP 5 with some settings)           setting signal_waits
//   a fault ends the process up to HIP 6; later, the context: every later call returns the same   always; setting aborts=0: as in HIP 7
//   the library ends, as at the end of a process: nothing runs any more, and every call returns the same    hipStandInUnload
//   a stream keeps its commands until a wait, a query or an event, and has room for 64 writes of words   always
//   a pool is too scattered for a block until it is trimmed                      by chance
//
// The environment variable HEDDLE_HIP_STAND_IN has the settings: "chip=gfx1100,devices=2,seed=3". HEDDLE_HIP_STATISTICS names a file to which each
// process appends how many kernels it has run, and of how many instructions of waves.
#pragma once

#include <map>
#include <set>
#include <string>

#include "late_gpu.h"
#include "tests/amdgpu/interpreter.h"

namespace heddle::test::hip {

// hipError_t.
enum Error : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kInvalidConfiguration = 9,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinary = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAlreadyEnabled = 704,
  kContextIsDestroyed = 709,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kLaunchFailure = 719,
  kNotSupported = 801,
};

struct Settings {
  int major = 6;
  std::string chip = "gfx1100";
  int devices = 1;           // before HIP_VISIBLE_DEVICES
  std::vector<int> visible;  // the physical number of each device
  uint64_t seed = 1, latency_us = 100, memory_bytes = uint64_t{16} << 30;
  uint64_t queues = 0;  // of each device; 0: one for each stream
  bool signal_waits = false, pools = true, peers = true, verbose = false;
  bool claims_pools = false;  // the attribute says that there are pools
  bool aborts = true;         // a fault ends the process; only up to HIP 6
};
const Settings& settings();
void count_kernel(uint64_t instructions);  // for HEDDLE_HIP_STATISTICS
uint64_t next_seed();

struct Device {
  int ordinal = 0;
  std::atomic<int> ended{0};  // the result of every call, once a fault has ended the context
  std::atomic<uint64_t> used_bytes{0};
  std::mutex mutex;
  std::vector<std::unique_ptr<LateStream>> queues;  // under mutex, as are all that follow
  uint64_t next_queue = 0;
  std::map<struct Stream*, std::shared_ptr<Stream>> streams;
  std::set<int> peers;  // whose memory it reaches
};
Device* device(int ordinal);  // NULL if there is none
Device* current();

// Bytes that reach pinned memory at the next synchronisation.
struct Landing {
  char* to;
  std::vector<char> bytes;
};

struct Stream {
  Device* device = nullptr;
  LateStream* queue = nullptr;
  std::unique_ptr<LateStream> own_queue;
  std::mutex mutex;
  uint64_t last = 0;                // number of its last work in the queue; under mutex
  std::vector<Landing> landing;     // under mutex
  std::atomic<int> kept_writes{0};  // of words, since the commands before were last released

  int enqueue(LateStream::Work work);
  int synchronize();
  bool is_idle();
  void land();
};
Stream* stream_of(void* handle);  // NULL: no stream has this handle. The default stream of the current device for a NULL handle

struct Event {
  bool is_timed = true;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, passed = 0, time_ns = 0;
  Stream* stream = nullptr;  // of the last record; it may be destroyed by now
  Device* device = nullptr;
};

struct Module {
  int ordinal = 0;
  std::mutex mutex;  // of the interpreter, which runs one kernel of a code object at a time
  std::shared_ptr<amdgpu::CodeObject> code;
  std::map<std::string, struct Function*> functions;
};
struct Function {
  std::shared_ptr<Module> module;
  const amdgpu::Kernel* kernel = nullptr;
};
Function* function_of(const void* handle);  // NULL: there is none

// One launch, with a copy of its arguments.
struct KernelLaunch {
  const Function* function = nullptr;
  std::shared_ptr<Module> module;
  amdgpu::Grid grid, block;  // grid in work items
  uint32_t shared_bytes = 0;
  std::vector<std::byte> arguments;

  // Checks and copies.
  static int make(const void* function, const uint32_t (&grid)[3], const uint32_t (&block)[3], uint32_t shared_bytes, void** parameters,
                  void** extra, KernelLaunch* out);
  int run(Device* device, std::mt19937_64& random) const;
};

// A copy or a fill as work.
struct CopyWork {
  uint64_t to = 0, to_stride = 0, from = 0, from_stride = 0, row_bytes = 0, rows = 1;
  std::shared_ptr<std::vector<char>> early;  // the source's bytes, if they were read when the call was made
  int run(Device* device, Stream* stream) const;
};
struct FillWork {
  uint64_t to = 0, count = 0, pitch = 0;
  uint32_t unit = 1, value = 0;
  int run(Device* device) const;
};

// Where a device sees an address: its own memory, pinned memory, memory of peers, and ordinary memory if it may be that. NULL: a fault.
char* reach(Device* device, uint64_t address, uint64_t size, bool may_be_ordinary, std::shared_ptr<void>* keep,
            uint32_t* out_flags = nullptr);

constexpr uint32_t kCoherentFlag = 0x40000000, kNonCoherentFlag = 0x80000000;

// Every function ends with this: it stores the result for hipGetLastError. Once the library has ended, the result is that of hipStandInUnload.
int result(int error);
int& last_error();
// The result of a call for a device: that with which its context ended, or success.
inline int state(const Device* of) {
  return of ? of->ended.load() : kInvalidDevice;
}
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace heddle::test::hip
