// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which plans of a region become kernels of a program.
#include "compiler/targets/candidates.h"

#include <gtest/gtest.h>

#include "mlir/IR/MLIRContext.h"

namespace heddle::targets {
namespace {

class Candidates : public ::testing::Test {
 protected:
  KernelPlan plan(const std::string& choice, std::vector<Guard> guards) {
    KernelPlan result{mlir::getAffineConstantExpr(1, &context_)};
    result.choice = {choice, {choice[0]}};
    result.guards = std::move(guards);
    return result;
  }
  // "a b when s0 <= 12", one a plan.
  static std::vector<std::string> texts(const Plans& plans) {
    std::vector<std::string> result;
    for (const KernelPlan& plan : plans) result.push_back(plan.choice.text + (plan.guards.empty() ? "" : " when ") + text_of(plan.guards));
    return result;
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  const Guard few_rows_{mlir::getAffineSymbolExpr(0, &context_), 0, 12};
  const Guard many_units_{{}, 6, INT64_MAX};
};

using Texts = std::vector<std::string>;

TEST_F(Candidates, SayTheirConditions) {
  EXPECT_EQ(text_of({few_rows_, many_units_}), "s0 <= 12 and compute units >= 6");
  EXPECT_EQ(text_of({Guard{mlir::getAffineSymbolExpr(1, &context_) * 4, 2, 8}}), "2 <= s1 * 4 <= 8");
  EXPECT_EQ(text_of({}), "");
}

TEST_F(Candidates, AreTheFirstOfEachCase) {
  const Plans plans{plan("a", {few_rows_}), plan("b", {few_rows_}), plan("c", {}), plan("d", {})};
  EXPECT_EQ(texts(choose(plans, {})), (Texts{"a when s0 <= 12", "c"}));
}

TEST_F(Candidates, AreThoseThatArePicked) {
  const Plans plans{plan("a", {few_rows_}), plan("b", {few_rows_}), plan("c", {}), plan("d", {})};
  auto pick = [](const std::string& when) { return when.empty() ? std::string("d") : std::string("nothing of the kind"); };
  EXPECT_EQ(texts(choose(plans, pick)), (Texts{"a when s0 <= 12", "d"}));
}

TEST_F(Candidates, AreOneWhereAllAreAlike) {
  const Plans alike{plan("a", {few_rows_, many_units_}), plan("b", {few_rows_, many_units_}), plan("a", {few_rows_}), plan("a", {})};
  EXPECT_EQ(texts(choose(alike, {})), Texts{"a"});
  const Plans one_differs{plan("b", {few_rows_, many_units_}), plan("a", {few_rows_}), plan("a", {})};
  EXPECT_EQ(texts(choose(one_differs, {})), (Texts{"b when s0 <= 12 and compute units >= 6", "a when s0 <= 12", "a"}));
  // Who picks wants to know which case a call is.
  auto pick = [](const std::string&) { return std::string("a"); };
  EXPECT_EQ(texts(choose(alike, pick)), (Texts{"a when s0 <= 12 and compute units >= 6", "a when s0 <= 12", "a"}));
}

}  // namespace
}  // namespace heddle::targets
