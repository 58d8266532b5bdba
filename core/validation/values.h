// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches values that are not numbers, and writes values to .npy files. Used by region.cpp; knows nothing of regions.
#ifndef HEDDLE_CORE_VALIDATION_VALUES_H_
#define HEDDLE_CORE_VALIDATION_VALUES_H_

#include <string>
#include <vector>

#include "core/validation/layer.h"

namespace heddle::validation {

// The result of a scan.
struct Found {
  uint64_t count = 0;  // 0: nothing
  uint64_t first = 0;  // index of the first element
  uint32_t kind = 0;   // HEDDLE_VALIDATION_NAN or _INF: the kind of the first
};
// Searches for `kinds`; finds nothing in types that have no such values.
Found scan(heddle_element_type_t type, const void* data, uint64_t size_bytes, uint32_t kinds);

// Writes a .npy file that appears under its name once it is complete. A type that NumPy lacks is written as bytes. Returns an error text,
// empty on success.
std::string write_npy(const std::string& path, heddle_element_type_t type, const std::vector<int64_t>& dims, const void* data,
                      uint64_t size_bytes);

}  // namespace heddle::validation

#endif  // HEDDLE_CORE_VALIDATION_VALUES_H_
