// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// [validation] on hand-built modules: which region makes the first value that is no number, and what dumps hold. Runs on every driver.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core_drivers.h"

namespace heddle::testing {
namespace {

class RuntimeInspection : public OnDriver {
 protected:
  std::string config() const override {
    return OnDriver::config() + "[validation]\ncalls = true\n" + validation + "dump_folder = \"" + folder.path("dump") + "\"\n";
  }
  void reopen(const std::string& asked) {
    validation = asked;
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
  }
  // out = (a + b) + c, with the sum of the first two in the arena. Its regions are 'first' and 'second'.
  InstanceHandle open_adder(bool says_types = true) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    for (const char* name : {"a", "b", "c"})
      function.arguments.push_back(ModuleBuilder::type(name, {ModuleBuilder::extent(2), ModuleBuilder::extent(2)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(2), ModuleBuilder::extent(2)}));
    ProgramBuilder p = program();
    const uint32_t elements = p.literal(4), each = p.literal(64), one = p.literal(1), bytes = p.literal(16);
    const uint32_t sum = p.transient(bytes);
    const std::pair<heddle_element_type_t, std::vector<int64_t>> type{HEDDLE_TYPE_F32, {2, 2}};
    p.dispatch(
        "first sum", kAdd,
        {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead), ProgramBuilder::whole(sum, kWrite)},
        {elements, each}, {one, one, one});
    if (says_types) p.types({type, type, type});
    p.emit(mf::Op::Barrier, 0);
    p.dispatch("second", kAdd,
               {ProgramBuilder::whole(sum, kRead), ProgramBuilder::whole(p.argument(2), kRead), ProgramBuilder::whole(p.result(0), kWrite)},
               {elements, each}, {one, one, one});
    if (says_types) p.types({type, type, {HEDDLE_TYPE_F32, {-1, 2}}});
    function.programs.push_back(p.finish());
    return OnDriver::open(module);
  }
  // out = (a + b) + c, whose second region writes its sum where it reads that of the first. access: of what it writes.
  InstanceHandle open_in_place(uint32_t access = kWrite) {
    ModuleBuilder module = builder();
    mf::FunctionT& function = module.add_function("main");
    for (const char* name : {"a", "b", "c"})
      function.arguments.push_back(ModuleBuilder::type(name, {ModuleBuilder::extent(2), ModuleBuilder::extent(2)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(2), ModuleBuilder::extent(2)}));
    ProgramBuilder p = program();
    const uint32_t elements = p.literal(4), each = p.literal(64), one = p.literal(1), sum = p.transient(p.literal(16));
    const std::pair<heddle_element_type_t, std::vector<int64_t>> type{HEDDLE_TYPE_F32, {2, 2}};
    p.dispatch(
        "first sum", kAdd,
        {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead), ProgramBuilder::whole(sum, kWrite)},
        {elements, each}, {one, one, one});
    p.types({type, type, type});
    p.barrier();
    p.dispatch("in place", kAdd,
               {ProgramBuilder::whole(sum, kRead), ProgramBuilder::whole(p.argument(2), kRead), ProgramBuilder::whole(sum, access)},
               {elements, each}, {one, one, one});
    p.types({type, type, type});
    p.barrier();
    p.copy(ProgramBuilder::whole(sum, kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
    return OnDriver::open(module);
  }
  heddle_status_t* call(const InstanceHandle& instance, const std::vector<std::vector<float>>& values, std::vector<float>* out = nullptr) {
    heddle_function_t* function = find_function(instance);
    std::vector<TensorHandle> tensors;
    std::vector<heddle_tensor_t*> arguments;
    for (uint32_t i = 0; i < 3; ++i) {
      tensors.push_back(make_tensor(function, i, {2, 2}, values[i]));
      arguments.push_back(tensors.back().get());
    }
    heddle_tensor_t* result = nullptr;
    heddle_status_t* status = heddle_call(function, arguments.data(), 3, &result, 1);
    const TensorHandle owner(result);
    if (!status && out) *out = read_tensor(owner);
    return status;
  }
  std::string report() {
    heddle_text_t* text = nullptr;
    HEDDLE_EXPECT_OK(heddle_runtime_report(runtime.get(), c_string("validation"), &text));
    return text ? take_text(text) : "";
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The shape as the header writes it, and the values.
  static std::pair<std::string, std::vector<float>> npy(const std::string& path) {
    const std::string file = bytes_of(path);
    const size_t at = file.find("'shape': ");
    if (file.size() < 128 || at == std::string::npos) return {"no .npy file", {}};
    std::vector<float> values((file.size() - 128) / sizeof(float));
    std::memcpy(values.data(), file.data() + 128, values.size() * sizeof(float));
    return {file.substr(at + 9, file.find(')', at) - at - 8), values};
  }

  std::string validation = "stop_at_nan = true\n";
  static constexpr float kInf = std::numeric_limits<float>::infinity();
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeInspection, ::testing::ValuesIn(kDrivers), driver_name);

TEST_P(RuntimeInspection, StopsAtTheRegionThatMakesANan) {
  InstanceHandle instance = open_adder();
  std::vector<float> out;
  HEDDLE_EXPECT_OK(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}, &out));
  EXPECT_EQ(out, (std::vector<float>{2, 3, 4, 6}));
  // inf - inf, in the second region; infinities alone stop nothing here.
  Outcome stopped(call(instance, {{1, kInf, 3, kInf}, {1, 1, 1, 1}, {0, -kInf, 0, -kInf}}));
  EXPECT_EQ(stopped.code, HEDDLE_STATUS_ABORTED) << stopped.message;
  EXPECT_NE(stopped.message.find("in region 'second': 2 of 4 elements of its binding 2 (f32[2,2]) are NaN"), std::string::npos)
      << stopped.message;
  EXPECT_NE(stopped.message.find("element 1 [0, 1]"), std::string::npos) << stopped.message;
  Outcome first(call(instance, {{1, kInf, 3, 4}, {1, -kInf, 1, 1}, {0, 0, 0, 0}}));
  EXPECT_NE(first.message.find("in region 'first sum'"), std::string::npos) << first.message;
  // The instance goes on.
  HEDDLE_EXPECT_OK(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}, &out));
  EXPECT_EQ(out[3], 6);
  expect_no_violations();
}

TEST_P(RuntimeInspection, LetsPassWhatCameIn) {
  InstanceHandle instance = open_adder();
  std::vector<float> out;
  HEDDLE_EXPECT_OK(call(instance, {{std::nanf(""), 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 0}}, &out));
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[3], 5);
}

TEST_P(RuntimeInspection, StopsAtInfinitiesWhenAsked) {
  reopen("stop_at_inf = true\n");
  InstanceHandle instance = open_adder();
  constexpr float kLarge = std::numeric_limits<float>::max();
  HEDDLE_EXPECT_FAILS(call(instance, {{1, 2, kLarge, 4}, {1, 1, kLarge, 1}, {0, 0, 0, 0}}), HEDDLE_STATUS_ABORTED,
                      "in region 'first sum': 1 of 4 elements of its binding 2 (f32[2,2]) are infinite");
}

TEST_P(RuntimeInspection, DumpsWhatRegionsReadAndWrite) {
  reopen("dump = [\"second\", \"first\"]\n");  // a name, and the first word of one
  InstanceHandle instance = open_adder();
  std::vector<float> out;
  for (int i = 0; i < 5; ++i)
    HEDDLE_EXPECT_OK(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}, &out));  // nothing is recorded meanwhile
  EXPECT_EQ(out, (std::vector<float>{2, 3, 4, 6}));
  const std::string at = folder.path("dump") + "/000005-000";
  EXPECT_EQ(npy(at + "1-first_sum-0-in.npy"), (std::pair<std::string, std::vector<float>>{"(2, 2)", {1, 2, 3, 4}}));
  EXPECT_EQ(npy(at + "1-first_sum-2-out.npy"), (std::pair<std::string, std::vector<float>>{"(2, 2)", {2, 3, 4, 5}}));
  EXPECT_EQ(npy(at + "2-second-0-in.npy"), (std::pair<std::string, std::vector<float>>{"(2, 2)", {2, 3, 4, 5}}));
  EXPECT_EQ(npy(at + "2-second-2-out.npy"), (std::pair<std::string, std::vector<float>>{"(2, 2)", {2, 3, 4, 6}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("dump")), {}), 5 * 6);
  EXPECT_NE(instance_report(instance, "statistics").find("\"replays\": 0"), std::string::npos);
}

TEST_P(RuntimeInspection, LooksAtARegionThatWorksInPlace) {
  InstanceHandle instance = open_in_place();
  std::vector<float> out;
  HEDDLE_EXPECT_OK(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}, &out));
  EXPECT_EQ(out, (std::vector<float>{2, 3, 4, 6}));
  HEDDLE_EXPECT_FAILS(call(instance, {{1, kInf, 3, 4}, {1, 1, 1, 1}, {0, -kInf, 0, 0}}), HEDDLE_STATUS_ABORTED,
                      "in region 'in place': 1 of 4 elements of its binding 2 (f32[2,2]) are NaN; the first, a NaN, is element 1 [0, 1], "
                      "but the values that it read had none");
  reopen("dump = [\"in place\"]\n");
  instance = open_in_place();
  HEDDLE_EXPECT_OK(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}, &out));
  EXPECT_EQ(out, (std::vector<float>{2, 3, 4, 6}));
  const std::string at = folder.path("dump") + "/000001-0002-in_place-";
  EXPECT_EQ(npy(at + "0-in.npy"), (std::pair<std::string, std::vector<float>>{"(2, 2)", {2, 3, 4, 5}}));
  EXPECT_EQ(npy(at + "2-out.npy"), (std::pair<std::string, std::vector<float>>{"(2, 2)", {2, 3, 4, 6}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("dump")), {}), 3);
}

TEST_P(RuntimeInspection, TellsARegionThatWritesToWhatItOnlyReads) {
  InstanceHandle instance = open_in_place(kRead);
  HEDDLE_EXPECT_FAILS(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}), HEDDLE_STATUS_INTERNAL,
                      "in region 'in place': it wrote to byte 14 of its binding 0, which is read-only according to the module [HD-C-01]");
}

TEST_P(RuntimeInspection, SaysThatAnOlderModuleSaysNoTypes) {
  ModuleBuilder unused = builder();
  InstanceHandle instance;
  {
    ::testing::internal::CaptureStderr();
    reopen("dump = [\"*\"]\n");
    instance = open_adder(false);
    HEDDLE_EXPECT_OK(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}));
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("dumps are raw bytes"), std::string::npos);
  }
  const std::string raw = bytes_of(folder.path("dump") + "/000001-0001-first_sum-0-in.npy");
  EXPECT_NE(raw.find("'|u1', 'fortran_order': False, 'shape': (16,)"), std::string::npos);
}

TEST_P(RuntimeInspection, DumpsIntoAFolderThatCannotBeMade) {
  std::ofstream(folder.path("dump")) << "a file";
  reopen("dump = [\"*\"]\n");
  InstanceHandle instance = open_adder();
  HEDDLE_EXPECT_FAILS(call(instance, {{1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 1}}), HEDDLE_STATUS_PERMISSION_DENIED,
                      "validation.dump_folder");
}

}  // namespace
}  // namespace heddle::testing
