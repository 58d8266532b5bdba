// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks, loads and unloads code of the format "x86_64-elf/1", and operations of library plugins.
#include "cpu/code.h"

#include <algorithm>
#include <unordered_map>

namespace heddle::cpu {

using sdk::guarded;
using sdk::status;

namespace {

constexpr uint32_t kMaxEntries = 1 << 20;
constexpr uint32_t kFewEntries = 4;  // up to this number, a linear search
constexpr uint64_t kMaxWorkspace = uint64_t{1} << 40;

int shown(std::string_view text) {
  return static_cast<int>(std::min<size_t>(text.size(), 120));
}

uint32_t rank_of(const Device* device, std::string_view format, std::string_view target) {
  if (format != HEDDLE_CODE_X86_64_ELF) return 0;
  const uint32_t level = device->instance->options.level;
  if (target == "x86-64-v3") return level >= 3 ? 30 : 0;
  if (target == "x86-64-v4") return level >= 4 ? 40 : 0;
  return 0;
}

heddle_status_t* check_entry(Device* device, std::string_view executable, uint32_t index, const heddle_entry_params_t& entry) {
  const std::string_view name = sdk::view_of(entry.name);
  auto too_large = [&](const char* what, uint64_t value, uint64_t most) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: loading entry %u ('%.*s') of executable '%.*s' failed: %s %llu is more than this driver's %llu", index, shown(name),
                  name.data(), shown(executable), executable.data(), what, number(value), number(most));
  };
  if (entry.binding_count > kMaxBindings) return too_large("its number of bindings", entry.binding_count, kMaxBindings);
  if (entry.constants_bytes > kMaxConstantsBytes) return too_large("its bytes of constants", entry.constants_bytes, kMaxConstantsBytes);
  if (entry.workspace_bytes > kMaxWorkspace) return too_large("its workspace of bytes", entry.workspace_bytes, kMaxWorkspace);
  if (entry.constants_bytes % 8 != 0) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: loading entry %u ('%.*s') of executable '%.*s' failed: %u bytes of constants are not whole 64-bit values "
                  "[HD-C-01]",
                  index, shown(name), name.data(), shown(executable), executable.data(), entry.constants_bytes);
  }
  if (const char* why = sdk::wrong_entry_flags(entry)) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: loading entry %u ('%.*s') of executable '%.*s' failed: %s", index,
                  shown(name), name.data(), shown(executable), executable.data(), why);
  }
  if (entry.argument_count != 0) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: loading entry %u ('%.*s') of executable '%.*s' failed: x86_64-elf/1 has one order of arguments, and it "
                  "lists %u [HD-C-01]",
                  index, shown(name), name.data(), shown(executable), executable.data(), entry.argument_count);
  }
  return nullptr;
}

}  // namespace

heddle_status_t* variant_rank(heddle_device_t* handle, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept {
  *out = rank_of(Device::from(handle), sdk::view_of(format), sdk::view_of(target));
  return nullptr;
}

heddle_status_t* executable_load(heddle_device_t* handle, const heddle_executable_params_t* in, heddle_executable_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "loading an executable", [&]() -> heddle_status_t* {
    heddle_executable_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_executable_params_t", bad_byte);
    const std::string_view name = sdk::view_of(params.name), format = sdk::view_of(params.format), target = sdk::view_of(params.target);
    if (rank_of(device, format, target) == 0) {
      return status(device->host, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "cpu: loading executable '%.*s' failed: code '%.*s' for '%.*s' does not run on this device (x86_64-elf/1 up to "
                    "x86-64-v%u); choose a variant by its rank [HD-C-01]",
                    shown(name), name.data(), shown(format), format.data(), shown(target), target.data(), device->instance->options.level);
    }
    if (params.entry_count > kMaxEntries || (params.entry_count != 0 && params.entry_stride < sizeof(uint32_t))) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: loading executable '%.*s' failed: %u entries at a stride of %llu bytes", shown(name), name.data(),
                    params.entry_count, number(params.entry_stride));
    }
    Image image;
    ImageError error;
    if (!Image::load(params.code, params.code_bytes, &image, &error)) {
      return status(device->host, error.code, "cpu: loading executable '%.*s' (%llu bytes for %.*s) failed: %s", shown(name), name.data(),
                    number(params.code_bytes), shown(target), target.data(), error.text);
    }
    std::vector<Entry> entries;
    entries.reserve(params.entry_count);
    std::unordered_map<std::string_view, uint64_t> functions;  // names are in the image, whose memory does not move
    if (params.entry_count > kFewEntries) {
      image.each_function([&](const Image::Function& function) { functions.emplace(function.name, function.address); });
    }
    for (uint32_t i = 0; i < params.entry_count; ++i) {
      const auto* at =
          reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(params.entries) + uint64_t{i} * params.entry_stride);
      heddle_entry_params_t entry;
      if (!sdk::read_struct(at, &entry, &bad_byte)) return sdk::tail_status(device->host, "heddle_entry_params_t", bad_byte);
      if (heddle_status_t* bad = check_entry(device, name, i, entry)) return bad;
      const std::string_view symbol = sdk::view_of(entry.name);
      heddle_x86_64_kernel_t kernel = nullptr;
      if (params.entry_count <= kFewEntries) {
        kernel = image.find_kernel(symbol);
      } else if (auto found = functions.find(symbol); found != functions.end()) {
        kernel = reinterpret_cast<heddle_x86_64_kernel_t>(found->second);
      }
      if (!kernel) {
        return status(device->host, HEDDLE_STATUS_NOT_FOUND,
                      "cpu: loading entry %u of executable '%.*s' failed: its code has no function '%.*s' among %llu symbols", i,
                      shown(name), name.data(), shown(symbol), symbol.data(), number(image.symbol_count()));
      }
      entries.push_back({.api = device->api,
                         .device = device,
                         .kernel = kernel,
                         .binding_count = entry.binding_count,
                         .constants_bytes = entry.constants_bytes,
                         .workspace_bytes = entry.workspace_bytes,
                         .cost_ns = entry.cost,
                         .name = std::string(symbol)});
    }
    const Options& options = device->instance->options;
    DebuggerSymbols debugger = options.gdb_symbols ? DebuggerSymbols(image) : DebuggerSymbols();
    if (options.perf_map && !add_to_perf_map(image, name)) {
      device->host->log(device->host->self, HEDDLE_LOG_WARN, sdk::string_of("code.cpp"), __LINE__,
                        sdk::string_of("cpu: writing /tmp/perf-<pid>.map failed; perf will show addresses without names"));
    }
    auto* executable =
        sdk::make<Executable>(device->host, Executable{device->api, device, std::move(image), std::move(entries), std::move(debugger)});
    device->live.executables.fetch_add(1);
    *out = executable->handle();
    return nullptr;
  });
}

heddle_status_t* operation_load(heddle_device_t* handle, const heddle_operation_params_t* in, heddle_executable_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "loading an operation", [&]() -> heddle_status_t* {
    heddle_operation_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_operation_params_t", bad_byte);
    const std::string_view name = sdk::view_of(params.name), target = sdk::view_of(params.target);
    if (target != HEDDLE_LIBRARY_TARGET_HOST || !params.library || !params.library->enqueue || !params.operation ||
        params.operand_count > HEDDLE_MAX_OPERANDS) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cpu: loading operation '%.*s' failed: %u operands for target '%.*s'%s; up to %u and " HEDDLE_LIBRARY_TARGET_HOST
                    " were expected [HD-O-02]",
                    shown(name), name.data(), params.operand_count, shown(target), target.data(),
                    params.library && params.library->enqueue && params.operation ? "" : ", without an operation", HEDDLE_MAX_OPERANDS);
    }
    std::vector<Entry> entries;
    entries.push_back({.api = device->api,
                       .device = device,
                       .kernel = nullptr,
                       .binding_count = params.operand_count + (params.workspace_bytes ? 1u : 0u),
                       .constants_bytes = 0,
                       .workspace_bytes = 0,
                       .cost_ns = params.cost_ns,
                       .name = std::string(name),
                       .library = params.library,
                       .operation = params.operation,
                       .operand_count = params.operand_count});
    auto* executable = sdk::make<Executable>(device->host, Executable{device->api, device, Image(), std::move(entries), DebuggerSymbols()});
    device->live.executables.fetch_add(1);
    *out = executable->handle();
    return nullptr;
  });
}

}  // namespace heddle::cpu
