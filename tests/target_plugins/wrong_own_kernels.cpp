// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the template's driver that take all nodes and compute zeros: what is interpreted has other results.
#include <algorithm>
#include <cstring>

#include "own_kernels.h"

namespace sample {

portable::Answer OwnKernels::takes(const portable::Offer&) const {
  return {"wrong.zeros", "any", 0, 0};
}

bool OwnKernels::run(const portable::OwnCall& call, std::string*) const {
  const portable::Kernel& kernel = call.offer.kernel;
  if (call.offer.product) {
    int64_t count = 1;
    for (const portable::ProductDim& dim : call.offer.product->dims) {
      if (dim.group != portable::ProductDim::kDepth) count *= dim.extent;
    }
    std::fill_n(call.sums, count, 0.0f);
    return true;
  }
  for (uint32_t result : kernel.nodes[call.offer.node].results) {
    portable::Scalar scalar;
    if (!portable::scalar_of(kernel.tensors[result].type, &scalar)) continue;
    size_t bytes = portable::bytes_of(scalar);
    for (int64_t extent : *call.tensors[result].extents) bytes *= static_cast<size_t>(extent);
    std::memset(call.tensors[result].data, 0, bytes);
  }
  return true;
}

}  // namespace sample
