// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C functions of runtime.h. They check arguments for NULL, convert them into the core's types, and let no exception pass.
// No other part of the core knows the runtime's heddle_*_t handles.
#include <new>
#include <string>

#include "core/host/host.h"
#include "core/memory/tensor.h"
#include "core/open/module.h"
#include "core/submit/call.h"
#include "core/submit/function.h"
#include "core/submit/instance.h"
#include "core/submit/memory_needs.h"
#include "core/submit/runtime.h"
#include "heddle/runtime.h"
#include "sdk/module/element_types.h"

using heddle::Result;
using heddle::Status;
using heddle::to_c;
using heddle::view;
using heddle::memory::Device;
using heddle::memory::Ref;
using heddle::memory::Tensor;
using heddle::submit::Call;
using heddle::submit::Function;
using heddle::submit::Instance;
using heddle::submit::State;

struct heddle_text {
  std::string text;
};
struct heddle_runtime {
  std::shared_ptr<heddle::submit::Runtime> runtime;
};
struct heddle_module {
  std::shared_ptr<heddle::submit::Runtime> runtime;
  std::shared_ptr<const heddle::open::OpenModule> module;
};

namespace {

Instance* of(heddle_instance_t* instance) {
  return reinterpret_cast<Instance*>(instance);
}
Function* of(heddle_function_t* function) {
  return reinterpret_cast<Function*>(function);
}
const Function* of(const heddle_function_t* function) {
  return reinterpret_cast<const Function*>(function);
}
Device* of(heddle_runtime_device_t* device) {
  return reinterpret_cast<Device*>(device);
}
heddle_runtime_device_t* handle(Device& device) {
  return reinterpret_cast<heddle_runtime_device_t*>(&device);
}
Tensor* of(heddle_tensor_t* tensor) {
  return reinterpret_cast<Tensor*>(tensor);
}
const Tensor* of(const heddle_tensor_t* tensor) {
  return reinterpret_cast<const Tensor*>(tensor);
}
State* of(heddle_state_t* state) {
  return reinterpret_cast<State*>(state);
}
Call* of(heddle_call_t* call) {
  return reinterpret_cast<Call*>(call);
}
// An array of handles is an array of the objects' addresses.
std::span<Tensor* const> tensors(heddle_tensor_t* const* list, uint32_t count) {
  return {reinterpret_cast<Tensor* const*>(list), count};
}
std::span<Tensor*> tensors(heddle_tensor_t** list, uint32_t count) {
  return {reinterpret_cast<Tensor**>(list), count};
}

// Converts the current exception of a function's catch block.
[[gnu::cold]] heddle_status_t* caught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return heddle::status_create(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "heddle: the host is out of memory");
  } catch (const std::exception& failure) {
    return heddle::status_create(HEDDLE_STATUS_INTERNAL, failure.what());
  } catch (...) {
    return heddle::status_create(HEDDLE_STATUS_INTERNAL, "heddle: an unknown exception");
  }
}

[[gnu::cold]] heddle_status_t* missing(const char* function, const char* argument) {
  return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: {} failed: {} is NULL", function, argument).release();
}

heddle_status_t* give_text(Result<std::string>&& text, heddle_text_t** out_json) {
  if (!text.ok()) return text.take_status().release();
  *out_json = new heddle_text{std::move(*text)};
  return nullptr;
}

// An older and shorter struct of the caller, or a newer one with an unknown end that must be zero (HD-E-04).
[[gnu::cold]] Status read_other_size(const void* given, size_t given_size, void* out, size_t size, const char* name) {
  if (given_size < sizeof(uint32_t)) {
    return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: {}.struct_size is {}; set it to sizeof(the struct) [HD-E-04]", name,
                         given_size);
  }
  const auto* bytes = static_cast<const unsigned char*>(given);
  for (size_t i = size; i < given_size; ++i) {
    if (bytes[i] != 0) {
      return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT,
                           "heddle: {} has a value at byte {}, which this library (0.{}) does not know [HD-E-04]", name, i,
                           HEDDLE_ABI_MINOR);
    }
  }
  std::memcpy(out, given, std::min(given_size, size));
  return Status();
}

[[gnu::cold]] Status unknown_bits(const char* name, const char* member, uint32_t bits) {
  return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT,
                       "heddle: {}.{} has bits {:#x}, which this library (0.{}) does not know; set them to 0 [HD-E-04]", name, member, bits,
                       HEDDLE_ABI_MINOR);
}

// flags: those that the struct may have.
template <typename T>
Status read_params(const T* given, T* out, const char* name, uint32_t flags = 0) {
  *out = T{};
  if (!given) return Status();
  if (given->struct_size == sizeof(T)) [[likely]] {
    *out = *given;
  } else {
    HEDDLE_RETURN_IF_ERROR(read_other_size(given, given->struct_size, out, sizeof(T), name));
  }
  if constexpr (requires { out->flags; }) {
    if ((out->flags & ~flags) != 0) [[unlikely]]
      return unknown_bits(name, "flags", out->flags & ~flags);
  }
  if constexpr (requires { out->reserved; }) {
    if (out->reserved != 0) [[unlikely]]
      return unknown_bits(name, "reserved", out->reserved);
  }
  return Status();
}

[[gnu::cold]] void add_files(const heddle_parameter_file_t* files, uint32_t count, bool over,
                             std::vector<heddle::open::ParameterFiles::Named>& out) {
  for (uint32_t i = 0; i < count; ++i) out.push_back({std::string(view(files[i].scope)), std::string(view(files[i].path)), over});
}

constexpr uint32_t kInstanceFlags =
    HEDDLE_INSTANCE_PROFILE | HEDDLE_INSTANCE_ROUTE_ONLY | HEDDLE_INSTANCE_IN_BACKGROUND | HEDDLE_INSTANCE_CHECK_HASHES;

// Runs once per instance, so optimized for size.
[[gnu::cold]] heddle::submit::InstanceRequest request_of(const heddle_instance_params_t& params) {
  heddle::submit::InstanceRequest request;
  request.profiles = (params.flags & HEDDLE_INSTANCE_PROFILE) != 0;
  request.route_only = (params.flags & HEDDLE_INSTANCE_ROUTE_ONLY) != 0;
  request.in_background = (params.flags & HEDDLE_INSTANCE_IN_BACKGROUND) != 0;
  request.check_hashes = (params.flags & HEDDLE_INSTANCE_CHECK_HASHES) != 0;
  for (uint32_t i = 0; i < params.slot_count; ++i) {
    request.slots.emplace_back(std::string(view(params.slots[i].slot)), std::string(view(params.slots[i].device)));
  }
  add_files(params.parameter_files, params.parameter_file_count, false, request.parameter_files);
  add_files(params.overlays, params.overlay_count, true, request.parameter_files);
  return request;
}

// A struct for the caller, whose struct_size may be smaller or larger.
template <typename T>
heddle_status_t* write_struct(T&& full, T* out, const char* name) {
  const uint32_t size = out->struct_size;
  if (size < sizeof(uint32_t)) {
    return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: {}.struct_size is {}; set it to sizeof(the struct) [HD-E-04]", name, size)
        .release();
  }
  full.struct_size = size;
  std::memcpy(static_cast<void*>(out), &full, std::min<size_t>(size, sizeof(full)));
  return nullptr;
}

heddle_status_t* give_type(const Function* function, const heddle::open::TensorSignature& type, heddle_tensor_type_t* out_type) {
  const heddle::open::Signature& signature = function->signature();
  heddle_tensor_type_t full{};
  full.element_type = type.element_type;
  full.name = to_c(type.name);
  full.rank = static_cast<uint32_t>(type.extents.size());
  for (size_t i = 0; i < type.extents.size(); ++i) {
    const heddle::open::Extent& extent = type.extents[i];
    full.dims[i] = extent.symbol >= 0 ? -1 : extent.value;
    if (extent.symbol >= 0) full.symbols[i] = to_c(signature.symbols[static_cast<size_t>(extent.symbol)].name);
  }
  if (type.is_consumed) full.flags |= HEDDLE_TENSOR_TYPE_CONSUMED;
  if (type.alias >= 0) {
    full.flags |= HEDDLE_TENSOR_TYPE_ALIASED;
    full.alias = static_cast<uint32_t>(type.alias);
  }
  full.device = handle(function->device_of(type));
  return write_struct(std::move(full), out_type, "out_type");
}

heddle_status_t* out_of_range(const Function* function, const char* what, uint32_t index, size_t count) {
  return heddle::error(HEDDLE_STATUS_OUT_OF_RANGE, "heddle: asking for {} {} of '{}' failed: it has {}", what, index,
                       function->signature().name, count)
      .release();
}

Status check_tensor(heddle_element_type_t type, const int64_t* dims, uint32_t rank, uint64_t size_bytes) {
  if (rank > HEDDLE_MAX_RANK || !heddle::module::element_type_exists(type)) {
    return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT,
                         "heddle: making a tensor of rank {} and element type {:#x} failed: ranks are up to {}, "
                         "types are HEDDLE_TYPE_*",
                         rank, type, HEDDLE_MAX_RANK);
  }
  std::optional<uint64_t> expected = heddle::module::tensor_bytes(HEDDLE_TYPE_BITS(type), {dims, rank});
  if (expected && *expected == size_bytes) return Status();
  return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: making a tensor of {} failed: it has {} bytes, got {}",
                       heddle::module::shape_text(type, {dims, rank}), expected ? std::to_string(*expected) : std::string("too many"),
                       size_bytes);
}

heddle_status_t* make_tensor(const char* caller, Device& device, heddle_element_type_t type, const int64_t* dims, uint32_t rank,
                             const void* bytes, uint64_t size_bytes, heddle_tensor_t** out_tensor) {
  if (!dims && rank != 0) return missing(caller, "dims");
  if (Status bad = check_tensor(type, dims, rank, size_bytes); !bad.ok()) return bad.release();
  Result<Ref<Tensor>> tensor = Tensor::create(device, type, {dims, rank}, size_bytes);
  if (!tensor.ok()) return tensor.take_status().release();
  if (bytes) {
    if (Status written = (*tensor)->write(bytes, size_bytes); !written.ok()) return written.release();
  }
  *out_tensor = reinterpret_cast<heddle_tensor_t*>(tensor->detach());
  return nullptr;
}

// Over memory of the application. device: NULL: that of the argument or result `index` of the function. owner: which of both the caller was to give.
[[gnu::cold]] heddle_status_t* import_tensor(const char* caller, const char* owner, Device* device, const Function* function,
                                             uint32_t index, heddle_element_type_t type, const int64_t* dims, uint32_t rank,
                                             const heddle_device_memory_t* given, heddle_tensor_t** out_tensor) {
  if (out_tensor) *out_tensor = nullptr;
  if (!given) return missing(caller, out_tensor ? "memory" : "out_tensor");
  struct Memory : heddle_device_memory_t {
    ~Memory() {
      if (release) release(context);
    }
  } memory{};
  if (Status status = read_params<heddle_device_memory_t>(given, &memory, "heddle_device_memory_t",
                                                          HEDDLE_DEVICE_MEMORY_RESULT | HEDDLE_DEVICE_MEMORY_CONSUMABLE);
      !status.ok())
    return status.release();
  if (!device && !function) return missing(caller, owner);
  if (!out_tensor || (!dims && rank != 0)) return missing(caller, out_tensor ? "dims" : "out_tensor");
  if (!device) {
    const bool is_result = (memory.flags & HEDDLE_DEVICE_MEMORY_RESULT) != 0;
    const auto& types = is_result ? function->signature().results : function->signature().arguments;
    if (index >= types.size()) return out_of_range(function, is_result ? "result" : "argument", index, types.size());
    device = &function->device_of(types[index]);
  } else if (memory.flags != 0) {
    return heddle::error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: {} failed: memory.flags is {}, set it to 0", caller, memory.flags)
        .release();
  }
  if (Status bad = check_tensor(type, dims, rank, memory.size_bytes); !bad.ok()) return bad.release();
  Result<Ref<Tensor>> tensor =
      Tensor::create_over(*device, type, {dims, rank}, memory.size_bytes, memory.address, std::exchange(memory.release, nullptr),
                          memory.context, (memory.flags & HEDDLE_DEVICE_MEMORY_CONSUMABLE) != 0);
  if (!tensor.ok()) return tensor.take_status().release();
  *out_tensor = reinterpret_cast<heddle_tensor_t*>(tensor->detach());
  return nullptr;
}

}  // namespace

extern "C" {

heddle_string_t heddle_text_view(const heddle_text_t* text) {
  return text ? to_c(text->text) : heddle_string_t{"", 0};
}
void heddle_text_free(heddle_text_t* text) {
  delete text;
}

// ------------------------------------------------------------------------------------------------------------ runtime

heddle_status_t* heddle_runtime_create(const heddle_runtime_params_t* given, heddle_runtime_t** out_runtime) try {
  if (!out_runtime) return missing("heddle_runtime_create", "out_runtime");
  *out_runtime = nullptr;
  heddle_runtime_params_t params;
  if (Status status = read_params(given, &params, "heddle_runtime_params_t", HEDDLE_RUNTIME_NO_CONFIG); !status.ok())
    return status.release();
  heddle::host::HostOptions options;
  options.no_config = (params.flags & HEDDLE_RUNTIME_NO_CONFIG) != 0;
  options.config_path = view(params.config_path);
  options.config_text = view(params.config_text);
  options.log = {params.log, params.log_context};
  for (uint32_t i = 0; i < params.plugin_path_count; ++i) options.plugin_paths.emplace_back(view(params.plugin_paths[i]));
  Result<std::unique_ptr<heddle::host::Host>> host = heddle::host::Host::open(options);
  if (!host.ok()) return host.take_status().release();
  auto runtime = std::make_shared<heddle::submit::Runtime>(std::shared_ptr<heddle::host::Host>(std::move(*host)));
  *out_runtime = new heddle_runtime{std::move(runtime)};
  return nullptr;
} catch (...) {
  return caught();
}

void heddle_runtime_release(heddle_runtime_t* runtime) {
  delete runtime;
}

heddle_status_t* heddle_runtime_report(heddle_runtime_t* runtime, heddle_string_t topic, heddle_text_t** out_json) try {
  if (!runtime || !out_json) return missing("heddle_runtime_report", runtime ? "out_json" : "runtime");
  *out_json = nullptr;
  return give_text(runtime->runtime->host->report(view(topic)), out_json);
} catch (...) {
  return caught();
}

// ------------------------------------------------------------------------------------------------------------- device

[[gnu::cold]] heddle_status_t* heddle_runtime_device(heddle_runtime_t* runtime, heddle_string_t name,
                                                     heddle_runtime_device_t** out_device) try {
  if (!runtime || !out_device) return missing("heddle_runtime_device", runtime ? "out_device" : "runtime");
  *out_device = nullptr;
  Result<heddle::host::DeviceInfo> info = runtime->runtime->host->device(view(name));
  if (!info.ok()) return info.take_status().release();
  Result<Ref<Device>> device = runtime->runtime->devices.open(*info);
  if (!device.ok()) return device.take_status().release();
  *out_device = handle(*device->detach());
  return nullptr;
} catch (...) {
  return caught();
}

heddle_runtime_device_t* heddle_runtime_device_retain(heddle_runtime_device_t* device) {
  if (device) of(device)->retain();
  return device;
}

void heddle_runtime_device_release(heddle_runtime_device_t* device) {
  if (device) of(device)->release();
}

[[gnu::cold]] heddle_status_t* heddle_runtime_device_describe(heddle_runtime_device_t* device,
                                                              heddle_runtime_device_properties_t* out_properties) try {
  if (!device || !out_properties) return missing("heddle_runtime_device_describe", device ? "out_properties" : "device");
  const heddle_device_description_t& description = of(device)->description();
  return write_struct({0, description.ordinal, to_c(of(device)->alias()), to_c(of(device)->driver_id()), description.family,
                       std::max<uint64_t>(description.min_alignment_bytes, 1)},
                      out_properties, "out_properties");
} catch (...) {
  return caught();
}

// ------------------------------------------------------------------------------------------------------------- module

heddle_status_t* heddle_module_open(heddle_runtime_t* runtime, heddle_string_t path, const heddle_module_params_t* given,
                                    heddle_module_t** out_module) try {
  if (!runtime || !out_module) return missing("heddle_module_open", runtime ? "out_module" : "runtime");
  *out_module = nullptr;
  heddle_module_params_t params;
  if (Status status = read_params(given, &params, "heddle_module_params_t", HEDDLE_MODULE_NO_HASH); !status.ok()) return status.release();
  Result<std::string> allowed = runtime->runtime->host->module_path(std::string(view(path)));
  if (!allowed.ok()) return allowed.take_status().release();
  Result<std::shared_ptr<const heddle::open::OpenModule>> module = heddle::open::OpenModule::open(*allowed, params.flags);
  if (!module.ok()) return module.take_status().release();
  const heddle::module::Module& file = (*module)->file();
  if (Status status = runtime->runtime->host->check_module(*allowed, file.descriptor(), file.head()); !status.ok()) return status.release();
  *out_module = new heddle_module{runtime->runtime, std::move(*module)};
  return nullptr;
} catch (...) {
  return caught();
}

void heddle_module_release(heddle_module_t* module) {
  delete module;
}

heddle_status_t* heddle_module_report(heddle_module_t* module, heddle_text_t** out_json) try {
  if (!module || !out_json) return missing("heddle_module_report", module ? "out_json" : "module");
  *out_json = nullptr;
  return give_text(module->module->report(), out_json);
} catch (...) {
  return caught();
}

// ----------------------------------------------------------------------------------------------------------- instance

heddle_status_t* heddle_instance_create(heddle_module_t* module, const heddle_instance_params_t* given,
                                        heddle_instance_t** out_instance) try {
  if (!module || !out_instance) return missing("heddle_instance_create", module ? "out_instance" : "module");
  *out_instance = nullptr;
  heddle_instance_params_t params;
  if (Status status = read_params(given, &params, "heddle_instance_params_t", kInstanceFlags); !status.ok()) return status.release();
  heddle::submit::InstanceRequest request = request_of(params);
  Result<Ref<Instance>> instance = Instance::create(module->runtime, module->module, request);
  if (!instance.ok()) return instance.take_status().release();
  *out_instance = reinterpret_cast<heddle_instance_t*>(instance->detach());
  return nullptr;
} catch (...) {
  return caught();
}

void heddle_instance_release(heddle_instance_t* instance) {
  if (instance) Instance::release_handle(of(instance));
}

heddle_status_t* heddle_instance_wait(heddle_instance_t* instance, uint64_t timeout_ns) try {
  if (!instance) return missing("heddle_instance_wait", "instance");
  return of(instance)->wait_until_loaded(timeout_ns).release();
} catch (...) {
  return caught();
}

heddle_status_t* heddle_instance_refit(heddle_instance_t* instance, const heddle_refit_params_t* given) try {
  if (!instance || !given) return missing("heddle_instance_refit", instance ? "params" : "instance");
  heddle_refit_params_t params;
  if (Status status = read_params(given, &params, "heddle_refit_params_t"); !status.ok()) return status.release();
  std::vector<heddle::open::ParameterFiles::Named> files;
  add_files(params.parameter_files, params.parameter_file_count, false, files);
  add_files(params.overlays, params.overlay_count, true, files);
  static_assert(sizeof(std::atomic<bool>) == 1 && std::atomic<bool>::is_always_lock_free);
  return of(instance)->refit(files, reinterpret_cast<const std::atomic<bool>*>(params.cancel)).release();
} catch (...) {
  return caught();
}

heddle_status_t* heddle_state_create(heddle_instance_t* instance, heddle_state_t** out_state) try {
  if (!instance || !out_state) return missing("heddle_state_create", instance ? "out_state" : "instance");
  *out_state = nullptr;
  Result<Ref<State>> state = of(instance)->create_state();
  if (!state.ok()) return state.take_status().release();
  *out_state = reinterpret_cast<heddle_state_t*>(state->detach());
  return nullptr;
} catch (...) {
  return caught();
}

void heddle_state_release(heddle_state_t* state) {
  if (state) of(state)->release();
}

heddle_status_t* heddle_instance_report(heddle_instance_t* instance, heddle_string_t topic, heddle_text_t** out_json) try {
  if (!instance || !out_json) return missing("heddle_instance_report", instance ? "out_json" : "instance");
  *out_json = nullptr;
  if (Status loaded = of(instance)->wait_until_loaded(HEDDLE_TIMEOUT_INFINITE); !loaded.ok()) return loaded.release();
  return give_text(of(instance)->report(view(topic)), out_json);
} catch (...) {
  return caught();
}

[[gnu::cold]] heddle_status_t* heddle_module_memory(heddle_module_t* module, const heddle_memory_params_t* given,
                                                    heddle_text_t** out_json) try {
  if (!module || !out_json) return missing("heddle_module_memory", module ? "out_json" : "module");
  *out_json = nullptr;
  heddle_memory_params_t params;
  if (Status status = read_params(given, &params, "heddle_memory_params_t"); !status.ok()) return status.release();
  heddle::submit::MemoryRequest request;
  if (params.instance) {
    heddle_instance_params_t instance;
    if (Status status = read_params(params.instance, &instance, "heddle_instance_params_t", kInstanceFlags); !status.ok())
      return status.release();
    request.binding = request_of(instance);
  }
  Result<uint32_t> function = module->module->find_function(view(params.function));
  if (!function.ok()) return function.take_status().release();
  request.function = *function;
  const size_t arguments = module->module->signatures()[*function].arguments.size();
  if (params.call_count != 0 && arguments != 0 && !params.shapes) return missing("heddle_module_memory", "shapes");
  request.call_count = params.call_count;
  request.shapes = params.shapes;
  return give_text(heddle::submit::memory_needs(module->runtime, module->module, std::move(request)), out_json);
} catch (...) {
  return caught();
}

heddle_status_t* heddle_instance_function(heddle_instance_t* instance, heddle_string_t name, heddle_function_t** out_function) try {
  if (!instance || !out_function) return missing("heddle_instance_function", instance ? "out_function" : "instance");
  *out_function = nullptr;
  Result<uint32_t> index = of(instance)->module().find_function(view(name));
  if (!index.ok()) return index.take_status().release();
  heddle::submit::Function* function = of(instance)->function(*index);
  if (!function) {
    return heddle::error(
               HEDDLE_STATUS_FAILED_PRECONDITION,
               "heddle: getting function '{}' of an instance failed: it was only routed; create it without HEDDLE_INSTANCE_ROUTE_ONLY",
               view(name))
        .release();
  }
  *out_function = reinterpret_cast<heddle_function_t*>(function);
  return nullptr;
} catch (...) {
  return caught();
}

uint32_t heddle_function_argument_count(const heddle_function_t* function) {
  return function ? static_cast<uint32_t>(of(function)->signature().arguments.size()) : 0;
}

uint32_t heddle_function_result_count(const heddle_function_t* function) {
  return function ? static_cast<uint32_t>(of(function)->signature().results.size()) : 0;
}

heddle_status_t* heddle_function_argument(const heddle_function_t* function, uint32_t index, heddle_tensor_type_t* out_type) try {
  if (!function || !out_type) return missing("heddle_function_argument", function ? "out_type" : "function");
  const auto& types = of(function)->signature().arguments;
  if (index >= types.size()) return out_of_range(of(function), "argument", index, types.size());
  return give_type(of(function), types[index], out_type);
} catch (...) {
  return caught();
}

heddle_status_t* heddle_function_result(const heddle_function_t* function, uint32_t index, heddle_tensor_type_t* out_type) try {
  if (!function || !out_type) return missing("heddle_function_result", function ? "out_type" : "function");
  const auto& types = of(function)->signature().results;
  if (index >= types.size()) return out_of_range(of(function), "result", index, types.size());
  return give_type(of(function), types[index], out_type);
} catch (...) {
  return caught();
}

// ------------------------------------------------------------------------------------------------------------- tensor

heddle_status_t* heddle_tensor_from_host(heddle_function_t* function, uint32_t argument, heddle_element_type_t type, const int64_t* dims,
                                         uint32_t rank, const void* bytes, uint64_t size_bytes, heddle_tensor_t** out_tensor) try {
  if (!function || !out_tensor) return missing("heddle_tensor_from_host", function ? "out_tensor" : "function");
  *out_tensor = nullptr;
  if (!bytes && size_bytes != 0) return missing("heddle_tensor_from_host", "bytes");
  const auto& arguments = of(function)->signature().arguments;
  if (argument >= arguments.size()) return out_of_range(of(function), "argument", argument, arguments.size());
  return make_tensor("heddle_tensor_from_host", of(function)->device_of(arguments[argument]), type, dims, rank, bytes, size_bytes,
                     out_tensor);
} catch (...) {
  return caught();
}

[[gnu::cold]] heddle_status_t* heddle_tensor_create(heddle_runtime_device_t* device, heddle_element_type_t type, const int64_t* dims,
                                                    uint32_t rank, const void* bytes, uint64_t size_bytes,
                                                    heddle_tensor_t** out_tensor) try {
  if (!device || !out_tensor) return missing("heddle_tensor_create", device ? "out_tensor" : "device");
  *out_tensor = nullptr;
  if (!bytes && size_bytes != 0) return missing("heddle_tensor_create", "bytes");
  if (!bytes && (dims || rank == 0) && rank <= HEDDLE_MAX_RANK) {
    size_bytes = heddle::module::tensor_bytes(HEDDLE_TYPE_BITS(type), {dims, rank}).value_or(0);
  }
  return make_tensor("heddle_tensor_create", *of(device), type, dims, rank, bytes, size_bytes, out_tensor);
} catch (...) {
  return caught();
}

heddle_status_t* heddle_tensor_from_device(heddle_function_t* function, uint32_t index, heddle_element_type_t type, const int64_t* dims,
                                           uint32_t rank, const heddle_device_memory_t* memory, heddle_tensor_t** out_tensor) try {
  return import_tensor("heddle_tensor_from_device", "function", nullptr, of(function), index, type, dims, rank, memory, out_tensor);
} catch (...) {
  return caught();
}

heddle_status_t* heddle_tensor_import(heddle_runtime_device_t* device, heddle_element_type_t type, const int64_t* dims, uint32_t rank,
                                      const heddle_device_memory_t* memory, heddle_tensor_t** out_tensor) try {
  return import_tensor("heddle_tensor_import", "device", of(device), nullptr, 0, type, dims, rank, memory, out_tensor);
} catch (...) {
  return caught();
}

heddle_status_t* heddle_tensor_address(heddle_tensor_t* tensor, uint64_t* out_address) try {
  if (!tensor || !out_address) return missing("heddle_tensor_address", tensor ? "out_address" : "tensor");
  *out_address = 0;
  Result<uint64_t> address = of(tensor)->address();
  if (!address.ok()) return address.take_status().release();
  *out_address = *address;
  return nullptr;
} catch (...) {
  return caught();
}

heddle_tensor_t* heddle_tensor_retain(heddle_tensor_t* tensor) {
  if (tensor) of(tensor)->retain();
  return tensor;
}

void heddle_tensor_release(heddle_tensor_t* tensor) {
  if (tensor) of(tensor)->release();
}

heddle_element_type_t heddle_tensor_element_type(const heddle_tensor_t* tensor) {
  return tensor ? of(tensor)->element_type() : HEDDLE_TYPE_UNDEFINED;
}
uint32_t heddle_tensor_rank(const heddle_tensor_t* tensor) {
  return tensor ? of(tensor)->rank() : 0;
}
const int64_t* heddle_tensor_dims(const heddle_tensor_t* tensor) {
  return tensor ? of(tensor)->dims() : nullptr;
}
uint64_t heddle_tensor_size(const heddle_tensor_t* tensor) {
  return tensor ? of(tensor)->size_bytes() : 0;
}

heddle_runtime_device_t* heddle_tensor_device(const heddle_tensor_t* tensor) {
  return tensor ? handle(of(tensor)->device()) : nullptr;
}

[[gnu::cold]] heddle_status_t* heddle_tensor_wait(heddle_tensor_t* tensor, uint64_t timeout_ns) try {
  if (!tensor) return missing("heddle_tensor_wait", "tensor");
  if (Status held = of(tensor)->check_held("waiting for a tensor"); !held.ok()) return held.release();
  Status waited = of(tensor)->wait(timeout_ns);
  if (waited.code() == HEDDLE_STATUS_DEADLINE_EXCEEDED) waited = wrap(std::move(waited), "heddle: waiting for a tensor failed");
  return waited.release();
} catch (...) {
  return caught();
}

heddle_status_t* heddle_tensor_read(heddle_tensor_t* tensor, void* bytes, uint64_t size_bytes) try {
  if (!tensor) return missing("heddle_tensor_read", "tensor");
  if (!bytes && size_bytes != 0) return missing("heddle_tensor_read", "bytes");
  return of(tensor)->read(bytes, size_bytes).release();
} catch (...) {
  return caught();
}

heddle_status_t* heddle_tensor_write(heddle_tensor_t* tensor, const void* bytes, uint64_t size_bytes) try {
  if (!tensor) return missing("heddle_tensor_write", "tensor");
  if (!bytes && size_bytes != 0) return missing("heddle_tensor_write", "bytes");
  return of(tensor)->write(bytes, size_bytes).release();
} catch (...) {
  return caught();
}

[[gnu::cold]] heddle_status_t* heddle_tensor_upload(heddle_tensor_t* tensor, const void* bytes, uint64_t size_bytes,
                                                    void (*release)(void* context), void* context) try {
  if (!tensor || (!bytes && size_bytes != 0)) {
    if (release) release(context);
    return missing("heddle_tensor_upload", tensor ? "bytes" : "tensor");
  }
  return heddle::memory::Upload::start(*of(tensor), {bytes, size_bytes, release, context}).release();
} catch (...) {
  return caught();
}

// --------------------------------------------------------------------------------------------------------------- call

heddle_status_t* heddle_call(heddle_function_t* function, heddle_tensor_t* const* arguments, uint32_t argument_count,
                             heddle_tensor_t** results, uint32_t result_count) try {
  if (!function) return missing("heddle_call", "function");
  if ((!arguments && argument_count != 0) || (!results && result_count != 0)) {
    return missing("heddle_call", results || result_count == 0 ? "arguments" : "results");
  }
  return of(function)->call(tensors(arguments, argument_count), tensors(results, result_count)).release();
} catch (...) {
  return caught();
}

heddle_status_t* heddle_call_start(heddle_function_t* function, const heddle_call_params_t* given, heddle_tensor_t* const* arguments,
                                   uint32_t argument_count, heddle_tensor_t** results, uint32_t result_count,
                                   heddle_call_t** out_call) try {
  if (!function || !out_call) return missing("heddle_call_start", function ? "out_call" : "function");
  *out_call = nullptr;
  if ((!arguments && argument_count != 0) || (!results && result_count != 0)) {
    return missing("heddle_call_start", results || result_count == 0 ? "arguments" : "results");
  }
  heddle_call_params_t params{};
  if (given) {
    if (Status status = read_params(given, &params, "heddle_call_params_t", HEDDLE_CALL_NATIVE_STREAM | HEDDLE_CALL_LATE_CHECKS);
        !status.ok())
      return status.release();
  }
  std::optional<uint64_t> stream;
  if (params.flags & HEDDLE_CALL_NATIVE_STREAM) stream = params.native_stream;
  if (!params.donated_arguments && params.donated_argument_count != 0) return missing("heddle_call_start", "params.donated_arguments");
  Result<heddle::submit::CallPointer> call =
      of(function)->start(tensors(arguments, argument_count), tensors(results, result_count), params.deadline_ns, stream, of(params.state),
                          {params.donated_arguments, params.donated_argument_count}, (params.flags & HEDDLE_CALL_LATE_CHECKS) != 0);
  if (!call.ok()) return call.take_status().release();
  *out_call = reinterpret_cast<heddle_call_t*>(call->release());
  return nullptr;
} catch (...) {
  return caught();
}

heddle_status_t* heddle_call_wait(heddle_call_t* call, uint64_t timeout_ns) try {
  if (!call) return missing("heddle_call_wait", "call");
  return of(call)->wait(timeout_ns).release();
} catch (...) {
  return caught();
}

heddle_status_t* heddle_call_notify(heddle_call_t* call, void (*callback)(void* context), void* context) try {
  if (!call || !callback) return missing("heddle_call_notify", call ? "callback" : "call");
  return of(call)->notify(callback, context).release();
} catch (...) {
  return caught();
}

void heddle_call_cancel(heddle_call_t* call) {
  if (call) of(call)->cancel();
}

void heddle_call_release(heddle_call_t* call) {
  if (call) Call::release_handle(of(call));
}

}  // extern "C"
