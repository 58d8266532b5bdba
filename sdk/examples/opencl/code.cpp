// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See code.h.
#include "code.h"

#include <algorithm>

#include "heddle/code.h"

namespace opencl {

namespace {

constexpr int kLanes = 16;              // parts of a fold that are added up beside each other
constexpr int kBlock = 128;             // elements that a work-item of a processor takes at a time
constexpr size_t kMostLogBytes = 2000;  // of a compiler's messages, in an error text

// A kernel in OpenCL C, with the arguments of image.h.
class Own final : public Kernel {
 public:
  Own(const Functions& cl, cl_kernel object, const heddle_entry_params_t& entry) : cl_(cl), object_(object) {
    for (size_t d = 0; d < 3; ++d) workgroup_size_[d] = std::max(1u, entry.workgroup_size[d]);
  }
  ~Own() override { cl_.clReleaseKernel(object_); }

  heddle_status_t* run(Device* device, const sdk::Operation& dispatch) const override {
    cl_uint argument = 0;
    cl_int error = CL_SUCCESS;
    auto set = [&](size_t bytes, const void* value) { error = error ? error : cl_.clSetKernelArg(object_, argument++, bytes, value); };
    for (const sdk::Range& range : dispatch.ranges) {
      const cl_mem memory = range.buffer ? object_of(range) : nullptr;
      const cl_ulong offset = range.buffer ? range.offset : 0;
      set(sizeof memory, range.buffer ? &memory : nullptr);
      set(sizeof offset, &offset);
    }
    for (size_t at = 0; at < dispatch.bytes.size(); at += 8) set(8, dispatch.bytes.data() + at);
    size_t global[3];
    for (size_t d = 0; d < 3; ++d) global[d] = dispatch.grid[d] * workgroup_size_[d];
    if (!error) error = cl_.clEnqueueNDRangeKernel(device->queue, object_, 3, nullptr, global, workgroup_size_, 0, nullptr, nullptr);
    heddle_status_t* failure =
        device->check(error, "running kernel '" + dispatch.entry->name + "' (region " + std::to_string(dispatch.region) + ")");
    if (failure) sdk::set_region(device->host, failure, dispatch.region);
    return failure;
  }

 private:
  const Functions& cl_;
  cl_kernel object_;
  size_t workgroup_size_[3];
};

// Whether the kernel has the arguments of image.h.
std::string wrong_arguments(const Functions& cl, cl_kernel kernel, const heddle_entry_params_t& entry) {
  cl_uint count = 0;
  const cl_uint buffers = 2 * entry.binding_count, wanted = buffers + entry.constants_bytes / 8;
  if (cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr) || count != wanted)
    return "it has " + std::to_string(count) + " arguments, and " + std::to_string(entry.binding_count) + " bindings and " +
           std::to_string(entry.constants_bytes / 8) + " constants are " + std::to_string(wanted);
  for (cl_uint i = 0; i < count; ++i) {
    char type[32] = {};
    cl_kernel_arg_address_qualifier space = 0;
    const char* right = i >= buffers ? "long" : i % 2 == 0 ? "uchar*" : "ulong";
    const cl_int error = cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type - 1, type, nullptr);
    if (error == CL_KERNEL_ARG_INFO_NOT_AVAILABLE) return {};
    if (error || std::string_view(type) != right ||
        cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, nullptr) ||
        (space == CL_KERNEL_ARG_ADDRESS_GLOBAL) != (i < buffers && i % 2 == 0)) {
      return "its argument " + std::to_string(i) + " is no " + (i < buffers && i % 2 == 0 ? "global " : "") + right;
    }
  }
  return {};
}

heddle_status_t* load_own(Device* device, const sdk::Code& code, cl_program program, Executable* out) {
  for (const heddle_entry_params_t& entry : code.entries) {
    const std::string name(sdk::view_of(entry.name));
    auto refuse = [&](heddle_status_code_t status, const std::string& why) {
      return sdk::status(device->host, status, "%s: loading kernel '%s' failed: %s [HD-C-01]", device->who, name.c_str(), why.c_str());
    };
    cl_int error = CL_SUCCESS;
    cl_kernel object = device->cl.clCreateKernel(program, name.c_str(), &error);
    if (error == CL_INVALID_KERNEL_NAME) return refuse(HEDDLE_STATUS_NOT_FOUND, "the code has none of this name");
    if (error) return refuse(HEDDLE_STATUS_INTERNAL, name_of(error));
    out->kernels[name] = std::make_unique<Own>(device->cl, object, entry);
    if (entry.argument_count || entry.constants_bytes % 8 || entry.shared_memory_bytes)
      return refuse(HEDDLE_STATUS_INVALID_ARGUMENT,
                    "kernels of opencl/1 take their arguments in fixed order, constants of 8 bytes, and no dynamic memory");
    if (const std::string why = wrong_arguments(device->cl, object, entry); !why.empty())
      return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, why);
  }
  return nullptr;
}

}  // namespace

heddle_status_t* build(Device* device, const std::string& source, const std::string& who, cl_program* out) {
  const Functions& cl = device->cl;
  const Found& found = device->found;
  const bool is_cpu = found.type & CL_DEVICE_TYPE_CPU;
  const std::string options = "-cl-std=CL1.2 -cl-kernel-arg-info -DWIDTH=" + std::to_string(found.vector_width) +
                              " -DBLOCK=" + std::to_string(is_cpu ? kBlock : 1) + "L -DLANES=" + std::to_string(is_cpu ? kLanes : 1) + "L" +
                              (found.has_f64 ? " -DHAS_F64" : "");
  const char* text = source.data();
  const size_t length = source.size();
  cl_int error = CL_SUCCESS;
  cl_program program = cl.clCreateProgramWithSource(device->context, 1, &text, &length, &error);
  if (error) return device->check(error, who);
  error = cl.clBuildProgram(program, 1, &found.device, options.c_str(), nullptr, nullptr);
  if (!error) {
    *out = program;
    return nullptr;
  }
  std::string log;
  size_t bytes = 0;
  if (!cl.clGetProgramBuildInfo(program, found.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes)) {
    log.resize(bytes);
    if (cl.clGetProgramBuildInfo(program, found.device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr)) log.clear();
  }
  log.resize(std::min(log.find_last_not_of(std::string("\0 \n", 3)) + 1, kMostLogBytes));
  cl.clReleaseProgram(program);
  return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s failed: OpenCL's compiler gave %s:\n%s [HD-C-01]", device->who,
                     who.c_str(), name_of(error).c_str(), log.c_str());
}

heddle_status_t* load_opencl(Device* device, const sdk::Code& code, Executable* out) {
  if (code.format == HEDDLE_CODE_PORTABLE || has_functions({code.bytes, code.size})) return load_translated(device, code, out);
  cl_program program = nullptr;
  const std::string who = "loading executable '" + std::string(code.name.substr(0, 100)) + "'";
  if (heddle_status_t* bad = build(device, std::string(code.bytes, code.size), who, &program)) return bad;
  heddle_status_t* failed = load_own(device, code, program, out);
  device->cl.clReleaseProgram(program);  // its kernels keep it
  return failed;
}

}  // namespace opencl
