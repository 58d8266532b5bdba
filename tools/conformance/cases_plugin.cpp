// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: the library, its entry and its instances.
#include <algorithm>
#include <cstring>

#include "core/host/elf_file.h"
#include "session.h"

namespace heddle::conformance {
namespace {

heddle_negotiation_t offer(uint32_t min, uint32_t max) {
  heddle_negotiation_t record = {};
  record.struct_size = sizeof record;
  record.host_min_minor = min;
  record.host_max_minor = max;
  return record;
}

// As the host reads it.
host::ElfFile library_file() {
  plugin();
  host::ElfFile file;
  const std::string wrong = host::read_elf_file(settings().library, host::ElfParts::kAll, &file);
  REQUIRE(wrong.empty(), "%s: %s", settings().library.c_str(), wrong.c_str());
  return file;
}

void exports_only_the_entry() {
  for (const std::string& symbol : library_file().exports) {
    CHECK(symbol == HEDDLE_PLUGIN_ENTRY_NAME, "it exports %s; use a version script that exports only the entry [HD-B-01]",
          shown(symbol).c_str());
  }
}

// HD-B-02 is about a vendor's driver library: it must be opened when the plugin is probed, so that the plugin can report that it is missing. The
// kit knows some of these libraries; for others it requires that requires.libs names them, so that a missing one has a reason and a hint.
bool is_a_vendors(const std::string& soname) {
  for (const char* vendor : {"libcuda.", "libamdhip64.", "libhsa-runtime64.", "libze_loader.", "libOpenCL.", "libvulkan."}) {
    if (soname.rfind(vendor, 0) == 0) return true;
  }
  return false;
}

void needs_no_vendor_library() {
  const std::vector<std::string> needed = library_file().needed;
  for (const std::string& soname : needed) {
    const bool is_vendors = is_a_vendors(soname);
    const auto& named = settings().declared.libraries;
    const bool is_named = std::any_of(named.begin(), named.end(), [&](const host::NeededLibrary& each) { return each.soname == soname; });
    CHECK(!is_vendors, "it is linked with %s; open it with dlopen, in probe and again in create [HD-B-02]", soname.c_str());
    CHECK(is_vendors || is_named || is_of_the_system(soname),
          "it is linked with %s, which is not a system library; open a vendor's driver library with dlopen, in probe and again in "
          "create, "
          "and name another library in requires.libs of the manifest [HD-B-02]",
          soname.c_str());
  }
  // Only linking has loaded anything yet (HD-E-02), so the rest came with the libraries that it is linked with.
  for (const std::string& soname : loaded_libraries()) {
    if (plugin().libraries_before.count(soname) || std::find(needed.begin(), needed.end(), soname) != needed.end()) continue;
    CHECK(!is_a_vendors(soname),
          "a library that it is linked with needs %s, so that loading it fails if that is missing; open that library with dlopen, in "
          "probe and again in create [HD-B-02]",
          soname.c_str());
  }
}

void entry_is_pure() {
  plugin();
  const EntryCost& first = plugin().first_entry;
  CHECK(first.heap_bytes == 0, "the entry allocates %lld bytes [HD-E-02]", static_cast<long long>(first.heap_bytes));
  CHECK(first.mappings <= 0, "the entry maps memory or opens a library: %lld mappings more [HD-E-02]",
        static_cast<long long>(first.mappings));
  const uint64_t threads = count_threads(), descriptors = count_descriptors(), mappings = count_mappings();
  const int64_t heap = heap_bytes();
  for (int i = 0; i < 100; ++i) {
    heddle_negotiation_t record = offer(HEDDLE_ABI_MIN_MINOR, HEDDLE_ABI_MINOR);
    CHECK(plugin().entry(&record) == plugin().source, "the entry returned a different table when it was called again");
  }
  CHECK(heap_bytes() == heap, "100 calls of the entry left %lld bytes of the heap [HD-E-02]", static_cast<long long>(heap_bytes() - heap));
  CHECK(count_threads() == threads, "the entry starts threads [HD-E-02]");
  CHECK(count_descriptors() == descriptors, "the entry opens descriptors [HD-E-02]");
  CHECK(count_mappings() <= mappings + 1, "the entry maps memory [HD-E-02]");
}

void entry_chooses_a_minor() {
  plugin();
  heddle_negotiation_t record = offer(0, UINT32_MAX);
  REQUIRE(plugin().entry(&record), "it refuses a host that supports every minor");
  CHECK(record.plugin_min_minor <= record.plugin_max_minor, "its range is %u to %u", record.plugin_min_minor, record.plugin_max_minor);
  CHECK(record.chosen_minor == record.plugin_max_minor, "it chose %u of its %u to %u; the highest common one was expected [HD-E-02]",
        record.chosen_minor, record.plugin_min_minor, record.plugin_max_minor);
  CHECK(record.reason_size == 0, "it accepts, but gives a reason for refusing");
}

void entry_refuses_other_minors() {
  plugin();
  heddle_negotiation_t record = offer(1000000, 1000001);
  record.reason_size = 12345;
  CHECK(!plugin().entry(&record), "it accepts a host that supports only minors 1000000 and 1000001 [HD-E-02]");
  CHECK(record.reason_size > 0 && record.reason_size <= sizeof record.reason,
        "its reason for refusing has %u bytes; 1 to 256 were expected", record.reason_size);
  CHECK(record.plugin_max_minor < 1000000, "it claims to support minors up to %u", record.plugin_max_minor);
}

void entry_writes_no_more_than_it_may() {
  plugin();
  struct {
    heddle_negotiation_t record;
    char behind[64];
  } memory;
  std::memset(&memory, 0x77, sizeof memory);
  memory.record = offer(1000000, 1000001);
  const uint32_t size = offsetof(heddle_negotiation_t, reason_size);
  memory.record.struct_size = size;
  std::memset(reinterpret_cast<char*>(&memory) + size, 0x77, sizeof memory - size);
  plugin().entry(&memory.record);
  for (size_t i = size; i < sizeof memory; ++i) {
    REQUIRE(reinterpret_cast<char*>(&memory)[i] == 0x77, "with a negotiation record of %u bytes it wrote byte %zu [HD-E-04]", size, i);
  }
}

void table_is_whole() {
  const heddle_plugin_t& table = *plugin().source;
  CHECK(table.kind && !(table.kind & ~(HEDDLE_PLUGIN_DRIVER | HEDDLE_PLUGIN_ALLOCATOR | HEDDLE_PLUGIN_LIBRARY | HEDDLE_PLUGIN_TARGET)),
        "its kind is %u", table.kind);
  for (const heddle_string_t& text : {table.id, table.version}) {
    CHECK(text.size && text.size <= 256 && lies_in_library(text.data, text.size),
          "its id or version is not 1 to 256 bytes of static data [HD-E-03]");
  }
  const std::string id = text_of(table.id), version = text_of(table.version);
  CHECK(host::is_semantic_version(version), "its version %s is not a semantic version; e.g. 1.4.0 was expected [HD-E-03]",
        shown(version).c_str());
  const host::Manifest& manifest = settings().declared;
  CHECK(manifest.id.empty() || manifest.id == id, "its id is %s, but its manifest says %s [HD-E-03]", shown(id).c_str(),
        shown(manifest.id).c_str());
  CHECK(manifest.version.empty() || manifest.version == version, "its version is %s, but its manifest says %s [HD-E-03]",
        shown(version).c_str(), shown(manifest.version).c_str());
  CHECK(manifest.kind == 0 || manifest.kind == table.kind, "its kind is %s, but its manifest says %s [HD-E-03]",
        host::kind_text(table.kind).c_str(), host::kind_text(manifest.kind).c_str());
}

void probe_tells_what_is_there() {
  Instance instance;
  heddle_probe_result_t result = {};
  result.struct_size = sizeof result;
  result.verdict = 99;
  Result status(plugin().table.probe(instance.host.table(), &result));
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it has no probe, which is optional");
  REQUIRE(status.ok(), "probe returned %s", status.text().c_str());
  CHECK(result.verdict == HEDDLE_PROBE_AVAILABLE, "probe's verdict is %u, although the plugin works here: %s", result.verdict,
        shown({result.reason, std::min<size_t>(result.reason_size, sizeof result.reason)}).c_str());
  CHECK(result.reason_size <= sizeof result.reason && result.vendor_version_size <= sizeof result.vendor_version,
        "probe's texts are longer than their buffers");
  if (!plugin().is_driver()) return;
  uint32_t count = 0;
  REQUIRE_OK(instance.tables.device.count(instance.handle, &count));
  CHECK(count == result.device_count, "probe found %u devices, the instance has %u", result.device_count, count);
  struct {
    heddle_probe_result_t result;
    char behind[64];
  } memory;
  std::memset(&memory, 0x77, sizeof memory);
  memory.result.struct_size = 8;
  EXPECT_OK(plugin().table.probe(instance.host.table(), &memory.result));
  for (size_t i = 8; i < sizeof memory; ++i) {
    REQUIRE(reinterpret_cast<char*>(&memory)[i] == 0x77, "with a result of 8 bytes probe wrote byte %zu [HD-E-04]", i);
  }
}

void probe_leaves_nothing() {
  Host host(settings().options);
  auto probe = [&] {
    heddle_probe_result_t result = {};
    result.struct_size = sizeof result;
    Result status(plugin().table.probe(host.table(), &result));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it has no probe, which is optional");
  };
  probe();
  const uint64_t descriptors = count_descriptors(), threads = count_threads(), mappings = count_mappings();
  for (int i = 0; i < 20; ++i) probe();
  CHECK(host.live_memory() == 0, "20 probes left %lld pieces of host memory", static_cast<long long>(host.live_memory()));
  CHECK(count_descriptors() <= descriptors, "20 probes left descriptors open");
  CHECK(count_threads() <= threads, "20 probes left threads");
  CHECK(count_mappings() <= mappings + 10, "20 further probes left %llu more mappings", number(count_mappings() - mappings));
}

void unknown_interfaces_are_null() {
  Instance instance;
  for (const char* id : {"heddle.nothing/1", "heddle.device/999", "heddle.device", "", "heddle.buffer/1 "}) {
    CHECK(!plugin().table.get_interface(instance.handle, string_of(id)),
          "get_interface('%s') returned a table; NULL was expected [HD-E-05]", id);
  }
}

void two_hosts_share_nothing() {
  Host second_host(settings().options);
  heddle_plugin_instance_t* second = nullptr;
  {
    Instance first;
    const uint64_t before = first.host.allocations();
    REQUIRE_OK(plugin().table.create(second_host.table(), &second));
    REQUIRE(second && second != first.handle, "two hosts got the same instance [HD-E-06]");
    CHECK(first.host.allocations() == before, "an instance takes memory from another instance's host [HD-E-06]");
    // A call that both instances refuse: each must create the status with its own host.
    auto refused = [&](heddle_plugin_instance_t* instance) {
      heddle_device_description_t description = {};
      description.struct_size = sizeof description;
      if (plugin().is_driver()) EXPECT_CODE(first.tables.device.describe(instance, UINT32_MAX, &description), HEDDLE_STATUS_OUT_OF_RANGE);
      heddle_allocator_params_t params = {sizeof params, 0, nullptr, nullptr, sizeof(heddle_option_t), string_of("kit")};
      heddle_allocator_t* made = nullptr;
      if (plugin().is_allocator()) EXPECT_REFUSED(first.tables.allocator.create(instance, &params, &made));
      heddle_operation_request_t nobodys = {};
      nobodys.struct_size = sizeof nobodys;
      nobodys.version = 1;
      nobodys.domain = nobodys.name = string_of("org.example.nobody");
      nobodys.target = string_of(HEDDLE_LIBRARY_TARGET_HOST);
      heddle_operation_properties_t properties = {};
      properties.struct_size = sizeof properties;
      heddle_target_params_t without_facts = {};
      without_facts.struct_size = sizeof without_facts;
      without_facts.fact_count = 1;
      heddle_target_t* opened = nullptr;
      if (plugin().is_target())
        CHECK(!Result(first.tables.target.open(instance, &without_facts, &opened)).ok(), "open accepts a fact that is missing");
      if (plugin().is_library()) EXPECT_CODE(first.tables.library.query(instance, &nobodys, &properties), HEDDLE_STATUS_NOT_FOUND);
    };
    refused(first.handle);
    const uint64_t of_first = first.host.statuses_made(), of_second = second_host.statuses_made();
    refused(second);
    CHECK(first.host.statuses_made() == of_first && second_host.statuses_made() > of_second,
          "an instance makes statuses with another instance's host [HD-E-06]");
  }
  EXPECT_OK(plugin().table.shutdown(second));
  CHECK(second_host.live_memory() == 0, "shutdown left %lld pieces of host memory", static_cast<long long>(second_host.live_memory()));
}

void required_functions_are_there() {
  Instance instance;
  // driver.h: the functions that every host uses.
  std::vector<std::string> required;
  if (plugin().is_driver()) {
    required = {"heddle.device/1 count",
                "heddle.device/1 describe",
                "heddle.device/1 open",
                "heddle.device/1 close",
                "heddle.device/1 queue_create",
                "heddle.device/1 queue_destroy",
                "heddle.buffer/1 allocate",
                "heddle.buffer/1 free",
                "heddle.transfer/1 upload",
                "heddle.transfer/1 download",
                "heddle.param_io/1 file_open",
                "heddle.param_io/1 file_close",
                "heddle.param_io/1 read",
                "heddle.dispatch/1 variant_rank",
                "heddle.dispatch/1 executable_load",
                "heddle.dispatch/1 executable_unload",
                "heddle.dispatch/1 entry",
                "heddle.dispatch/1 submit",
                "heddle.timeline/1 create",
                "heddle.timeline/1 destroy",
                "heddle.timeline/1 query",
                "heddle.timeline/1 signal",
                "heddle.timeline/1 fail",
                "heddle.timeline/1 wait",
                "heddle.timeline/1 notify"};
  }
  if (plugin().is_allocator()) {
    for (const char* name : {"create", "destroy", "allocate", "free"})
      required.push_back(std::string(HEDDLE_ALLOCATOR_INTERFACE " ") + name);
  }
  if (plugin().is_library()) {
    for (const char* name : {"query", "prepare", "destroy", "enqueue"})
      required.push_back(std::string(HEDDLE_LIBRARY_INTERFACE " ") + name);
  }
  if (plugin().is_target()) {
    for (const char* name : {"open", "close", "claim", "emit"}) required.push_back(std::string(HEDDLE_TARGET_INTERFACE " ") + name);
  }
  for (const std::string& name : required) {
    const std::vector<std::string>& holes = empty_slots();
    CHECK(std::find(holes.begin(), holes.end(), name) == holes.end(), "it has no %s, which every host uses [HD-E-03]", name.c_str());
  }
}

}  // namespace

void add_plugin_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"build.only_the_entry", "the library exports its entry and nothing else", exports_only_the_entry, Kind::kAny, true},
       {"build.no_vendor_library", "the library is linked with system libraries and those of requires.libs, but with no vendor library",
        needs_no_vendor_library, Kind::kAny, true},
       {"entry.pure", "the entry allocates nothing, starts nothing and returns one static table", entry_is_pure, Kind::kAny, true},
       {"entry.chosen_minor", "the entry chooses the highest minor that both sides support", entry_chooses_a_minor, Kind::kAny, true},
       {"entry.refusal", "the entry refuses ranges that do not overlap, with a reason", entry_refuses_other_minors, Kind::kAny, true},
       {"entry.sizes", "the entry writes no more than the record's struct_size", entry_writes_no_more_than_it_may, Kind::kAny, true},
       {"plugin.table", "the plugin table is complete and static, and its id, version and kind match the manifest", table_is_whole,
        Kind::kAny, true},
       {"plugin.probe", "probe returns AVAILABLE and the number of devices that an instance has", probe_tells_what_is_there, Kind::kAny},
       {"plugin.probe_leaves_nothing",
        "20 probes after a first one leave no memory, descriptor, thread or mapping; what the first one keeps mapped may stay",
        probe_leaves_nothing, Kind::kAny},
       {"plugin.unknown_interface", "an unknown interface id is NULL", unknown_interfaces_are_null, Kind::kAny},
       {"plugin.two_hosts", "two hosts in a process get instances that share nothing", two_hosts_share_nothing, Kind::kAny},
       {"plugin.required_functions", "the functions that every host calls exist", required_functions_are_there, Kind::kAny}});
}

}  // namespace heddle::conformance
