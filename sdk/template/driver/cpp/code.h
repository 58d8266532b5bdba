// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of the sample driver, in two formats. "portable/1" is what `heddle compile --target portable` writes for any device: the SDK's library reads
// and interprets it on the host (heddle/sdk/portable/interpreter.h), so that whole models run from the first day. "sample-stack/1" is text, one kernel
// after the other, each a program for a stack of 64-bit words that runs once per workgroup. It stands for a vendor's binary format: code
// that is checked when it is loaded, looked up by name, and run with bindings and constants. Replace it with your own; device.cpp only needs to load, find and run kernels.
//
//   kernel NAME BINDINGS CONSTANTS_BYTES      begins a kernel
//   each N          before all others: every workgroup runs what follows N times; once without it
//   group           pushes the workgroup's number, x fastest      const N     pushes the N-th 64-bit constant
//   item            pushes the number of this run, counted from the first of workgroup 0: group * N, and those before it in its workgroup
//   size32 B        pushes the number of 32-bit words of binding B
//   push N          pushes N                                      add, mul    of the two on top
//   addf, subf, mulf, maxf, minf    of the two on top, as f32     less        1 if the second is less than the top, else 0
//   load32 B        pops an index, pushes word [index] of binding B; load64 likewise
//   store32 B       pops a value, then an index, stores it there; store64 likewise
//   require         pops; ends this workgroup if it was 0
//   fail N          the kernel fails with number N
//   lose            the device is gone
#ifndef SAMPLE_CODE_H_
#define SAMPLE_CODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/code.h"
#include "heddle/sdk/portable/interpreter.h"

namespace sample {

namespace portable = heddle::sdk::portable;

inline constexpr std::string_view kFormat = "sample-stack/1";
inline constexpr std::string_view kTarget = "generic";

enum class Op : uint32_t {
  kEach,
  kGroup,
  kItem,
  kSize32,
  kConst,
  kPush,
  kAdd,
  kMul,
  kAddF,
  kSubF,
  kMulF,
  kMaxF,
  kMinF,
  kLess,
  kLoad32,
  kLoad64,
  kStore32,
  kStore64,
  kRequire,
  kFail,
  kLose
};

struct Instruction {
  Op op;
  uint64_t operand;
};

struct Kernel {
  std::string name;
  uint32_t bindings = 0;
  uint32_t constants_bytes = 0;
  uint64_t items = 1;  // of a workgroup
  std::vector<Instruction> instructions;
};

using portable::Memory;

// A kernel of either format.
struct Code {
  Kernel own;
  std::optional<portable::Program> program;  // if it is portable

  const std::string& name() const { return program ? program->kernel().name : own.name; }
  // Portable kernels may have one more: memory for tensors between their nodes.
  bool takes_bindings(uint32_t count) const { return program ? portable::takes_bindings(program->kernel(), count) : count == own.bindings; }
  std::string taken_bindings() const {
    return program ? portable::taken_bindings(program->kernel()) : std::to_string(own.bindings) + " bindings";
  }
  uint32_t constants_bytes() const { return program ? program->kernel().symbols * 8 : own.constants_bytes; }
};

// Reads and checks all kernels. `own`, if any, is offered the nodes of portable ones. On failure *out_error says what is wrong.
bool read_code(std::string_view format, std::string_view bytes, const std::shared_ptr<const portable::OwnKernels>& own,
               std::vector<Code>* out, std::string* out_error);

enum class Outcome { kDone, kFailed, kLost };

// Runs all workgroups of a kernel in the driver's own format, in order. On failure *out_reason says why. dispatch.h of the SDK runs portable ones.
Outcome run_kernel(const Kernel& kernel, const std::vector<Memory>& bindings, const std::vector<char>& constants, uint64_t workgroups,
                   std::string* out_reason);

}  // namespace sample
#endif  // SAMPLE_CODE_H_
