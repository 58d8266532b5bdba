// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One device of the stand-in through Intel's loader, for tests: every call is checked.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <level_zero/ze_api.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/level_zero/hooks.h"

namespace heddle::level_zero_stand_in {

inline void must(ze_result_t result, const char* what) {
  if (result == ZE_RESULT_SUCCESS) return;
  char text[32];
  snprintf(text, sizeof text, "%#x", static_cast<unsigned>(result));
  throw std::runtime_error(std::string(what) + " gave " + text);
}
#define MUST(call) must(call, #call)

// A hook of the library that the loader has loaded.
template <class Function>
Function* hook(const char* name) {
  static void* const library = dlopen(getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_NOLOAD);
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("the stand-in has no ") + name);
  return reinterpret_cast<Function*>(found);
}

inline std::vector<ze_device_handle_t> all_devices(ze_driver_handle_t* out_driver = nullptr) {
  MUST(zeInit(0));
  uint32_t count = 1;
  ze_driver_handle_t driver = nullptr;
  MUST(zeDriverGet(&count, &driver));
  if (out_driver != nullptr) *out_driver = driver;
  count = 0;
  MUST(zeDeviceGet(driver, &count, nullptr));
  std::vector<ze_device_handle_t> devices(count);
  if (count > 0) MUST(zeDeviceGet(driver, &count, devices.data()));
  return devices;
}

class Session {
 public:
  explicit Session(size_t ordinal = 0) {
    device = all_devices(&driver).at(ordinal);
    const ze_context_desc_t desc = {ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
    MUST(zeContextCreate(driver, &desc, &context));
  }
  ~Session() {
    for (ze_kernel_handle_t one : kernels_) zeKernelDestroy(one);
    if (module_ != nullptr) zeModuleDestroy(module_);
    for (ze_event_handle_t one : events_) zeEventDestroy(one);
    for (ze_event_pool_handle_t one : pools_) zeEventPoolDestroy(one);
    for (ze_command_list_handle_t one : lists_) zeCommandListDestroy(one);
    for (ze_command_queue_handle_t one : queues_) zeCommandQueueDestroy(one);
    for (void* one : memory_) zeMemFree(context, one);
    zeContextDestroy(context);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  float* device_memory(size_t count, size_t alignment = 0) {
    const ze_device_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
    void* result = nullptr;
    MUST(zeMemAllocDevice(context, &desc, count * sizeof(float), alignment, device, &result));
    memory_.push_back(result);
    return static_cast<float*>(result);
  }
  float* host_memory(size_t count) {
    const ze_host_mem_alloc_desc_t desc = {ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
    void* result = nullptr;
    MUST(zeMemAllocHost(context, &desc, count * sizeof(float), 0, &result));
    memory_.push_back(result);
    return static_cast<float*>(result);
  }
  void forget(void* memory) { std::erase(memory_, memory); }

  ze_event_handle_t event(ze_event_pool_flags_t flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE) {
    const ze_event_pool_desc_t pool_desc = {ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, flags, 1};
    ze_event_pool_handle_t pool = nullptr;
    MUST(zeEventPoolCreate(context, &pool_desc, 0, nullptr, &pool));
    pools_.push_back(pool);
    const ze_event_desc_t desc = {ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 0, ZE_EVENT_SCOPE_FLAG_HOST, ZE_EVENT_SCOPE_FLAG_HOST};
    ze_event_handle_t result = nullptr;
    MUST(zeEventCreate(pool, &desc, &result));
    events_.push_back(result);
    return result;
  }
  void forget_event(ze_event_handle_t event) { std::erase(events_, event); }

  ze_command_list_handle_t immediate(ze_command_queue_mode_t mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS, uint32_t ordinal = 0) {
    const ze_command_queue_desc_t desc = {ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, ordinal, 0, 0, mode,
                                          ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_list_handle_t result = nullptr;
    MUST(zeCommandListCreateImmediate(context, device, &desc, &result));
    lists_.push_back(result);
    return result;
  }
  ze_command_queue_handle_t queue(uint32_t ordinal = 0) {
    const ze_command_queue_desc_t desc = {ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, ordinal, 0, 0, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                          ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_queue_handle_t result = nullptr;
    MUST(zeCommandQueueCreate(context, device, &desc, &result));
    queues_.push_back(result);
    return result;
  }
  ze_command_list_handle_t list(uint32_t ordinal = 0) {
    const ze_command_list_desc_t desc = {ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, ordinal, 0};
    ze_command_list_handle_t result = nullptr;
    MUST(zeCommandListCreate(context, device, &desc, &result));
    lists_.push_back(result);
    return result;
  }

  static std::vector<uint8_t> kernels_file(const char* variable = "HEDDLE_ZE_KERNELS") {
    const char* path = getenv(variable);
    std::ifstream file(path == nullptr ? "" : path, std::ios::binary);
    if (!file) throw std::runtime_error(std::string("set ") + variable + " to the file of the tests' kernels");
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  }
  // What building the module gives; its log in *log.
  ze_result_t build(const std::vector<uint8_t>& code, std::string* log, const char* flags = "",
                    const ze_module_constants_t* constants = nullptr) {
    const ze_module_desc_t desc = {
        ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_IL_SPIRV, code.size(), code.data(), flags, constants};
    ze_module_build_log_handle_t build_log = nullptr;
    if (module_ != nullptr) zeModuleDestroy(module_);
    module_ = nullptr;
    const ze_result_t result = zeModuleCreate(context, device, &desc, &module_, &build_log);
    if (build_log != nullptr) {
      size_t size = 0;
      MUST(zeModuleBuildLogGetString(build_log, &size, nullptr));
      log->resize(size);
      MUST(zeModuleBuildLogGetString(build_log, &size, log->data()));
      log->resize(size - 1);
      MUST(zeModuleBuildLogDestroy(build_log));
    }
    return result;
  }
  ze_module_handle_t module() {
    if (module_ == nullptr) {
      std::string log;
      must(build(kernels_file(), &log), ("zeModuleCreate: " + log).c_str());
    }
    return module_;
  }
  ze_kernel_handle_t kernel(const char* name, uint32_t threads = 64) {
    const ze_kernel_desc_t desc = {ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name};
    ze_kernel_handle_t result = nullptr;
    MUST(zeKernelCreate(module(), &desc, &result));
    kernels_.push_back(result);
    MUST(zeKernelSetGroupSize(result, threads, 1, 1));
    return result;
  }

  ze_driver_handle_t driver = nullptr;
  ze_device_handle_t device = nullptr;
  ze_context_handle_t context = nullptr;

 private:
  ze_module_handle_t module_ = nullptr;
  std::vector<ze_kernel_handle_t> kernels_;
  std::vector<void*> memory_;
  std::vector<ze_event_handle_t> events_;
  std::vector<ze_event_pool_handle_t> pools_;
  std::vector<ze_command_list_handle_t> lists_;
  std::vector<ze_command_queue_handle_t> queues_;
};

inline void set(ze_kernel_handle_t kernel, uint32_t index, const void* pointer) {
  MUST(zeKernelSetArgumentValue(kernel, index, sizeof pointer, &pointer));
}
inline void set(ze_kernel_handle_t kernel, uint32_t index, float value) {
  MUST(zeKernelSetArgumentValue(kernel, index, sizeof value, &value));
}

}  // namespace heddle::level_zero_stand_in
