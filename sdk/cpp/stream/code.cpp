// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and unloads code: the checks that are the same for every vendor. All slow steps happen here, never in a submit.
#include "heddle/sdk/stream/code.h"

#include <algorithm>

namespace heddle::sdk::stream {
namespace {

constexpr uint32_t kMaxEntries = 1 << 20;

}  // namespace

heddle_status_t* Backend::load_argument(Loading& loading, const heddle_entry_params_t& params, uint32_t index, Argument*) {
  return loading.argument_failed(index, "its kind " + std::to_string(params.arguments[index].kind) + " is unknown");
}

Executable::~Executable() {
  if (!module) return;
  ContextScope scope(device);
  device->backend.unload_module(module);
}

heddle_status_t* Loading::load(Executable* executable) {
  if (heddle_status_t* bad = device->backend.load_module(*this, &executable->module)) return bad;
  executable->entries.reserve(params.entry_count);
  for (uint32_t i = 0; i < params.entry_count; ++i) {
    const auto* at =
        reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(params.entries) + uint64_t{i} * params.entry_stride);
    heddle_entry_params_t entry;
    uint64_t bad_byte;
    if (!sdk::read_struct(at, &entry, &bad_byte)) return sdk::tail_status(device->host, "heddle_entry_params_t", bad_byte);
    index_ = i;
    executable->entries.emplace_back();
    if (heddle_status_t* bad = load_entry(entry, executable)) return bad;
  }
  return nullptr;
}

heddle_status_t* Loading::load_entry(const heddle_entry_params_t& in, Executable* executable) {
  Entry& entry = executable->entries.back();
  entry.api = device->api;
  entry.device = device;
  entry.name = std::string(sdk::view_of(in.name));
  entry.binding_count = in.binding_count;
  entry.constants_bytes = in.constants_bytes;
  if (heddle_status_t* bad = check_numbers(in)) return bad;
  std::copy_n(in.workgroup_size, 3, entry.block);
  std::copy_n(device->facts().grid, 3, entry.most_workgroups);
  entry.shared_bytes = static_cast<uint32_t>(in.shared_memory_bytes);
  if (heddle_status_t* bad = lay_out(in, &entry)) return bad;
  entry.starts_early = (in.flags & HEDDLE_ENTRY_EARLY) != 0 && device->backend.capabilities().early_starts;
  if (heddle_status_t* bad = device->backend.load_entry(*this, executable->module, in, &entry)) return bad;
  if (in.flags & HEDDLE_ENTRY_IN_ORDER) entry.starts_early = false;
  return nullptr;
}

heddle_status_t* Loading::check_numbers(const heddle_entry_params_t& in) const {
  const Facts& facts = device->facts();
  auto above = [&](const char* what, uint64_t value, uint64_t most) {
    return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                        std::string(what) + " " + std::to_string(value) + " is more than this device's " + std::to_string(most));
  };
  if (const char* why = wrong_entry_flags(in)) return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, why);
  if (in.binding_count > kMaxBindings) return above("its number of bindings", in.binding_count, kMaxBindings);
  if (in.constants_bytes > kMaxConstantsBytes) return above("its bytes of constants", in.constants_bytes, kMaxConstantsBytes);
  if (in.constants_bytes % 8 != 0) {
    return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                        std::to_string(in.constants_bytes) + " bytes of constants are not whole 64-bit values");
  }
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (in.workgroup_size[i] == 0) return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its workgroup has no threads");
    if (in.workgroup_size[i] > static_cast<uint32_t>(facts.block[i])) {
      return above("its workgroup's size", in.workgroup_size[i], static_cast<uint64_t>(facts.block[i]));
    }
    threads *= in.workgroup_size[i];
  }
  if (threads > static_cast<uint64_t>(facts.max_threads))
    return above("its workgroup's size", threads, static_cast<uint64_t>(facts.max_threads));
  if (in.shared_memory_bytes > static_cast<uint64_t>(facts.shared_bytes)) {
    return above("its shared memory of bytes", in.shared_memory_bytes, static_cast<uint64_t>(facts.shared_bytes));
  }
  if (in.subgroup_size != 0 && in.subgroup_size != static_cast<uint32_t>(facts.subgroup_size)) {
    return entry_failed(HEDDLE_STATUS_FAILED_PRECONDITION, "it is for subgroups of " + std::to_string(in.subgroup_size) + " threads");
  }
  return nullptr;
}

// The location of each argument.
heddle_status_t* Loading::lay_out(const heddle_entry_params_t& in, Entry* entry) {
  entry->plain = in.argument_count == 0;
  uint64_t end = uint64_t{8} * in.binding_count + in.constants_bytes;
  if (!entry->plain) {
    end = 0;
    for (uint32_t i = 0; i < in.argument_count; ++i) {
      Argument argument;
      if (heddle_status_t* bad = read_argument(in, i, &argument)) return bad;
      end = (end + argument.alignment - 1) / argument.alignment * argument.alignment;
      argument.at = static_cast<uint32_t>(end);
      end += argument.size_bytes;
      if (end > kMaxArgumentsBytes) break;
      entry->arguments.push_back(argument);
    }
  }
  if (end > kMaxArgumentsBytes) {
    return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its arguments take more than " + std::to_string(kMaxArgumentsBytes) + " bytes");
  }
  entry->arguments_bytes = static_cast<uint32_t>(end);
  return nullptr;
}

heddle_status_t* Loading::read_argument(const heddle_entry_params_t& in, uint32_t index, Argument* out) {
  const heddle_argument_t& argument = in.arguments[index];
  *out = {argument.kind, argument.index, 0, 1, 0, nullptr};
  switch (argument.kind) {
    case HEDDLE_ARGUMENT_BINDING:
      if (argument.index >= in.binding_count) return argument_failed(index, "there is no binding " + std::to_string(argument.index));
      out->size_bytes = out->alignment = 8;
      return nullptr;
    case HEDDLE_ARGUMENT_CONSTANT:
      if (argument.size_bytes != 1 && argument.size_bytes != 2 && argument.size_bytes != 4 && argument.size_bytes != 8) {
        return argument_failed(index, "a constant of " + std::to_string(argument.size_bytes) + " bytes");
      }
      if (uint64_t{argument.index} + argument.size_bytes > in.constants_bytes) {
        return argument_failed(index, "its constant ends after the constants");
      }
      out->size_bytes = out->alignment = argument.size_bytes;
      return nullptr;
    default:
      return device->backend.load_argument(*this, in, index, out);
  }
}

heddle_status_t* Loading::failed(heddle_status_code_t code, const std::string& why) const {
  return status(device, code, "loading executable '%.*s' failed: %s [HD-C-01]", shown(name()), name().data(), why.c_str());
}

heddle_status_t* Loading::failed(Result result, const std::string& why) const {
  return result_status(device, device->backend.code_of(result), result,
                       "loading executable '%.*s' (%llu bytes of %.*s for %.*s) failed: %s", shown(name()), name().data(),
                       number(params.code_bytes), shown(sdk::view_of(params.format)), params.format.data,
                       shown(sdk::view_of(params.target)), params.target.data, why.c_str());
}

heddle_status_t* Loading::entry_failed(heddle_status_code_t code, const std::string& why) const {
  const auto* at = reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(params.entries) +
                                                                  uint64_t{index_} * params.entry_stride);
  const std::string_view symbol = sdk::view_of(at->name);
  return status(device, code, "loading entry %u ('%.*s') of executable '%.*s' failed: %s [HD-C-01]", index_, shown(symbol), symbol.data(),
                shown(name()), name().data(), why.c_str());
}

heddle_status_t* Loading::argument_failed(uint32_t argument, const std::string& why) const {
  return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "argument " + std::to_string(argument) + " of its recipe: " + why);
}

heddle_status_t* variant_rank(heddle_device_t* handle, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept {
  *out = Device::from(handle)->backend.rank(sdk::view_of(format), sdk::view_of(target));
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
    if (device->backend.rank(format, target) == 0) {
      return status(device, HEDDLE_STATUS_FAILED_PRECONDITION,
                    "loading executable '%.*s' failed: code '%.*s' for '%.*s' does not run on this device (%s, %s); choose a "
                    "variant by its rank [HD-C-01]",
                    shown(name), name.data(), shown(format), format.data(), shown(target), target.data(), device->facts().name.c_str(),
                    device->facts().level.c_str());
    }
    if (!params.code || params.code_bytes == 0 || params.entry_count > kMaxEntries ||
        (params.entry_count != 0 && (!params.entries || params.entry_stride < sizeof(uint32_t)))) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "loading executable '%.*s' failed: %llu bytes of code%s, %u entries at a stride of %llu bytes", shown(name),
                    name.data(), number(params.code_bytes), params.code ? "" : " (null)", params.entry_count, number(params.entry_stride));
    }
    ContextScope scope(device);
    if (heddle_status_t* lost = device->loss()) return lost;
    auto* executable = sdk::make<Executable>(device->host);
    executable->api = device->api;
    executable->device = device;
    heddle_status_t* bad;
    try {
      bad = Loading(device, params).load(executable);
    } catch (...) {
      sdk::unmake(device->host, executable);
      throw;
    }
    if (bad) {
      sdk::unmake(device->host, executable);
      return bad;
    }
    device->live.executables.fetch_add(1);
    *out = executable->handle();
    return nullptr;
  });
}

}  // namespace heddle::sdk::stream
