// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The image of test_kernels.c and its entries, for tests of drivers.
#ifndef HEDDLE_TESTS_KERNELS_H_
#define HEDDLE_TESTS_KERNELS_H_

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "plugin_host.h"

namespace heddle::test {

inline std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
inline std::vector<char> kernel_image() {
  return read_file(HEDDLE_TEST_KERNELS);
}

// Indices into kernel_entries().
enum Kernel : uint32_t {
  kAddF32,
  kCountWorkgroups,
  kChain,
  kFail,
  kUseWorkspace,
  kReadTable,
  kReadMxcsr,
  kDirtyMxcsr,
  kSlow,
  kReadGrid,
  kNothing,
  kChainUnknownCost,
  kMeet
};

inline std::vector<heddle_entry_params_t> kernel_entries() {
  auto entry = [](const char* name, uint32_t bindings, uint32_t constants, uint64_t cost, uint64_t workspace = 0) {
    heddle_entry_params_t params = {};
    params.struct_size = sizeof params;
    params.binding_count = bindings;
    params.name = string_of(name);
    params.constants_bytes = constants * 8;
    for (uint32_t& extent : params.workgroup_size) extent = 1;
    params.workspace_bytes = workspace;
    params.cost = cost;
    return params;
  };
  return {entry("add_f32", 3, 2, 1000),
          entry("count_workgroups", 1, 0, 0),
          entry("chain", 1, 1, 2),
          entry("fail", 0, 1, 0),
          entry("use_workspace", 1, 0, 0, 4096),
          entry("read_table", 1, 0, 5),
          entry("read_mxcsr", 1, 0, 5),
          entry("dirty_mxcsr", 1, 1, 5),
          entry("slow", 1, 1, 0),
          entry("read_grid", 1, 0, 10),
          entry("nothing", 0, 0, 1),
          entry("chain", 1, 1, 0),
          entry("meet", 1, 2, 1'000'000)};
}

// The loaded kernels of one device.
class Kernels {
 public:
  explicit Kernels(OpenDriver* driver, heddle_device_t* device = nullptr) : driver_(driver) {
    const std::vector<char> image = kernel_image();
    const std::vector<heddle_entry_params_t> entries = kernel_entries();
    heddle_executable_params_t params = {sizeof params,
                                         static_cast<uint32_t>(entries.size()),
                                         string_of("x86_64-elf/1"),
                                         string_of("x86-64-v3"),
                                         image.data(),
                                         image.size(),
                                         entries.data(),
                                         sizeof(heddle_entry_params_t),
                                         string_of("test_kernels"),
                                         {}};
    EXPECT_OK(driver->dispatch_api->executable_load(device ? device : driver->device, &params, &executable_));
  }
  ~Kernels() {
    if (executable_) driver_->dispatch_api->executable_unload(executable_);
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  heddle_entry_t* entry(Kernel kernel) const {
    heddle_entry_t* found = nullptr;
    EXPECT_OK(driver_->dispatch_api->entry(executable_, kernel, &found));
    return found;
  }
  heddle_executable_t* executable() const { return executable_; }
  // The bindings and constants must outlive the submit.
  heddle_command_t command(Kernel kernel, const std::vector<heddle_binding_t>& bindings, const std::vector<int64_t>& constants, uint32_t x,
                           uint32_t y = 1, uint32_t z = 1) const {
    heddle_command_t made = {};
    made.kind = HEDDLE_COMMAND_DISPATCH;
    made.as.dispatch = {entry(kernel),
                        bindings.data(),
                        constants.data(),
                        static_cast<uint32_t>(bindings.size()),
                        static_cast<uint32_t>(constants.size() * 8),
                        {x, y, z},
                        7};
    return made;
  }

 private:
  OpenDriver* driver_;
  heddle_executable_t* executable_ = nullptr;
};

inline heddle_command_t barrier() {
  return heddle_command_t{};
}

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_KERNELS_H_
