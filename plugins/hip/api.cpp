// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens libamdhip64.so. One table serves all hosts of the process (HD-E-06).
#include "hip/api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <mutex>

namespace heddle::hip {
namespace {

using sdk::stream::Found;

constexpr int kMajors[] = {7, 6, 5};                  // whose layouts are known, newest first
constexpr const char* kPlainName = "libamdhip64.so";  // in wheels of PyTorch, whose library has no major in its name
constexpr const char* kInstall = "install AMD's driver and ROCm 5.2 or newer, and let the loader find its libraries (ldconfig)";

// Where the members of hipDeviceProp_t are. The first is that of hipGetDeviceProperties up to HIP 5, the second that of hipGetDevicePropertiesR0600.
struct Layout {
  size_t architecture, memory, shared, wave, max_threads, block, grid, compute_units;
};
constexpr Layout kLayout5 = {396, 256, 264, 276, 280, 284, 296, 336};
constexpr Layout kLayout6 = {1160, 288, 296, 308, 320, 324, 336, 388};
constexpr size_t kPropertiesBytes = 8192;  // more than any version writes: 792 and 1,472 bytes

std::string name_of(int major) {
  return std::string(kPlainName) + "." + std::to_string(major);
}

// The table of one library. False: it cannot be used, for this reason.
bool read_table(void* library, const std::string& name, Api* api, std::string* reason) {
  bool is_whole = true;
  auto find = [&](const char* function) {
    void* found = dlsym(library, function);
    if (!found && is_whole) *reason = name + " lacks " + function;
    is_whole &= found != nullptr;
    return found;
  };
#define X(function, parameters) api->function = reinterpret_cast<decltype(api->function)>(find(#function));
  HEDDLE_HIP_TEXTS(X)
  HEDDLE_HIP_FUNCTIONS(X)
  if (!is_whole) return false;
  int version = 0;  // 50221153: 5.2.21153
  const int bad = api->hipRuntimeGetVersion(&version), major = version / 10000000;
  const bool is_known = std::find(std::begin(kMajors), std::end(kMajors), major) != std::end(kMajors);
  if (bad != kOk || !is_known || (name != kPlainName && name != name_of(major))) {
    *reason = name + " says that it is of version " + std::to_string(version) + " (result " + std::to_string(bad) + ")";
    return false;
  }
  api->get_properties =
      reinterpret_cast<decltype(api->get_properties)>(find(major < 6 ? "hipGetDeviceProperties" : "hipGetDevicePropertiesR0600"));
  if (!is_whole) return false;
  api->major = major;
  api->version = std::to_string(major) + "." + std::to_string(version / 100000 % 100) + "." + std::to_string(version % 100000);
  std::string ignored;
  reason = &ignored;
  HEDDLE_HIP_POOL_FUNCTIONS(X)
  api->has_pools = is_whole;
  is_whole = true;
  HEDDLE_HIP_GRAPH_FUNCTIONS(X)
  api->has_graphs = is_whole;
  HEDDLE_HIP_OTHER_FUNCTIONS(X)
#undef X
  return true;
}

// A library that the process has opened, or else the one of the newest major that can be used. It stays open, because of the threads that it starts.
// The handles that an application passes are those of the library that it has opened, and another major would misread them.
uint32_t open_library(Api* api, std::string* reason) {
  std::string seen;
  std::vector<std::string> names = {kPlainName}, rest;
  for (int major : kMajors) names.push_back(name_of(major));
  auto can_use = [&](void* library, const std::string& name) {
    *api = Api();
    std::string why;
    if (read_table(library, name, api, &why)) return true;
    seen += (seen.empty() ? "" : "; ") + why;
    return false;
  };
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
      if (can_use(library, name)) {
        api->was_open = true;
        return HEDDLE_PROBE_AVAILABLE;
      }
    } else if (name != kPlainName) {
      rest.push_back(name);
    }
  }
  for (const std::string& name : rest) {
    dlerror();
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (can_use(library, name)) return HEDDLE_PROBE_AVAILABLE;
    } else if (const char* said = dlerror()) {
      // One that exists and misses another library says so; the others only that they do not exist.
      const std::string text = said;
      if (text.find(name + ": cannot open shared object") == std::string::npos) seen += (seen.empty() ? "" : "; ") + text;
    }
  }
  *reason = (seen.empty() ? "there is no libamdhip64.so.7, .6 or .5" : seen) + "; " + kInstall;
  return seen.empty() ? HEDDLE_PROBE_MISSING_DEPENDENCY : HEDDLE_PROBE_INCOMPATIBLE;
}

uint32_t start(const Api& api, std::string* reason) {
  const int started = api.hipInit(0);
  if (started == kOk) return HEDDLE_PROBE_AVAILABLE;
  const char *name = api.hipGetErrorName(started), *text = api.hipGetErrorString(started);
  *reason = "hipInit returned " + std::string(name ? name : "an unknown error") + " (" + (text ? text : "no text") + ")";
  if (access("/dev/kfd", R_OK | W_OK) != 0) {
    const bool is_absent = errno == ENOENT;
    *reason += is_absent ? "; there is no /dev/kfd: load the kernel module amdgpu, and show the device to a container"
                         : "; this user may not open /dev/kfd: join the groups render and video";
    return is_absent ? HEDDLE_PROBE_NO_DEVICE : HEDDLE_PROBE_NO_PERMISSION;
  }
  *reason += "; check what rocminfo lists, and what HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide";
  return started == kInsufficientDriver ? HEDDLE_PROBE_INCOMPATIBLE : HEDDLE_PROBE_NO_DEVICE;
}

}  // namespace

int Api::read_properties(int device, Properties* out) const {
  std::vector<char> bytes(kPropertiesBytes);
  if (const int bad = get_properties(bytes.data(), device)) return bad;
  const Layout& layout = major < 6 ? kLayout5 : kLayout6;
  auto read = [&](size_t at, auto* value) { std::memcpy(value, bytes.data() + at, sizeof *value); };
  auto text = [&](size_t at) { return std::string(bytes.data() + at, strnlen(bytes.data() + at, 256)); };
  out->name = text(0);
  out->architecture = text(layout.architecture);
  read(layout.memory, &out->memory_bytes);
  read(layout.shared, &out->shared_bytes);
  read(layout.wave, &out->wave_size);
  read(layout.max_threads, &out->max_threads);
  read(layout.compute_units, &out->compute_units);
  read(layout.block, &out->block);
  read(layout.grid, &out->grid);
  return kOk;
}

Found load_api(const Api** out) {
  struct Once {
    Api api;
    Found found;
  };
  static std::mutex mutex;
  static Once* once = new Once;  // never destroyed (HD-L-02); each call after a failure tries again
  std::lock_guard<std::mutex> lock(mutex);
  Found& found = once->found;
  if (found.verdict != HEDDLE_PROBE_AVAILABLE) {
    found = Found();
    if (once->api.major == 0) found.verdict = open_library(&once->api, &found.reason);
    if (once->api.major != 0) {
      found.version = "HIP " + once->api.version;
      found.verdict = start(once->api, &found.reason);
    }
  }
  if (out) *out = &once->api;
  return found;
}

}  // namespace heddle::hip
