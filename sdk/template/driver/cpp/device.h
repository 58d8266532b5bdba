// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sample driver's device: host memory, and one thread that does all work in the order of arrival. A driver for hardware has the same
// classes, with the vendor's API in place of the host memory and the thread.
#ifndef SAMPLE_DEVICE_H_
#define SAMPLE_DEVICE_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "code.h"
#include "heddle/sdk/driver.h"
#include "heddle/sdk/portable/workers.h"

namespace sample {

namespace sdk = heddle::sdk;

inline constexpr const char* kId = "org.example.sample";   // replace it with your own, in reverse DNS, here and in the manifest
inline constexpr const char* kWho = sdk::short_name(kId);  // begins every error text

// Values of the manifest's [options].
struct Options {
  uint32_t device_count = 1;
  uint64_t memory_bytes = uint64_t{8} << 30;
  uint64_t latency_us = 0;  // between the end of work and its signals
  bool host_access = true;  // false: as on a device with memory of its own, which the host reads and writes by copies only
  bool own_kernels = true;  // false: all portable code is interpreted
  uint32_t threads = 0;     // that interpret portable code; 0: one for each core
};

class SampleDriver : public sdk::Driver {
 public:
  SampleDriver(const heddle_host_t* host, const Options& options) : Driver(host, kWho), options_(options) {}
  uint32_t device_count() override { return options_.device_count; }
  heddle_status_t* describe(uint32_t ordinal, heddle_device_description_t* out) override;
  heddle_status_t* open(uint32_t ordinal, const heddle_device_open_params_t& params, sdk::Device** out) override;
  heddle_device_link_t link(uint32_t a, uint32_t b) override;
  const Options& options() const { return options_; }

 private:
  Options options_;
};

// Does the work of all queues of a device; signals are delayed by the option latency_us.
class Worker {
 public:
  Worker(sdk::Device* device, const Options& options);
  // Finishes the enqueued work first.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void enqueue(std::unique_ptr<sdk::Submission> submission, uint64_t* unfinished);
  // Returns when *unfinished is 0.
  void drain(const uint64_t* unfinished);

 private:
  struct Item {
    std::unique_ptr<sdk::Submission> submission;
    uint64_t* unfinished;  // the queue's counter
  };
  void loop();
  heddle_status_t* run(const sdk::Submission& submission);
  heddle_status_t* run_dispatch(const sdk::Operation& dispatch);

  sdk::Device* device_;
  uint64_t latency_us_;
  portable::Workers helpers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // under mutex_, as are all counters
  bool stop_ = false;
  std::thread thread_;
};

class SampleDevice : public sdk::Device {
 public:
  SampleDevice(SampleDriver* driver, uint32_t ordinal, const heddle_driver_api_t* api);
  heddle_status_t* allocate(const heddle_buffer_params_t& params, sdk::Buffer** out) override;
  heddle_status_t* import_host(void* memory, uint64_t size_bytes, sdk::Buffer** out) override;
  heddle_status_t* make_queue(const heddle_queue_params_t& params, sdk::Queue** out) override;
  uint32_t rank(std::string_view format, std::string_view target) override;
  heddle_status_t* load(const sdk::Code& code, sdk::Executable** out) override;
  heddle_status_t* portable_parts(const heddle_portable_query_t& query,
                                  const std::function<void(const heddle_portable_part_t&)>& part) override;
  heddle_status_t* write(sdk::Buffer* target, uint64_t offset, const char* bytes, uint64_t length) override;
  heddle_status_t* read(sdk::Buffer* source, uint64_t offset, char* bytes, uint64_t length) override;
  heddle_transfer_properties_t transfer_properties() override;

  const Options options;
  const std::shared_ptr<const portable::OwnKernels> own_kernels;
  Worker worker;

 private:
  heddle_status_t* allocate_far(const heddle_buffer_params_t& params, sdk::Buffer** out);
};

}  // namespace sample
#endif  // SAMPLE_DEVICE_H_
