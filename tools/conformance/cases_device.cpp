// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: heddle.device/1, and the sizes of input and output structs.
#include <algorithm>
#include <cstring>

#include "session.h"

namespace heddle::conformance {
namespace {

bool is_power_of_two(uint64_t value) {
  return value && !(value & (value - 1));
}

void descriptions_are_sane() {
  Instance instance;
  uint32_t count = 0;
  REQUIRE_OK(instance.tables.device.count(instance.handle, &count));
  REQUIRE(count > 0, "there is no device");
  for (uint32_t i = 0; i < count; ++i) {
    const heddle_device_description_t first = describe_device(&instance, i), again = describe_device(&instance, i);
    CHECK(first.ordinal == i, "device %u reports ordinal %u", i, first.ordinal);
    CHECK(first.name.size && first.family.size, "device %u has no name or no family", i);
    for (const auto& [what, text] : {std::pair{"name", first.name}, {"family", first.family}, {"pci", first.pci}}) {
      CHECK(is_plain(text_of(text)), "device %u has the %s %s; text without control characters was expected", i, what,
            shown(text_of(text)).c_str());
    }
    const std::vector<std::string>& families = settings().declared.families;
    CHECK(
        families.empty() || std::find(families.begin(), families.end(), text_of(first.family)) != families.end(),
        "device %u is of family %s, which `families` of its manifest does not name: the host looks for devices of a family by the manifest",
        i, shown(text_of(first.family)).c_str());
    CHECK(first.memory_kinds && !(first.memory_kinds & ~7u), "device %u has memory kinds %x", i, first.memory_kinds);
    CHECK(first.memory_bytes && first.max_allocation_bytes && first.max_allocation_bytes <= first.memory_bytes,
          "device %u has %llu bytes of memory and buffers of at most %llu", i, number(first.memory_bytes),
          number(first.max_allocation_bytes));
    CHECK(is_power_of_two(first.min_alignment_bytes), "device %u aligns to %llu, not a power of two", i, number(first.min_alignment_bytes));
    CHECK(first.code_format_count > 0, "device %u accepts no code format", i);
    for (uint32_t k = 0; k < first.code_format_count; ++k) {
      const std::string format = text_of(first.code_formats[k]);
      CHECK(format.find('/') != std::string::npos && is_plain(format),
            "device %u accepts code format %s, which has no version or is not plain text", i, shown(format).c_str());
    }
    CHECK(!(first.features & HEDDLE_DEVICE_UNIFIED_MEMORY) || (first.memory_kinds & HEDDLE_MEMORY_HOST_VISIBLE),
          "device %u reports unified memory, but has none that the host can see", i);
    CHECK(std::memcmp(first.uuid, again.uuid, sizeof first.uuid) == 0 && text_of(first.name) == text_of(again.name),
          "device %u describes itself differently the second time", i);
    const uint32_t* grid = first.max_workgroup_count;
    note(
        "device %u is '%s' of family %s: %llu bytes of memory of kinds %x, buffers of %llu aligned to %llu, grids of %ux%ux%u, features %x",
        i, text_of(first.name).c_str(), text_of(first.family).c_str(), number(first.memory_bytes), first.memory_kinds,
        number(first.max_allocation_bytes), number(first.min_alignment_bytes), grid[0], grid[1], grid[2], first.features);
    for (uint32_t k = 0; k < i; ++k) {
      static const uint8_t unknown[16] = {};
      const heddle_device_description_t other = describe_device(&instance, k);
      CHECK(std::memcmp(first.uuid, unknown, 16) == 0 || std::memcmp(first.uuid, other.uuid, 16) != 0,
            "devices %u and %u have the same UUID", k, i);
    }
  }
}

void ordinals_end() {
  Instance instance;
  uint32_t count = 0;
  REQUIRE_OK(instance.tables.device.count(instance.handle, &count));
  for (uint32_t ordinal : {count, count + 7, UINT32_MAX}) {
    heddle_device_description_t description = {};
    description.struct_size = sizeof description;
    EXPECT_CODE(instance.tables.device.describe(instance.handle, ordinal, &description), HEDDLE_STATUS_OUT_OF_RANGE);
    Result failure(nullptr);
    heddle_device_t* device = open_device(&instance, ordinal, &failure);
    CHECK(!device && failure.code() == HEDDLE_STATUS_OUT_OF_RANGE, "opening device %u of %u returned %s; OUT_OF_RANGE was expected",
          ordinal, count, failure.text().c_str());
  }
}

void links_are_known() {
  Instance instance;
  heddle_device_link_t link = {};
  link.struct_size = sizeof link;
  link.kind = 99;
  Result status(instance.tables.device.link(instance.handle, 0, 0, &link));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it describes no links, which is optional");
  REQUIRE(status.ok(), "link returned %s", status.text().c_str());
  CHECK(link.kind == HEDDLE_LINK_SAME_MEMORY, "a device's link to itself has kind %u; SAME_MEMORY was expected", link.kind);
  EXPECT_CODE(instance.tables.device.link(instance.handle, 0, 1000, &link), HEDDLE_STATUS_OUT_OF_RANGE);
}

void one_ordinal_opens_twice() {
  Session session;
  Result failure(nullptr);
  heddle_device_t* second = open_device(&session.instance, 0, &failure);
  REQUIRE(second && second != session.device, "opening device 0 again returned %s",
          failure.ok() ? "the same device" : failure.text().c_str());
  EXPECT_OK(session.tables().device.close(second));
  session.run(List());
}

void handles_begin_with_the_table() {
  Session session;
  auto first_word = [](const void* handle) { return *static_cast<const heddle_driver_api_t* const*>(handle); };
  const heddle_driver_api_t* api = &session.instance.api;
  CHECK(first_word(session.device) == api, "a device does not begin with the host's table [HD-H-01]");
  CHECK(first_word(session.queue) == api, "a queue does not begin with the host's table [HD-H-01]");
  CHECK(first_word(session.buffer(64)) == api, "a buffer does not begin with the host's table [HD-H-01]");
  CHECK(first_word(session.timeline()) == api, "a timeline does not begin with the host's table [HD-H-01]");
  if (Kernels::choose(&session)) {
    Kernels kernels(&session);
    CHECK(first_word(kernels.executable) == api, "an executable does not begin with the host's table [HD-H-01]");
    CHECK(first_word(kernels.entry("add")) == api, "an entry does not begin with the host's table [HD-H-01]");
  }
}

void statistics_add_up() {
  Session session;
  auto now = [&] {
    heddle_device_statistics_t values = {};
    values.struct_size = sizeof values;
    Result status(session.tables().device.statistics(session.device, &values));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it keeps no statistics, which is optional");
    REQUIRE(status.ok(), "statistics returned %s", status.text().c_str());
    return values;
  };
  const heddle_device_statistics_t before = now();
  heddle_buffer_t* buffer = session.buffer(4096);
  List list;
  list.fill(buffer, 0, 2048, 7, 1).barrier().copy(buffer, 0, buffer, 2048, 2048).barrier().update(buffer, 100, "heddle", 6);
  session.run(list);
  const heddle_device_statistics_t after = now();
  CHECK(after.bytes_allocated - before.bytes_allocated >= 4096, "after a buffer of 4096 bytes bytes_allocated grew by %llu",
        number(after.bytes_allocated - before.bytes_allocated));
  CHECK(after.submissions - before.submissions == 1, "after one submission submissions grew by %llu",
        number(after.submissions - before.submissions));
  CHECK(after.copies - before.copies == 3, "after a fill, a copy and an update copies grew by %llu", number(after.copies - before.copies));
  session.free(buffer);
  // Imported memory may be counted or not; after it is freed, it must not be.
  alignas(4096) static char memory[8192];
  heddle_buffer_t* imported = nullptr;
  Result(session.tables().buffer.import_host(session.device, memory, sizeof memory, [](void*) {}, nullptr, &imported));
  if (imported) session.tables().buffer.free(imported);
  CHECK(now().bytes_allocated == before.bytes_allocated, "after the buffer was freed bytes_allocated is %llu more than before",
        number(now().bytes_allocated - before.bytes_allocated));
}

void priorities() {
  Session session;
  for (uint32_t priority : {1u, 77u}) {
    heddle_queue_params_t params = {sizeof params, priority};
    heddle_queue_t* queue = nullptr;
    Result status(session.tables().device.queue_create(session.device, &params, &queue));
    if (priority == 1) {
      CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
            "a queue of priority 1 returned %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    } else {
      CHECK(status.code() == HEDDLE_STATUS_INVALID_ARGUMENT || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
            "a queue of priority 77 returned %s; INVALID_ARGUMENT or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    }
    if (queue) EXPECT_OK(session.tables().device.queue_destroy(queue));
  }
}

// A struct of a newer host: larger, with an unknown end whose last word is zero or not.
template <class T>
struct Larger {
  T known;
  uint64_t tail[kTailWords];
};
template <class T>
Larger<T> larger(const T& known, uint64_t last) {
  Larger<T> made = {};
  made.known = known;
  made.tail[kTailWords - 1] = last;
  made.known.struct_size = sizeof made;
  return made;
}

void larger_structs() {
  Session session;
  const Tables& tables = session.tables();
  auto both = [&](const char* what, auto known, auto call) {
    auto newer = larger(known, 0);
    Result accepted(call(&newer.known));
    CHECK(accepted.ok(), "a larger %s whose unknown end is zero returned %s [HD-E-04]", what, accepted.text().c_str());
    auto unknown = larger(known, 1);
    Result refused(call(&unknown.known));
    CHECK(refused.code() == HEDDLE_STATUS_INVALID_ARGUMENT,
          "a larger %s whose unknown end is not zero returned %s; INVALID_ARGUMENT was expected [HD-E-04]", what, refused.text().c_str());
    const std::string byte = std::to_string(sizeof known + 8 * (kTailWords - 1));
    CHECK(refused.message().find(byte) != std::string::npos || refused.ok(), "the refusal of a %s does not name byte %s: %s [HD-E-04]",
          what, byte.c_str(), refused.text().c_str());
  };
  both("heddle_device_open_params_t", heddle_device_open_params_t{0, 0, &session.instance.api, {nullptr, 0}, -1, 0},
       [&](const heddle_device_open_params_t* params) {
         heddle_device_t* device = nullptr;
         heddle_status_t* status = tables.device.open(session.instance.handle, 0, params, &device);
         if (device) EXPECT_OK(tables.device.close(device));
         return status;
       });
  both("heddle_buffer_params_t", heddle_buffer_params_t{0, 0, 64, 0}, [&](const heddle_buffer_params_t* params) {
    heddle_buffer_t* buffer = nullptr;
    heddle_status_t* status = tables.buffer.allocate(session.device, params, &buffer);
    if (buffer) tables.buffer.free(buffer);
    return status;
  });
  both("heddle_submission_t", heddle_submission_t{0, 0, nullptr, session.sync({}, {})},
       [&](const heddle_submission_t* submission) { return tables.dispatch.submit(session.queue, submission); });
  TemporaryFile file(random_bytes(64));
  heddle_file_t* opened = nullptr;
  REQUIRE_OK(tables.param_io.file_open(session.device, file.descriptor, HEDDLE_FILE_READ, string_of("file"), &opened));
  both("heddle_param_io_params_t", heddle_param_io_params_t{}, [&](const heddle_param_io_params_t* params) {
    const heddle_point_t done = session.point();
    const std::vector<heddle_point_t> signals = {done};
    const heddle_sync_t sync = session.sync({}, signals);
    heddle_status_t* status = tables.param_io.read(session.queue, &sync, opened, nullptr, 0, params);
    if (!status) session.reach(done);
    return status;
  });
  tables.param_io.file_close(opened);
}

void smaller_structs() {
  Session session;
  const Tables& tables = session.tables();
  heddle_buffer_params_t params = {offsetof(heddle_buffer_params_t, alignment_bytes), 0, 64, 3};
  heddle_buffer_t* buffer = nullptr;
  Result status(tables.buffer.allocate(session.device, &params, &buffer));
  CHECK(status.ok(), "buffer params without an alignment returned %s; missing fields count as zero [HD-E-04]", status.text().c_str());
  if (buffer) tables.buffer.free(buffer);
  heddle_device_open_params_t open = {offsetof(heddle_device_open_params_t, cpus), 0, &session.instance.api, {"x", 1000}, 77, 1};
  heddle_device_t* device = nullptr;
  Result opened(tables.device.open(session.instance.handle, 0, &open, &device));
  CHECK(opened.ok(), "open params that end before cpus returned %s [HD-E-04]", opened.text().c_str());
  if (device) EXPECT_OK(tables.device.close(device));
}

// Fills a struct of half its size, and checks that the rest is unchanged.
template <class T, class Call>
void writes_at_most(const char* what, uint32_t size, Call call) {
  Larger<T> memory;
  std::memset(&memory, 0x77, sizeof memory);
  memory.known.struct_size = size;
  Result status(call(&memory.known));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) return;
  CHECK(status.ok(), "filling a %s of %u bytes returned %s [HD-E-04]", what, size, status.text().c_str());
  CHECK(memory.known.struct_size == size, "filling a %s changed its struct_size from %u to %u", what, size, memory.known.struct_size);
  for (size_t i = size; i < sizeof memory; ++i) {
    if (reinterpret_cast<char*>(&memory)[i] == 0x77) continue;
    fail("with a %s of %u bytes byte %zu was written [HD-E-04]", what, size, i);
    break;
  }
}

void outputs_stay_inside() {
  Session session;
  const Tables& tables = session.tables();
  heddle_buffer_t* buffer = session.buffer(64);
  for (bool half : {true, false}) {
    auto size = [&](size_t whole) { return static_cast<uint32_t>(half ? (whole / 2) & ~size_t{7} : whole); };
    writes_at_most<heddle_device_description_t>("heddle_device_description_t", size(sizeof(heddle_device_description_t)),
                                                [&](auto* out) { return tables.device.describe(session.instance.handle, 0, out); });
    writes_at_most<heddle_device_link_t>("heddle_device_link_t", size(sizeof(heddle_device_link_t)),
                                         [&](auto* out) { return tables.device.link(session.instance.handle, 0, 0, out); });
    writes_at_most<heddle_device_statistics_t>("heddle_device_statistics_t", size(sizeof(heddle_device_statistics_t)),
                                               [&](auto* out) { return tables.device.statistics(session.device, out); });
    writes_at_most<heddle_buffer_properties_t>("heddle_buffer_properties_t", size(sizeof(heddle_buffer_properties_t)),
                                               [&](auto* out) { return tables.buffer.properties(buffer, out); });
    writes_at_most<heddle_transfer_properties_t>("heddle_transfer_properties_t", size(sizeof(heddle_transfer_properties_t)),
                                                 [&](auto* out) { return tables.transfer.properties(session.device, out); });
  }
}

}  // namespace

void add_device_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"device.describe", "a device describes itself plausibly, and the same each time", descriptions_are_sane, Kind::kDriver},
       {"device.ordinals", "an ordinal that does not exist is OUT_OF_RANGE", ordinals_end, Kind::kDriver},
       {"device.link", "a device's link to itself is its own memory", links_are_known, Kind::kDriver},
       {"device.open_twice", "opening one ordinal twice gives two devices", one_ordinal_opens_twice, Kind::kDriver},
       {"device.handles", "every handle begins with the host's table", handles_begin_with_the_table, Kind::kDriver},
       {"device.statistics", "statistics add up", statistics_add_up, Kind::kDriver},
       {"device.priorities", "a queue has priority 0 or 1", priorities, Kind::kDriver},
       {"structs.larger", "a larger struct works if its unknown end is zero, otherwise the byte is named", larger_structs, Kind::kDriver},
       {"structs.smaller", "fields that a smaller struct lacks are zero", smaller_structs, Kind::kDriver},
       {"structs.outputs", "no more than struct_size of an output is written", outputs_stay_inside, Kind::kDriver}});
}

}  // namespace heddle::conformance
