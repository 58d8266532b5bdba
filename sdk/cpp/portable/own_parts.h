// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How nodes are offered to a driver's own kernels, when code is loaded and in each call.
#pragma once

#include "heddle/sdk/portable/interpreter.h"

namespace heddle::sdk::portable {

// What `own`, which may be NULL, says of these nodes together. *form and *out_is_product: of a node alone that is a product.
Answer ask(const Kernel& kernel, const OwnKernels* own, const std::vector<uint32_t>& nodes, const int64_t* symbols, ProductForm* form,
           bool* out_is_product);

// As an offer has them; `symbols`: NULL if they are not known.
inline std::span<const int64_t> values_of(const Kernel& kernel, const int64_t* symbols) {
  return symbols ? std::span<const int64_t>(symbols, kernel.symbols) : std::span<const int64_t>();
}

}  // namespace heddle::sdk::portable
