// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weight files that are not what they should be, or do not stay so while they are read, on every driver: a clear error, nothing half-loaded,
// and the next load works.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "../support/sparse_weights.h"
#include "core_drivers.h"

namespace heddle::testing {
namespace {

constexpr uint64_t kTensors = 8, kElements = uint64_t{8} << 20;  // 256 MiB: long enough to read that something happens meanwhile

class RuntimeWeights : public OnDriver {
 protected:
  std::string config() const override { return OnDriver::config() + "[param_io]\nchunk = \"4KiB\"\nqueue_depth = 1\n" + more_config_; }

  // Function f<i> gives parameter w<i>, of a file of scope "model".
  void open_module_of(uint64_t count, uint64_t elements) {
    ModuleBuilder module = builder();
    for (uint64_t i = 0; i < count; ++i) {
      const auto extent = static_cast<int64_t>(elements);
      const std::string name = "w" + std::to_string(i);
      const uint32_t parameter = module.add_parameter("model", name, {extent}, {});
      const uint32_t global = module.add_global("global of " + name, mf::GlobalKind::Parameter, elements * 4, parameter);
      mf::FunctionT& function = module.add_function("f" + std::to_string(i));
      function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(extent)}));
      ProgramBuilder p = program();
      p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
      function.programs.push_back(p.finish());
    }
    const std::string path = folder.path("weights.heddle");
    ASSERT_EQ(module.write(path), "");
    opened_ = open_module(runtime.get(), path);
    ASSERT_NE(opened_, nullptr);
  }
  // The file in a state that no clock is too coarse to tell from a later one.
  void write_weights(const std::string& at, uint64_t count = kTensors, uint64_t elements = kElements) {
    data_ = write_sparse_weights(at, count, elements);
    ASSERT_NE(data_, 0u) << at;
    const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, at.c_str(), times, 0), 0);
  }
  Outcome load(InstanceHandle* out = nullptr, uint32_t flags = 0) {
    InstanceHandle instance;
    Outcome outcome = create_instance(opened_.get(), {{"", GetParam().device}}, &instance, {{"model", file_}}, flags);
    if (out) *out = std::move(instance);
    return outcome;
  }
  static uint64_t bytes_read_by_this_process() {
    unsigned long long bytes = 0;
    if (FILE* file = std::fopen("/proc/self/io", "re")) {
      if (std::fscanf(file, "rchar: %llu", &bytes) != 1) bytes = 0;
      std::fclose(file);
    }
    return bytes;
  }
  // Loads, and does something once reading is under way. Again if that came too late, as it does for long where the machine is busy.
  Outcome load_and(const std::function<void()>& meanwhile, bool is_harmless = false) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {
      write_weights(file_);
      std::atomic<bool> over{false};
      bool was_in_time = false;
      const uint64_t before = bytes_read_by_this_process();
      std::thread other([&] {
        while (!over && bytes_read_by_this_process() < before + (uint64_t{16} << 20)) std::this_thread::yield();
        meanwhile();
        was_in_time = !over;
      });
      Outcome outcome = load();
      over = true;
      other.join();
      if (!outcome.ok() || (is_harmless && was_in_time) || std::chrono::steady_clock::now() > end) return outcome;
    }
  }
  void expect_next_load_works() {
    write_weights(file_);
    InstanceHandle instance;
    Outcome outcome = load(&instance);
    ASSERT_TRUE(outcome.ok()) << outcome.message;
    const std::vector<float> values = read_tensor(call_for_one(find_function(instance, "f3"), {}));
    EXPECT_EQ(values.size(), kElements);
    EXPECT_EQ(std::count(values.begin(), values.end(), 0.0f), static_cast<int64_t>(kElements));
    EXPECT_EQ(nlohmann::json::parse(instance_report(instance, "statistics"))["weights"]["shared"], 0) << "nothing of a failed load is kept";
  }
  void expect(const Outcome& outcome, heddle_status_code_t code, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.code, code) << outcome.message;
    for (const std::string& part : parts) EXPECT_NE(outcome.message.find(part), std::string::npos) << part << " in: " << outcome.message;
  }

  std::string more_config_ = "method = [\"buffered\"]\n";  // by default, a CPU would map large files
  std::string file_ = folder.path("model.safetensors");
  ModuleHandle opened_;
  uint64_t data_ = 0;  // where tensors begin in the file
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeWeights, ::testing::ValuesIn(kDrivers), driver_name);

// w0 and w1 in one file, w2 and w3 in another, and each tensor's first value its number.
class RuntimeShards : public RuntimeWeights {
 protected:
  void write_two_files() {
    open_module_of(4, 16);
    for (uint64_t i = 0; i < 4; ++i) {
      const std::string path = folder.path(i < 2 ? "a.safetensors" : "b.safetensors");
      if (i % 2 == 0) data_ = write_sparse_weights(path, 2, 16, i);
      const float value = static_cast<float>(i);
      const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      ASSERT_EQ(pwrite(file, &value, sizeof(value), static_cast<off_t>(data_ + i % 2 * 64)), 4);
      ::close(file);
    }
  }
  void expect_values(const std::vector<std::pair<std::string, std::string>>& files) {
    InstanceHandle instance;
    const Outcome outcome = create_instance(opened_.get(), {{"", GetParam().device}}, &instance, files);
    ASSERT_TRUE(outcome.ok()) << outcome.message;
    for (uint32_t i = 0; i < 4; ++i) {
      const std::string function = "f" + std::to_string(i);
      EXPECT_EQ(read_tensor(call_for_one(find_function(instance, function.c_str()), {}))[0], static_cast<float>(i));
    }
  }
  Outcome load_index(const std::string& text) {
    std::FILE* file = std::fopen(file_.c_str(), "we");
    std::fputs(text.c_str(), file);
    std::fclose(file);
    return load();
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeShards, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeShards, AnIndexOfShardsStandsForItsShards) {
  write_two_files();
  const Outcome outcome = load_index(
      "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"w3\":\"b.safetensors\",\"w0\":\"a.safetensors\",\"w1\":\"a.safetensors\",\"w2\":"
      "\"b."
      "safetensors\"}}");
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  expect_values({{"model", file_}});
}

TEST_P(RuntimeShards, AnIndexThatIsWrongIsNamedWithItsShard) {
  write_two_files();
  expect(load_index("{\"weight_map\":{\"w0\":\"../a.safetensors\"}}"), HEDDLE_STATUS_DATA_LOSS,
         {"'../a.safetensors' is not the name of a file"});
  expect(load_index("{\"weight_map\":{\"w0\":\"c.safetensors\"}}"), HEDDLE_STATUS_NOT_FOUND, {"c.safetensors", "No such file"});
  expect(load_index("{\"weight_map\":{\"w0\":\"b.safetensors\"}}"), HEDDLE_STATUS_DATA_LOSS,
         {"says that tensor 'w0' is in", "which does not have it"});
  expect(load_index("{\"weight_map\":{\"w0\":\"a.safetensors\",\"w1\":\"a.safetensors\",\"w2\":\"b.safetensors\",\"w3\":\"b.safetensors\","
                    "\"not in the mo\\ndule\":\"a.safetensors\"}}"),
         HEDDLE_STATUS_DATA_LOSS, {"says that tensor 'not in the mo dule' is in", "a.safetensors, which does not have it"});
  expect(load_index("{\"weight_map\":{\"w0\":\"a.safetensors\"}}"), HEDDLE_STATUS_NOT_FOUND, {"'w1'", "no tensor of", "model.safetensors"});
}

TEST_P(RuntimeShards, AScopeMayHaveSeveralFilesButATensorOnlyOne) {
  write_two_files();
  expect_values({{"model", folder.path("a.safetensors")}, {"model", folder.path("b.safetensors")}});
  ASSERT_NE(write_sparse_weights(file_, 1, 16), 0u);
  InstanceHandle instance;
  const Outcome outcome =
      create_instance(opened_.get(), {{"", GetParam().device}}, &instance,
                      {{"model", folder.path("a.safetensors")}, {"model", folder.path("b.safetensors")}, {"model", file_}});
  expect(outcome, HEDDLE_STATUS_INVALID_ARGUMENT, {"'w0' of scope 'model'", "a.safetensors and", "model.safetensors have it"});
}

TEST_P(RuntimeWeights, AFileTruncatedWhileItIsReadIsDataLossWithFileTensorAndOffset) {
  open_module_of(kTensors, kElements);
  const Outcome outcome = load_and([&] { EXPECT_EQ(truncate(file_.c_str(), static_cast<off_t>(data_ + 5000)), 0); });
  expect(outcome, HEDDLE_STATUS_DATA_LOSS, {"model.safetensors", "reading tensor 'w", "at byte "});
  // The offset is one of that tensor.
  unsigned tensor = 0;
  unsigned long long first = 0, end = 0, at = 0;
  const size_t name = outcome.message.find("tensor 'w"), place = outcome.message.find("at byte ");
  ASSERT_NE(name, std::string::npos);
  ASSERT_NE(place, std::string::npos);
  ASSERT_EQ(std::sscanf(outcome.message.c_str() + name, "tensor 'w%u' (bytes [%llu, %llu)", &tensor, &first, &end), 3) << outcome.message;
  ASSERT_EQ(std::sscanf(outcome.message.c_str() + place, "at byte %llu", &at), 1) << outcome.message;
  EXPECT_EQ(first, data_ + tensor * kElements * 4);
  EXPECT_EQ(end, first + kElements * 4);
  EXPECT_GE(at, first);
  EXPECT_LT(at, end);
  expect_next_load_works();
}

TEST_P(RuntimeWeights, AFileRewrittenWhileItIsReadIsDataLoss) {
  open_module_of(kTensors, kElements);
  const Outcome outcome = load_and([&] {
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(descriptor, "x", 1, static_cast<off_t>(data_ + kElements * 4 * 3)), 1);
    ::close(descriptor);
  });
  expect(outcome, HEDDLE_STATUS_DATA_LOSS,
         {"model.safetensors", "8 tensors, 'w0' to 'w7'", std::to_string(data_), "it was modified meanwhile; load it again"});
  expect_next_load_works();
}

TEST_P(RuntimeWeights, AFileReplacedWhileItIsReadIsDataLoss) {
  open_module_of(kTensors, kElements);
  const Outcome outcome = load_and([&] {
    write_file(file_ + ".new", "something else");
    EXPECT_EQ(rename((file_ + ".new").c_str(), file_.c_str()), 0);
  });
  expect(outcome, HEDDLE_STATUS_DATA_LOSS, {"model.safetensors", "'w0' to 'w7'", "another file replaced it meanwhile"});
  expect_next_load_works();
}

TEST_P(RuntimeWeights, AFileRemovedWhileItIsReadIsReadWhole) {
  open_module_of(kTensors, kElements);
  const Outcome outcome = load_and([&] { EXPECT_EQ(unlink(file_.c_str()), 0); }, true);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
}

TEST_P(RuntimeWeights, LoadsInTheBackground) {
  open_module_of(kTensors, kElements);
  write_weights(file_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  InstanceHandle instance;
  Outcome soon(nullptr);
  while (soon.ok() && std::chrono::steady_clock::now() < end) {  // again if all was read before it could be asked
    instance.reset();
    const Outcome created = load(&instance, HEDDLE_INSTANCE_IN_BACKGROUND);
    ASSERT_TRUE(created.ok()) << created.message;
    soon = Outcome(heddle_instance_wait(instance.get(), 0));
  }
  expect(soon, HEDDLE_STATUS_DEADLINE_EXCEEDED, {"still being loaded"});
  const std::vector<float> values = read_tensor(call_for_one(find_function(instance, "f7"), {}));
  EXPECT_EQ(std::count(values.begin(), values.end(), 0.0f), static_cast<int64_t>(kElements));
  HEDDLE_EXPECT_OK(heddle_instance_wait(instance.get(), 0));
}

TEST_P(RuntimeWeights, AnotherFileIsReadMeanwhile) {
  open_module_of(1, 16);
  const ModuleHandle small = std::move(opened_);
  const std::string few = folder.path("few.safetensors");
  ASSERT_NE(write_sparse_weights(few, 1, 16), 0u);
  open_module_of(kTensors, kElements);
  write_weights(file_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Outcome first(nullptr);
  while (first.ok() && std::chrono::steady_clock::now() < end) {  // again if all was read before the other load was over
    InstanceHandle large, other;
    const uint64_t before = bytes_read_by_this_process();
    const Outcome created = load(&large, HEDDLE_INSTANCE_IN_BACKGROUND);
    ASSERT_TRUE(created.ok()) << created.message;
    while (bytes_read_by_this_process() < before + (uint64_t{1} << 20)) std::this_thread::yield();
    const Outcome also = create_instance(small.get(), {{"", GetParam().device}}, &other, {{"model", few}});
    ASSERT_TRUE(also.ok()) << also.message;
    first = Outcome(heddle_instance_wait(large.get(), 0));
    EXPECT_EQ(read_tensor(call_for_one(find_function(other, "f0"), {})), std::vector<float>(16, 0));
  }
  expect(first, HEDDLE_STATUS_DEADLINE_EXCEEDED, {"still being loaded"});
}

TEST_P(RuntimeWeights, ReleasingAnInstanceThatLoadsCancelsTheLoad) {
  open_module_of(kTensors, kElements);
  write_weights(file_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  uint64_t read = UINT64_MAX;
  while (read >= kTensors * kElements * 4 && std::chrono::steady_clock::now() < end) {
    const uint64_t before = bytes_read_by_this_process();
    InstanceHandle instance;
    const Outcome created = load(&instance, HEDDLE_INSTANCE_IN_BACKGROUND);
    ASSERT_TRUE(created.ok()) << created.message;
    while (bytes_read_by_this_process() < before + (uint64_t{1} << 20)) std::this_thread::yield();
    instance.reset();
    read = bytes_read_by_this_process() - before;
  }
  EXPECT_LT(read, kTensors * kElements * 4);
  expect_next_load_works();
}

TEST_P(RuntimeWeights, AFailureInTheBackgroundIsThatOfEveryCall) {
  open_module_of(kTensors, kElements);
  write_weights(file_);
  InstanceHandle instance;
  const Outcome created = load(&instance, HEDDLE_INSTANCE_IN_BACKGROUND);
  ASSERT_TRUE(created.ok()) << created.message;
  ASSERT_EQ(truncate(file_.c_str(), static_cast<off_t>(data_ + 5000)),
            0);  // before the end of the load or at its end: the file is looked at again
  expect(Outcome(heddle_instance_wait(instance.get(), HEDDLE_TIMEOUT_INFINITE)), HEDDLE_STATUS_DATA_LOSS, {"model.safetensors"});
  heddle_function_t* function = find_function(instance, "f3");
  heddle_tensor_t* result = nullptr;
  expect(Outcome(heddle_call(function, nullptr, 0, &result, 1)), HEDDLE_STATUS_DATA_LOSS, {"calling 'f3' failed", "model.safetensors"});
  heddle_call_t* call = nullptr;
  expect(Outcome(heddle_call_start(function, nullptr, nullptr, 0, &result, 1, &call)), HEDDLE_STATUS_DATA_LOSS, {"model.safetensors"});
  heddle_text_t* text = nullptr;
  expect(Outcome(heddle_instance_report(instance.get(), c_string("statistics"), &text)), HEDDLE_STATUS_DATA_LOSS, {"model.safetensors"});
  expect_next_load_works();
}

TEST_P(RuntimeWeights, SaysWhatIsWrongWithAFileBeforeItIsRead) {
  open_module_of(kTensors, kElements);
  write_weights(file_);
  ASSERT_EQ(truncate(file_.c_str(), static_cast<off_t>(data_ + kElements * 4 + 7)), 0);
  expect(load(), HEDDLE_STATUS_DATA_LOSS,
         {"model.safetensors", "tensor 'w1'", std::to_string(data_ + kElements * 4),
          "beyond the file's " + std::to_string(data_ + kElements * 4 + 7)});
  ASSERT_EQ(truncate(file_.c_str(), 100), 0);
  expect(load(), HEDDLE_STATUS_DATA_LOSS, {"model.safetensors", "header"});
  ASSERT_EQ(unlink(file_.c_str()), 0);
  ASSERT_EQ(mkdir(file_.c_str(), 0700), 0);
  expect(load(), HEDDLE_STATUS_INVALID_ARGUMENT, {"model.safetensors", "not a regular file"});
  ASSERT_EQ(rmdir(file_.c_str()), 0);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  expect(load(), HEDDLE_STATUS_INVALID_ARGUMENT, {"model.safetensors", "not a regular file"});
  ASSERT_EQ(unlink(file_.c_str()), 0);
  expect(load(), HEDDLE_STATUS_NOT_FOUND, {"model.safetensors"});
  write_weights(file_);
  ASSERT_EQ(chmod(file_.c_str(), 0), 0);
  const bool is_root = geteuid() == 0;  // to whom permissions mean nothing
  if (is_root) {
    ASSERT_EQ(chmod(folder.path("").c_str(), 0755), 0);
    ASSERT_EQ(seteuid(65534), 0);
  }
  expect(load(), HEDDLE_STATUS_PERMISSION_DENIED, {"model.safetensors"});
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  expect_next_load_works();
}

TEST_P(RuntimeWeights, AModuleThatChangedSinceItWasOpenedIsNotReadFrom) {
  const std::vector<float> stored = {1, 2, 3, 4};
  ModuleBuilder module = builder();
  const uint32_t parameter = module.add_parameter("", "inside", {4}, std::as_bytes(std::span<const float>(stored)));
  const uint32_t global = module.add_global("inside", mf::GlobalKind::Parameter, 16, parameter);
  mf::FunctionT& function = module.add_function("main");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
  ProgramBuilder p = program();
  p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  const std::string path = folder.path("m.heddle");
  ASSERT_EQ(module.write(path), "");
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  opened_ = open_module(runtime.get(), path);
  InstanceHandle instance;
  auto create = [&] { return create_instance(opened_.get(), {{"", GetParam().device}}, &instance); };
  HEDDLE_ASSERT_OK(create());

  // Another file in its place is nothing to who has this one open.
  std::filesystem::copy_file(path, path + ".kept");
  ASSERT_EQ(rename((path + ".kept").c_str(), path.c_str()), 0);
  HEDDLE_EXPECT_OK(create());
  EXPECT_EQ(read_tensor(call_for_one(find_function(instance), {})), stored);

  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  opened_ = open_module(runtime.get(), path);
  const auto size = static_cast<off_t>(std::filesystem::file_size(path));
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(descriptor, "x", 1, size - 1), 1);
  ::close(descriptor);
  expect(create(), HEDDLE_STATUS_DATA_LOSS, {"m.heddle", "parameter 'inside'", "modified meanwhile; open the module again"});
  ASSERT_EQ(truncate(path.c_str(), size - 1), 0);
  expect(create(), HEDDLE_STATUS_DATA_LOSS, {"m.heddle", "parameter 'inside'", "past the end at " + std::to_string(size - 1)});
}

TEST_P(RuntimeWeights, ReadsNothingThatNoFunctionReads) {
  constexpr uint64_t kHuge = 1000, kEach = uint64_t{25} << 20;  // 100 GB
  ModuleBuilder module = builder();
  for (uint64_t i = 0; i < 10; ++i) {
    const uint32_t parameter = module.add_parameter("model", "w" + std::to_string(i * 100), {static_cast<int64_t>(kEach)}, {});
    module.add_global("g", mf::GlobalKind::Parameter, kEach * 4, parameter);
  }
  add_adder(module, "main", 4);
  ASSERT_EQ(module.write(folder.path("small.heddle")), "");
  opened_ = open_module(runtime.get(), folder.path("small.heddle"));
  write_weights(file_, kHuge, kEach);
  InstanceHandle instance;
  Outcome outcome = load(&instance);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(nlohmann::json::parse(instance_report(instance, "statistics"))["weights"]["bytes_read"], 0);
}

class RuntimeWeightsDirect : public RuntimeWeights {
 protected:
  RuntimeWeightsDirect() { more_config_ = "method = [\"direct\", \"buffered\"]\n"; }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeWeightsDirect, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeWeightsDirect, ReadsTheSameBytes) {
  constexpr uint64_t kSmall = 300'001;
  open_module_of(3, kSmall);
  write_weights(file_, 3, kSmall);
  std::vector<float> values(3 * kSmall);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65521);
  const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(descriptor, values.data(), values.size() * 4, static_cast<off_t>(data_)), static_cast<ssize_t>(values.size() * 4));
  ::close(descriptor);
  InstanceHandle instance;
  Outcome outcome = load(&instance);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<float> got = read_tensor(call_for_one(find_function(instance, "f" + std::to_string(i)), {}));
    EXPECT_TRUE(std::equal(got.begin(), got.end(), values.begin() + static_cast<long>(i * kSmall))) << i;
  }
}

// param_io.method: in order, each passed over with the driver's reason; the log says which it was.
TEST_P(RuntimeWeights, MethodsAreTriedInOrder) {
  const std::string device = GetParam().device, alias = device.substr(device.find('.') + 1);
  write_weights(file_, 4, 5000);
  const int descriptor = ::open(file_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  const bool goes_direct = descriptor >= 0;
  if (descriptor >= 0) ::close(descriptor);
  const std::string no_gds =
      "\"gds\": " + alias.substr(0, alias.find(':')) + ": reading '" + file_ + "' failed: this driver has no GPUDirect Storage";
  auto load_by = [&](const std::string& methods, std::string* out_log) {
    more_config_ = "method = [" + methods + "]\n[log]\nlevel = \"info\"\n";
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
    open_module_of(4, 5000);
    ::testing::internal::CaptureStderr();
    InstanceHandle instance;
    Outcome outcome = load(&instance);
    *out_log = ::testing::internal::GetCapturedStderr();
    if (outcome.ok()) {
      EXPECT_EQ(read_tensor(call_for_one(find_function(instance, "f3"), {})), std::vector<float>(5000, 0.0f));
    }
    return outcome;
  };
  std::string log;
  Outcome outcome = load_by("\"gds\", \"direct\", \"buffered\"", &log);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_NE(log.find("info memory: " + file_ + " is read to device '" + alias + "' by the method \"" +
                     (goes_direct ? "direct" : "buffered") + "\"; skipped: " + no_gds),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("\"direct\": ") == std::string::npos, goes_direct) << log;
  outcome = load_by("\"buffered\", \"gds\"", &log);
  EXPECT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_NE(log.find("by the method \"buffered\"\n"), std::string::npos) << log;
  EXPECT_EQ(log.find("gds"), std::string::npos) << log;
  expect(load_by("\"gds\"", &log), HEDDLE_STATUS_UNAVAILABLE,
         {"reading parameters from " + file_ + " to device '" + alias + "' failed: no method in param_io.method works: " + no_gds,
          "\"buffered\" works for every file"});
  outcome = load_by("\"gds\", \"direct\"", &log);
  if (goes_direct) {
    EXPECT_TRUE(outcome.ok()) << outcome.message;
  } else {
    expect(outcome, HEDDLE_STATUS_UNAVAILABLE, {no_gds, "; \"direct\": "});
  }
  // A failure of the reading itself is no reason to read in another way.
  ASSERT_EQ(truncate(file_.c_str(), static_cast<off_t>(data_ + 10)), 0);
  expect(load_by("\"gds\", \"buffered\"", &log), HEDDLE_STATUS_DATA_LOSS, {"model.safetensors"});
}

// Values that tell where they came from, read in one way or another.
class RuntimeWeightsWays : public RuntimeWeights {
 protected:
  void make(uint64_t elements) {
    elements_ = elements;
    write_weights(file_, kCount, elements);
    make_of(elements, 0);
  }
  // New values in the file as it is.
  void make_of(uint64_t elements, uint64_t more) {
    std::vector<float> values(kCount * elements);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65521 + more);
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(pwrite(descriptor, values.data(), values.size() * 4, static_cast<off_t>(data_)), static_cast<ssize_t>(values.size() * 4));
    ::close(descriptor);
  }
  Outcome load_by_default() { return load_with(""); }
  Outcome load_by(const std::string& methods) { return load_with("method = [" + methods + "]\n"); }
  Outcome load_with(const std::string& config_lines) {
    more_config_ = config_lines;
    instance_.reset();
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
    open_module_of(kCount, elements_);
    Outcome outcome = load(&instance_);
    for (uint64_t i = 0; i < kCount && outcome.ok(); ++i) {
      std::vector<float> expected(elements_);
      for (size_t j = 0; j < expected.size(); ++j) expected[j] = static_cast<float>((i * elements_ + j) % 65521);
      EXPECT_TRUE(read_tensor(call_for_one(find_function(instance_, "f" + std::to_string(i)), {})) == expected) << i;
    }
    return outcome;
  }
  nlohmann::json statistics() const { return nlohmann::json::parse(instance_report(instance_, "statistics")); }
  bool has_streams() const { return std::string(GetParam().plugin).find("streams") != std::string::npos; }

  static constexpr uint64_t kCount = 4;
  uint64_t elements_ = 0;
  InstanceHandle instance_;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeWeightsWays, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeWeightsWays, MappedOnlyWhereTheHostsMemoryIsTheDevices) {
  make(4096);
  const Outcome outcome = load_by("\"mmap\"");
  if (has_streams()) {
    expect(outcome, HEDDLE_STATUS_UNAVAILABLE,
           {"\"mmap\": the memory of device 'streams:0' is not host memory, and such a device never maps pages of a file"});
    return;
  }
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(statistics()["weights"]["bytes_mapped"], kCount * 4096 * 4);
  EXPECT_EQ(statistics()["weights"]["bytes_read"], 0);
  EXPECT_EQ(statistics()["devices"][0]["pool"]["requested"], 0) << "weights are the file's pages";
  InstanceHandle second;
  ASSERT_TRUE(load(&second).ok());
  EXPECT_EQ(statistics()["weights"]["shared"], kCount);
  instance_.reset();
  EXPECT_EQ(read_tensor(call_for_one(find_function(second, "f1"), {}))[7], 4096 + 7);
}

// Where the file system of TMPDIR has leases, see cpu_steady_files_test.cpp.
TEST_P(RuntimeWeightsWays, ByDefaultALargeFileIsMappedWhereItsContentsCanBeKept) {
  constexpr uint64_t kEach = uint64_t{2} << 20;
  make(kEach);
  const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool has_leases = fcntl(descriptor, F_SETLEASE, F_RDLCK) == 0 && !std::filesystem::exists("/sys/devices/system/node/node1");
  ::close(descriptor);
  const uint64_t mapped = has_streams() || !has_leases ? 0 : kCount * kEach * 4;
  const Outcome outcome = load_by_default();
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(statistics()["weights"]["bytes_mapped"], mapped);
  EXPECT_EQ(statistics()["weights"]["bytes_read"], kCount * kEach * 4 - mapped);
  // A file that is written over while it is used: calls see its old values, the next instance its new ones.
  make_of(kEach, 5);
  EXPECT_EQ(read_tensor(call_for_one(find_function(instance_, "f1"), {}))[7], (kEach + 7) % 65521);
  InstanceHandle second;
  ASSERT_TRUE(load(&second).ok());
  EXPECT_EQ(read_tensor(call_for_one(find_function(second, "f1"), {}))[7], (kEach + 7) % 65521 + 5);
  ASSERT_EQ(truncate(file_.c_str(), 0), 0);
  EXPECT_EQ(read_tensor(call_for_one(find_function(second, "f3"), {}))[9], (3 * kEach + 9) % 65521 + 5);
}

// With 2^21 + 2 elements, each begins 8 bytes further from a multiple of 64; with one, every other one is not at a multiple of 8.
TEST_P(RuntimeWeightsWays, ByDefaultTensorsAreMappedAtMultiplesOf8) {
  for (const uint64_t more : {2, 1}) {
    const uint64_t each = (uint64_t{2} << 20) + more;
    make(each);
    const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
    const bool has_leases = fcntl(descriptor, F_SETLEASE, F_RDLCK) == 0 && !std::filesystem::exists("/sys/devices/system/node/node1");
    ::close(descriptor);
    const uint64_t mapped = has_streams() || !has_leases ? 0 : (more == 2 ? 4 : 2) * each * 4;
    const Outcome outcome = load_by_default();
    ASSERT_TRUE(outcome.ok()) << outcome.message;
    EXPECT_EQ(statistics()["weights"]["bytes_mapped"], mapped) << more;
    EXPECT_EQ(statistics()["weights"]["bytes_read"], kCount * each * 4 - mapped) << more;
  }
}

TEST_P(RuntimeWeightsWays, TensorsThatCannotBeMappedGoToTheNextMethod) {
  make(5000);  // every other one begins between multiples of 64
  const Outcome outcome = load_by("\"mmap\", \"buffered\"");
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(statistics()["weights"]["bytes_mapped"], has_streams() ? 0 : 2 * 20000);
  EXPECT_EQ(statistics()["weights"]["bytes_read"], has_streams() ? 4 * 20000 : 2 * 20000);
  if (has_streams()) return;
  expect(
      load_by("\"mmap\""), HEDDLE_STATUS_UNAVAILABLE,
      {"\"mmap\": 2 of 4 tensors, the first 'w1' at byte " + std::to_string(data_ + 20000) + ", do not begin at a multiple of 64 [HD-M-04]",
       "\"buffered\" works for every file, as does --param-mode file"});
}

TEST_P(RuntimeWeightsWays, PreloadedIsReadBeforeTheDeviceGetsAnything) {
  make(5000);
  const Outcome outcome = load_by("\"preload\"");
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(statistics()["weights"]["bytes_read"], 4 * 20000);
  EXPECT_EQ(statistics()["devices"][0]["host_transfers"]["upload_bytes"], 4 * 20000);
}

class RuntimeWeightsPreloaded : public RuntimeWeights {
 protected:
  RuntimeWeightsPreloaded() { more_config_ = "method = [\"preload\"]\n"; }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeWeightsPreloaded, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeWeightsPreloaded, AFileTruncatedWhileItIsReadIsDataLossWithFileTensorAndOffset) {
  open_module_of(kTensors, kElements);
  const Outcome outcome = load_and([&] { EXPECT_EQ(truncate(file_.c_str(), static_cast<off_t>(data_ + 5000)), 0); });
  expect(outcome, HEDDLE_STATUS_DATA_LOSS, {"model.safetensors", "reading tensor 'w", "at byte ", "it is truncated or was replaced"});
  expect_next_load_works();
}

}  // namespace
}  // namespace heddle::testing
