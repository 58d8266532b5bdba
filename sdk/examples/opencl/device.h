// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device of OpenCL: its memory are cl_mem objects, which have no address; one thread hands the work of all queues to an in-order command queue.
#ifndef OPENCL_EXAMPLE_DEVICE_H_
#define OPENCL_EXAMPLE_DEVICE_H_

#include <mutex>
#include <optional>

#include "heddle/sdk/driver.h"
#include "heddle/sdk/portable/workers.h"
#include "heddle/sdk/worker.h"
#include "opencl.h"
#include "runner.h"

namespace opencl {

namespace sdk = heddle::sdk;
namespace portable = heddle::sdk::portable;

inline constexpr const char* kId = "org.example.opencl";   // as in the manifest
inline constexpr const char* kWho = sdk::short_name(kId);  // begins every error text

// Values of the manifest's [options].
struct Options {
  std::string platform;
  uint64_t memory_bytes = 0;
  uint32_t threads = 0;   // that interpret
  bool translate = true;  // portable code to OpenCL C; false: all is interpreted
};

struct Kernel;

class Driver : public sdk::Driver {
 public:
  Driver(const heddle_host_t* host, const Functions& functions, std::vector<Found> found, Options options);
  uint32_t device_count() override { return static_cast<uint32_t>(found_.size()); }
  heddle_status_t* describe(uint32_t ordinal, heddle_device_description_t* out) override;
  heddle_status_t* open(uint32_t ordinal, const heddle_device_open_params_t& params, sdk::Device** out) override;

  const Functions& cl;
  const Options options;

 private:
  const std::vector<Found> found_;
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

  // Compiles OpenCL C. On failure, a status with what its compiler said; `who` is part of the text: "loading executable 'main'". Any thread.
  heddle_status_t* build(std::string_view source, const std::string& who, cl_program* out);
  // The program of products, which is built once. Any thread.
  heddle_status_t* product(cl_program* out);

  // NULL for success. `what` is part of the text: "opencl: copying failed: CL_OUT_OF_RESOURCES (-5)".
  heddle_status_t* check(cl_int error, const char* what);

  const Functions& cl;
  const Found& found;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  const bool translates;

 private:
  heddle_status_t* run(const sdk::Operation& operation);
  heddle_status_t* dispatch(const sdk::Operation& operation);
  heddle_status_t* finish();
  heddle_status_t* dispatch_portable(const sdk::Operation& operation, const Kernel& kernel);

  portable::Workers helpers_;
  Place scratch_ = {};  // of the thread, as is its size: memory between nodes of a kernel
  uint64_t scratch_bytes_ = 0;
  // When the first kernel of the submission was enqueued, in nanoseconds; 0: none was. Then, what the device's counter kernel_ns was.
  uint64_t began_ns_ = 0, counted_ns_ = 0;
  std::mutex mutex_;
  cl_program product_ = nullptr;  // under mutex_
  std::optional<sdk::Worker> worker_;
};

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_DEVICE_H_
