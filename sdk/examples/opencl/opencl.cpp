// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See opencl.h.
#include "opencl.h"

#include <dlfcn.h>

#include <algorithm>

namespace opencl {

namespace {

constexpr const char* kLibrary = "libOpenCL.so.1";

// What clGetPlatformInfo or clGetDeviceInfo says of an object; empty if it says nothing.
template <class Ask, class Object>
std::string text_of(Ask ask, Object object, cl_uint what) {
  size_t bytes = 0;
  if (ask(object, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  return ask(object, what, bytes, text.data(), nullptr) == CL_SUCCESS ? text.c_str() : "";
}

// 0 if the device does not say.
template <class T>
T value_of(const Functions& cl, cl_device_id device, cl_device_info what) {
  T value = {};
  return cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

}  // namespace

const Functions* open(std::string* out_why) {
  struct Opened {
    Functions functions = {};
    std::string why;
  };
  // Never closed: threads of an OpenCL platform may outlive every device.
  static const Opened opened = [] {
    Opened out;
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* reason = dlerror();
      out.why = std::string(reason ? reason : kLibrary) + "; install an OpenCL loader (Debian: ocl-icd-libopencl1)";
      return out;
    }
#define OPENCL_FIND(name)                                                                     \
  out.functions.name = reinterpret_cast<decltype(out.functions.name)>(dlsym(library, #name)); \
  if (!out.functions.name && out.why.empty()) out.why = std::string(kLibrary) + " has no function " #name;
    OPENCL_FUNCTIONS(OPENCL_FIND)
#undef OPENCL_FIND
    return out;
  }();
  *out_why = opened.why;
  return opened.why.empty() ? &opened.functions : nullptr;
}

std::vector<Found> find_devices(const Functions& cl, const std::string& platform, std::string* out_why) {
  cl_uint count = 0;
  // The loader answers CL_PLATFORM_NOT_FOUND_KHR (-1001) if no platform is installed.
  if (cl.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) {
    *out_why = "OpenCL has no platform; install one (Debian: pocl-opencl-icd for CPUs)";
    return {};
  }
  std::vector<cl_platform_id> platforms(count);
  if (cl_int error = cl.clGetPlatformIDs(count, platforms.data(), nullptr)) {
    *out_why = "asking for OpenCL's platforms gave " + name_of(error);
    return {};
  }
  std::vector<Found> out;
  std::string seen;
  for (cl_platform_id each : platforms) {
    const std::string its_name = text_of(cl.clGetPlatformInfo, each, CL_PLATFORM_NAME);
    seen += (seen.empty() ? "'" : ", '") + its_name + "'";
    if (its_name.find(platform) == std::string::npos) continue;
    if (cl.clGetDeviceIDs(each, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
    std::vector<cl_device_id> devices(count);
    if (cl.clGetDeviceIDs(each, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id device : devices) {
      const bool is_usable =
          value_of<cl_bool>(cl, device, CL_DEVICE_AVAILABLE) && value_of<cl_bool>(cl, device, CL_DEVICE_COMPILER_AVAILABLE) &&
          value_of<cl_bool>(cl, device, CL_DEVICE_ENDIAN_LITTLE) && value_of<cl_uint>(cl, device, CL_DEVICE_ADDRESS_BITS) == 64 &&
          text_of(cl.clGetDeviceInfo, device, CL_DEVICE_OPENCL_C_VERSION) >= "OpenCL C 1.2";
      if (!is_usable) continue;
      Found found = {};
      found.platform = each;
      found.device = device;
      found.name = text_of(cl.clGetDeviceInfo, device, CL_DEVICE_NAME) + " (" + its_name + ")";
      found.type = value_of<cl_device_type>(cl, device, CL_DEVICE_TYPE);
      found.compute_units = std::max<cl_uint>(1, value_of<cl_uint>(cl, device, CL_DEVICE_MAX_COMPUTE_UNITS));
      const auto width = value_of<cl_uint>(cl, device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
      found.vector_width = width >= 16 ? 16 : width >= 8 ? 8 : 4;
      found.has_f64 = value_of<cl_device_fp_config>(cl, device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
      found.memory_bytes = value_of<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE);
      found.max_allocation_bytes = value_of<cl_ulong>(cl, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
      found.alignment_bytes = std::max<cl_uint>(64, value_of<cl_uint>(cl, device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
      found.local_bytes = value_of<cl_ulong>(cl, device, CL_DEVICE_LOCAL_MEM_SIZE);
      found.workgroup_size = std::max<size_t>(1, value_of<size_t>(cl, device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
      out.push_back(std::move(found));
    }
  }
  if (out.empty())
    *out_why =
        "no platform of OpenCL whose name contains '" + platform + "' has a 64-bit device that compiles OpenCL C 1.2; there is " + seen;
  return out;
}

std::string name_of(cl_int error) {
#define OPENCL_ERRORS(each)                                                                                                      \
  each(CL_DEVICE_NOT_FOUND) each(CL_DEVICE_NOT_AVAILABLE) each(CL_COMPILER_NOT_AVAILABLE) each(CL_MEM_OBJECT_ALLOCATION_FAILURE) \
      each(CL_OUT_OF_RESOURCES) each(CL_OUT_OF_HOST_MEMORY) each(CL_MEM_COPY_OVERLAP) each(CL_BUILD_PROGRAM_FAILURE)             \
          each(CL_INVALID_CONTEXT) each(CL_INVALID_VALUE) each(CL_INVALID_BUFFER_SIZE) each(CL_INVALID_KERNEL_NAME)              \
              each(CL_INVALID_KERNEL_ARGS) each(CL_INVALID_WORK_GROUP_SIZE)
#define OPENCL_NAME(name) \
  if (error == name) return #name " (" + std::to_string(error) + ")";
  OPENCL_ERRORS(OPENCL_NAME)
  return "OpenCL's error (" + std::to_string(error) + ")";
}

}  // namespace opencl
