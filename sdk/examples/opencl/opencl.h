// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// OpenCL 1.2, from the loader of the system: a plugin does not link to a vendor's library (HD-B-02), so that it can say what is missing.
#ifndef OPENCL_EXAMPLE_OPENCL_H_
#define OPENCL_EXAMPLE_OPENCL_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <vector>

namespace opencl {

#define OPENCL_FUNCTIONS(each)                                                                                                             \
  each(clGetPlatformIDs) each(clGetPlatformInfo) each(clGetDeviceIDs) each(clGetDeviceInfo) each(clCreateContext) each(clReleaseContext)   \
      each(clCreateCommandQueue) each(clReleaseCommandQueue) each(clCreateBuffer) each(clReleaseMemObject) each(clEnqueueReadBuffer)       \
          each(clEnqueueWriteBuffer) each(clEnqueueCopyBuffer) each(clEnqueueCopyBufferRect) each(clEnqueueFillBuffer) each(clFinish)      \
              each(clCreateProgramWithSource) each(clBuildProgram) each(clGetProgramBuildInfo) each(clReleaseProgram) each(clCreateKernel) \
                  each(clGetKernelInfo) each(clGetKernelArgInfo) each(clReleaseKernel) each(clSetKernelArg) each(clEnqueueNDRangeKernel)

struct Functions {
#define OPENCL_MEMBER(name) decltype(&::name) name;
  OPENCL_FUNCTIONS(OPENCL_MEMBER)
#undef OPENCL_MEMBER
};

struct Found {
  cl_platform_id platform;
  cl_device_id device;
  std::string name;  // "pthread-skylake-avx512 (Portable Computing Language)"
  cl_device_type type;
  uint32_t compute_units, vector_width;  // vector_width: 4, 8 or 16 floats
  bool has_f64;
  uint64_t memory_bytes, max_allocation_bytes, alignment_bytes, local_bytes, workgroup_size;
};

// The functions, from libOpenCL.so.1, which stays open; NULL: *out_why says what is missing. Any thread.
const Functions* open(std::string* out_why);
// All devices of the platforms whose names contain `platform` that compile OpenCL C 1.2. If there are none, *out_why says what was found.
std::vector<Found> find_devices(const Functions& cl, const std::string& platform, std::string* out_why);
// "CL_OUT_OF_RESOURCES (-5)"
std::string name_of(cl_int error);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_OPENCL_H_
