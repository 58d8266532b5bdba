// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA descriptors from argument recipes: converts payloads of code.h to the arguments of cuTensorMapEncodeTiled.
#include "cuda/tensor_map.h"

namespace heddle::cuda {
namespace {

bool data_type(uint32_t element_type, bool tf32, CUtensorMapDataType* out) noexcept {
  switch (element_type) {
    case HEDDLE_TYPE_BOOL:
    case HEDDLE_TYPE_I8:
    case HEDDLE_TYPE_U8:
    case HEDDLE_TYPE_F8E4M3:
    case HEDDLE_TYPE_F8E5M2:
      *out = CU_TENSOR_MAP_DATA_TYPE_UINT8;
      return true;
    case HEDDLE_TYPE_I16:
    case HEDDLE_TYPE_U16:
      *out = CU_TENSOR_MAP_DATA_TYPE_UINT16;
      return true;
    case HEDDLE_TYPE_I32:
      *out = CU_TENSOR_MAP_DATA_TYPE_INT32;
      return true;
    case HEDDLE_TYPE_U32:
      *out = CU_TENSOR_MAP_DATA_TYPE_UINT32;
      return true;
    case HEDDLE_TYPE_I64:
      *out = CU_TENSOR_MAP_DATA_TYPE_INT64;
      return true;
    case HEDDLE_TYPE_U64:
      *out = CU_TENSOR_MAP_DATA_TYPE_UINT64;
      return true;
    case HEDDLE_TYPE_F16:
      *out = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
      return true;
    case HEDDLE_TYPE_BF16:
      *out = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
      return true;
    case HEDDLE_TYPE_F32:
      *out = tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
      return true;
    case HEDDLE_TYPE_F64:
      *out = CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
      return true;
    default:
      return false;
  }
}

bool swizzle_of(uint32_t bytes, CUtensorMapSwizzle* out) noexcept {
  *out = bytes == 32    ? CU_TENSOR_MAP_SWIZZLE_32B
         : bytes == 64  ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                        : CU_TENSOR_MAP_SWIZZLE_NONE;
  return bytes == 0 || bytes == 32 || bytes == 64 || bytes == 128;
}

bool promotion_of(uint32_t bytes, CUtensorMapL2promotion* out) noexcept {
  *out = bytes == 64    ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B
         : bytes == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
         : bytes == 256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                        : CU_TENSOR_MAP_L2_PROMOTION_NONE;
  return bytes == 0 || bytes == 64 || bytes == 128 || bytes == 256;
}

}  // namespace

const char* check_tensor_map(const heddle_tensor_map_t& map, uint32_t constants_bytes) noexcept {
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  if (!data_type(map.element_type, false, &type)) return "its element type has no tensor map";
  if (map.rank < 1 || map.rank > HEDDLE_TENSOR_MAP_RANK) return "its rank is not 1 to 5";
  if (!swizzle_of(map.swizzle_bytes, &swizzle)) return "its swizzle is none of 0, 32, 64 and 128 bytes";
  if (!promotion_of(map.l2_promotion_bytes, &promotion)) return "its L2 promotion is none of 0, 64, 128 and 256 bytes";
  if (map.flags & ~(HEDDLE_TENSOR_MAP_TF32 | HEDDLE_TENSOR_MAP_FILL_NAN)) return "its flags are unknown";
  for (uint32_t i = 0; i < map.rank; ++i) {
    auto bad = [&](int32_t index) {
      return index < -1 || (index >= 0 && uint64_t{8} * (static_cast<uint32_t>(index) + 1) > constants_bytes);
    };
    if (bad(map.dim_constant[i]) || (i + 1 < map.rank && bad(map.stride_constant[i]))) return "it names a constant that does not exist";
  }
  return nullptr;
}

sdk::stream::Result TensorMap::encode(sdk::stream::Address address, const int64_t* constants, char* out) const noexcept {
  const heddle_tensor_map_t& map = map_;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  data_type(map.element_type, (map.flags & HEDDLE_TENSOR_MAP_TF32) != 0, &type);
  swizzle_of(map.swizzle_bytes, &swizzle);
  promotion_of(map.l2_promotion_bytes, &promotion);
  cuuint64_t dims[HEDDLE_TENSOR_MAP_RANK] = {}, strides[HEDDLE_TENSOR_MAP_RANK] = {};
  for (uint32_t i = 0; i < map.rank; ++i) {
    dims[i] = map.dim_constant[i] < 0 ? map.dims[i] : static_cast<uint64_t>(constants[map.dim_constant[i]]);
    if (i + 1 == map.rank) break;
    strides[i] = map.stride_constant[i] < 0 ? map.strides[i] : static_cast<uint64_t>(constants[map.stride_constant[i]]);
  }
  alignas(64) CUtensorMap encoded;
  const CUresult result = cuda_.cuTensorMapEncodeTiled(
      &encoded, type, map.rank, reinterpret_cast<void*>(address), dims, strides, map.box, map.element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
      (map.flags & HEDDLE_TENSOR_MAP_FILL_NAN) ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) std::memcpy(out, &encoded, sizeof encoded);
  return result;
}

}  // namespace heddle::cuda
