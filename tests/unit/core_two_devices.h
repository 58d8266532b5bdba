// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules with two slots, for tests of calls over two devices, and a fixture that opens them.
#ifndef HEDDLE_TESTS_CORE_TWO_DEVICES_H_
#define HEDDLE_TESTS_CORE_TWO_DEVICES_H_

#include "core_drivers.h"

namespace heddle::testing {

class OverTwoDevices : public ::testing::Test {
 protected:
  // more: what follows in the table of test.streams's options.
  void open_runtime_with(const std::string& more) {
    runtime = open_runtime({HEDDLE_TEST_PLUGINS, HEDDLE_TEST_DRIVERS},
                           "version = 1\n[plugins.probe]\n\"heddle.cpu\" = \"in-process\"\n\"test.streams\" = \"in-process\"\n"
                           "[driver.\"heddle.cpu\"]\ndevice_count = 2\n[driver.\"test.streams\"]\ndevice_count = 2\n" +
                               more);
    ASSERT_NE(runtime, nullptr);
  }
  static ModuleBuilder builder() {
    ModuleBuilder made("cpu", {"@a", "@b"});
    made.add_kernels(HEDDLE_TEST_KERNELS);
    return made;
  }
  static ProgramBuilder program() { return ProgramBuilder({"cpu", "cpu"}); }
  heddle_status_t* try_open(ModuleBuilder& module, const std::string& a, const std::string& b, InstanceHandle* out, uint32_t flags = 0) {
    std::string path = folder.path("pair" + std::to_string(++modules_) + ".heddle");
    EXPECT_EQ(module.write(path), "");
    ModuleHandle opened = open_module(runtime.get(), path);
    return opened ? create_instance(opened.get(), {{"@a", a}, {"@b", b}}, out, {}, flags) : nullptr;
  }
  InstanceHandle open(ModuleBuilder& module, const std::string& a, const std::string& b, uint32_t flags = 0) {
    InstanceHandle instance;
    HEDDLE_EXPECT_OK(try_open(module, a, b, &instance, flags));
    return instance;
  }
  static CallHandle start(heddle_function_t* function, std::vector<heddle_tensor_t*> arguments, TensorHandle* result) {
    heddle_call_t* call = nullptr;
    heddle_tensor_t* out = nullptr;
    HEDDLE_EXPECT_OK(heddle_call_start(function, nullptr, arguments.data(), static_cast<uint32_t>(arguments.size()), &out, 1, &call));
    result->reset(out);
    return CallHandle(call);
  }
  // out = a, by way of @b and back, and in between 2 * a + 0 on @b: `elements` floats.
  static void add_round_trip(ModuleBuilder& module, int64_t elements) {
    mf::FunctionT& function = module.add_function("round");
    function.arguments.push_back(ModuleBuilder::type("a", {ModuleBuilder::extent(elements)}));
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(elements)}));
    ProgramBuilder p = program();
    uint32_t all = p.literal(elements), one = p.literal(1), size = p.literal(elements * 4);
    uint32_t there = p.transient(size), twice = p.transient(size), back = p.transient(size);
    p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(there, kWrite));
    p.barrier();
    auto add = [&](const char* name, uint32_t from, uint32_t to, uint32_t slot) {
      p.dispatch(name, kAdd, {ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(from, kRead), ProgramBuilder::whole(to, kWrite)},
                 {all, all}, {one, one, one}, slot);
      p.barrier();
    };
    add("there", there, twice, 1);
    p.copy(ProgramBuilder::whole(twice, kRead), ProgramBuilder::whole(back, kWrite));
    p.barrier();
    add("back", back, p.result(0), 0);
    function.programs.push_back(p.finish());
  }
  // Spins on @a, then on @b; out is on @b.
  static void add_slow(ModuleBuilder& module, const std::string& name, int64_t spins, uint32_t first) {
    mf::FunctionT& function = module.add_function(name);
    function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_U32, 1 - first));
    ProgramBuilder p = program();
    uint32_t one = p.literal(1), count = p.literal(spins), size = p.literal(4);
    uint32_t here = p.transient(size), there = p.transient(size);
    p.dispatch("slow here", kSlowly, {ProgramBuilder::whole(here, kWrite)}, {count}, {one, one, one}, first);
    p.barrier();
    p.copy(ProgramBuilder::whole(here, kRead), ProgramBuilder::whole(there, kWrite));
    p.barrier();
    p.dispatch("slow there", kSlowly, {ProgramBuilder::whole(there, kReadWrite)}, {count}, {one, one, one}, 1 - first);
    p.barrier();
    p.copy(ProgramBuilder::whole(there, kRead), ProgramBuilder::whole(p.result(0), kWrite));
    function.programs.push_back(p.finish());
  }

  TemporaryFolder folder;
  RuntimeHandle runtime;

 private:
  int modules_ = 0;
};
}  // namespace heddle::testing

#endif  // HEDDLE_TESTS_CORE_TWO_DEVICES_H_
