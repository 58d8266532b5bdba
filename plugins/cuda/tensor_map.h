// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA descriptors, which are arguments of kernels.
#ifndef HEDDLE_CUDA_TENSOR_MAP_H_
#define HEDDLE_CUDA_TENSOR_MAP_H_

#include "cuda/api.h"
#include "heddle/sdk/stream/code.h"

namespace heddle::cuda {

constexpr uint32_t kTensorMapBytes = 128;

// Why a payload is invalid; NULL if it is not.
const char* check_tensor_map(const heddle_tensor_map_t& map, uint32_t constants_bytes) noexcept;

class TensorMap : public sdk::stream::SpecialArgument {
 public:
  TensorMap(const Api& cuda, const heddle_tensor_map_t& map) noexcept
      : SpecialArgument("the tensor map", "cuTensorMapEncodeTiled's limits"), cuda_(cuda), map_(map) {}
  sdk::stream::Result encode(sdk::stream::Address address, const int64_t* constants, char* out) const noexcept override;

 private:
  const Api& cuda_;
  heddle_tensor_map_t map_;
};

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_TENSOR_MAP_H_
