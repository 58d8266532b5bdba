// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What HIP's results mean to the stream driver, and their canonical codes.
#ifndef HEDDLE_HIP_ERRORS_H_
#define HEDDLE_HIP_ERRORS_H_

#include "hip/api.h"

namespace heddle::hip {

sdk::stream::Meaning meaning_of(int error) noexcept;
heddle_status_code_t code_of(int error) noexcept;

}  // namespace heddle::hip
#endif  // HEDDLE_HIP_ERRORS_H_
