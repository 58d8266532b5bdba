// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocators as heddle.toml stacks them, under a whole runtime: who stands over whom, what is reported, what is said when memory ends.
#include <nlohmann/json.hpp>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

using Json = nlohmann::json;

class RuntimeMemory : public OnDriver {
 protected:
  std::string config() const override {
    const std::string name = GetParam().device;
    std::string config = OnDriver::config();
    auto device = [&](const char* alias, const char* allocator) {
      config += std::string("[device.") + alias + "]\ndriver = \"" + name.substr(0, name.find(':')) + "\"\nselect = { ordinal = 0 }\n" +
                allocator;
    };
    device("plain", "");
    device("stacked",
           "[device.stacked.allocator]\nplugin = \"heddle.limit\"\nlimit = \"1MiB\"\n"
           "over = { plugin = \"heddle.track\", over = { plugin = \"heddle.pool\", pool_initial = \"64KiB\" } }\n");
    device("pooled", "[device.pooled.allocator]\nover = { plugin = \"heddle.system\" }\n");
    device("wrong", "[device.wrong.allocator]\nplugin = \"acme.slab\"\n");
    device("adaptor", "[device.adaptor.allocator]\nplugin = \"heddle.track\"\n");
    device("spilling", "[device.spilling.allocator]\nplugin = \"heddle.pool\"\npool_limit = \"64KiB\"\non_limit = \"spill\"\n");
    device("log", "[device.log.allocator]\nplugin = \"heddle.log\"\nfile = \"/nonexistent/trace\"\n");
    return config;
  }
  heddle_status_t* open_on(const std::string& alias, InstanceHandle* out) {
    ModuleBuilder module = builder();
    add_adder(module, "main", 4);
    const std::string path = folder.path(alias + ".heddle");
    EXPECT_EQ(module.write(path), "");
    return create_instance(open_module(runtime.get(), path).get(), {{"", alias}}, out);
  }
  static Json pool_of(const InstanceHandle& instance) { return Json::parse(instance_report(instance, "statistics"))["devices"][0]["pool"]; }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeMemory, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeMemory, StacksAllocatorsAsConfigured) {
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(open_on("stacked", &instance));
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor<float>(function, 0, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(read_tensor(call_for_one(function, {a.get(), a.get()})), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  const Json pool = pool_of(instance);
  EXPECT_EQ(pool["allocator"], "heddle.limit");
  ASSERT_EQ(pool["over"].size(), 3u);
  EXPECT_EQ(pool["over"][0]["allocator"], "heddle.track");
  EXPECT_EQ(pool["over"][1]["allocator"], "heddle.pool");
  EXPECT_EQ(pool["over"][2]["allocator"], "");
  EXPECT_EQ(pool["over"][1]["bytes_reserved"], 64 << 10);
  EXPECT_EQ(pool["over"][2]["bytes_reserved"], 64 << 10);
  EXPECT_EQ(pool["requested"], 32);  // `a`: the result is gone
  EXPECT_EQ(pool["peak_requested"], 64);
  EXPECT_EQ(pool["holders"][0]["owner"], "tensors");
  EXPECT_EQ(pool["holders"][0]["requested"], 32);
  EXPECT_EQ(pool["holders"][0]["peak_requested"], 64);
}

TEST_P(RuntimeMemory, SaysWhoHoldsWhatWhenMemoryEnds) {
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(open_on("stacked", &instance));
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor<float>(function, 0, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<float> many(300000);
  const int64_t dims[] = {75000, 4};
  heddle_tensor_t* tensor = nullptr;
  HEDDLE_EXPECT_FAILS(
      heddle_tensor_from_host(function, 0, HEDDLE_TYPE_F32, dims, 2, many.data(), many.size() * 4, &tensor),
      HEDDLE_STATUS_RESOURCE_EXHAUSTED,
      "limit: allocating 1200000 bytes from 'stacked' failed: the limit of 1048576 bytes leaves 1048544; raise limit or use less "
      "[HD-M-03]\n               32 bytes in       1 block : tensors");
  EXPECT_EQ(pool_of(instance)["exhaustions"], 1);
  EXPECT_EQ(read_tensor(call_for_one(function, {a.get(), a.get()})).size(), 8u);
}

TEST_P(RuntimeMemory, PutsTheDefaultPoolOverWhatIsNamed) {
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(open_on("pooled", &instance));
  Json pool = pool_of(instance);
  EXPECT_EQ(pool["allocator"], "heddle.pool");
  EXPECT_EQ(pool["over"][0]["allocator"], "heddle.system");
  HEDDLE_ASSERT_OK(open_on("plain", &instance));
  pool = pool_of(instance);
  EXPECT_EQ(pool["allocator"], "heddle.pool");
  EXPECT_EQ(pool["over"].size(), 1u);
}

TEST_P(RuntimeMemory, AnAdaptorAloneStandsOverTheDriver) {
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(open_on("adaptor", &instance));
  heddle_function_t* function = find_function(instance);
  TensorHandle a = make_tensor<float>(function, 0, {1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(read_tensor(call_for_one(function, {a.get(), a.get()})), (std::vector<float>{2, 4, 6, 8}));
  a.reset();
  const Json pool = pool_of(instance);
  EXPECT_EQ(pool["requested"], 0);
  EXPECT_EQ(pool["bytes_reserved"], 0);
  EXPECT_EQ(pool["peak_reserved"], 32);
}

// A device that has other memory computes with it; one of a single kind runs out of it.
TEST_P(RuntimeMemory, SpillsToTheHostWhereTheDeviceReachesThat) {
  InstanceHandle instance;
  HEDDLE_ASSERT_OK(open_on("spilling", &instance));
  heddle_function_t* function = find_function(instance);
  std::vector<float> many(4 * 20000), doubled(many.size());
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i), doubled[i] = 2 * many[i];
  const int64_t dims[] = {20000, 4};
  heddle_tensor_t* tensor = nullptr;
  Outcome made(heddle_tensor_from_host(function, 0, HEDDLE_TYPE_F32, dims, 2, many.data(), many.size() * 4, &tensor));
  const bool one_kind = std::string_view(GetParam().device).starts_with("heddle.cpu");
  EXPECT_EQ(made.code, one_kind ? HEDDLE_STATUS_RESOURCE_EXHAUSTED : HEDDLE_STATUS_OK) << made.message;
  if (one_kind) return;
  TensorHandle a(tensor);
  EXPECT_EQ(read_tensor(call_for_one(function, {a.get(), a.get()})), doubled);
  const Json pool = pool_of(instance);
  EXPECT_EQ(pool["holders"][0]["owner"], "tensors, spilled to the host");
  EXPECT_EQ(pool["holders"][0]["requested"], many.size() * 4);
  EXPECT_EQ(pool["exhaustions"], 0);
  a.reset();
  EXPECT_EQ(pool_of(instance)["requested"], 0);
}

TEST_P(RuntimeMemory, RefusesADeviceWhoseAllocatorsCannotBeMade) {
  InstanceHandle instance;
  HEDDLE_EXPECT_FAILS(open_on("wrong", &instance), HEDDLE_STATUS_UNAVAILABLE, "no such allocator is installed");
  HEDDLE_EXPECT_FAILS(open_on("log", &instance), HEDDLE_STATUS_UNAVAILABLE, "log: opening /nonexistent/trace failed");
}

}  // namespace
}  // namespace heddle::testing
