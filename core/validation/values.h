// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks into values, for what is no number, and writes them to .npy files. Used by region.cpp; knows nothing of regions.
#ifndef HEDDLE_CORE_VALIDATION_VALUES_H_
#define HEDDLE_CORE_VALIDATION_VALUES_H_

#include <string>
#include <vector>

#include "core/validation/layer.h"

namespace heddle::validation {

// What a scan found.
struct Found {
  uint64_t count = 0;  // 0: nothing
  uint64_t first = 0;  // index of the first element
  uint32_t kind = 0;   // HEDDLE_VALIDATION_NAN or _INF: what the first is
};
// Looks for `kinds`; nothing is found in types that have no such values.
Found scan(heddle_element_type_t type, const void* data, uint64_t size_bytes, uint32_t kinds);

// Writes a .npy file that appears under its name when it is whole. What NumPy has no type for is written as its bytes. What is wrong, empty if nothing.
std::string write_npy(const std::string& path, heddle_element_type_t type, const std::vector<int64_t>& dims, const void* data,
                      uint64_t size_bytes);

}  // namespace heddle::validation

#endif  // HEDDLE_CORE_VALIDATION_VALUES_H_
