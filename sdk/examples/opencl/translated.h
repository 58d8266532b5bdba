// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of portable code for which there is OpenCL C: their functions, each of which a device builds once, and their loading.
#ifndef OPENCL_EXAMPLE_TRANSLATED_H_
#define OPENCL_EXAMPLE_TRANSLATED_H_

#include <mutex>

#include "device.h"
#include "image.h"
#include "runner.h"

namespace opencl {

// What these kernels share on a device.
class Programs {
 public:
  explicit Programs(Device* device) : device_(device) {}
  ~Programs();
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // Functions that a kernel has, until it drops them. Any thread.
  void add(const std::vector<Function>& functions);
  void drop(const std::vector<std::string>& names);
  // The kernel objects of functions that were added, in this order; they stay until the names are dropped. What is not built yet is built now, in one program
  // with all that others have added: OpenCL's compiler needs much longer for a program for each kernel. `who` as in build(). The device's thread.
  heddle_status_t* find(const std::vector<std::string>& names, const std::string& who, std::vector<cl_kernel>* out);

  Scratch scratch;  // of the device's thread

 private:
  struct Entry {
    std::string text;
    size_t uses = 0;
    cl_kernel object = nullptr;
  };
  heddle_status_t* build_all(const std::vector<std::string>& names, const std::string& who);

  Device* device_;
  std::mutex mutex_;
  std::map<std::string, Entry> functions_;  // under mutex_, by name
};

// Portable code, or what the target plugin has made of it.
heddle_status_t* load_translated(Device* device, const sdk::Code& code, Executable* out);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_TRANSLATED_H_
