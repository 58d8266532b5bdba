// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts CUDA's result codes to statuses: the code, the text, and whether the result ends the context.
#ifndef HEDDLE_CUDA_ERRORS_H_
#define HEDDLE_CUDA_ERRORS_H_

#include "cuda/api.h"
#include "heddle/sdk/status.h"

namespace heddle::cuda {

// True for results after which every call on the context returns the same result (HD-S-02).
bool ends_context(CUresult result) noexcept;

// The canonical code of a result.
heddle_status_code_t code_of(CUresult result) noexcept;

// A status of domain "cuda" whose text ends in the result's name and text.
[[gnu::format(printf, 5, 6)]] heddle_status_t* cuda_status(const heddle_host_t* host, const Api& api, heddle_status_code_t code,
                                                           CUresult result, const char* format, ...) noexcept;

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_ERRORS_H_
