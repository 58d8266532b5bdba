// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// OpenCL's functions, from its loader when a test runs. Functions and numbers as in Khronos' cl.h, which is not needed to build this.
#ifndef HEDDLE_TESTS_OPENCL_H_
#define HEDDLE_TESTS_OPENCL_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::test {

// Of CL_DEVICE_TYPE_*, then of clGet*Info: CL_PLATFORM_*, CL_DEVICE_*, CL_PROGRAM_*.
constexpr uint64_t kOpenClCpu = 2, kOpenClAll = 0xffffffff;
constexpr unsigned kOpenClPlatformName = 0x0902, kOpenClName = 0x102b, kOpenClExtensions = 0x1030, kOpenClIlVersion = 0x105b,
                   kOpenClMaxGroup = 0x1004, kOpenClUnits = 0x1002, kOpenClSvm = 0x1053, kOpenClBuildLog = 0x1183;

struct OpenClFunctions {
  int (*clGetPlatformIDs)(unsigned entries, void** platforms, unsigned* count);
  int (*clGetPlatformInfo)(void* platform, unsigned what, size_t bytes, void* value, size_t* needed);
  int (*clGetDeviceIDs)(void* platform, uint64_t type, unsigned entries, void** devices, unsigned* count);
  int (*clGetDeviceInfo)(void* device, unsigned what, size_t bytes, void* value, size_t* needed);
  void* (*clCreateContext)(const intptr_t* properties, unsigned count, void* const* devices, void* notify, void* data, int* error);
  void* (*clCreateCommandQueueWithProperties)(void* context, void* device, const uint64_t* properties, int* error);
  void* (*clCreateProgramWithIL)(void* context, const void* bytes, size_t size, int* error);
  void* (*clCreateProgramWithBinary)(void* context, unsigned count, void* const* devices, const size_t* sizes,
                                     const unsigned char** binaries, int* states, int* error);
  int (*clBuildProgram)(void* program, unsigned count, void* const* devices, const char* options, void* notify, void* data);
  int (*clGetProgramBuildInfo)(void* program, void* device, unsigned what, size_t bytes, void* value, size_t* needed);
  int (*clReleaseProgram)(void* program);
  void* (*clCreateKernel)(void* program, const char* name, int* error);
  int (*clReleaseKernel)(void* kernel);
  int (*clSetKernelArg)(void* kernel, unsigned index, size_t bytes, const void* value);
  int (*clSetKernelArgSVMPointer)(void* kernel, unsigned index, const void* pointer);
  int (*clEnqueueNDRangeKernel)(void* queue, void* kernel, unsigned dimensions, const size_t* offset, const size_t* global,
                                const size_t* local, unsigned waits, void* const* events, void** event);
  int (*clFinish)(void* queue);
  void* (*clSVMAlloc)(void* context, uint64_t flags, size_t bytes, unsigned alignment);
  void (*clSVMFree)(void* context, void* pointer);

  // Opens a loader, which stays open. Empty, or why that failed.
  std::string find(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    const char* missing = nullptr;
#define HEDDLE_FIND(name) \
  if ((name = reinterpret_cast<decltype(name)>(dlsym(library, #name))) == nullptr) missing = #name
    HEDDLE_FIND(clGetPlatformIDs);
    HEDDLE_FIND(clGetPlatformInfo);
    HEDDLE_FIND(clGetDeviceIDs);
    HEDDLE_FIND(clGetDeviceInfo);
    HEDDLE_FIND(clCreateContext);
    HEDDLE_FIND(clCreateCommandQueueWithProperties);
    HEDDLE_FIND(clCreateProgramWithIL);
    HEDDLE_FIND(clCreateProgramWithBinary);
    HEDDLE_FIND(clBuildProgram);
    HEDDLE_FIND(clGetProgramBuildInfo);
    HEDDLE_FIND(clReleaseProgram);
    HEDDLE_FIND(clCreateKernel);
    HEDDLE_FIND(clReleaseKernel);
    HEDDLE_FIND(clSetKernelArg);
    HEDDLE_FIND(clSetKernelArgSVMPointer);
    HEDDLE_FIND(clEnqueueNDRangeKernel);
    HEDDLE_FIND(clFinish);
    HEDDLE_FIND(clSVMAlloc);
    HEDDLE_FIND(clSVMFree);
#undef HEDDLE_FIND
    return missing == nullptr ? "" : std::string(path) + " has no " + missing;
  }

  // A device's text, or an empty one.
  std::string text(void* device, unsigned what) const {
    size_t needed = 0;
    if (clGetDeviceInfo(device, what, 0, nullptr, &needed) != 0 || needed == 0) return "";
    std::string value(needed, 0);
    if (clGetDeviceInfo(device, what, needed, value.data(), nullptr) != 0) return "";
    return value.c_str();
  }

  std::string build_log(void* program, void* device) const {
    size_t needed = 0;
    if (clGetProgramBuildInfo(program, device, kOpenClBuildLog, 0, nullptr, &needed) != 0 || needed <= 1) return "";
    std::string value(needed, 0);
    if (clGetProgramBuildInfo(program, device, kOpenClBuildLog, needed, value.data(), nullptr) != 0) return "";
    return value.c_str();
  }
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_OPENCL_H_
