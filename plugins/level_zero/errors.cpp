// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/errors.h"

#include "level_zero/imports.h"

namespace heddle::level_zero {
namespace {

struct Known {
  ze_result_t result;
  const char* name;
  heddle_status_code_t code;
  const char* text;
};
#define KNOWN(name, code, text)                                      \
  Known {                                                            \
    ZE_RESULT_##name, "ZE_RESULT_" #name, HEDDLE_STATUS_##code, text \
  }
constexpr Known kKnown[] = {
    KNOWN(SUCCESS, OK, "success"),
    KNOWN(NOT_READY, INTERNAL, "not signalled yet"),
    KNOWN(ERROR_DEVICE_LOST, DEVICE_LOST, "the device hung, was reset or removed, or its driver was updated"),
    KNOWN(ERROR_DEVICE_REQUIRES_RESET, DEVICE_LOST, "the device has to be reset"),
    KNOWN(ERROR_OUT_OF_HOST_MEMORY, RESOURCE_EXHAUSTED, "not enough memory of the host"),
    KNOWN(ERROR_OUT_OF_DEVICE_MEMORY, RESOURCE_EXHAUSTED, "not enough memory of the device"),
    KNOWN(ERROR_MODULE_BUILD_FAILURE, INVALID_ARGUMENT, "the driver's compiler refuses the module"),
    KNOWN(ERROR_MODULE_LINK_FAILURE, INVALID_ARGUMENT, "the driver's linker refuses the module"),
    KNOWN(ERROR_DEVICE_IN_LOW_POWER_STATE, UNAVAILABLE, "the device is in a low-power state"),
    KNOWN(ERROR_INSUFFICIENT_PERMISSIONS, PERMISSION_DENIED, "this user may not do that"),
    KNOWN(ERROR_NOT_AVAILABLE, UNAVAILABLE, "another user has it for itself"),
    KNOWN(ERROR_DEPENDENCY_UNAVAILABLE, UNAVAILABLE, "a library that the driver needs is missing"),
    KNOWN(ERROR_UNINITIALIZED, DEVICE_LOST, "the driver is not initialized, or its library was unloaded, as at the end of a process"),
    KNOWN(ERROR_UNSUPPORTED_VERSION, FAILED_PRECONDITION, "the version is not supported"),
    KNOWN(ERROR_UNSUPPORTED_FEATURE, UNIMPLEMENTED, "the driver does not have that"),
    KNOWN(ERROR_INVALID_ARGUMENT, INVALID_ARGUMENT, "an argument is wrong"),
    KNOWN(ERROR_INVALID_NULL_HANDLE, INVALID_ARGUMENT, "a handle is wrong"),
    KNOWN(ERROR_HANDLE_OBJECT_IN_USE, FAILED_PRECONDITION, "the device still uses the object"),
    KNOWN(ERROR_INVALID_NULL_POINTER, INVALID_ARGUMENT, "a pointer is null"),
    KNOWN(ERROR_INVALID_SIZE, INVALID_ARGUMENT, "a size is wrong"),
    KNOWN(ERROR_UNSUPPORTED_SIZE, RESOURCE_EXHAUSTED, "the size is more than the device supports"),
    KNOWN(ERROR_UNSUPPORTED_ALIGNMENT, INVALID_ARGUMENT, "the alignment is not supported"),
    KNOWN(ERROR_INVALID_SYNCHRONIZATION_OBJECT, INVALID_ARGUMENT, "an event or a fence is in the wrong state"),
    KNOWN(ERROR_INVALID_ENUMERATION, INVALID_ARGUMENT, "a value is none of its enumeration"),
    KNOWN(ERROR_UNSUPPORTED_ENUMERATION, UNIMPLEMENTED, "the device does not support that value"),
    KNOWN(ERROR_UNSUPPORTED_IMAGE_FORMAT, UNIMPLEMENTED, "the format of images is not supported"),
    KNOWN(ERROR_INVALID_NATIVE_BINARY, INVALID_ARGUMENT, "the machine code is not for this device"),
    KNOWN(ERROR_INVALID_GLOBAL_NAME, NOT_FOUND, "the module has no variable of that name"),
    KNOWN(ERROR_INVALID_KERNEL_NAME, NOT_FOUND, "the module has no kernel of that name"),
    KNOWN(ERROR_INVALID_FUNCTION_NAME, NOT_FOUND, "the module has no function of that name"),
    KNOWN(ERROR_INVALID_GROUP_SIZE_DIMENSION, INVALID_ARGUMENT, "the workgroup's size does not fit the kernel or the device"),
    KNOWN(ERROR_INVALID_GLOBAL_WIDTH_DIMENSION, INVALID_ARGUMENT, "the grid does not fit the kernel or the device"),
    KNOWN(ERROR_INVALID_KERNEL_ARGUMENT_INDEX, INVALID_ARGUMENT, "the kernel has no argument of that index"),
    KNOWN(ERROR_INVALID_KERNEL_ARGUMENT_SIZE, INVALID_ARGUMENT, "the kernel's argument has another size"),
    KNOWN(ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE, INVALID_ARGUMENT, "an attribute of the kernel is wrong"),
    KNOWN(ERROR_INVALID_MODULE_UNLINKED, INVALID_ARGUMENT, "the module imports what is not there"),
    KNOWN(ERROR_INVALID_COMMAND_LIST_TYPE, INTERNAL, "list and queue are of different kinds"),
    KNOWN(ERROR_OVERLAPPING_REGIONS, INVALID_ARGUMENT, "source and target of a copy overlap"),
    KNOWN(ERROR_UNKNOWN, INTERNAL, "the driver does not say why"),
};
#undef KNOWN

const Known* find(ze_result_t result) noexcept {
  for (const Known& known : kKnown) {
    if (known.result == result) return &known;
  }
  return nullptr;
}

}  // namespace

const char* name_of(ze_result_t result) noexcept {
  const Known* known = find(result);
  return known ? known->name : nullptr;
}

const char* text_of(ze_result_t result) noexcept {
  const Known* known = find(result);
  return known ? known->text : nullptr;
}

heddle_status_code_t code_of(ze_result_t result) noexcept {
  const Known* known = find(result);
  return known ? known->code : HEDDLE_STATUS_INTERNAL;
}

stream::Meaning meaning_of(ze_result_t result) noexcept {
  using stream::Meaning;
  if (result == ZE_RESULT_SUCCESS) return Meaning::kSuccess;
  if (result == kImportedByOthers) return Meaning::kAlreadyRegistered;
  if (code_of(result) == HEDDLE_STATUS_RESOURCE_EXHAUSTED) return Meaning::kOutOfMemory;
  return code_of(result) == HEDDLE_STATUS_DEVICE_LOST ? Meaning::kContextEnded : Meaning::kFailed;
}

}  // namespace heddle::level_zero
