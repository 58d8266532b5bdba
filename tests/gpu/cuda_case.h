// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fixture of tests of heddle.cuda on a device, and its kernels. A case without a device is skipped, or fails where HEDDLE_GPU=required; a
// case that hangs ends the program after its time, so that nothing waits for ever.
#ifndef HEDDLE_TESTS_GPU_CUDA_CASE_H_
#define HEDDLE_TESTS_GPU_CUDA_CASE_H_

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heddle/code.h"
#include "parts.h"
#include "plugin_host.h"
#include "ptx.h"

namespace heddle::test {

// The plugin beside this program, in a build and in a pack alike.
inline std::string cuda_plugin() {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path().parent_path() / "lib/heddle/plugins.d/libheddle_cuda.so").string();
}

// Empty, or why no case can run here.
inline const std::string& why_no_cuda() {
  static const std::string why = []() -> std::string {
    if (!std::filesystem::exists(cuda_plugin())) return "libheddle_cuda.so is not built: there was no cuda.h";
    PluginHost host;
    LoadedPlugin plugin(cuda_plugin());
    if (!plugin.get()) return "libheddle_cuda.so does not load";
    heddle_probe_result_t found = {};
    found.struct_size = sizeof found;
    Result probed(plugin->probe(host.table(), &found));
    if (!probed.ok()) return probed.message();
    return found.verdict == HEDDLE_PROBE_AVAILABLE ? "" : std::string(found.reason, found.reason_size);
  }();
  return why;
}

// A few functions of libcuda that tests ask directly, next to the driver.
struct Libcuda {
  int (*cuInit)(unsigned) = nullptr;
  int (*cuDriverGetVersion)(int*) = nullptr;
  int (*cuDeviceGet)(int*, int) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void**, int) = nullptr;
  int (*cuDevicePrimaryCtxRelease)(int) = nullptr;
  int (*cuCtxCreate)(void**, unsigned, int) = nullptr;
  int (*cuCtxDestroy)(void*) = nullptr;
  int (*cuCtxGetCurrent)(void**) = nullptr;
  int (*cuCtxSetCurrent)(void*) = nullptr;
  int (*cuMemGetInfo)(size_t*, size_t*) = nullptr;
  int (*cuMemHostAlloc)(void**, size_t, unsigned) = nullptr;
  int (*cuMemFreeHost)(void*) = nullptr;
  int (*cuMemAlloc)(uint64_t*, size_t) = nullptr;
  int (*cuMemFree)(uint64_t) = nullptr;
  int (*cuMemsetD32Async)(uint64_t, unsigned, size_t, void*) = nullptr;
  int (*cuMemcpyDtoHAsync)(void*, uint64_t, size_t, void*) = nullptr;
  int (*cuStreamCreate)(void**, unsigned) = nullptr;
  int (*cuStreamDestroy)(void*) = nullptr;
  int (*cuStreamSynchronize)(void*) = nullptr;
  int (*cuStreamBeginCapture)(void*, int) = nullptr;
  int (*cuStreamEndCapture)(void*, void**) = nullptr;
  int (*cuGraphDestroy)(void*) = nullptr;
  int (*cuLinkCreate)(unsigned, const int*, void**, void**) = nullptr;
  int (*cuLinkAddData)(void*, int, void*, size_t, const char*, unsigned, const int*, void**) = nullptr;
  int (*cuLinkComplete)(void*, void**, size_t*) = nullptr;
  int (*cuLinkDestroy)(void*) = nullptr;

  Libcuda() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    auto find = [&](auto* out, const char* name) {
      *out = reinterpret_cast<std::remove_pointer_t<decltype(out)>>(dlsym(library, name));
      EXPECT_TRUE(*out) << name;
    };
    find(&cuInit, "cuInit");
    find(&cuDriverGetVersion, "cuDriverGetVersion");
    find(&cuDeviceGet, "cuDeviceGet");
    find(&cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(&cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    find(&cuCtxCreate, "cuCtxCreate_v2");
    find(&cuCtxDestroy, "cuCtxDestroy_v2");
    find(&cuCtxGetCurrent, "cuCtxGetCurrent");
    find(&cuCtxSetCurrent, "cuCtxSetCurrent");
    find(&cuMemGetInfo, "cuMemGetInfo_v2");
    find(&cuMemHostAlloc, "cuMemHostAlloc");
    find(&cuMemFreeHost, "cuMemFreeHost");
    find(&cuMemAlloc, "cuMemAlloc_v2");
    find(&cuMemFree, "cuMemFree_v2");
    find(&cuMemsetD32Async, "cuMemsetD32Async");
    find(&cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
    find(&cuStreamCreate, "cuStreamCreate");
    find(&cuStreamDestroy, "cuStreamDestroy_v2");
    find(&cuStreamSynchronize, "cuStreamSynchronize");
    find(&cuStreamBeginCapture, "cuStreamBeginCapture_v2");
    find(&cuStreamEndCapture, "cuStreamEndCapture");
    find(&cuGraphDestroy, "cuGraphDestroy");
    find(&cuLinkCreate, "cuLinkCreate_v2");
    find(&cuLinkAddData, "cuLinkAddData_v2");
    find(&cuLinkComplete, "cuLinkComplete");
    find(&cuLinkDestroy, "cuLinkDestroy");
    cuInit(0);
  }
};

// What a test says of one kernel.
struct KernelFacts {
  const char* name;
  uint32_t bindings = 0, constants = 0;
  std::vector<uint32_t> workgroup = {1, 1, 1};
  uint64_t shared_bytes = 0;
  std::vector<heddle_argument_t> recipe = {};
};

inline heddle_entry_params_t entry_params(const KernelFacts& facts) {
  heddle_entry_params_t params = {};
  params.struct_size = sizeof params;
  params.binding_count = facts.bindings;
  params.name = string_of(facts.name);
  params.constants_bytes = facts.constants * 8;
  params.argument_count = static_cast<uint32_t>(facts.recipe.size());
  params.arguments = facts.recipe.empty() ? nullptr : facts.recipe.data();
  for (int i = 0; i < 3; ++i) params.workgroup_size[i] = facts.workgroup[static_cast<size_t>(i)];
  params.shared_memory_bytes = facts.shared_bytes;
  return params;
}

// Loads code and gives the driver's answer; what it loaded is in *out.
inline heddle_status_t* load_code(OpenDriver& driver, heddle_device_t* device, const char* format, const char* target, const void* code,
                                  uint64_t code_bytes, const std::vector<KernelFacts>& facts, heddle_executable_t** out) {
  std::vector<heddle_entry_params_t> entries;
  for (const KernelFacts& fact : facts) entries.push_back(entry_params(fact));
  heddle_executable_params_t params = {sizeof params,
                                       static_cast<uint32_t>(entries.size()),
                                       string_of(format),
                                       string_of(target),
                                       code,
                                       code_bytes,
                                       entries.data(),
                                       sizeof(heddle_entry_params_t),
                                       string_of("gpu_test"),
                                       {}};
  *out = nullptr;
  return driver.dispatch_api->executable_load(device, &params, out);
}

// One loaded kernel.
class Loaded {
 public:
  Loaded(OpenDriver* driver, const KernelFacts& facts, const char* target = "sm_80", heddle_device_t* device = nullptr) : driver_(driver) {
    const char* text = std::strcmp(target, "sm_90a") == 0 ? kPtx90a : kPtx80;
    EXPECT_OK(load_code(*driver, device ? device : driver->device, "ptx/1", target, text, std::strlen(text), {facts}, &executable_));
    if (executable_) EXPECT_OK(driver->dispatch_api->entry(executable_, 0, &entry_));
  }
  ~Loaded() {
    if (executable_) driver_->dispatch_api->executable_unload(executable_);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  heddle_entry_t* entry() const { return entry_; }
  // The bindings and constants must outlive the submit.
  heddle_command_t command(const std::vector<heddle_binding_t>& bindings, const std::vector<int64_t>& constants, uint32_t x = 1,
                           uint32_t y = 1, uint32_t z = 1) const {
    heddle_command_t made = {};
    made.kind = HEDDLE_COMMAND_DISPATCH;
    made.as.dispatch = {entry_,
                        bindings.data(),
                        constants.data(),
                        static_cast<uint32_t>(bindings.size()),
                        static_cast<uint32_t>(constants.size() * 8),
                        {x, y, z},
                        42};
    return made;
  }

 private:
  OpenDriver* driver_;
  heddle_executable_t* executable_ = nullptr;
  heddle_entry_t* entry_ = nullptr;
};

inline KernelFacts add_facts() {
  return {"add_f32", 3, 2, {128, 1, 1}};
}
inline KernelFacts chain_facts() {
  return {"chain", 1, 1};
}
inline KernelFacts linger_facts() {
  return {"linger", 0, 1};
}

inline heddle_command_t barrier() {
  return heddle_command_t{};
}
inline heddle_command_t copy(heddle_buffer_t* source, uint64_t from, heddle_buffer_t* target, uint64_t to, uint64_t length) {
  heddle_command_t made = {};
  made.kind = HEDDLE_COMMAND_COPY;
  made.as.copy = {source, target, from, to, length};
  return made;
}
inline heddle_command_t fill(heddle_buffer_t* target, uint64_t offset, uint64_t length, uint64_t pattern, uint32_t bytes) {
  heddle_command_t made = {};
  made.kind = HEDDLE_COMMAND_FILL;
  made.as.fill = {target, offset, length, pattern, bytes, 0};
  return made;
}
inline heddle_command_t update(heddle_buffer_t* target, uint64_t offset, const void* source, uint64_t length) {
  heddle_command_t made = {};
  made.kind = HEDDLE_COMMAND_UPDATE;
  made.as.update = {target, offset, length, source};
  return made;
}

// Bytes that differ from place to place.
inline std::vector<uint8_t> noise(uint64_t size, uint32_t seed = 1) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

class Cuda : public ::testing::Test {
 protected:
  static constexpr uint64_t kSecond = 1000000000;
  static constexpr uint64_t kPatience = 30 * kSecond;

  void SetUp() override {
    require_device();
    if (HasFatalFailure() || IsSkipped()) return;
    arm_watchdog(60);
    open();
  }
  void TearDown() override {
    close();
    alarm(0);
  }

  // Ends the case where there is no device: it is skipped, or fails.
  static void require_device() {
    if (why_no_cuda().empty()) return;
    const char* required = std::getenv("HEDDLE_GPU");
    if (required && std::string_view(required) == "required") FAIL() << "no CUDA device: " << why_no_cuda();
    GTEST_SKIP() << "SKIP: no CUDA device: " << why_no_cuda();
  }

  void open() {
    host = std::make_unique<PluginHost>();
    driver_owner = std::make_unique<OpenDriver>(cuda_plugin(), host.get());
    driver_owner->patience_ns = kPatience;
    ASSERT_TRUE(driver_owner->device);
    ASSERT_TRUE(driver_owner->queue);
    description.struct_size = sizeof description;
    ASSERT_OK(driver_owner->device_api->describe(driver_owner->instance(), 0, &description));
    uint32_t rank = 0;
    EXPECT_OK(driver_owner->dispatch_api->variant_rank(driver_owner->device, string_of("ptx/1"), string_of("sm_90a"), &rank));
    is_hopper = rank != 0;
  }
  void close() {
    if (!host) return;
    driver_owner.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
    host.reset();
  }
  OpenDriver& driver() { return *driver_owner; }
  void free(std::initializer_list<heddle_buffer_t*> buffers) {
    for (heddle_buffer_t* buffer : buffers) driver().buffer_api->free(buffer);
  }
  // The host's view of a host visible buffer.
  char* mapped(heddle_buffer_t* buffer, uint64_t size) {
    void* pointer = nullptr;
    EXPECT_OK(driver().buffer_api->map(buffer, 0, size, HEDDLE_MAP_READ | HEDDLE_MAP_WRITE, &pointer));
    return static_cast<char*>(pointer);
  }
  heddle_buffer_properties_t properties(heddle_buffer_t* buffer) {
    heddle_buffer_properties_t found = {};
    found.struct_size = sizeof found;
    EXPECT_OK(driver().buffer_api->properties(buffer, &found));
    return found;
  }
  // The vector add, checked: whether the device still works.
  void expect_works() {
    Loaded add(&driver(), add_facts());
    const size_t count = 10000;
    std::vector<float> ones(count), ramp(count);
    for (size_t i = 0; i < count; ++i) {
      ones[i] = 1;
      ramp[i] = static_cast<float>(i);
    }
    heddle_buffer_t *a = driver().make_filled(ones), *b = driver().make_filled(ramp), *out = driver().make_buffer(count * 4);
    const std::vector<heddle_binding_t> bindings = {{a, 0, count * 4}, {b, 0, count * 4}, {out, 0, count * 4}};
    const std::vector<int64_t> constants = {static_cast<int64_t>(count), 5};
    EXPECT_OK(driver().run({add.command(bindings, constants, (count + 127) / 128)}));
    const std::vector<float> got = driver().values_of<float>(out, count);
    for (size_t i = 0; i < count; ++i) {
      if (got[i] == static_cast<float>(i) + 6) continue;
      ADD_FAILURE() << "element " << i << " is " << got[i];
      break;
    }
    free({a, b, out});
  }

  std::unique_ptr<PluginHost> host;
  std::unique_ptr<OpenDriver> driver_owner;
  heddle_device_description_t description = {};
  bool is_hopper = false;
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_GPU_CUDA_CASE_H_
