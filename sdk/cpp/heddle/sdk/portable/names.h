// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of ops beside the nodes of portable code: their attributes as numbers, and a check that the names say what the nodes compute. The nodes are
// what counts; a driver that goes by names checks them first.
#ifndef HEDDLE_SDK_PORTABLE_NAMES_H_
#define HEDDLE_SDK_PORTABLE_NAMES_H_

#include <string>
#include <vector>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

// The values of an attribute: one of an integer or a boolean (0 or 1), several of integers. False if the op has none of that name, or it is of
// another type.
bool integers_of(const NamedOp& op, std::string_view attribute, std::vector<int64_t>* out);

struct NameCheck {
  static constexpr uint32_t kNone = UINT32_MAX;
  // In this order, the first one is the best.
  enum Verdict : uint8_t { kAgrees, kTested, kUnknown, kDisagrees };
  Verdict verdict;
  uint32_t op;              // of kernel.ops; kNone of an output
  uint32_t node;            // that computes it, or reads what it moves; kNone if that is not known
  std::string reason;       // of other verdicts than kAgrees
  uint32_t output = kNone;  // of the kernel, if it is named as one of the inputs, so that no op has a verdict about it
};

// Compares the names of a verified kernel with its nodes, for these values of its symbols. The named ops are a graph, by their operands, which says
// what each output is; so do the nodes. Both are written as expressions over the elements of the inputs, in which neither the division into ops nor
// into nodes is left: an op may be in the middle of a node, or in several, and its operands may be computed in the same kernel. There is a check for each
// op, in order, then one for each output that is named as an input.
//   kAgrees     proved: the expressions are the same at every index. They compute the same bits, but for the order in which elements are added up or
//               otherwise joined by a fold, and for which NaN a NaN is
//   kTested     the expressions differ in form, and have the same values at up to 64 indices of each output, for eight sets of inputs of the kernel
//               that were made up: as f64, to nine digits. That is evidence, and no proof
//   kDisagrees  the op's operands, attributes and result do not fit each other; or there is an index and an input for which the output has another
//               value by the names than by the nodes, and this op is the first whose value the nodes do not have, or the output is named as an input
//   kUnknown    the op is none of ops.h, or of another version, or a constant whose name says no value; it is not in the graph of the outputs; what it
//               is computed from is unknown or disagrees; or the comparison takes too long
// All ops of ops.h are known; of `blocks`, those of GGUF: Q4_0, Q8_0, Q4_K, Q5_K and Q6_K. Work is bounded, whatever the kernel: memory stays below
// 1 GiB, and it takes at most a few seconds.
std::vector<NameCheck> check_names(const Kernel& kernel, const std::vector<int64_t>& symbols);

const char* name_of(NameCheck::Verdict verdict);

// How many names of all kernels have each verdict, with 3 or 400 for each symbol, whichever is better for the kernel, since not all extents are
// possible; then a line for each whose verdict is another than kAgrees, with the reason.
std::string text_of_names(const std::vector<Kernel>& kernels);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_NAMES_H_
