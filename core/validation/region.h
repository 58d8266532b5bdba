// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a region read and wrote: dumps, and the first value that is not a number. Offered to libheddle through layer.h, which documents the functions.
#ifndef HEDDLE_CORE_VALIDATION_REGION_H_
#define HEDDLE_CORE_VALIDATION_REGION_H_

#include "core/validation/layer.h"

namespace heddle::validation {

uint32_t looks_at(const heddle_validation_rules_t* rules, heddle_string_t region) noexcept;
heddle_status_t* region_begins(const heddle_validation_rules_t* rules, const heddle_validation_region_t* region) noexcept;
heddle_status_t* region_ended(const heddle_validation_rules_t* rules, const heddle_validation_region_t* region) noexcept;

}  // namespace heddle::validation

#endif  // HEDDLE_CORE_VALIDATION_REGION_H_
