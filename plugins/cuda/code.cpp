// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks, loads and unloads code of the formats "ptx/1" and "cubin/1". All slow steps (compiling PTX, loading machine code onto the device) happen
// in executable_load, never in a submit. CUDA loads only those kernels onto the device whose functions are requested (CUDA_MODULE_LOADING), and so
// only those that the host lists.
#include "cuda/code.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "heddle/sdk/futex.h"

namespace heddle::cuda {

using sdk::guarded;
using sdk::status;

namespace {

constexpr uint32_t kMaxEntries = 1 << 20;
constexpr uint32_t kMaxArgumentsBytes = 4096;
constexpr uint32_t kTensorMapBytes = 128;
constexpr uint64_t kLongTranslationNs = 250000000;

// "sm_90a" gives 90 and true.
bool parse_target(std::string_view target, int* out_number, bool* out_exact) {
  if (!target.starts_with("sm_")) return false;
  target.remove_prefix(3);
  *out_exact = target.ends_with('a');
  if (*out_exact) target.remove_suffix(1);
  const auto [end, error] = std::from_chars(target.data(), target.data() + target.size(), *out_number);
  return error == std::errc() && end == target.data() + target.size() && *out_number >= 10 && *out_number < 1000;
}

// Closer targets rank higher, an exact one ('a') highest, and machine code ranks above text for the same target.
uint32_t rank_of(const Device* device, std::string_view format, std::string_view target) {
  const bool cubin = format == HEDDLE_CODE_CUBIN;
  if (!cubin && format != HEDDLE_CODE_PTX) return 0;
  const int here = device->facts().capability;
  int wanted = 0;
  bool exact = false;
  if (!parse_target(target, &wanted, &exact) || wanted > here || (exact && wanted != here)) return 0;
  if (cubin && wanted / 10 != here / 10) return 0;
  return static_cast<uint32_t>(wanted) * 4 + (exact ? 2 : 0) + (cubin ? 1 : 0);
}

// Loads one executable; errors name it and the entry.
class Loader {
 public:
  Loader(Device* device, const heddle_executable_params_t& params) : device_(device), params_(params) {}

  heddle_status_t* load(Executable* executable) {
    if (heddle_status_t* bad = load_module(executable)) return bad;
    executable->entries.reserve(params_.entry_count);
    for (uint32_t i = 0; i < params_.entry_count; ++i) {
      const auto* at = reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(params_.entries) +
                                                                      uint64_t{i} * params_.entry_stride);
      heddle_entry_params_t entry;
      uint64_t bad_byte;
      if (!sdk::read_struct(at, &entry, &bad_byte)) return sdk::tail_status(device_->host, "heddle_entry_params_t", bad_byte);
      index_ = i;
      executable->entries.emplace_back();
      if (heddle_status_t* bad = load_entry(entry, executable)) return bad;
    }
    return nullptr;
  }

 private:
  heddle_status_t* load_module(Executable* executable) {
    const Api& cuda = device_->cuda;
    // The text need not end in a NUL, but CUDA requires one.
    std::string text;
    const void* code = params_.code;
    if (sdk::view_of(params_.format) == HEDDLE_CODE_PTX) {
      text.assign(static_cast<const char*>(params_.code), params_.code_bytes);
      if (const size_t end = text.find('\0'); end != std::string::npos && end + 1 != text.size()) {
        return failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                      "its PTX has a NUL at byte " + std::to_string(end) + " of " + std::to_string(text.size()));
      }
      code = text.c_str();
    } else if (heddle_status_t* bad = check_cubin()) {
      return bad;
    }
    char log[4096] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
    const uint64_t began_ns = sdk::monotonic_ns();
    CUresult result = cuda.cuModuleLoadDataEx(&executable->module, code, 2, options, values);
    if (result == CUDA_SUCCESS) {
      if (!text.empty()) note_translation(sdk::monotonic_ns() - began_ns);
      return nullptr;
    }
    std::string why = log;
    while (!why.empty() && (why.back() == '\n' || why.back() == ' ')) why.pop_back();
    if (result == CUDA_ERROR_INVALID_PTX && why.find("Unsupported .version") != std::string::npos)
      result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
      why = "the driver (CUDA " + std::to_string(cuda.driver_version / 1000) + "." + std::to_string(cuda.driver_version % 1000 / 10) +
            ") is too old for this PTX; install a newer driver or compile for an older one" + (why.empty() ? "" : "; its message: " + why);
    }
    if (ends_context(result)) return device_->failed(result, "loading code");
    return cuda_status(device_->host, cuda, code_of(result), result,
                       "cuda: loading executable '%.*s' (%llu bytes of %.*s for %.*s) failed: %s", shown(name()), name().data(),
                       number(params_.code_bytes), shown(sdk::view_of(params_.format)), params_.format.data,
                       shown(sdk::view_of(params_.target)), params_.target.data, why.empty() ? "CUDA refuses" : why.substr(0, 900).c_str());
  }

  // The driver keeps the result of translating PTX in its own cache. If loading takes this long, it was not in the cache.
  void note_translation(uint64_t took_ns) {
    const heddle_host_t* host = device_->host;
    if (took_ns < kLongTranslationNs || host->log_level(host->self) > HEDDLE_LOG_INFO) return;
    char line[400];
    const int size =
        std::snprintf(line, sizeof line,
                      "cuda: the driver took %.0f ms to translate %llu bytes of PTX of executable '%.*s'; it keeps the result if "
                      "CUDA_CACHE_PATH (~/.nv/ComputeCache) can be written; heddle compile --ptxas puts machine code in the file",
                      static_cast<double>(took_ns) * 1e-6, number(params_.code_bytes), shown(name()), name().data());
    host->log(host->self, HEDDLE_LOG_INFO, sdk::string_of("code.cpp"), 0,
              sdk::string_of(std::string_view(line, std::min(static_cast<size_t>(size), sizeof line - 1))));
  }

  // CUDA takes a pointer without a size: the file's tables must be inside the given bytes.
  heddle_status_t* check_cubin() {
    struct Header {
      unsigned char identity[16];
      uint16_t type, machine;
      uint32_t version;
      uint64_t entry, programs, sections;
      uint32_t flags;
      uint16_t size, program_size, program_count, section_size, section_count, names;
    };
    struct Section {
      uint32_t name, type;
      uint64_t flags, address, offset, size;
      uint32_t link, info;
      uint64_t alignment, entry_size;
    };
    constexpr uint16_t kCudaMachine = 190;
    constexpr uint32_t kNoBits = 8;
    const uint64_t size = params_.code_bytes;
    Header header;
    if (size < sizeof header) return failed(HEDDLE_STATUS_DATA_LOSS, "its cubin is shorter than an ELF header");
    std::memcpy(&header, params_.code, sizeof header);
    if (std::memcmp(header.identity, "\177ELF\2\1", 6) != 0 || header.machine != kCudaMachine) {
      return failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its code is not a 64-bit ELF file for CUDA");
    }
    auto inside = [&](uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; };
    if (header.section_size != sizeof(Section) || !inside(header.sections, uint64_t{header.section_count} * sizeof(Section)) ||
        !inside(header.programs, uint64_t{header.program_count} * header.program_size)) {
      return failed(HEDDLE_STATUS_DATA_LOSS, "the tables of its cubin end after its " + std::to_string(size) + " bytes");
    }
    for (uint32_t i = 0; i < header.section_count; ++i) {
      Section section;
      std::memcpy(&section, static_cast<const char*>(params_.code) + header.sections + i * sizeof section, sizeof section);
      if (section.type != kNoBits && section.type != 0 && !inside(section.offset, section.size)) {
        return failed(HEDDLE_STATUS_DATA_LOSS,
                      "section " + std::to_string(i) + " of its cubin ends after its " + std::to_string(size) + " bytes");
      }
    }
    return nullptr;
  }

  heddle_status_t* load_entry(const heddle_entry_params_t& in, Executable* executable) {
    Entry& entry = executable->entries.back();
    entry.api = device_->api;
    entry.device = device_;
    int number = 0;
    bool exact = false;
    entry.starts_early = parse_target(sdk::view_of(params_.target), &number, &exact) && number >= 90;
    entry.name = std::string(sdk::view_of(in.name));
    entry.binding_count = in.binding_count;
    entry.constants_bytes = in.constants_bytes;
    if (heddle_status_t* bad = check_numbers(in)) return bad;
    std::copy_n(in.workgroup_size, 3, entry.block);
    entry.shared_bytes = static_cast<uint32_t>(in.shared_memory_bytes);
    if (heddle_status_t* bad = lay_out(in, &entry)) return bad;
    const Api& cuda = device_->cuda;
    CUresult result = cuda.cuModuleGetFunction(&entry.function, executable->module, entry.name.c_str());
    if (result == CUDA_ERROR_NOT_FOUND) {
      return entry_failed(HEDDLE_STATUS_NOT_FOUND, "its code has no `.visible .entry` of that name");
    }
    if (result != CUDA_SUCCESS) return device_->failed(result, "looking up a kernel");
    if (heddle_status_t* bad = check_layout(&entry)) return bad;
    return check_resources(in, entry);
  }

  heddle_status_t* check_numbers(const heddle_entry_params_t& in) {
    const Facts& facts = device_->facts();
    auto above = [&](const char* what, uint64_t value, uint64_t most) {
      return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                          std::string(what) + " " + std::to_string(value) + " is more than this device's " + std::to_string(most));
    };
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
    if (in.shared_memory_bytes > static_cast<uint64_t>(facts.shared_optin_bytes)) {
      return above("its shared memory of bytes", in.shared_memory_bytes, static_cast<uint64_t>(facts.shared_optin_bytes));
    }
    if (in.subgroup_size != 0 && in.subgroup_size != static_cast<uint32_t>(facts.warp)) {
      return entry_failed(HEDDLE_STATUS_FAILED_PRECONDITION, "it is for subgroups of " + std::to_string(in.subgroup_size) + " threads");
    }
    return nullptr;
  }

  // The location of each argument.
  heddle_status_t* lay_out(const heddle_entry_params_t& in, Entry* entry) {
    entry->plain = in.argument_count == 0;
    uint64_t end = uint64_t{8} * in.binding_count + in.constants_bytes;
    if (!entry->plain) {
      end = 0;
      for (uint32_t i = 0; i < in.argument_count; ++i) {
        Argument argument;
        if (heddle_status_t* bad = read_argument(in, in.arguments[i], i, &argument)) return bad;
        const uint64_t alignment = argument.kind == HEDDLE_ARGUMENT_TENSOR_MAP ? 64 : argument.size_bytes;
        end = (end + alignment - 1) / alignment * alignment;
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

  heddle_status_t* read_argument(const heddle_entry_params_t& in, const heddle_argument_t& argument, uint32_t index, Argument* out) {
    auto bad = [&](const std::string& why) {
      return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "argument " + std::to_string(index) + " of its recipe: " + why);
    };
    *out = {argument.kind, argument.index, argument.size_bytes, 0, {}};
    switch (argument.kind) {
      case HEDDLE_ARGUMENT_BINDING:
        if (argument.index >= in.binding_count) return bad("there is no binding " + std::to_string(argument.index));
        out->size_bytes = 8;
        return nullptr;
      case HEDDLE_ARGUMENT_CONSTANT:
        if (argument.size_bytes != 1 && argument.size_bytes != 2 && argument.size_bytes != 4 && argument.size_bytes != 8) {
          return bad("a constant of " + std::to_string(argument.size_bytes) + " bytes");
        }
        if (uint64_t{argument.index} + argument.size_bytes > in.constants_bytes) return bad("its constant ends after the constants");
        return nullptr;
      case HEDDLE_ARGUMENT_TENSOR_MAP: {
        if (device_->facts().capability < 90) return bad("tensor maps need compute capability 9.0");
        if (argument.index >= in.binding_count) return bad("there is no binding " + std::to_string(argument.index));
        if (argument.payload_bytes != sizeof(heddle_tensor_map_t) || !argument.payload) {
          return bad("a payload of " + std::to_string(argument.payload_bytes) + " bytes is not a heddle_tensor_map_t");
        }
        std::memcpy(&out->map, argument.payload, sizeof out->map);
        out->size_bytes = kTensorMapBytes;
        if (const char* why = check_tensor_map(out->map, in.constants_bytes)) return bad(why);
        return nullptr;
      }
      default:
        return bad("its kind " + std::to_string(argument.kind) + " is unknown");
    }
  }

  // Compares with the code's own layout, if the driver reports it. The driver chooses the location of a tensor map: it aligns the address, not the
  // offset among the arguments.
  heddle_status_t* check_layout(Entry* entry) {
    const Api& cuda = device_->cuda;
    if (!cuda.cuFuncGetParamInfo) return nullptr;
    const size_t count = entry->plain ? entry->binding_count + entry->constants_bytes / 8 : entry->arguments.size();
    size_t end = 0;
    for (size_t i = 0; i <= count; ++i) {
      size_t at = 0, size = 0;
      const CUresult result = cuda.cuFuncGetParamInfo(entry->function, i, &at, &size);
      if ((result == CUDA_SUCCESS) != (i < count)) {
        return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its code takes " + std::string(i < count ? "fewer" : "more") + " than " +
                                                                std::to_string(count) + " arguments");
      }
      if (i == count) break;
      const size_t wanted = entry->plain ? 8 : entry->arguments[i].size_bytes;
      if (size != wanted || (entry->plain && at != i * 8) || at < end || at > kMaxArgumentsBytes - size) {
        return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "argument " + std::to_string(i) + " of its code has " + std::to_string(size) +
                                                                " bytes at " + std::to_string(at) + ", but should have " +
                                                                std::to_string(wanted) + " after byte " + std::to_string(end));
      }
      if (!entry->plain) entry->arguments[i].at = static_cast<uint32_t>(at);
      end = at + size;
    }
    entry->arguments_bytes = static_cast<uint32_t>(end);
    return nullptr;
  }

  heddle_status_t* check_resources(const heddle_entry_params_t& in, const Entry& entry) {
    const Api& cuda = device_->cuda;
    int fixed = 0, threads = 0;
    CUresult result = cuda.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, entry.function);
    if (result == CUDA_SUCCESS) result = cuda.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, entry.function);
    if (result != CUDA_SUCCESS) return device_->failed(result, "reading a kernel's resources");
    const uint64_t all = static_cast<uint64_t>(fixed) + entry.shared_bytes,
                   most = static_cast<uint64_t>(device_->facts().shared_optin_bytes);
    if (all > most) {
      return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                          std::to_string(all) + " bytes of shared memory are more than this device's " + std::to_string(most));
    }
    const uint64_t wanted = uint64_t{in.workgroup_size[0]} * in.workgroup_size[1] * in.workgroup_size[2];
    if (wanted > static_cast<uint64_t>(threads)) {
      return entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a workgroup of " + std::to_string(wanted) + " threads is more than the " +
                                                              std::to_string(threads) + " that its registers allow");
    }
    int allowed = 0;  // another entry may use the same symbol
    result = cuda.cuFuncGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, entry.function);
    if (result != CUDA_SUCCESS) return device_->failed(result, "reading a kernel's resources");
    if (all > static_cast<uint64_t>(device_->facts().shared_bytes) && static_cast<int>(entry.shared_bytes) > allowed) {
      result =
          cuda.cuFuncSetAttribute(entry.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(entry.shared_bytes));
      if (result != CUDA_SUCCESS) return device_->failed(result, "raising a kernel's shared memory");
    }
    return nullptr;
  }

  std::string_view name() const { return sdk::view_of(params_.name); }
  heddle_status_t* failed(heddle_status_code_t code, const std::string& why) {
    return status(device_->host, code, "cuda: loading executable '%.*s' failed: %s [HD-C-01]", shown(name()), name().data(), why.c_str());
  }
  heddle_status_t* entry_failed(heddle_status_code_t code, const std::string& why) {
    const auto* at = reinterpret_cast<const heddle_entry_params_t*>(reinterpret_cast<const char*>(params_.entries) +
                                                                    uint64_t{index_} * params_.entry_stride);
    const std::string_view symbol = sdk::view_of(at->name);
    return status(device_->host, code, "cuda: loading entry %u ('%.*s') of executable '%.*s' failed: %s [HD-C-01]", index_, shown(symbol),
                  symbol.data(), shown(name()), name().data(), why.c_str());
  }

  Device* device_;
  const heddle_executable_params_t& params_;
  uint32_t index_ = 0;
};

void unload(Executable* executable) noexcept {
  ContextScope scope(executable->device);
  if (executable->module) executable->device->cuda.cuModuleUnload(executable->module);
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
                    "cuda: loading executable '%.*s' failed: code '%.*s' for '%.*s' does not run on this device (%s, compute capability "
                    "%d.%d); choose a variant by its rank [HD-C-01]",
                    shown(name), name.data(), shown(format), format.data(), shown(target), target.data(), device->facts().name.c_str(),
                    device->facts().capability / 10, device->facts().capability % 10);
    }
    if (!params.code || params.code_bytes == 0 || params.entry_count > kMaxEntries ||
        (params.entry_count != 0 && (!params.entries || params.entry_stride < sizeof(uint32_t)))) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "cuda: loading executable '%.*s' failed: %llu bytes of code%s, %u entries at a stride of %llu bytes", shown(name),
                    name.data(), number(params.code_bytes), params.code ? "" : " (null)", params.entry_count, number(params.entry_stride));
    }
    ContextScope scope(device);
    if (heddle_status_t* lost = device->loss()) return lost;
    auto* executable = sdk::make<Executable>(device->host);
    executable->api = device->api;
    executable->device = device;
    heddle_status_t* bad;
    try {
      bad = Loader(device, params).load(executable);
    } catch (...) {
      unload(executable);
      sdk::unmake(device->host, executable);
      throw;
    }
    if (bad) {
      unload(executable);
      sdk::unmake(device->host, executable);
      return bad;
    }
    device->live.executables.fetch_add(1);
    *out = executable->handle();
    return nullptr;
  });
}

void executable_unload(heddle_executable_t* handle) noexcept {
  if (!handle) return;
  Executable* executable = Executable::from(handle);
  Device* device = executable->device;
  sdk::guarded_release(device->host, [&] {
    unload(executable);
    sdk::unmake(device->host, executable);
    device->live.executables.fetch_sub(1);
  });
}

heddle_status_t* executable_entry(heddle_executable_t* handle, uint32_t index, heddle_entry_t** out) noexcept {
  *out = nullptr;
  Executable* executable = Executable::from(handle);
  const heddle_host_t* host = executable->device->host;
  if (index >= executable->entries.size()) {
    return guarded(host, "looking up an entry", [&] {
      return status(host, HEDDLE_STATUS_NOT_FOUND, "cuda: looking up entry %u failed: the executable has %zu", index,
                    executable->entries.size());
    });
  }
  *out = executable->entries[index].handle();
  return nullptr;
}

}  // namespace heddle::cuda
