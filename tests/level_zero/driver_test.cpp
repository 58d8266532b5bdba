// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver heddle.level_zero on the stand-in, through its ABI: what the conformance kit does not see. Code that is damaged or lies, local memory,
// queues that wait for each other, lost devices, times, memory.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

#include "level_zero/spirv.h"
#include "plugin_host.h"

namespace heddle::test {
namespace {

constexpr uint32_t kOpCapability = 17, kOpMemoryModel = 14, kOpFAdd = 129;

std::vector<uint32_t> words_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  EXPECT_GT(words.size(), 100u) << path;
  return words;
}
std::vector<uint32_t> module_words() {
  return words_of(HEDDLE_TEST_SPIRV);
}

// The word at which the first instruction of this operation begins.
size_t find(const std::vector<uint32_t>& words, uint32_t operation) {
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    if ((words[at] & 0xffff) == operation) return at;
  }
  ADD_FAILURE() << "the module has no operation " << operation;
  return 5;
}

// add: out, a, b of f32, one element for each thread. reverse: f32 in local memory, in workgroups of 64.
heddle_entry_params_t entry_of(const char* name, uint32_t bindings, uint32_t threads, uint64_t shared = 0, uint32_t constants = 0) {
  heddle_entry_params_t entry = {};
  entry.struct_size = sizeof entry;
  entry.name = string_of(name);
  entry.binding_count = bindings;
  entry.constants_bytes = constants * 8;
  entry.workgroup_size[0] = threads;
  entry.workgroup_size[1] = entry.workgroup_size[2] = 1;
  entry.shared_memory_bytes = shared;
  return entry;
}

class LevelZero : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    host = std::make_unique<PluginHost>();
    host->set_bool("immediate_lists", GetParam());
    driver = std::make_unique<OpenDriver>(HEDDLE_TEST_PLUGIN, host.get());
    ASSERT_TRUE(driver->device);
  }
  void TearDown() override {
    driver.reset();
    host.reset();
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }

  heddle_status_t* load(const std::vector<uint32_t>& words, const std::vector<heddle_entry_params_t>& entries, heddle_executable_t** out,
                        size_t cut_bytes = 0) {
    heddle_executable_params_t params = {sizeof params,        static_cast<uint32_t>(entries.size()),
                                         string_of("spirv/1"), string_of("spv1.0"),
                                         words.data(),         words.size() * 4 - cut_bytes,
                                         entries.data(),       sizeof(heddle_entry_params_t),
                                         string_of("test"),    {}};
    return driver->dispatch_api->executable_load(driver->device, &params, out);
  }
  void expect_refused(const std::vector<uint32_t>& words, const std::vector<heddle_entry_params_t>& entries, heddle_status_code_t code,
                      const char* part, size_t cut_bytes = 0) {
    heddle_executable_t* executable = nullptr;
    EXPECT_FAILS(load(words, entries, &executable, cut_bytes), code, part);
    EXPECT_EQ(executable, nullptr);
  }
  heddle_entry_t* entry(heddle_executable_t* executable, uint32_t index = 0) {
    heddle_entry_t* found = nullptr;
    EXPECT_OK(driver->dispatch_api->entry(executable, index, &found));
    return found;
  }
  static heddle_command_t dispatch(heddle_entry_t* entry, const std::vector<heddle_binding_t>& bindings, uint32_t x) {
    heddle_command_t made = {};
    made.kind = HEDDLE_COMMAND_DISPATCH;
    made.as.dispatch = {entry, bindings.data(), nullptr, static_cast<uint32_t>(bindings.size()), 0, {x, 1, 1}, 7};
    return made;
  }
  template <typename Function>
  static Function hook(const char* name) {
    void* stand_in = dlopen(HEDDLE_TEST_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
    auto found = stand_in ? reinterpret_cast<Function>(dlsym(stand_in, name)) : nullptr;
    EXPECT_TRUE(found) << name;
    return found;
  }

  std::unique_ptr<PluginHost> host;
  std::unique_ptr<OpenDriver> driver;
};

TEST_P(LevelZero, GivesAWorkgroupItsLocalMemory) {
  heddle_executable_t* executable = nullptr;
  ASSERT_OK(load(module_words(), {entry_of("reverse", 1, 64, 256)}, &executable));
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.f);
  heddle_buffer_t* buffer = driver->make_filled(values);
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, 1024}};
  EXPECT_OK(driver->run({dispatch(entry(executable), bindings, 4)}));
  for (size_t group = 0; group < 4; ++group)
    std::reverse(values.begin() + static_cast<long>(group) * 64, values.begin() + static_cast<long>(group + 1) * 64);
  EXPECT_EQ(driver->values_of<float>(buffer, 256), values);
  driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

// Each step of one queue waits for the other's.
TEST_P(LevelZero, QueuesTakeTurns) {
  heddle_executable_t* executable = nullptr;
  ASSERT_OK(load(module_words(), {entry_of("add", 3, 1)}, &executable));
  heddle_entry_t* add = entry(executable);
  heddle_queue_t* queues[] = {driver->make_queue(driver->device), driver->make_queue(driver->device)};
  heddle_timeline_t* timeline = driver->make_timeline();
  heddle_buffer_t* sum = driver->make_filled(std::vector<float>{0});
  heddle_buffer_t* one = driver->make_filled(std::vector<float>{1});
  const std::vector<heddle_binding_t> bindings = {{sum, 0, 4}, {sum, 0, 4}, {one, 0, 4}};
  constexpr uint64_t kTurns = 60;
  for (uint64_t i = 0; i < kTurns; ++i) {
    const std::vector<heddle_point_t> waits = i ? std::vector<heddle_point_t>{{timeline, i}} : std::vector<heddle_point_t>{};
    EXPECT_OK(driver->submit({dispatch(add, bindings, 1)}, waits, {{timeline, i + 1}}, queues[i % 2]));
  }
  Result waited = driver->wait(timeline, kTurns);
  EXPECT_TRUE(waited.ok()) << waited.message();
  EXPECT_EQ(driver->values_of<float>(sum, 1)[0], static_cast<float>(kTurns));
  for (heddle_buffer_t* buffer : {sum, one}) driver->buffer_api->free(buffer);
  driver->timeline_api->destroy(timeline);
  for (heddle_queue_t* queue : queues) EXPECT_OK(driver->device_api->queue_destroy(queue));
  driver->dispatch_api->executable_unload(executable);
}

// The stand-in's device has dot products of bytes, if HEDDLE_ZE_DP4A does not say otherwise.
TEST_P(LevelZero, LoadsDotProducts) {
  const std::vector<uint32_t> good = words_of(HEDDLE_TEST_DOTS);
  heddle_executable_t* executable = nullptr;
  ASSERT_OK(load(good, {entry_of("dots", 3, 1)}, &executable));
  heddle_buffer_t* operands = driver->make_filled(std::vector<uint32_t>{0x80ff7f01, 0x80ff7f01});
  heddle_buffer_t* sums = driver->make_buffer(12);
  const std::vector<heddle_binding_t> bindings = {{sums, 0, 12}, {operands, 0, 4}, {operands, 4, 4}};
  EXPECT_OK(driver->run({dispatch(entry(executable), bindings, 1)}));
  EXPECT_EQ(driver->values_of<int32_t>(sums, 3),
            (std::vector<int32_t>{1 + 127 * 127 + 1 + 128 * 128, 1 + 127 * 127 + 255 * 255 + 128 * 128, 1 + 127 * 127 - 255 - 128 * 128}));
  for (heddle_buffer_t* buffer : {operands, sums}) driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

TEST_P(LevelZero, RefusesDamagedCode) {
  const std::vector<uint32_t> good = module_words();
  const std::vector<heddle_entry_params_t> entries = {entry_of("add", 3, 1)};
  const auto changed = [&](size_t at, uint32_t value) {
    std::vector<uint32_t> words = good;
    words[at] = value;
    return words;
  };
  expect_refused(changed(0, 1), entries, HEDDLE_STATUS_INVALID_ARGUMENT, "not with SPIR-V's magic number");
  expect_refused(changed(0, 0x03022307), entries, HEDDLE_STATUS_INVALID_ARGUMENT, "big-endian");
  expect_refused(changed(1, 0x10900), entries, HEDDLE_STATUS_FAILED_PRECONDITION, "it is SPIR-V 1.9");
  expect_refused(changed(5, 0), entries, HEDDLE_STATUS_INVALID_ARGUMENT, "the instruction at word 5 has 0 words");
  expect_refused(changed(find(good, kOpCapability) + 1, 4711), entries, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "capability 4711, which spirv/1 does not allow");
  expect_refused(changed(find(good, kOpMemoryModel) + 1, 0), entries, HEDDLE_STATUS_INVALID_ARGUMENT, "its addressing model is 0");
  expect_refused(good, entries, HEDDLE_STATUS_INVALID_ARGUMENT, "bytes are not a module of words", 2);
  expect_refused(good, entries, HEDDLE_STATUS_INVALID_ARGUMENT, "bytes are not a module of words", good.size() * 4 - 12);
  // Only the driver's compiler sees this: a sum of values that there are not.
  expect_refused(changed(find(good, kOpFAdd) + 3, 0x7fffff), entries, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE");
}

TEST_P(LevelZero, RefusesEntriesThatAreNotAsTheirCode) {
  const std::vector<uint32_t> good = module_words();
  const heddle_status_code_t invalid = HEDDLE_STATUS_INVALID_ARGUMENT;
  expect_refused(good, {entry_of("absent", 1, 1)}, HEDDLE_STATUS_NOT_FOUND, "entry 0 ('absent') of executable 'test'");
  expect_refused(good, {entry_of("add", 2, 1)}, invalid, "its code takes 3 arguments, but should take 2");
  expect_refused(good, {entry_of("add", 2, 1, 0, 1)}, invalid, "argument 2 of its code should be an integer of 64 bits");
  expect_refused(good, {entry_of("step", 1, 1, 0, 1)}, invalid, "argument 1 of its code should be an integer of 64 bits");
  expect_refused(good, {entry_of("reverse", 2, 64)}, invalid, "argument 1 of its code should be a pointer to global memory");
  expect_refused(good, {entry_of("add", 2, 1, 16)}, invalid, "argument 2 of its code should be a pointer to local memory");
  expect_refused(good, {entry_of("fixed", 1, 64)}, invalid, "its code is for workgroups of 32 x 1 x 1 threads");
  expect_refused(good, {entry_of("reverse", 1, 64, uint64_t{1} << 20)}, invalid,
                 "its shared memory of bytes 1048576 is more than this device's");
}

// As rows of a matrix in a large file are. The stand-in keeps to the 32 bits that Intel's driver had for the offset of a row.
TEST_P(LevelZero, CopiesRowsThatAreGigabytesApart) {
  constexpr uint64_t kStride = uint64_t{9} << 28, kRows = 3;
  heddle_buffer_t* from = driver->make_buffer((kRows - 1) * kStride + 16, HEDDLE_MEMORY_PINNED);
  heddle_buffer_t* to = driver->make_buffer(kRows * 32);
  std::vector<float> wanted(kRows * 8, -1.f);
  driver->write(to, 0, wanted.data(), wanted.size() * sizeof(float));
  for (uint64_t row = 0; row < kRows; ++row) {
    const float first = static_cast<float>(row) * 4;
    const float values[4] = {first, first + 1, first + 2, first + 3};
    std::copy(values, values + 4, wanted.begin() + static_cast<long>(row) * 8);
    driver->write(from, row * kStride, values, sizeof values);
  }
  const heddle_binding_t source = {from, 0, 0}, target = {to, 0, 0};
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_COPY_2D;
  command.as.copy_2d = {&source, &target, kStride, 32, 16, kRows};
  EXPECT_OK(driver->run({command}));
  EXPECT_EQ(driver->values_of<float>(to, kRows * 8), wanted);
  for (heddle_buffer_t* buffer : {from, to}) driver->buffer_api->free(buffer);
}

// With command queues only. The device does not run what follows a command list that it did not get.
class LevelZeroQueues : public LevelZero {};
TEST_P(LevelZeroQueues, EndWithAListThatWasNotSubmitted) {
  heddle_executable_t* executable = nullptr;
  ASSERT_OK(load(module_words(), {entry_of("add", 3, 1)}, &executable));
  heddle_buffer_t* buffer = driver->make_filled(std::vector<float>{0, 1, 2});
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, 4}, {buffer, 4, 4}, {buffer, 8, 4}};
  const std::vector<heddle_command_t> commands = {dispatch(entry(executable), bindings, 1)};
  // Times are asked for, so that lists are submitted before the one at the end.
  heddle_timeline_t* done = driver->make_timeline();
  const heddle_point_t point = {done, 1};
  const heddle_submission_t submission = {sizeof submission, 1, commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
  heddle_command_time_t times[1] = {};
  hook<void (*)(uint64_t)>("heddle_level_zero_refuse_lists")(1);
  Result submitted(driver->profile_api->submit(driver->queue, &submission, times));
  Result waited = driver->wait(done, 1);
  EXPECT_NE(waited.message().find("ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY"), std::string::npos) << waited.message();
  Result again = driver->submit(commands, {}, {{done, 2}});
  EXPECT_NE(again.message().find("ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY"), std::string::npos) << again.message();
  driver->timeline_api->destroy(done);
  driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

// Memory of the application, which the driver imports once for all its devices.
class LevelZeroImports : public LevelZero {
 protected:
  static constexpr uint64_t kBytes = 1 << 20, kPart = 4096;
  void SetUp() override {
    LevelZero::SetUp();
    other = driver->open(1);
    ASSERT_TRUE(other);
    memory = static_cast<char*>(std::aligned_alloc(kPart, kBytes));
    std::iota(reinterpret_cast<float*>(memory), reinterpret_cast<float*>(memory + kBytes), 0.f);
  }
  void TearDown() override {
    EXPECT_EQ(imports(), 0u);
    EXPECT_OK(driver->device_api->close(other));
    std::free(memory);
    LevelZero::TearDown();
  }
  static uint64_t imports() { return hook<uint64_t (*)()>("heddle_level_zero_imports")(); }
  heddle_status_t* import(heddle_device_t* device, uint64_t offset, uint64_t bytes, heddle_buffer_t** out) {
    return driver->buffer_api->import_host(device, memory + offset, bytes, [](void*) {}, nullptr, out);
  }
  heddle_buffer_t* imported(heddle_device_t* device, uint64_t offset, uint64_t bytes) {
    heddle_buffer_t* buffer = nullptr;
    EXPECT_OK(import(device, offset, bytes, &buffer));
    return buffer;
  }
  // That a device copies all of an imported buffer.
  void expect_read(heddle_device_t* device, heddle_buffer_t* buffer, uint64_t bytes) {
    heddle_queue_t* queue = driver->make_queue(device);
    heddle_buffer_t* copy = driver->make_buffer(bytes, HEDDLE_MEMORY_DEVICE, device);
    heddle_timeline_t* timeline = driver->make_timeline(0, device);
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_COPY;
    command.as.copy = {buffer, copy, 0, 0, bytes};
    EXPECT_OK(driver->submit({command}, {}, {{timeline, 1}}, queue));
    Result waited = driver->wait(timeline, 1);
    EXPECT_TRUE(waited.ok()) << waited.message();
    driver->timeline_api->destroy(timeline);
    driver->buffer_api->free(copy);
    EXPECT_OK(driver->device_api->queue_destroy(queue));
  }

  heddle_device_t* other = nullptr;
  char* memory = nullptr;
};

TEST_P(LevelZeroImports, OneDeviceFreesWhatAnotherStillUses) {
  heddle_buffer_t *mine = imported(driver->device, 0, kBytes), *others = imported(other, 0, kBytes);
  EXPECT_EQ(imports(), 1u);
  driver->buffer_api->free(mine);
  expect_read(other, others, kBytes);
  driver->buffer_api->free(others);
}

TEST_P(LevelZeroImports, APartIsFreedBeforeTheWhole) {
  heddle_buffer_t *whole = imported(driver->device, 0, kBytes), *same = imported(driver->device, 0, kBytes);
  heddle_buffer_t *part = imported(driver->device, kPart, kPart), *beginning = imported(other, 0, kPart);
  EXPECT_EQ(imports(), 1u);
  for (heddle_buffer_t* buffer : {part, same, beginning}) driver->buffer_api->free(buffer);
  expect_read(driver->device, whole, kBytes);
  driver->buffer_api->free(whole);
}

TEST_P(LevelZeroImports, MoreThanWhatIsImportedIsRefused) {
  heddle_buffer_t *part = imported(driver->device, kPart, kPart), *refused = nullptr;
  EXPECT_FAILS(import(driver->device, kPart, kBytes - kPart, &refused), HEDDLE_STATUS_INVALID_ARGUMENT,
               "ZE_RESULT_ERROR_OVERLAPPING_REGIONS");
  EXPECT_FAILS(import(driver->device, 0, kPart * 2, &refused), HEDDLE_STATUS_INVALID_ARGUMENT, "ZE_RESULT_ERROR_INVALID_SIZE");
  expect_read(driver->device, part, kPart);
  driver->buffer_api->free(part);
}

TEST_P(LevelZeroImports, TheApplicationsOwnImportStays) {
  hook<void (*)(void*, uint64_t)>("heddle_level_zero_import")(memory, kBytes);
  heddle_buffer_t* part = imported(driver->device, kPart, kPart);
  expect_read(driver->device, part, kPart);
  driver->buffer_api->free(part);
  EXPECT_EQ(imports(), 1u);
  hook<void (*)(void*)>("heddle_level_zero_release")(memory);
}

// 60,000 parameters, and 6,000 kernels of that type; each has an address in the image of the module, but not a list of its own.
TEST(SpirvReader, KernelsOfOneTypeShareItsParameters) {
  constexpr uint32_t kParameters = 60000, kKernels = 6000, kInt = 1, kType = 2, kFirst = 10;
  const auto begin = [](uint32_t operation, size_t words) { return static_cast<uint32_t>(words << 16) | operation; };
  std::vector<uint32_t> words = {0x07230203, 0x10000, 0, kFirst + kKernels, 0, begin(14, 3), 2, 2};
  const auto add = [&](const std::vector<uint32_t>& more) { words.insert(words.end(), more.begin(), more.end()); };
  for (uint32_t i = 0; i < kKernels; ++i) {
    char name[8] = {};
    snprintf(name, sizeof name, "k%u", i);
    uint32_t packed[2];
    std::memcpy(packed, name, sizeof packed);
    add({begin(15, 5), 6, kFirst + i, packed[0], packed[1]});
  }
  for (uint32_t i = 0; i < kKernels; ++i) add({begin(16, 6), kFirst + i, 17, i + 1, 2, 3});
  add({begin(21, 4), kInt, 64, 0, begin(33, kParameters + 3), kType, kInt});
  words.insert(words.end(), kParameters, kInt);
  for (uint32_t i = 0; i < kKernels; ++i) add({begin(54, 5), kInt, kFirst + i, 0, kType});
  level_zero::SpirvModule module;
  std::string reason;
  ASSERT_EQ(level_zero::read_spirv(words.data(), words.size() * 4, &module, &reason), HEDDLE_STATUS_OK) << reason;
  ASSERT_EQ(module.kernels.size(), kKernels);
  const level_zero::SpirvKernel &one = module.kernels.at("k0"), &last = module.kernels.at("k5999");
  ASSERT_EQ(one.parameters->size(), kParameters);
  EXPECT_EQ((*one.parameters)[kParameters - 1].bits, 64u);
  EXPECT_EQ(one.parameters, last.parameters);
  EXPECT_EQ(last.local_size[0], 6000u);
  EXPECT_EQ(last.local_size[2], 3u);
}

TEST_P(LevelZero, TellsTimes) {
  ASSERT_TRUE(driver->profile_api);
  heddle_executable_t* executable = nullptr;
  ASSERT_OK(load(module_words(), {entry_of("add", 3, 1)}, &executable));
  heddle_buffer_t* buffer = driver->make_filled(std::vector<float>(3, 1.f));
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, 4}, {buffer, 4, 4}, {buffer, 8, 4}};
  const std::vector<heddle_command_t> commands = {dispatch(entry(executable), bindings, 1), {}, dispatch(entry(executable), bindings, 1)};
  heddle_timeline_t* done = driver->make_timeline();
  const heddle_point_t point = {done, 1};
  const heddle_submission_t submission = {sizeof submission, 3, commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &point}};
  heddle_command_time_t times[3] = {};
  ASSERT_OK(driver->profile_api->submit(driver->queue, &submission, times));
  EXPECT_OK(driver->await(nullptr, point));
  EXPECT_LE(times[0].begin_ns, times[0].end_ns);
  EXPECT_LE(times[0].end_ns, times[2].begin_ns);
  EXPECT_LT(times[2].begin_ns, times[2].end_ns);
  driver->buffer_api->free(buffer);
  driver->dispatch_api->executable_unload(executable);
}

TEST_P(LevelZero, KeepsFreedMemoryUpToALimit) {
  const auto reserved = [&] { return driver->statistics().bytes_reserved; };
  heddle_buffer_t* buffer = driver->make_buffer(1 << 20);
  const uint64_t before = reserved();
  driver->buffer_api->free(buffer);
  EXPECT_EQ(reserved(), before + (1 << 20));
  buffer = driver->make_buffer(1 << 20);  // the same memory
  EXPECT_EQ(reserved(), before);
  driver->buffer_api->free(buffer);
  // What is kept is given back before an allocation fails: this one takes all memory of the device.
  buffer = driver->make_buffer(uint64_t{1} << 30);
  EXPECT_LT(reserved(), 1u << 20);
  heddle_buffer_params_t params = {sizeof params, HEDDLE_MEMORY_DEVICE, 4096, 0};
  heddle_buffer_t* more = nullptr;
  EXPECT_FAILS(driver->buffer_api->allocate(driver->device, &params, &more), HEDDLE_STATUS_RESOURCE_EXHAUSTED,
               "0 of its 1073741824 bytes are free, this process holds 1073741824");
  driver->buffer_api->free(buffer);
}

TEST_P(LevelZero, ShowsItsHandles) {
  ASSERT_TRUE(driver->native_api);
  uint64_t context = 0, stream = 0;
  EXPECT_OK(driver->native_api->context(driver->device, &context));
  EXPECT_OK(driver->native_api->stream(driver->queue, &stream));
  EXPECT_NE(context, 0u);
  EXPECT_NE(stream, 0u);
  heddle_queue_t* queue = nullptr;
  EXPECT_FAILS(driver->native_api->queue_import(driver->device, stream, &queue), HEDDLE_STATUS_UNIMPLEMENTED,
               "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE");
}

// With products of four bytes; the device has them, the code of the tests does not use subgroups.
TEST_P(LevelZero, RanksVariantsByWhatTheDeviceHas) {
  const auto rank = [&](const char* target) {
    uint32_t out = 0;
    EXPECT_OK(driver->dispatch_api->variant_rank(driver->device, string_of("spirv/1"), string_of(target), &out));
    return out;
  };
  EXPECT_EQ(rank("spv1.0"), 1u);
  EXPECT_EQ(rank("spv1.0-dp4a"), 2u);
  for (const char* target : {"spv1.0-", "-dp4a", "spv1.0-dp4a-dp4a", "spv1.3", ""}) EXPECT_EQ(rank(target), 0u) << target;
}

// Of the second or third device, which stays lost in this process: these tests come last, since the stand-in has fewer rules for a lost device. The kernel
// is named, and all later calls fail with the same.
class LostLevelZero : public ::testing::TestWithParam<bool> {};
TEST_P(LostLevelZero, ADeviceFailsAndTheOtherWorks) {
  const uint32_t ordinal = GetParam() ? 1 : 2;
  PluginHost host;
  host.set_bool("immediate_lists", GetParam());
  {
    OpenDriver driver(HEDDLE_TEST_PLUGIN, &host);
    ASSERT_TRUE(driver.device);
    heddle_device_t* device = driver.open(ordinal);
    ASSERT_TRUE(device);
    heddle_queue_t* queue = driver.make_queue(device);
    const std::vector<uint32_t> words = module_words();
    const heddle_entry_params_t add = entry_of("add", 3, 1);
    heddle_executable_params_t params = {sizeof params,    1,    string_of("spirv/1"), string_of("spv1.0"), words.data(),
                                         words.size() * 4, &add, sizeof add,           string_of("test"),   {}};
    heddle_executable_t* executable = nullptr;
    ASSERT_OK(driver.dispatch_api->executable_load(device, &params, &executable));
    heddle_entry_t* entry = nullptr;
    ASSERT_OK(driver.dispatch_api->entry(executable, 0, &entry));
    heddle_buffer_t* buffer = driver.make_buffer(12, HEDDLE_MEMORY_DEVICE, device);
    void* stand_in = dlopen(HEDDLE_TEST_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_TRUE(stand_in);
    auto hold = reinterpret_cast<void (*)(bool)>(dlsym(stand_in, "heddle_level_zero_hold"));
    auto lose = reinterpret_cast<void (*)(uint32_t)>(dlsym(stand_in, "heddle_level_zero_lose"));
    ASSERT_TRUE(hold && lose);
    const std::vector<heddle_binding_t> bindings = {{buffer, 0, 4}, {buffer, 4, 4}, {buffer, 8, 4}};
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_DISPATCH;
    command.as.dispatch = {entry, bindings.data(), nullptr, 3, 0, {1, 1, 1}, 7};
    heddle_timeline_t* timeline = driver.make_timeline(0, device);
    hold(true);
    EXPECT_OK(driver.submit({command}, {}, {{timeline, 1}}, queue));
    lose(ordinal);
    hold(false);
    Result waited = driver.wait(timeline, 1);
    EXPECT_EQ(waited.code(), HEDDLE_STATUS_DEVICE_LOST) << waited.message();
    EXPECT_NE(waited.message().find("ZE_RESULT_ERROR_DEVICE_LOST"), std::string::npos) << waited.message();
    EXPECT_NE(waited.message().find("in kernel 'add'"), std::string::npos) << waited.message();
    Result again = driver.submit({command}, {}, {{timeline, 2}}, queue);
    EXPECT_EQ(again.message(), waited.message());
    heddle_buffer_t* elsewhere = driver.make_filled(std::vector<float>{5});
    EXPECT_EQ(driver.values_of<float>(elsewhere, 1)[0], 5.f) << "the other device works";
    driver.buffer_api->free(elsewhere);
    driver.buffer_api->free(buffer);
    driver.timeline_api->destroy(timeline);
    driver.dispatch_api->executable_unload(executable);
    EXPECT_OK(driver.device_api->queue_destroy(queue));
    EXPECT_OK(driver.device_api->close(device));
  }
  EXPECT_EQ(PluginHost::live_statuses().load(), 0);
}

// All devices of the process: the last test.
class UnloadedLevelZero : public ::testing::TestWithParam<bool> {};
TEST_P(UnloadedLevelZero, FailsWithOneErrorAndEnds) {
  PluginHost host;
  {
    OpenDriver driver(HEDDLE_TEST_PLUGIN, &host);
    ASSERT_TRUE(driver.device);
    heddle_buffer_t* buffer = driver.make_filled(std::vector<float>{5});
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_FILL;
    command.as.fill = {buffer, 0, 4, 0, 4, 0};
    heddle_timeline_t* timeline = driver.make_timeline();
    void* stand_in = dlopen(HEDDLE_TEST_STAND_IN, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_TRUE(stand_in);
    auto unload = reinterpret_cast<void (*)()>(dlsym(stand_in, "heddle_level_zero_unload"));
    auto hold = reinterpret_cast<void (*)(bool)>(dlsym(stand_in, "heddle_level_zero_hold"));
    ASSERT_TRUE(unload && hold);
    hold(true);
    EXPECT_OK(driver.submit({command}, {}, {{timeline, 1}}));
    unload();
    hold(false);
    Result waited = driver.wait(timeline, 1);
    EXPECT_EQ(waited.code(), HEDDLE_STATUS_DEVICE_LOST) << waited.message();
    EXPECT_NE(waited.message().find("ZE_RESULT_ERROR_UNINITIALIZED"), std::string::npos) << waited.message();
    Result again = driver.submit({command}, {}, {{timeline, 2}});
    EXPECT_EQ(again.message(), waited.message());
    driver.buffer_api->free(buffer);
    driver.timeline_api->destroy(timeline);
  }
  EXPECT_EQ(PluginHost::live_statuses().load(), 0);
}

INSTANTIATE_TEST_SUITE_P(ImmediateLists, LevelZero, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Queues, LevelZero, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Queues, LevelZeroQueues, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(ImmediateLists, LevelZeroImports, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Queues, LevelZeroImports, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(ImmediateLists, LostLevelZero, ::testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Queues, LostLevelZero, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(ImmediateLists, UnloadedLevelZero, ::testing::Values(true));

}  // namespace
}  // namespace heddle::test
