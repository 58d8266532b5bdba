// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runtime.h answers to wrong calls, failing kernels and programs that ask for the impossible, on every driver.
#include <mutex>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

class RuntimeErrors : public OnDriver {
 protected:
  heddle_status_t* call(heddle_function_t* function, const std::vector<heddle_tensor_t*>& arguments, uint32_t results = 1) {
    std::vector<heddle_tensor_t*> out(results, nullptr);
    heddle_status_t* status = heddle_call(function, arguments.data(), static_cast<uint32_t>(arguments.size()), out.data(), results);
    for (heddle_tensor_t* tensor : out) {
      EXPECT_EQ(tensor == nullptr, status != nullptr) << "results are there exactly when the call went well";
      heddle_tensor_release(tensor);
    }
    return status;
  }

  // A function without arguments whose program is what `write` emits; its one result is 8 x i64.
  template <typename Write>
  InstanceHandle open_program(Write write) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(8)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    write(p);
    function.programs.push_back(p.finish());
    return open(module);
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeErrors, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeErrors, RefusesATensorThatIsBothReadAndWritten) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 8);
  mf::FunctionT& twice = module.add_function("twice");
  for (const char* name : {"first", "second"}) twice.results.push_back(ModuleBuilder::type(name, {ModuleBuilder::extent(8)}));
  ProgramBuilder p = program();
  for (uint32_t i = 0; i < 2; ++i) p.fill(ProgramBuilder::whole(p.result(i), kWrite), 0, 4);
  twice.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t *add = find_function(instance, "main"), *both = find_function(instance, "twice");
  TensorHandle a = make_tensor(add, 0, {1, 8}, std::vector<float>(8, 1)), b = make_tensor(add, 1, {1, 8}, std::vector<float>(8, 2));
  heddle_tensor_t *arguments[] = {a.get(), b.get()}, *result[] = {b.get()};
  HEDDLE_EXPECT_FAILS(heddle_call(add, arguments, 2, result, 1), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "result 'out' is to be written to the tensor that is also argument 'b'");
  EXPECT_EQ(read_tensor(b), std::vector<float>(8, 2)) << "nothing was written";
  heddle_tensor_t* made[] = {nullptr, nullptr};
  HEDDLE_ASSERT_OK(heddle_call(both, nullptr, 0, made, 2));
  const TensorHandle first(made[0]), second(made[1]);
  heddle_tensor_t* one[] = {first.get(), first.get()};
  HEDDLE_EXPECT_FAILS(heddle_call(both, nullptr, 0, one, 2), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "result 'second' is to be written to the tensor");
  HEDDLE_EXPECT_OK(heddle_call(both, nullptr, 0, made, 2));
}

TEST_P(RuntimeErrors, NamesTheInputWhenAShapeIsWrong) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 8, 1, 64, 2);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  auto tensor = [&](std::vector<int64_t> dims) {
    size_t count = 1;
    for (int64_t dim : dims) count *= static_cast<size_t>(dim);
    return make_tensor(function, 0, dims, std::vector<float>(count));
  };
  TensorHandle good = tensor({2, 8}), wide = tensor({2, 9}), flat = tensor({16}), other = tensor({4, 8}), odd = tensor({3, 8}),
               many = tensor({66, 8});
  TensorHandle integers = make_tensor<int32_t>(function, 0, {2, 8}, std::vector<int32_t>(16), HEDDLE_TYPE_I32);
  HEDDLE_EXPECT_OK(call(function, {good.get(), good.get()}));
  HEDDLE_EXPECT_FAILS(call(function, {good.get(), wide.get()}), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "heddle: calling 'main' failed: input 'b' expects f32[batch,8], got f32[2,9]: dimension 1 is 9 and must be 8");
  HEDDLE_EXPECT_FAILS(call(function, {flat.get(), good.get()}), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "input 'a' expects f32[batch,8], got f32[16]");
  HEDDLE_EXPECT_FAILS(call(function, {good.get(), integers.get()}), HEDDLE_STATUS_INVALID_ARGUMENT, "got i32[2,8]");
  HEDDLE_EXPECT_FAILS(call(function, {good.get(), other.get()}), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "dimension 0 ('batch') is 4 and must be 2, as dimension 0 of input 'a'");
  HEDDLE_EXPECT_FAILS(call(function, {odd.get(), odd.get()}), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "dimension 0 ('batch') is 3 and must be a multiple of 2");
  HEDDLE_EXPECT_FAILS(call(function, {many.get(), many.get()}), HEDDLE_STATUS_INVALID_ARGUMENT, "must be at most 64");
  HEDDLE_EXPECT_FAILS(call(function, {good.get()}), HEDDLE_STATUS_INVALID_ARGUMENT, "it takes 2 arguments and returns 1 results, got 1");
  HEDDLE_EXPECT_FAILS(call(function, {good.get(), nullptr}), HEDDLE_STATUS_INVALID_ARGUMENT, "input 'b' is missing");
  HEDDLE_EXPECT_OK(call(function, {good.get(), good.get()}));
  heddle_tensor_t* result = wide.get();
  heddle_tensor_t* arguments[] = {good.get(), good.get()};
  HEDDLE_EXPECT_FAILS(heddle_call(function, arguments, 2, &result, 1), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "result 'out' is f32[2,8], got a tensor of f32[2,9]");
}

TEST_P(RuntimeErrors, RefusesTensorsWhoseBytesDoNotFit) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 8);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = find_function(instance);
  heddle_tensor_t* tensor = nullptr;
  int64_t dims[] = {2, 8}, huge[] = {INT64_MAX, 8}, negative[] = {-2, 8};
  float values[16] = {};
  auto make = [&](uint32_t argument, uint32_t type, const int64_t* extents, uint32_t rank, uint64_t bytes) {
    return heddle_tensor_from_host(function, argument, type, extents, rank, values, bytes, &tensor);
  };
  HEDDLE_EXPECT_FAILS(make(0, HEDDLE_TYPE_F32, dims, 2, 60), HEDDLE_STATUS_INVALID_ARGUMENT, "it has 64 bytes, got 60");
  HEDDLE_EXPECT_FAILS(make(0, HEDDLE_TYPE_F32, huge, 2, 64), HEDDLE_STATUS_INVALID_ARGUMENT, "too many");
  HEDDLE_EXPECT_FAILS(make(0, HEDDLE_TYPE_F32, negative, 2, 64), HEDDLE_STATUS_INVALID_ARGUMENT, "got 64");
  HEDDLE_EXPECT_FAILS(make(0, 0x1234, dims, 2, 64), HEDDLE_STATUS_INVALID_ARGUMENT, "element type 0x1234");
  HEDDLE_EXPECT_FAILS(make(0, HEDDLE_TYPE_F32, dims, 17, 64), HEDDLE_STATUS_INVALID_ARGUMENT, "rank 17");
  HEDDLE_EXPECT_FAILS(make(2, HEDDLE_TYPE_F32, dims, 2, 64), HEDDLE_STATUS_OUT_OF_RANGE, "it has 2");
  TensorHandle fine = make_tensor(function, 0, {2, 8}, std::vector<float>(16));
  HEDDLE_EXPECT_FAILS(heddle_tensor_read(fine.get(), values, 32), HEDDLE_STATUS_INVALID_ARGUMENT, "64 bytes into 32 bytes");
  HEDDLE_EXPECT_FAILS(heddle_tensor_write(fine.get(), values, 32), HEDDLE_STATUS_INVALID_ARGUMENT, "32 bytes to a tensor of 64");
}

TEST_P(RuntimeErrors, NamesTheRegionOfAFailingKernelAndGoesOn) {
  ModuleBuilder module = builder();
  add_adder(module, "add", 4);
  mf::FunctionT& failing = module.add_function("breaks");
  failing.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  uint32_t one = p.literal(1), code = p.literal(42);
  p.fill(ProgramBuilder::whole(p.result(0), kWrite), 0, 8);
  p.barrier();
  p.dispatch("first region", kEmpty, {}, {}, {one, one, one});
  p.barrier();
  p.dispatch("attention of layer 3", kFailing, {}, {code}, {one, one, one});
  failing.programs.push_back(p.finish());
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* breaks = find_function(instance, "breaks");
  heddle_function_t* add = find_function(instance, "add");
  TensorHandle a = make_tensor(add, 0, {1, 4}, std::vector<float>{1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) {
    HEDDLE_EXPECT_FAILS(call(breaks, {}), HEDDLE_STATUS_INTERNAL, "calling 'breaks' failed: in region 'attention of layer 3'");
    EXPECT_EQ(read_tensor(call_for_one(add, {a.get(), a.get()})), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST_P(RuntimeErrors, ChecksTheRangesOfEveryBinding) {
  for (int64_t offset : {57, 64, -8}) {
    InstanceHandle instance = open_program([&](ProgramBuilder& p) {
      uint32_t at = p.literal(offset), eight = p.literal(8);
      p.fill({p.result(0), at, eight, kWrite}, 1, 1);
    });
    ASSERT_NE(instance, nullptr);
    HEDDLE_EXPECT_FAILS(call(find_function(instance), {}), HEDDLE_STATUS_OUT_OF_RANGE, "heddle: calling 'main' failed: ");
  }
  InstanceHandle outside = open_program([&](ProgramBuilder& p) {
    uint32_t at = p.literal(INT64_MAX), one = p.literal(1), size = p.literal(16);
    uint32_t scratch = p.transient(size);
    p.dispatch("step", kChainStep, {{scratch, at, kWhole, kReadWrite}}, {one}, {one, one, one});
  });
  HEDDLE_EXPECT_FAILS(call(find_function(outside), {}), HEDDLE_STATUS_OUT_OF_RANGE, "region 'step'");
  InstanceHandle uneven = open_program([&](ProgramBuilder& p) {
    uint32_t four = p.literal(4), size = p.literal(16);
    uint32_t scratch = p.transient(size);
    p.copy({scratch, kWhole, four, kRead}, ProgramBuilder::whole(p.result(0), kWrite));
  });
  HEDDLE_EXPECT_FAILS(call(find_function(uneven), {}), HEDDLE_STATUS_INVALID_ARGUMENT, "copies 4 bytes to 64");
}

TEST_P(RuntimeErrors, RefusesImpossibleSizesWithoutATry) {
  InstanceHandle negative =
      open_program([&](ProgramBuilder& p) { p.fill(ProgramBuilder::whole(p.transient(p.literal(-1)), kWrite), 1, 1); });
  HEDDLE_EXPECT_FAILS(call(find_function(negative), {}), HEDDLE_STATUS_OUT_OF_RANGE, "-1 bytes");
  InstanceHandle huge =
      open_program([&](ProgramBuilder& p) { p.fill(ProgramBuilder::whole(p.transient(p.literal(INT64_MAX)), kWrite), 1, 1); });
  HEDDLE_EXPECT_FAILS(call(find_function(huge), {}), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "intermediate values");
  InstanceHandle large =
      open_program([&](ProgramBuilder& p) { p.fill(ProgramBuilder::whole(p.transient(p.literal(int64_t{1} << 47)), kWrite), 1, 1); });
  HEDDLE_EXPECT_FAILS(call(find_function(large), {}), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "140737488355328");
}

TEST_P(RuntimeErrors, EndsHostileLoops) {
  InstanceHandle endless = open_program([](ProgramBuilder& p) { p.emit(mf::Op::Branch, 0); });
  HEDDLE_EXPECT_FAILS(call(find_function(endless), {}), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "instructions");
  InstanceHandle flood = open_program([](ProgramBuilder& p) {
    uint32_t one = p.literal(1);
    uint32_t loop = p.dispatch("flood", kEmpty, {}, {}, {one, one, one});
    p.emit(mf::Op::Branch, loop);
  });
  HEDDLE_EXPECT_FAILS(call(find_function(flood), {}), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "commands");
  // Values whose sizes are computed between pieces have places of their own.
  InstanceHandle many = open_program([](ProgramBuilder& p) {
    uint32_t size = p.literal(8), zero = p.literal(0), scalar = p.reg();
    for (int i = 0; i < 1100; ++i) {
      uint32_t value = p.transient(size);
      p.fill(ProgramBuilder::whole(value, kWrite), 1, 8);
      p.barrier();
      p.emit(mf::Op::ReadScalar, scalar, value, zero);
      p.emit(mf::Op::Add, size, size, zero);
    }
  });
  HEDDLE_EXPECT_FAILS(call(find_function(many), {}), HEDDLE_STATUS_RESOURCE_EXHAUSTED, "1025 times between reads of scalars");
}

// 2,000 steps, above the number of places that a call may have.
TEST_P(RuntimeErrors, GivesAValueThatGrowsFewPlaces) {
  InstanceHandle growing = open_program([](ProgramBuilder& p) {
    uint32_t size = p.literal(8), eight = p.literal(8), zero = p.literal(0), limit = p.literal(16000), scalar = p.reg(), goes_on = p.reg();
    uint32_t value = p.transient(size);
    uint32_t loop = p.emit(mf::Op::Add, size, size, eight);
    p.fill(ProgramBuilder::whole(value, kWrite), 1, 8);
    p.barrier();
    p.emit(mf::Op::ReadScalar, scalar, value, zero);
    p.emit(mf::Op::LessEqual, goes_on, size, limit);
    p.emit(mf::Op::BranchIf, loop, goes_on);
  });
  HEDDLE_EXPECT_OK(call(find_function(growing), {}));
}

TEST_P(RuntimeErrors, SaysWhatACheckSays) {
  InstanceHandle instance = open_program([](ProgramBuilder& p) { p.check(p.literal(0), "image: extent 2 must be at most 224"); });
  HEDDLE_EXPECT_FAILS(call(find_function(instance), {}), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "heddle: calling 'main' failed: image: extent 2 must be at most 224");
}

TEST_P(RuntimeErrors, NamesFunctionsSlotsAndDevicesThatAreNotThere) {
  ModuleBuilder module = builder();
  add_adder(module, "main", 4);
  InstanceHandle instance = open(module);
  ASSERT_NE(instance, nullptr);
  heddle_function_t* function = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_instance_function(instance.get(), c_string("mian"), &function), HEDDLE_STATUS_NOT_FOUND, "it has 'main'");
  ModuleHandle opened = open_module(runtime.get(), folder.path("module1.heddle"));
  InstanceHandle other;
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"@b", GetParam().device}}, &other), HEDDLE_STATUS_NOT_FOUND, "no such slot");
  std::string device = GetParam().device, absent = device.substr(0, device.size() - 1) + "77";
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", absent}}, &other), HEDDLE_STATUS_NOT_FOUND, absent);
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", device}, {"", absent}}, &other), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "binding slot default failed: it is bound twice");
}

TEST_P(RuntimeErrors, SaysWhyNoVariantFits) {
  ModuleBuilder module(GetParam().family);
  module.add_kernels(HEDDLE_TEST_KERNELS, "x86-64-v99");
  add_adder(module, "main", 4);
  std::string path = folder.path("future.heddle");
  ASSERT_EQ(module.write(path), "");
  ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance), HEDDLE_STATUS_UNAVAILABLE,
                      "has no variant that it runs (it has x86_64-elf/1 x86-64-v99)");

  ModuleBuilder foreign("martian");
  foreign.add_kernels(HEDDLE_TEST_KERNELS);
  mf::FunctionT& function = foreign.add_function("main");
  ProgramBuilder p({"martian"});
  function.programs.push_back(p.finish());
  std::string foreign_path = folder.path("foreign.heddle");
  ASSERT_EQ(foreign.write(foreign_path), "");
  opened = open_module(runtime.get(), foreign_path);
  HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance), HEDDLE_STATUS_UNAVAILABLE,
                      "the module is compiled for: martian");
}

TEST_P(RuntimeErrors, LoadsTheKernelsThatItsProgramsDispatchAndNoOthers) {
  for (const auto& [missing, is_needed] : {std::pair{kCount, false}, {kSlowly, false}, {kAdd, true}, {kEmpty, true}}) {
    ModuleBuilder module = builder();
    module.module.executables[0]->entries[missing]->name = "not_there";
    add_adder(module, "main", 4);
    mf::FunctionT& other = module.add_function("other");
    ProgramBuilder p = program();
    uint32_t one = p.literal(1);
    p.dispatch("nothing", kEmpty, {}, {}, {one, one, one});
    other.programs.push_back(p.finish());
    std::string path = folder.path("missing" + std::to_string(missing) + ".heddle");
    ASSERT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    InstanceHandle instance;
    if (is_needed) {
      HEDDLE_EXPECT_FAILS(create_instance(opened.get(), {{"", GetParam().device}}, &instance), HEDDLE_STATUS_NOT_FOUND, "not_there");
      continue;
    }
    HEDDLE_EXPECT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &instance));
    heddle_function_t* add = find_function(instance, "main");
    TensorHandle a = make_tensor(add, 0, {1, 4}, std::vector<float>{1, 2, 3, 4});
    EXPECT_EQ(read_tensor(call_for_one(add, {a.get(), a.get()})), (std::vector<float>{2, 4, 6, 8}));
    HEDDLE_EXPECT_OK(heddle_call(find_function(instance, "other"), nullptr, 0, nullptr, 0));
  }
}

TEST_P(RuntimeErrors, PassesItsLogToTheApplication) {
  struct Lines {
    std::mutex mutex;
    std::vector<std::string> all;
  } lines;
  heddle_runtime_params_t params{};
  params.struct_size = sizeof(params);
  params.flags = HEDDLE_RUNTIME_NO_CONFIG;
  params.config_text = c_string("[log]\nlevel = \"debug\"\n[log.components]\nsubmit = \"off\"\n");
  params.log = [](void* context, uint32_t level, heddle_string_t component, heddle_string_t message) {
    auto* to = static_cast<Lines*>(context);
    std::lock_guard lock(to->mutex);
    to->all.push_back(std::to_string(level) + " " + std::string(component.data, component.size) + " " +
                      std::string(message.data, message.size));
  };
  params.log_context = &lines;
  const heddle_string_t paths[] = {c_string(HEDDLE_TEST_PLUGINS), c_string(HEDDLE_TEST_DRIVERS)};
  params.plugin_paths = paths;
  params.plugin_path_count = 2;
  ::testing::internal::CaptureStderr();
  heddle_runtime_t* made = nullptr;
  HEDDLE_ASSERT_OK(heddle_runtime_create(&params, &made));
  heddle_text_t* report = nullptr;
  HEDDLE_EXPECT_OK(heddle_runtime_report(made, c_string("devices"), &report));
  heddle_text_free(report);
  heddle_runtime_release(made);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(lines.all.empty());
  for (const std::string& line : lines.all) EXPECT_TRUE(line[0] >= '1' && line[0] <= '4' && line.find(" submit ") != 1) << line;
}

TEST_P(RuntimeErrors, TakesNoNullAndNoForeignStructTail) {
  heddle_tensor_t* none = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_call(nullptr, nullptr, 0, nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "function is NULL");
  HEDDLE_EXPECT_FAILS(heddle_tensor_read(none, nullptr, 0), HEDDLE_STATUS_INVALID_ARGUMENT, "tensor is NULL");
  heddle_tensor_release(nullptr);
  heddle_instance_release(nullptr);
  struct {
    heddle_runtime_params_t params;
    uint64_t tail;
  } newer{};
  newer.params.struct_size = sizeof(newer);
  newer.params.flags = HEDDLE_RUNTIME_NO_CONFIG;
  heddle_runtime_t* other = nullptr;
  HEDDLE_EXPECT_OK(heddle_runtime_create(&newer.params, &other));
  heddle_runtime_release(other);
  newer.tail = 1;
  HEDDLE_EXPECT_FAILS(heddle_runtime_create(&newer.params, &other), HEDDLE_STATUS_INVALID_ARGUMENT, "HD-E-04");
  heddle_module_t* module = nullptr;
  HEDDLE_EXPECT_FAILS(heddle_module_open(runtime.get(), c_string("/no/such.heddle"), nullptr, &module), HEDDLE_STATUS_NOT_FOUND,
                      "/no/such.heddle");
}

}  // namespace
}  // namespace heddle::testing
