// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.hip over the stand-in, through its ABI: what the conformance kit does not see. Code objects that lie or are damaged, limits of a grid, faults
// by name, and what HIP keeps for each thread of an application.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "plugin_host.h"

namespace heddle::test {
namespace {

// tests/hsa runs a case for gfx90a, over AMD's library.
const char* const kChip = std::getenv("HEDDLE_TEST_HIP_CHIP") ? std::getenv("HEDDLE_TEST_HIP_CHIP") : "gfx1100";

std::string text_of(heddle_string_t text) {
  return {text.data, text.size};
}

std::vector<char> object_of(const std::string& chip) {
  std::ifstream file(HEDDLE_TEST_HIP_FOLDER "/kernels." + chip + ".hsaco", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The plugin of the build, or one that planted_faults.py has changed.
std::string plugin_path() {
  const char* given = std::getenv("HEDDLE_TEST_HIP_PLUGIN");
  return given ? given : HEDDLE_TEST_HIP_FOLDER "/gfx1100/libheddle_hip.so";
}

// A function of the stand-in, which the plugin has opened.
template <typename Function>
Function* hip(const char* name) {
  void* library = dlopen("libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(library ? dlsym(library, name) : nullptr);
}

class HipDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    host = std::make_unique<PluginHost>();
    driver = std::make_unique<OpenDriver>(plugin_path(), host.get());
    ASSERT_TRUE(driver->device);
    code = object_of(kChip);
    ASSERT_GT(code.size(), 1000u);
  }
  void TearDown() override {
    driver.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }

  static heddle_entry_params_t entry(const char* name) {
    const std::string_view which = name;
    heddle_entry_params_t params = {};
    params.struct_size = sizeof params;
    params.name = string_of(name);
    params.binding_count = which == "add" ? 3 : 1;
    params.constants_bytes = which == "add" ? 16 : which == "chain" ? 8 : 0;
    params.workgroup_size[0] = which == "add" ? 256 : 1;
    params.workgroup_size[1] = params.workgroup_size[2] = 1;
    return params;
  }
  Result load(const std::vector<char>& image, const heddle_entry_params_t& of, heddle_executable_t** out, const char* target = kChip,
              const char* format = "hsaco/1") {
    *out = nullptr;
    const heddle_executable_params_t params = {sizeof params, 1,   string_of(format), string_of(target), image.data(),
                                               image.size(),  &of, sizeof of,         string_of("made"), {}};
    return Result(driver->dispatch_api->executable_load(driver->device, &params, out));
  }
  void expect_refused(const std::vector<char>& image, const heddle_entry_params_t& of, const std::string& why) {
    heddle_executable_t* executable = nullptr;
    Result loaded = load(image, of, &executable);
    EXPECT_FALSE(loaded.ok());
    EXPECT_NE(loaded.message().find(why), std::string::npos) << loaded.message();
    EXPECT_EQ(loaded.message().rfind("hip: loading ", 0), 0u) << loaded.message();
    EXPECT_FALSE(executable);
  }

  std::unique_ptr<PluginHost> host;
  std::unique_ptr<OpenDriver> driver;
  std::vector<char> code;
};

TEST_F(HipDriver, DescribesItsDevice) {
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  EXPECT_OK(driver->device_api->describe(driver->instance(), 0, &description));
  EXPECT_EQ(text_of(description.name), "AMD gfx1100 (interpreted)");
  EXPECT_EQ(text_of(description.family), "hip");
  EXPECT_EQ(text_of(description.pci), "0000:a0:00.0");  // HIP 6 writes A0
  EXPECT_EQ(description.uuid[0], 0x5a);
  EXPECT_EQ(description.subgroup_size, 32u);
  EXPECT_EQ(description.max_workgroup_size, 1024u);
  EXPECT_EQ(description.shared_memory_bytes, 65536u);
  EXPECT_EQ(description.compute_units, 3u);
  EXPECT_EQ(description.max_workgroup_count[0], static_cast<uint32_t>(INT32_MAX));
  EXPECT_EQ(description.max_workgroup_count[1], 4096u);
  EXPECT_EQ(description.memory_bytes, uint64_t{16} << 30);
  ASSERT_EQ(description.code_format_count, 1u);
  EXPECT_EQ(text_of(description.code_formats[0]), "hsaco/1");
}

TEST_F(HipDriver, RunsOnlyCodeOfItsChip) {
  uint32_t rank = 9;
  for (const char* other : {"gfx90a", "gfx942", "gfx1101", "gfx110", "gfx1100:xnack+", ""}) {
    EXPECT_OK(driver->dispatch_api->variant_rank(driver->device, string_of("hsaco/1"), string_of(other), &rank));
    EXPECT_EQ(rank, 0u) << other;
  }
  EXPECT_OK(driver->dispatch_api->variant_rank(driver->device, string_of("hsaco/1"), string_of(kChip), &rank));
  EXPECT_EQ(rank, 1u);
  EXPECT_OK(driver->dispatch_api->variant_rank(driver->device, string_of("ptx/1"), string_of(kChip), &rank));
  EXPECT_EQ(rank, 0u);
  heddle_executable_t* executable = nullptr;
  Result other = load(object_of("gfx90a"), entry("chain"), &executable, "gfx90a");
  EXPECT_EQ(other.code(), HEDDLE_STATUS_FAILED_PRECONDITION);
  EXPECT_NE(other.message().find("code 'hsaco/1' for 'gfx90a' does not run on this device (AMD gfx1100 (interpreted), gfx1100)"),
            std::string::npos)
      << other.message();
  // A module that says that it is for this chip, and is not.
  expect_refused(object_of("gfx90a"), entry("chain"), "its code is for gfx90a, and its target is gfx1100");
}

TEST_F(HipDriver, AnEntryThatItsCodeContradictsIsRefused) {
  heddle_entry_params_t changed = entry("chain");
  changed.shared_memory_bytes = 64;
  expect_refused(code, changed, "its code has 0 bytes of local memory, and the entry says 64");
  changed = entry("chain");
  changed.workgroup_size[0] = 65;
  expect_refused(code, changed, "its code has 64 threads in a workgroup at most, and the entry says 65");
  changed = entry("chain");
  changed.constants_bytes = 16;
  expect_refused(code, changed, "its code has 2 arguments, and the entry says 3");
  changed = entry("chain");
  changed.binding_count = 0;
  expect_refused(code, changed, "its code has 2 arguments, and the entry says 1");
  changed = entry("chain");
  changed.subgroup_size = 64;
  expect_refused(code, changed, "it is for subgroups of 64 threads");
  changed = entry("chain");
  changed.name = string_of("chains");
  expect_refused(code, changed, "its code has no kernel of that name");
  // An argument that is narrower than the code's.
  heddle_argument_t recipe[2] = {};
  recipe[0].kind = HEDDLE_ARGUMENT_BINDING;
  recipe[1].kind = HEDDLE_ARGUMENT_CONSTANT;
  recipe[1].size_bytes = 4;
  changed = entry("chain");
  changed.arguments = recipe;
  changed.argument_count = 2;
  expect_refused(code, changed, "argument 1 of its code has 8 bytes at 8, and should have 4 at 8");
  recipe[1].size_bytes = 8;
  heddle_executable_t* executable = nullptr;
  EXPECT_TRUE(load(code, changed, &executable).ok());
  driver->dispatch_api->executable_unload(executable);
}

// The position of a text or of a number of the metadata, which is small enough to be found by its bytes.
size_t find(const std::vector<char>& in, const std::string& what) {
  const auto found = std::search(in.begin(), in.end(), what.begin(), what.end());
  EXPECT_NE(found, in.end()) << what;
  return static_cast<size_t>(found - in.begin());
}

TEST_F(HipDriver, MetadataThatLiesIsRefused) {
  const heddle_entry_params_t chain = entry("chain");
  std::vector<char> lie = code;
  lie[find(lie, ".group_segment_fixed_size") + 25] = 64;
  expect_refused(lie, chain, "bytes of local memory by its descriptor, and 64 by its metadata");
  lie = code;
  lie[find(lie, ".kernarg_segment_size") + 21] = 8;
  expect_refused(lie, chain, "bytes of arguments by its descriptor, and 8 by its metadata");
  lie = code;
  lie[find(lie, ".wavefront_size") + 15] = 64;
  expect_refused(lie, chain, "has 32 threads in a wave by its descriptor, and 64 by its metadata");
  lie = code;
  lie[find(lie, "amdgcn-amd-amdhsa--gfx1100") + 22] = '2';
  expect_refused(lie, chain, "its metadata is for 'amdgcn-amd-amdhsa--gfx2100', its header for gfx1100");
  lie = code;
  lie[48] = 0x4e;
  expect_refused(lie, chain, "its metadata is for 'amdgcn-amd-amdhsa--gfx1100', its header for gfx1201");
  lie[48] = 0x20;
  expect_refused(lie, chain, "its code is for the chip with number 32, which is none that code is made for");
  lie = code;
  lie[8] = 1;
  expect_refused(lie, chain, "its code object is of version 3, and 4 and 5 are supported");
  lie = code;
  lie[18] = 62;
  expect_refused(lie, chain, "its code is not a 64-bit ELF shared object for AMD's HSA");
  lie.assign(code.begin(), code.begin() + 50);
  expect_refused(lie, chain, "its code is shorter than an ELF header");
  // As after llvm-strip; AMD's HIP 5.2.3 crashes without that section.
  lie = code;
  lie[find(lie, ".strtab") + 1] = 'S';
  expect_refused(lie, chain, "it has no section .strtab, as if it were stripped, and HIP 5 crashes when it loads such code");
  lie = code;
  lie[60] = 3;  // sections
  lie[62] = 0;  // the one with their names
  expect_refused(lie, chain, "the names of its sections has no text at 0");
  lie = code;
  uint64_t table;
  std::memcpy(&table, &lie[40], sizeof table);
  lie[table + 24 + 3] = 1;  // where section 0 is
  expect_refused(lie, chain, "section 0 does not lie between the one before it and the table of sections, as HIP 5 expects");
}

// Each is refused, or loads and can be unloaded; AMD's loader is not as careful.
TEST_F(HipDriver, DamagedCodeIsRefusedOrHarmless) {
  std::mt19937_64 random(7);
  size_t refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::vector<char> damaged = code;
    if (i % 3 == 0) {
      damaged.resize(random() % damaged.size());
    } else {
      for (uint64_t changes = 1 + random() % 4; changes; --changes) {
        // Headers, notes and tables, which are at both ends, more often than the rest.
        const size_t at = random() % (i % 2 ? damaged.size() : 1600);
        damaged[i % 4 == 2 ? damaged.size() - 1 - at : at] = static_cast<char>(random());
      }
    }
    if (damaged.empty()) damaged.push_back(0);
    heddle_executable_t* executable = nullptr;
    Result loaded = load(damaged, entry("chain"), &executable);
    refused += !loaded.ok();
    if (loaded.ok()) driver->dispatch_api->executable_unload(executable);
  }
  EXPECT_GT(refused, 300u);
  heddle_executable_t* executable = nullptr;
  EXPECT_TRUE(load(code, entry("chain"), &executable).ok());
  driver->dispatch_api->executable_unload(executable);
}

TEST_F(HipDriver, AGridOfMoreThreadsThan32BitsCountIsRefused) {
  heddle_executable_t* executable = nullptr;
  ASSERT_TRUE(load(code, entry("add"), &executable).ok());
  heddle_entry_t* add = nullptr;
  EXPECT_OK(driver->dispatch_api->entry(executable, 0, &add));
  heddle_buffer_t* buffer = driver->make_filled(std::vector<float>(1024, 1.5f));
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, 1024}, {buffer, 1024, 1024}, {buffer, 2048, 1024}};
  const int64_t constants[] = {256, 256};
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_DISPATCH;
  command.as.dispatch = {add, bindings.data(), constants, 3, 16, {uint32_t{1} << 24, 1, 1}, 7};
  Result refused(driver->run({command}));
  EXPECT_EQ(refused.code(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_NE(refused.message().find("a grid of 16777216 x 1 x 1 is more than the 16777215 x 4096 x 4096 workgroups of 256 x 1 x 1 threads"),
            std::string::npos)
      << refused.message();
  command.as.dispatch.grid[0] = 1;
  EXPECT_OK(driver->run({command}));
  EXPECT_EQ(driver->values_of<float>(buffer, 513)[512], 3.0f);
  driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

// Small amounts of ordinary memory go through staging memory, whose pieces are used again once their copies are done.
TEST_F(HipDriver, UploadsInFlightKeepTheirBytes) {
  constexpr uint64_t kCount = 64, kBytes = 1000;
  heddle_buffer_t* buffer = driver->make_filled(std::vector<uint8_t>(kCount * kBytes, 0));
  for (int round = 0; round < 3; ++round) {
    std::vector<uint8_t> expected(kCount * kBytes);
    heddle_timeline_t* timeline = driver->make_timeline();
    for (uint64_t i = 0; i < kCount; ++i) {
      uint8_t* bytes = expected.data() + i * kBytes;
      std::memset(bytes, static_cast<int>((i + 70 * static_cast<uint64_t>(round)) % 251 + 1), kBytes);
      const heddle_binding_t target = {buffer, i * kBytes, kBytes};
      const heddle_point_t signal = {timeline, i + 1};
      if (i % 2) {
        heddle_command_t update = {};
        update.kind = HEDDLE_COMMAND_UPDATE;
        update.as.update = {buffer, target.offset, kBytes, bytes};
        EXPECT_OK(driver->submit({update}, {}, {signal}));
      } else {
        const heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &signal};
        EXPECT_OK(driver->transfer_api->upload(driver->queue, &sync, bytes, &target));
      }
    }
    Result waited = driver->wait(timeline, kCount);
    EXPECT_TRUE(waited.ok()) << waited.message();
    EXPECT_TRUE(driver->values_of<uint8_t>(buffer, kCount * kBytes) == expected) << "round " << round;
    driver->timeline_api->destroy(timeline);
  }
  driver->buffer_api->free(buffer);
}

// HIP keeps the commands of a stream that nobody waits for; a thread that looks at a word does not.
TEST_F(HipDriver, AStreamThatNobodyWaitsForKeepsFewCommands) {
  constexpr uint64_t kCount = 400;
  heddle_buffer_t* buffer = driver->make_filled(std::vector<uint32_t>(1, 0));
  heddle_timeline_t* timeline = driver->make_timeline();
  heddle_command_t update = {};
  update.kind = HEDDLE_COMMAND_UPDATE;
  for (uint64_t i = 1; i <= kCount; ++i) {
    const auto value = static_cast<uint32_t>(i);
    update.as.update = {buffer, 0, sizeof value, &value};
    ASSERT_OK(driver->submit({update}, {}, {{timeline, i}}));
  }
  Result waited = driver->wait(timeline, kCount);
  EXPECT_TRUE(waited.ok()) << waited.message();
  EXPECT_EQ(driver->values_of<uint32_t>(buffer, 1)[0], kCount);
  driver->timeline_api->destroy(timeline);
  driver->buffer_api->free(buffer);
}

// An application that uses HIP as well sees neither our device nor our errors.
TEST_F(HipDriver, AThreadKeepsItsDeviceAndItsErrors) {
  driver.reset();
  driver = std::make_unique<OpenDriver>(plugin_path(), host.get());
  auto* set = hip<int(int)>("hipSetDevice");
  auto* get = hip<int(int*)>("hipGetDevice");
  auto* peek = hip<int()>("hipPeekAtLastError");
  auto* forget = hip<int()>("hipGetLastError");
  ASSERT_TRUE(set && get && peek && forget);
  ASSERT_EQ(set(1), 0);
  std::vector<char> memory(64, 7);
  heddle_buffer_t* buffer = driver->make_buffer(64);
  driver->write(buffer, 0, memory.data(), 64);  // asks whether HIP knows ordinary memory, which is an error in HIP 5
  heddle_buffer_t* none = nullptr;
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, uint64_t{15} << 30, 0};
  heddle_buffer_t* large = nullptr;
  EXPECT_OK(driver->buffer_api->allocate(driver->device, &params, &large));
  Result refused(driver->buffer_api->allocate(driver->device, &params, &none));
  EXPECT_EQ(refused.code(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.message().find("hipErrorOutOfMemory"), std::string::npos) << refused.message();
  driver->buffer_api->free(large);
  int ordinal = -1;
  EXPECT_EQ(get(&ordinal), 0);
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(peek(), 0);
  // One of its own stays.
  EXPECT_NE(set(99), 0);
  driver->read(buffer, 0, memory.data(), 64);
  EXPECT_EQ(peek(), 101);
  EXPECT_EQ(forget(), 101);
  EXPECT_EQ(set(0), 0);
  driver->buffer_api->free(buffer);
}

TEST_F(HipDriver, TheSecondDeviceIsTheSecond) {
  heddle_device_t* second = driver->open(1);
  heddle_queue_t* queue = driver->make_queue(second);
  uint64_t stream = 0, context = 0;
  EXPECT_OK(driver->native_api->stream(queue, &stream));
  EXPECT_OK(driver->native_api->context(second, &context));
  EXPECT_EQ(context, 1u);
  auto* device_of_stream = hip<int(void*)>("hipGetStreamDeviceId");
  ASSERT_TRUE(device_of_stream);
  EXPECT_EQ(device_of_stream(reinterpret_cast<void*>(stream)), 1);
  // A stream of the other device is refused, and one of its own is not.
  heddle_queue_t* imported = nullptr;
  Result refused(driver->native_api->queue_import(driver->device, stream, &imported));
  EXPECT_EQ(refused.code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_NE(refused.message().find("it belongs to another context; use a stream that HIP has created on this device"), std::string::npos)
      << refused.message();
  EXPECT_OK(driver->native_api->queue_import(second, stream, &imported));
  EXPECT_OK(driver->device_api->queue_destroy(imported));
  EXPECT_OK(driver->device_api->queue_destroy(queue));
  EXPECT_OK(driver->device_api->close(second));
}

// The variable of the tests has aborts=0, as if the library were HIP 7.
TEST_F(HipDriver, AFaultIsNamedAndLasts) {
  heddle_executable_t* executable = nullptr;
  ASSERT_TRUE(load(code, entry("lose"), &executable).ok());
  heddle_entry_t* lose = nullptr;
  EXPECT_OK(driver->dispatch_api->entry(executable, 0, &lose));
  heddle_buffer_t* buffer = driver->make_buffer(64);
  const heddle_binding_t binding = {buffer, 0, 64};
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_DISPATCH;
  command.as.dispatch = {lose, &binding, nullptr, 1, 0, {1, 1, 1}, 7};
  Result lost(driver->run({command}));
  EXPECT_EQ(lost.code(), HEDDLE_STATUS_DEVICE_LOST);
  EXPECT_NE(lost.message().find("on device 0 ('AMD gfx1100 (interpreted)') failed in kernel 'lose': hipErrorIllegalAddress"),
            std::string::npos)
      << lost.message();
  heddle_buffer_t* none = nullptr;
  const heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, 0};
  Result again(driver->buffer_api->allocate(driver->device, &params, &none));
  EXPECT_EQ(again.code(), HEDDLE_STATUS_DEVICE_LOST);
  EXPECT_EQ(again.message(), lost.message());
  driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

// In a process of its own: the library ends while a queue works, and `error` is the result of every later call. Ends with 0 if there is one error, whose
// name is `name`, also from other calls and for the other device, and if everything can be closed.
[[noreturn]] void unload_and_exit(int error, const std::string& name) {
  PluginHost host;
  {
    OpenDriver driver(plugin_path(), &host);
    if (!driver.device) std::_Exit(3);
    heddle_device_t* second = driver.open(1);
    heddle_queue_t* queue = driver.make_queue(second);
    heddle_buffer_t* buffer = driver.make_filled(std::vector<float>{5});
    heddle_timeline_t* timeline = driver.make_timeline();
    heddle_timeline_t* start = driver.make_timeline();
    auto* unload = hip<void(int)>("hipStandInUnload");
    if (!unload) std::_Exit(4);
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_FILL;
    command.as.fill = {buffer, 0, 4, 0, 4, 0};
    EXPECT_OK(driver.submit({command}, {}, {{start, 1}}));
    EXPECT_OK(driver.submit({command}, {{start, 2}}, {{timeline, 1}}));  // waits for the host
    unload(error);
    Result signalled(driver.timeline_api->signal(start, 2));
    Result waited = driver.wait(timeline, 1);
    EXPECT_EQ(waited.code(), HEDDLE_STATUS_DEVICE_LOST) << waited.message();
    EXPECT_NE(waited.message().find(name), std::string::npos) << waited.message();
    Result late(driver.submit({command}, {}, {{timeline, 2}}));
    EXPECT_EQ(late.message(), waited.message());
    const heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 64, 0};
    heddle_buffer_t* none = nullptr;
    Result again(driver.buffer_api->allocate(driver.device, &params, &none));
    EXPECT_EQ(again.message(), waited.message());
    Result other(driver.buffer_api->allocate(second, &params, &none));
    EXPECT_EQ(other.code(), HEDDLE_STATUS_DEVICE_LOST) << other.message();
    EXPECT_NE(other.message().find(name), std::string::npos) << other.message();
    std::fprintf(stderr, "%s\n%s\n", waited.message().c_str(), other.message().c_str());
    driver.buffer_api->free(buffer);
    driver.timeline_api->destroy(timeline);
    driver.timeline_api->destroy(start);
    EXPECT_OK(driver.device_api->queue_destroy(queue));
    EXPECT_OK(driver.device_api->close(second));
  }
  EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST(HipLibrary, OneThatEndsInTheMiddleIsALostDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(unload_and_exit(4, "hipErrorDeinitialized"), ::testing::ExitedWithCode(0), "hipErrorDeinitialized");
  EXPECT_EXIT(unload_and_exit(3, "hipErrorNotInitialized"), ::testing::ExitedWithCode(0), "hipErrorNotInitialized");
}

// In a process of its own: opens the driver, and ends with 0 if it works with the HIP library of the expected version.
[[noreturn]] void open_and_exit(const std::string& opened_before, const std::string& settings, const std::string& expected) {
  setenv("HEDDLE_HIP_STAND_IN", settings.c_str(), 1);
  if (!opened_before.empty() && !dlopen((HEDDLE_TEST_HIP_FOLDER "/" + opened_before).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::_Exit(2);
  }
  PluginHost host;
  OpenDriver driver(plugin_path(), &host);
  if (!driver.device) std::_Exit(3);
  heddle_probe_result_t result = {};
  result.struct_size = sizeof result;
  EXPECT_OK(driver.plugin()->probe(host.table(), &result));
  const std::string version(result.vendor_version, result.vendor_version_size);
  heddle_device_description_t description = {};
  description.struct_size = sizeof description;
  EXPECT_OK(driver.device_api->describe(driver.instance(), 0, &description));
  EXPECT_EQ((description.features & HEDDLE_DEVICE_FAULT_ENDS_PROCESS) != 0, version < "HIP 7") << version;
  const std::vector<float> values(1000, 1.5f);
  heddle_buffer_t* buffer = driver.make_filled(values);
  EXPECT_EQ(driver.values_of<float>(buffer, 1000), values);
  driver.buffer_api->free(buffer);
  std::fprintf(stderr, "%s\n%s", version.c_str(), host.logged().c_str());
  const bool says = host.logged().find("which this process had opened already") != std::string::npos;
  std::_Exit(version == expected && says == !opened_before.empty() && !::testing::Test::HasFailure() ? 0 : 1);
}

TEST(HipLibrary, OneThatTheApplicationHasOpenedComesFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_and_exit("", "chip=gfx1100", "HIP 6.1.10000"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(open_and_exit("hip_5/libamdhip64.so.5", "chip=gfx1100", "HIP 5.2.21153"), ::testing::ExitedWithCode(0), "uses HIP 5.2.21153");
  EXPECT_EXIT(open_and_exit("hip_7/libamdhip64.so.7", "chip=gfx1100", "HIP 7.1.10000"), ::testing::ExitedWithCode(0), "uses HIP 7.1.10000");
  // A library without a major in its name, and not of the one that the loader would find.
  EXPECT_EXIT(open_and_exit("hip_plain/libamdhip64.so", "chip=gfx1100,major=7", "HIP 7.1.10000"), ::testing::ExitedWithCode(0),
              "uses HIP 7");
  EXPECT_EXIT(open_and_exit("hip_plain/libamdhip64.so", "chip=gfx1100,major=5", "HIP 5.2.21153"), ::testing::ExitedWithCode(0),
              "uses HIP 5");
}

TEST(HipLibrary, ADeviceThatSaysItHasPoolsAndHasNoneIsUsed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_and_exit("", "chip=gfx1100,pools=0,claims_pools", "HIP 6.1.10000"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace heddle::test
