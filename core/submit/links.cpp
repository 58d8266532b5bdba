// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Queries drivers about pairs of devices. Called through links.h.
#include "core/submit/links.h"

namespace heddle::submit {

namespace {

using memory::Device;

// Of several tables for a pair, the last one that sets p2p.
const host::LinkConfig* asked_of(const Device& a, const Device& b, const host::Config& config) {
  const host::LinkConfig* found = nullptr;
  if (!a.config() || !b.config()) return found;
  const std::string &first = a.config()->alias, &second = b.config()->alias;
  for (const host::LinkConfig& link : config.links) {
    const bool pair = (link.a == first && link.b == second) || (link.a == second && link.b == first);
    if (pair && !link.p2p.empty()) found = &link;
  }
  return found;
}

// A copy is enqueued on the source's queue, so the source's properties count. Empty: a direct copy is possible.
std::string why_not_direct(const Device& from, const Device& to) {
  const heddle_driver_api_t& api = from.api();
  if (&api != &to.api()) return fmt::format("they are devices of two drivers, {} and {}", from.driver_id(), to.driver_id());
  heddle_transfer_properties_t properties{};
  properties.struct_size = sizeof(properties);
  Status asked = from.noted(Status(api.transfer->properties(from.get(), &properties)));
  if (!asked.ok()) return fmt::format("{} does not report what its copies can do: {}", from.driver_id(), asked.message());
  if ((properties.flags & HEDDLE_TRANSFER_PEER) == 0) {
    return fmt::format("{} does not copy between its devices (it has no HEDDLE_TRANSFER_PEER)", from.driver_id());
  }
  heddle_device_link_t link{};
  link.struct_size = sizeof(link);
  asked = Status(api.device->link(api.instance, from.description().ordinal, to.description().ordinal, &link));
  if (!asked.ok()) return fmt::format("{} does not report how they are linked: {}", from.driver_id(), asked.message());
  if (link.peer_access == 0) {
    return fmt::format("{} reports that '{}' does not reach the memory of '{}' (no peer_access)", from.driver_id(), from.alias(),
                       to.alias());
  }
  return {};
}

}  // namespace

Result<std::vector<Link>> find_links(std::span<const memory::Ref<Device>> devices, const host::Config& config) {
  std::vector<Link> links;
  for (uint32_t i = 0; i < devices.size(); ++i) {
    for (uint32_t j = 0; j < devices.size(); ++j) {
      if (i == j) continue;
      const Device &from = *devices[i], &to = *devices[j];
      const host::LinkConfig* asked = asked_of(from, to, config);
      Link link{i, j, false, asked && asked->p2p == "require", {}};
      if (asked && asked->p2p == "off") {
        link.reason = "p2p = \"off\" at " + asked->place;
      } else {
        link.reason = why_not_direct(from, to);
        link.direct = link.reason.empty();
        if (link.direct) link.reason = from.driver_id() + " reaches the memory of both";
      }
      if (link.required && !link.direct) {
        return error(
            HEDDLE_STATUS_UNAVAILABLE,
            "route: copying from device '{}' directly to device '{}', as p2p = \"require\" at {} demands, failed: {}; write \"auto\" "
            "if copies may go through host memory",
            from.alias(), to.alias(), asked->place, link.reason);
      }
      links.push_back(std::move(link));
    }
  }
  return links;
}

}  // namespace heddle::submit
