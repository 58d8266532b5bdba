// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens libze_loader.so.1, which finds the drivers itself. The table is shared by all hosts of the process and has no state of any of them (HD-E-06).
#include "level_zero/api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include "level_zero/errors.h"

namespace heddle::level_zero {
namespace {

constexpr const char* kLoader = "libze_loader.so.1";
constexpr const char* kInstall =
    "; install Level Zero's loader (Debian: libze1) and Intel's driver for your GPU (libze-intel-gpu1; in older releases "
    "intel-level-zero-gpu)";

stream::Found refused(uint32_t verdict, std::string reason) {
  stream::Found found;
  found.verdict = verdict;
  found.reason = std::move(reason);
  return found;
}

// NULL, or the name of a function that the loader lacks.
const char* look_up(void* library, Api* api) {
#define X(name)                                                             \
  api->name = reinterpret_cast<decltype(api->name)>(dlsym(library, #name)); \
  if (!api->name) return #name;
  HEDDLE_LEVEL_ZERO_FUNCTIONS(X)
#undef X
#define X(name) api->name = reinterpret_cast<decltype(api->name)>(dlsym(library, #name));
  HEDDLE_LEVEL_ZERO_LATER_FUNCTIONS(X)
#undef X
  return nullptr;
}

std::string version_of(const Api& api) {
  uint32_t count = 1;
  ze_driver_handle_t driver = nullptr;
  ze_api_version_t version = {};
  if (api.zeDriverGet(&count, &driver) != ZE_RESULT_SUCCESS || !driver) return "";
  if (api.zeDriverGetApiVersion(driver, &version) != ZE_RESULT_SUCCESS) return "";
  return "Level Zero " + std::to_string(ZE_MAJOR_VERSION(version)) + "." + std::to_string(ZE_MINOR_VERSION(version));
}

stream::Found open(Api* api) {
  // It stays open: drivers start threads.
  void* library = dlopen(kLoader, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* said = dlerror();
    return refused(HEDDLE_PROBE_MISSING_DEPENDENCY,
                   std::string(kLoader) + " cannot be opened (" + (said ? said : "unknown") + ")" + kInstall);
  }
  if (const char* name = look_up(library, api)) {
    return refused(HEDDLE_PROBE_INCOMPATIBLE,
                   std::string(kLoader) + " lacks " + name + "; install version 1.2 or newer of Level Zero's loader");
  }
  const ze_result_t started = api->zeInit(ZE_INIT_FLAG_GPU_ONLY);
  if (started != ZE_RESULT_SUCCESS) {
    const char* name = name_of(started);
    const std::string said = std::string("zeInit returned ") + (name ? name : "an unknown result");
    switch (started) {
      case ZE_RESULT_ERROR_UNINITIALIZED:
        return refused(HEDDLE_PROBE_NO_DEVICE, said +
                                                   ": no driver for a GPU was found; install Intel's (libze-intel-gpu1; in older "
                                                   "releases intel-level-zero-gpu), and check that this user may "
                                                   "open /dev/dri/renderD*");
      case ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS:
        return refused(HEDDLE_PROBE_NO_PERMISSION, said + "; check that this user may open /dev/dri/renderD* (group render)");
      case ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE:
        return refused(HEDDLE_PROBE_MISSING_DEPENDENCY, said + ": a library of the driver is missing" + kInstall);
      case ZE_RESULT_ERROR_UNSUPPORTED_VERSION:
        return refused(HEDDLE_PROBE_INCOMPATIBLE, said + ": loader and driver do not fit; install both from one release");
      default:
        return refused(HEDDLE_PROBE_NO_DEVICE, said + "; check sycl-ls, ZE_AFFINITY_MASK and the kernel's log");
    }
  }
  stream::Found found;
  found.verdict = HEDDLE_PROBE_AVAILABLE;
  found.version = version_of(*api);
  return found;
}

// FLAT and COMBINED show sub-devices as devices. Without the variable, the driver's default holds.
bool wants_sub_devices() {
  const char* hierarchy = std::getenv("ZE_FLAT_DEVICE_HIERARCHY");
  const std::string_view wanted = hierarchy ? hierarchy : "";
  return wanted == "FLAT" || wanted == "COMBINED";
}

// Appends what `get`, a function of the API that is first asked for the number, gives.
template <typename Handle, typename Get>
ze_result_t all_of(const Get& get, std::vector<Handle>* out) {
  uint32_t count = 0;
  if (const ze_result_t bad = get(&count, nullptr)) return bad;
  out->resize(count);
  const ze_result_t result = count ? get(&count, out->data()) : ZE_RESULT_SUCCESS;
  out->resize(count);
  return result;
}

ze_result_t add_devices(const Api& api, ze_driver_handle_t driver, std::vector<Place>* out) {
  std::vector<ze_device_handle_t> devices;
  const auto roots = [&](uint32_t* count, ze_device_handle_t* handles) { return api.zeDeviceGet(driver, count, handles); };
  if (const ze_result_t bad = all_of(roots, &devices)) return bad;
  for (ze_device_handle_t device : devices) {
    auto properties = structure<ze_device_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
    if (const ze_result_t bad = api.zeDeviceGetProperties(device, &properties)) return bad;
    if (properties.type != ZE_DEVICE_TYPE_GPU) continue;
    std::vector<ze_device_handle_t> parts;
    const auto tiles = [&](uint32_t* count, ze_device_handle_t* handles) { return api.zeDeviceGetSubDevices(device, count, handles); };
    if (wants_sub_devices()) {
      if (const ze_result_t bad = all_of(tiles, &parts)) return bad;
    }
    if (parts.empty()) parts.push_back(device);
    for (ze_device_handle_t part : parts) out->push_back({driver, part});
  }
  return ZE_RESULT_SUCCESS;
}

}  // namespace

stream::Found open_loader(const Api** out) {
  struct Opened {
    std::mutex mutex;
    Api api;
    stream::Found found;
  };
  static Opened& opened = *new Opened;  // never destroyed (HD-L-02)
  std::lock_guard<std::mutex> lock(opened.mutex);
  // After a failure the next call tries again: a driver may have been installed meanwhile.
  if (opened.found.verdict != HEDDLE_PROBE_AVAILABLE) opened.found = open(&opened.api);
  *out = &opened.api;
  return opened.found;
}

ze_driver_handle_t own_handle(const Api& api, ze_driver_handle_t driver) noexcept {
  void* own = nullptr;
  if (!api.zelLoaderTranslateHandle || api.zelLoaderTranslateHandle(ZEL_HANDLE_DRIVER, driver, &own) != ZE_RESULT_SUCCESS) return nullptr;
  return static_cast<ze_driver_handle_t>(own);
}

ze_result_t list_devices(const Api& api, std::vector<Place>* out) {
  std::vector<ze_driver_handle_t> drivers;
  if (const ze_result_t bad =
          all_of([&](uint32_t* count, ze_driver_handle_t* handles) { return api.zeDriverGet(count, handles); }, &drivers))
    return bad;
  for (ze_driver_handle_t driver : drivers) {
    if (const ze_result_t bad = add_devices(api, driver, out)) return bad;
  }
  return ZE_RESULT_SUCCESS;
}

}  // namespace heddle::level_zero
