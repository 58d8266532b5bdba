// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: heddle.buffer/1.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "session.h"

namespace heddle::conformance {
namespace {

heddle_status_t* allocate(Session& session, uint64_t size, uint64_t alignment, uint32_t memory, heddle_buffer_t** out) {
  heddle_buffer_params_t params = {sizeof params, memory, size, alignment};
  *out = nullptr;
  return session.tables().buffer.allocate(session.device, &params, out);
}

heddle_buffer_properties_t properties_of(Session& session, heddle_buffer_t* buffer) {
  heddle_buffer_properties_t properties = {};
  properties.struct_size = sizeof properties;
  Result status(session.tables().buffer.properties(buffer, &properties));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it reports no properties of buffers, which is optional");
  REQUIRE(status.ok(), "properties returned %s", status.text().c_str());
  return properties;
}

char* map(Session& session, heddle_buffer_t* buffer, uint64_t offset, uint64_t length,
          uint32_t flags = HEDDLE_MAP_READ | HEDDLE_MAP_WRITE) {
  void* pointer = nullptr;
  REQUIRE_OK(session.tables().buffer.map(buffer, offset, length, flags, &pointer));
  REQUIRE(pointer || length == 0, "map returned neither a status nor a pointer");
  return static_cast<char*>(pointer);
}

void zero_size() {
  Session session;
  heddle_buffer_t* first = session.buffer(0);
  heddle_buffer_t* second = session.buffer(0);
  CHECK(first != second, "two buffers of 0 bytes are the same");
  session.upload(first, 0, "", 0);
  List list;
  list.fill(first, 0, 0, 1, 4).copy(first, 0, second, 0, 0);
  session.run(list);
  list.fill(first, 0, 1, 1, 1);
  EXPECT_CODE(session.try_run(list).release(), HEDDLE_STATUS_OUT_OF_RANGE);
}

void alignments() {
  Session session;
  const uint64_t most = std::max<uint64_t>(session.alignment(), 1 << 16);
  for (uint64_t alignment = 1; alignment <= most; alignment *= 2) {
    for (uint64_t size : {uint64_t{1}, uint64_t{4000}, session.fitting(300000)}) {
      heddle_buffer_t* buffer = nullptr;
      Result status(allocate(session, size, alignment, 0, &buffer));
      REQUIRE(status.ok(), "%llu bytes aligned to %llu returned %s", number(size), number(alignment), status.text().c_str());
      const heddle_buffer_properties_t properties = properties_of(session, buffer);
      const uint64_t expected = std::max(alignment, session.alignment());
      CHECK(properties.alignment_bytes >= expected, "a buffer aligned to %llu reports %llu", number(expected),
            number(properties.alignment_bytes));
      CHECK(properties.device_address % expected == 0, "a buffer aligned to %llu starts at %llx", number(expected),
            number(properties.device_address));
      CHECK(properties.size_bytes == size, "a buffer of %llu bytes reports %llu", number(size), number(properties.size_bytes));
      session.tables().buffer.free(buffer);
    }
  }
}

void bad_params() {
  Session session;
  heddle_buffer_t* buffer = nullptr;
  for (uint64_t alignment : {uint64_t{3}, uint64_t{96}, (uint64_t{1} << 63) + 1}) {
    EXPECT_CODE(allocate(session, 64, alignment, 0, &buffer), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  EXPECT_CODE(allocate(session, 64, 0, 1u << 30, &buffer), HEDDLE_STATUS_INVALID_ARGUMENT);
}

void kinds_hold() {
  Session session;
  for (uint32_t kind : {HEDDLE_MEMORY_DEVICE, HEDDLE_MEMORY_HOST_VISIBLE, HEDDLE_MEMORY_PINNED}) {
    heddle_buffer_t* buffer = nullptr;
    Result status(allocate(session, 4096, 0, kind, &buffer));
    if (!session.has_memory(kind)) {
      CHECK(!status.ok(), "memory of kind %x is not offered, but was allocated", kind);
    } else {
      REQUIRE(status.ok(), "memory of kind %x is offered, but allocating it returned %s", kind, status.text().c_str());
      const heddle_buffer_properties_t properties = properties_of(session, buffer);
      CHECK((properties.memory & kind) == kind, "a buffer of kind %x reports %x", kind, properties.memory);
    }
    if (buffer) session.tables().buffer.free(buffer);
  }
}

void over_limit() {
  Session session;
  for (uint64_t size : {session.description.max_allocation_bytes + 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX}) {
    heddle_buffer_t* buffer = nullptr;
    Result status(allocate(session, size, 0, 0, &buffer));
    CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "%llu bytes, with buffers of at most %llu, returned %s; RESOURCE_EXHAUSTED was expected", number(size),
          number(session.description.max_allocation_bytes), status.text().c_str());
    CHECK(status.message().find(std::to_string(size)) != std::string::npos, "the refusal of %llu bytes does not name the size: %s",
          number(size), status.message().c_str());
  }
  session.run(List());
}

void subrange_bounds() {
  Session session;
  const uint32_t kind = session.mappable();
  heddle_buffer_t* buffer = session.buffer(4096, kind);
  const heddle_buffer_interface_t& api = session.tables().buffer;
  for (auto [offset, length] : {std::pair<uint64_t, uint64_t>{0, 4097}, {4096, 1}, {4097, 0}, {1, UINT64_MAX}, {UINT64_MAX, 2}}) {
    void* pointer = nullptr;
    EXPECT_CODE(api.map(buffer, offset, length, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_OUT_OF_RANGE);
    EXPECT_CODE(api.flush(buffer, offset, length), HEDDLE_STATUS_OUT_OF_RANGE);
    EXPECT_CODE(api.invalidate(buffer, offset, length), HEDDLE_STATUS_OUT_OF_RANGE);
  }
  map(session, buffer, 4096, 0);
  EXPECT_OK(api.unmap(buffer));
}

void map_flags() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(64, session.mappable());
  for (uint32_t flags : {0u, 8u, HEDDLE_MAP_READ | 1024u}) {
    void* pointer = nullptr;
    EXPECT_CODE(session.tables().buffer.map(buffer, 0, 64, flags, &pointer), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  map(session, buffer, 0, 64, HEDDLE_MAP_WRITE | HEDDLE_MAP_DISCARD);
  EXPECT_OK(session.tables().buffer.unmap(buffer));
}

void unmappable_memory() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(64);
  if (properties_of(session, buffer).memory & HEDDLE_MEMORY_HOST_VISIBLE) absent("all memory of the device is visible to the host");
  void* pointer = nullptr;
  EXPECT_CODE(session.tables().buffer.map(buffer, 0, 64, HEDDLE_MAP_READ, &pointer), HEDDLE_STATUS_FAILED_PRECONDITION);
}

void map_visibility() {
  Session session;
  const uint64_t size = session.fitting(100003);
  const uint32_t kind = session.mappable();
  heddle_buffer_t* buffer = session.buffer(size, kind);
  const std::vector<char> wrote = random_bytes(size);
  char* memory = map(session, buffer, 0, size);
  std::memcpy(memory, wrote.data(), size);
  EXPECT_OK(session.tables().buffer.flush(buffer, 0, size));
  EXPECT_OK(session.tables().buffer.unmap(buffer));
  CHECK(session.download(buffer, 0, size) == wrote, "the device does not copy what the host wrote through a map");
  List list;
  list.fill(buffer, 3, size - 5, 0xc3, 1);
  session.run(list);
  memory = map(session, buffer, 3, size - 5, HEDDLE_MAP_READ);
  EXPECT_OK(session.tables().buffer.invalidate(buffer, 3, size - 5));
  CHECK(std::all_of(memory, memory + size - 5, [](char byte) { return byte == static_cast<char>(0xc3); }),
        "the host does not read what the device wrote through a map");
  EXPECT_OK(session.tables().buffer.unmap(buffer));
  // Only the mapped range may become undefined, and nothing around it: a pool has other blocks there.
  const uint64_t from = size / 4, length = size / 4;
  std::vector<char> expected = session.download(buffer, 0, size);
  memory = map(session, buffer, from, length, HEDDLE_MAP_WRITE | HEDDLE_MAP_DISCARD);
  std::memset(memory, 0x3c, length);
  EXPECT_OK(session.tables().buffer.flush(buffer, from, length));
  EXPECT_OK(session.tables().buffer.unmap(buffer));
  std::fill_n(expected.begin() + static_cast<long>(from), length, 0x3c);
  CHECK(session.download(buffer, 0, size) == expected, "a map that discards %llu bytes at %llu lost other bytes", number(length),
        number(from));
}

void maps_are_counted() {
  Session session;
  const uint64_t size = session.fitting(65536);
  heddle_buffer_t* buffer = session.buffer(size, session.mappable());
  char* whole = map(session, buffer, 0, size);
  char* part = map(session, buffer, 100, 200);
  char* same = map(session, buffer, 100, 200, HEDDLE_MAP_READ);
  std::memset(whole, 1, size);
  EXPECT_OK(session.tables().buffer.unmap(buffer));
  EXPECT_OK(session.tables().buffer.unmap(buffer));
  whole[size - 1] = 2;  // valid until there were as many unmaps as maps
  part[0] = 3;
  CHECK(same[0] == 3 && whole[100] == 3, "two maps of the same bytes differ");
  EXPECT_OK(session.tables().buffer.flush(buffer, 0, size));
  EXPECT_OK(session.tables().buffer.unmap(buffer));
  const std::vector<char> bytes = session.download(buffer, 0, size);
  CHECK(bytes[100] == 3 && bytes[101] == 1 && bytes[size - 1] == 2, "bytes written after an unmap of another range are lost");
}

void buffers_are_disjoint() {
  Session session;
  std::vector<heddle_buffer_t*> buffers;
  std::vector<uint64_t> sizes;
  List list;
  for (int i = 0; i < 40; ++i) {
    sizes.push_back(session.fitting(1 + random_below(70000)));
    buffers.push_back(session.buffer(sizes.back()));
    list.fill(buffers.back(), 0, sizes.back(), static_cast<uint64_t>(i), 1);
  }
  session.run(list);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::vector<char> bytes = session.download(buffers[i], 0, sizes[i]);
    CHECK(std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte == static_cast<char>(i); }),
          "buffer %zu holds bytes of another", i);
  }
}

struct Imported {
  explicit Imported(uint64_t size) : bytes(size) {
    memory = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory != MAP_FAILED, "mapping %llu bytes failed", number(size));
  }
  ~Imported() { munmap(memory, bytes); }
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;
  static void count(void* context) { ++static_cast<Imported*>(context)->releases; }
  heddle_buffer_t* import(Session& session, uint64_t offset, uint64_t length) {
    heddle_buffer_t* buffer = nullptr;
    Result status(session.tables().buffer.import_host(session.device, memory + offset, length, count, this, &buffer));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) {
      if (releases == 0) releases = 1;  // the kit's own function for a hole releases nothing
      absent("it imports no host memory, which is optional");
    }
    REQUIRE(status.ok() && buffer, "importing %llu bytes of host memory returned %s", number(length), status.text().c_str());
    return buffer;
  }
  uint64_t bytes;
  char* memory;
  std::atomic<int> releases{0};
};

void import_releases_once() {
  Session session;
  Imported host(65536);
  const std::vector<char> wrote = random_bytes(65536);
  std::memcpy(host.memory, wrote.data(), wrote.size());
  heddle_buffer_t* buffer = host.import(session, 0, 65536);
  CHECK(session.download(buffer, 0, 65536) == wrote, "an imported buffer does not contain the host's bytes");
  session.upload(buffer, 16, "heddle", 6);
  CHECK(std::memcmp(host.memory + 16, "heddle", 6) == 0, "a write to an imported buffer did not reach the host's memory: it was copied");
  CHECK(host.releases == 0, "release was called while the buffer lived");
  session.tables().buffer.free(buffer);
  CHECK(host.releases == 1, "after the buffer was freed release had been called %d times; once was expected", host.releases.load());
}

void import_failure_releases() {
  Session session;
  Imported host(4096);
  session.tables().buffer.free(host.import(session, 0, 4096));
  host.releases = 0;
  heddle_buffer_t* buffer = nullptr;
  Result status(session.tables().buffer.import_host(session.device, nullptr, 4096, Imported::count, &host, &buffer));
  CHECK(status.code() == HEDDLE_STATUS_INVALID_ARGUMENT, "importing 4096 bytes at NULL returned %s; INVALID_ARGUMENT was expected",
        status.text().c_str());
  CHECK(host.releases == 1, "release was called %d times for an import that failed; once was expected", host.releases.load());
}

void import_views_overlap() {
  Session session;
  Imported host(65536);
  heddle_buffer_t* whole = host.import(session, 0, 65536);
  heddle_buffer_t* part = nullptr;
  Result status(session.tables().buffer.import_host(session.device, host.memory + 4096, 8192, Imported::count, &host, &part));
  if (!status.ok()) {
    session.tables().buffer.free(whole);
    absent("it imports no memory twice: %s", status.text().c_str());
  }
  List list;
  list.fill(part, 0, 8192, 0x11, 1).barrier().fill(whole, 4096 + 100, 10, 0x22, 1);
  session.run(list);
  const std::vector<char> bytes = session.download(part, 0, 8192);
  CHECK(bytes[99] == 0x11 && bytes[100] == 0x22 && bytes[109] == 0x22 && bytes[110] == 0x11, "two views of the same host memory differ");
  session.tables().buffer.free(whole);
  session.tables().buffer.free(part);
  CHECK(host.releases == 2, "release was called %d times for two views", host.releases.load());
}

// DLPack (https://dmlc.github.io/dlpack, version 0.6 and later): a tensor that libraries exchange, with its deleter.
struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;  // in elements; NULL: dense
  uint64_t byte_offset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* manager;
  void (*deleter)(DlManagedTensor* self);
};

void dlpack_round_trip() {
  Session session;
  // A view of 6 x 10 floats that begins somewhere in its producer's memory, as slices do.
  int64_t shape[] = {6, 10};
  constexpr uint64_t kBytes = 6 * 10 * sizeof(float);
  const uint64_t offset = std::max<uint64_t>(session.description.min_alignment_bytes, 256);
  Imported host(offset + 65536);
  const std::vector<char> wrote = random_bytes(kBytes);
  std::memcpy(host.memory + offset, wrote.data(), kBytes);
  DlManagedTensor given = {
      {host.memory, 1, 0, 2, 2, 32, 1, shape, nullptr, offset}, &host, [](DlManagedTensor* self) { Imported::count(self->manager); }};
  heddle_buffer_t* in = nullptr;
  Result status(session.tables().buffer.import_host(
      session.device, static_cast<char*>(given.tensor.data) + given.tensor.byte_offset, kBytes,
      [](void* context) { static_cast<DlManagedTensor*>(context)->deleter(static_cast<DlManagedTensor*>(context)); }, &given, &in));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it imports no host memory, which is optional");
  REQUIRE(status.ok() && in, "importing a view %llu bytes into its memory returned %s", number(offset), status.text().c_str());

  // Through the device, and out as a tensor of its memory: the consumer's deleter unmaps it.
  struct Shown {
    Session* session;
    heddle_buffer_t* buffer;
    int deleted = 0;
  } shown = {&session, session.buffer(kBytes)};
  List list;
  list.copy(in, 0, shown.buffer, 0, kBytes);
  session.run(list);
  if (session.description.features & HEDDLE_DEVICE_UNIFIED_MEMORY) {
    DlManagedTensor result = {
        {map(session, shown.buffer, 0, kBytes), 1, 0, 2, 2, 32, 1, shape, nullptr, 0}, &shown, [](DlManagedTensor* self) {
          auto* owner = static_cast<Shown*>(self->manager);
          EXPECT_OK(owner->session->tables().buffer.unmap(owner->buffer));
          owner->session->free(owner->buffer);
          ++owner->deleted;
        }};
    CHECK(std::memcmp(result.tensor.data, wrote.data(), kBytes) == 0, "a DLPack tensor came out with other bytes than it went in with");
    result.deleter(&result);
    CHECK(shown.deleted == 1, "the tensor's deleter ran %d times", shown.deleted);
  } else {
    CHECK(session.download(shown.buffer, 0, kBytes) == wrote, "a DLPack tensor came out with other bytes than it went in with");
  }
  CHECK(host.releases == 0, "the producer's deleter was called while the import lived");
  session.tables().buffer.free(in);
  CHECK(host.releases == 1, "the producer's deleter was called %d times; once was expected", host.releases.load());
}

void freed_memory_is_good() {
  Session session;
  // Freed memory can be allocated again, including alignment overhead: often enough to exhaust a small device otherwise.
  const uint64_t alignment = uint64_t{2} << 20;
  const uint64_t times = std::min<uint64_t>(session.description.memory_bytes / alignment, 4096) + 2;
  for (uint64_t i = 0; i < times && session.fitting(alignment) == alignment; ++i) {
    heddle_buffer_t* aligned = nullptr;
    Result status(allocate(session, 100, alignment, 0, &aligned));
    REQUIRE(status.ok(), "100 bytes aligned to %llu returned %s after %llu like them were made and freed", number(alignment),
            status.text().c_str(), number(i));
    session.tables().buffer.free(aligned);
  }
  heddle_buffer_t* buffer = session.buffer(100);
  session.free(buffer);
  heddle_buffer_t* again = session.buffer(100);
  const std::vector<char> bytes = random_bytes(100);
  session.upload(again, 0, bytes.data(), 100);
  CHECK(session.download(again, 0, 100) == bytes, "a buffer allocated after another was freed does not contain what was written");
}

// Limits this process's address space to this much beyond its current use.
class AddressSpace {
 public:
  explicit AddressSpace(uint64_t more_bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit less = before_;
    less.rlim_cur = std::min<rlim_t>(before_.rlim_max, address_space_bytes() + more_bytes);
    setrlimit(RLIMIT_AS, &less);
  }
  ~AddressSpace() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

 private:
  rlimit before_ = {};
};

void exhaustion_ends() {
  Session session;
  // The memory that the device reports can be allocated, and freed; on a real device other processes use some of it.
  uint64_t each = session.description.max_allocation_bytes / 4;
  std::optional<AddressSpace> less;
  if (session.description.memory_bytes > uint64_t{1} << 32) {
    if (!(session.description.features & HEDDLE_DEVICE_UNIFIED_MEMORY) || kHasShadowMemory)
      absent("the device has more than 4 GiB, and the kit does not use all of it up; an option that limits its memory would suffice");
    each = 64 << 20;  // its memory is that of this process, which can be limited
    less.emplace(uint64_t{1} << 30);
  }
  std::vector<heddle_buffer_t*> buffers;
  heddle_status_code_t code = HEDDLE_STATUS_OK;
  while (code == HEDDLE_STATUS_OK && buffers.size() < 4096) {
    heddle_buffer_t* buffer = nullptr;
    code = Result(allocate(session, each, 0, 0, &buffer)).code();
    if (buffer) buffers.push_back(buffer);
  }
  CHECK(code == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
        "with %zu buffers of %llu bytes on a device of %llu the next returned %s; RESOURCE_EXHAUSTED was expected", buffers.size(),
        number(each), number(session.description.memory_bytes), code_name(code).c_str());
  CHECK(buffers.size() >= 2, "buffers of %llu bytes: %zu were allocated", number(each), buffers.size());
  for (heddle_buffer_t* buffer : buffers) session.tables().buffer.free(buffer);
  session.buffer(each);
}

}  // namespace

void add_buffer_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"buffer.zero_size", "a buffer of 0 bytes is a buffer", zero_size, Kind::kDriver},
       {"buffer.alignment", "a buffer starts at the requested alignment, and at the device's", alignments, Kind::kDriver},
       {"buffer.bad_params", "an alignment that is not a power of two and an unknown kind are INVALID_ARGUMENT", bad_params, Kind::kDriver},
       {"buffer.kinds", "memory has the requested kinds", kinds_hold, Kind::kDriver},
       {"buffer.over_limit", "more than the device has is RESOURCE_EXHAUSTED, and the size is named", over_limit, Kind::kDriver},
       {"buffer.subrange_bounds", "map, flush and invalidate stay inside the buffer, also if sums overflow [HD-M-02]", subrange_bounds,
        Kind::kDriver},
       {"buffer.map_flags", "a map reads, writes or both; unknown flags are INVALID_ARGUMENT", map_flags, Kind::kDriver},
       {"buffer.unmappable", "memory that the host cannot see is not mapped: FAILED_PRECONDITION", unmappable_memory, Kind::kDriver},
       {"buffer.map_visibility",
        "host writes reach the device after a flush, device writes reach the host after an invalidate, and nothing else is lost",
        map_visibility, Kind::kDriver},
       {"buffer.map_counts", "a map is valid until there were as many unmaps as maps [HD-M-06]", maps_are_counted, Kind::kDriver},
       {"buffer.disjoint", "no two buffers share bytes", buffers_are_disjoint, Kind::kDriver},
       {"buffer.import", "imported host memory is used in place and released exactly once [HD-T-03]", import_releases_once, Kind::kDriver},
       {"buffer.import_failure", "release is called exactly once when the import fails, too [HD-T-03]", import_failure_releases,
        Kind::kDriver},
       {"buffer.import_views", "overlapping imports show the same bytes", import_views_overlap, Kind::kDriver},
       {"buffer.dlpack", "a DLPack tensor is imported at its byte offset, and comes out of the device as one", dlpack_round_trip,
        Kind::kDriver},
       {"buffer.reuse", "a buffer in reused memory works", freed_memory_is_good, Kind::kDriver},
       {"buffer.exhaustion", "exhausted memory is RESOURCE_EXHAUSTED, and freed memory can be allocated again", exhaustion_ends,
        Kind::kDriver}});
}

}  // namespace heddle::conformance
