// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of the stand-in: pools, allocations, pinned memory of the host, and which of it a GPU may access. Memory that is new or freed has contents
// that nobody should rely on.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/hsa/runtime.h"

namespace heddle::hsa {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kFreedBytes = 16ull << 20;  // that stay mapped after they were freed, at most,
constexpr uint64_t kFreedBlocks = 32;          // and so many blocks
constexpr uint64_t kFilledBytes = 4ull << 20;  // of a block are overwritten; the rest of a larger one keeps zeros, or what was there

uint64_t pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

std::byte* map_pages(uint64_t bytes, int access) {
  void* p = ::mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

const char* segment_name(Segment segment) {
  switch (segment) {
    case Segment::HostFine:
      return "fine-grained memory of the host";
    case Segment::HostKernarg:
      return "memory for kernel arguments";
    case Segment::HostCoarse:
      return "coarse-grained memory of the host";
    case Segment::DeviceCoarse:
      return "memory of the GPU";
    case Segment::DeviceFine:
      return "fine-grained memory of the GPU";
    case Segment::Group:
      return "LDS";
  }
  return "memory";
}

bool on_gpu(Segment segment) {
  return segment == Segment::DeviceCoarse || segment == Segment::DeviceFine;
}

}  // namespace

hsa_amd_memory_pool_t pool_handle(Pool pool) {
  return {0x9001000 + uint64_t{pool.agent} * 16 + static_cast<uint64_t>(pool.segment)};
}

bool find_pool(hsa_amd_memory_pool_t handle, Pool& pool) {
  if (handle.handle < 0x9001000) return false;
  const uint64_t number = handle.handle - 0x9001000;
  if (number / 16 > settings().gpus || number % 16 > static_cast<uint64_t>(Segment::Group)) return false;
  pool = {static_cast<uint32_t>(number / 16), static_cast<Segment>(number % 16)};
  return (pool.agent == 0) == (pool.segment <= Segment::HostCoarse);
}

uint32_t global_flags(Segment segment) {
  switch (segment) {
    case Segment::HostKernarg:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT | HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    case Segment::HostFine:
    case Segment::DeviceFine:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    case Segment::HostCoarse:
    case Segment::DeviceCoarse:
      return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    case Segment::Group:
      return 0;
  }
  return 0;
}

uint64_t pool_bytes(Pool pool) {
  if (pool.segment == Segment::Group) return 65536;
  return pool.agent == 0 ? 64ull << 30 : settings().memory_bytes;
}

AddressSpace& memory() {
  static auto* space = new AddressSpace;
  return *space;
}

uint64_t AddressSpace::reserve(uint64_t bytes) {
  return reinterpret_cast<uint64_t>(map_pages(pages(bytes), PROT_NONE));
}

hsa_status_t AddressSpace::allocate(Pool pool, uint64_t bytes, void** out) {
  const char* const where = "hsa_amd_memory_pool_allocate";
  if (out == nullptr || bytes == 0) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer, or 0 bytes");
  if (pool.segment == Segment::Group) return refuse(HSA_STATUS_ERROR_INVALID_ALLOCATION, where, "LDS is not allocated");
  const std::lock_guard hold(mutex_);
  uint64_t& used = used_[pool.agent];
  const uint64_t limit = pool_bytes(pool);
  if (bytes > limit || used > limit - bytes) {
    return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, where,
                  std::to_string(bytes) + " bytes of " + segment_name(pool.segment) + " failed: " + std::to_string(used) + " of " +
                      std::to_string(limit) + " bytes are in use");
  }
  Block b;
  b.bytes = bytes;
  b.mapped_bytes = pages(bytes);
  b.pool = pool;
  b.name = segment_name(pool.segment);
  b.host = map_pages(b.mapped_bytes, PROT_READ | PROT_WRITE);
  b.address = reinterpret_cast<uint64_t>(b.host);
  if (b.host != nullptr && on_gpu(pool.segment) && !settings().large_bar) b.address = reserve(bytes);
  if (b.host == nullptr || b.address == 0) {
    if (b.host != nullptr) ::munmap(b.host, b.mapped_bytes);
    return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, where, "the host has no " + std::to_string(bytes) + " bytes");
  }
  b.gpu_access = on_gpu(pool.segment);
  std::memset(b.host, 0xa5 ^ static_cast<int>(fill_++ & 7), std::min(bytes, kFilledBytes));
  used += bytes;
  *out = reinterpret_cast<void*>(b.address);
  blocks_.emplace(b.address, std::move(b));
  return HSA_STATUS_SUCCESS;
}

void AddressSpace::retire(const Block& block) {
  if (block.kind != Block::Locked && block.kind != Block::Queue) std::memset(block.host, 0xde, std::min(block.bytes, kFilledBytes));
  freed_.push_back(block);
  freed_bytes_ += block.mapped_bytes;
  while ((freed_bytes_ > kFreedBytes || freed_.size() > kFreedBlocks) && users_ == 0) {
    const Block& b = freed_.front();
    // The host's memory that was pinned is not ours, only its addresses for GPUs.
    if (b.kind != Block::Locked) ::munmap(b.host, b.mapped_bytes);
    if (b.address != reinterpret_cast<uint64_t>(b.host)) ::munmap(reinterpret_cast<void*>(b.address / kPage * kPage), b.mapped_bytes);
    freed_bytes_ -= b.mapped_bytes;
    freed_.pop_front();
  }
}

void AddressSpace::retire_queue(void* shared, uint64_t bytes) {
  ::mprotect(shared, bytes, PROT_NONE);
  const std::lock_guard hold(mutex_);
  Block b;
  b.kind = Block::Queue;
  b.address = reinterpret_cast<uint64_t>(shared);
  b.host = static_cast<std::byte*>(shared);
  b.bytes = b.mapped_bytes = pages(bytes);
  retire(b);
}

hsa_status_t AddressSpace::free(void* address) {
  const std::lock_guard hold(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uint64_t>(address));
  if (found == blocks_.end() || found->second.kind != Block::Allocation) {
    return refuse(HSA_STATUS_ERROR_INVALID_ALLOCATION, "hsa_amd_memory_pool_free",
                  hex(reinterpret_cast<uint64_t>(address)) + " is not the start of an allocation");
  }
  used_[found->second.pool.agent] -= found->second.bytes;
  retire(found->second);
  blocks_.erase(found);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t AddressSpace::allow_access(const void* address, bool gpu) {
  const std::lock_guard hold(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uint64_t>(address));
  if (found == blocks_.end()) {
    return refuse(HSA_STATUS_ERROR_INVALID_ALLOCATION, "hsa_amd_agents_allow_access",
                  hex(reinterpret_cast<uint64_t>(address)) + " is not the start of an allocation");
  }
  if (!on_gpu(found->second.pool.segment)) found->second.gpu_access = gpu;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t AddressSpace::lock(void* host, uint64_t bytes, Pool pool, void** out) {
  const char* const where = "hsa_amd_memory_lock_to_pool";
  if (host == nullptr || out == nullptr || bytes == 0)
    return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no memory, no result pointer, or 0 bytes");
  const auto at = reinterpret_cast<uint64_t>(host);
  const std::lock_guard hold(mutex_);
  const uint64_t inside = at % kPage, mapped = pages(inside + bytes);
  const uint64_t reserved = reserve(mapped);
  if (reserved == 0)
    return refuse(HSA_STATUS_ERROR_OUT_OF_RESOURCES, where, "the host has no " + std::to_string(mapped) + " bytes of addresses");
  Block b;
  b.kind = Block::Locked;
  b.address = reserved + inside;
  b.bytes = bytes;
  b.host = static_cast<std::byte*>(host);
  b.mapped_bytes = mapped;
  b.pool = pool;
  b.name = "pinned memory of the host";
  locked_.emplace(at, b.address);
  *out = reinterpret_cast<void*>(b.address);
  blocks_.emplace(b.address, std::move(b));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t AddressSpace::unlock(void* host) {
  const std::lock_guard hold(mutex_);
  const auto range = locked_.equal_range(reinterpret_cast<uint64_t>(host));
  if (range.first == range.second) {
    return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, "hsa_amd_memory_unlock", hex(reinterpret_cast<uint64_t>(host)) + " is not pinned");
  }
  const auto last = std::prev(range.second);
  const auto found = blocks_.find(last->second);
  if (found != blocks_.end()) {
    retire(found->second);
    blocks_.erase(found);
  }
  locked_.erase(last);
  return HSA_STATUS_SUCCESS;
}

void AddressSpace::add(Block block) {
  const std::lock_guard hold(mutex_);
  blocks_.emplace(block.address, std::move(block));
}

void AddressSpace::remove(uint64_t address) {
  const std::lock_guard hold(mutex_);
  blocks_.erase(address);
}

std::string AddressSpace::describe(uint64_t address) const {
  std::string text;
  const auto add = [&](const Block& b) {
    text += (text.empty() ? "; near it, " : ", ") + b.name + " of " + std::to_string(b.bytes) + " bytes at " + hex(b.address);
  };
  const auto next = blocks_.upper_bound(address);
  if (next != blocks_.begin()) add(std::prev(next)->second);
  if (next != blocks_.end()) add(next->second);
  for (const Block& b : freed_) {
    if (address >= b.address && address - b.address < b.bytes) text += "; it was freed";
  }
  return text;
}

std::byte* AddressSpace::find(uint64_t address, uint64_t bytes, bool write, std::string& problem) {
  const std::lock_guard hold(mutex_);
  const auto next = blocks_.upper_bound(address);
  const Block* b = next == blocks_.begin() ? nullptr : &std::prev(next)->second;
  if (b == nullptr || address - b->address >= b->bytes || bytes > b->bytes - (address - b->address)) {
    problem = std::to_string(bytes) + " bytes at " + hex(address) + " are not inside of one allocation" + describe(address);
    return nullptr;
  }
  if (!b->gpu_access)
    problem = b->name + " at " + hex(b->address) + " is not accessible to GPUs; hsa_amd_agents_allow_access was not called";
  if (write && !b->writable) problem = b->name + " at " + hex(b->address) + " is read-only";
  return problem.empty() ? b->host + (address - b->address) : nullptr;
}

std::optional<Block> AddressSpace::containing(uint64_t address) {
  const std::lock_guard hold(mutex_);
  const auto next = blocks_.upper_bound(address);
  if (next != blocks_.begin()) {
    const Block& b = std::prev(next)->second;
    if (address - b.address < b.bytes) return b;
  }
  for (const auto& [host, gpu] : locked_) {
    const auto found = blocks_.find(gpu);
    if (found != blocks_.end() && address >= host && address - host < found->second.bytes) return found->second;
  }
  return std::nullopt;
}

bool AddressSpace::map_code(uint32_t gpu, uint64_t bytes, Block& image) {
  const std::lock_guard hold(mutex_);
  image = Block{};
  image.kind = Block::Code;
  image.bytes = bytes;
  image.mapped_bytes = pages(bytes);
  image.pool = {gpu, Segment::DeviceCoarse};
  image.name = "segment of a code object";
  image.host = map_pages(image.mapped_bytes, PROT_READ | PROT_WRITE);
  image.address = reinterpret_cast<uint64_t>(image.host);
  if (image.host != nullptr && !settings().large_bar) image.address = reserve(bytes);
  return image.host != nullptr && image.address != 0;
}

void AddressSpace::unmap_code(const Block& image) {
  const std::lock_guard hold(mutex_);
  retire(image);
}

amdgpu::Memory AddressSpace::for_kernel() {
  const std::lock_guard hold(mutex_);
  amdgpu::Memory result;
  for (const auto& [address, b] : blocks_) {
    if (b.gpu_access) result.map(address, b.host, b.bytes, b.writable, b.name);
  }
  return result;
}

uint64_t AddressSpace::used(uint32_t agent) {
  const std::lock_guard hold(mutex_);
  return used_[agent];
}

}  // namespace heddle::hsa

using namespace heddle::hsa;

extern "C" {

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t, void*), void* data) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    if (!agent_index(agent, index) || callback == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_AGENT, where, "no such agent, or no callback");
    const std::vector<Segment> segments = index == 0 ? std::vector{Segment::HostFine, Segment::HostKernarg, Segment::HostCoarse}
                                                     : std::vector{Segment::DeviceCoarse, Segment::DeviceFine, Segment::Group};
    for (const Segment segment : segments) {
      const hsa_status_t status = callback(pool_handle({index, segment}), data);
      if (status != HSA_STATUS_SUCCESS) return status;
    }
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t handle, hsa_amd_memory_pool_info_t attribute, void* value) {
  return guarded(__func__, [&](const char* where) {
    Pool pool{};
    if (!find_pool(handle, pool)) return refuse(static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL), where, "no such pool");
    if (value == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no result pointer");
    const bool allocates = pool.segment != Segment::Group;
    switch (attribute) {
      case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
        *static_cast<uint32_t*>(value) = allocates ? HSA_AMD_SEGMENT_GLOBAL : HSA_AMD_SEGMENT_GROUP;
        return HSA_STATUS_SUCCESS;
      case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
        *static_cast<uint32_t*>(value) = global_flags(pool.segment);
        return HSA_STATUS_SUCCESS;
      case HSA_AMD_MEMORY_POOL_INFO_SIZE:
      case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
        *static_cast<size_t*>(value) = pool_bytes(pool);
        return HSA_STATUS_SUCCESS;
      case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
        *static_cast<bool*>(value) = allocates;
        return HSA_STATUS_SUCCESS;
      case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
      case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
        *static_cast<size_t*>(value) = allocates ? 4096 : 0;
        return HSA_STATUS_SUCCESS;
      case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
        *static_cast<bool*>(value) = false;
        return HSA_STATUS_SUCCESS;
    }
    return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "attribute " + std::to_string(attribute) + " is not implemented");
  });
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t handle, hsa_amd_agent_memory_pool_info_t attribute,
                                                void* value) {
  return guarded(__func__, [&](const char* where) {
    uint32_t index = 0;
    Pool pool{};
    if (!agent_index(agent, index) || !find_pool(handle, pool) || value == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no such agent or pool, or no result pointer");
    const bool same = index == pool.agent;
    switch (attribute) {
      case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS: {
        hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT;
        if (same) access = HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
        if (!same && (pool.segment == Segment::Group || (index == 0 && !settings().large_bar)))
          access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
        *static_cast<hsa_amd_memory_pool_access_t*>(value) = access;
        return HSA_STATUS_SUCCESS;
      }
      case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
        *static_cast<uint32_t*>(value) = same ? 0 : 1;
        return HSA_STATUS_SUCCESS;
      case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO: {
        if (same) return HSA_STATUS_SUCCESS;
        hsa_amd_memory_pool_link_info_t link{};
        const bool gpus = index != 0 && pool.agent != 0;
        link.link_type = gpus ? HSA_AMD_LINK_INFO_TYPE_XGMI : HSA_AMD_LINK_INFO_TYPE_PCIE;
        link.numa_distance = gpus ? 15 : 20;
        link.atomic_support_32bit = link.atomic_support_64bit = link.coherent_support = true;
        *static_cast<hsa_amd_memory_pool_link_info_t*>(value) = link;
        return HSA_STATUS_SUCCESS;
      }
    }
    return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "attribute " + std::to_string(attribute) + " is not implemented");
  });
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t handle, size_t size, uint32_t flags, void** ptr) {
  return guarded(__func__, [&](const char* where) {
    Pool pool{};
    if (!find_pool(handle, pool)) return refuse(static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL), where, "no such pool");
    if (flags != 0) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "flags " + hex(flags) + " are not implemented");
    const hsa_status_t status = memory().allocate(pool, size, ptr);
    if (settings().trace && status == HSA_STATUS_SUCCESS)
      trace("allocated " + std::to_string(size) + " bytes at " + hex(reinterpret_cast<uint64_t>(*ptr)) + ", pool " + hex(handle.handle));
    return status;
  });
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  return guarded(__func__, [&](const char*) { return ptr == nullptr ? HSA_STATUS_SUCCESS : memory().free(ptr); });
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t* agents, const uint32_t* flags, const void* ptr) {
  return guarded(__func__, [&](const char* where) {
    if (num_agents == 0 || agents == nullptr || flags != nullptr || ptr == nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no agents, no memory, or flags");
    bool gpu = false;
    for (uint32_t n = 0; n < num_agents; ++n) {
      uint32_t index = 0;
      if (!agent_index(agents[n], index)) return refuse(HSA_STATUS_ERROR_INVALID_AGENT, where, "no such agent");
      gpu |= index != 0;
    }
    return memory().allow_access(ptr, gpu);
  });
}

hsa_status_t hsa_amd_memory_lock_to_pool(void* host_ptr, size_t size, hsa_agent_t*, int, hsa_amd_memory_pool_t handle, uint32_t flags,
                                         void** agent_ptr) {
  return guarded(__func__, [&](const char* where) {
    Pool pool{};
    if (!find_pool(handle, pool) || pool.agent != 0)
      return refuse(static_cast<hsa_status_t>(HSA_STATUS_ERROR_INVALID_MEMORY_POOL), where, "no such pool of the host");
    if (flags != 0) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "flags " + hex(flags) + " are not implemented");
    return memory().lock(host_ptr, size, pool, agent_ptr);
  });
}

hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  return guarded(__func__, [&](const char*) { return memory().unlock(host_ptr); });
}

// Memory of the process that is not pinned is never accessible to these GPUs, so that registering it changes nothing.
hsa_status_t hsa_memory_register(void*, size_t) {
  return guarded(__func__, [&](const char* where) {
    return refuse(HSA_STATUS_ERROR, where, "GPUs of the base profile do not access memory that is not pinned");
  });
}

hsa_status_t hsa_memory_deregister(void*, size_t) {
  return guarded(__func__, [&](const char* where) { return refuse(HSA_STATUS_ERROR, where, "nothing was registered"); });
}

hsa_status_t hsa_memory_copy(void* dst, const void* src, size_t size) {
  return guarded(__func__, [&](const char* where) {
    if (size == 0) return HSA_STATUS_SUCCESS;
    if (dst == nullptr || src == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no memory");
    // An address that belongs to no block is memory of the process.
    const auto resolve = [&](uint64_t address, std::string& problem) {
      return memory().containing(address) ? memory().find(address, size, false, problem) : reinterpret_cast<std::byte*>(address);
    };
    std::string problem;
    std::byte* const to = resolve(reinterpret_cast<uint64_t>(dst), problem);
    const std::byte* const from = resolve(reinterpret_cast<uint64_t>(src), problem);
    if (!problem.empty()) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, problem);
    std::memcpy(to, from, size);
    ++totals().copies;
    totals().copied_bytes += size;
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info, void* (*alloc)(size_t), uint32_t* num_agents,
                                  hsa_agent_t** agents) {
  return guarded(__func__, [&](const char* where) {
    if (ptr == nullptr || info == nullptr) return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "no pointer, or no result");
    if (info->size < sizeof(hsa_amd_pointer_info_t))
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "results of " + std::to_string(info->size) + " bytes are not implemented");
    if (alloc != nullptr || num_agents != nullptr || agents != nullptr)
      return refuse(HSA_STATUS_ERROR_INVALID_ARGUMENT, where, "the list of agents is not implemented");
    hsa_amd_pointer_info_t result{};
    result.size = sizeof(result);
    const auto block = memory().containing(reinterpret_cast<uint64_t>(ptr));
    if (block && (block->kind == Block::Allocation || block->kind == Block::Locked)) {
      const bool reached = block->pool.agent == 0 || settings().large_bar;
      result.type = block->kind == Block::Locked ? HSA_EXT_POINTER_TYPE_LOCKED : HSA_EXT_POINTER_TYPE_HSA;
      result.agentBaseAddress = reinterpret_cast<void*>(block->address);
      result.hostBaseAddress = reached ? static_cast<void*>(block->host) : nullptr;
      result.sizeInBytes = block->bytes;
      result.agentOwner = agent_handle(block->pool.agent);
      result.global_flags = global_flags(block->pool.segment);
    }
    *info = result;
    return HSA_STATUS_SUCCESS;
  });
}

}  // extern "C"
