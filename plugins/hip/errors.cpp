// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hip/api.h"

namespace heddle::hip {
namespace {

using sdk::stream::Meaning;

struct Row {
  int error;
  Meaning meaning;
  heddle_status_code_t code;
};
// HIP 7 returns an error that ends a context from every later call on the device. Earlier majors end the process at a fault (docs/vendors/amd.md).
constexpr Row kRows[] = {
    {kOk, Meaning::kSuccess, HEDDLE_STATUS_OK},
    {kOutOfMemory, Meaning::kOutOfMemory, HEDDLE_STATUS_RESOURCE_EXHAUSTED},
    {kOutOfResources, Meaning::kFailed, HEDDLE_STATUS_RESOURCE_EXHAUSTED},
    {kAlreadyRegistered, Meaning::kAlreadyRegistered, HEDDLE_STATUS_INTERNAL},
    {kNotInitialized, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},  // the library was, so it has been unloaded
    {kDeinitialized, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},
    {kUncorrectableMemory, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},
    {kIllegalAddress, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},
    {kTimeOut, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},
    {kAssert, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},
    {kLaunchFailure, Meaning::kContextEnded, HEDDLE_STATUS_DEVICE_LOST},
    {kInvalidValue, Meaning::kFailed, HEDDLE_STATUS_INVALID_ARGUMENT},
    {kInvalidConfiguration, Meaning::kFailed, HEDDLE_STATUS_INVALID_ARGUMENT},
    {kInvalidHandle, Meaning::kFailed, HEDDLE_STATUS_INVALID_ARGUMENT},
    {kInvalidImage, Meaning::kFailed, HEDDLE_STATUS_INVALID_ARGUMENT},
    {kNoBinary, Meaning::kFailed, HEDDLE_STATUS_FAILED_PRECONDITION},
    {kInsufficientDriver, Meaning::kFailed, HEDDLE_STATUS_FAILED_PRECONDITION},
    {kNotFound, Meaning::kFailed, HEDDLE_STATUS_NOT_FOUND},
    {kNotSupported, Meaning::kFailed, HEDDLE_STATUS_UNIMPLEMENTED},
    {kNoDevice, Meaning::kFailed, HEDDLE_STATUS_UNAVAILABLE},
    {kInvalidDevice, Meaning::kFailed, HEDDLE_STATUS_UNAVAILABLE},
};

const Row& row_of(int error) noexcept {
  static constexpr Row kOther = {0, Meaning::kFailed, HEDDLE_STATUS_INTERNAL};
  for (const Row& row : kRows) {
    if (row.error == error) return row;
  }
  return kOther;
}

}  // namespace

Meaning meaning_of(int error) noexcept {
  return row_of(error).meaning;
}
heddle_status_code_t code_of(int error) noexcept {
  return row_of(error).code;
}

}  // namespace heddle::hip
