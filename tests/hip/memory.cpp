// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of devices, pools, pinned memory, copies and fills.
#include <cinttypes>

#include "runtime.h"

namespace heddle::test::hip {
namespace {

GpuMemory& memory() {
  return GpuMemory::all();
}

// A pool's memory counts as used until it is trimmed.
struct Pool {
  Device* device = nullptr;
  uint64_t retained_bytes = 0;  // the attribute
  std::mutex mutex;
  uint64_t used = 0, reserved = 0;      // under mutex
  bool is_scattered = false;            // under mutex
  std::set<int> users;                  // other devices with access
  std::map<uint64_t, uint64_t> blocks;  // address and size; under mutex
};
std::mutex pools_mutex;
std::set<Pool*>& pools = *new std::set<Pool*>;
std::map<uint64_t, Pool*>& pool_of_block = *new std::map<uint64_t, Pool*>;  // under pools_mutex
std::map<void*, uint32_t>& pinned = *new std::map<void*, uint32_t>;         // hipHostMalloc's blocks; under pools_mutex
std::set<void*>& registered = *new std::set<void*>;                         // under pools_mutex
std::set<uint64_t>& plain_blocks = *new std::set<uint64_t>;                 // hipMalloc's; under pools_mutex

bool take(Device* from, uint64_t bytes) {
  if (from->used_bytes.fetch_add(bytes) + bytes <= settings().memory_bytes) return true;
  from->used_bytes -= bytes;
  return false;
}

// hipFree and its like wait for all work of the device.
int synchronize_all(Device* of) {
  std::map<Stream*, std::shared_ptr<Stream>> streams;  // kept until they are waited for
  {
    std::lock_guard<std::mutex> lock(of->mutex);
    streams = of->streams;
  }
  for (const auto& [stream, keep] : streams) stream->synchronize();
  return state(of);
}

void trim(Pool* pool) {  // with its mutex
  pool->device->used_bytes -= pool->reserved - pool->used;
  pool->reserved = pool->used;
  pool->is_scattered = false;
}

Pool* pool_with(void* handle) {
  std::lock_guard<std::mutex> lock(pools_mutex);
  return pools.contains(static_cast<Pool*>(handle)) ? static_cast<Pool*>(handle) : nullptr;
}

void release_block(Pool* pool, uint64_t address) {
  std::lock_guard<std::mutex> lock(pool->mutex);
  const auto found = pool->blocks.find(address);
  pool->used -= found->second;
  pool->blocks.erase(found);
  const uint64_t idle = pool->reserved - pool->used;
  if (idle > pool->retained_bytes) {
    pool->device->used_bytes -= idle - pool->retained_bytes;
    pool->reserved -= idle - pool->retained_bytes;
  }
}

}  // namespace

char* reach(Device* from, uint64_t address, uint64_t size, bool may_be_ordinary, std::shared_ptr<void>* keep, uint32_t* out_flags) {
  GpuMemory::Block block;
  uint64_t offset = 0;
  if (memory().find(address, size, &block, &offset)) {
    if (block.owner == MemoryOwner::kDevice && block.ordinal != from->ordinal) {
      std::lock_guard<std::mutex> lock(from->mutex);
      if (!from->peers.contains(block.ordinal)) {
        say("device %d accesses %#" PRIx64 " of device %d without peer access", from->ordinal, address, block.ordinal);
        return nullptr;
      }
    }
    *keep = block.keeps_bytes;
    if (out_flags) *out_flags = block.flags;
    return block.bytes + offset;
  }
  // Ordinary memory, which an access of the host shows to exist; not an address that device memory had.
  if (may_be_ordinary && !memory().overlaps(address, size)) return reinterpret_cast<char*>(address);
  say("device %d accesses %" PRIu64 " bytes at %#" PRIx64 ", which are not inside of any memory that it has", from->ordinal, size, address);
  return nullptr;
}

int CopyWork::run(Device* device, Stream* stream) const {
  std::shared_ptr<void> keep[2];
  uint32_t flags = 0;
  const uint64_t from_span = (rows - 1) * from_stride + row_bytes, to_span = (rows - 1) * to_stride + row_bytes;
  const char* source = early ? early->data() : reach(device, from, from_span, true, &keep[0]);
  char* target = reach(device, to, to_span, true, &keep[1], &flags);
  if (!source || !target) return kIllegalAddress;
  if (flags & kNonCoherentFlag) {  // the host sees it later
    std::lock_guard<std::mutex> lock(stream->mutex);
    for (uint64_t i = 0; i < rows; ++i) {
      const char* row = source + i * from_stride;
      stream->landing.push_back({target + i * to_stride, {row, row + row_bytes}});
    }
    return kSuccess;
  }
  copy_rows(target, to_stride, source, from_stride, row_bytes, rows);
  return kSuccess;
}

int FillWork::run(Device* device) const {
  std::shared_ptr<void> keep;
  char* target = reach(device, to, (count - 1) * pitch + unit, false, &keep);
  if (!target) return kIllegalAddress;
  fill_units(target, count, unit, value, pitch);
  return kSuccess;
}

namespace {

int enqueue_copy(const CopyWork& given, Stream* stream) {
  if (!stream) return kContextIsDestroyed;
  if (!given.row_bytes || !given.rows) return state(stream->device);
  if (!given.to || !given.from) return kInvalidValue;
  CopyWork copy = given;
  GpuMemory::Block block;
  uint64_t offset = 0;
  const uint64_t span = (copy.rows - 1) * copy.from_stride + copy.row_bytes;
  if (!memory().find(copy.from, 1, &block, &offset) && next_seed() % 2) {  // ordinary memory, which HIP may read at once
    const char* source = reinterpret_cast<const char*>(copy.from);
    copy.early = std::make_shared<std::vector<char>>(source, source + span);
  }
  return stream->enqueue([copy, stream] { return copy.run(stream->device, stream); });
}

int enqueue_fill(const FillWork& fill, Stream* stream) {
  if (!stream) return kContextIsDestroyed;
  if (!fill.count) return state(stream->device);
  GpuMemory::Block block;
  uint64_t offset = 0;
  if (!memory().find(fill.to, (fill.count - 1) * fill.pitch + fill.unit, &block, &offset) || fill.to % fill.unit != 0) return kInvalidValue;
  return stream->enqueue([fill, stream] { return fill.run(stream->device); });
}

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

extern "C" {

int hipMemGetInfo(size_t* out_free, size_t* out_total) {
  Device* self = current();
  if (const int bad = state(self)) return result(bad);
  *out_total = settings().memory_bytes;
  *out_free = settings().memory_bytes - std::min(settings().memory_bytes, self->used_bytes.load());
  return kSuccess;
}

int hipMalloc(void** out, size_t bytes) {
  Device* self = current();
  if (const int bad = state(self)) return result(bad);
  *out = nullptr;
  if (bytes == 0) return kSuccess;
  if (!take(self, bytes)) return result(kOutOfMemory);
  const uint64_t address = memory().allocate(bytes, self->ordinal);
  if (!address) {
    self->used_bytes -= bytes;
    return result(kOutOfMemory);
  }
  std::lock_guard<std::mutex> lock(pools_mutex);
  plain_blocks.insert(address);
  *out = reinterpret_cast<void*>(address);
  return kSuccess;
}

int hipFree(void* block) {
  if (!block) return kSuccess;
  {
    std::lock_guard<std::mutex> lock(pools_mutex);
    if (!plain_blocks.erase(address_of(block))) {
      say("hipFree of %p, which hipMalloc has not made", block);
      return result(kInvalidValue);
    }
  }
  GpuMemory::Block found;
  uint64_t offset = 0;
  memory().find(address_of(block), 0, &found, &offset);
  Device* owner = device(found.ordinal);
  const int synchronized = synchronize_all(owner);
  owner->used_bytes -= memory().free(address_of(block));
  return result(synchronized);
}

int hipMemPoolCreate(void** out, const void* given) {
  struct Properties {
    int type, handles, location_type, location_id;
    void* security;
    unsigned char reserved[64];
  } properties;
  std::memcpy(&properties, given, sizeof properties);
  Device* owner = device(properties.location_id);
  const bool is_clean = std::all_of(properties.reserved, properties.reserved + 64, [](unsigned char byte) { return byte == 0; });
  if (!settings().pools) return result(kNotSupported);
  if (properties.type != 1 || properties.handles != 0 || properties.location_type != 1 || !owner || !is_clean) return result(kInvalidValue);
  if (const int bad = state(owner)) return result(bad);
  auto* pool = new Pool;
  pool->device = owner;
  std::lock_guard<std::mutex> lock(pools_mutex);
  pools.insert(pool);
  *out = pool;
  return kSuccess;
}

int hipMemPoolDestroy(void* handle) {
  Pool* pool = pool_with(handle);
  if (!pool) return result(kInvalidValue);
  synchronize_all(pool->device);
  std::lock_guard<std::mutex> lock(pools_mutex);
  pools.erase(pool);
  if (pool->used) say("a pool is destroyed while %" PRIu64 " bytes of it are in use", pool->used);
  pool->device->used_bytes -= pool->reserved - pool->used;
  delete pool;
  return kSuccess;
}

int hipMemPoolSetAttribute(void* handle, int attribute, void* value) {
  Pool* pool = pool_with(handle);
  if (!pool || attribute != 4) return result(kInvalidValue);
  std::lock_guard<std::mutex> lock(pool->mutex);
  std::memcpy(&pool->retained_bytes, value, 8);
  return kSuccess;
}

int hipMemPoolGetAttribute(void* handle, int attribute, void* out) {
  Pool* pool = pool_with(handle);
  if (!pool || attribute != 5) return result(kInvalidValue);
  std::lock_guard<std::mutex> lock(pool->mutex);
  std::memcpy(out, &pool->reserved, 8);
  return kSuccess;
}

int hipMemPoolSetAccess(void* handle, const void* given, size_t count) {
  Pool* pool = pool_with(handle);
  int access[3];
  std::memcpy(access, given, sizeof access);
  if (!pool || count != 1 || access[0] != 1 || access[2] != 3 || !device(access[1])) return result(kInvalidValue);
  std::lock_guard<std::mutex> lock(pool->mutex);
  pool->users.insert(access[1]);
  return kSuccess;
}

int hipMemPoolTrimTo(void* handle, size_t keep) {
  Pool* pool = pool_with(handle);
  if (!pool || keep != 0) return result(kInvalidValue);
  std::lock_guard<std::mutex> lock(pool->mutex);
  trim(pool);
  return kSuccess;
}

int hipMallocFromPoolAsync(void** out, size_t bytes, void* handle, void* on) {
  Pool* pool = pool_with(handle);
  Stream* stream = stream_of(on);
  *out = nullptr;
  if (!pool || !stream || !bytes) return result(kInvalidValue);
  if (const int bad = state(pool->device)) return result(bad);
  GpuMemory::Block block;
  {
    std::lock_guard<std::mutex> lock(pool->mutex);
    if (pool->reserved > pool->used && next_seed() % 31 == 0) pool->is_scattered = true;
    const uint64_t idle = pool->is_scattered ? 0 : pool->reserved - pool->used;
    const uint64_t missing = bytes > idle ? bytes - idle : 0;
    if (!take(pool->device, missing)) return result(kOutOfMemory);
    pool->reserved += missing;
    pool->used += bytes;
  }
  const uint64_t address = GpuMemory::reserve(bytes, &block);
  if (!address) return result(kOutOfMemory);
  block.ordinal = pool->device->ordinal;
  {
    std::lock_guard<std::mutex> lock(pool->mutex);
    pool->blocks[address] = bytes;
  }
  {
    std::lock_guard<std::mutex> lock(pools_mutex);
    pool_of_block[address] = pool;
  }
  *out = reinterpret_cast<void*>(address);
  return result(stream->enqueue([address, block]() -> int {
    memory().add(address, block);
    return kSuccess;
  }));
}

int hipFreeAsync(void* block, void* on) {
  Stream* stream = stream_of(on);
  const uint64_t address = address_of(block);
  Pool* pool = nullptr;
  {
    std::lock_guard<std::mutex> lock(pools_mutex);
    const auto found = pool_of_block.find(address);
    if (found == pool_of_block.end() || !stream) {
      say("hipFreeAsync of %p, which is not a block of a pool", block);
      return result(kInvalidValue);
    }
    pool = found->second;
    pool_of_block.erase(found);
  }
  auto release = [address, pool]() -> int {
    release_block(pool, address);  // first: another block may get the address
    if (memory().starts_at(address)) memory().free(address);
    return kSuccess;
  };
  if (const int bad = state(stream->device)) {
    release();
    return result(bad);
  }
  return result(stream->enqueue(release));
}

int hipHostMalloc(void** out, size_t bytes, unsigned flags) {
  Device* self = current();
  *out = nullptr;
  if (const int bad = state(self)) return result(bad);
  if (!bytes) return kSuccess;
  void* made = mmap(nullptr, (bytes + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return result(kOutOfMemory);
  std::memset(made, GpuMemory::kPoison, std::min(bytes, size_t{1} << 16));
  memory().add(address_of(made), {bytes, MemoryOwner::kHost, -1, static_cast<char*>(made), nullptr,
                                  flags & kCoherentFlag ? kCoherentFlag : kNonCoherentFlag});
  std::lock_guard<std::mutex> lock(pools_mutex);
  pinned[made] = flags;
  *out = made;
  return kSuccess;
}

int hipHostFree(void* block) {
  {
    std::lock_guard<std::mutex> lock(pools_mutex);
    if (!pinned.erase(block)) {
      say("hipHostFree of %p, which hipHostMalloc has not made", block);
      return result(kInvalidValue);
    }
  }
  for (int i = 0; device(i); ++i) synchronize_all(device(i));
  const uint64_t bytes = memory().remove(address_of(block)).size;
  munmap(block, (bytes + 4095) / 4096 * 4096);
  return result(state(current()));
}

int hipHostRegister(void* start, size_t bytes, unsigned flags) {
  if (const int bad = state(current())) return result(bad);
  if (!start || !bytes || flags & ~7u) return result(kInvalidValue);
  if (memory().overlaps(address_of(start), bytes)) return result(kAlreadyRegistered);
  memory().add(address_of(start), {bytes, MemoryOwner::kHost, -1, static_cast<char*>(start), nullptr, kCoherentFlag});
  std::lock_guard<std::mutex> lock(pools_mutex);
  registered.insert(start);
  return kSuccess;
}

int hipHostUnregister(void* start) {
  {
    std::lock_guard<std::mutex> lock(pools_mutex);
    if (!registered.erase(start)) return result(kNotRegistered);
  }
  for (int i = 0; device(i); ++i) synchronize_all(device(i));
  memory().remove(address_of(start));
  return result(state(current()));
}

int hipHostGetDevicePointer(void** out, void* start, unsigned flags) {
  GpuMemory::Block block;
  uint64_t offset = 0;
  if (flags || !memory().find(address_of(start), 1, &block, &offset) || block.owner != MemoryOwner::kHost) return result(kInvalidValue);
  *out = start;
  return result(state(current()));
}

int hipPointerGetAttributes(void* out, const void* pointer) {
  struct Attributes {
    int type, device;
    void *on_device, *on_host;
    int is_managed;
    unsigned flags;
  } attributes = {};
  const bool is_old = settings().major < 6;
  GpuMemory::Block block;
  uint64_t offset = 0;
  if (!pointer || (!memory().find(address_of(pointer), 1, &block, &offset) && is_old)) return result(kInvalidValue);
  const bool is_host = block.owner == MemoryOwner::kHost;
  attributes.type = block.owner == MemoryOwner::kUnknown ? 0 : (is_host ? 0 : 1) + (is_old ? 0 : 1);
  attributes.device = block.owner == MemoryOwner::kUnknown ? -2 : is_host ? 0 : block.ordinal;
  attributes.on_device = const_cast<void*>(pointer);
  std::memcpy(out, &attributes, sizeof attributes);
  return result(state(current()));
}

int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* on) {
  if (kind < 0 || kind > 4) return result(kInvalidValue);
  return result(enqueue_copy({address_of(to), bytes, address_of(from), bytes, bytes, 1, nullptr}, stream_of(on)));
}

int hipMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int kind, void* on) {
  if (kind < 0 || kind > 4 || to_pitch < width || from_pitch < width || to_pitch > INT32_MAX || from_pitch > INT32_MAX) {
    return result(kInvalidValue);
  }
  return result(enqueue_copy({address_of(to), to_pitch, address_of(from), from_pitch, width, height, nullptr}, stream_of(on)));
}

int hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, void* on) {
  Stream* stream = stream_of(on);
  GpuMemory::Block source, target;
  uint64_t offset = 0;
  if (!stream || !device(to_device) || !device(from_device)) return result(kInvalidDevice);
  if (const int bad = state(device(to_device))) return result(bad);
  if (const int bad = state(device(from_device))) return result(bad);
  const bool is_there = memory().find(address_of(from), bytes, &source, &offset) && memory().find(address_of(to), bytes, &target, &offset);
  if (!is_there || source.ordinal != from_device || target.ordinal != to_device) {
    say("hipMemcpyPeerAsync names devices %d and %d for memory of devices %d and %d", from_device, to_device, source.ordinal,
        target.ordinal);
    return result(kInvalidValue);
  }
  // It goes through the host where there is no access.
  const CopyWork copy = {address_of(to), bytes, address_of(from), bytes, bytes, 1, nullptr};
  return result(stream->enqueue([copy]() -> int {
    GpuMemory::Block from_block, to_block;
    uint64_t from_offset = 0, to_offset = 0;
    if (!memory().find(copy.from, copy.row_bytes, &from_block, &from_offset) ||
        !memory().find(copy.to, copy.row_bytes, &to_block, &to_offset)) {
      return kIllegalAddress;
    }
    std::memmove(to_block.bytes + to_offset, from_block.bytes + from_offset, copy.row_bytes);
    return kSuccess;
  }));
}

int hipMemsetD8Async(void* to, unsigned char value, size_t count, void* on) {
  return result(enqueue_fill({address_of(to), count, 1, 1, value}, stream_of(on)));
}
int hipMemsetD16Async(void* to, unsigned short value, size_t count, void* on) {
  return result(enqueue_fill({address_of(to), count, 2, 2, value}, stream_of(on)));
}
int hipMemsetD32Async(void* to, int value, size_t count, void* on) {
  return result(enqueue_fill({address_of(to), count, 4, 4, static_cast<uint32_t>(value)}, stream_of(on)));
}
int hipMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, void* on) {
  if (pitch < width || width != 1 || pitch > INT32_MAX) return result(kInvalidValue);
  return result(enqueue_fill({address_of(to), height, pitch, 1, static_cast<uint8_t>(value)}, stream_of(on)));
}
}

}  // namespace heddle::test::hip
