// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See expected.h.
#include "tests/compiler/expected.h"

#include <gtest/gtest.h>

#include "tests/compiler/stage_arrays.h"

using namespace mlir;

namespace heddle::tests {

namespace {

// Indices of all domains together.
int64_t indices_of(tx::DispatchOp staged, ArrayRef<int64_t> symbols) {
  int64_t all = 0;
  for (Operation& stage : staged.getBody().front().without_terminator()) {
    auto extents = stage::domain_of(&stage).getExtents().getResults();
    all += element_count(shape_of(tx::tensor_type(extents, IntegerType::get(staged.getContext(), 64)), symbols));
  }
  return all;
}

std::vector<Tensor> interpreted(tx::DispatchOp staged, const std::vector<stage::Array>& operands, ArrayRef<int64_t> symbols,
                                stage::FoldOrder order) {
  std::vector<Tensor> results;
  for (auto [array, output] : llvm::zip_equal(stage::interpret(staged, operands, symbols, order), staged.getOutputs())) {
    Type element = tx::tensor(output).getElementType();
    results.push_back(to_tensor(array, element));
    for (double& value : results.back().data) value = stored(value, element);
  }
  return results;
}

}  // namespace

Expected expected_results(tx::DispatchOp region, const std::vector<Tensor>& operands, const CheckOptions& options) {
  Expected expected{evaluate(region, operands, options.symbols), {}};
  std::string reason;
  auto staged = stage::form_stages(region, reason);
  if (failed(staged) || indices_of(staged->region, options.symbols) > most_interpreted) return expected;
  std::vector<stage::Array> arrays;
  for (auto [operand, input] : llvm::zip_equal(operands, region.getInputs()))
    arrays.push_back(to_array(operand, tx::tensor(input).getElementType()));
  auto in_order = [&](stage::FoldOrder order) { return interpreted(staged->region, arrays, options.symbols, order); };
  expected.by_stages = in_order(stage::FoldOrder::straight);
  bool folds = false;
  staged->region.walk([&](stage::FoldOp) { folds = true; });
  if (!folds) return expected;
  for (auto [order, what] :
       {std::pair(stage::FoldOrder::halves, "folds in halves"), std::pair(stage::FoldOrder::interleaved, "folds of every third")}) {
    std::vector<Tensor> again = in_order(order);
    for (size_t i = 0; i < again.size(); ++i)
      expect_close(again[i], expected.by_stages[i], options, std::string(what) + ", result " + std::to_string(i));
  }
  return expected;
}

void expect_results(const std::vector<Tensor>& got, const Expected& wanted, const CheckOptions& options, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.by_ops.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string which = what + ", result " + std::to_string(i);
    expect_close(got[i], wanted.by_ops[i], options, which);
    if (!wanted.by_stages.empty()) expect_close(got[i], wanted.by_stages[i], options, which + " against its stages");
  }
}

}  // namespace heddle::tests
