// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random inputs for `heddle bench`: seeded, the same on every machine.
#pragma once

#include <cstdint>

#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

// Floating point: uniform in [-1, 1); integers: 0 or 1, so that they are valid indices into any dimension. The shape must be set.
Wrong fill_random(HostTensor& tensor, uint64_t seed);

}  // namespace heddle::tool
