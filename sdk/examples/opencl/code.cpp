// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See code.h.
#include "code.h"

#include <algorithm>

#include "heddle/code.h"
#include "instructions.h"
#include "product.h"
#include "writer.h"

namespace opencl {

namespace {

constexpr int kLanes = 16;              // parts of a fold that are added up beside each other
constexpr int kBlock = 128;             // elements that a work-item of a processor takes at a time
constexpr size_t kMostLogBytes = 2000;  // of a compiler's messages, in an error text

// Whether the kernel has the arguments of code.h.
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

heddle_status_t* load_own(Device* device, const sdk::Code& code, const std::string& who, Executable* out) {
  if (heddle_status_t* bad = device->build({code.bytes, code.size}, who, &out->program)) return bad;
  for (const heddle_entry_params_t& entry : code.entries) {
    Kernel& kernel = out->kernels.emplace_back();
    kernel.name = sdk::view_of(entry.name);
    kernel.bindings = entry.binding_count;
    kernel.constants_bytes = entry.constants_bytes;
    for (size_t d = 0; d < 3; ++d) kernel.workgroup_size[d] = std::max(1u, entry.workgroup_size[d]);
    cl_int error = CL_SUCCESS;
    kernel.object = device->cl.clCreateKernel(out->program, kernel.name.c_str(), &error);
    auto refuse = [&](heddle_status_code_t status, const std::string& why) {
      return sdk::status(device->host, status, "%s: loading kernel '%s' failed: %s [HD-C-01]", kWho, kernel.name.c_str(), why.c_str());
    };
    if (error == CL_INVALID_KERNEL_NAME) return refuse(HEDDLE_STATUS_NOT_FOUND, "the code has none of this name");
    if (error) return refuse(HEDDLE_STATUS_INTERNAL, name_of(error));
    if (entry.argument_count || entry.constants_bytes % 8 || entry.shared_memory_bytes)
      return refuse(HEDDLE_STATUS_INVALID_ARGUMENT,
                    "kernels of opencl/1 take their arguments in fixed order, constants of 8 bytes, and no dynamic memory");
    if (const std::string why = wrong_arguments(device->cl, kernel.object, entry); !why.empty())
      return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, why);
  }
  return nullptr;
}

// Builds the OpenCL C of portable code; if the image has none, it is written now.
heddle_status_t* build_portable(Device* device, const Image& image, const std::string& who, Executable* out) {
  std::string source(image.source);
  if (source.empty()) {
    std::vector<const portable::Kernel*> kernels;
    for (const Kernel& kernel : out->kernels) kernels.push_back(&kernel.program->kernel());
    source = write_program(kernels);
  }
  if (source.empty()) return nullptr;
  if (heddle_status_t* bad = device->build(source, who, &out->program)) return bad;
  bool has_product = false;
  for (const Kernel& kernel : out->kernels) {
    const portable::Kernel& code = kernel.program->kernel();
    for (uint32_t node = 0; node < code.nodes.size(); ++node) has_product |= is_product(code, node);
  }
  cl_program product = nullptr;
  if (has_product) {
    if (heddle_status_t* bad = device->product(&product)) return bad;
  }
  for (size_t i = 0; i < out->kernels.size(); ++i) {
    Kernel& kernel = out->kernels[i];
    if (!why_not_written(kernel.program->kernel()).empty()) continue;
    std::string missing;
    kernel.runner = std::make_unique<Runner>(device->cl, device->context, device->found, *kernel.program, out->program, product,
                                             "k" + std::to_string(i), &missing);
    if (!missing.empty())
      return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                         "%s: %s failed: its OpenCL C has no function '%s' for kernel '%s' [HD-C-01]", kWho, who.c_str(), missing.c_str(),
                         kernel.name.c_str());
  }
  return nullptr;
}

heddle_status_t* load_portable(Device* device, const sdk::Code& code, const Image& image, const std::string& who, Executable* out) {
  std::vector<portable::Program> programs;
  std::string error;
  if (!portable::load(image.portable, &programs, &error))
    return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s failed: %s [HD-C-01]", kWho, who.c_str(), error.c_str());
  for (portable::Program& program : programs) {
    Kernel& kernel = out->kernels.emplace_back();
    kernel.name = program.kernel().name;
    kernel.bindings = program.kernel().inputs + program.kernel().outputs;
    kernel.constants_bytes = program.kernel().symbols * 8;
    kernel.program = std::move(program);
  }
  if (device->translates || !image.source.empty()) {
    if (heddle_status_t* bad = build_portable(device, image, who, out)) return bad;
  }
  for (const heddle_entry_params_t& entry : code.entries) {
    const auto* kernel = static_cast<const Kernel*>(out->find(sdk::view_of(entry.name)));
    if (!kernel || (kernel->bindings == entry.binding_count && kernel->constants_bytes == entry.constants_bytes && !entry.argument_count))
      continue;
    return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                       "%s: loading kernel '%s' failed: it takes %u bindings and %u bytes of constants, in fixed order [HD-C-01]", kWho,
                       kernel->name.c_str(), kernel->bindings, kernel->constants_bytes);
  }
  return nullptr;
}

}  // namespace

Executable::~Executable() {
  for (Kernel& kernel : kernels) {
    kernel.runner.reset();
    if (kernel.object) cl_.clReleaseKernel(kernel.object);
  }
  if (program) cl_.clReleaseProgram(program);
}

const void* Executable::find(std::string_view name) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& kernel) { return kernel.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

heddle_status_t* Device::build(std::string_view source, const std::string& who, cl_program* out) {
  const bool is_cpu = found.type & CL_DEVICE_TYPE_CPU;
  const std::string options = "-cl-std=CL1.2 -cl-kernel-arg-info -DWIDTH=" + std::to_string(found.vector_width) +
                              " -DBLOCK=" + std::to_string(is_cpu ? kBlock : 1) + "L -DLANES=" + std::to_string(is_cpu ? kLanes : 1) + "L" +
                              (found.has_f64 ? " -DHAS_F64" : "");
  const char* text = source.data();
  const size_t length = source.size();
  cl_int error = CL_SUCCESS;
  *out = cl.clCreateProgramWithSource(context, 1, &text, &length, &error);
  if (error) return check(error, who.c_str());
  error = cl.clBuildProgram(*out, 1, &found.device, options.c_str(), nullptr, nullptr);
  if (!error) return nullptr;
  std::string log;
  size_t bytes = 0;
  if (!cl.clGetProgramBuildInfo(*out, found.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes)) {
    log.resize(bytes);
    if (cl.clGetProgramBuildInfo(*out, found.device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr)) log.clear();
  }
  log.resize(std::min(log.find_last_not_of(std::string("\0 \n", 3)) + 1, kMostLogBytes));
  return sdk::status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s failed: OpenCL's compiler gave %s:\n%s [HD-C-01]", kWho, who.c_str(),
                     name_of(error).c_str(), log.c_str());
}

heddle_status_t* Device::product(cl_program* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!product_) {
    if (heddle_status_t* failed = build(std::string(kPrelude) + kProduct, "building the kernel for products", &product_)) {
      if (product_) cl.clReleaseProgram(product_);
      product_ = nullptr;
      return failed;
    }
  }
  *out = product_;
  return nullptr;
}

heddle_status_t* load_code(Device* device, const sdk::Code& code, Executable* out) {
  const std::string who = "loading executable '" + std::string(code.name.substr(0, 100)) + "'";
  Image image;
  std::string error;
  if (!read_image(code.format, {code.bytes, code.size}, &image, &error))
    return sdk::status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s failed: %s [HD-C-01]", kWho, who.c_str(), error.c_str());
  return image.portable.empty() ? load_own(device, code, who, out) : load_portable(device, code, image, who, out);
}

}  // namespace opencl
