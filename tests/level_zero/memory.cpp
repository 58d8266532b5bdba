// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Unified shared memory. Each allocation ends at a page that nobody can access, as exactly as its alignment allows; it begins with bytes of 0xff, which
// are NaN as floats. The host cannot access the addresses of device memory: the bytes are at other addresses, which only commands know. Freed addresses
// stay inaccessible for a while.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "tests/level_zero/engine.h"

using namespace heddle::level_zero_stand_in;

namespace heddle::level_zero_stand_in {

namespace {

constexpr size_t kPage = 4096, kGuard = 16 * kPage, kLeastAlignment = 128, kMostAlignment = size_t{2} << 20;
constexpr int kFresh = 0xff, kSlack = 0xa5;
constexpr size_t kFreedMappings = 256;

void* reserve(size_t size) {
  void* result = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return result == MAP_FAILED ? nullptr : result;
}

// Keeps freed addresses from being used again at once.
void retire(void* mapping, size_t size) {
  static auto* const retired = new std::deque<std::pair<void*, size_t>>();
  mmap(mapping, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  retired->emplace_back(mapping, size);
  if (retired->size() <= kFreedMappings) return;
  munmap(retired->front().first, retired->front().second);
  retired->pop_front();
}

// Whether a descriptor's extensions allow more than the largest allocation of the device's properties.
bool has_relaxed_limits(const void* extension) {
  while (extension != nullptr) {
    const auto* desc = static_cast<const ze_relaxed_allocation_limits_exp_desc_t*>(extension);
    if (desc->stype == ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC)
      return (desc->flags & ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE) != 0;
    extension = desc->pNext;
  }
  return false;
}

ze_result_t allocate(ze_context_handle_t hContext, ze_memory_type_t type, ze_device_handle_t hDevice, size_t size, size_t alignment,
                     const void* extension, void** out) {
  const Lock lock(state().mutex);
  auto* context = object_of<Context>(hContext);
  auto* device = hDevice == nullptr ? nullptr : object_of<Device>(hDevice);
  if (context == nullptr || (hDevice != nullptr && device == nullptr)) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (device != nullptr && device->root->lost) return state().loss;
  if (size == 0) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  if ((alignment & (alignment - 1)) != 0 || alignment > kMostAlignment) return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
  alignment = std::max(alignment, kLeastAlignment);
  if (type == ZE_MEMORY_TYPE_DEVICE) {
    const uint64_t most = has_relaxed_limits(extension) ? device->memory_bytes() : device->largest_allocation();
    if (size > most) return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (size > device->memory_bytes() - std::min(device->memory_bytes(), device->root->allocated_bytes))
      return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  } else if (size > size_t{1} << 46) {
    return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
  }
  // [guard][bytes, up to the last page's end][guard], with room to align the first byte.
  const size_t room = alignment > kPage ? alignment : 0;
  const size_t pages = (size + kPage - 1) / kPage * kPage, total = pages + 2 * kGuard + room;
  auto one = std::make_unique<Allocation>();
  one->reserved = reserve(total);
  if (one->reserved == nullptr) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  const uintptr_t start = reinterpret_cast<uintptr_t>(one->reserved) + kGuard;
  one->address = alignment > kPage ? (start + alignment - 1) / alignment * alignment : (start + pages - size) / alignment * alignment;
  const uintptr_t first_page = one->address / kPage * kPage, end = (one->address + size + kPage - 1) / kPage * kPage;
  one->mapped = one->reserved;
  one->mapped_size = total;
  if (type == ZE_MEMORY_TYPE_DEVICE && settings().protects) one->mapped = reserve(total);
  const ptrdiff_t offset = static_cast<std::byte*>(one->mapped) - static_cast<std::byte*>(one->reserved);
  if (one->mapped == nullptr ||
      mprotect(reinterpret_cast<void*>(first_page + static_cast<uintptr_t>(offset)), end - first_page, PROT_READ | PROT_WRITE) != 0) {
    if (one->mapped != nullptr && one->mapped != one->reserved) munmap(one->mapped, total);
    munmap(one->reserved, total);
    return type == ZE_MEMORY_TYPE_DEVICE ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  }
  one->bytes = reinterpret_cast<std::byte*>(one->address + static_cast<uintptr_t>(offset));
  one->context = context;
  one->device = device;
  one->type = type;
  one->size = size;
  one->slack = end - one->address - size;
  one->id = state().next_id++;
  // Of large allocations, only both ends: memory that nobody uses is not to be committed.
  constexpr size_t most = size_t{16} << 20;
  memset(one->bytes, kFresh, std::min(size, most));
  if (size > most) memset(one->bytes + size - std::min(size - most, most), kFresh, std::min(size - most, most));
  memset(one->bytes + size, kSlack, one->slack);
  if (type == ZE_MEMORY_TYPE_DEVICE) device->root->allocated_bytes += size;
  *out = reinterpret_cast<void*>(one->address);
  state().memory[one->address] = std::move(one);
  return ZE_RESULT_SUCCESS;
}

}  // namespace

}  // namespace heddle::level_zero_stand_in

ze_result_t zeMemAllocDevice(ze_context_handle_t hContext, const ze_device_mem_alloc_desc_t* device_desc, size_t size, size_t alignment,
                             ze_device_handle_t hDevice, void** pptr) {
  if (device_desc->ordinal != 0) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  return allocate(hContext, ZE_MEMORY_TYPE_DEVICE, hDevice, size, alignment, device_desc->pNext, pptr);
}

ze_result_t zeMemAllocHost(ze_context_handle_t hContext, const ze_host_mem_alloc_desc_t*, size_t size, size_t alignment, void** pptr) {
  return allocate(hContext, ZE_MEMORY_TYPE_HOST, nullptr, size, alignment, nullptr, pptr);
}

ze_result_t zeMemAllocShared(ze_context_handle_t hContext, const ze_device_mem_alloc_desc_t* device_desc, const ze_host_mem_alloc_desc_t*,
                             size_t size, size_t alignment, ze_device_handle_t hDevice, void** pptr) {
  return allocate(hContext, ZE_MEMORY_TYPE_SHARED, hDevice, size, alignment, device_desc->pNext, pptr);
}

ze_result_t zeMemFree(ze_context_handle_t hContext, void* ptr) {
  Lock lock(state().mutex);
  auto* context = object_of<Context>(hContext);
  if (context == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  auto& memory = state().memory;
  const auto found = memory.find(reinterpret_cast<uintptr_t>(ptr));
  if (found == memory.end()) {
    broken_rule(nullptr, "zeMemFree of an address that is not the start of a live allocation");
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  Allocation& one = *found->second;
  if (one.context != context) broken_rule(one.device, "zeMemFree with a context that is not the allocation's");
  if (const Command* user = find_user(one.address, one.size)) {
    broken_rule(one.device, "memory of " + std::to_string(one.size) + " bytes is freed before " + user->text() + " has run");
  }
  if (one.users != 0) {
    const std::string text = "memory of " + std::to_string(one.size) + " bytes is freed while a command uses it";
    if (!is_any_lost()) broken_rule(one.device, text);
    state().changed.wait(lock, [&] { return one.users == 0; });
  }
  const std::byte* slack = one.bytes + one.size;
  if (std::any_of(slack, slack + one.slack, [](std::byte byte) { return byte != std::byte{kSlack}; })) {
    broken_rule(one.device, "something wrote after the end of an allocation of " + std::to_string(one.size) + " bytes");
  }
  if (one.type == ZE_MEMORY_TYPE_DEVICE) one.device->root->allocated_bytes -= one.size;
  retire(one.reserved, one.mapped_size);
  if (one.mapped != one.reserved) munmap(one.mapped, one.mapped_size);
  memory.erase(found);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeMemGetAllocProperties(ze_context_handle_t hContext, const void* ptr, ze_memory_allocation_properties_t* properties,
                                    ze_device_handle_t* phDevice) {
  const Lock lock(state().mutex);
  if (object_of<Context>(hContext) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const Allocation* one = find_memory(ptr, 1);
  properties->type = one == nullptr ? ZE_MEMORY_TYPE_UNKNOWN : one->type;
  properties->id = one == nullptr ? 0 : one->id;
  properties->pageSize = one == nullptr ? 0 : kPage;
  if (phDevice != nullptr) {
    Device* device = one == nullptr ? nullptr : one->device;
    *phDevice = device == nullptr ? nullptr : reinterpret_cast<ze_device_handle_t>(static_cast<Object*>(device));
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeMemGetAddressRange(ze_context_handle_t hContext, const void* ptr, void** pBase, size_t* pSize) {
  const Lock lock(state().mutex);
  if (object_of<Context>(hContext) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const Allocation* one = find_memory(ptr, 1);
  if (one == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (pBase != nullptr) *pBase = reinterpret_cast<void*>(one->address);
  if (pSize != nullptr) *pSize = one->size;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextMakeMemoryResident(ze_context_handle_t, ze_device_handle_t hDevice, void* ptr, size_t size) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (device->root->lost) return state().loss;
  return find_memory(ptr, size) == nullptr ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS;
}

ze_result_t zeContextEvictMemory(ze_context_handle_t, ze_device_handle_t hDevice, void* ptr, size_t size) {
  const Lock lock(state().mutex);
  auto* device = object_of<Device>(hDevice);
  if (device == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (find_memory(ptr, size) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (const Command* user = find_user(reinterpret_cast<uintptr_t>(ptr), size)) {
    broken_rule(device, "memory is evicted before " + user->text() + " has run");
  }
  return ZE_RESULT_SUCCESS;
}
