// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each strategy says of a region that is to be explained, and why a region has no kernel of its own kind.
#include <algorithm>

#include <gtest/gtest.h>

#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

using targets::Answer;
using Names = std::vector<std::string>;

std::vector<Answer> answers_of(const targets::Target& target, const ParsedRegion& parsed) {
  std::vector<Answer> answers;
  EXPECT_TRUE(mlir::succeeded(target.plans(parsed.region(), {}, &answers)));
  return answers;
}

// The strategies that take a region, in order.
Names takers(const std::vector<Answer>& answers) {
  Names names;
  for (const Answer& answer : answers) {
    if (!answer.plans.empty()) names.push_back(answer.strategy);
  }
  return names;
}

const Answer& answer_of(const std::vector<Answer>& answers, const std::string& strategy) {
  return *std::find_if(answers.begin(), answers.end(), [&](const Answer& answer) { return answer.strategy == strategy; });
}

std::string product() {
  return one_op({"200x64xf32", "64x48xf32"}, "200x48xf32", "matmul %0, %1 : tensor<200x64xf32>, tensor<64x48xf32> -> tensor<200x48xf32>");
}

std::string running_sum() {
  return one_op({"3x20xf32"}, "3x20xf32", "cumsum %0 {axis = 1 : i64} : tensor<3x20xf32>");
}

TEST(Answers, AreThoseOfAllStrategies) {
  ParsedRegion parsed(product());
  auto cpu = targets::make_x86_64_target("x86-64-v3");
  const std::vector<Answer> answers = answers_of(*cpu, parsed);
  ASSERT_EQ(answers.size(), cpu->strategies().size());
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].strategy, cpu->strategies()[i]->name().str());
  EXPECT_EQ(takers(answers), (Names{"microkernel", "generic"}));
  EXPECT_GT(answer_of(answers, "microkernel").plans.size(), 1U);
  for (const Answer& answer : answers) {
    for (const targets::KernelPlan& plan : answer.plans) EXPECT_EQ(plan.strategy, answer.strategy);
  }
  EXPECT_EQ(answer_of(answers, "rows").reason, "");
  auto cuda = targets::make_cuda_target("sm_80", targets::Math::strict);
  EXPECT_EQ(takers(answers_of(*cuda, parsed)), (Names{"output groups", "generic"}));
}

TEST(Answers, ChangeNoKernel) {
  for (const std::string& text : {product(), running_sum(), normalization("3", "40", "f32")}) {
    ParsedRegion parsed(text);
    auto cpu = targets::make_x86_64_target("x86-64-v3");
    std::vector<Answer> answers;
    auto alone = cpu->plans(parsed.region()), explained = cpu->plans(parsed.region(), {}, &answers);
    ASSERT_TRUE(mlir::succeeded(alone) && mlir::succeeded(explained));
    ASSERT_EQ(alone->size(), explained->size());
    const Answer& taken = answer_of(answers, alone->front().strategy);
    EXPECT_EQ(takers(answers).front(), taken.strategy);
    ASSERT_EQ(alone->size(), taken.plans.size());
    for (size_t i = 0; i < alone->size(); ++i) {
      for (const targets::KernelPlan& plan : {(*explained)[i], taken.plans[i]}) {
        EXPECT_EQ((*alone)[i].choice.text, plan.choice.text);
        EXPECT_EQ((*alone)[i].choice.numbers, plan.choice.numbers);
        EXPECT_EQ((*alone)[i].workgroups, plan.workgroups);
        EXPECT_TRUE((*alone)[i].guards == plan.guards);
      }
      EXPECT_EQ((*alone)[i].refusals.size(), (*explained)[i].refusals.size());
    }
  }
}

TEST(Answers, AreForTheRegionAsItOverwritesAnOperand) {
  const std::string type = "tensor<64x48xf32>", body = "%y = tx.exp %0 : " + type + "\ntx.yield %y : " + type;
  auto cpu = targets::make_x86_64_target("x86-64-v3");
  ParsedRegion apart(region_text({"64x48xf32"}, {"64x48xf32"}, body));
  EXPECT_EQ(takers(answers_of(*cpu, apart)), (Names{"output groups", "generic"}));
  ParsedRegion tied(region_text({"64x48xf32"}, {"64x48xf32"}, body, "attributes {tied = array<i64: 0>}"));
  const std::vector<Answer> answers = answers_of(*cpu, tied);
  EXPECT_EQ(takers(answers), Names{"output groups"});
  EXPECT_NE(answer_of(answers, "generic").reason.find("overwrite an operand"), std::string::npos);
}

TEST(Answers, OfWhatOnlyStagesDefineAreThoseOfWhoReadsStages) {
  ParsedRegion parsed(running_sum());
  auto cpu = targets::make_x86_64_target("x86-64-v3");
  const std::vector<Answer> answers = answers_of(*cpu, parsed);
  EXPECT_EQ(answers.size(), cpu->strategies().size());
  EXPECT_EQ(takers(answers), Names{"generic"});
}

TEST(OwnKernels, AreMissingForAReason) {
  auto cpu = targets::make_x86_64_target("x86-64-v3");
  std::string why_not;
  ParsedRegion own(product());
  EXPECT_TRUE(cpu->has_own_kernel(own.region(), &why_not));
  EXPECT_EQ(why_not, "");
  ParsedRegion scanned(running_sum());
  EXPECT_FALSE(cpu->has_own_kernel(scanned.region()));
  EXPECT_FALSE(cpu->has_own_kernel(scanned.region(), &why_not));
  EXPECT_EQ(why_not, "x86-64-v3: only the generic kernel fits this region");
  // The microkernel is for f32.
  ParsedRegion doubles(
      one_op({"20x64xf64", "64x48xf64"}, "20x48xf64", "matmul %0, %1 : tensor<20x64xf64>, tensor<64x48xf64> -> tensor<20x48xf64>"));
  EXPECT_FALSE(cpu->has_own_kernel(doubles.region(), &why_not));
  EXPECT_NE(why_not.find("microkernel: "), std::string::npos) << why_not;
  // None at all.
  ParsedRegion unknown(one_op({"4xi4"}, "4xi4", "neg %0 : tensor<4xi4>"));
  EXPECT_FALSE(cpu->has_own_kernel(unknown.region(), &why_not));
  EXPECT_NE(why_not.find("elements of type 'i4'"), std::string::npos) << why_not;
}

}  // namespace
}  // namespace heddle::tests
