// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps CUDA's result codes to those of Heddle.
#include "cuda/errors.h"

#include <cstdarg>
#include <cstdio>

namespace heddle::cuda {

bool ends_context(CUresult result) noexcept {
  switch (result) {
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
      return true;
    default:
      return false;
  }
}

heddle_status_code_t code_of(CUresult result) noexcept {
  if (ends_context(result)) return HEDDLE_STATUS_DEVICE_LOST;
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

heddle_status_t* cuda_status(const heddle_host_t* host, const Api& api, heddle_status_code_t code, CUresult result, const char* format,
                             ...) noexcept {
  char text[1536];
  va_list arguments;
  va_start(arguments, format);
  int used = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  used = used < 0 ? 0 : used;
  size_t size = static_cast<size_t>(used) < sizeof text ? static_cast<size_t>(used) : sizeof text - 1;
  const char *name = nullptr, *meaning = nullptr;
  api.cuGetErrorName(result, &name);
  api.cuGetErrorString(result, &meaning);
  const int more =
      std::snprintf(text + size, sizeof text - size, ": %s (%s)", name ? name : "unknown error", meaning ? meaning : "no text");
  if (more > 0) size += static_cast<size_t>(more) < sizeof text - size ? static_cast<size_t>(more) : sizeof text - size - 1;
  return host->status_create(host->self, code, sdk::string_of("cuda"), result, sdk::string_of(std::string_view(text, size)));
}

}  // namespace heddle::cuda
