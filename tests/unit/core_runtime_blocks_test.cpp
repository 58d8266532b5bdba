// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weights that a GGUF file stores in blocks, on every driver: the host decodes them for the CPU, and for test.streams those of the types that it does not
// decode itself. Small weights, weights that fill several chunks, files that end too early.
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core_drivers.h"
#include "sdk/module/block_types.h"

namespace heddle::testing {
namespace {

struct Tensor {
  std::string type;
  uint32_t number;  // of the type in GGUF
  uint64_t elements;
  heddle_element_type_t wanted;
  std::vector<std::byte> blocks = {};
  uint64_t at = 0;  // in the file
};

bool is_nan(const std::byte* value, heddle_element_type_t type) {
  uint32_t bits = 0;
  std::memcpy(&bits, value, type == HEDDLE_TYPE_F32 ? 4 : 2);
  const uint32_t infinity = type == HEDDLE_TYPE_F32 ? 0x7F800000 : type == HEDDLE_TYPE_F16 ? 0x7C00 : 0x7F80;
  return (bits & (type == HEDDLE_TYPE_F32 ? 0x7FFFFFFFu : 0x7FFFu)) > infinity;
}

class RuntimeBlocks : public OnDriver {
 protected:
  std::string config() const override { return OnDriver::config() + "[validation]\ncalls = true\n" + more_config_; }

  void write_gguf(std::vector<Tensor>& tensors) {
    std::string head = "GGUF";
    auto number = [&](uint64_t value, int bytes) {
      for (int i = 0; i < bytes; ++i) head += static_cast<char>(value >> (8 * i));
    };
    number(3, 4), number(tensors.size(), 8), number(0, 8);
    uint64_t offset = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      Tensor& tensor = tensors[i];
      const module::BlockType* block = module::block_type(tensor.type);
      ASSERT_TRUE(block) << tensor.type;
      const std::string name = "w" + std::to_string(i);
      number(name.size(), 8), head += name, number(1, 4), number(tensor.elements, 8), number(tensor.number, 4), number(offset, 8);
      tensor.blocks.resize(tensor.elements / block->elements * block->bytes);
      std::mt19937_64 random(i);
      for (std::byte& byte : tensor.blocks) byte = static_cast<std::byte>(random());
      tensor.at = offset;
      offset += (tensor.blocks.size() + 31) / 32 * 32;
    }
    head.resize((head.size() + 31) / 32 * 32);
    std::string data(offset, '\0');
    for (Tensor& tensor : tensors) {
      std::memcpy(data.data() + tensor.at, tensor.blocks.data(), tensor.blocks.size());
      tensor.at += head.size();
    }
    size_ = head.size() + data.size();
    write_file(file_, head + data);
  }

  // Function f<i> gives parameter w<i>.
  void open_module_of(const std::vector<Tensor>& tensors) {
    ModuleBuilder module = builder();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto extent = static_cast<int64_t>(tensors[i].elements);
      const uint64_t bytes = tensors[i].elements * (HEDDLE_TYPE_BITS(tensors[i].wanted) / 8);
      const std::string name = "w" + std::to_string(i);
      const uint32_t parameter = module.add_parameter("model", name, {extent}, {});
      module.module.parameters[parameter]->element_type = tensors[i].wanted;
      module.module.parameters[parameter]->size_bytes = bytes;
      const uint32_t global = module.add_global("global of " + name, mf::GlobalKind::Parameter, bytes, parameter);
      mf::FunctionT& function = module.add_function("f" + std::to_string(i));
      function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(extent)}, tensors[i].wanted));
      ProgramBuilder p = program();
      p.copy(ProgramBuilder::whole(p.global(global), kRead), ProgramBuilder::whole(p.result(0), kWrite));
      function.programs.push_back(p.finish());
    }
    const std::string path = folder.path("blocks.heddle");
    ASSERT_EQ(module.write(path), "");
    opened_ = open_module(runtime.get(), path);
    ASSERT_NE(opened_, nullptr);
  }
  Outcome load(InstanceHandle* out, uint32_t flags = 0) {
    return create_instance(opened_.get(), {{"", GetParam().device}}, out, {{"model", file_}}, flags);
  }
  void expect_values(const std::vector<Tensor>& tensors, const InstanceHandle& instance) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i];
      const module::BlockType* block = module::block_type(tensor.type);
      const uint64_t width = HEDDLE_TYPE_BITS(tensor.wanted) / 8;
      std::vector<std::byte> expected(tensor.elements * width), got(expected.size());
      module::decode_blocks(*block, tensor.blocks.data(), tensor.elements / block->elements, tensor.wanted, expected.data());
      const TensorHandle result = call_for_one(find_function(instance, ("f" + std::to_string(i)).c_str()), {});
      ASSERT_NE(result, nullptr);
      HEDDLE_ASSERT_OK(heddle_tensor_read(result.get(), got.data(), got.size()));
      for (uint64_t at = 0; at < got.size(); at += width) {
        if (std::memcmp(&expected[at], &got[at], width) == 0 || (is_nan(&expected[at], tensor.wanted) && is_nan(&got[at], tensor.wanted)))
          continue;
        FAIL() << "value " << at / width << " of w" << i << ", " << tensor.type;
      }
    }
  }
  static uint64_t bytes_read(const InstanceHandle& instance) {
    return nlohmann::json::parse(instance_report(instance, "statistics"))["weights"]["bytes_read"].get<uint64_t>();
  }
  static uint64_t upload_bytes(const InstanceHandle& instance) {
    const std::string report = instance_report(instance, "statistics"), key = "\"upload_bytes\":";
    const size_t at = report.find(key);
    return at == std::string::npos ? UINT64_MAX : std::stoull(report.substr(at + key.size()));
  }
  bool has_streams() const { return std::string(GetParam().plugin).find("streams") != std::string::npos; }

  std::string more_config_, file_ = folder.path("model.gguf");
  ModuleHandle opened_;
  uint64_t size_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeBlocks, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeBlocks, BecomeTheValuesOfTheirTypes) {
  std::vector<Tensor> tensors = {{"Q8_0", 8, 32, HEDDLE_TYPE_F32},         {"Q4_K", 12, 256, HEDDLE_TYPE_F16},
                                 {"Q6_K", 14, 256 * 77, HEDDLE_TYPE_BF16}, {"Q4_0", 2, 32 * 5, HEDDLE_TYPE_F32},
                                 {"Q5_K", 13, 256 * 3, HEDDLE_TYPE_F32},  // test.streams does not decode this one
                                 {"Q8_0", 8, 32 * 999, HEDDLE_TYPE_F16}};
  write_gguf(tensors);
  open_module_of(tensors);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(load(&instance));
  expect_values(tensors, instance);
  // Q5_K is decoded by the host and copied to test.streams, everything else is not.
  EXPECT_EQ(upload_bytes(instance), has_streams() ? tensors[4].elements * 4 : 0u);
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.blocks.size();
  EXPECT_EQ(bytes_read(instance), bytes);
  expect_no_violations();
}

// A chunk has 4 MiB at least, which is no multiple of 34, 144 or 210.
TEST_P(RuntimeBlocks, FillSeveralChunks) {
  std::vector<Tensor> tensors = {{"Q8_0", 8, 32 * 330'000, HEDDLE_TYPE_F16},
                                 {"Q6_K", 14, 256 * 11, HEDDLE_TYPE_F32},
                                 {"Q4_K", 12, 256 * 70'001, HEDDLE_TYPE_F16},
                                 {"Q6_K", 14, 256 * 20'001, HEDDLE_TYPE_BF16}};
  write_gguf(tensors);
  open_module_of(tensors);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(load(&instance));
  expect_values(tensors, instance);
  expect_no_violations();
}

TEST_P(RuntimeBlocks, AFileThatEndsTooEarlyIsDataLossWithFileTensorAndOffset) {
  std::vector<Tensor> tensors = {{"Q4_0", 2, 32, HEDDLE_TYPE_F32}, {"Q8_0", 8, 32 * 400'000, HEDDLE_TYPE_F16}};
  write_gguf(tensors);
  open_module_of(tensors);
  // It shrinks between the check of its header and the read: as seldom as that is, it happens to who tries often.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Outcome outcome(nullptr);
  do {
    write_gguf(tensors);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(std::random_device()() % 3000));
      EXPECT_EQ(truncate(file_.c_str(), static_cast<off_t>(size_ / 2)), 0);
    });
    InstanceHandle instance;
    outcome = load(&instance);
    other.join();
  } while (outcome.message.find("reading tensor 'w1'") == std::string::npos && std::chrono::steady_clock::now() < end);
  EXPECT_EQ(outcome.code, HEDDLE_STATUS_DATA_LOSS) << outcome.message;
  for (const std::string& part : {std::string("model.gguf"), "bytes [" + std::to_string(tensors[1].at) + ", ", std::string("at byte ")}) {
    EXPECT_NE(outcome.message.find(part), std::string::npos) << part << " in: " << outcome.message;
  }
  write_gguf(tensors);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(load(&instance));
  expect_values(tensors, instance);
}

TEST_P(RuntimeBlocks, ReleasingAnInstanceThatLoadsCancelsTheLoad) {
  std::vector<Tensor> tensors = {{"Q8_0", 8, 32 * 800'000, HEDDLE_TYPE_F16}};
  write_gguf(tensors);
  open_module_of(tensors);
  for (int i = 0; i < 20; ++i) {
    InstanceHandle instance;
    HEDDLE_ASSERT_OK(load(&instance, HEDDLE_INSTANCE_IN_BACKGROUND));
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
  }
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(load(&instance));
  expect_values(tensors, instance);
  instance.reset();
  expect_no_violations();
}

class RuntimeBlocksPreloaded : public RuntimeBlocks {
 protected:
  RuntimeBlocksPreloaded() { more_config_ = "[param_io]\nmethod = [\"mmap\", \"preload\"]\n"; }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeBlocksPreloaded, ::testing::ValuesIn(kDrivers), driver_name);

// No configured method reads to the device: then the host does it.
TEST_P(RuntimeBlocksPreloaded, AreDecodedOnTheHostWhereNoMethodReadsThem) {
  std::vector<Tensor> tensors = {{"Q8_0", 8, 32 * 1000, HEDDLE_TYPE_F16}, {"Q4_K", 12, 256 * 1000, HEDDLE_TYPE_F32}};
  write_gguf(tensors);
  open_module_of(tensors);
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(load(&instance));
  expect_values(tensors, instance);
  EXPECT_EQ(upload_bytes(instance), has_streams() ? tensors[0].elements * 2 + tensors[1].elements * 4 : 0);
  expect_no_violations();
}

}  // namespace
}  // namespace heddle::testing
