// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loaded code of either format (image.h).
#ifndef OPENCL_EXAMPLE_CODE_H_
#define OPENCL_EXAMPLE_CODE_H_

#include <optional>

#include "device.h"
#include "heddle/sdk/portable/interpreter.h"
#include "image.h"
#include "runner.h"

namespace opencl {

// A kernel of either format.
struct Kernel {
  std::string name;
  uint32_t bindings = 0, constants_bytes = 0;
  cl_kernel object = nullptr;  // if it is OpenCL C alone
  size_t workgroup_size[3] = {1, 1, 1};
  std::optional<portable::Program> program;  // otherwise
  std::unique_ptr<Runner> runner;            // if there is OpenCL C for it
};

class Executable : public sdk::Executable {
 public:
  explicit Executable(Device* device) : sdk::Executable(device), cl_(device->cl) {}
  ~Executable() override;
  const void* find(std::string_view name) override;

  cl_program program = nullptr;
  std::deque<Kernel> kernels;

 private:
  const Functions& cl_;
};

// Reads, compiles and checks the code, and finds its entries.
heddle_status_t* load_code(Device* device, const sdk::Code& code, Executable* out);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_CODE_H_
