// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between the host and the stream driver: what the contract allows to drivers, and no driver over streams does, and what the host owes to each.
//
//   behaviour                                                          how
//   submissions of one queue run in any order, and at the same time    option spread: a queue is so many of the stream driver's
//   what the host must not do is refused (HD-Q-01, HD-Q-02, HD-Q-06)   option strict
//   bindings that start anywhere are refused                           option aligned: a multiple of min_alignment_bytes is wanted
//   uploads out of a mapped file are refused, as they would pin it     option pins
//   of so many replays one finds no room in the middle of it           option exhausted_replays
//   a file breaks in the middle of many extents                        option bad_byte: it ends there
//   a copy between devices that is refused, or whose other device is   option peer_fault
//   lost before it
//   a vendor's library raises floating-point flags in its caller       always, in probe
#ifndef HEDDLE_TESTS_STREAMS_CONTRACT_H_
#define HEDDLE_TESTS_STREAMS_CONTRACT_H_

#include <map>
#include <mutex>
#include <random>
#include <string_view>

#include "heddle/sdk/stream/device.h"
#include "host_backend.h"

namespace heddle::test {

struct ContractSettings {
  uint32_t spread = 1;
  bool strict = false;
  bool aligned = false;
  bool pins = false;
  uint64_t exhausted_replays = 0;  // 0: none
  int64_t bad_byte = -1;           // -1: none
};

// The instance of the plugin; stream::Device::instance is one.
class Instance : public stream::Instance {
 public:
  explicit Instance(const heddle_host_t* its_host) noexcept;
  heddle_status_t* start();
  static Instance& of(const stream::Device* device) noexcept { return static_cast<Instance&>(*device->instance); }

  std::span<const heddle_string_t> code_formats() const noexcept override;
  heddle_device_link_t link(uint32_t a, uint32_t b) const override;
  const char* lack(uint32_t) const override { return nullptr; }
  std::unique_ptr<stream::Backend> make_backend(uint32_t ordinal) override;

  HostSettings backend;
  ContractSettings contract;
  std::mutex mutex;
  std::map<heddle_timeline_t*, uint64_t> enqueued;  // the value that work was last enqueued for; under mutex
  std::mt19937_64 random;                           // under mutex
  std::atomic<uint64_t> replays{0};

 private:
  std::vector<stream::Facts> facts_;
};

// The table in the place of the stream driver's; `table` itself if nothing is in between. NULL stays NULL.
const void* in_between(std::string_view id, const void* table) noexcept;
// application.h.
const void* application_table() noexcept;
// heddle.blocks/1 over the stream driver, by kernels of the host. Of four types of blocks; the host decodes the others.
const heddle_blocks_interface_t* blocks_interface() noexcept;

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_STREAMS_CONTRACT_H_
