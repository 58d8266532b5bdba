// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a cubin before CUDA reads it: CUDA takes a pointer without a size. Pure.
#ifndef HEDDLE_CUDA_CUBIN_H_
#define HEDDLE_CUDA_CUBIN_H_

#include <cstdint>
#include <string>

#include "heddle/status.h"

namespace heddle::cuda {

// Whether the header, the tables, and all sections and segments are inside the bytes; sections have names, links and indices of others that exist;
// and tables of symbols and relocations have whole entries. What these entries and CUDA's own sections contain is not checked. If not: DATA_LOSS
// for a file that is cut off or damaged, INVALID_ARGUMENT for one that is none of CUDA, and the reason.
heddle_status_code_t check_cubin(const void* bytes, uint64_t size, std::string* out_reason);

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_CUBIN_H_
