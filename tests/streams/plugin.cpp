// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// test.streams: the stream driver over the host's backend, as a plugin. Its devices run the CPU's code, so that every test of the core can use it.
#include <algorithm>

#include "application.h"
#include "contract.h"
#include "heddle/code.h"
#include "heddle/sdk/options.h"
#include "heddle/sdk/stream/driver.h"

namespace heddle::test {
namespace {

constexpr stream::Vendor kVendor = {
    .id = "test.streams",
    .version = "0.1.0",
    .who = "streams",
    .name = "the host",
    .family = "cpu",
    .look = "raise the option device_count",
    .streams = "use a stream of this device",
};
constexpr heddle_string_t kCodeFormats[] = {sdk::string_of(HEDDLE_CODE_X86_64_ELF), sdk::string_of(HEDDLE_CODE_PORTABLE)};

heddle_status_t* read_count(const heddle_host_t* host, uint32_t* out) {
  *out = 1;
  return sdk::read_option(host, kVendor.who, "device_count", 1, 16, out);
}

// As a vendor's library that computes while it starts, without asking whose flags these are.
stream::Found start_library() {
  volatile double three = 3;
  [[maybe_unused]] const volatile double third = 1 / three;  // inexact
  return {HEDDLE_PROBE_AVAILABLE, "", ""};
}

heddle_status_t* create(const heddle_host_t* host, stream::Instance** out) {
  auto* instance = sdk::make<Instance>(host, host);
  if (heddle_status_t* bad = instance->start()) {
    sdk::unmake(host, instance);
    return bad;
  }
  *out = instance;
  return nullptr;
}

const void* extension(std::string_view id) {
  if (id == HEDDLE_TEST_APPLICATION) return application_table();
  return id == HEDDLE_BLOCKS_INTERFACE ? blocks_interface() : nullptr;
}

constexpr stream::Plugin kPlugin = {kVendor, start_library, read_count, create, extension};

}  // namespace

Instance::Instance(const heddle_host_t* its_host) noexcept : stream::Instance(its_host, kVendor) {}

heddle_status_t* Instance::start() {
  uint32_t count = 0, peer_fault = 0;
  int shared_bytes = 0, max_grid = INT32_MAX;
  if (heddle_status_t* bad = read_count(host, &count)) return bad;
  auto number = [&](const char* name, int64_t least, int64_t most, auto* value) {
    return sdk::read_option(host, kVendor.who, name, least, most, value);
  };
  auto flag = [&](const char* name, bool* value) { return sdk::read_option(host, kVendor.who, name, value); };
  if (heddle_status_t* bad = number("seed", 0, INT64_MAX, &backend.seed)) return bad;
  if (heddle_status_t* bad = number("latency_us", 0, 1000000, &backend.latency_us)) return bad;
  if (heddle_status_t* bad = number("batch_us", 0, 1000000, &backend.batch_us)) return bad;
  if (heddle_status_t* bad = number("memory", 0, INT64_MAX, &backend.memory_bytes)) return bad;
  if (heddle_status_t* bad = number("failing_word", 0, INT64_MAX, &backend.failing_word)) return bad;
  if (heddle_status_t* bad = number("loss_code", -1, INT64_MAX, &backend.loss_code)) return bad;
  if (heddle_status_t* bad = number("peer_fault", 0, 4, &peer_fault)) return bad;
  if (heddle_status_t* bad = flag("waits_by_event", &backend.waits_by_event)) return bad;
  if (heddle_status_t* bad = flag("has_graphs", &has_graphs)) return bad;
  if (heddle_status_t* bad = flag("own_contexts", &backend.own_contexts)) return bad;
  if (heddle_status_t* bad = flag("record", &backend.record)) return bad;
  if (heddle_status_t* bad = flag("peer", &backend.peer)) return bad;
  if (heddle_status_t* bad = number("shared", 0, INT32_MAX, &shared_bytes)) return bad;
  if (heddle_status_t* bad = number("max_grid", 1, INT32_MAX, &max_grid)) return bad;
  if (heddle_status_t* bad = number("spread", 1, 16, &contract.spread)) return bad;
  if (heddle_status_t* bad = flag("strict", &contract.strict)) return bad;
  if (heddle_status_t* bad = flag("aligned", &contract.aligned)) return bad;
  if (heddle_status_t* bad = flag("pins", &contract.pins)) return bad;
  if (heddle_status_t* bad = number("exhausted_replays", 0, INT64_MAX, &contract.exhausted_replays)) return bad;
  if (heddle_status_t* bad = number("bad_byte", -1, INT64_MAX, &contract.bad_byte)) return bad;
  backend.peer_fault = static_cast<PeerFault>(peer_fault);
  random.seed(backend.seed);
  facts_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    stream::Facts& facts = facts_[i];
    facts.name = "host with streams";
    facts.pci = "0000:e" + std::string(1, "0123456789abcdef"[i]) + ":00.0";
    facts.level = "x86-64";
    facts.uuid[0] = static_cast<uint8_t>(0xe0 + i);
    facts.memory_bytes = backend.memory_bytes;
    facts.compute_units = facts.max_threads = facts.subgroup_size = 1;
    facts.shared_bytes = shared_bytes;
    for (int d = 0; d < 3; ++d) {
      facts.grid[d] = d == 0 ? max_grid : std::min(max_grid, 65535);
      facts.block[d] = 1;
    }
    devices.push_back(&facts);
  }
  return nullptr;
}

std::span<const heddle_string_t> Instance::code_formats() const noexcept {
  return kCodeFormats;
}

heddle_device_link_t Instance::link(uint32_t, uint32_t) const {
  heddle_device_link_t link = {};
  link.kind = backend.peer ? HEDDLE_LINK_FABRIC : HEDDLE_LINK_NONE;
  link.peer_access = backend.peer;
  return link;
}

std::unique_ptr<stream::Backend> Instance::make_backend(uint32_t ordinal) {
  return make_host_backend(static_cast<int>(ordinal), backend);
}

}  // namespace heddle::test

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  const heddle_plugin_t* drivers = heddle::sdk::stream::enter<heddle::test::kPlugin>(negotiation);
  if (!drivers) return nullptr;
  static const heddle_plugin_t table = [&] {
    heddle_plugin_t made = *drivers;
    made.get_interface = [](heddle_plugin_instance_t*, heddle_string_t id) noexcept {
      return heddle::test::in_between(heddle::sdk::view_of(id), heddle::sdk::stream::get_interface(heddle::test::kPlugin, id));
    };
    return made;
  }();
  return &table;
}
