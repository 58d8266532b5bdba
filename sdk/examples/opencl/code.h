// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of the example, in two formats. "portable/0" is what `heddle compile --target portable` writes for any device; the driver writes OpenCL C for it
// (writer.h), and interprets kernels for which there is none. "opencl/1", target
// "opencl-c-1.2", is OpenCL C as text, whose kernels have these arguments:
//   for each binding   global uchar*  the buffer's first byte, NULL for an empty binding
//                      ulong          the byte of the buffer at which the binding begins
//   for each constant  long
// A workgroup of the dispatch is a work-group with the entry's workgroup_size.
#ifndef OPENCL_EXAMPLE_CODE_H_
#define OPENCL_EXAMPLE_CODE_H_

#include <optional>

#include "device.h"
#include "heddle/sdk/portable/interpreter.h"
#include "runner.h"

namespace opencl {

inline constexpr std::string_view kFormat = "opencl/1";
inline constexpr std::string_view kTarget = "opencl-c-1.2";
inline constexpr std::string_view kPortableTarget = "generic";

// A kernel of either format.
struct Kernel {
  std::string name;
  uint32_t bindings = 0, constants_bytes = 0;
  cl_kernel object = nullptr;  // if it is OpenCL's
  size_t workgroup_size[3] = {1, 1, 1};
  std::optional<portable::Program> program;  // if it is portable
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
