// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code as text, to be read by people: `heddle compile --dump-code` writes it, and drivers and targets may print the kernels that they get. There
// is no way back from the text, and it may change with any version.
#ifndef HEDDLE_SDK_PORTABLE_TEXT_H_
#define HEDDLE_SDK_PORTABLE_TEXT_H_

#include <string>

#include "heddle/sdk/portable/code.h"

namespace heddle::sdk::portable {

// A verified kernel: its bindings, the names and attributes of ops, then each node with its domain, reads and bodies. Symbols are s0, s1, ..., dimensions
// of a node's domain i0, i1, ..., reads r0, r1, ..., tensors by number, and values of a body v0, v1, ... in the order of its instructions.
// Long expressions have a line of their own, and stand as e and their number elsewhere.
std::string text_of(const Kernel& kernel);
// The type and the extents of one tensor, such as "f32[s0, 8]".
std::string text_of(const Kernel& kernel, const Tensor& tensor);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_TEXT_H_
