// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks into values: for what is no number, and into .npy files. Given to libheddle through layer.h; what they are promised to do is said there.
#ifndef HEDDLE_CORE_VALIDATION_VALUES_H_
#define HEDDLE_CORE_VALIDATION_VALUES_H_

#include "core/validation/layer.h"

namespace heddle::validation {

heddle_validation_found_t scan(heddle_element_type_t type, const void* data, uint64_t size_bytes, uint32_t kinds) noexcept;
uint32_t dump(const char* path, heddle_element_type_t type, const int64_t* dims, uint32_t rank, const void* data, uint64_t size_bytes,
              char* wrong, uint64_t capacity) noexcept;

}  // namespace heddle::validation

#endif  // HEDDLE_CORE_VALIDATION_VALUES_H_
