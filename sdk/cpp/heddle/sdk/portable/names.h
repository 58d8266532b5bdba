// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of ops beside the nodes of portable code: their attributes as numbers, and a check that a name says what the nodes compute. The nodes are what
// counts; a driver that goes by names checks them first.
#ifndef HEDDLE_SDK_PORTABLE_NAMES_H_
#define HEDDLE_SDK_PORTABLE_NAMES_H_

#include <string>
#include <vector>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

// The values of an attribute: one of an integer or a boolean (0 or 1), several of integers. False if the op has none of that name, or it is of another type.
bool integers_of(const NamedOp& op, std::string_view attribute, std::vector<int64_t>* out);

struct NameCheck {
  enum Verdict : uint8_t { kAgrees, kDisagrees, kUnknown };
  Verdict verdict;
  uint32_t op;         // of kernel.ops
  uint32_t node;       // that computes it; UINT32_MAX if none is known
  std::string reason;  // why it disagrees, or is not known
};

// Compares each name of a verified kernel with its expansion, for these values of its symbols. Known are those that are computed by one node from inputs of
// the kernel, which what follows may finish:
//   conv       strides, dilations, pads_low, pads_high, groups; images [n, spatial..., c], weights [spatial..., c / groups, o]
//   matmul     [batch..., m, k] by [batch..., k, n], or by [k, n]; a batch of extent 1 is repeated
//   pool       kernel, strides, dilations, pads_low, pads_high; of images as above; places and bounds only, not `kind`
//   transpose  permutation, as the only op of a kernel
// kAgrees is a proof: places are sums of terms in one index each, and are compared at every value of every index. Names that are not known, whose operands
// are computed in the same kernel, or whose places have another form, are kUnknown.
std::vector<NameCheck> check_names(const Kernel& kernel, const std::vector<int64_t>& symbols);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_NAMES_H_
