// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The configuration param_io of a device as what heddle.param_io/1 takes. Used by weights.cpp and encoded_weights.cpp.
#ifndef HEDDLE_CORE_MEMORY_PARAM_IO_H_
#define HEDDLE_CORE_MEMORY_PARAM_IO_H_

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/host/host.h"

namespace heddle::memory {

struct ReadMethod {
  std::string_view name;  // value of param_io.method; empty: not configured
  uint32_t number;        // HEDDLE_FILE_METHOD_*
  uint32_t since;         // minor version of the ABI that added it
};
inline constexpr ReadMethod kReadMethods[] = {{"gds", HEDDLE_FILE_METHOD_GDS, 2},
                                              {"direct", HEDDLE_FILE_METHOD_DIRECT_ONLY, 2},
                                              {"direct", HEDDLE_FILE_METHOD_DIRECT, 1},
                                              {"buffered", HEDDLE_FILE_METHOD_BUFFERED, 1}};

// The driver's method of that name; NULL if its ABI does not have it.
inline const ReadMethod* read_method(std::string_view name, uint32_t minor) {
  const auto* found = std::find_if(std::begin(kReadMethods), std::end(kReadMethods),
                                   [&](const ReadMethod& method) { return method.name == name && method.since <= minor; });
  return found == std::end(kReadMethods) ? nullptr : found;
}

// Without the method.
inline heddle_param_io_params_t read_params(const host::ParamIoConfig& config) {
  heddle_param_io_params_t params{};
  params.struct_size = sizeof(params);
  params.queue_depth = config.queue_depth;
  params.chunk_bytes = config.chunk_bytes;
  params.pinned_bytes = config.pinned_staging_bytes;
  return params;
}

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_PARAM_IO_H_
