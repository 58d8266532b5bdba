// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the frozen .heddle files. sample-0.1.heddle to sample-0.4.heddle were written by the writers of these formats from module_sample.h; set
// HEDDLE_FREEZE=FILE to write one of the present version. add-0.1.heddle was compiled from an ONNX file with one Add of 4 floats.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "../temporary_folder.h"
#include "module_sample.h"
#include "sdk/module/layout.h"
#include "sdk/module/reader.h"

namespace heddle::module {
namespace {

const std::string kFolder = HEDDLE_COMPAT_FOLDER;

TEST(FrozenModule, EveryVersionOpens) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".heddle") continue;
    auto opened = open_module(file.path().string());
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_FALSE(verify_parameters(*opened.value())) << file.path();
    ++count;
  }
  EXPECT_GE(count, 1);
}

TEST(FrozenModule, Sample01MeansWhatItMeant) {
  auto opened = open_module(kFolder + "/sample-0.1.heddle");
  ASSERT_TRUE(opened) << opened.error().message;
  const Module& module = *opened.value();
  const auto& metadata = module.metadata();
  const auto& function = *metadata.functions()->Get(0);
  EXPECT_EQ(function.name()->str(), "main");
  EXPECT_EQ(function.symbols()->Get(0)->max(), 64);
  const auto& program = *function.programs()->Get(0);
  EXPECT_EQ(program.code()->Get(3)->op(), 5);   // Mul
  EXPECT_EQ(program.code()->Get(14)->op(), 0);  // Return
  EXPECT_EQ(program.transients()->Get(0)->alignment(), 64u);
  EXPECT_EQ(program.dispatches()->Get(0)->candidates()->Get(0)->guards()->Get(0)->max(), 1);
  const auto code = module.code(*metadata.executables()->Get(0)->variants()->Get(0)->code());
  EXPECT_TRUE(std::equal(code.begin(), code.end(), sample::code_v3().begin(), sample::code_v3().end()));
  EXPECT_EQ(metadata.parameters()->Get(0)->name()->str(), "dense.weight");
  EXPECT_EQ(metadata.parameters()->Get(0)->hash(), 0xc4399c7829d0628fu);
  EXPECT_EQ(static_cast<uint32_t>(metadata.globals()->Get(4)->kind()), 3u);
  EXPECT_EQ(program.dispatches()->Get(0)->binding_types(), nullptr);  // 0.2 brought them
}

TEST(FrozenModule, Sample02SaysWhatBindingsHold) {
  auto opened = open_module(kFolder + "/sample-0.2.heddle");
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& site = *opened.value()->metadata().functions()->Get(0)->programs()->Get(0)->dispatches()->Get(0);
  ASSERT_EQ(site.binding_types()->size(), 3u);
  EXPECT_EQ(site.binding_types()->Get(1)->element_type(), HEDDLE_TYPE_F32);
  EXPECT_EQ(site.binding_types()->Get(2)->rank(), 2u);
  EXPECT_EQ(std::vector<int64_t>(site.binding_dims()->begin(), site.binding_dims()->end()), (std::vector<int64_t>{-1, 4, 8, 8, -1, 8}));
  EXPECT_EQ(site.name()->str(), "dense");
  ASSERT_NE(site.operation(), nullptr);
  EXPECT_EQ(site.operation()->domain()->str() + "::" + site.operation()->name()->str(), "org.example::Dense");
  EXPECT_EQ(site.operation()->input_count(), 2u);
}

TEST(FrozenModule, Sample03SaysWhatKernelsCheck) {
  auto opened = open_module(kFolder + "/sample-0.3.heddle");
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& program = *opened.value()->metadata().functions()->Get(0)->programs()->Get(0);
  ASSERT_NE(program.checks(), nullptr);
  ASSERT_EQ(program.checks()->all()->size(), 2u);
  const auto& check = *program.checks()->all()->Get(1);
  EXPECT_EQ(check.verdict(), 0u);
  EXPECT_EQ(static_cast<uint32_t>(check.kind()), 1u);
  EXPECT_EQ(check.limit_register(), 4u);
  EXPECT_EQ(check.message(), 0u);
  EXPECT_EQ(static_cast<uint32_t>(program.values()->Get(4)->kind()), 4u);
}

TEST(FrozenModule, Sample04HasALoop) {
  auto opened = open_module(kFolder + "/sample-0.4.heddle");
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& code = *opened.value()->metadata().functions()->Get(0)->programs()->Get(0)->code();
  ASSERT_EQ(code.size(), 16u);
  EXPECT_EQ(code.Get(13)->op(), 25);  // Submit
  EXPECT_EQ(code.Get(14)->op(), 15);  // BranchIf
  EXPECT_EQ(code.Get(14)->a(), 8u);   // back to the dispatch
}

// The sample, and what it became in each format since; with HEDDLE_FREEZE=FILE the newest is written there.
class Writer : public ::testing::Test {
 protected:
  void add_operation() {
    module_format::DispatchSiteT& site = *program().dispatches.at(0);
    site.operation = std::make_unique<module_format::OperationT>();
    site.operation->domain = "org.example";
    site.operation->name = "Dense";
    site.operation->version = 1;
    site.operation->input_count = 2;
    site.operation->operands = site.binding_types;
    site.candidates.clear();
    site.constants.assign(6, 0);  // extents
  }
  // A fill writes a verdict instead of the state.
  void add_checks() {
    using module_format::CheckKind;
    program().checks = std::make_unique<module_format::KernelChecksT>();
    program().checks->all = {{0, 0, CheckKind::Index, 3, 0}, {0, 0, CheckKind::Divisor, 4, 0}};
    program().values.at(4) = module_format::Value(module_format::ValueKind::Verdict, 0);
    program().code.erase(program().code.begin() + 13);  // which reads it
  }
  // The dispatch and what follows it are repeated.
  void add_loop() {
    using module_format::Instruction;
    using module_format::Op;
    auto& code = program().code;
    code.insert(code.end() - 1,
                {Instruction(static_cast<uint16_t>(Op::Submit), 0, 0, 0, 0), Instruction(static_cast<uint16_t>(Op::BranchIf), 0, 8, 5, 0)});
  }
  void expect(const std::string& frozen, const char* freeze = nullptr) {
    const std::string path = freeze ? freeze : folder_.path("m.heddle");
    ASSERT_FALSE(writer_.write(module_, path));
    EXPECT_EQ(heddle::testing::read_file(path) == heddle::testing::read_file(kFolder + "/" + frozen), true) << frozen;
  }

 private:
  module_format::ProgramT& program() { return *module_.functions.at(0)->programs.at(0); }
  heddle::testing::TemporaryFolder folder_;
  ModuleWriter writer_;
  module_format::ModuleT module_ = sample::make(writer_);
};

TEST_F(Writer, StillWritesFormat02) {
  add_operation();
  expect("sample-0.2.heddle");
}

TEST_F(Writer, StillWritesFormat03) {
  add_operation();
  add_checks();
  expect("sample-0.3.heddle");
}

TEST_F(Writer, StillWritesFormat04) {
  add_operation();
  add_checks();
  add_loop();
  expect("sample-0.4.heddle", std::getenv("HEDDLE_FREEZE"));
}

}  // namespace
}  // namespace heddle::module
