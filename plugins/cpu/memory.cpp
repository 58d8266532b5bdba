// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.buffer/1: the raw provider. Small buffers are from the heap; large ones are mapped, so that freeing returns them to the system.
#include "cpu/memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace heddle::cpu {
namespace {

using sdk::guarded;
using sdk::status;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMapFrom = 256 << 10;
constexpr uint64_t kHugePage = 2 << 20;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

// Requests pages on the device's node, regardless of the thread that touches them first; with several nodes, pages of each in turn, because the
// members of a job are on all nodes, and memory that one thread writes first, such as the result of a short kernel, would be on one node. A refusal
// only costs speed.
void place_on_nodes(const Device* device, void* memory, uint64_t bytes) noexcept {
  constexpr unsigned kBits = 64, kWords = 16;
  unsigned long nodes[kWords] = {};
  for (const uint32_t node : device->numa_nodes) {
    if (node >= kBits * kWords) return;
    nodes[node / kBits] |= 1ul << (node % kBits);
  }
  if (device->numa_nodes.empty()) return;
  syscall(SYS_mbind, memory, bytes, device->numa_nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE, nodes, kBits * kWords + 1, 0);
}

// Maps `size` bytes at an aligned address; false if the system has no memory. Directly below the device's last mapping, if these addresses are free:
// to the system, neighbors are one range, and a huge page may hold the end of one buffer and the start of the next. A first mapping ends where a
// huge page does.
bool map_memory(Buffer* buffer, uint64_t size, uint64_t alignment) noexcept {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const uint64_t whole = round_up(size, kPage), wanted = std::max(alignment, kPage);
  std::atomic<uint64_t>& last = buffer->device->last_mapped;
  uint64_t above = last.load(std::memory_order_relaxed);
  // A range of a huge page in which small pages are in use already does not get one: a large buffer then begins below that range.
  unsigned char is_used = 0;
  if (whole >= kHugePage && above % kHugePage != 0 && mincore(reinterpret_cast<void*>(above), kPage, &is_used) == 0 && (is_used & 1))
    above = above / kHugePage * kHugePage;
  const uint64_t below = above > whole ? (above - whole) / wanted * wanted : 0;
  uint64_t first = 0;
  if (below != 0) {
    void* memory = mmap(reinterpret_cast<void*>(below), whole, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (memory == MAP_FAILED) return false;
    first = reinterpret_cast<uint64_t>(memory);
    if (first != below) munmap(memory, whole);
  }
  if (first != below || below == 0) {
    const uint64_t spare = kHugePage + wanted;
    void* memory = mmap(nullptr, whole + spare, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (memory == MAP_FAILED) return false;
    const auto start = reinterpret_cast<uint64_t>(memory), end = start + whole + spare;
    first = (end / kHugePage * kHugePage - whole) / wanted * wanted;
    if (first > start) munmap(memory, first - start);
    if (end > first + whole) munmap(reinterpret_cast<void*>(first + whole), end - (first + whole));
  }
  last.store(first, std::memory_order_relaxed);
  buffer->mapped = reinterpret_cast<void*>(first);
  buffer->mapped_bytes = whole;
  buffer->data = static_cast<char*>(buffer->mapped);
  buffer->reserved_bytes = whole - size;
  place_on_nodes(buffer->device, buffer->mapped, whole);
  madvise(buffer->mapped, whole, MADV_HUGEPAGE);  // a refusal only costs speed
  return true;
}

heddle_status_t* check_size(Device* device, uint64_t size, uint64_t alignment) {
  const unsigned long long free_bytes =
      number(device->memory_bytes - std::min(device->memory_bytes, device->counters.bytes_allocated.load()));
  if (size > device->memory_bytes) {
    return status(device->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                  "cpu: allocating %llu bytes on device %u failed: this process may have %llu (%llu not given out by this device); "
                  "allocate less [HD-M-03]",
                  number(size), device->ordinal, number(device->memory_bytes), free_bytes);
  }
  if ((alignment & (alignment - 1)) != 0 || alignment > kMaxAlignment) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "cpu: allocating %llu bytes aligned to %llu failed: an alignment is a power of two of at most %llu", number(size),
                  number(alignment), number(kMaxAlignment));
  }
  return nullptr;
}

heddle_status_t* buffer_allocate(heddle_device_t* handle, const heddle_buffer_params_t* in, heddle_buffer_t** out) noexcept {
  *out = nullptr;
  Device* device = Device::from(handle);
  return guarded(device->host, "allocating a buffer", [&]() -> heddle_status_t* {
    heddle_buffer_params_t params;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &params, &bad_byte)) return sdk::tail_status(device->host, "heddle_buffer_params_t", bad_byte);
    if (params.memory & ~kAllKinds) {
      return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "cpu: allocating %llu bytes failed: memory kinds %x are unknown",
                    number(params.size_bytes), params.memory & ~kAllKinds);
    }
    const uint64_t alignment = std::max(params.alignment_bytes, kAlignment);
    if (heddle_status_t* bad = check_size(device, params.size_bytes, params.alignment_bytes)) return bad;
    auto* buffer = sdk::make<Buffer>(device->host);
    buffer->api = device->api;
    buffer->device = device;
    buffer->size = params.size_bytes;
    buffer->alignment = alignment;
    buffer->memory = kAllKinds;  // this memory is of all kinds at once
    if (params.size_bytes >= kMapFrom || alignment > kPage) {
      map_memory(buffer, std::max<uint64_t>(params.size_bytes, 1), alignment);
      if (params.size_bytes == 0) buffer->reserved_bytes = buffer->mapped_bytes;
    } else {
      const uint64_t bytes = round_up(std::max<uint64_t>(params.size_bytes, 1), alignment);
      buffer->data = static_cast<char*>(std::aligned_alloc(alignment, bytes));
      buffer->heap = true;
      buffer->reserved_bytes = bytes - params.size_bytes;
    }
    if (!buffer->data) {
      sdk::unmake(device->host, buffer);
      return sdk::errno_status(device->host, HEDDLE_STATUS_RESOURCE_EXHAUSTED, ENOMEM,
                               "cpu: allocating %llu bytes on device %u failed: the system refuses (this device holds %llu of "
                               "%llu bytes) [HD-M-03]",
                               number(params.size_bytes), device->ordinal, number(device->counters.bytes_allocated.load()),
                               number(device->memory_bytes));
    }
    device->counters.bytes_allocated.fetch_add(buffer->size);
    device->counters.bytes_reserved.fetch_add(buffer->reserved_bytes);
    device->live.buffers.fetch_add(1);
    *out = buffer->handle();
    return nullptr;
  });
}

void buffer_free(heddle_buffer_t* handle) noexcept {
  if (!handle) return;
  Buffer* buffer = Buffer::from(handle);
  Device* device = buffer->device;
  sdk::guarded_release(device->host, [&] {
    if (buffer->mapped) munmap(buffer->mapped, buffer->mapped_bytes);
    if (buffer->steady) device->steady_files.unmap(buffer->steady);
    if (buffer->heap) std::free(buffer->data);
    device->counters.bytes_allocated.fetch_sub(buffer->size);
    device->counters.bytes_reserved.fetch_sub(buffer->reserved_bytes);
    auto* release = buffer->release;
    void* context = buffer->release_context;
    sdk::unmake(device->host, buffer);
    if (release) release(context);
    device->live.buffers.fetch_sub(1);
  });
}

heddle_status_t* check_range(Buffer* buffer, const char* what, uint64_t offset, uint64_t length) {
  if (buffer->holds(offset, length)) [[likely]]
    return nullptr;
  return status(buffer->device->host, HEDDLE_STATUS_OUT_OF_RANGE, "cpu: %s %llu bytes at %llu failed: the buffer has %llu bytes", what,
                number(length), number(offset), number(buffer->size));
}

heddle_status_t* buffer_map(heddle_buffer_t* handle, uint64_t offset, uint64_t length, uint32_t flags, void** out) noexcept {
  *out = nullptr;
  Buffer* buffer = Buffer::from(handle);
  return guarded(buffer->device->host, "mapping a buffer", [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = check_range(buffer, "mapping", offset, length)) return bad;
    if (heddle_status_t* bad = sdk::check_map_flags(buffer->device, length, flags)) return bad;
    *out = buffer->data + offset;
    return nullptr;
  });
}

heddle_status_t* buffer_unmap(heddle_buffer_t*) noexcept {
  return nullptr;
}

heddle_status_t* buffer_flush(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  return check_range(Buffer::from(handle), "flushing", offset, length);
}

heddle_status_t* buffer_invalidate(heddle_buffer_t* handle, uint64_t offset, uint64_t length) noexcept {
  return check_range(Buffer::from(handle), "invalidating", offset, length);
}

heddle_status_t* buffer_import_host(heddle_device_t* handle, void* memory, uint64_t size, void (*release)(void*), void* context,
                                    heddle_buffer_t** out) noexcept {
  Device* device = Device::from(handle);
  return sdk::import_buffer<Buffer>(device->host, "importing host memory", release, context, out, [&]() -> heddle_status_t* {
    if (heddle_status_t* bad = sdk::check_import(device, memory, size)) return bad;
    auto* buffer = sdk::make<Buffer>(device->host);
    buffer->api = device->api;
    buffer->device = device;
    buffer->data = static_cast<char*>(memory);
    buffer->size = size;
    const auto address = reinterpret_cast<uint64_t>(memory);
    buffer->alignment = address ? address & (~address + 1) : kAlignment;
    buffer->memory = kAllKinds;
    device->counters.bytes_allocated.fetch_add(size);
    device->live.buffers.fetch_add(1);
    *out = buffer->handle();
    return nullptr;
  });
}

heddle_status_t* buffer_properties(heddle_buffer_t* handle, heddle_buffer_properties_t* out) noexcept {
  const Buffer* buffer = Buffer::from(handle);
  heddle_buffer_properties_t properties = {};
  properties.memory = buffer->memory;
  properties.size_bytes = buffer->size;
  properties.alignment_bytes = buffer->alignment;
  properties.device_address = reinterpret_cast<uint64_t>(buffer->data);
  sdk::write_struct(properties, out);
  return nullptr;
}

}  // namespace

const heddle_buffer_interface_t* buffer_interface() noexcept {
  static const heddle_buffer_interface_t table = {sizeof(heddle_buffer_interface_t),
                                                  0,
                                                  buffer_allocate,
                                                  buffer_free,
                                                  buffer_map,
                                                  buffer_unmap,
                                                  buffer_flush,
                                                  buffer_invalidate,
                                                  buffer_import_host,
                                                  buffer_properties};
  return &table;
}

}  // namespace heddle::cpu
