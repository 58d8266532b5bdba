// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules and kernels.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "tests/level_zero/dot_products.h"
#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace heddle::level_zero_stand_in {

namespace {

// Level Zero's options as OpenCL's; empty with a text in *log if one is not known.
bool read_flags(const char* flags, std::string* out, std::string* log) {
  std::istringstream words(flags == nullptr ? "" : flags);
  std::string word;
  while (words >> word) {
    if (word == "-ze-opt-disable") {
      *out += " -cl-opt-disable";
    } else if (word == "-ze-opt-level=1" || word == "-ze-opt-level=2" || word == "-ze-opt-level=0" ||
               word == "-ze-opt-greater-than-4GB-buffer-required" || word == "-ze-opt-large-register-file" ||
               word == "-ze-opt-has-buffer-offset-arg" || word == "-cl-fp32-correctly-rounded-divide-sqrt") {
      continue;  // the last one: CPUs divide so anyway, and not every OpenCL runtime takes the flag
    } else {
      *log = "unknown build flag '" + word + "'";
      return false;
    }
  }
  return true;
}

uint32_t threads_of(const uint32_t (&group)[3]) {
  return group[0] * group[1] * group[2];
}

}  // namespace

}  // namespace heddle::level_zero_stand_in

ze_result_t zeModuleCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice, const ze_module_desc_t* desc,
                           ze_module_handle_t* phModule, ze_module_build_log_handle_t* phBuildLog) {
  Device* device = nullptr;
  {
    const Lock lock(state().mutex);
    device = object_of<Device>(hDevice);
    if (object_of<Context>(hContext) == nullptr || device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (device->root->lost) return state().loss;
  }
  std::string log, flags;
  ze_result_t result = ZE_RESULT_SUCCESS;
  std::shared_ptr<Program> program;
  if (desc->format != ZE_MODULE_FORMAT_IL_SPIRV) {
    result = ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
    log = "native binaries are not supported; only SPIR-V is";
  } else if (desc->inputSize == 0) {
    result = ZE_RESULT_ERROR_INVALID_SIZE;
  } else if (desc->inputSize % sizeof(uint32_t) != 0) {
    result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    log = "the module has " + std::to_string(desc->inputSize) + " bytes, which is no multiple of 4";
  } else if (!read_flags(desc->pBuildFlags, &flags, &log)) {
    result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  } else {
    std::vector<uint32_t> words(desc->inputSize / sizeof(uint32_t));
    memcpy(words.data(), desc->pInputModule, desc->inputSize);
    if (desc->pConstants != nullptr) {
      std::map<uint32_t, const void*> values;
      for (uint32_t i = 0; i < desc->pConstants->numConstants; ++i)
        values[desc->pConstants->pConstantIds[i]] = desc->pConstants->pConstantValues[i];
      log = specialize(&words, values);
    }
    if (log.empty() && !settings().dots && has_dot_products(words)) log = "the module needs DotProduct, which the device does not have";
    if (log.empty()) program = Program::build(std::move(words), flags, &log);
    if (program == nullptr) result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
  }
  const Lock lock(state().mutex);
  if (phBuildLog != nullptr) {
    auto* build_log = new BuildLog();
    build_log->text = log;
    *phBuildLog = reinterpret_cast<ze_module_build_log_handle_t>(static_cast<Object*>(build_log));
  }
  if (result != ZE_RESULT_SUCCESS) return result;
  auto* module = new Module();
  module->device = device;
  module->program = std::move(program);
  *phModule = reinterpret_cast<ze_module_handle_t>(static_cast<Object*>(module));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleDestroy(ze_module_handle_t hModule) {
  const Lock lock(state().mutex);
  auto* module = object_of<Module>(hModule);
  if (module == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (module->kernels != 0)
    broken_rule(module->device, "a module is destroyed before " + std::to_string(module->kernels) + " of its kernels");
  module->destroyed = true;
  if (module->kernels == 0) module->program = nullptr;  // a launch that still runs has a share of it
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t hModuleBuildLog) {
  const Lock lock(state().mutex);
  auto* log = object_of<BuildLog>(hModuleBuildLog);
  if (log == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  log->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t hModuleBuildLog, size_t* pSize, char* pBuildLog) {
  const Lock lock(state().mutex);
  auto* log = object_of<BuildLog>(hModuleBuildLog);
  if (log == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const size_t needed = log->text.size() + 1;
  if (pBuildLog != nullptr && *pSize > 0) {
    const size_t bytes = std::min(*pSize, needed);
    memcpy(pBuildLog, log->text.c_str(), bytes);
    pBuildLog[bytes - 1] = 0;
  }
  *pSize = needed;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleGetKernelNames(ze_module_handle_t hModule, uint32_t* pCount, const char** pNames) {
  const Lock lock(state().mutex);
  auto* module = object_of<Module>(hModule);
  if (module == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto& kernels = module->program->kernels();
  if (*pCount == 0 || *pCount > kernels.size()) *pCount = static_cast<uint32_t>(kernels.size());
  if (pNames != nullptr) {
    for (uint32_t i = 0; i < *pCount; ++i) pNames[i] = kernels[i].name.c_str();
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleGetProperties(ze_module_handle_t, ze_module_properties_t* pModuleProperties) {
  pModuleProperties->flags = 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeModuleDynamicLink(uint32_t, ze_module_handle_t*, ze_module_build_log_handle_t* phLinkLog) {
  if (phLinkLog != nullptr) {
    const Lock lock(state().mutex);
    *phLinkLog = reinterpret_cast<ze_module_build_log_handle_t>(static_cast<Object*>(new BuildLog()));
  }
  return ZE_RESULT_SUCCESS;  // nothing is imported
}

ze_result_t zeKernelCreate(ze_module_handle_t hModule, const ze_kernel_desc_t* desc, ze_kernel_handle_t* phKernel) {
  const Lock lock(state().mutex);
  auto* module = object_of<Module>(hModule);
  if (module == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const auto& kernels = module->program->kernels();
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const KernelInfo& one) { return one.name == desc->pKernelName; });
  if (found == kernels.end()) return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
  auto* kernel = new Kernel();
  kernel->module = module;
  kernel->info = &*found;
  kernel->arguments.resize(found->arguments.size());
  ++module->kernels;
  *phKernel = reinterpret_cast<ze_kernel_handle_t>(static_cast<Object*>(kernel));
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelDestroy(ze_kernel_handle_t hKernel) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (is_in_use(*kernel))
    broken_rule(kernel->module->device, "the kernel '" + kernel->info->name + "' is destroyed before its launches have ended");
  --kernel->module->kernels;
  kernel->destroyed = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t hKernel, uint32_t argIndex, size_t argSize, const void* pArgValue) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (argIndex >= kernel->arguments.size()) return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
  const ArgumentInfo& info = kernel->info->arguments[argIndex];
  ArgumentValue value;
  value.is_set = true;
  switch (info.kind) {
    case ArgumentInfo::kLocal:
      if (pArgValue != nullptr || argSize == 0) return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
      value.local_bytes = argSize;
      break;
    case ArgumentInfo::kGlobal:
      if (argSize != sizeof(void*)) return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
      value.bytes.resize(argSize);
      if (pArgValue != nullptr) memcpy(value.bytes.data(), pArgValue, argSize);
      break;
    case ArgumentInfo::kValue:
    case ArgumentInfo::kUnknown:
      if (pArgValue == nullptr || (info.size != 0 && argSize != info.size)) return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
      value.bytes.resize(argSize);
      memcpy(value.bytes.data(), pArgValue, argSize);
      break;
  }
  kernel->arguments[argIndex] = std::move(value);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t hKernel, uint32_t groupSizeX, uint32_t groupSizeY, uint32_t groupSizeZ) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const uint32_t group[3] = {groupSizeX, groupSizeY, groupSizeZ};
  const uint64_t most = std::min<uint64_t>(1024, executor_facts().most_threads);
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (group[i] == 0 || group[i] > most) return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
    const uint32_t required = kernel->info->required_group[i];
    if (required != 0 && group[i] != required) return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
    threads *= group[i];
  }
  if (threads > most) return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
  std::copy_n(group, 3, kernel->group);
  kernel->has_group = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelSuggestGroupSize(ze_kernel_handle_t hKernel, uint32_t globalSizeX, uint32_t globalSizeY, uint32_t globalSizeZ,
                                     uint32_t* groupSizeX, uint32_t* groupSizeY, uint32_t* groupSizeZ) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr || globalSizeY == 0 || globalSizeZ == 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  uint32_t group[3] = {1, 1, 1};
  if (threads_of(kernel->info->required_group) != 0) {
    std::copy_n(kernel->info->required_group, 3, group);
  } else {
    while (group[0] < 256 && globalSizeX % (group[0] * 2) == 0 && globalSizeX != 0) group[0] *= 2;
  }
  *groupSizeX = group[0];
  *groupSizeY = group[1];
  *groupSizeZ = group[2];
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelSetIndirectAccess(ze_kernel_handle_t hKernel, ze_kernel_indirect_access_flags_t flags) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  kernel->indirect = flags;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelGetIndirectAccess(ze_kernel_handle_t hKernel, ze_kernel_indirect_access_flags_t* pFlags) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *pFlags = kernel->indirect;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelGetProperties(ze_kernel_handle_t hKernel, ze_kernel_properties_t* p) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const KernelInfo& info = *kernel->info;
  p->numKernelArgs = static_cast<uint32_t>(info.arguments.size());
  p->requiredGroupSizeX = info.required_group[0];
  p->requiredGroupSizeY = info.required_group[1];
  p->requiredGroupSizeZ = info.required_group[2];
  p->requiredNumSubGroups = 0;
  p->requiredSubgroupSize = info.required_subgroup;
  p->maxSubgroupSize = info.required_subgroup != 0 ? info.required_subgroup : 32;
  p->maxNumSubgroups = 1024 / p->maxSubgroupSize;
  p->localMemSize = static_cast<uint32_t>(std::min<uint64_t>(info.local_bytes, UINT32_MAX));
  p->privateMemSize = 0;
  p->spillMemSize = 0;
  memset(&p->uuid, 0, sizeof p->uuid);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeKernelGetName(ze_kernel_handle_t hKernel, size_t* pSize, char* pName) {
  const Lock lock(state().mutex);
  auto* kernel = object_of<Kernel>(hKernel);
  if (kernel == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const size_t needed = kernel->info->name.size() + 1;
  if (pName != nullptr && *pSize > 0) {
    const size_t bytes = std::min(*pSize, needed);
    memcpy(pName, kernel->info->name.c_str(), bytes);
    pName[bytes - 1] = 0;
  }
  *pSize = needed;
  return ZE_RESULT_SUCCESS;
}

// A hint.
ze_result_t zeKernelSetCacheConfig(ze_kernel_handle_t, ze_cache_config_flags_t) {
  return ZE_RESULT_SUCCESS;
}
