// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device of OpenCL: its memory are cl_mem objects, which have no address; one thread hands the work of all queues to an in-order command queue.
#ifndef OPENCL_EXAMPLE_DEVICE_H_
#define OPENCL_EXAMPLE_DEVICE_H_

#include <map>
#include <optional>

#include "heddle/sdk/driver_plugin.h"
#include "heddle/sdk/portable/dispatch.h"
#include "heddle/sdk/worker.h"
#include "opencl.h"

namespace opencl {

namespace sdk = heddle::sdk;
namespace portable = heddle::sdk::portable;

inline constexpr const char kId[] = "org.example.opencl";  // as in the manifest

class Device;
class Programs;

class Driver : public sdk::Driver {
 public:
  explicit Driver(const heddle_host_t* host) : sdk::Driver(host, sdk::short_name(kId)) {}
  heddle_status_t* start(sdk::Absence* out);
  uint32_t device_count() override { return static_cast<uint32_t>(found_.size()); }
  heddle_status_t* describe(uint32_t ordinal, heddle_device_description_t* out) override;
  heddle_status_t* open(uint32_t ordinal, const heddle_device_open_params_t& params, sdk::Device** out) override;

  const Functions* cl = nullptr;
  // Options of the manifest.
  std::string platform;
  uint64_t memory_bytes = 0;
  uint32_t threads = 0;   // that interpret
  bool translate = true;  // portable code to OpenCL C; false: all is interpreted

 private:
  std::vector<Found> found_;
};

class Buffer : public sdk::Buffer {
 public:
  Buffer(sdk::Device* device, const Functions& functions, const heddle_buffer_params_t& params, cl_mem memory)
      : sdk::Buffer(device, params.size_bytes, HEDDLE_MEMORY_DEVICE, params.alignment_bytes), object(memory), cl_(functions) {}
  ~Buffer() override { cl_.clReleaseMemObject(object); }
  uint64_t device_address() const noexcept override { return 0; }  // it has none
  const cl_mem object;

 private:
  const Functions& cl_;
};

inline cl_mem object_of(const sdk::Range& range) {
  return static_cast<const Buffer*>(range.buffer)->object;
}

// A kernel that is loaded, in whatever way it runs.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Enqueues a dispatch, or does it. Only the device's thread calls it.
  virtual heddle_status_t* run(Device* device, const sdk::Operation& dispatch) const = 0;
};

// One of portable code that the SDK's interpreter runs on the host, on copies.
class Interpreted final : public Kernel {
 public:
  explicit Interpreted(portable::Program program) : program_(std::move(program)) {}
  heddle_status_t* run(Device* device, const sdk::Operation& dispatch) const override;

 private:
  portable::Program program_;
};

class Executable : public sdk::Executable {
 public:
  using sdk::Executable::Executable;
  const void* find(std::string_view name) override {
    const auto found = kernels.find(name);
    return found == kernels.end() ? nullptr : found->second.get();
  }
  std::map<std::string, std::unique_ptr<const Kernel>, std::less<>> kernels;
};

class Device : public sdk::Device {
 public:
  Device(Driver* driver, uint32_t ordinal, const heddle_driver_api_t* api, const Found& found);
  ~Device() override;
  // Creates the context, its queue and the thread. Called once, before all others.
  heddle_status_t* start();
  heddle_status_t* allocate(const heddle_buffer_params_t& params, sdk::Buffer** out) override;
  heddle_status_t* make_queue(const heddle_queue_params_t& params, sdk::Queue** out) override;
  uint32_t rank(std::string_view format, std::string_view target) override;
  heddle_status_t* load(const sdk::Code& code, sdk::Executable** out) override;
  heddle_status_t* portable_parts(const heddle_portable_query_t& query,
                                  const std::function<void(const heddle_portable_part_t&)>& part) override;
  heddle_status_t* write(sdk::Buffer* target, uint64_t offset, const char* bytes, uint64_t length) override;
  heddle_status_t* read(sdk::Buffer* source, uint64_t offset, char* bytes, uint64_t length) override;

  // NULL for success. `what` is part of the text: "opencl: copying failed: CL_OUT_OF_RESOURCES (-5)".
  heddle_status_t* check(cl_int error, const std::string& what);

  const Functions& cl;
  const Found& found;
  const bool translates;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  portable::Workers helpers;
  std::unique_ptr<Programs> programs;

 private:
  heddle_status_t* run(const sdk::Operation& operation);

  std::optional<sdk::Worker> worker_;
};

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_DEVICE_H_
