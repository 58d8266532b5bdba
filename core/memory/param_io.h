// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ways of loading weights have in common: the configuration param_io as what heddle.param_io/1 takes, and texts of failures. Used by
// weights.cpp, which defines the functions, block_weights.cpp and encoded_weights.cpp.
#ifndef HEDDLE_CORE_MEMORY_PARAM_IO_H_
#define HEDDLE_CORE_MEMORY_PARAM_IO_H_

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/host/host.h"
#include "core/memory/weights.h"

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

// soon_bytes: as for Weight::allocate.
Status allocate_weight(Device& device, const WeightExtent& extent, Weight& weight, uint64_t soon_bytes = 0);
// CANCELLED if the flag is set; it may be NULL.
Status check_cancelled(const Device& device, const std::atomic<bool>* cancelled);
// Reads bytes of the weight's file to the host. DATA_LOSS names file, tensor and offset.
Status read_bytes(const WeightExtent& weight, uint64_t offset, uint64_t bytes, std::byte* out);
// Which extent of a read failed, as the driver says; SIZE_MAX if it does not.
size_t failed_extent(const Status& failure);
// weight: the tensor that could not be read; NULL if that is not known.
Status reading_failed(Status&& failure, std::string_view path, const WeightExtent* weight);

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_PARAM_IO_H_
