// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See device.h. Every range and limit is checked before these functions are called.
#include "device.h"

#include <algorithm>

#include "code.h"
#include "heddle/code.h"
#include "heddle/sdk/options.h"

namespace opencl {

using Kind = sdk::Operation::Kind;

heddle_status_t* Interpreted::run(Device* device, const sdk::Operation& dispatch) const {
  return portable::run_dispatch(device, dispatch, program_, &device->helpers);
}

heddle_status_t* Driver::start(sdk::Absence* out) {
  if (heddle_status_t* bad = sdk::read_option(host(), who(), "platform", &platform)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host(), who(), "memory", 0, int64_t{1} << 50, &memory_bytes)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host(), who(), "threads", 0, portable::kMostWorkers, &threads)) return bad;
  if (heddle_status_t* bad = sdk::read_option(host(), who(), "translate", &translate)) return bad;
  cl = opencl::open(&out->reason);
  if (cl) found_ = find_devices(*cl, platform, &out->reason);
  if (found_.empty()) out->verdict = cl ? HEDDLE_PROBE_NO_DEVICE : HEDDLE_PROBE_MISSING_DEPENDENCY;
  return nullptr;
}

heddle_status_t* Driver::describe(uint32_t ordinal, heddle_device_description_t* out) {
  static const heddle_string_t formats[] = {sdk::string_of(HEDDLE_CODE_PORTABLE), sdk::string_of(kFormat)};
  const Found& found = found_[ordinal];
  out->name = sdk::string_of(found.name);
  out->family = sdk::string_of("opencl");
  out->numa_node = -1;
  out->features = HEDDLE_DEVICE_RECORDING;
  out->memory_kinds = HEDDLE_MEMORY_DEVICE;
  out->compute_units = found.compute_units;
  out->memory_bytes = memory_bytes ? std::min(memory_bytes, found.memory_bytes) : found.memory_bytes;
  out->max_allocation_bytes = std::min(found.max_allocation_bytes, out->memory_bytes);
  out->min_alignment_bytes = found.alignment_bytes;
  out->shared_memory_bytes = found.local_bytes;
  out->max_workgroup_size = static_cast<uint32_t>(std::min<uint64_t>(found.workgroup_size, UINT32_MAX));
  for (uint32_t& most : out->max_workgroup_count) most = 1 << 20;
  out->max_bindings = portable::kMostBindings;
  out->max_constants_bytes = portable::kMostSymbols * 8;
  out->code_format_count = std::size(formats);
  out->code_formats = formats;
  return nullptr;
}

heddle_status_t* Driver::open(uint32_t ordinal, const heddle_device_open_params_t& params, sdk::Device** out) {
  sdk::Made<Device> device(sdk::make<Device>(host(), this, ordinal, params.api, found_[ordinal]), {host()});
  if (heddle_status_t* failed = device->start()) return failed;
  *out = device.release();
  return nullptr;
}

Device::Device(Driver* its_driver, uint32_t ordinal, const heddle_driver_api_t* api, const Found& its_facts)
    : sdk::Device(its_driver, ordinal, api),
      cl(*its_driver->cl),
      found(its_facts),
      translates(its_driver->translate),
      helpers(its_driver->threads ? its_driver->threads : std::max(1u, std::thread::hardware_concurrency())) {}

heddle_status_t* Device::start() {
  cl_int error = CL_SUCCESS;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
  context = cl.clCreateContext(properties, 1, &found.device, nullptr, nullptr, &error);
  if (!error) queue = cl.clCreateCommandQueue(context, found.device, 0, &error);
  if (error) return check(error, "opening the device");
  programs = std::make_unique<Programs>(this);
  worker_.emplace(
      this, [this](const sdk::Operation& operation) { return run(operation); },
      [this] { return check(cl.clFinish(queue), "finishing the work of a submission"); });
  return nullptr;
}

Device::~Device() {
  worker_.reset();
  programs.reset();
  if (queue) cl.clReleaseCommandQueue(queue);
  if (context) cl.clReleaseContext(context);
}

heddle_status_t* Device::check(cl_int error, const std::string& what) {
  if (error == CL_SUCCESS) return nullptr;
  const bool is_full = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES || error == CL_OUT_OF_HOST_MEMORY;
  const bool is_lost = error == CL_DEVICE_NOT_AVAILABLE;
  const auto code = is_full ? HEDDLE_STATUS_RESOURCE_EXHAUSTED : is_lost ? HEDDLE_STATUS_DEVICE_LOST : HEDDLE_STATUS_INTERNAL;
  heddle_status_t* failure = sdk::status(host, code, "%s: %s failed: OpenCL gave %s for device %u, %s%s", who, what.c_str(),
                                         name_of(error).c_str(), ordinal, found.name.c_str(), is_lost ? " [HD-S-02]" : "");
  if (is_lost) lose(host->status_clone(host->self, failure));
  return failure;
}

heddle_status_t* Device::allocate(const heddle_buffer_params_t& params, sdk::Buffer** out) {
  cl_int error = CL_SUCCESS;
  cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, std::max<uint64_t>(1, params.size_bytes), nullptr, &error);
  if (error) return check(error, "allocating " + std::to_string(params.size_bytes) + " bytes");
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
  cl_mem object = static_cast<Buffer*>(target)->object;
  return check(cl.clEnqueueWriteBuffer(its_queue, object, CL_TRUE, offset, length, bytes, 0, nullptr, nullptr), "copying to the device");
}

heddle_status_t* Device::read(sdk::Buffer* source, uint64_t offset, char* bytes, uint64_t length) {
  if (length == 0) return nullptr;
  cl_command_queue its_queue = static_cast<Device*>(source->device)->queue;
  cl_mem object = static_cast<Buffer*>(source)->object;
  return check(cl.clEnqueueReadBuffer(its_queue, object, CL_TRUE, offset, length, bytes, 0, nullptr, nullptr), "copying from the device");
}

heddle_status_t* Device::make_queue(const heddle_queue_params_t&, sdk::Queue** out) {
  return worker_->make_queue(out);
}

uint32_t Device::rank(std::string_view format, std::string_view target) {
  if (format == HEDDLE_CODE_PORTABLE && target == "generic") return 1;
  return format == kFormat && target == kTarget ? 10 : 0;
}

heddle_status_t* Device::load(const sdk::Code& code, sdk::Executable** out) {
  sdk::Made<Executable> executable(sdk::make<Executable>(host, this), {host});
  if (translates || code.format == kFormat) {
    if (heddle_status_t* bad = load_opencl(this, code, executable.get())) return bad;
  } else {
    std::vector<portable::Program> all;
    if (heddle_status_t* bad = portable::load_code(this, code, &all)) return bad;
    for (portable::Program& program : all) {
      std::string name = program.kernel().name;
      executable->kernels[std::move(name)] = std::make_unique<Interpreted>(std::move(program));
    }
  }
  *out = executable.release();
  return nullptr;
}

heddle_status_t* Device::portable_parts(const heddle_portable_query_t& query,
                                        const std::function<void(const heddle_portable_part_t&)>& part) {
  const OwnKernels own(found.has_f64);
  return portable::tell_parts(this, query, translates ? &own : nullptr, part);
}

heddle_status_t* Device::run(const sdk::Operation& operation) {
  const std::vector<sdk::Range>& ranges = operation.ranges;
  if (operation.kind == Kind::kDispatch) {
    if (operation.workgroups == 0) return nullptr;
    return static_cast<const Kernel*>(operation.entry->kernel)->run(this, operation);
  }
  // Memory of another device is in another context. The queue works in order, so that a copy through the host waits for what comes before it.
  const bool is_near =
      std::all_of(ranges.begin(), ranges.end(), [&](const sdk::Range& range) { return range.buffer->device == this && range.length > 0; });
  if (!is_near) return sdk::run_by_copies(this, operation);
  auto copy = [&](uint64_t from, uint64_t to, uint64_t bytes) {
    return cl.clEnqueueCopyBuffer(queue, object_of(ranges[0]), object_of(ranges[1]), ranges[0].offset + from, ranges[1].offset + to, bytes,
                                  0, nullptr, nullptr);
  };
  cl_int error = CL_SUCCESS;
  if (operation.kind == Kind::kCopy) return check(copy(0, 0, ranges[0].length), "copying on the device");
  if (operation.kind == Kind::kCopy2d) {
    for (uint64_t row = 0; row < operation.rows && !error; ++row)
      error = copy(row * operation.source_stride, row * operation.target_stride, operation.row_bytes);
    return check(error, "copying rows on the device");
  }
  // OpenCL fills only multiples of the pattern, at multiples of it.
  if (operation.kind == Kind::kFill && (ranges[0].offset | ranges[0].length) % operation.pattern_bytes == 0)
    return check(cl.clEnqueueFillBuffer(queue, object_of(ranges[0]), &operation.pattern, operation.pattern_bytes, ranges[0].offset,
                                        ranges[0].length, 0, nullptr, nullptr),
                 "filling on the device");
  return sdk::run_by_copies(this, operation);
}

}  // namespace opencl

HEDDLE_DRIVER_PLUGIN(opencl::kId, "0.1.0", opencl::Driver)
