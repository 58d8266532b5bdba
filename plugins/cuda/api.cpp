// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens libcuda.so.1. The table is shared by all hosts in the process and holds no state of any of them (HD-E-06).
#include "cuda/api.h"

#include <dlfcn.h>

#include <mutex>

namespace heddle::cuda {
namespace {

struct Loaded {
  Api api;
  sdk::stream::Found found;
};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

uint32_t load(Api* api, std::string* reason) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays open, because of the threads that it started
  if (!library) {
    const char* why = dlerror();
    *reason = "libcuda.so.1 cannot be opened (" + std::string(why ? why : "unknown") + "); install the NVIDIA driver, 525 or newer";
    return HEDDLE_PROBE_MISSING_DEPENDENCY;
  }
  auto version = reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
  if (!version || version(&api->driver_version) != CUDA_SUCCESS) {
    *reason = "libcuda.so.1 does not report its version; install the NVIDIA driver, 525 or newer";
    return HEDDLE_PROBE_INCOMPATIBLE;
  }
  if (api->driver_version < kOldestDriver) {
    *reason = "the NVIDIA driver supports CUDA " + version_text(api->driver_version) + ", but " + version_text(kOldestDriver) +
              " is needed; install driver 525 or newer";
    return HEDDLE_PROBE_INCOMPATIBLE;
  }
  using Lookup = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  auto lookup = reinterpret_cast<Lookup>(dlsym(library, "cuGetProcAddress_v2"));
  auto find = [&](const char* name, int at_version) -> void* {
    void* found = nullptr;
    CUdriverProcAddressQueryResult ignored;
    if (!lookup || lookup(name, &found, at_version, CU_GET_PROC_ADDRESS_DEFAULT, &ignored) != CUDA_SUCCESS) return nullptr;
    return found;
  };
#define X(name)                                                                        \
  api->name = reinterpret_cast<decltype(api->name)>(find(#name, kOldestDriver));       \
  if (!api->name) {                                                                    \
    *reason = "libcuda.so.1 lacks " #name "; install the NVIDIA driver, 525 or newer"; \
    return HEDDLE_PROBE_INCOMPATIBLE;                                                  \
  }
  HEDDLE_CUDA_FUNCTIONS(X)
#undef X
#define X(name) api->name = reinterpret_cast<decltype(api->name)>(find(#name, api->driver_version));
  HEDDLE_CUDA_LATER_FUNCTIONS(X)
#undef X
  if (api->driver_version < 13000) api->cuGraphAddDependencies = nullptr;
  const CUresult started = api->cuInit(0);
  if (started == CUDA_SUCCESS) return HEDDLE_PROBE_AVAILABLE;
  const char *name = nullptr, *text = nullptr;
  api->cuGetErrorName(started, &name);
  api->cuGetErrorString(started, &text);
  *reason = "cuInit returned " + std::string(name ? name : "an unknown error") + " (" + (text ? text : "no text") + ")";
  switch (started) {
    case CUDA_ERROR_NO_DEVICE:
      *reason += "; check that nvidia-smi lists a GPU and what CUDA_VISIBLE_DEVICES hides";
      return HEDDLE_PROBE_NO_DEVICE;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      *reason += "; libcuda and the kernel module differ: restart after the driver's update";
      return HEDDLE_PROBE_INCOMPATIBLE;
    case CUDA_ERROR_OPERATING_SYSTEM:
      *reason += "; check that this user may open /dev/nvidia*";
      return HEDDLE_PROBE_NO_PERMISSION;
    default:
      *reason += "; check nvidia-smi";
      return HEDDLE_PROBE_NO_DEVICE;
  }
}

}  // namespace

sdk::stream::Found load_api(const Api** out) {
  static std::mutex mutex;
  static Loaded* loaded = nullptr;  // never destroyed (HD-L-02); after a failure the next call tries again
  std::lock_guard<std::mutex> lock(mutex);
  if (!loaded || loaded->found.verdict != HEDDLE_PROBE_AVAILABLE) {
    delete loaded;
    loaded = new Loaded;
    loaded->found.verdict = load(&loaded->api, &loaded->found.reason);
    if (loaded->api.driver_version) loaded->found.version = "CUDA " + version_text(loaded->api.driver_version);
  }
  *out = &loaded->api;
  return loaded->found;
}

}  // namespace heddle::cuda
