// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor without hardware, for tests of the stream driver: a stream is a thread that works in order and late, device memory lies where the host
// cannot touch it, kernels are the CPU's. It does what a GPU's library may do and real ones rarely do:
//
//   behaviour                                                          how
//   work of a stream starts late, by chance                            options seed, latency_us
//   nodes of a graph run in any order that their edges allow           always
//   a launch and a graph use their arguments as of the call            always
//   memory that is not allocated, or no longer, is not accessed        an access ends the context, as a fault does
//   a kernel that fails ends the context; all later calls return that  always
//   a context lives as long as any handle of its device                always
//   a pool has no room until it is trimmed                             by chance
//   there is no pitched fill; host memory cannot be registered         for some seeds
//   streams cannot wait for memory                                     option waits_by_event
//   a completion word changes only when the driver looks               option polls_words
#ifndef HEDDLE_TESTS_STREAMS_HOST_BACKEND_H_
#define HEDDLE_TESTS_STREAMS_HOST_BACKEND_H_

#include "heddle/sdk/stream/backend.h"
#include "heddle/sdk/stream/code.h"

namespace heddle::test {

namespace stream = sdk::stream;

struct HostSettings {
  uint64_t seed = 1;
  uint64_t latency_us = 100;  // the longest delay of one piece of work
  uint64_t memory_bytes = uint64_t{16} << 30;
  uint64_t failing_word = 0;  // writing of a word fails from this one of a device on, counted from 1
  bool early = true;          // kernels start early, as far as the driver knows
  bool waits_by_event = false;
  bool polls_words = false;
};

// Results.
constexpr stream::Result kNoMemory = 1, kBadAddress = 2, kKernelFailed = 3, kRegisteredAlready = 4, kBadValue = 5;
// fill() refuses this value in units of 4 bytes with kBadValue.
constexpr uint32_t kRefusedFill = 0xdeadbeef;
const char* host_result_name(stream::Result result) noexcept;

std::unique_ptr<stream::Backend> make_host_backend(int ordinal, const HostSettings& settings);

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_STREAMS_HOST_BACKEND_H_
