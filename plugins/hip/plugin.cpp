// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of heddle.hip: facts about its devices, instances, the plugin's table.
#include <algorithm>
#include <fstream>

#include "heddle/code.h"
#include "hip/backend.h"

namespace heddle::hip {
namespace {

constexpr stream::Vendor kVendor = {
    .id = "heddle.hip",
    .version = "0.1.0",
    .who = "hip",
    .name = "HIP",
    .family = "hip",
    .look = "check rocminfo, and what HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide",
    .streams = "use a stream that HIP has created on this device",
};
constexpr heddle_string_t kFormats[] = {sdk::string_of(HEDDLE_CODE_HSACO)};

// The library, after find() has opened it.
const Api& library() {
  const Api* api = nullptr;
  load_api(&api);
  return *api;
}

int describe(const Api& hip, int ordinal, Facts* out) {
  Properties properties;
  if (const int bad = hip.read_properties(ordinal, &properties)) return bad;
  out->ordinal = ordinal;
  out->level = properties.architecture;
  out->chip = properties.architecture.substr(0, properties.architecture.find(':'));
  out->name = properties.name.empty() ? "AMD GPU" : properties.name;
  if (out->name.find(out->chip) == std::string::npos) out->name += " (" + out->chip + ")";  // which code is for
  out->memory_bytes = properties.memory_bytes;
  out->shared_bytes = static_cast<int>(std::min<uint64_t>(properties.shared_bytes, INT32_MAX));
  out->subgroup_size = properties.wave_size;
  out->max_threads = properties.max_threads;
  out->compute_units = properties.compute_units;
  std::copy_n(properties.block, 3, out->block);
  std::copy_n(properties.grid, 3, out->grid);
  int pools = 0;
  out->has_pools = hip.has_pools && hip.hipDeviceGetAttribute(&pools, kMemoryPoolsSupported, ordinal) == kOk && pools;
  if (hip.hipDeviceGetUuid) hip.hipDeviceGetUuid(reinterpret_cast<char*>(out->uuid), ordinal);
  char address[64] = {};
  if (hip.hipDeviceGetPCIBusId(address, sizeof address - 1, ordinal) != kOk) return kOk;
  out->pci = address;  // HIP writes hexadecimal digits in either case, by its version
  for (char& c : out->pci) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  std::ifstream("/sys/bus/pci/devices/" + out->pci + "/numa_node") >> out->numa_node;
  return kOk;
}

class Instance final : public stream::Instance {
 public:
  Instance(const heddle_host_t* of_host, const Api& api) noexcept : stream::Instance(of_host, kVendor), hip_(api) {
    has_graphs = api.has_graphs;
    fault_ends_process = api.major < 7;
  }

  int list(int count) {
    facts_.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      Facts& facts = facts_[static_cast<size_t>(i)];
      if (const int bad = describe(hip_, i, &facts)) return bad;
      devices.push_back(&facts);
    }
    return kOk;
  }

  std::span<const heddle_string_t> code_formats() const noexcept override { return kFormats; }
  std::unique_ptr<stream::Backend> make_backend(uint32_t ordinal) override { return hip::make_backend(hip_, facts_[ordinal]); }
  const char* lack(uint32_t ordinal) const override {
    return facts_[ordinal].chip.starts_with("gfx") ? nullptr : "the name of an architecture, so that its properties have an unknown layout";
  }
  heddle_device_link_t link(uint32_t a, uint32_t b) const override {
    const int from = facts_[a].ordinal, to = facts_[b].ordinal;
    heddle_device_link_t link = {};
    int can_reach = 0;
    if (hip_.hipDeviceCanAccessPeer(&can_reach, from, to) != kOk || !can_reach) return link;
    uint32_t type = 0, hops = 0;
    const bool is_known = hip_.hipExtGetLinkTypeAndHopCount && hip_.hipExtGetLinkTypeAndHopCount(from, to, &type, &hops) == kOk;
    link.kind = is_known && type == kXgmi ? HEDDLE_LINK_FABRIC : HEDDLE_LINK_PCI;
    link.peer_access = 1;
    return link;
  }

 private:
  const Api& hip_;
  std::vector<Facts> facts_;  // not changed once it is listed
};

heddle_status_t* failure(const heddle_host_t* host, int error, const char* what) {
  const Api& hip = library();
  return stream::result_status(host, kVendor.who, code_of(error), error, hip.hipGetErrorName(error), hip.hipGetErrorString(error),
                               "%s failed", what);
}

heddle_status_t* count(const heddle_host_t* host, uint32_t* out) {
  int found = 0;
  const int asked = library().hipGetDeviceCount(&found);
  *out = static_cast<uint32_t>(std::max(found, 0));
  return asked == kOk || asked == kNoDevice ? nullptr : failure(host, asked, "counting devices");
}

heddle_status_t* create(const heddle_host_t* host, stream::Instance** out) {
  if (library().was_open) {
    const std::string line = "uses HIP " + library().version + ", which this process had opened already";
    host->log(host->self, HEDDLE_LOG_INFO, sdk::string_of("plugin.cpp"), __LINE__, {line.data(), line.size()});
  }
  uint32_t devices = 0;
  if (heddle_status_t* bad = count(host, &devices)) return bad;
  sdk::Made<Instance> made(sdk::make<Instance>(host, host, library()), {host});
  if (const int bad = made->list(static_cast<int>(devices))) return failure(host, bad, "reading the properties of the devices");
  *out = made.release();
  return nullptr;
}

stream::Found find() {
  return load_api();
}

constexpr stream::Plugin kPlugin = {kVendor, find, count, create, nullptr, block_codes};

}  // namespace
}  // namespace heddle::hip

extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) {
  return heddle::sdk::stream::enter<heddle::hip::kPlugin>(negotiation);
}
