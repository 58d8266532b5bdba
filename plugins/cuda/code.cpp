// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of the formats "ptx/1" and "cubin/1". CUDA loads only those kernels onto the device whose functions are requested (CUDA_MODULE_LOADING), and
// so only those that the host lists.
#include <algorithm>
#include <charconv>

#include "cuda/backend.h"
#include "cuda/cubin.h"
#include "cuda/tensor_map.h"
#include "heddle/sdk/futex.h"

namespace heddle::cuda {

using stream::Argument;
using stream::Entry;
using stream::kMaxArgumentsBytes;
using stream::Loading;

namespace {

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

// The driver keeps the result of translating PTX in its own cache. If loading takes this long, it was not in the cache.
void note_translation(const Loading& loading, uint64_t took_ns) {
  if (took_ns < kLongTranslationNs) return;
  log_line(loading.device, HEDDLE_LOG_INFO, "code.cpp",
           "the driver took %.0f ms to translate %llu bytes of PTX of executable '%.*s'; it keeps the result if CUDA_CACHE_PATH "
           "(~/.nv/ComputeCache) can be written; heddle compile --ptxas puts machine code in the file",
           static_cast<double>(took_ns) * 1e-6, sdk::number(loading.params.code_bytes), stream::shown(loading.name()),
           loading.name().data());
}

// Compares with the code's own layout, if the driver reports it. The driver chooses the location of a tensor map: it aligns the address, not the
// offset among the arguments.
heddle_status_t* check_layout(const Loading& loading, const Api& cuda, Entry* entry) {
  if (!cuda.cuFuncGetParamInfo) return nullptr;
  const size_t count = entry->plain ? entry->binding_count + entry->constants_bytes / 8 : entry->arguments.size();
  size_t end = 0;
  for (size_t i = 0; i <= count; ++i) {
    size_t at = 0, size = 0;
    const CUresult result = cuda.cuFuncGetParamInfo(cu(entry->function), i, &at, &size);
    if ((result == CUDA_SUCCESS) != (i < count)) {
      return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its code takes " + std::string(i < count ? "fewer" : "more") + " than " +
                                                                      std::to_string(count) + " arguments");
    }
    if (i == count) break;
    const size_t wanted = entry->plain ? 8 : entry->arguments[i].size_bytes;
    if (size != wanted || (entry->plain && at != i * 8) || at < end || at > kMaxArgumentsBytes - size) {
      return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "argument " + std::to_string(i) + " of its code has " +
                                                                      std::to_string(size) + " bytes at " + std::to_string(at) +
                                                                      ", but should have " + std::to_string(wanted) + " after byte " +
                                                                      std::to_string(end));
    }
    if (!entry->plain) entry->arguments[i].at = static_cast<uint32_t>(at);
    end = at + size;
  }
  entry->arguments_bytes = static_cast<uint32_t>(end);
  return nullptr;
}

heddle_status_t* check_resources(const Loading& loading, const Backend& backend, const heddle_entry_params_t& in, const Entry& entry) {
  const Api& cuda = backend.cuda;
  const CUfunction function = cu(entry.function);
  int fixed = 0, threads = 0;
  CUresult result = cuda.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  if (result == CUDA_SUCCESS) result = cuda.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  if (result != CUDA_SUCCESS) return loading.device->failed(result, "reading a kernel's resources");
  const uint64_t all = static_cast<uint64_t>(fixed) + entry.shared_bytes, most = static_cast<uint64_t>(backend.facts.shared_bytes);
  if (all > most) {
    return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                                std::to_string(all) + " bytes of shared memory are more than this device's " + std::to_string(most));
  }
  const uint64_t wanted = uint64_t{in.workgroup_size[0]} * in.workgroup_size[1] * in.workgroup_size[2];
  if (wanted > static_cast<uint64_t>(threads)) {
    return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "a workgroup of " + std::to_string(wanted) + " threads is more than the " +
                                                                    std::to_string(threads) + " that its registers allow");
  }
  int allowed = 0;  // another entry may use the same symbol
  result = cuda.cuFuncGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
  if (result != CUDA_SUCCESS) return loading.device->failed(result, "reading a kernel's resources");
  if (all > static_cast<uint64_t>(backend.facts.plain_shared_bytes) && static_cast<int>(entry.shared_bytes) > allowed) {
    result = cuda.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(entry.shared_bytes));
    if (result != CUDA_SUCCESS) return loading.device->failed(result, "raising a kernel's shared memory");
  }
  return nullptr;
}

}  // namespace

// Closer targets rank higher, an exact one ('a') highest, and machine code ranks above text for the same target.
uint32_t Backend::rank(std::string_view format, std::string_view target) const noexcept {
  const bool cubin = format == HEDDLE_CODE_CUBIN;
  if (!cubin && format != HEDDLE_CODE_PTX) return 0;
  const int here = facts.capability;
  int wanted = 0;
  bool exact = false;
  if (!parse_target(target, &wanted, &exact) || wanted > here || (exact && wanted != here)) return 0;
  if (cubin && wanted / 10 != here / 10) return 0;
  return static_cast<uint32_t>(wanted) * 4 + (exact ? 2 : 0) + (cubin ? 1 : 0);
}

heddle_status_t* Backend::load_module(Loading& loading, stream::Module* out) {
  const heddle_executable_params_t& params = loading.params;
  // The text need not end in a NUL, but CUDA requires one.
  std::string text;
  const void* code = params.code;
  if (sdk::view_of(params.format) == HEDDLE_CODE_PTX) {
    text.assign(static_cast<const char*>(params.code), params.code_bytes);
    if (const size_t end = text.find('\0'); end != std::string::npos && end + 1 != text.size()) {
      return loading.failed(HEDDLE_STATUS_INVALID_ARGUMENT,
                            "its PTX has a NUL at byte " + std::to_string(end) + " of " + std::to_string(text.size()));
    }
    code = text.c_str();
  } else {
    std::string reason;
    const heddle_status_code_t checked = check_cubin(params.code, params.code_bytes, &reason);
    if (checked != HEDDLE_STATUS_OK) return loading.failed(checked, reason);
  }
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  const uint64_t began_ns = sdk::monotonic_ns();
  CUmodule module = nullptr;
  CUresult result = cuda.cuModuleLoadDataEx(&module, code, 2, options, values);
  if (result == CUDA_SUCCESS) {
    *out = reinterpret_cast<stream::Module>(module);
    if (!text.empty()) note_translation(loading, sdk::monotonic_ns() - began_ns);
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
  if (loading.device->ends_context(result)) return loading.device->failed(result, "loading code");
  return loading.failed(result, why.empty() ? "CUDA refuses" : why.substr(0, 900));
}

void Backend::unload_module(stream::Module module) noexcept {
  cuda.cuModuleUnload(cu(module));
}

heddle_status_t* Backend::load_entry(Loading& loading, stream::Module module, const heddle_entry_params_t& params, Entry* entry) {
  // Code for older targets has no griddepcontrol.wait, whatever its flags say.
  int number = 0;
  bool exact = false;
  entry->starts_early = parse_target(sdk::view_of(loading.params.target), &number, &exact) && number >= 90;
  CUfunction function = nullptr;
  const CUresult result = cuda.cuModuleGetFunction(&function, cu(module), entry->name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    return loading.entry_failed(HEDDLE_STATUS_NOT_FOUND, "its code has no `.visible .entry` of that name");
  }
  if (result != CUDA_SUCCESS) return loading.device->failed(result, "looking up a kernel");
  entry->function = reinterpret_cast<stream::Function>(function);
  if (heddle_status_t* bad = check_layout(loading, cuda, entry)) return bad;
  return check_resources(loading, *this, params, *entry);
}

heddle_status_t* Backend::load_argument(Loading& loading, const heddle_entry_params_t& params, uint32_t index, Argument* out) {
  const heddle_argument_t& argument = params.arguments[index];
  if (argument.kind != HEDDLE_ARGUMENT_TENSOR_MAP) return stream::Backend::load_argument(loading, params, index, out);
  if (facts.capability < 90) return loading.argument_failed(index, "tensor maps need compute capability 9.0");
  if (argument.index >= params.binding_count) {
    return loading.argument_failed(index, "there is no binding " + std::to_string(argument.index));
  }
  if (argument.payload_bytes != sizeof(heddle_tensor_map_t) || !argument.payload) {
    return loading.argument_failed(index, "a payload of " + std::to_string(argument.payload_bytes) + " bytes is not a heddle_tensor_map_t");
  }
  heddle_tensor_map_t map;
  std::memcpy(&map, argument.payload, sizeof map);
  if (const char* why = check_tensor_map(map, params.constants_bytes)) return loading.argument_failed(index, why);
  out->size_bytes = kTensorMapBytes;
  out->alignment = 64;
  out->special = std::make_shared<TensorMap>(cuda, map);
  return nullptr;
}

}  // namespace heddle::cuda
