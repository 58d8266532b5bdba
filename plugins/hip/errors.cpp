// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hip/errors.h"

namespace heddle::hip {

using sdk::stream::Meaning;

// Of the errors that end a context, HIP returns the same from every later call on the device. Many versions of AMD's libraries end the process at a
// fault instead (docs/vendors/amd.md).
Meaning meaning_of(int error) noexcept {
  switch (error) {
    case kOk:
      return Meaning::kSuccess;
    case kOutOfMemory:
      return Meaning::kOutOfMemory;
    case kAlreadyRegistered:
      return Meaning::kAlreadyRegistered;
    case kDeinitialized:
    case kUncorrectableMemory:
    case kIllegalAddress:
    case kTimeOut:
    case kAssert:
    case kLaunchFailure:
      return Meaning::kContextEnded;
    default:
      return Meaning::kFailed;
  }
}

heddle_status_code_t code_of(int error) noexcept {
  switch (meaning_of(error)) {
    case Meaning::kSuccess:
      return HEDDLE_STATUS_OK;
    case Meaning::kContextEnded:
      return HEDDLE_STATUS_DEVICE_LOST;
    case Meaning::kOutOfMemory:
      return HEDDLE_STATUS_RESOURCE_EXHAUSTED;
    default:
      break;
  }
  switch (error) {
    case kOutOfResources:
      return HEDDLE_STATUS_RESOURCE_EXHAUSTED;
    case kInvalidValue:
    case kInvalidConfiguration:
    case kInvalidHandle:
    case kInvalidImage:
    case kInvalidFile:
    case kInvalidSource:
      return HEDDLE_STATUS_INVALID_ARGUMENT;
    case kNoBinary:
    case kInsufficientDriver:
      return HEDDLE_STATUS_FAILED_PRECONDITION;
    case kNotFound:
      return HEDDLE_STATUS_NOT_FOUND;
    case kNotSupported:
      return HEDDLE_STATUS_UNIMPLEMENTED;
    case kNoDevice:
    case kInvalidDevice:
      return HEDDLE_STATUS_UNAVAILABLE;
    default:
      return HEDDLE_STATUS_INTERNAL;
  }
}

}  // namespace heddle::hip
