// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices, memory, queues and executables of the sample driver. Every range and limit is checked before these functions are called.
#include "device.h"

#include <fenv.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "heddle/sdk/host_timeline.h"
#include "heddle/sdk/portable/dispatch.h"
#include "own_kernels.h"

namespace sample {

using sdk::number;
using sdk::status;

namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint32_t kAllKinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;

// Host memory, mapped so that large buffers cost nothing until they are written, or imported memory of the caller.
class SampleBuffer : public sdk::Buffer {
 public:
  SampleBuffer(sdk::Device* device, uint64_t size_bytes, uint64_t alignment_bytes, char* data, void* mapped, uint64_t mapped_bytes)
      : Buffer(device, size_bytes, kAllKinds, alignment_bytes), data_(data), mapped_(mapped), mapped_bytes_(mapped_bytes) {}
  ~SampleBuffer() override {
    if (mapped_) munmap(mapped_, mapped_bytes_);
  }
  char* host_address() const noexcept override { return data_; }

 private:
  char* data_;
  void* mapped_;
  uint64_t mapped_bytes_;
};

// Memory without an address: the bytes of a file in memory, as far as they have been written.
class FarBuffer : public sdk::Buffer {
 public:
  FarBuffer(sdk::Device* device, uint64_t size_bytes, uint64_t alignment_bytes, int descriptor)
      : Buffer(device, size_bytes, HEDDLE_MEMORY_DEVICE, alignment_bytes), descriptor(descriptor) {}
  ~FarBuffer() override { close(descriptor); }
  uint64_t device_address() const noexcept override { return 0; }
  const int descriptor;
};

// Copies of what a kernel uses of buffers without an address; one for each buffer, so that bindings may overlap. A kernel of real hardware needs none.
class HostCopies {
 public:
  HostCopies(sdk::Device* device, const std::vector<sdk::Range>& ranges) : device_(device) {
    for (const sdk::Range& range : ranges) {
      if (!range.buffer || range.buffer->host_address() || range.length == 0) continue;
      Copy* copy = find(range.buffer);
      if (!copy) copy = &copies_.emplace_back(Copy{range.buffer, range.offset, range.offset, {}});
      copy->begin = std::min(copy->begin, range.offset);
      copy->end = std::max(copy->end, range.offset + range.length);
    }
  }
  heddle_status_t* read() {
    for (Copy& copy : copies_) {
      copy.bytes.resize(copy.end - copy.begin);
      if (heddle_status_t* failed = device_->read(copy.buffer, copy.begin, copy.bytes.data(), copy.bytes.size())) return failed;
    }
    return nullptr;
  }
  heddle_status_t* write() {
    for (const Copy& copy : copies_) {
      if (heddle_status_t* failed = device_->write(copy.buffer, copy.begin, copy.bytes.data(), copy.bytes.size())) return failed;
    }
    return nullptr;
  }
  char* address(const sdk::Range& range) {
    if (!range.buffer || range.length == 0) return nullptr;
    if (char* memory = range.buffer->host_address()) return memory + range.offset;
    Copy* copy = find(range.buffer);
    return copy->bytes.data() + (range.offset - copy->begin);
  }

 private:
  struct Copy {
    sdk::Buffer* buffer;
    uint64_t begin, end;
    std::vector<char> bytes;
  };
  Copy* find(const sdk::Buffer* buffer) {
    const auto found = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.buffer == buffer; });
    return found == copies_.end() ? nullptr : &*found;
  }

  sdk::Device* device_;
  std::vector<Copy> copies_;
};

class SampleExecutable : public sdk::Executable {
 public:
  explicit SampleExecutable(sdk::Device* device) : Executable(device) {}
  const void* find(std::string_view name) override {
    for (const Code& each : code) {
      if (each.name() == name) return &each;
    }
    return nullptr;
  }
  std::vector<Code> code;
};

class SampleQueue : public sdk::Queue {
 public:
  explicit SampleQueue(SampleDevice* its_device) : Queue(its_device), worker_(&its_device->worker) {}
  ~SampleQueue() override { worker_->drain(&unfinished_); }
  heddle_status_t* enqueue(std::unique_ptr<sdk::Submission> submission) override {
    worker_->enqueue(std::move(submission), &unfinished_);
    return nullptr;
  }

 private:
  Worker* worker_;
  uint64_t unfinished_ = 0;
};

// Adds its lifetime to the device's kernel_ns.
class Counted {
 public:
  explicit Counted(sdk::Device* device) : device_(device) {}
  ~Counted() {
    const auto taken = std::chrono::nanoseconds(std::chrono::steady_clock::now() - began_);
    device_->kernel_ns.fetch_add(static_cast<uint64_t>(taken.count()), std::memory_order_relaxed);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  sdk::Device* device_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

uint32_t threads_of(const Options& options) {
  return options.threads ? options.threads : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

heddle_status_t* SampleDriver::describe(uint32_t, heddle_device_description_t* out) {
  static const heddle_string_t formats[] = {sdk::string_of(kFormat), sdk::string_of(HEDDLE_CODE_PORTABLE)};
  out->name = sdk::string_of("sample device");
  // Programs of a module are for a family. Those of "portable" run on any device that takes their code, if the module has none for its family.
  out->family = sdk::string_of("sample");
  // out->uuid stays zero, which means unknown: fill in the vendor's id of this device, but no value that another device could have.
  out->numa_node = -1;
  out->features = HEDDLE_DEVICE_RECORDING | (options_.host_access ? HEDDLE_DEVICE_UNIFIED_MEMORY : 0);
  out->memory_kinds = kAllKinds;
  out->compute_units = threads_of(options_);
  out->memory_bytes = out->max_allocation_bytes = options_.memory_bytes;
  out->min_alignment_bytes = kAlignment;
  out->max_workgroup_size = 1;
  out->subgroup_size = 1;
  for (uint32_t& most : out->max_workgroup_count) most = 1 << 20;
  out->max_bindings = portable::kMostBindings;
  out->max_constants_bytes = 4096;
  out->code_format_count = 2;
  out->code_formats = formats;
  return nullptr;
}

heddle_status_t* SampleDriver::open(uint32_t ordinal, const heddle_device_open_params_t& params, sdk::Device** out) {
  *out = sdk::make<SampleDevice>(host(), this, ordinal, params.api);
  return nullptr;
}

heddle_device_link_t SampleDriver::link(uint32_t, uint32_t) {
  heddle_device_link_t link = {};
  link.kind = HEDDLE_LINK_SAME_MEMORY;
  link.peer_access = 1;
  return link;
}

SampleDevice::SampleDevice(SampleDriver* driver, uint32_t ordinal, const heddle_driver_api_t* api)
    : Device(driver, ordinal, api),
      options(driver->options()),
      own_kernels(options.own_kernels ? std::make_shared<const OwnKernels>() : nullptr),
      worker(this, options) {}

heddle_status_t* SampleDevice::allocate(const heddle_buffer_params_t& params, sdk::Buffer** out) {
  if (!options.host_access && !(params.memory & (HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED))) return allocate_far(params, out);
  const uint64_t bytes = params.size_bytes + params.alignment_bytes;  // neither is greater than 2^62
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return sdk::errno_status(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, errno, "%s: allocating %llu bytes failed", who,
                             number(params.size_bytes));
  }
  const uint64_t start = reinterpret_cast<uint64_t>(mapped);
  auto* data = reinterpret_cast<char*>((start + params.alignment_bytes - 1) / params.alignment_bytes * params.alignment_bytes);
  try {
    *out = sdk::make<SampleBuffer>(host, this, params.size_bytes, params.alignment_bytes, data, mapped, bytes);
  } catch (...) {
    munmap(mapped, bytes);
    throw;
  }
  return nullptr;
}

heddle_status_t* SampleDevice::allocate_far(const heddle_buffer_params_t& params, sdk::Buffer** out) {
  const int descriptor = memfd_create("sample", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(params.size_bytes)) != 0) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    return sdk::errno_status(host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, error, "%s: allocating %llu bytes failed", who,
                             number(params.size_bytes));
  }
  try {
    *out = sdk::make<FarBuffer>(host, this, params.size_bytes, params.alignment_bytes, descriptor);
  } catch (...) {
    close(descriptor);
    throw;
  }
  return nullptr;
}

// The vendor's copies to and from the device.
heddle_status_t* SampleDevice::write(sdk::Buffer* target, uint64_t offset, const char* bytes, uint64_t length) {
  while (length > 0) {
    const ssize_t done = pwrite(static_cast<FarBuffer*>(target)->descriptor, bytes, length, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return sdk::errno_status(host, HEDDLE_STATUS_INTERNAL, errno, "%s: copying to the device failed", who);
    bytes += done;
    offset += static_cast<uint64_t>(done);
    length -= static_cast<uint64_t>(done);
  }
  return nullptr;
}

heddle_status_t* SampleDevice::read(sdk::Buffer* source, uint64_t offset, char* bytes, uint64_t length) {
  while (length > 0) {
    const ssize_t done = pread(static_cast<FarBuffer*>(source)->descriptor, bytes, length, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return sdk::errno_status(host, HEDDLE_STATUS_INTERNAL, errno, "%s: copying from the device failed", who);
    bytes += done;
    offset += static_cast<uint64_t>(done);
    length -= static_cast<uint64_t>(done);
  }
  return nullptr;
}

heddle_status_t* SampleDevice::import_host(void* memory, uint64_t size_bytes, sdk::Buffer** out) {
  const uint64_t address = reinterpret_cast<uint64_t>(memory);
  const uint64_t alignment = address ? address & (~address + 1) : kAlignment;
  *out = sdk::make<SampleBuffer>(host, this, size_bytes, alignment, static_cast<char*>(memory), nullptr, 0);
  return nullptr;
}

heddle_status_t* SampleDevice::make_queue(const heddle_queue_params_t&, sdk::Queue** out) {
  *out = sdk::make<SampleQueue>(host, this);
  return nullptr;
}

uint32_t SampleDevice::rank(std::string_view format, std::string_view target) {
  // Its own code is better than code that is interpreted.
  if (format == kFormat && target == kTarget) return 10;
  return format == HEDDLE_CODE_PORTABLE && target == kTarget ? 1 : 0;
}

heddle_status_t* SampleDevice::load(const sdk::Code& code, sdk::Executable** out) {
  std::vector<Code> all;
  std::string error;
  if (!read_code(code.format, {code.bytes, code.size}, portable::choose(own_kernels, code.own_kernels), &all, &error)) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: loading executable '%.*s' failed: %s [HD-C-01]", who,
                  static_cast<int>(std::min<size_t>(code.name.size(), 100)), code.name.data(), error.c_str());
  }
  for (const heddle_entry_params_t& entry : code.entries) {
    for (const Code& each : all) {
      if (each.name() != sdk::view_of(entry.name)) continue;
      if (each.takes_bindings(entry.binding_count) && each.constants_bytes() == entry.constants_bytes && !entry.argument_count) continue;
      return status(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                    "%s: loading kernel '%s' failed: it takes %s and %u bytes of constants, in fixed order [HD-C-01]", who,
                    each.name().c_str(), each.taken_bindings().c_str(), each.constants_bytes());
    }
  }
  auto* executable = sdk::make<SampleExecutable>(host, this);
  executable->code = std::move(all);
  *out = executable;
  return nullptr;
}

heddle_status_t* SampleDevice::portable_parts(const heddle_portable_query_t& query,
                                              const std::function<void(const heddle_portable_part_t&)>& part) {
  return portable::tell_parts(this, query, own_kernels.get(), part);
}

heddle_transfer_properties_t SampleDevice::transfer_properties() {
  heddle_transfer_properties_t properties = {};
  properties.flags = HEDDLE_TRANSFER_PEER;
  return properties;
}

Worker::Worker(sdk::Device* device, const Options& options)
    : device_(device), latency_us_(options.latency_us), helpers_(threads_of(options)) {
  // A thread of a plugin handles no signals of the application (HD-T-02).
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Worker::~Worker() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::enqueue(std::unique_ptr<sdk::Submission> submission, uint64_t* unfinished) {
  std::lock_guard<std::mutex> lock(mutex_);
  items_.push_back({std::move(submission), unfinished});
  ++*unfinished;
  changed_.notify_all();
}

void Worker::drain(const uint64_t* unfinished) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return *unfinished == 0; });
}

void Worker::loop() {
  fesetenv(FE_DFL_ENV);  // not the one of the thread that opened the device
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    heddle_status_t* failure = run(*item.submission);
    if (latency_us_) std::this_thread::sleep_for(std::chrono::microseconds(latency_us_));
    sdk::retire(device_, std::move(item.submission), failure);
    lock.lock();
    --*item.unfinished;
    changed_.notify_all();
  }
}

// The work that it waits for was enqueued earlier (HD-Q-01), and this thread works in order, so the waits never block for long.
heddle_status_t* Worker::run(const sdk::Submission& submission) {
  if (heddle_status_t* failure = sdk::await_waits(device_, submission)) return failure;
  for (const sdk::Operation& operation : submission.operations) {
    heddle_status_t* failure =
        operation.kind == sdk::Operation::Kind::kDispatch ? run_dispatch(operation) : sdk::run_by_copies(device_, operation);
    if (failure) return failure;
  }
  return nullptr;
}

heddle_status_t* Worker::run_dispatch(const sdk::Operation& dispatch) {
  const heddle_host_t* host = device_->host;
  return sdk::guarded(host, "running a kernel", [&]() -> heddle_status_t* {
    const auto& code = *static_cast<const Code*>(dispatch.entry->kernel);
    if (code.program) return portable::run_dispatch(device_, dispatch, *code.program, &helpers_);
    const Counted counted(device_);  // portable code counts its own
    HostCopies copies(device_, dispatch.ranges);
    if (heddle_status_t* failed = copies.read()) return failed;
    std::vector<Memory> bindings;
    for (const sdk::Range& range : dispatch.ranges) bindings.push_back({copies.address(range), range.length});
    std::string reason;
    const Outcome outcome = run_kernel(code.own, bindings, dispatch.bytes, dispatch.workgroups, &reason);
    if (outcome == Outcome::kDone) return copies.write();
    const bool lost = outcome == Outcome::kLost;
    heddle_status_t* failure =
        status(host, lost ? HEDDLE_STATUS_DEVICE_LOST : HEDDLE_STATUS_INTERNAL, "%s: running kernel '%s' (region %u) failed: %s%s", kWho,
               code.name().c_str(), dispatch.region, reason.c_str(), lost ? " [HD-S-02]" : "");
    sdk::set_region(host, failure, dispatch.region);
    if (lost) device_->lose(host->status_clone(host->self, failure));
    return failure;
  });
}

}  // namespace sample
