// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What check_names says of kernels that the compiler does not write: outputs that are inputs, values that are not named, extents and attributes as far
// from usual as the format allows; and the numbers that its terms stand for.
#include <gtest/gtest.h>

#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/names.h"
#include "sdk/cpp/portable/term_values.h"

namespace portable = heddle::sdk::portable;
using portable::Expression;
using portable::Kernel;
using portable::NameCheck;
using portable::Op;
using portable::Scalar;

namespace {

// y[4] = what the instructions make of x[4], an argument of number 1.
Kernel map(heddle_element_type_t type, std::vector<portable::Instruction> instructions) {
  Kernel kernel;
  kernel.name = "map";
  kernel.inputs = kernel.outputs = 1;
  kernel.expressions = {{Expression::kConstant, 4}, {Expression::kDimension, 0}};
  kernel.tensors.assign(2, {type, {0}});
  portable::Node& node = kernel.nodes.emplace_back();
  node.extents = {0};
  node.reads.resize(1);
  node.reads[0].place = {1};
  node.bodies.resize(1);
  node.bodies[0].instructions = std::move(instructions);
  node.bodies[0].yields = {1 + static_cast<uint32_t>(node.bodies[0].instructions.size())};
  node.results = {1};
  return kernel;
}

std::vector<NameCheck> checks_of(Kernel kernel) {
  std::string error;
  EXPECT_TRUE(portable::verify(&kernel, &error)) << error;
  return portable::check_names(kernel, std::vector<int64_t>(kernel.symbols));
}

TEST(PortableNames, AnOutputThatIsNamedAsAnInputIsJudged) {
  Kernel copy = map(HEDDLE_TYPE_F32, {}), twice = map(HEDDLE_TYPE_F32, {{Op::kAddF, Scalar::kF32, 1, 1}});
  // x unless it is a number that made-up inputs do not have.
  const uint64_t rare = 0x4640E6B7;
  Kernel mostly = map(HEDDLE_TYPE_F32, {{Op::kConstant, Scalar::kF32, 0, 0, 0, rare},
                                        {Op::kCompareF, Scalar::kI1, 1, 2, 0, static_cast<uint64_t>(portable::Predicate::kEqual)},
                                        {Op::kConstant, Scalar::kF32},
                                        {Op::kSelect, Scalar::kF32, 3, 4, 1}});
  for (Kernel* kernel : {&copy, &twice, &mostly}) kernel->named_outputs = {0};
  const std::pair<Kernel*, NameCheck::Verdict> cases[] = {
      {&copy, NameCheck::kAgrees}, {&twice, NameCheck::kDisagrees}, {&mostly, NameCheck::kTested}};
  for (const auto& [kernel, verdict] : cases) {
    const std::vector<NameCheck> checks = checks_of(*kernel);
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_EQ(checks[0].verdict, verdict) << checks[0].reason;
    EXPECT_EQ(checks[0].op, NameCheck::kNone);
    EXPECT_EQ(checks[0].output, 0u);
    EXPECT_EQ(checks[0].node, 0u);
  }
  const std::string text = portable::text_of_names({copy, twice});
  EXPECT_EQ(text.find("names: 1 agree, 0 tested, 0 unknown, 1 disagree\n  kernel map: output 0: its input disagrees: output 0 at [0] is "),
            0u)
      << text;
  // Beside an op, whose check is the first one.
  twice.ops = {{"add", 1, {}, {twice.tensors[1]}, {0, 0}}};
  const std::vector<NameCheck> both = checks_of(twice);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].verdict, NameCheck::kUnknown);
  EXPECT_EQ(both[1].verdict, NameCheck::kDisagrees);
}

TEST(PortableNames, ConstantsWithoutAValueAreUnknown) {
  Kernel kernel = map(HEDDLE_TYPE_I32, {{Op::kConstant, Scalar::kI32, 0, 0, 0, 3}});
  kernel.ops = {{"constant", 1, {{"integer", int64_t{3}}}, {kernel.tensors[1]}, {}}};
  kernel.named_outputs = {1};
  EXPECT_EQ(checks_of(kernel)[0].verdict, NameCheck::kAgrees);
  kernel.ops[0].attributes[0].value = int64_t{4};
  EXPECT_EQ(checks_of(kernel)[0].verdict, NameCheck::kDisagrees);
  kernel.ops[0].attributes = {{"real", 3.0}};
  EXPECT_EQ(checks_of(kernel)[0].verdict, NameCheck::kDisagrees);
  kernel.ops[0].attributes.clear();
  const NameCheck check = checks_of(kernel)[0];
  EXPECT_EQ(check.verdict, NameCheck::kUnknown);
  EXPECT_EQ(check.reason, "its name does not say which values it has");
}

// As many ops one after another as a kernel may have, of which each calls the next one.
TEST(PortableNames, OpsAreNestedToALimit) {
  Kernel kernel = map(HEDDLE_TYPE_F32, {{Op::kAddF, Scalar::kF32, 1, 1}});
  for (uint32_t i = 0; i + 1 < portable::kMostTensors; ++i)
    kernel.ops.push_back({"transpose", 1, {{"permutation", std::vector<int64_t>{0}}}, {kernel.tensors[0]}, {i}});
  kernel.ops.push_back({"add", 1, {}, {kernel.tensors[0]}, {portable::kMostTensors - 1, portable::kMostTensors - 1}});
  kernel.named_outputs = {portable::kMostTensors};
  const std::vector<NameCheck> checks = checks_of(kernel);
  ASSERT_EQ(checks.size(), kernel.ops.size());
  EXPECT_EQ(checks.back().verdict, NameCheck::kUnknown);
  EXPECT_EQ(checks.back().reason, "the kernel's ops are nested too deeply to compare");
  // The same op directly, for another output: what was nested before does not count.
  kernel.expressions.push_back({Expression::kConstant, 4});
  kernel.outputs = 2;
  kernel.tensors.push_back(kernel.tensors[0]);
  kernel.nodes.push_back(kernel.nodes[0]);
  kernel.nodes[1].results = {2};
  kernel.ops.erase(kernel.ops.begin());
  for (portable::NamedOp& op : kernel.ops) {
    for (uint32_t& operand : op.operands) operand -= operand > 0;
  }
  kernel.ops.push_back({"add", 1, {}, {kernel.tensors[0]}, {0, 0}});
  kernel.named_outputs.push_back(portable::kMostTensors);
  kernel.named_outputs[0] = portable::kMostTensors - 1;
  const std::vector<NameCheck> others = checks_of(kernel);
  EXPECT_EQ(others[others.size() - 2].verdict, NameCheck::kUnknown);
  EXPECT_EQ(others.back().verdict, NameCheck::kAgrees) << others.back().reason;
}

// The same of ops that call the next one through more functions.
TEST(PortableNames, LargeOpsAreNestedToALimit) {
  using Integers = std::vector<int64_t>;
  const Integers zeros = {0, 0}, ones = {1, 1};
  const portable::NamedOp ops[] = {
      {"matmul", 1, {}, {}, {0, 0}},
      {"conv", 1, {{"dilations", ones}, {"groups", int64_t{1}}, {"pads_high", zeros}, {"pads_low", zeros}, {"strides", ones}}, {}, {0, 0}},
      {"softmax", 1, {{"axis", int64_t{0}}}, {}, {0}},
      {"reduce", 1, {{"axes", Integers{}}, {"kind", "sum"}}, {}, {0}},
  };
  for (const portable::NamedOp& op : ops) {
    Kernel kernel = map(HEDDLE_TYPE_F32, {});
    kernel.expressions[0].value = 1;
    for (portable::Tensor& tensor : kernel.tensors) tensor.extents.assign(4, 0);
    kernel.nodes[0].extents.assign(4, 0);
    kernel.nodes[0].reads[0].place.assign(4, 1);
    kernel.nodes[0].bodies[0].yields = {4};
    for (uint32_t i = 0; i < portable::kMostTensors; ++i) {
      kernel.ops.push_back(op);
      kernel.ops.back().results = {kernel.tensors[0]};
      kernel.ops.back().operands.assign(op.operands.size(), i);
    }
    kernel.named_outputs = {portable::kMostTensors};
    const NameCheck check = checks_of(kernel).back();
    EXPECT_EQ(check.verdict, NameCheck::kUnknown) << op.name;
    EXPECT_NE(check.reason.find("to compare"), std::string::npos) << check.reason;
  }
}

// Extents and attributes whose sums and products no 64 bits have.
TEST(PortableNames, LargeNumbersAreUnknownOrDisagree) {
  using Integers = std::vector<int64_t>;
  constexpr int64_t kLarge = int64_t{1} << 60, kMost = int64_t{1} << 40;
  auto kernel_of = [](Integers from, Integers to, portable::NamedOp op) {
    Kernel kernel;
    kernel.name = "large";
    kernel.inputs = kernel.outputs = 1;
    kernel.expressions = {{Expression::kConstant, 0}};
    auto tensor = [&](const Integers& extents) {
      portable::Tensor made = {HEDDLE_TYPE_F32, {}};
      for (int64_t extent : extents) {
        made.extents.push_back(static_cast<uint32_t>(kernel.expressions.size()));
        kernel.expressions.push_back({Expression::kConstant, extent});
      }
      return made;
    };
    kernel.tensors = {tensor(from), tensor(to)};
    portable::Node& node = kernel.nodes.emplace_back();
    node.extents = kernel.tensors[1].extents;
    node.bodies.resize(1);
    node.bodies[0].instructions = {{Op::kConstant, Scalar::kF32}};
    node.bodies[0].yields = {static_cast<uint32_t>(to.size())};
    node.results = {1};
    op.results = {kernel.tensors[1]};
    kernel.ops = {op};
    kernel.named_outputs = {1};
    return kernel;
  };
  const Kernel kernels[] = {
      // Tensors without elements, of which other extents are as large as they may be.
      kernel_of({0, INT64_MAX}, {0, INT64_MAX}, {"pad", 1, {{"high", Integers{0, 1}}, {"low", Integers{0, 1}}, {"value", 0.0}}, {}, {0}}),
      kernel_of({0, kLarge, kLarge}, {0}, {"reduce", 1, {{"axes", Integers{1, 2}}, {"kind", "mean"}}, {}, {0}}),
      kernel_of({kLarge, 0}, {kLarge, 0}, {"concat", 1, {{"axis", int64_t{0}}}, {}, std::vector<uint32_t>(16, 0)}),
      kernel_of({kLarge}, {kLarge}, {"slice", 1, {{"starts", Integers{0}}, {"strides", Integers{-kMost}}}, {}, {0}}),
      kernel_of({kLarge}, {kLarge}, {"slice", 1, {{"starts", Integers{0}}, {"strides", Integers{1 << 20}}}, {}, {0}}),
      kernel_of({1, 4, 1}, {1, 4, 1},
                {"pool",
                 1,
                 {{"dilations", Integers{kMost}},
                  {"include_pad", false},
                  {"kernel", Integers{kMost}},
                  {"kind", "max"},
                  {"pads_high", Integers{0}},
                  {"pads_low", Integers{0}},
                  {"strides", Integers{1}}},
                 {},
                 {0}}),
  };
  for (const Kernel& kernel : kernels) {
    const NameCheck check = checks_of(kernel)[0];
    EXPECT_GE(check.verdict, NameCheck::kUnknown) << kernel.ops[0].name;
    EXPECT_FALSE(check.reason.empty());
  }
}

// Indices whose quotients are computed wrap where the sums do, and padded values of integers are in their range.
TEST(PortableTerms, NumbersAtTheEndsOfTheirRange) {
  portable::Terms terms;
  const portable::TermId x = terms.dimension(0, 5);
  for (int64_t constant : {INT64_MIN, INT64_MIN + 1, INT64_MAX}) {
    for (int64_t by : {int64_t{3}, int64_t{7}, int64_t{1} << 60}) {
      const portable::TermId sum = terms.plus(x, constant), scaled = terms.scale(x, constant);
      for (portable::TermId of : {sum, scaled, terms.integer(constant)}) {
        terms.floor_div(of, by);
        terms.mod(of, by);
        terms.scale(terms.floor_div(of, by), by);
      }
      int64_t rest;
      ASSERT_TRUE(terms.is_constant(terms.mod(terms.integer(constant), by), &rest));
      EXPECT_EQ(rest, constant % by + (constant % by < 0 ? by : 0));
    }
  }
  auto bits = [&](Scalar type, double value) {
    uint64_t out = 0;
    EXPECT_TRUE(terms.is_constant(terms.real(type, value), &out));
    return out;
  };
  EXPECT_EQ(bits(Scalar::kI64, 1e30), static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(bits(Scalar::kI64, -1e30), static_cast<uint64_t>(INT64_MIN));
  EXPECT_EQ(bits(Scalar::kI64, __builtin_nan("")), 0u);
  EXPECT_EQ(bits(Scalar::kI8, -1), 0xFFu);
  EXPECT_EQ(bits(Scalar::kI1, 1), 1u);
}

// A sum over i from 1 on of x[i] * y[3], in which the 3 is computed by a sum of its own at the level of i; and folds in each other at the same levels.
TEST(PortableTerms, BindersInPlacesLeaveTheirSurroundingsAlone) {
  using portable::Term;
  using portable::TermId;
  portable::Terms terms;
  const TermId i = terms.dimension(0, 3), flag = terms.flag(true), one = terms.integer(1);
  const TermId counts = terms.not_negative(terms.plus(i, -1));
  // How many elements a line of 4 has, less 1.
  Term count;
  count.kind = Term::kContract;
  count.data = {0, 4};
  count.args = {flag, one, one};
  const TermId place = terms.plus(terms.make(count), -1);
  const std::vector<std::vector<int64_t>> extents = {{3}, {4}};
  const TermId y = terms.load(1, Scalar::kF64, {place}), x = terms.load(0, Scalar::kF64, {i});
  Term sum;
  sum.kind = Term::kContract;
  sum.type = Scalar::kF64;
  sum.data = {0, 3};
  sum.args = {counts, y, x};  // in this order
  const TermId contracted = terms.make(sum);
  // The same with accumulators, which an inner fold at the same levels has, too.
  const TermId before = terms.argument(1, 0, Scalar::kF64), other = terms.argument(1, 1, Scalar::kF64);
  auto plus = [&](TermId a, TermId b) { return terms.instruction(Op::kAddF, Scalar::kF64, {a, b}); };
  auto folded = [&](int64_t extent, TermId which, TermId element) {
    Term fold;
    fold.kind = Term::kFold;
    fold.data = {0, extent};
    const TermId step = terms.instruction(Op::kSubF, Scalar::kF64, {element, terms.instruction(Op::kNegF, Scalar::kF64, {before})});
    fold.args = {which, terms.real(Scalar::kF64, 0), step, plus(before, other)};
    return terms.make({Term::kResult, Op::kConstant, Scalar::kF64, {0}, {terms.make(fold)}});
  };
  const TermId inner = folded(4, flag, terms.load(1, Scalar::kF64, {terms.dimension(0, 4)}));
  const TermId nested = folded(3, counts, terms.instruction(Op::kMulF, Scalar::kF64, {inner, x}));

  for (uint32_t seed : {0u, 1u, 2u}) {
    uint64_t work = 10000;
    portable::TermValues values(terms, extents, seed, &work);
    auto at = [&](uint32_t tensor, int64_t index) { return values.at(terms.load(tensor, Scalar::kF64, {terms.integer(index)})).real; };
    double sum_x = 0, sum_y = 0;
    for (int64_t index = 1; index < 3; ++index) sum_x += at(0, index);
    for (int64_t index = 0; index < 4; ++index) sum_y += at(1, index);
    EXPECT_DOUBLE_EQ(values.at(contracted).real, at(1, 3) * sum_x);
    EXPECT_DOUBLE_EQ(values.at(nested).real, sum_y * sum_x);
  }
}

}  // namespace
