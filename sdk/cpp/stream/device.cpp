// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.device/1: describing, opening and closing devices, and their loss.
#include "heddle/sdk/stream/device.h"

#include <algorithm>
#include <map>

#include "heddle/sdk/stream/blocks.h"
#include "heddle/sdk/stream/queue.h"
#include "heddle/sdk/stream/staging.h"
#include "stream/engine.h"
#include "stream/ring.h"

namespace heddle::sdk::stream {
namespace {

heddle_status_t* check_ordinal(Instance* instance, const char* what, uint32_t ordinal) {
  if (ordinal < instance->devices.size()) return nullptr;
  return status(instance, HEDDLE_STATUS_OUT_OF_RANGE, "%s device %u failed: there are %zu; %s", what, ordinal, instance->devices.size(),
                instance->vendor.look);
}

}  // namespace

Device::Device(Instance* its_instance, uint32_t its_ordinal, const heddle_driver_api_t* its_api, std::unique_ptr<Backend> its_backend)
    : sdk::DeviceRoot{},
      instance(its_instance),
      ordinal(its_ordinal),
      owned_backend(std::move(its_backend)),
      backend(*owned_backend),
      serial([] {
        static std::atomic<uint64_t> opened{0};
        return ++opened;
      }()),
      facts_(*its_instance->devices[its_ordinal]) {
  api = its_api;
  host = its_instance->host;
  who = its_instance->vendor.who;
  spin_ns = static_cast<uint32_t>(its_instance->options.spin_ns);
}

namespace {

struct AllWords {
  std::mutex mutex;
  std::map<Context, std::weak_ptr<Words>> of_contexts;  // under mutex
};
AllWords& all_words() {
  static auto* all = new AllWords;  // never destroyed: devices may be closed while the process exits
  return *all;
}

std::shared_ptr<Words> words_of(Context context) {
  std::lock_guard<std::mutex> lock(all_words().mutex);
  std::weak_ptr<Words>& known = all_words().of_contexts[context];
  std::shared_ptr<Words> words = known.lock();
  if (!words) known = words = std::make_shared<Words>();
  return words;
}

// Call with the context current.
void release(std::shared_ptr<Words> words, Backend& backend) {
  std::lock_guard<std::mutex> lock(all_words().mutex);
  if (words.use_count() > 1) return words.reset();  // with the lock held, so that one of two sees that it is the last
  for (const std::unique_ptr<Word>& word : words->all) backend.destroy_word(*word);
  all_words().of_contexts.erase(backend.context());
}

}  // namespace

heddle_status_t* Device::start() {
  if (const char* lack = instance->lack(ordinal)) {
    return status(this, HEDDLE_STATUS_FAILED_PRECONDITION,
                  "opening device %u ('%s') failed: it lacks %s; use a newer device or another driver mode", ordinal, facts().name.c_str(),
                  lack);
  }
  const char* step = "";
  if (Result bad = backend.start(instance->options.pool_retain_bytes, &step)) {
    // A vendor has one context per device and process, which stays lost as long as it is retained.
    if (ends_context(bad)) {
      return result_status(this, HEDDLE_STATUS_UNAVAILABLE, bad,
                           "opening device %u ('%s') failed while %s: an earlier fault in this process ended its context; close every "
                           "handle of the device and open it again, or start a new process",
                           ordinal, facts().name.c_str(), step);
    }
    return result_status(this, backend.code_of(bad), bad, "opening device %u ('%s') failed while %s", ordinal, facts().name.c_str(), step);
  }
  ContextScope scope(this);
  words = words_of(backend.context());
  staging = std::make_unique<Staging>(this);
  ring = std::make_unique<Ring>(this);
  engine = std::make_unique<Engine>(this);
  decoders = std::make_unique<Decoders>(this);
  return nullptr;
}

Device::~Device() {
  engine.reset();  // joins its threads
  if (backend.context()) {
    ContextScope scope(this);
    decoders.reset();
    ring.reset();
    staging.reset();
    if (words) release(std::move(words), backend);
    for (Event event : idle_events) backend.destroy_event(event);
  }
}

void Device::introduce(Device* other) {
  if (other->backend.context() == backend.context()) return;
  std::lock_guard<std::mutex> lock(peers_mutex);
  if (std::find(peers.begin(), peers.end(), other->serial) != peers.end()) return;
  peers.push_back(other->serial);
  ContextScope scope(this);
  const Result result = backend.enable_peer(other->backend);
  if (result == kSuccess) return;
  const char* name = backend.name_of(result);
  log_line(this, HEDDLE_LOG_WARN, "device.cpp", "copies of device %u to and from device %u go through host memory: %s%s", ordinal,
           other->ordinal, name ? name : instance->vendor.name, name ? "" : " does not let it reach that memory");
}

std::vector<Suspect> Device::suspects() {
  std::vector<Suspect> found;
  std::lock_guard<std::mutex> lock(queues_mutex);
  for (Queue* queue : queues) queue->list_suspects(&found);
  return found;
}

heddle_status_t* Device::failed(Result result, const char* what) noexcept {
  std::string where;
  std::vector<Suspect> kernels;
  if (ends_context(result)) {
    if (heddle_status_t* known = loss()) return known;
    try {
      // A queue other than the one that reports may have caused the fault; the vendor does not tell which.
      kernels = suspects();
      std::vector<std::string> names;
      for (const Suspect& kernel : kernels) {
        if (std::find(names.begin(), names.end(), kernel.name) == names.end()) names.push_back(kernel.name);
      }
      constexpr size_t kMost = 6;
      for (size_t i = 0; i < names.size() && i < kMost; ++i) {
        where += (i ? ", '" : names.size() == 1 ? " in kernel '" : " in one of the kernels '") + names[i] + "'";
      }
      if (names.size() > kMost) where += " and " + std::to_string(names.size() - kMost) + " others";
    } catch (...) {
      where = " (no memory to say in which kernel)";
    }
  }
  heddle_status_t* failure = result_status(this, backend.code_of(result), result, "%s on device %u ('%s') failed%s", what, ordinal,
                                           facts().name.c_str(), where.c_str());
  if (!ends_context(result)) return failure;
  const bool is_one = !kernels.empty() && std::all_of(kernels.begin(), kernels.end(),
                                                      [&](const Suspect& kernel) { return kernel.region == kernels.front().region; });
  if (is_one) sdk::set_region(host, failure, kernels.front().region);
  lose(failure);
  return loss();
}

bool Device::poll() noexcept {
  bool any = false, moved = true, must_wait = true;
  std::unique_lock<std::mutex> lock(queues_mutex);
  while (moved && must_wait) {  // again for those that waited for another one
    moved = must_wait = false;
    for (size_t i = 0; i < queues.size(); ++i) {
      Queue* queue = queues[i];
      if (!queue->has_news()) continue;
      queue->pin();  // delays its destruction
      lock.unlock();
      moved |= queue->retire(&must_wait);
      queue->unpin();
      lock.lock();
    }
    any |= moved;
  }
  return any;
}

void Device::check() noexcept {
  if (is_lost()) return;
  Result result = kSuccess;
  {
    ContextScope scope(this);
    result = backend.check_context();
  }
  if (ends_context(result)) host->status_free(host->self, failed(result, "running work"));
}

namespace {

heddle_status_t* device_count(heddle_plugin_instance_t* handle, uint32_t* out_count) noexcept {
  *out_count = static_cast<uint32_t>(Instance::from(handle)->devices.size());
  return nullptr;
}

heddle_status_t* device_describe(heddle_plugin_instance_t* handle, uint32_t ordinal, heddle_device_description_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "describing", ordinal)) return bad;
    const Facts& facts = *instance->devices[ordinal];
    heddle_device_description_t description = {};
    description.ordinal = ordinal;
    description.name = sdk::string_of(facts.name);
    description.family = sdk::string_of(instance->vendor.family);
    description.pci = sdk::string_of(facts.pci);
    std::memcpy(description.uuid, facts.uuid, sizeof description.uuid);
    description.numa_node = facts.numa_node;
    description.features = HEDDLE_DEVICE_TIMESTAMPS | (instance->options.graphs ? HEDDLE_DEVICE_RECORDING : 0) |
                           (instance->fault_ends_process ? HEDDLE_DEVICE_FAULT_ENDS_PROCESS : 0);
    description.memory_kinds = HEDDLE_MEMORY_DEVICE | HEDDLE_MEMORY_HOST_VISIBLE | HEDDLE_MEMORY_PINNED;
    description.compute_units = static_cast<uint32_t>(facts.compute_units);
    description.memory_bytes = facts.memory_bytes;
    description.max_allocation_bytes = facts.memory_bytes;
    description.min_alignment_bytes = kAlignment;
    description.shared_memory_bytes = static_cast<uint64_t>(facts.shared_bytes);
    description.registers_per_thread = static_cast<uint32_t>(facts.registers_per_thread);
    description.max_workgroup_size = static_cast<uint32_t>(facts.max_threads);
    description.subgroup_size = static_cast<uint32_t>(facts.subgroup_size);
    for (int i = 0; i < 3; ++i) description.max_workgroup_count[i] = static_cast<uint32_t>(facts.grid[i]);
    description.max_bindings = kMaxBindings;
    description.max_constants_bytes = kMaxConstantsBytes;
    description.code_format_count = static_cast<uint32_t>(instance->code_formats().size());
    description.code_formats = instance->code_formats().data();
    sdk::write_struct(description, out);
    return nullptr;
  });
}

heddle_status_t* device_link(heddle_plugin_instance_t* handle, uint32_t a, uint32_t b, heddle_device_link_t* out) noexcept {
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "describing a link", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "describing the link of", std::max(a, b))) return bad;
    heddle_device_link_t link = {};
    if (a == b) {
      link.kind = HEDDLE_LINK_SAME_MEMORY;
      link.peer_access = 1;
    } else {
      link = instance->link(a, b);
    }
    sdk::write_struct(link, out);
    return nullptr;
  });
}

heddle_status_t* device_open(heddle_plugin_instance_t* handle, uint32_t ordinal, const heddle_device_open_params_t* in,
                             heddle_device_t** out) noexcept {
  *out = nullptr;
  Instance* instance = Instance::from(handle);
  return guarded(instance->host, "opening a device", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_ordinal(instance, "opening", ordinal)) return bad;
    heddle_device_open_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(instance->host, "heddle_device_open_params_t", bad_byte);
    if (!params.api) {
      return status(instance, HEDDLE_STATUS_INVALID_ARGUMENT, "opening device %u failed: no table [HD-H-01]", ordinal);
    }
    auto* device = sdk::make<Device>(instance->host, instance, ordinal, params.api, instance->make_backend(ordinal));
    heddle_status_t* bad;
    try {
      bad = device->start();
    } catch (...) {
      sdk::unmake(instance->host, device);
      throw;
    }
    if (bad) {
      sdk::unmake(instance->host, device);
      return bad;
    }
    instance->open_devices.fetch_add(1);
    *out = device->handle();
    return nullptr;
  });
}

heddle_status_t* device_close(heddle_device_t* handle) noexcept {
  if (!handle) return nullptr;
  Device* device = Device::from(handle);
  Instance* instance = device->instance;
  return guarded(instance->host, "closing a device", [&]() -> heddle_status_t* {
    if (device->live.any()) {
      char living[160];
      device->live.describe(living, sizeof living);
      return status(instance, HEDDLE_STATUS_FAILED_PRECONDITION, "closing device %u failed: %s still live [HD-L-01]", device->ordinal,
                    living);
    }
    sdk::unmake(instance->host, device);
    instance->open_devices.fetch_sub(1);
    return nullptr;
  });
}

heddle_status_t* device_statistics(heddle_device_t* handle, heddle_device_statistics_t* out) noexcept {
  Device* device = Device::from(handle);
  const Counters& counters = device->counters;
  heddle_device_statistics_t values = {};
  values.submissions = counters.submissions;
  values.dispatches = counters.dispatches;
  values.copies = counters.copies;
  values.bytes_allocated = counters.bytes_allocated;
  // Memory beyond the allocated bytes: the vendor's pool, rounding, and the driver's own pinned staging memory.
  uint64_t reserved = 0;
  if (!device->is_lost()) {
    ContextScope scope(device);
    reserved = device->backend.pool_bytes();
  }
  const uint64_t given = counters.pool_bytes;
  values.bytes_reserved =
      counters.bytes_overhead + (reserved > given ? reserved - given : 0) + device->staging->bytes_held() + device->ring->bytes_held();
  sdk::write_struct(values, out);
  return nullptr;
}

}  // namespace

const heddle_device_interface_t* device_interface() noexcept {
  static const heddle_device_interface_t table = {sizeof(heddle_device_interface_t),
                                                  0,
                                                  device_count,
                                                  device_describe,
                                                  device_link,
                                                  device_open,
                                                  device_close,
                                                  queue_create,
                                                  destroy_queue<Queue>,
                                                  device_statistics};
  return &table;
}

}  // namespace heddle::sdk::stream
