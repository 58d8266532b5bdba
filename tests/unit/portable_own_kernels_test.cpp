// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What drivers use to run portable code by kernels of their own: the form of products, what is offered and taken, and names that say what nodes compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heddle/sdk/portable/gemm.h"
#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/names.h"
#include "heddle/sdk/portable/text.h"

namespace portable = heddle::sdk::portable;
using portable::Expression;
using portable::NameCheck;
using portable::Op;
using portable::Scalar;

namespace {

// A kernel whose expressions are made as they are needed.
struct Builder {
  portable::Kernel kernel;

  uint32_t add(Expression e) {
    kernel.expressions.push_back(e);
    return static_cast<uint32_t>(kernel.expressions.size()) - 1;
  }
  uint32_t number(int64_t value) { return add({Expression::kConstant, value}); }
  uint32_t dim(int64_t value) { return add({Expression::kDimension, value}); }
  uint32_t sum(uint32_t a, uint32_t b) { return add({Expression::kAdd, 0, a, b}); }
  uint32_t times(uint32_t a, int64_t b) { return add({Expression::kMul, 0, a, number(b)}); }
  std::vector<uint32_t> numbers(const std::vector<int64_t>& values) {
    std::vector<uint32_t> out;
    for (int64_t value : values) out.push_back(number(value));
    return out;
  }
};

struct Convolution {
  int64_t strides[2] = {2, 1}, dilations[2] = {1, 2}, low[2] = {1, 2}, high[2] = {1, 1}, groups = 1;
};
constexpr int64_t kHeight = 9, kWidth = 8, kChannels = 4, kFilters = 6, kWindow[2] = {3, 2};

std::vector<int64_t> list(const int64_t (&values)[2]) {
  return {values[0], values[1]};
}

// relu(conv(image, weights)), as the compiler writes it.
portable::Kernel convolution(const Convolution& c) {
  Builder b;
  portable::Kernel& k = b.kernel;
  k.name = "conv";
  k.inputs = 2;
  k.outputs = 1;
  const int64_t in[2] = {kHeight, kWidth}, channels = kChannels / c.groups;
  int64_t out[2];
  for (int i = 0; i < 2; ++i) out[i] = (in[i] + c.low[i] + c.high[i] - c.dilations[i] * (kWindow[i] - 1) - 1) / c.strides[i] + 1;
  k.tensors = {{HEDDLE_TYPE_F32, b.numbers({2, kHeight, kWidth, kChannels})},
               {HEDDLE_TYPE_F32, b.numbers({kWindow[0], kWindow[1], channels, kFilters})},
               {HEDDLE_TYPE_F32, b.numbers({2, out[0], out[1], kFilters})}};
  portable::Node node;
  node.kind = portable::NodeKind::kContract;
  node.extents = b.numbers({2, out[0], out[1], kFilters, kWindow[0], kWindow[1], channels});
  node.reduced = 3;
  node.first_reads = 2;
  node.reads.resize(2);
  uint32_t places[2];
  for (int i = 0; i < 2; ++i) {
    places[i] = b.sum(b.sum(b.times(b.dim(1 + i), c.strides[i]), b.times(b.dim(4 + i), c.dilations[i])), b.number(-c.low[i]));
    node.within.push_back({places[i], b.number(in[i])});
  }
  uint32_t channel = b.dim(6);
  if (c.groups > 1) channel = b.sum(channel, b.times(b.add({Expression::kFloorDiv, 0, b.dim(3), b.number(kFilters / c.groups)}), channels));
  node.reads[0].place = {b.dim(0), places[0], places[1], channel};
  node.reads[1].tensor = 1;
  node.reads[1].place = {b.dim(4), b.dim(5), b.dim(6), b.dim(3)};
  node.bodies.resize(2);
  node.bodies[0].yields = {7, 8};
  node.bodies[1].instructions = {{Op::kConstant, Scalar::kF32}, {Op::kMaximumF, Scalar::kF32, 4, 5}};
  node.bodies[1].yields = {6};
  node.results = {2};
  k.nodes.push_back(node);
  k.ops = {{"conv",
            1,
            {{"dilations", list(c.dilations)},
             {"groups", c.groups},
             {"pads_high", list(c.high)},
             {"pads_low", list(c.low)},
             {"strides", list(c.strides)}},
            {k.tensors[2]},
            {0, 1}},
           {"relu", 1, {}, {k.tensors[2]}, {2}}};
  k.named_outputs = {3};
  std::string error;
  EXPECT_TRUE(portable::verify(&k, &error)) << error;
  return k;
}

std::vector<float> random(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
  return values;
}

// Computes a product one element after the other, exactly as its form says.
class Plain final : public portable::OwnKernels {
 public:
  bool with_symbols = true;  // whether calls are taken
  bool fails = false;

  portable::Answer takes(const portable::Offer& offer) const override {
    portable::Answer answer;
    answer.reason = "only products";
    if (offer.product && (with_symbols || !offer.has_symbols)) answer = {"plain", "for the test", 256, 0};
    return answer;
  }
  bool run(const portable::OwnCall& call, std::string* out_error) const override {
    if (fails) {
      *out_error = "it does not want to";
      return false;
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(call.workspace) % 64, 0u);
    std::fill_n(call.workspace, 256, 1);
    const portable::ProductForm& form = *call.offer.product;
    std::vector<int64_t> index(form.dims.size());
    sum(call, 0, index);
    return true;
  }

 private:
  void sum(const portable::OwnCall& call, size_t d, std::vector<int64_t>& index) const {
    const portable::ProductForm& form = *call.offer.product;
    if (d < index.size()) {
      const bool is_first = form.dims[d].group == portable::ProductDim::kDepth && (d == 0 || form.dims[d - 1].sums != 0);
      if (is_first) call.sums[place(form, index, 0, &portable::ProductDim::sums)] = 0;
      for (index[d] = 0; index[d] < form.dims[d].extent; ++index[d]) sum(call, d + 1, index);
      index[d] = 0;
      return;
    }
    for (const portable::ProductBound& bound : form.bounds) {
      int64_t at = bound.offset;
      for (size_t i = 0; i < index.size(); ++i) at += index[i] * bound.steps[i];
      if (at < 0 || at >= bound.bound) return;
    }
    const auto* left = reinterpret_cast<const float*>(call.tensors[form.left].data);
    const auto* right = reinterpret_cast<const float*>(call.tensors[form.right].data);
    call.sums[place(form, index, 0, &portable::ProductDim::sums)] +=
        left[place(form, index, form.left_offset, &portable::ProductDim::left)] *
        right[place(form, index, form.right_offset, &portable::ProductDim::right)];
  }
  static int64_t place(const portable::ProductForm& form, const std::vector<int64_t>& index, int64_t offset,
                       int64_t portable::ProductDim::* step) {
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * (form.dims[i].*step);
    return offset;
  }
};

std::vector<float> run(const portable::Program& program, portable::Program::Used* used, std::string* error,
                       const portable::Limits& limits = {}) {
  std::vector<uint64_t> bytes;
  EXPECT_TRUE(program.binding_bytes(nullptr, 0, &bytes, error)) << *error;
  std::vector<std::vector<float>> values;
  std::vector<portable::Memory> bindings;
  for (size_t i = 0; i < bytes.size(); ++i) values.push_back(random(bytes[i] / sizeof(float), static_cast<uint32_t>(i)));
  for (auto& each : values) bindings.push_back({reinterpret_cast<char*>(each.data()), each.size() * sizeof(float)});
  if (!program.run(bindings, nullptr, 0, error, limits, nullptr, used)) return {};
  return values.back();
}

TEST(PortableOwnKernels, FormsOfConvolutionsSayAllAboutThem) {
  const portable::Kernel kernel = convolution({});
  portable::ProductForm form;
  std::string reason;
  ASSERT_TRUE(portable::find_product(kernel, 0, nullptr, &form, &reason)) << reason;
  EXPECT_TRUE(form.is_convolution);
  EXPECT_EQ(form.bounds.size(), 4u) << "each of the two padded dimensions, as a place and as a bound of the node";
  using Dim = portable::ProductDim;
  const Dim::Group groups[] = {Dim::kRows, Dim::kRows, Dim::kRows, Dim::kColumns, Dim::kDepth, Dim::kDepth, Dim::kDepth};
  for (size_t d = 0; d < 7; ++d) EXPECT_EQ(form.dims[d].group, groups[d]) << d;
  EXPECT_EQ(form.dims[1].left, 2 * kWidth * kChannels);
  EXPECT_EQ(form.dims[5].left, 2 * kChannels);
  EXPECT_EQ(form.left_offset, -(kWidth + 2) * kChannels);
  // Groups of channels depend on a quotient.
  EXPECT_FALSE(portable::find_product(convolution({.groups = 2}), 0, nullptr, &form, &reason));
  EXPECT_NE(reason.find("no sum of multiples"), std::string::npos) << reason;
}

TEST(PortableOwnKernels, TakenNodesComputeTheSame) {
  std::string error;
  const portable::Program interpreted(convolution({}));
  portable::Program::Used used;
  const std::vector<float> expected = run(interpreted, &used, &error);
  EXPECT_EQ(used.interpreted, 1u);
  auto own = std::make_shared<Plain>();
  const portable::Program program(convolution({}), own);
  const std::vector<float> got = run(program, &used, &error);
  ASSERT_EQ(got.size(), expected.size()) << error;
  EXPECT_EQ(used.own, 1u);
  EXPECT_EQ(used.interpreted, 0u);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
  // Results take the place of their sums, so a call needs only what the kernel asks for.
  portable::Limits limits;
  limits.memory_bytes = 256;
  EXPECT_EQ(run(program, &used, &error, limits), got) << error;
  limits.memory_bytes = 255;
  EXPECT_TRUE(run(program, &used, &error, limits).empty());
  EXPECT_EQ(error, "node 0: kernel 'plain' needs 256 bytes, and sums of 0, and a call may take 255");

  own->fails = true;
  EXPECT_TRUE(run(program, &used, &error).empty());
  EXPECT_EQ(error, "node 0: it does not want to");
  const std::vector<portable::Part> parts = portable::parts_of(program.kernel(), own.get(), nullptr);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].what, "contract (convolution)");
  EXPECT_EQ(parts[0].answer.kernel, "plain");
  EXPECT_EQ(portable::parts_of(convolution({.groups = 2}), own.get(), nullptr)[0].answer.reason, "only products");
}

// Products by run_by_gemm, and a gemm that checks what it is asked for.
class ByGemm final : public portable::OwnKernels {
 public:
  std::string wrong;
  mutable uint32_t calls = 0;

  portable::Answer takes(const portable::Offer& offer) const override {
    if (!offer.product) return {};
    const std::string reason = portable::why_no_gemm(*offer.product);
    return {reason.empty() ? "gemm" : "", reason, 0, 0};
  }
  bool run(const portable::OwnCall& call, std::string* out_error) const override {
    return portable::run_by_gemm(
        call,
        [&](const portable::Gemm& g) {
          ++calls;
          EXPECT_GE(std::min({g.m, g.n, g.k}), 1);
          EXPECT_GE(g.lda, g.a_transposed ? g.m : g.k);
          EXPECT_GE(g.ldb, g.b_transposed ? g.k : g.n);
          EXPECT_GE(g.ldc, g.n);
          for (int64_t i = 0; i < g.m; ++i) {
            for (int64_t j = 0; j < g.n; ++j) {
              float sum = 0;
              for (int64_t k = 0; k < g.k; ++k)
                sum += g.a[g.a_transposed ? k * g.lda + i : i * g.lda + k] * g.b[g.b_transposed ? j * g.ldb + k : k * g.ldb + j];
              g.c[i * g.ldc + j] = sum;
            }
          }
          return wrong;
        },
        out_error);
  }
};

void expect_same_by_gemm(const portable::Kernel& kernel, const std::shared_ptr<ByGemm>& own) {
  std::string error;
  portable::Program::Used used;
  const std::vector<float> expected = run(portable::Program(kernel), &used, &error);
  const std::vector<float> got = run(portable::Program(kernel, own), &used, &error);
  ASSERT_EQ(got.size(), expected.size()) << error;
  ASSERT_EQ(used.own, 1u);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
}

TEST(PortableGemm, ConvolutionsAreGathered) {
  auto own = std::make_shared<ByGemm>();
  for (const Convolution& each : {Convolution{}, Convolution{.strides = {1, 1}, .dilations = {1, 1}, .low = {0, 0}, .high = {0, 0}},
                                  Convolution{.strides = {3, 2}, .dilations = {2, 1}, .low = {2, 0}, .high = {0, 2}}}) {
    expect_same_by_gemm(convolution(each), own);
  }
  EXPECT_EQ(own->calls, 3u) << "one for each: images are rows, too";
  own->wrong = "the library is tired";
  std::string error;
  EXPECT_TRUE(run(portable::Program(convolution({}), own), nullptr, &error).empty());
  EXPECT_EQ(error, "node 0: the library is tired");
}

// sums over k of left * right, where the dimensions b, m, n, k (0 to 3) are in these orders in memory.
portable::Kernel product(const std::vector<int64_t>& extents, const std::vector<uint32_t>& left, const std::vector<uint32_t>& right,
                         const std::vector<uint32_t>& result) {
  Builder b;
  portable::Kernel& k = b.kernel;
  k.name = "product";
  k.inputs = 2;
  k.outputs = 1;
  portable::Node node;
  node.kind = portable::NodeKind::kContract;
  std::vector<uint32_t> place(4);
  auto extents_of = [&](const std::vector<uint32_t>& dims) {
    std::vector<uint32_t> out;
    for (uint32_t dim : dims) out.push_back(b.number(extents[dim]));
    return out;
  };
  for (uint32_t i = 0; i < 3; ++i) place[result[i]] = b.dim(i);
  place[3] = b.dim(3);
  node.extents = extents_of(result);
  node.extents.push_back(b.number(extents[3]));
  node.reduced = 1;
  node.first_reads = 2;
  node.reads.resize(2);
  node.reads[1].tensor = 1;
  for (uint32_t dim : left) node.reads[0].place.push_back(place[dim]);
  for (uint32_t dim : right) node.reads[1].place.push_back(place[dim]);
  node.bodies.resize(2);
  node.bodies[0].yields = {4, 5};
  node.bodies[1].yields = {3};
  node.results = {2};
  k.tensors = {{HEDDLE_TYPE_F32, extents_of(left)}, {HEDDLE_TYPE_F32, extents_of(right)}, {HEDDLE_TYPE_F32, extents_of(result)}};
  k.nodes.push_back(node);
  std::string error;
  EXPECT_TRUE(portable::verify(&k, &error)) << error;
  return k;
}

TEST(PortableGemm, DimensionsMayBeInAnyOrder) {
  auto own = std::make_shared<ByGemm>();
  uint32_t asked = 0, count = 0;
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, 3, 4, 5}, {1, 3, 1, 5}, {3, 1, 4, 1}, {1, 1, 1, 1}, {2, 2, 2, 0}}) {
    std::vector<uint32_t> left = {0, 1, 3};
    do {
      std::vector<uint32_t> right = {0, 2, 3};
      do {
        std::vector<uint32_t> result = {0, 1, 2};
        do {
          own->calls = 0;
          expect_same_by_gemm(product(extents, left, right, result), own);
          if (HasFatalFailure()) return;
          asked += own->calls > 0;
          ++count;
        } while (std::next_permutation(result.begin(), result.end()));
      } while (std::next_permutation(right.begin(), right.end()));
    } while (std::next_permutation(left.begin(), left.end()));
  }
  EXPECT_EQ(count, 5 * 216u);
  EXPECT_EQ(asked, 4 * 216u) << "a depth of 0 needs no library";
}

// Of 6 elements: b = a + a, c = b * b, d = a - b, result = c + d.
portable::Kernel chain() {
  Builder b;
  portable::Kernel& k = b.kernel;
  k.name = "chain";
  k.inputs = k.outputs = 1;
  const uint32_t count = b.number(6);
  for (int i = 0; i < 5; ++i) k.tensors.push_back({HEDDLE_TYPE_F32, {count}});
  auto add = [&](Op op, std::vector<uint32_t> from, uint32_t to) {
    portable::Node node;
    node.extents = {count};
    for (uint32_t tensor : from) {
      node.reads.emplace_back();
      node.reads.back().tensor = tensor;
      node.reads.back().place = {b.dim(0)};
    }
    node.bodies.resize(1);
    node.bodies[0].instructions = {{op, Scalar::kF32, 1, from.size() > 1 ? 2u : 1u}};
    node.bodies[0].yields = {static_cast<uint32_t>(from.size()) + 1};
    node.results = {to};
    k.nodes.push_back(node);
  };
  add(Op::kAddF, {0}, 2);
  add(Op::kMulF, {2}, 3);
  add(Op::kSubF, {0, 2}, 4);
  add(Op::kAddF, {3, 4}, 1);
  std::string error;
  EXPECT_TRUE(portable::verify(&k, &error)) << error;
  return k;
}

// Takes the sets that the test names, and no node alone.
class Together final : public portable::OwnKernels {
 public:
  std::vector<std::vector<uint32_t>> named;
  bool with_symbols = true;
  mutable std::vector<std::vector<uint32_t>> ran;

  std::vector<std::vector<uint32_t>> sets(const portable::Kernel&) const override { return named; }
  portable::Answer takes(const portable::Offer& offer) const override {
    EXPECT_EQ(offer.node, offer.nodes[0]);
    if (offer.nodes.size() < 2 || (!with_symbols && offer.has_symbols)) return {{}, "only together", 0, 0};
    return {"together." + std::to_string(offer.nodes.size()), "for the test", 0, 0};
  }
  bool run(const portable::OwnCall& call, std::string*) const override {
    ran.push_back(call.offer.nodes);
    EXPECT_EQ(call.sums, nullptr);
    auto at = [&](uint32_t tensor) { return reinterpret_cast<float*>(call.tensors[tensor].data); };
    for (int i = 0; i < 6; ++i) {
      for (uint32_t node : call.offer.nodes) {
        if (node == 0) at(2)[i] = at(0)[i] + at(0)[i];
        if (node == 1) at(3)[i] = at(2)[i] * at(2)[i];
        if (node == 2) at(4)[i] = at(0)[i] - at(2)[i];
        if (node == 3) at(1)[i] = at(3)[i] + at(4)[i];
      }
    }
    return true;
  }
};

// Takes what names prove in a call, and keeps the symbols that it was given.
class ByName final : public portable::OwnKernels {
 public:
  mutable std::vector<std::vector<int64_t>> asked, ran;

  portable::Answer takes(const portable::Offer& offer) const override {
    asked.emplace_back(offer.symbols.begin(), offer.symbols.end());
    if (offer.has_symbols && portable::check_names(offer.kernel, asked.back())[0].verdict != portable::NameCheck::kAgrees) return {};
    return {"by_name", "for the test", 0, 0};
  }
  bool run(const portable::OwnCall& call, std::string*) const override {
    ran.emplace_back(call.offer.symbols.begin(), call.offer.symbols.end());
    for (int64_t i = 0; i < call.offer.symbols[1]; ++i)
      reinterpret_cast<float*>(call.tensors[1].data)[i] = -reinterpret_cast<const float*>(call.tensors[0].data)[i];
    return true;
  }
};

TEST(PortableOwnKernels, CallsHaveTheValuesOfSymbols) {
  Builder b;
  portable::Kernel& k = b.kernel;
  k.name = "neg";
  k.symbols = 2;
  k.inputs = k.outputs = 1;
  const uint32_t count = b.add({Expression::kSymbol, 1});
  k.tensors = {{HEDDLE_TYPE_F32, {count}}, {HEDDLE_TYPE_F32, {count}}};
  portable::Node node;
  node.extents = {count};
  node.reads.resize(1);
  node.reads[0].place = {b.dim(0)};
  node.bodies.resize(1);
  node.bodies[0].instructions = {{Op::kNegF, Scalar::kF32, 1}};
  node.bodies[0].yields = {2};
  node.results = {1};
  k.nodes = {node};
  k.ops = {{"neg", 1, {}, {k.tensors[1]}, {0}}};
  k.named_outputs = {1};
  std::string error;
  ASSERT_TRUE(portable::verify(&k, &error)) << error;
  auto own = std::make_shared<ByName>();
  const portable::Program program(k, own);
  float in[3] = {1, -2, 3}, out[3] = {};
  const int64_t symbols[2] = {7, 3};
  portable::Program::Used used;
  ASSERT_TRUE(program.run({{reinterpret_cast<char*>(in), sizeof in}, {reinterpret_cast<char*>(out), sizeof out}}, symbols, 2, &error, {},
                          nullptr, &used))
      << error;
  EXPECT_EQ(used.own, 1u);
  EXPECT_EQ(out[1], 2);
  using Lists = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(own->asked, (Lists{{}, {7, 3}}));
  EXPECT_EQ(own->ran, (Lists{{7, 3}}));
  portable::parts_of(k, own.get(), symbols);
  EXPECT_EQ(own->asked.back(), (std::vector<int64_t>{7, 3}));
}

TEST(PortableOwnKernels, SetsOfNodesRunTogether) {
  std::string error;
  portable::Program::Used used;
  const std::vector<float> expected = run(portable::Program(chain()), &used, &error);
  ASSERT_EQ(expected.size(), 6u) << error;
  using Set = std::vector<uint32_t>;
  struct Case {
    std::vector<Set> named, ran;
  };
  for (const Case& each :
       {Case{{{0, 1}}, {{0, 1}}}, Case{{{1, 3}}, {{1, 3}}}, Case{{{0, 1, 2, 3}}, {{0, 1, 2, 3}}}, Case{{{3, 2}, {0, 1}}, {{0, 1}, {2, 3}}},
        // Not convex; no sets; a node that another set has.
        Case{{{0, 3}}, {}}, Case{{{1}, {}, {2, 2}, {2, 9}}, {}}, Case{{{0, 1}, {1, 3}}, {{0, 1}}}}) {
    auto own = std::make_shared<Together>();
    own->named = each.named;
    const portable::Program program(chain(), own);
    EXPECT_EQ(run(program, &used, &error), expected) << error;
    EXPECT_EQ(own->ran, each.ran);
    EXPECT_EQ(used.own + used.interpreted, 4u);
  }
  auto own = std::make_shared<Together>();
  own->named = {{0, 3}, {1, 2}};
  const portable::Kernel kernel = chain();
  std::vector<portable::Part> parts = portable::parts_of(kernel, own.get(), nullptr);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_NE(parts[0].answer.reason.find("not convex"), std::string::npos) << parts[0].answer.reason;
  EXPECT_EQ(parts[1].nodes, (Set{1, 2}));
  EXPECT_EQ(parts[1].answer.kernel, "together.2");
  EXPECT_EQ(parts[1].what, "map, map");
}

TEST(PortableOwnKernels, RulesChooseByName) {
  auto own = std::make_shared<Together>();
  own->named = {{0, 1}};
  const portable::Kernel kernel = chain();
  auto kernel_of = [&](std::string_view pattern) {
    return portable::parts_of(kernel, portable::choose(own, pattern).get(), nullptr)[0].answer.kernel;
  };
  EXPECT_EQ(kernel_of(""), "together.2");
  EXPECT_EQ(kernel_of("together.*"), "together.2");
  EXPECT_EQ(kernel_of("interpreted"), "");
  EXPECT_EQ(kernel_of("other"), "");
  EXPECT_EQ(portable::choose(nullptr, "x"), nullptr);
  std::string error;
  portable::Program::Used used;
  const std::vector<float> expected = run(portable::Program(chain()), &used, &error);
  EXPECT_EQ(run(portable::Program(chain(), portable::choose(own, "interpreted")), &used, &error), expected);
  EXPECT_EQ(used.own, 0u);
  EXPECT_EQ(run(portable::Program(chain(), portable::choose(own, "together.?")), &used, &error), expected);
  EXPECT_EQ(used.own, 2u);
}

TEST(PortableText, SaysWhatAKernelComputes) {
  const std::string text = portable::text_of(convolution({}));
  for (const char* line :
       {"kernel conv: 2 inputs, 1 outputs, 0 symbols\n", "  tensor 1: f32[3, 2, 4, 6], input\n",
        "  op 0: conv/1 of tensor 0, tensor 1, dilations = [1, 2], groups = 1, ", ", strides = [2, 1] -> f32[2, 5, 9, 6]\n",
        "  op 1: relu/1 of op 0 -> f32[2, 5, 9, 6]\n  tensor 2 is op 1\n",
        "  node 0: contract over [i0 < 2, i1 < 5, i2 < 9, i3 < 6, i4 < 3 reduced, i5 < 2 reduced, i6 < 4 reduced], sums in f32, where 0 "
        "<= ",
        "      r0 = tensor 0[i0, i1 * 2 + i4 * 1 + -1, i2 * 1 + i5 * 2 + -2, i6]\n", "      v1 = maximum_f a0, v0: f32\n      yield v1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(PortableText, IsNoLongerThanTheCodeAllows) {
  Builder b;
  uint32_t doubled = b.add({Expression::kSymbol, 0});
  for (int i = 0; i < 60; ++i) doubled = b.sum(doubled, doubled);
  b.kernel.symbols = b.kernel.inputs = 1;
  b.kernel.tensors = {{HEDDLE_TYPE_F32, {doubled}}};
  std::string error;
  ASSERT_TRUE(portable::verify(&b.kernel, &error)) << error;
  const std::string text = portable::text_of(b.kernel);
  EXPECT_LT(text.size(), 20000u);
  EXPECT_NE(text.find("  e6 = s0 + s0"), std::string::npos) << text;
}

NameCheck::Verdict verdict(const portable::Kernel& kernel) {
  return portable::check_names(kernel, {})[0].verdict;
}

TEST(PortableNames, AttributesAreNumbers) {
  using Integers = std::vector<int64_t>;
  const portable::NamedOp op = {
      "x", 1, {{"half", 0.5}, {"none", Integers{}}, {"one", int64_t{7}}, {"some", Integers{1, -2}}, {"text", "7"}, {"yes", true}}, {}, {}};
  std::vector<int64_t> values;
  EXPECT_TRUE(portable::integers_of(op, "one", &values) && values == std::vector<int64_t>{7});
  EXPECT_TRUE(portable::integers_of(op, "yes", &values) && values == std::vector<int64_t>{1});
  EXPECT_TRUE(portable::integers_of(op, "none", &values) && values.empty());
  EXPECT_TRUE(portable::integers_of(op, "some", &values) && values == (std::vector<int64_t>{1, -2}));
  EXPECT_FALSE(portable::integers_of(op, "half", &values));
  EXPECT_FALSE(portable::integers_of(op, "text", &values));
  EXPECT_FALSE(portable::integers_of(op, "absent", &values));
}

// Each of these nodes reads the one before at two places, so that expressions would have 2^50 terms.
TEST(PortableNames, WorkIsBounded) {
  Builder b;
  portable::Kernel& k = b.kernel;
  k.inputs = k.outputs = 1;
  constexpr uint32_t kNodes = 50;
  const uint32_t count = b.number(64), sheared = b.add({Expression::kMod, 0, b.sum(b.dim(0), b.dim(1)), b.number(64)});
  for (uint32_t i = 0; i < kNodes + 1; ++i) k.tensors.push_back({HEDDLE_TYPE_F32, {count, count}});
  for (uint32_t i = 0; i < kNodes; ++i) {
    portable::Node node;
    node.extents = {count, count};
    node.reads.resize(2);
    for (portable::Read& read : node.reads) read.tensor = i == 0 ? 0 : i + 1;
    node.reads[0].place = {sheared, b.dim(1)};
    node.reads[1].place = {b.dim(0), sheared};
    node.bodies.resize(1);
    node.bodies[0].instructions = {{Op::kAddF, Scalar::kF32, 2, 3}};
    node.bodies[0].yields = {4};
    node.results = {i + 1 < kNodes ? i + 2 : 1};
    k.nodes.push_back(node);
  }
  k.ops = {{"neg", 1, {}, {k.tensors[0]}, {0}}};
  k.named_outputs = {1};
  std::string error;
  ASSERT_TRUE(portable::verify(&k, &error)) << error;
  const std::vector<NameCheck> checks = portable::check_names(k, {});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].verdict, NameCheck::kUnknown);
  EXPECT_NE(checks[0].reason.find("too large"), std::string::npos) << checks[0].reason;
  // Names that do not say what the outputs are, or whose operands come later.
  k.named_outputs.clear();
  EXPECT_TRUE(portable::verify(&k, &error)) << error;
  EXPECT_EQ(verdict(k), NameCheck::kUnknown);
  k.ops[0].operands = {1};
  EXPECT_FALSE(portable::verify(&k, &error));
  EXPECT_NE(error.find("no result of an earlier op"), std::string::npos) << error;
  k.ops[0].operands = {0};
  k.named_outputs = {2};
  EXPECT_FALSE(portable::verify(&k, &error));
}

// A name with another attribute, or a node with another constant, is never found to agree.
TEST(PortableNames, WhatDisagreesIsFound) {
  for (int64_t groups : {1, 2}) {
    const portable::Kernel right = convolution({.groups = groups});
    ASSERT_EQ(verdict(right), NameCheck::kAgrees) << portable::check_names(right, {})[0].reason;
    size_t changed = 0;
    for (size_t a = 0; a < right.ops[0].attributes.size(); ++a) {
      using Integers = std::vector<int64_t>;
      for (const portable::AttributeValue& value :
           std::vector<portable::AttributeValue>{Integers{1, 1}, Integers{3, 1}, Integers{2, 2}, Integers{0, 0}, Integers{-1, 1},
                                                 int64_t{1}, int64_t{2}, int64_t{4}, int64_t{0}}) {
        if (value.index() != right.ops[0].attributes[a].value.index()) continue;
        portable::Kernel kernel = right;
        std::vector<int64_t> before, after;
        ASSERT_TRUE(portable::integers_of(right.ops[0], right.ops[0].attributes[a].name, &before));
        kernel.ops[0].attributes[a].value = value;
        ASSERT_TRUE(portable::integers_of(kernel.ops[0], right.ops[0].attributes[a].name, &after));
        if (before == after || before.size() != after.size()) continue;
        ++changed;
        // Padding at the end that a step does not reach computes the same.
        const bool same = right.ops[0].attributes[a].name == "pads_high" && after[1] == before[1] &&
                          (kHeight + 1 + after[0] - 3) / 2 == (kHeight + 1 + before[0] - 3) / 2;
        EXPECT_EQ(verdict(kernel), same ? NameCheck::kAgrees : NameCheck::kDisagrees) << portable::text_of(kernel);
      }
    }
    EXPECT_GT(changed, 15u);
    for (size_t e = 0; e < right.expressions.size(); ++e) {
      if (right.expressions[e].kind != Expression::kConstant && right.expressions[e].kind != Expression::kDimension) continue;
      portable::Kernel kernel = right;
      kernel.expressions[e].value =
          right.expressions[e].kind == Expression::kConstant ? right.expressions[e].value + 1 : (right.expressions[e].value + 1) % 7;
      EXPECT_NE(verdict(kernel), NameCheck::kAgrees) << "expression " << e;
    }
    portable::Kernel kernel = right;
    std::swap(kernel.nodes[0].reads[0], kernel.nodes[0].reads[1]);
    EXPECT_EQ(verdict(kernel), NameCheck::kAgrees) << "factors may have any order";
    kernel = right;
    kernel.nodes[0].within.pop_back();
    EXPECT_NE(verdict(kernel), NameCheck::kAgrees) << "without a bound";
    kernel = right;
    kernel.ops[0].name = "matmul";
    EXPECT_NE(verdict(kernel), NameCheck::kAgrees);
    kernel.ops[0].name = "gelu";
    EXPECT_EQ(verdict(kernel), NameCheck::kUnknown);
    // Of another version, or with attributes that the op does not have, it is no op that the library knows.
    kernel = right;
    kernel.ops[0].version = 2;
    EXPECT_EQ(verdict(kernel), NameCheck::kUnknown);
    kernel = right;
    kernel.ops[0].attributes[1].value = 1.0;
    EXPECT_EQ(verdict(kernel), NameCheck::kUnknown);
  }
}

}  // namespace
