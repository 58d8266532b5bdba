// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Why calls are refused, and what is not on the path of any call.
#include "heddle/sdk/driver_parts.h"

namespace heddle::sdk {

heddle_status_t* bad_sync(const DeviceRoot* device, const heddle_sync_t& sync) noexcept {
  if ((sync.wait_count && !sync.waits) || (sync.signal_count && !sync.signals)) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: %u waits%s and %u signals%s", device->who,
                  sync.wait_count, sync.waits ? "" : " (null)", sync.signal_count, sync.signals ? "" : " (null)");
  }
  for (uint32_t i = 0; i < sync.wait_count; ++i) {
    if (!sync.waits[i].timeline) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: wait %u has no timeline", device->who, i);
    }
  }
  for (uint32_t i = 0; i < sync.signal_count; ++i) {
    const heddle_point_t& point = sync.signals[i];
    if (!point.timeline) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: submitting failed: signal %u has no timeline", device->who, i);
    }
    const uint64_t reached = HostTimeline::from(point.timeline)->reached();
    if (point.value > reached && point.value <= HostTimeline::kMaxValue) continue;
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%s: submitting failed: signal %u is to value %llu and its timeline has reached %llu; values only grow, up to 2^62-1",
                  device->who, i, number(point.value), number(reached));
  }
  return nullptr;
}

heddle_status_t* read_queue_params(const DeviceRoot* device, const heddle_queue_params_t* in, heddle_queue_params_t* out) noexcept {
  uint64_t bad_byte;
  if (!read_struct(in, out, &bad_byte)) return tail_status(device->host, "heddle_queue_params_t", bad_byte);
  if (out->priority <= 1) return nullptr;
  return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: creating a queue failed: priority %u is neither 0 nor 1", device->who,
                out->priority);
}

heddle_status_t* check_map_flags(const DeviceRoot* device, uint64_t length, uint32_t flags) noexcept {
  constexpr uint32_t kKnown = HEDDLE_MAP_READ | HEDDLE_MAP_WRITE | HEDDLE_MAP_DISCARD;
  if (!(flags & ~kKnown) && (flags & (HEDDLE_MAP_READ | HEDDLE_MAP_WRITE)) &&
      (!(flags & HEDDLE_MAP_DISCARD) || (flags & HEDDLE_MAP_WRITE))) {
    return nullptr;
  }
  return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                "%s: mapping %llu bytes with flags %x failed: read, write or both, and discard only with write", device->who,
                number(length), flags);
}

heddle_status_t* check_import(const DeviceRoot* device, const void* memory, uint64_t size) noexcept {
  if ((memory || size == 0) && size <= UINT64_MAX - reinterpret_cast<uint64_t>(memory)) return nullptr;
  return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: importing %llu bytes failed: %s", device->who, number(size),
                memory ? "they end after the address space" : "the pointer is null");
}

heddle_status_t* check_transfer(const DeviceRoot* device, const char* what, const heddle_binding_t& binding,
                                const uint64_t* buffer_size) noexcept {
  if (!buffer_size) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "%s: %s %llu bytes failed: no buffer", device->who, what,
                  number(binding.length));
  }
  if (binding.offset <= *buffer_size && binding.length <= *buffer_size - binding.offset) return nullptr;
  return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "%s: %s %llu bytes at %llu failed: the buffer has %llu bytes", device->who, what,
                number(binding.length), number(binding.offset), number(*buffer_size));
}

heddle_status_t* no_entry_status(const DeviceRoot* device, uint32_t index, size_t count) noexcept {
  return status(device->host, HEDDLE_STATUS_NOT_FOUND, "%s: looking up entry %u failed: the executable has %zu", device->who, index, count);
}

Loss::~Loss() {
  if (failure_) device_->host->status_free(device_->host->self, failure_);
}

void Loss::lose(heddle_status_t* failure) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) {
      failure_ = failure;
      failure = nullptr;
      is_lost_.store(true, std::memory_order_release);
    }
  }
  if (failure) device_->host->status_free(device_->host->self, failure);
}

heddle_status_t* Loss::copy() const noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  return device_->host->status_clone(device_->host->self, failure_);
}

}  // namespace heddle::sdk
