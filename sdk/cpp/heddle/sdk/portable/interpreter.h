// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs portable code on the host's processor, for drivers whose device has no code of its own for a kernel. It needs memory that the host can address;
// staging.h is for other memory.
#ifndef HEDDLE_SDK_PORTABLE_INTERPRETER_H_
#define HEDDLE_SDK_PORTABLE_INTERPRETER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/sdk/portable/code.h"
#include "heddle/sdk/portable/own_kernels.h"
#include "heddle/sdk/portable/workers.h"

namespace heddle::sdk::portable {

struct Memory {
  char* data;
  uint64_t bytes;
};

// What a call may take at most; more is refused before it begins.
struct Limits {
  uint64_t steps = uint64_t{1} << 44;  // bodies evaluated, over all indices of all nodes
  // That a call takes from the heap, where its workspace has no room: for tensors between nodes, and for what its threads take above kScratchBytes.
  uint64_t memory_bytes = uint64_t{1} << 34;
};

// What each thread takes from the heap: for values of bodies, blocks of products, and short lines that are sorted. Where that is not enough, for bodies of
// extraordinary length and for long lines, threads share what the workspace has behind the tensors: no more of them compute a node than it has room for.
// Only if it has no room for one thread, the heap has to do, within Limits.
inline constexpr uint64_t kScratchBytes = 256 << 10;

// What a sort takes for each element of the line that a thread orders: the bytes of elements of several lists, each of which begins at a multiple of
// kWorkspaceAlignment. Empty for other nodes.
std::vector<uint32_t> sorted_bytes(const Node& node);

struct Prepared;

// A kernel that is ready to run. Any number of threads may run it at once.
class Program {
 public:
  // `own`, if any, is offered each node, and the sets that it names.
  explicit Program(Kernel kernel, std::shared_ptr<const OwnKernels> own = nullptr);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const Kernel& kernel() const;

  // Computes the outputs: one binding for each input, then one for each output, perhaps the workspace (code.h), and the value of each symbol. Bindings of
  // outputs, and the workspace, overlap no other binding. Every access is checked. On failure, false: *out_error says what is wrong, and the outputs'
  // contents are undefined. `workers`, if any, share the work of large nodes; the results have the same bits for any number of them.
  // *out_used, if not NULL, says which nodes ran.
  struct Used {
    uint32_t interpreted = 0, own = 0;
    uint64_t own_ns = 0;  // the time of kernels of the driver's own
  };
  bool run(const std::vector<Memory>& bindings, const int64_t* symbols, size_t symbol_count, std::string* out_error,
           const Limits& limits = {}, Workers* workers = nullptr, Used* out_used = nullptr) const;

  // The bytes of each binding's tensor for these symbols, and at the end, if out_workspace_bytes is not NULL, those of the workspace; false if the symbols
  // do not fit the kernel, as for run().
  bool binding_bytes(const int64_t* symbols, size_t symbol_count, std::vector<uint64_t>* out, std::string* out_error,
                     uint64_t* out_workspace_bytes = nullptr) const;

  // Scratch memory of one thread in a call, without lines of sorts. If it is more than kScratchBytes, the workspace may have it.
  uint64_t scratch_bytes() const;

 private:
  std::unique_ptr<const Prepared> prepared_;
};

// All kernels of an image, ready to run; false, with the reason, if they are damaged.
bool load(std::string_view image, std::vector<Program>* out, std::string* out_error, std::shared_ptr<const OwnKernels> own = nullptr);

// How nodes of a program would run, for the answer to a query: what `own` said of them, without symbols or with those of a call.
struct Part {
  std::string what;             // describe_node() of each
  Answer answer;                // for a set: taken
  std::vector<uint32_t> nodes;  // in ascending order: one, or a set
};
// In the order in which they run.
std::vector<Part> parts_of(const Kernel& kernel, const OwnKernels* own, const int64_t* symbols);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_INTERPRETER_H_
