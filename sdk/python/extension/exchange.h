// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// DLPack's table of C functions, by which a library's tensors are looked at and made without a Python call and a capsule for each.
#ifndef HEDDLE_PYTHON_EXTENSION_EXCHANGE_H_
#define HEDDLE_PYTHON_EXTENSION_EXCHANGE_H_

#include "extension.h"

namespace heddle::python {

// The layout of DLPackExchangeAPI. The library owns it, and it lives as long as the process. All functions need the GIL; those that
// return an int return 0, or -1 with a Python exception set.
struct ExchangeTable {
  uint32_t major, minor;
  const ExchangeTable* earlier;
  void* allocate;
  void* managed_of_object;
  // Makes an object of the library, which then owns `managed`. A new reference.
  int (*object_of_managed)(heddle_dlpack_managed_t* managed, void** out_object);
  // Fills `out` with the tensor's memory. Shape and strides are the object's own, and nothing is kept alive.
  int (*view_of_object)(void* object, heddle_dlpack_tensor_t* out);
  // The stream on which the library works now, as a cudaStream_t; NULL is the default stream.
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out_stream);

  // Of a capsule that is a class's __dlpack_c_exchange_api__. NULL if it is something else, or lacks a function that is used here.
  static const ExchangeTable* of(PyObject* capsule);
};

// An export of a tensor, whose handle it takes, to be deleted with its deleter. As heddle_dlpack_export, for any thread.
heddle_dlpack_managed_t* export_owned(heddle_tensor_t* owned, const Device& device);

}  // namespace heddle::python

#endif  // HEDDLE_PYTHON_EXTENSION_EXCHANGE_H_
