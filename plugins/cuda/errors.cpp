// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cuda/errors.h"

namespace heddle::cuda {

using sdk::stream::Meaning;

Meaning meaning_of(CUresult result) noexcept {
  switch (result) {
    case CUDA_SUCCESS:
      return Meaning::kSuccess;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return Meaning::kOutOfMemory;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      return Meaning::kAlreadyRegistered;
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return Meaning::kContextEnded;
    default:
      return Meaning::kFailed;
  }
}

heddle_status_code_t code_of(CUresult result) noexcept {
  if (meaning_of(result) == Meaning::kContextEnded) return HEDDLE_STATUS_DEVICE_LOST;
  switch (result) {
    case CUDA_SUCCESS:
      return HEDDLE_STATUS_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return HEDDLE_STATUS_RESOURCE_EXHAUSTED;
    case CUDA_ERROR_INVALID_VALUE:
      return HEDDLE_STATUS_INVALID_ARGUMENT;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
      return HEDDLE_STATUS_INVALID_ARGUMENT;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return HEDDLE_STATUS_FAILED_PRECONDITION;
    case CUDA_ERROR_NOT_FOUND:
      return HEDDLE_STATUS_NOT_FOUND;
    case CUDA_ERROR_NOT_PERMITTED:
      return HEDDLE_STATUS_PERMISSION_DENIED;
    case CUDA_ERROR_NOT_SUPPORTED:
      return HEDDLE_STATUS_UNIMPLEMENTED;
    default:
      return HEDDLE_STATUS_INTERNAL;
  }
}

}  // namespace heddle::cuda
