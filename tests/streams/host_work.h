// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work of the host's backend: kernels, copies and fills, one by one or as the nodes of a graph. It runs in the thread of a stream.
#ifndef HEDDLE_TESTS_STREAMS_HOST_WORK_H_
#define HEDDLE_TESTS_STREAMS_HOST_WORK_H_

#include <new>

#include "heddle/code.h"
#include "heddle/sdk/portable/interpreter.h"
#include "host_backend.h"
#include "late_gpu.h"

namespace heddle::test {

struct HostFunction {
  heddle_x86_64_kernel_t kernel = nullptr;
  const sdk::portable::Program* program = nullptr;  // instead of a kernel
  uint64_t workspace_bytes = 0;
  bool returns_its_constant = false;  // a kernel that is called "fail": what it will return is known when it is launched
};

// A vendor's library has memory of its own: what a test lets fail is not that.
template <typename F>
auto with_own_memory(F function) {
  for (;;) {
    try {
      return function();
    } catch (const std::bad_alloc&) {
    }
  }
}

// A kernel with its arguments, as of the launch.
class HostKernel {
 public:
  HostKernel() = default;
  explicit HostKernel(const stream::Launch& launch);
  // Parts of the grid in shuffled order.
  stream::Result run(std::mt19937_64& random) const;
  // What it will return, if that is known; 0 otherwise.
  int64_t known_result() const;

 private:
  stream::Result interpret() const;

  const HostFunction* function_ = nullptr;
  uint32_t grid_[3] = {};
  std::vector<stream::Address> bindings_;
  std::vector<int64_t> constants_;
};

// kBadAddress if not all bytes are inside one block.
stream::Result run_copy(const stream::Copy2d& copy);
stream::Result run_fill(const stream::Fill& fill, uint64_t pitch);
// Where bytes that work accesses are; NULL if not all are inside one block. `keep` keeps them.
char* bytes_at(stream::Address address, uint64_t size, std::shared_ptr<void>* keep);

struct HostNode {
  enum class Kind { kEmpty, kKernel, kCopy, kFill } kind = Kind::kEmpty;
  HostKernel kernel;
  stream::Copy2d copy = {};
  stream::Fill fill = {};
  std::vector<uintptr_t> before;  // numbers, counted from 1
  bool is_enabled = true;
};
using HostGraph = std::vector<HostNode>;

stream::Result run_graph(const HostGraph& nodes, std::mt19937_64& random);

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_STREAMS_HOST_WORK_H_
