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
    device("tight", "[device.tight.allocator]\nplugin = \"heddle.limit\"\nlimit = \"1MiB\"\nover = { plugin = \"heddle.system\" }\n");
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
  // A function whose arena has 1,024 bytes for each of a batch, its argument 16, and its result 4 * `width`; 1 MiB is all there is.
  InstanceHandle open_tight(int64_t width) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    ModuleBuilder::add_symbol(function, "batch", 1, 1 << 20, 1);
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::symbol(0), ModuleBuilder::extent(4)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::symbol(0), ModuleBuilder::extent(width)}));
    ProgramBuilder p = program();
    const uint32_t batch = p.argument_dim(0, 0), zero = p.literal(0), given = p.arithmetic(mf::Op::Mul, batch, p.literal(16)),
                   made = p.arithmetic(mf::Op::Mul, batch, p.literal(4 * width)),
                   large = p.transient(p.arithmetic(mf::Op::Mul, batch, p.literal(1024)));
    p.copy({p.argument(0), zero, given, kRead}, {large, zero, given, kWrite});
    p.barrier();
    p.copy({large, zero, made, kRead}, ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
    const std::string path = folder.path("tight.heddle");
    EXPECT_EQ(module.write(path), "");
    InstanceHandle instance;
    HEDDLE_EXPECT_OK(create_instance(open_module(runtime.get(), path).get(), {{"", "tight"}}, &instance));
    return instance;
  }
  // A call or a start of one, whose result goes when it is over.
  static heddle_status_t* call_tight(const InstanceHandle& instance, int64_t batch, bool starts) {
    heddle_function_t* function = find_function(instance);
    const std::vector<float> values(static_cast<size_t>(batch) * 4, 1);
    const TensorHandle a = make_tensor<float>(function, 0, {batch, 4}, values);
    heddle_tensor_t *argument = a.get(), *out = nullptr;
    heddle_call_t* call = nullptr;
    heddle_status_t* status =
        starts ? heddle_call_start(function, nullptr, &argument, 1, &out, 1, &call) : heddle_call(function, &argument, 1, &out, 1);
    const TensorHandle result(out);
    const CallHandle started(call);
    if (!status && starts) status = heddle_call_wait(call, HEDDLE_TIMEOUT_INFINITE);
    if (status) return status;
    EXPECT_EQ(read_tensor<float>(result)[0], 1);
    return nullptr;
  }
  static uint64_t arena_of(const InstanceHandle& instance) { return Json::parse(instance_report(instance, "statistics"))["arena_bytes"]; }
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

TEST_P(RuntimeMemory, ACallThatFitsSucceedsAfterOneThatDidNot) {
  for (const bool starts : {false, true}) {
    const InstanceHandle instance = open_tight(1);
    ASSERT_NE(instance, nullptr);
    HEDDLE_EXPECT_FAILS(call_tight(instance, 1100, starts), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the limit of 1048576 bytes leaves");
    for (int i = 0; i < 3; ++i) {
      HEDDLE_EXPECT_OK(call_tight(instance, 1000, starts));
      EXPECT_EQ(arena_of(instance), 1000 * 1024);
    }
    HEDDLE_EXPECT_FAILS(call_tight(instance, 1100, starts), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "the limit of 1048576 bytes leaves");
    HEDDLE_EXPECT_OK(call_tight(instance, 1000, starts));
  }
}

// 600 of them are given room for 640 where there is some.
TEST_P(RuntimeMemory, WhatHasGrownGetsNoMoreThanItNeedsWhereMemoryIsShort) {
  for (const bool starts : {false, true}) {
    const InstanceHandle narrow = open_tight(1);
    ASSERT_NE(narrow, nullptr);
    HEDDLE_EXPECT_OK(call_tight(narrow, 500, starts));
    HEDDLE_EXPECT_OK(call_tight(narrow, 600, starts));
    EXPECT_EQ(arena_of(narrow), 640 * 1024) << "there is no memory for both arenas";
    HEDDLE_EXPECT_OK(call_tight(narrow, 1000, starts));  // with room for 1,024 the arena would be 1 MiB, and nothing left for the argument
    EXPECT_EQ(arena_of(narrow), 1000 * 1024);
  }
}

TEST_P(RuntimeMemory, AnArenaLeavesRoomForResults) {
  for (const bool starts : {false, true}) {
    const InstanceHandle wide = open_tight(160);
    ASSERT_NE(wide, nullptr);
    HEDDLE_EXPECT_OK(call_tight(wide, 500, starts));
    for (int i = 0; i < 3; ++i) {
      // 614,400 bytes of intermediate values, 9,600 of the argument and 384,000 of the result are 40,576 less than there are; with room for 640 of
      // the batch they would be 384 more.
      HEDDLE_EXPECT_OK(call_tight(wide, 600, starts));
      EXPECT_EQ(arena_of(wide), 600 * 1024);
    }
    HEDDLE_EXPECT_FAILS(call_tight(wide, 630, starts), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "for result 'out'");
    HEDDLE_EXPECT_OK(call_tight(wide, 600, starts));
  }
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
