// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sample driver's own kernel: products of matrices and convolutions of f32, which are most of the work of most models. It runs on the host, where a
// driver for hardware would enqueue a kernel of the vendor's library. What it does not take is interpreted.
#ifndef SAMPLE_OWN_KERNELS_H_
#define SAMPLE_OWN_KERNELS_H_

#include "heddle/sdk/portable/own_kernels.h"

namespace sample {

namespace portable = heddle::sdk::portable;

class OwnKernels final : public portable::OwnKernels {
 public:
  portable::Answer takes(const portable::Offer& offer) const override;
  bool run(const portable::OwnCall& call, std::string* out_error) const override;
};

}  // namespace sample
#endif  // SAMPLE_OWN_KERNELS_H_
