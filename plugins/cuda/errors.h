// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's result codes: their meaning for the stream driver, and their canonical codes.
#ifndef HEDDLE_CUDA_ERRORS_H_
#define HEDDLE_CUDA_ERRORS_H_

#include "cuda/api.h"

namespace heddle::cuda {

sdk::stream::Meaning meaning_of(CUresult result) noexcept;
heddle_status_code_t code_of(CUresult result) noexcept;

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_ERRORS_H_
