// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Level Zero's results. Its loader has no function that names them, so the names are here.
#ifndef HEDDLE_LEVEL_ZERO_ERRORS_H_
#define HEDDLE_LEVEL_ZERO_ERRORS_H_

#include "level_zero/api.h"

namespace heddle::level_zero {

const char* name_of(ze_result_t result) noexcept;  // NULL: unknown
const char* text_of(ze_result_t result) noexcept;  // NULL: none
stream::Meaning meaning_of(ze_result_t result) noexcept;
heddle_status_code_t code_of(ze_result_t result) noexcept;

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_ERRORS_H_
