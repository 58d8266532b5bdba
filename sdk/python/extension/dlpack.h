// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The structs of DLPack 1.0 and those before it, as https://dmlc.github.io/dlpack defines them.
#ifndef HEDDLE_PYTHON_DLPACK_H_
#define HEDDLE_PYTHON_DLPACK_H_

#include <cstdint>

namespace heddle::python::dlpack {

constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3;

struct Device {
  int32_t type;
  int32_t id;
};

struct Type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Array {  // DLTensor
  void* data;
  Device device;
  int32_t rank;
  Type type;
  int64_t* shape;
  int64_t* strides;  // in elements; NULL: row-major and dense
  uint64_t byte_offset;
};

struct Managed {  // DLManagedTensor
  Array array;
  void* context;
  void (*deleter)(Managed*);
};

struct Versioned {  // DLManagedTensorVersioned
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Array array;
};
constexpr uint64_t kReadOnly = 1;

constexpr const char* kName = "dltensor";
constexpr const char* kUsedName = "used_dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

}  // namespace heddle::python::dlpack

#endif  // HEDDLE_PYTHON_DLPACK_H_
