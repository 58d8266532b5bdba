// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a module is said to need against what it then takes, on every driver: the figures of heddle_module_memory are those of the device's pool.
#include <nlohmann/json.hpp>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

using Json = nlohmann::json;

class RuntimeNeeds : public OnDriver {
 protected:
  // A weight that is read twice, one that only the initializer reads, a constant, state; a call with a symbolic batch and an arena of 2 * 16 bytes each.
  std::string write_module() {
    const std::vector<float> four{1, 2, 3, 4}, eight(8, 5);
    ModuleBuilder module = builder();
    const uint32_t parameter = module.add_parameter("", "w", {4}, std::as_bytes(std::span(four))),
                   packed_from = module.add_parameter("", "v", {8}, std::as_bytes(std::span(eight)));
    const uint32_t first = module.add_global("w", mf::GlobalKind::Parameter, 16, parameter),
                   again = module.add_global("w again", mf::GlobalKind::Parameter, 16, parameter),
                   source = module.add_global("v", mf::GlobalKind::Parameter, 32, packed_from, true),
                   constant = module.add_global("c", mf::GlobalKind::Constant, 16),
                   derived = module.add_global("d", mf::GlobalKind::Derived, 32), state = module.add_global("s", mf::GlobalKind::State, 24);
    module.add_global("nobody's", mf::GlobalKind::State, 1 << 20);
    module.module.globals[constant]->data = std::make_unique<mf::Range>(module.writer.add_constant(std::as_bytes(std::span(four))));
    mf::FunctionT& function = module.add_function("main");
    ModuleBuilder::add_symbol(function, "batch", 1, 64, 1);
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::symbol(0), ModuleBuilder::extent(4)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::symbol(0), ModuleBuilder::extent(4)}));
    ProgramBuilder p = program();
    const uint32_t bytes = p.arithmetic(mf::Op::Mul, p.argument_dim(0, 0), p.literal(16)), zero = p.literal(0), sixteen = p.literal(16),
                   large = p.transient(p.arithmetic(mf::Op::Mul, bytes, p.literal(2)));
    for (const uint32_t global : {first, again, constant, derived, state}) {
      p.copy({p.global(global), zero, sixteen, kRead}, {large, zero, sixteen, kWrite});
      p.barrier();
    }
    p.copy({p.argument(0), zero, bytes, kRead}, {large, zero, bytes, kWrite});
    p.barrier();
    p.copy({large, zero, bytes, kRead}, ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
    ProgramBuilder load = program();
    const uint32_t scratch = load.transient(load.literal(32));
    load.copy(ProgramBuilder::whole(load.global(source), kRead), ProgramBuilder::whole(scratch, kWrite));
    load.barrier();
    load.copy(ProgramBuilder::whole(scratch, kRead), ProgramBuilder::whole(load.global(derived), kWrite));
    module.module.initializer.push_back(load.finish());
    const std::string path = folder.path("needs.heddle");
    EXPECT_EQ(module.write(path), "");
    return path;
  }

  // calls: per call, per argument, its extents.
  heddle_status_t* ask(const ModuleHandle& module, const std::string& device, const std::vector<std::vector<std::vector<int64_t>>>& calls,
                       Json* out, const std::string& function = "") {
    std::vector<heddle_shape_t> shapes;
    for (const auto& call : calls) {
      for (const auto& dims : call) shapes.push_back({static_cast<uint32_t>(dims.size()), 0, dims.data()});
    }
    const heddle_slot_binding_t slot{c_string(""), c_string(device)};
    heddle_instance_params_t instance{};
    instance.struct_size = sizeof(instance);
    instance.slots = &slot;
    instance.slot_count = 1;
    heddle_memory_params_t params{};
    params.struct_size = sizeof(params);
    params.instance = device.empty() ? nullptr : &instance;
    params.function = c_string(function);
    params.call_count = static_cast<uint32_t>(calls.size());
    params.shapes = shapes.data();
    heddle_text_t* text = nullptr;
    heddle_status_t* status = heddle_module_memory(module.get(), &params, &text);
    if (!status) *out = Json::parse(take_text(text));
    return status;
  }
  static Json pool_of(const InstanceHandle& instance) { return Json::parse(instance_report(instance, "statistics"))["devices"][0]["pool"]; }
  static uint64_t held_by(const Json& pool, const std::string& owner) {
    for (const Json& holder : pool["holders"]) {
      if (holder["owner"] == owner) return holder["requested"];
    }
    return 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeNeeds, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeNeeds, AreWhatThePoolIsAskedFor) {
  const ModuleHandle module = open_module(runtime.get(), write_module());
  for (const int64_t batch : {1, 3, 64}) {
    SCOPED_TRACE(batch);
    Json needs;
    HEDDLE_ASSERT_OK(ask(module, GetParam().device, {{{batch, 4}}}, &needs));
    EXPECT_EQ(needs["function"], "main");
    EXPECT_EQ(needs["bound"], true);
    ASSERT_EQ(needs["programs"].size(), 1u);
    const Json place = needs["programs"][0]["places"][0], call = needs["programs"][0]["calls"][0];
    EXPECT_EQ(call["arguments"][0], "f32[" + std::to_string(batch) + ",4]");
    EXPECT_EQ(call["not_counted"], Json::array());
    const Json bytes = call["places"][0];
    EXPECT_EQ(place["parameters"], 16) << "read once, whoever names it";
    EXPECT_EQ(place["constants"], 16);
    EXPECT_EQ(place["derived"], 32);
    EXPECT_EQ(place["weights"], 64);
    EXPECT_EQ(place["state"], 24);

    // A runtime of its own: peaks are those since its device was opened.
    const RuntimeHandle fresh = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
    const ModuleHandle opened = open_module(fresh.get(), folder.path("needs.heddle"));
    InstanceHandle instance;
    HEDDLE_ASSERT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &instance));
    Json pool = pool_of(instance);
    EXPECT_EQ(pool["requested"], place["weights"].get<uint64_t>() + place["state"].get<uint64_t>());
    EXPECT_EQ(pool["peak_requested"], place["peak_at_load"]);
    heddle_function_t* function = find_function(instance);
    const TensorHandle a = make_tensor<float>(function, 0, {batch, 4}, std::vector<float>(static_cast<size_t>(batch) * 4, 1));
    const TensorHandle result = call_for_one(function, {a.get()});
    pool = pool_of(instance);
    EXPECT_EQ(held_by(pool, "weights"), place["parameters"]);
    EXPECT_EQ(held_by(pool, "constants and state"),
              place["constants"].get<uint64_t>() + place["derived"].get<uint64_t>() + place["state"].get<uint64_t>());
    EXPECT_EQ(held_by(pool, "intermediate values"), bytes["arena"]);
    EXPECT_EQ(held_by(pool, "tensors"), bytes["arguments"].get<uint64_t>() + bytes["results"].get<uint64_t>());
    EXPECT_EQ(pool["requested"], bytes["total"]);
    EXPECT_EQ(pool["peak_requested"], bytes["peak"]);
  }
}

TEST_P(RuntimeNeeds, AreSaidOfEachSlotWithoutADevice) {
  const ModuleHandle module = open_module(runtime.get(), write_module());
  Json unbound, bound;
  HEDDLE_ASSERT_OK(ask(module, "", {{{1, 4}}, {{64, 4}}}, &unbound));
  HEDDLE_ASSERT_OK(ask(module, GetParam().device, {{{1, 4}}, {{64, 4}}}, &bound));
  EXPECT_EQ(unbound["bound"], false);
  EXPECT_EQ(unbound["programs"][0]["families"], Json::array({GetParam().family}));
  EXPECT_EQ(unbound["programs"][0]["places"][0]["slots"], Json::array({""}));
  EXPECT_EQ(unbound["programs"][0]["places"][0]["weights"], bound["programs"][0]["places"][0]["weights"]);
  ASSERT_EQ(unbound["programs"][0]["calls"].size(), 2u);
  EXPECT_EQ(unbound["programs"][0]["calls"], bound["programs"][0]["calls"]);
  HEDDLE_ASSERT_OK(ask(module, "", {}, &unbound));
  EXPECT_EQ(unbound["programs"][0]["calls"], Json::array()) << "nobody said how large";
}

TEST_P(RuntimeNeeds, RefuseWhatTheFunctionDoesNotTake) {
  const ModuleHandle module = open_module(runtime.get(), write_module());
  Json needs;
  HEDDLE_EXPECT_FAILS(ask(module, "", {{{65, 4}}}, &needs), HEDDLE_STATUS_INVALID_ARGUMENT,
                      "dimension 0 ('batch') is 65 and must be at most 64 [HD-F-01]");
  HEDDLE_EXPECT_FAILS(ask(module, "", {{{1, 5}}}, &needs), HEDDLE_STATUS_INVALID_ARGUMENT, "dimension 1 is 5 and must be 4");
  HEDDLE_EXPECT_FAILS(ask(module, "", {{{4}}}, &needs), HEDDLE_STATUS_INVALID_ARGUMENT, "input 'a' expects f32[batch,4]");
  HEDDLE_EXPECT_FAILS(ask(module, "", {{std::vector<int64_t>(HEDDLE_MAX_RANK + 1, 1)}}, &needs), HEDDLE_STATUS_INVALID_ARGUMENT, "rank 17");
  HEDDLE_EXPECT_FAILS(ask(module, "", {}, &needs, "other"), HEDDLE_STATUS_NOT_FOUND, "it has 'main'");
  HEDDLE_EXPECT_FAILS(ask(module, "nowhere", {}, &needs), HEDDLE_STATUS_NOT_FOUND, "nowhere");
  heddle_text_t* text = nullptr;
  heddle_memory_params_t params{};
  params.struct_size = sizeof(params);
  params.call_count = 1;
  HEDDLE_EXPECT_FAILS(heddle_module_memory(module.get(), &params, &text), HEDDLE_STATUS_INVALID_ARGUMENT, "shapes is NULL");
  HEDDLE_EXPECT_FAILS(heddle_module_memory(nullptr, nullptr, &text), HEDDLE_STATUS_INVALID_ARGUMENT, "module is NULL");
}

// Neither parameters nor code are looked at: the file of the one is not even named, the other is no code.
TEST_P(RuntimeNeeds, LoadNothing) {
  ModuleBuilder module(GetParam().family);
  const std::string rubbish = folder.path("rubbish.so");
  write_file(rubbish, "no code at all");
  module.add_kernels(rubbish);
  add_adder(module, "main", 4);
  const uint32_t parameter = module.add_parameter("model", "bias", {4}, {});
  mf::FunctionT& function = module.add_function("biased");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
  ProgramBuilder p = program();
  p.copy(ProgramBuilder::whole(p.global(module.add_global("bias", mf::GlobalKind::Parameter, 16, parameter)), kRead),
         ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  const std::string path = folder.path("rubbish.heddle");
  ASSERT_EQ(module.write(path), "");
  const ModuleHandle opened = open_module(runtime.get(), path);
  InstanceHandle instance;
  EXPECT_FALSE(Outcome(create_instance(opened.get(), {{"", GetParam().device}}, &instance)).ok());
  Json needs;
  HEDDLE_ASSERT_OK(ask(opened, GetParam().device, {{{2, 4}, {2, 4}}}, &needs, "main"));
  EXPECT_EQ(needs["programs"][0]["places"][0]["parameters"], 16);
  EXPECT_EQ(needs["programs"][0]["calls"][0]["places"][0]["total"], 16 + 3 * 32);
  HEDDLE_ASSERT_OK(ask(opened, GetParam().device, {}, &needs, "biased"));
  EXPECT_EQ(needs["programs"][0]["calls"].size(), 1u) << "its extents are always the same";
}

TEST_P(RuntimeNeeds, NameWhatNobodyCanKnowBefore) {
  ModuleBuilder module = builder();
  mf::FunctionT& function = module.add_function("main");
  function.arguments.push_back(ModuleBuilder::type("in", {ModuleBuilder::extent(2)}, HEDDLE_TYPE_I64));
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::unknown()}, HEDDLE_TYPE_I64));
  ProgramBuilder p = program();
  const uint32_t zero = p.literal(0), eight = p.literal(8), copy = p.transient(p.literal(16)), length = p.reg();
  p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(copy, kWrite));
  p.barrier();
  p.emit(mf::Op::ReadScalar, length, copy, zero);
  p.emit(mf::Op::ResultDim, 0, 0, length);
  const uint32_t later = p.transient(p.arithmetic(mf::Op::Mul, length, eight));
  p.fill(ProgramBuilder::whole(later, kWrite), 9, 8);
  p.barrier();
  p.copy(ProgramBuilder::whole(later, kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  const std::string path = folder.path("scalar.heddle");
  ASSERT_EQ(module.write(path), "");
  Json needs;
  HEDDLE_ASSERT_OK(ask(open_module(runtime.get(), path), GetParam().device, {{{2}}}, &needs));
  const Json call = needs["programs"][0]["calls"][0];
  EXPECT_EQ(call["places"][0]["arena"], 16);
  EXPECT_EQ(call["places"][0]["results"], 0);
  EXPECT_EQ(call["not_counted"], Json::array({"everything after the first extent that is computed while it runs"}));
}

}  // namespace
}  // namespace heddle::testing
