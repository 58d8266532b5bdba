// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The drivers that tests of the runtime run on, and a fixture that opens hand-built modules on each.
// test.streams is the stream driver over a host that plays a GPU: memory that the host cannot touch, work that is late and out of order.
#ifndef HEDDLE_TESTS_CORE_DRIVERS_H_
#define HEDDLE_TESTS_CORE_DRIVERS_H_

#include <ctime>
#include <filesystem>

#include "../support/module_builder.h"
#include "../support/runtime_session.h"
#include "../temporary_folder.h"

namespace heddle::testing {

struct DriverUnderTest {
  const char* name;  // of the test
  const char* device;
  const char* family;
  const char* plugin;  // its manifest
};

inline const DriverUnderTest kDrivers[] = {{"Cpu", "heddle.cpu:0", "cpu", HEDDLE_TEST_PLUGINS "/heddle.cpu.toml"},
                                           {"Streams", "test.streams:0", "cpu", HEDDLE_TEST_DRIVERS "/test.streams.toml"}};
inline void PrintTo(const DriverUnderTest& driver, std::ostream* out) {
  *out << driver.device;
}
inline std::string driver_name(const ::testing::TestParamInfo<DriverUnderTest>& info) {
  return info.param.name;
}

// The clock of deadlines.
inline uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

class OnDriver : public ::testing::TestWithParam<DriverUnderTest> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GetParam().plugin)) GTEST_SKIP() << GetParam().plugin << " is not built";
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS}, config());
    ASSERT_NE(runtime, nullptr);
  }
  // TOML. The tests of the host look at how plugins are probed; here that only costs time.
  virtual std::string config() const {
    std::string device = GetParam().device;
    return "version = 1\n[plugins.probe]\n\"" + device.substr(0, device.find(':')) + "\" = \"in-process\"\n";
  }

  // [validation]: no plugin and no call of the host broke a rule.
  void expect_no_violations() {
    heddle_text_t* text = nullptr;
    HEDDLE_ASSERT_OK(heddle_runtime_report(runtime.get(), c_string("validation"), &text));
    const std::string report = take_text(text), key = "\"violations\":";
    size_t count = 0;
    for (size_t at = report.find(key); at != std::string::npos; at = report.find(key, at + 1), ++count)
      EXPECT_EQ(report.substr(at + key.size(), 2), "0,") << report;
    EXPECT_NE(count, 0u) << report;
  }

  ModuleBuilder builder(std::vector<std::string> slots = {""}) const {
    ModuleBuilder made(GetParam().family, std::move(slots));
    made.add_kernels(HEDDLE_TEST_KERNELS);
    return made;
  }
  ProgramBuilder program() const { return ProgramBuilder({GetParam().family}); }

  // Writes, opens and binds a module; NULL with a failed test if that does not work.
  InstanceHandle open(ModuleBuilder& module, const std::vector<std::pair<std::string, std::string>>& files = {}, uint32_t flags = 0) {
    std::string path = folder.path("module" + std::to_string(++modules_) + ".heddle");
    std::string written = module.write(path);
    EXPECT_EQ(written, "");
    if (!written.empty()) return nullptr;
    ModuleHandle opened = open_module(runtime.get(), path);
    InstanceHandle instance;
    if (opened) HEDDLE_EXPECT_OK(create_instance(opened.get(), {{"", GetParam().device}}, &instance, files, flags));
    return instance;
  }

  // out = a + b, all of them batch x width, batch free.
  mf::FunctionT& add_adder(ModuleBuilder& module, const std::string& name, int64_t width, int64_t min = 1, int64_t max = INT64_MAX,
                           int64_t divisor = 1) const {
    mf::FunctionT& function = module.add_function(name);
    ModuleBuilder::add_symbol(function, "batch", min, max, divisor);
    for (const char* input : {"a", "b"}) {
      function.arguments.push_back(ModuleBuilder::type(input, {ModuleBuilder::symbol(0), ModuleBuilder::extent(width)}));
    }
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::symbol(0), ModuleBuilder::extent(width)}));
    ProgramBuilder p = program();
    uint32_t elements = p.arithmetic(mf::Op::Mul, p.argument_dim(0, 0), p.literal(width));
    uint32_t each = p.literal(64), one = p.literal(1);
    uint32_t groups = p.arithmetic(mf::Op::CeilDiv, elements, each);
    p.dispatch("add", kAdd,
               {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead),
                ProgramBuilder::whole(p.result(0), kWrite)},
               {elements, each}, {groups, one, one});
    function.programs.push_back(p.finish());
    return function;
  }

  // A function "breaks" whose only region fails.
  void add_failing(ModuleBuilder& module) const {
    mf::FunctionT& function = module.add_function("breaks");
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32));
    ProgramBuilder p = program();
    const uint32_t one = p.literal(1), code = p.literal(7);
    p.dispatch("bad region", kFailing, {}, {code}, {one, one, one});
    function.programs.push_back(p.finish());
  }

  // out = n, which the host looks at first: a call in pieces.
  void add_looked_at(ModuleBuilder& module, const std::string& name = "looked at") const {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    uint32_t n = p.reg(), zero = p.literal(0);
    p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
  }
  // state = 3 state + 1; a call in pieces where it looks at its argument.
  void add_step(ModuleBuilder& module, const std::string& name, uint32_t state, bool looks) const {
    mf::FunctionT& function = module.add_function(name);
    function.arguments.push_back(ModuleBuilder::type("n", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), zero = p.literal(0), n = p.reg();
    if (looks) p.emit(mf::Op::ReadScalar, n, p.argument(0), zero);
    p.dispatch("step", kChainStep, {ProgramBuilder::whole(p.global(state), kReadWrite)}, {one}, {one, one, one});
    p.barrier();
    p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
  }

  TemporaryFolder folder;
  RuntimeHandle runtime;

 private:
  int modules_ = 0;
};

}  // namespace heddle::testing

#endif  // HEDDLE_TESTS_CORE_DRIVERS_H_
