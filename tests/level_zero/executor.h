// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs kernels in SPIR-V on an OpenCL device that is this machine's CPU: PoCL, or Intel's runtime.
//
// A runtime that takes SPIR-V gets it as it is (Intel's: clCreateProgramWithIL). Debian's PoCL takes LLVM bitcode for SPIR (clCreateProgramWithBinary),
// which `llvm-spirv -r` makes of it in a child process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/level_zero/spirv.h"

namespace heddle::level_zero_stand_in {

struct ArgumentValue {
  bool is_set = false;
  std::vector<std::byte> bytes;  // of a value, or of a pointer
  size_t local_bytes = 0;        // of an argument in local memory
};

// A module that has been built. Threads: build() from any; run() from one at a time.
class Program {
 public:
  // NULL if that fails; then `log` says why.
  static std::shared_ptr<Program> build(std::vector<uint32_t> words, const std::string& flags, std::string* log);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::vector<KernelInfo>& kernels() const { return kernels_; }
  const std::vector<uint32_t>& words() const { return words_; }
  // Runs a kernel to its end. Pointers are addresses of this process. Empty if all is well.
  std::string run(const KernelInfo& kernel, const std::vector<ArgumentValue>& arguments, const uint32_t (&group)[3],
                  const uint32_t (&count)[3]);

 private:
  Program() = default;
  std::vector<KernelInfo> kernels_;
  std::vector<uint32_t> words_;
  void* program_ = nullptr;
  std::vector<void*> handles_;  // OpenCL's kernels, in the order of kernels_
};

// What kernels run on. `reason` is empty unless there is no such device.
struct ExecutorFacts {
  std::string reason, name;
  bool takes_spirv = false;   // without the translator
  uint64_t most_threads = 0;  // of a workgroup
  uint32_t processors = 0;
};
const ExecutorFacts& executor_facts();

}  // namespace heddle::level_zero_stand_in
