// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor without hardware, on which the stream driver runs in tests: a stream is a thread that works in order and late, device memory lies where
// the host cannot touch it, kernels are the CPU's, or portable code. It does what a GPU's library may do and real ones rarely do:
//
//   behaviour                                                          how
//   work of a stream starts late, by chance                            options seed, latency_us
//   nodes of a graph run in any order that their edges allow           always
//   a launch and a graph use their arguments as of the call            always
//   memory that is not allocated, or no longer, is not accessed        an access ends the context, as a fault does
//   a kernel that fails ends the context; all later calls return that  always; with the option loss_code, only one that returns this does,
//                                                                      and a kernel "fail" that returns something else cannot be launched
//   a context lives as long as any handle of its device                or each handle has its own: option own_contexts
//   a pool has no room until it is trimmed                             by chance
//   there is no pitched fill; host memory cannot be registered         for some seeds
//   streams cannot wait for memory                                     option waits_by_event
//   the vendor has no graphs                                           option has_graphs
//   words show what streams have written at multiples of a time only   option batch_us
//   a graph cannot be built; no room for a patch in the middle         option record, the one time that fail_a_patch() asks for
//   devices do not reach each other; a copy between them breaks        options peer, peer_fault
//
// What other drivers do beyond that is in contract.h.
#ifndef HEDDLE_TESTS_STREAMS_HOST_BACKEND_H_
#define HEDDLE_TESTS_STREAMS_HOST_BACKEND_H_

#include "heddle/sdk/stream/backend.h"
#include "heddle/sdk/stream/code.h"

namespace heddle::test {

namespace stream = sdk::stream;

// The numbers of the option peer_fault.
enum class PeerFault : uint32_t {
  kNone,
  kFails,       // the copy cannot be enqueued
  kLosesOwn,    // the copy ends the context of its queue
  kLosesOther,  // the other device is lost before it
  kRefused,     // the driver answers UNIMPLEMENTED, although it has said that it copies
};

struct HostSettings {
  uint64_t seed = 1;
  uint64_t latency_us = 100;  // the longest delay of one piece of work
  uint64_t memory_bytes = uint64_t{16} << 30;
  uint64_t failing_word = 0;  // writing of a word fails from this one of a device on, counted from 1
  bool early = true;          // kernels start early, as far as the driver knows
  bool waits_by_event = false;
  uint64_t batch_us = 0;   // a queue's words change at multiples of it; 0: when they are written
  int64_t loss_code = -1;  // -1: every kernel that fails ends the context
  bool own_contexts = false;
  bool record = true;
  bool peer = true;
  PeerFault peer_fault = PeerFault::kNone;
};

// Results.
constexpr stream::Result kNoMemory = 1, kBadAddress = 2, kKernelFailed = 3, kRegisteredAlready = 4, kBadValue = 5, kRefused = 6,
                         kUnsupported = 7, kLinkBroke = 8, kLinkLost = 9;
// fill() refuses this value in units of 4 bytes with kBadValue.
constexpr uint32_t kRefusedFill = 0xdeadbeef;
const char* host_result_name(stream::Result result) noexcept;

std::unique_ptr<stream::Backend> make_host_backend(int ordinal, const HostSettings& settings);
// As a fault of its device does.
void end_context(stream::Backend& backend, stream::Result result) noexcept;
// In this thread, the nth next patch of a graph finds no memory, counted from 1; 0: none.
void fail_a_patch(uint32_t nth) noexcept;

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_STREAMS_HOST_BACKEND_H_
