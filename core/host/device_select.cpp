// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Selection by UUID, PCI address and ordinal, and links as drivers report them.
#include "core/host/device_select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/host/diagnostics.h"

namespace heddle::host {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "GPU-1b2c..." and the 16 bytes match if their hexadecimal digits do.
std::string uuid_digits(std::string_view text) {
  std::string digits;
  if (text.substr(0, 4) == "GPU-") text.remove_prefix(4);
  for (char c : lower(text)) {
    if (std::isxdigit(static_cast<unsigned char>(c))) digits += c;
  }
  return digits;
}

std::string uuid_digits(const uint8_t (&bytes)[16]) {
  std::string digits;
  for (uint8_t byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

bool has_uuid(const heddle_device_description_t& description) {
  return std::any_of(std::begin(description.uuid), std::end(description.uuid), [](uint8_t byte) { return byte != 0; });
}

bool matches(const DeviceSelector& selector, const heddle_device_description_t& description) {
  switch (selector.kind) {
    case DeviceSelector::kOrdinal:
      return description.ordinal == selector.ordinal;
    case DeviceSelector::kPci:
      return lower(selector.text) == lower(view(description.pci));
    case DeviceSelector::kUuid: {
      // A prefix is enough, as in vendors' tools.
      const std::string wanted = uuid_digits(selector.text);
      return wanted.size() >= 4 && has_uuid(description) && uuid_digits(description.uuid).compare(0, wanted.size(), wanted) == 0;
    }
  }
  return false;
}

std::string to_text(const DeviceSelector& selector) {
  switch (selector.kind) {
    case DeviceSelector::kOrdinal:
      return fmt::format("ordinal {}", selector.ordinal);
    case DeviceSelector::kPci:
      return fmt::format("pci \"{}\"", selector.text);
    case DeviceSelector::kUuid:
      return fmt::format("uuid \"{}\"", selector.text);
  }
  return {};
}

// All names that `select` accepts for the device, and the name that the driver gives.
std::string identity(const DeviceInfo& device) {
  std::string text = fmt::format("ordinal {}", device.ordinal);
  if (const std::string_view pci = view(device.description.pci); !pci.empty()) text += fmt::format(", pci \"{}\"", pci);
  if (has_uuid(device.description)) text += fmt::format(", uuid \"{}\"", uuid_digits(device.description.uuid));
  return text + fmt::format(" ({})", view(device.description.name));
}

std::string coded(const std::string& place, const char* severity, Code code, const std::string& message) {
  return fmt::format("{}: {}[{}]: {}; {}", place, severity, code.row->code, message, code.row->next_step);
}

const char* link_name(uint32_t kind) {
  constexpr const char* kNames[] = {"none", "same-memory", "pci", "nvlink or xgmi"};
  return kind < std::size(kNames) ? kNames[kind] : "unknown";
}

uint32_t link_kind(const std::string& name) {
  return name == "pci" ? HEDDLE_LINK_PCI : name == "same-memory" ? HEDDLE_LINK_SAME_MEMORY : HEDDLE_LINK_FABRIC;
}

}  // namespace

const DeviceInfo* select_device(const DeviceConfig& config, const std::vector<DeviceInfo>& all, std::string* out_wrong) {
  std::string there;
  const DeviceInfo* found = nullptr;
  size_t count = 0;
  for (const DeviceInfo& device : all) {
    there += (there.empty() ? "" : "; ") + identity(device);
    if (!matches(config.select, device.description)) continue;
    found = &device;
    ++count;
  }
  if (count == 1) return found;
  *out_wrong = coded(config.place, "error", "E207",
                     fmt::format("{} {} device{} with {}; one was expected, found {}", count == 0 ? "no" : fmt::format("{}", count),
                                 config.driver, count > 1 ? "s" : "", to_text(config.select), there.empty() ? "none" : there));
  return nullptr;
}

std::string why_not_by_ordinal(const DeviceConfig& config, const DeviceInfo& device) {
  const std::string_view pci = view(device.description.pci);
  if (config.select.kind != DeviceSelector::kOrdinal || (pci.empty() && !has_uuid(device.description))) return {};
  return fmt::format(
      "{}: device {} is selected by ordinal, which moves when devices come, go or are hidden; write select = {{ {} = \"{}\" }}",
      config.place, config.alias, has_uuid(device.description) ? "uuid" : "pci",
      has_uuid(device.description) ? uuid_digits(device.description.uuid) : std::string(pci));
}

std::string why_not_linked(const LinkConfig& link, const std::vector<DeviceInfo>& devices) {
  auto named = [&](const std::string& alias) {
    return std::find_if(devices.begin(), devices.end(), [&](const DeviceInfo& device) { return device.alias == alias; });
  };
  const auto a = named(link.a), b = named(link.b);
  // A driver knows the links between its own devices only.
  if (link.kind.empty() || a == devices.end() || b == devices.end() || a->driver != b->driver) return {};
  heddle_device_link_t found{};
  found.struct_size = sizeof(found);
  if (!Status(a->driver->api.device->link(a->driver->api.instance, a->ordinal, b->ordinal, &found)).ok()) return {};
  if (found.kind == link_kind(link.kind)) return {};
  return coded(link.place, "warning", "E208",
               fmt::format("the link between {} and {} is '{}', as {} tells; '{}' was expected", link.a, link.b, link_name(found.kind),
                           a->driver->id, link.kind));
}

}  // namespace heddle::host
