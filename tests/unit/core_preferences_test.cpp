// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// [[prefer]] in modules that are built by hand: which rule is for which region, what runs it, what is passed over and what is said when nothing is
// left. The operation that stands beside the kernel adds 100 more than the kernel does, against the contract, so that results say which of them ran.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core_drivers.h"
#include "heddle/ext/library.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Sum {
  bool beside_kernel = true;
  int64_t batch = 2;              // -1: a symbol
  std::string other_target = {};  // of a second variant; the first is for x86-64-v3
  bool reads_derived = false;
};

class Preferences : public ::testing::Test {
 protected:
  void open(const std::string& rules,
            const std::vector<std::string>& folders = {HEDDLE_TEST_LIBRARIES "/plugins.d", HEDDLE_TEST_LIBRARIES "/other.d"}) {
    std::vector<std::string> paths = folders;
    paths.insert(paths.end(), {HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS});
    runtime_ = open_runtime(paths, std::string(kInProcess) + rules);
    ASSERT_NE(runtime_, nullptr);
  }

  // out = a + b, width 3.
  std::string write(const Sum& wanted = {}) {
    ModuleBuilder module("cpu");
    module.add_kernels(HEDDLE_TEST_KERNELS);
    if (!wanted.other_target.empty()) {
      mf::ExecutableT& executable = *module.module.executables[0];
      executable.variants.push_back(std::make_unique<mf::VariantT>(*executable.variants[0]));
      executable.variants[1]->target = wanted.other_target;
    }
    mf::FunctionT& function = module.add_function("main");
    const bool symbolic = wanted.batch < 0;
    if (symbolic) ModuleBuilder::add_symbol(function, "batch", 1, INT64_MAX, 1);
    const std::vector<mf::Dim> dims{symbolic ? ModuleBuilder::symbol(0) : ModuleBuilder::extent(wanted.batch), ModuleBuilder::extent(3)};
    function.arguments.push_back(ModuleBuilder::type("a", dims));
    function.arguments.push_back(ModuleBuilder::type("b", dims));
    function.results.push_back(ModuleBuilder::type("out", dims));
    if (wanted.reads_derived) {
      const uint32_t derived = module.add_global("derived.0", mf::GlobalKind::Derived, 24);
      ProgramBuilder init({"cpu"});
      init.fill(ProgramBuilder::whole(init.global(derived), kWrite), 0, 4);
      module.module.initializer.push_back(init.finish());
    }
    ProgramBuilder p({"cpu"});
    const uint32_t rows = symbolic ? p.argument_dim(0, 0) : p.literal(wanted.batch), columns = p.literal(3);
    const uint32_t elements = p.arithmetic(mf::Op::Mul, rows, columns), each = p.literal(64), one = p.literal(1);
    auto whole = ProgramBuilder::whole;
    p.dispatch("main.0.Sum the node", kAdd,
               {whole(p.argument(0), kRead), whole(wanted.reads_derived ? p.global(0) : p.argument(1), kRead), whole(p.result(0), kWrite)},
               {elements, each}, {p.arithmetic(mf::Op::CeilDiv, elements, each), one, one});
    p.types({{HEDDLE_TYPE_F32, {wanted.batch, 3}}, {HEDDLE_TYPE_F32, {wanted.batch, 3}}, {HEDDLE_TYPE_F32, {wanted.batch, 3}}});
    mf::DispatchSiteT& site = *p.program->dispatches.back();
    if (wanted.beside_kernel) {
      site.operation = std::make_unique<mf::OperationT>();
      site.operation->domain = "test";
      site.operation->name = "Sum";
      site.operation->version = 1;
      site.operation->input_count = 2;
      site.operation->operands = {{HEDDLE_TYPE_F32, 2}, {HEDDLE_TYPE_F32, 2}, {HEDDLE_TYPE_F32, 2}};
      site.operation->attributes.push_back(std::make_unique<mf::OperationAttributeT>());
      site.operation->attributes[0]->name = "extra";
      site.operation->attributes[0]->kind = HEDDLE_ATTRIBUTE_FLOAT;
      site.operation->attributes[0]->floats = {100};
      for (int i = 0; i < 3; ++i) site.constants.insert(site.constants.end(), {rows, columns});
    }
    function.programs.push_back(p.finish());
    const std::string path = folder_.path("module" + std::to_string(++modules_) + ".heddle");
    EXPECT_EQ(module.write(path), "");
    return path;
  }

  Outcome try_instance(const std::string& path, uint32_t flags = 0, const std::string& device = "heddle.cpu:0") {
    ModuleHandle module = open_module(runtime_.get(), path);
    return Outcome(create_instance(module.get(), {{"", device}}, &instance_, {}, flags));
  }

  // Whether the operation made what a call gives.
  bool is_operations(int64_t batch = 2) {
    heddle_function_t* function = find_function(instance_);
    const std::vector<float> ones(static_cast<size_t>(3 * batch), 1);
    TensorHandle a = make_tensor(function, 0, {batch, 3}, ones), b = make_tensor(function, 1, {batch, 3}, ones);
    const std::vector<float> got = read_tensor(call_for_one(function, {a.get(), b.get()}));
    const float each = got.empty() ? -1 : got[0];
    EXPECT_EQ(got, std::vector<float>(static_cast<size_t>(3 * batch), each));
    EXPECT_TRUE(each == 102 || each == 2) << each;
    return each == 102;
  }

  // With rules of heddle.toml, which stand from its line 7 on.
  bool runs_operation(const std::string& rules, const Sum& wanted = {}) {
    open(rules);
    Outcome made = try_instance(write(wanted));
    EXPECT_TRUE(made.ok()) << made.message;
    return made.ok() && is_operations(std::max<int64_t>(wanted.batch, 2));
  }
  Outcome refused(const std::string& rules, const Sum& wanted = {}) {
    open(rules);
    return try_instance(write(wanted));
  }
  nlohmann::json region() { return nlohmann::json::parse(instance_report(instance_, "route"))["regions"][0]; }
  nlohmann::json operations() {
    return nlohmann::json::parse(instance_report(instance_, "statistics")).value("operations", nlohmann::json::array());
  }

  static std::string rule(const std::string& op, const std::string& use, const std::string& more = "") {
    return "[[prefer]]\nop = \"" + op + "\"\nuse = [" + use + "]\n" + more + "\n";
  }
  static constexpr std::string_view kInProcess =
      "version = 1\n[plugins.probe]\n\"test.library\" = \"in-process\"\n\"test.other_library\" = \"in-process\"\n\"heddle.cpu\" = "
      "\"in-process\"\n\"test.streams\" = \"in-process\"\n";
  TemporaryFolder folder_;
  RuntimeHandle runtime_;
  InstanceHandle instance_;
  int modules_ = 0;
};

TEST_F(Preferences, AreOwnKernelsWithoutARule) {
  EXPECT_FALSE(runs_operation(""));
  EXPECT_EQ(region()["runs"], "own x86-64-v3");
  EXPECT_EQ(region()["why"], "no rule");
  EXPECT_EQ(operations().size(), 0u) << "no plugin was asked";
}

TEST_F(Preferences, SayTheOrder) {
  EXPECT_TRUE(runs_operation(rule("*", "'library:test.library', 'own'")));
  EXPECT_EQ(region()["runs"], "library:test.library");
  EXPECT_EQ(region()["why"], "[[prefer]] at <text>:7:1");
  EXPECT_FALSE(region().contains("passed"));
  EXPECT_EQ(operations(), nlohmann::json{"test::Sum/1 from test.library"});
  EXPECT_FALSE(runs_operation(rule("*", "'own', 'library:test.library'")));
  EXPECT_EQ(region()["runs"], "own x86-64-v3");
}

TEST_F(Preferences, NameOneLibraryOrAny) {
  EXPECT_TRUE(runs_operation(rule("*", "'library:*'")));
  EXPECT_EQ(operations(), nlohmann::json{"test::Sum/1 from test.library"});
  EXPECT_TRUE(runs_operation(rule("*", "'library:test.other_library'")));
  EXPECT_EQ(operations(), nlohmann::json{"test::Sum/1 from test.other_library"});
  EXPECT_TRUE(runs_operation(rule("*", "'library:*other*', 'library:test.library'")));
  EXPECT_EQ(operations(), nlohmann::json{"test::Sum/1 from test.other_library"});
}

TEST_F(Preferences, GoByNamesOfRegionsNodesAndOperators) {
  const std::string use = "'library:*'";
  for (const char* op : {"main.0.Sum the node", "main.?.Sum", "the node", "the*", "Sum", "test::Sum/1", "test::*"}) {
    EXPECT_TRUE(runs_operation(rule(op, use))) << op;
  }
  for (const char* op : {"main", "node", "sum", "Sum/1", "test"}) EXPECT_FALSE(runs_operation(rule(op, use))) << op;
}

TEST_F(Preferences, GoByElementTypes) {
  EXPECT_TRUE(runs_operation(rule("*", "'library:*'", "dtype = ['bf16', 'f32']")));
  EXPECT_FALSE(runs_operation(rule("*", "'library:*'", "dtype = ['bf16', 'i32']")));
}

TEST_F(Preferences, AreTheFirstRuleThatFits) {
  EXPECT_FALSE(runs_operation(rule("*", "'library:*'", "dtype = ['f16']") + rule("Sum", "'own'") + rule("*", "'library:*'")));
  EXPECT_EQ(region()["why"], "[[prefer]] at <text>:11:1");
}

TEST_F(Preferences, PassOverWhatIsNotThere) {
  EXPECT_TRUE(runs_operation(rule("*", "'library:nobody', 'variant:avx9', 'library:test.library'")));
  EXPECT_THAT(region()["passed"].get<std::vector<std::string>>(),
              ElementsAre(AllOf(HasSubstr("library:nobody: test::Sum/1"), HasSubstr("no library plugin 'nobody' is installed")),
                          HasSubstr("variant:avx9: executable 'test_kernels' has no such variant for it; it has x86-64-v3")));
  EXPECT_FALSE(runs_operation("[plugins]\ndisable = ['test.library']\n" + rule("*", "'library:test.library', 'own'")));
  EXPECT_THAT(region()["passed"][0].get<std::string>(), HasSubstr("test.library declares it, but it is disabled"));
}

TEST_F(Preferences, PassOverALibraryThatDoesNotTakeTheExtents) {
  EXPECT_FALSE(runs_operation(rule("*", "'library:*', 'own'"), {.batch = 500}));
  EXPECT_THAT(region()["passed"][0].get<std::string>(),
              AllOf(HasSubstr("library:*: test::Sum/1 (f32[500,3], f32[500,3] -> f32[500,3]) on device 'cpu:0'"),
                    HasSubstr("test.library returned UNIMPLEMENTED: test::Sum/1: it takes 1000 elements at most")));
}

TEST_F(Preferences, AreDecidedForTheExtentsOfEachCall) {
  open(rule("*", "'library:test.library', 'own'"));
  ASSERT_TRUE(try_instance(write({.batch = -1})).ok());
  EXPECT_EQ(region()["runs"], "library:test.library, or else own x86-64-v3") << "before a call nobody knows";
  EXPECT_TRUE(is_operations(2));
  EXPECT_EQ(region()["runs"], "library:test.library");
  EXPECT_FALSE(is_operations(400));
  EXPECT_EQ(region()["runs"], "own x86-64-v3");
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(is_operations(2 + round));
    EXPECT_FALSE(is_operations(400 + round));
  }
}

TEST_F(Preferences, AreAnErrorWhereNothingIsLeft) {
  for (int64_t batch : {int64_t{2}, int64_t{-1}}) {
    Outcome none = refused(rule("Sum", "'library:nobody', 'variant:avx9'"), {.batch = batch});
    EXPECT_EQ(none.code, HEDDLE_STATUS_UNAVAILABLE);
    EXPECT_THAT(none.message, AllOf(HasSubstr("region 'main.0.Sum the node': no entry of [[prefer]] at <text>:7:1 can run it: "),
                                    HasSubstr("library:nobody: test::Sum/1"), HasSubstr("; variant:avx9: executable 'test_kernels'"),
                                    HasSubstr("; add one that can to its 'use', or remove the rule")));
  }
  Outcome large = refused(rule("Sum", "'library:test.library'"), {.batch = 500});
  EXPECT_THAT(large.message, HasSubstr("it takes 1000 elements at most"));
}

TEST_F(Preferences, FailTheCallWhoseExtentsNothingTakes) {
  open(rule("*", "'library:test.library'"));
  ASSERT_TRUE(try_instance(write({.batch = -1})).ok());
  EXPECT_TRUE(is_operations(2));
  heddle_function_t* function = find_function(instance_);
  TensorHandle a = make_tensor(function, 0, {500, 3}, std::vector<float>(1500, 1)),
               b = make_tensor(function, 1, {500, 3}, std::vector<float>(1500, 1));
  heddle_tensor_t *in[] = {a.get(), b.get()}, *out = nullptr;
  Outcome failed(heddle_call(function, in, 2, &out, 1));
  EXPECT_THAT(failed.message, AllOf(HasSubstr("calling 'main' failed"), HasSubstr("no entry of [[prefer]] at <text>:7:1 can run it")));
  EXPECT_TRUE(is_operations(2)) << "other calls are as before";
}

TEST_F(Preferences, AreForRegionsOfKernelsAndOfOperationsAloneToo) {
  Outcome kernel = refused(rule("*", "'library:*'"), {.beside_kernel = false});
  EXPECT_THAT(kernel.message, HasSubstr("library:*: the module names no operation for it; compile the model with --operators"));
  EXPECT_FALSE(runs_operation(rule("*", "'library:*', 'own'"), {.beside_kernel = false}));
}

TEST_F(Preferences, AreNoErrorWhereNoRegionIsMeant) {
  EXPECT_FALSE(runs_operation(rule("attention*", "'library:nobody'")));
}

TEST_F(Preferences, TakeAnotherVariant) {
  EXPECT_FALSE(runs_operation(rule("*", "'variant:x86-64-v3'")));
  EXPECT_EQ(region()["runs"], "variant:x86-64-v3");
  const Sum two{.other_target = "x86-64-v4"};
  EXPECT_FALSE(runs_operation(rule("*", "'own'"), two));
  if (!__builtin_cpu_supports("x86-64-v4")) GTEST_SKIP() << "SKIP: this processor runs one level only";
  ASSERT_EQ(region()["runs"], "own x86-64-v4");
  for (const char* name : {"x86-64-v3", "x86_64-elf/1 x86-64-v3", "*v3"}) {
    EXPECT_FALSE(runs_operation(rule("*", std::string("'variant:") + name + "'"), two));
    EXPECT_EQ(region()["runs"], std::string("variant:") + name);
  }
}

TEST_F(Preferences, RefuseAVariantThatCannotBeMixed) {
  Outcome unknown = refused(rule("*", "'variant:x86-64-v9'"), {.other_target = "x86-64-v9"});
  EXPECT_THAT(unknown.message, HasSubstr("variant:x86-64-v9: x86_64-elf/1 x86-64-v9: the device does not run it"));
  const Sum two{.other_target = "x86-64-v4", .reads_derived = true};
  ASSERT_TRUE(refused("", two).ok());
  if (!__builtin_cpu_supports("x86-64-v4")) GTEST_SKIP() << "SKIP: this processor runs one level only";
  ASSERT_EQ(region()["runs"], "own x86-64-v4");
  Outcome mixed = refused(rule("*", "'variant:x86-64-v3'"), two);
  EXPECT_THAT(mixed.message, HasSubstr("variant:x86-64-v3: it shares derived values with other regions, and their layout is that of "
                                       "x86_64-elf/1 x86-64-v4"));
  EXPECT_TRUE(refused(rule("*", "'variant:x86-64-v4'"), two).ok());
}

TEST_F(Preferences, AreReportedWithoutRunning) {
  open(rule("*", "'library:nobody', 'library:test.library', 'own'"));
  ASSERT_TRUE(try_instance(write(), HEDDLE_INSTANCE_ROUTE_ONLY).ok());
  EXPECT_EQ(region()["runs"], "library:test.library");
  EXPECT_EQ(region()["passed"].size(), 1u);
  ASSERT_TRUE(try_instance(write({.batch = -1}), HEDDLE_INSTANCE_ROUTE_ONLY).ok());
  EXPECT_EQ(region()["runs"], "library:test.library, or else own x86-64-v3");
  open(rule("*", "'library:nobody'"));
  ASSERT_TRUE(try_instance(write(), HEDDLE_INSTANCE_ROUTE_ONLY).ok()) << "a report says what is wrong, and does not fail";
  EXPECT_EQ(region()["runs"], "nothing");
}

TEST_F(Preferences, AreNotForDevicesWhoseDriverRunsNoOperations) {
  open(rule("*", "'library:*', 'own'"));
  ASSERT_TRUE(try_instance(write(), 0, "test.streams:0").ok());
  EXPECT_FALSE(is_operations());
  EXPECT_THAT(region()["passed"][0].get<std::string>(), HasSubstr("its device's driver does not run operations of library plugins"));
}

}  // namespace
}  // namespace heddle::testing
