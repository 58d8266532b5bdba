// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See device.h. Every range and limit is checked before these functions are called.
#include "device.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "code.h"
#include "heddle/code.h"
#include "heddle/sdk/portable/dispatch.h"

namespace opencl {

using sdk::number;
using sdk::status;
using Kind = sdk::Operation::Kind;

namespace {

cl_mem object_of(const sdk::Range& range) {
  return static_cast<const Buffer*>(range.buffer)->object;
}

uint32_t threads_of(uint32_t wanted) {
  return wanted ? wanted : std::max(1u, std::thread::hardware_concurrency());
}

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

Driver::Driver(const heddle_host_t* host, const Functions& functions, std::vector<Found> found, Options its_options)
    : sdk::Driver(host, kWho), cl(functions), options(std::move(its_options)), found_(std::move(found)) {}

heddle_status_t* Driver::describe(uint32_t ordinal, heddle_device_description_t* out) {
  static const heddle_string_t formats[] = {sdk::string_of(kFormat), sdk::string_of(HEDDLE_CODE_PORTABLE)};
  const Found& found = found_[ordinal];
  out->name = sdk::string_of(found.name);
  out->family = sdk::string_of("opencl");
  out->numa_node = -1;
  out->features = HEDDLE_DEVICE_RECORDING;
  out->memory_kinds = HEDDLE_MEMORY_DEVICE;
  out->compute_units = found.compute_units;
  out->memory_bytes = options.memory_bytes ? std::min(options.memory_bytes, found.memory_bytes) : found.memory_bytes;
  out->max_allocation_bytes = std::min(found.max_allocation_bytes, out->memory_bytes);
  out->min_alignment_bytes = found.alignment_bytes;
  out->shared_memory_bytes = found.local_bytes;
  out->max_workgroup_size = static_cast<uint32_t>(std::min<uint64_t>(found.workgroup_size, UINT32_MAX));
  for (uint32_t& most : out->max_workgroup_count) most = 1 << 20;
  out->max_bindings = portable::kMostBindings;
  out->max_constants_bytes = portable::kMostSymbols * 8;
  out->code_format_count = 2;
  out->code_formats = formats;
  return nullptr;
}

heddle_status_t* Driver::open(uint32_t ordinal, const heddle_device_open_params_t& params, sdk::Device** out) {
  auto* device = sdk::make<Device>(host(), this, ordinal, params.api, found_[ordinal]);
  if (heddle_status_t* failed = device->start()) {
    sdk::unmake(host(), device);
    return failed;
  }
  *out = device;
  return nullptr;
}

Device::Device(Driver* its_driver, uint32_t ordinal, const heddle_driver_api_t* api, const Found& its_facts)
    : sdk::Device(its_driver, ordinal, api),
      cl(its_driver->cl),
      found(its_facts),
      translates(its_driver->options.translate),
      helpers_(threads_of(its_driver->options.threads)) {}

heddle_status_t* Device::start() {
  cl_int error = CL_SUCCESS;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
  context = cl.clCreateContext(properties, 1, &found.device, nullptr, nullptr, &error);
  if (!error) queue = cl.clCreateCommandQueue(context, found.device, 0, &error);
  if (error) return check(error, "opening the device");
  worker_.emplace(this, [this](const sdk::Operation& operation) { return run(operation); }, [this] { return finish(); });
  return nullptr;
}

Device::~Device() {
  worker_.reset();
  if (scratch_.object) cl.clReleaseMemObject(scratch_.object);
  if (product_) cl.clReleaseProgram(product_);
  if (queue) cl.clReleaseCommandQueue(queue);
  if (context) cl.clReleaseContext(context);
}

heddle_status_t* Device::check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return nullptr;
  const bool is_full = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES || error == CL_OUT_OF_HOST_MEMORY;
  const bool is_lost = error == CL_DEVICE_NOT_AVAILABLE;
  heddle_status_t* failure = status(host,
                                    is_full   ? HEDDLE_STATUS_RESOURCE_EXHAUSTED
                                    : is_lost ? HEDDLE_STATUS_DEVICE_LOST
                                              : HEDDLE_STATUS_INTERNAL,
                                    "%s: %s failed: OpenCL gave %s for device %u, %s%s", kWho, what, name_of(error).c_str(), ordinal,
                                    found.name.c_str(), is_lost ? " [HD-S-02]" : "");
  if (is_lost) lose(host->status_clone(host->self, failure));
  return failure;
}

heddle_status_t* Device::allocate(const heddle_buffer_params_t& params, sdk::Buffer** out) {
  cl_int error = CL_SUCCESS;
  cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, std::max<uint64_t>(1, params.size_bytes), nullptr, &error);
  if (error) return check(error, ("allocating " + std::to_string(params.size_bytes) + " bytes").c_str());
  try {
    *out = sdk::make<Buffer>(host, this, cl, params, memory);
  } catch (...) {
    cl.clReleaseMemObject(memory);
    throw;
  }
  return nullptr;
}

heddle_status_t* Device::write(sdk::Buffer* target, uint64_t offset, const char* bytes, uint64_t length) {
  if (length == 0) return nullptr;
  cl_command_queue its_queue = static_cast<Device*>(target->device)->queue;
  return check(
      cl.clEnqueueWriteBuffer(its_queue, static_cast<Buffer*>(target)->object, CL_TRUE, offset, length, bytes, 0, nullptr, nullptr),
      "copying to the device");
}

heddle_status_t* Device::read(sdk::Buffer* source, uint64_t offset, char* bytes, uint64_t length) {
  if (length == 0) return nullptr;
  cl_command_queue its_queue = static_cast<Device*>(source->device)->queue;
  return check(cl.clEnqueueReadBuffer(its_queue, static_cast<Buffer*>(source)->object, CL_TRUE, offset, length, bytes, 0, nullptr, nullptr),
               "copying from the device");
}

heddle_status_t* Device::make_queue(const heddle_queue_params_t&, sdk::Queue** out) {
  return worker_->make_queue(out);
}

uint32_t Device::rank(std::string_view format, std::string_view target) {
  if (format == kFormat && target == kTarget) return 10;
  return format == HEDDLE_CODE_PORTABLE && target == kPortableTarget ? 1 : 0;
}

heddle_status_t* Device::load(const sdk::Code& code, sdk::Executable** out) {
  auto* executable = sdk::make<Executable>(host, this);
  heddle_status_t* failed = sdk::guarded(host, "loading code", [&] { return load_code(this, code, executable); });
  if (failed) {
    sdk::unmake(host, executable);
    return failed;
  }
  *out = executable;
  return nullptr;
}

heddle_status_t* Device::portable_parts(const heddle_portable_query_t& query,
                                        const std::function<void(const heddle_portable_part_t&)>& part) {
  const OwnKernels own;
  return portable::tell_parts(this, query, translates ? &own : nullptr, part);
}

// The end of a submission. Its kernels took the time from the first one on, without that which the interpreter has counted itself.
heddle_status_t* Device::finish() {
  heddle_status_t* failure = check(cl.clFinish(queue), "finishing the work of a submission");
  if (began_ns_) kernel_ns.fetch_add(nanoseconds() - began_ns_ - (kernel_ns.load() - counted_ns_), std::memory_order_relaxed);
  began_ns_ = 0;
  return failure;
}

heddle_status_t* Device::run(const sdk::Operation& operation) {
  const std::vector<sdk::Range>& ranges = operation.ranges;
  if (operation.kind == Kind::kDispatch) return dispatch(operation);
  if (operation.kind == Kind::kBarrier) return nullptr;  // the queue works in order
  if (std::any_of(ranges.begin(), ranges.end(), [](const sdk::Range& range) { return range.length == 0; })) return nullptr;
  // Memory of another device is in another context, and OpenCL fills only multiples of the pattern, at multiples of it.
  const bool is_near = std::all_of(ranges.begin(), ranges.end(), [&](const sdk::Range& range) { return range.buffer->device == this; });
  const bool is_odd_fill = operation.kind == Kind::kFill && (ranges[0].offset | ranges[0].length) % operation.pattern_bytes != 0;
  if (operation.kind == Kind::kFile || !is_near || is_odd_fill) return sdk::run_by_copies(this, operation);
  switch (operation.kind) {
    case Kind::kCopy:
      return check(cl.clEnqueueCopyBuffer(queue, object_of(ranges[0]), object_of(ranges[1]), ranges[0].offset, ranges[1].offset,
                                          ranges[0].length, 0, nullptr, nullptr),
                   "copying on the device");
    case Kind::kFill:
      return check(cl.clEnqueueFillBuffer(queue, object_of(ranges[0]), &operation.pattern, operation.pattern_bytes, ranges[0].offset,
                                          ranges[0].length, 0, nullptr, nullptr),
                   "filling on the device");
    case Kind::kCopy2d:
      for (uint64_t row = 0; row < operation.rows; ++row) {
        if (cl_int error =
                cl.clEnqueueCopyBuffer(queue, object_of(ranges[0]), object_of(ranges[1]), ranges[0].offset + row * operation.source_stride,
                                       ranges[1].offset + row * operation.target_stride, operation.row_bytes, 0, nullptr, nullptr))
          return check(error, "copying rows on the device");
      }
      return nullptr;
    // What the bytes belong to stays until the submission is retired.
    case Kind::kUpdate:
    case Kind::kUpload:
      return check(
          cl.clEnqueueWriteBuffer(queue, object_of(ranges[0]), CL_FALSE, ranges[0].offset, ranges[0].length,
                                  operation.kind == Kind::kUpload ? operation.host_source : operation.bytes.data(), 0, nullptr, nullptr),
          "copying to the device");
    case Kind::kDownload:
      return check(cl.clEnqueueReadBuffer(queue, object_of(ranges[0]), CL_FALSE, ranges[0].offset, ranges[0].length, operation.host_target,
                                          0, nullptr, nullptr),
                   "copying from the device");
    default:
      return nullptr;
  }
}

heddle_status_t* Device::dispatch(const sdk::Operation& operation) {
  const auto& kernel = *static_cast<const Kernel*>(operation.entry->kernel);
  if (operation.workgroups == 0) return nullptr;
  if (!began_ns_) {
    began_ns_ = nanoseconds();
    counted_ns_ = kernel_ns.load();
  }
  if (kernel.program) return dispatch_portable(operation, kernel);
  cl_uint argument = 0;
  cl_int error = CL_SUCCESS;
  auto set = [&](size_t bytes, const void* value) { error = error ? error : cl.clSetKernelArg(kernel.object, argument++, bytes, value); };
  for (const sdk::Range& range : operation.ranges) {
    const cl_mem memory = range.buffer ? object_of(range) : nullptr;
    const cl_ulong offset = range.buffer ? range.offset : 0;
    set(sizeof memory, range.buffer ? &memory : nullptr);
    set(sizeof offset, &offset);
  }
  for (size_t at = 0; at < operation.bytes.size(); at += 8) set(8, operation.bytes.data() + at);
  size_t global[3];
  for (size_t d = 0; d < 3; ++d) global[d] = operation.grid[d] * kernel.workgroup_size[d];
  if (!error) error = cl.clEnqueueNDRangeKernel(queue, kernel.object, 3, nullptr, global, kernel.workgroup_size, 0, nullptr, nullptr);
  heddle_status_t* failure =
      check(error, ("running kernel '" + kernel.name + "' (region " + std::to_string(operation.region) + ")").c_str());
  if (failure) sdk::set_region(host, failure, operation.region);
  return failure;
}

heddle_status_t* Device::dispatch_portable(const sdk::Operation& operation, const Kernel& kernel) {
  if (!kernel.runner) return portable::run_dispatch(this, operation, *kernel.program, &helpers_);
  std::vector<Place> bindings;
  std::vector<uint64_t> bytes;
  for (const sdk::Range& range : operation.ranges) {
    bindings.push_back(range.buffer ? Place{object_of(range), range.offset} : Place{});
    bytes.push_back(range.buffer ? range.length : 0);
  }
  std::vector<int64_t> symbols(operation.bytes.size() / sizeof(int64_t));
  if (!symbols.empty()) std::memcpy(symbols.data(), operation.bytes.data(), symbols.size() * sizeof(int64_t));
  std::string reason;
  if (kernel.runner->run(queue, bindings, bytes, symbols, &scratch_, &scratch_bytes_, &reason)) return nullptr;
  heddle_status_t* failure = status(host, HEDDLE_STATUS_INTERNAL, "%s: running kernel '%s' (region %u) failed: %s", kWho,
                                    kernel.name.c_str(), operation.region, reason.c_str());
  sdk::set_region(host, failure, operation.region);
  return failure;
}

}  // namespace opencl
