// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// test.streams: the stream driver over the host's backend, as a plugin. Its devices run the CPU's code.
#include "heddle/code.h"
#include "heddle/sdk/options.h"
#include "heddle/sdk/stream/driver.h"
#include "host_backend.h"

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
constexpr heddle_string_t kCodeFormats[] = {sdk::string_of(HEDDLE_CODE_X86_64_ELF)};

heddle_status_t* read_count(const heddle_host_t* host, uint32_t* out) {
  *out = 1;
  return sdk::read_option(host, kVendor.who, "device_count", 1, 16, out);
}

class Instance : public stream::Instance {
 public:
  explicit Instance(const heddle_host_t* its_host) noexcept : stream::Instance(its_host, kVendor) {}

  heddle_status_t* start() {
    uint32_t count = 0;
    if (heddle_status_t* bad = read_count(host, &count)) return bad;
    if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "seed", 0, INT64_MAX, &settings_.seed)) return bad;
    if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "latency_us", 0, 1000000, &settings_.latency_us)) return bad;
    if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "memory", 0, INT64_MAX, &settings_.memory_bytes)) return bad;
    if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "failing_word", 0, INT64_MAX, &settings_.failing_word)) return bad;
    if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "waits_by_event", &settings_.waits_by_event)) return bad;
    if (heddle_status_t* bad = sdk::read_option(host, kVendor.who, "polls_words", &settings_.polls_words)) return bad;
    facts_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      stream::Facts& facts = facts_[i];
      facts.name = "host with streams";
      facts.pci = "0000:e" + std::string(1, "0123456789abcdef"[i]) + ":00.0";
      facts.level = "x86-64";
      facts.uuid[0] = static_cast<uint8_t>(0xe0 + i);
      facts.memory_bytes = settings_.memory_bytes;
      facts.compute_units = facts.max_threads = facts.subgroup_size = 1;
      for (int d = 0; d < 3; ++d) {
        facts.grid[d] = INT32_MAX;
        facts.block[d] = 1;
      }
      devices.push_back(&facts);
    }
    return nullptr;
  }

  std::span<const heddle_string_t> code_formats() const noexcept override { return kCodeFormats; }
  heddle_device_link_t link(uint32_t, uint32_t) const override {
    heddle_device_link_t link = {};
    link.kind = HEDDLE_LINK_FABRIC;
    link.peer_access = 1;
    return link;
  }
  const char* lack(uint32_t) const override { return nullptr; }
  std::unique_ptr<stream::Backend> make_backend(uint32_t ordinal) override {
    return make_host_backend(static_cast<int>(ordinal), settings_);
  }

 private:
  HostSettings settings_;
  std::vector<stream::Facts> facts_;
};

heddle_status_t* create(const heddle_host_t* host, stream::Instance** out) {
  auto* instance = sdk::make<Instance>(host, host);
  if (heddle_status_t* bad = instance->start()) {
    sdk::unmake(host, instance);
    return bad;
  }
  *out = instance;
  return nullptr;
}

constexpr stream::Plugin kPlugin = {kVendor, [] { return stream::Found{HEDDLE_PROBE_AVAILABLE, "", ""}; }, read_count, create, nullptr};

}  // namespace
}  // namespace heddle::test

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  return heddle::sdk::stream::enter<heddle::test::kPlugin>(negotiation);
}
