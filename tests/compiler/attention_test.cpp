// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax between two products, as one kernel.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>

#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/online_softmax.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "mlir/IR/Diagnostics.h"
#include "tests/compiler/amdgpu_run.h"
#include "tests/compiler/expected.h"
#include "tests/compiler/kernel_run.h"

namespace heddle::tests {
namespace {

struct Shape {
  int64_t batch, heads, queries, keys, depth, columns;
};

// Symbols of a region, as extents of a shape.
constexpr int64_t s0 = -1, s1 = -2, s2 = -3;

std::string type(std::initializer_list<int64_t> extents, const std::string& element) {
  std::string text, dims;
  bool is_known = true;
  for (int64_t extent : extents) {
    is_known &= extent >= 0;
    text += (extent < 0 ? "?" : std::to_string(extent)) + "x";
    dims += (dims.empty() ? "" : ", ") + (extent < 0 ? "s" + std::to_string(-1 - extent) : std::to_string(extent));
  }
  return text + element + (is_known ? "" : ", #tx.dims<()[s0, s1, s2] -> (" + dims + ")>");
}

// softmax(q / 2 * k^T + mask) * v with [batch, rows, heads, columns] in and out, as layers of transformers have it: operands are transposed inside, and
// rows that are masked whole are 0. `mask` is of [batch, 1, 1, keys], or of [1, 1, queries, keys].
std::string attention(const Shape& s, const std::string& element, bool causal) {
  auto [b, h, m, n, d, c] = s;
  auto t = [&](std::initializer_list<int64_t> extents) { return "tensor<" + type(extents, element) + ">"; };
  std::string q = type({b, m, h, d}, element), k = type({b, n, h, d}, element), v = type({b, n, h, c}, element),
              mask = causal ? type({1, 1, m, n}, element) : type({b, 1, 1, n}, element), out = type({b, m, h, c}, element);
  auto repeated = [&](const std::string& name, const std::string& value, const std::string& to) {
    return "\n%" + name + "0 = tx.constant dense<" + value + "> : tensor<" + element + ">\n%" + name + " = tx.broadcast %" + name +
           "0 {dimensions = array<i64>} : tensor<" + element + "> -> " + to;
  };
  std::string scores = t({b, h, m, n}), bools = "tensor<" + type({b, h, m, n}, "i1") + ">";
  std::string body = "%q = tx.transpose %0 {permutation = array<i64: 0, 2, 1, 3>} : tensor<" + q + "> -> " + t({b, h, m, d}) +
                     repeated("half", "0.5", t({b, h, m, d})) + "\n%qs = tx.mul %q, %half : " + t({b, h, m, d}) +
                     "\n%k = tx.transpose %1 {permutation = array<i64: 0, 2, 3, 1>} : tensor<" + k + "> -> " + t({b, h, d, n}) +
                     "\n%v = tx.transpose %2 {permutation = array<i64: 0, 2, 1, 3>} : tensor<" + v + "> -> " + t({b, h, n, c}) +
                     "\n%s = tx.matmul %qs, %k : " + t({b, h, m, d}) + ", " + t({b, h, d, n}) + " -> " + scores +
                     "\n%mask = tx.broadcast %3 {dimensions = array<i64: 0, 1, 2, 3>} : tensor<" + mask + "> -> " + scores +
                     "\n%masked = tx.add %s, %mask : " + scores + "\n%p = tx.softmax %masked {axis = 3 : i64} : " + scores +
                     "\n%nan = tx.compare ne %p, %p : " + scores + " -> " + bools + repeated("zero", "0.0", scores) +
                     "\n%w = tx.select %nan, %zero, %p : " + bools + ", " + scores + "\n%o = tx.matmul %w, %v : " + scores + ", " +
                     t({b, h, n, c}) + " -> " + t({b, h, m, c}) +
                     "\n%y = tx.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : " + t({b, h, m, c}) + " -> tensor<" + out +
                     ">\ntx.yield %y : tensor<" + out + ">";
  bool is_known = b >= 0 && m >= 0 && n >= 0;
  return region_text({q, k, v, mask}, {out}, body, "", is_known ? std::vector<std::string>() : std::vector<std::string>{"b", "m", "n"});
}

// softmax(q * k^T / 2 + mask) * v of operands in `stored`, computed in f32 and rounded at the end, as scaled_dot_product_attention of PyTorch is traced.
std::string cast_attention(const Shape& s, const std::string& stored, const std::string& result = {}) {
  const std::string& out = result.empty() ? stored : result;
  auto [b, h, m, n, d, c] = s;
  auto t = [&](std::initializer_list<int64_t> extents, const std::string& element) { return "tensor<" + type(extents, element) + ">"; };
  auto cast = [&](const std::string& name, int operand, std::initializer_list<int64_t> from, const std::string& order,
                  std::initializer_list<int64_t> to) {
    return "%" + name + "f = tx.cast %" + std::to_string(operand) + " : " + t(from, stored) + " -> " + t(from, "f32") + "\n%" + name +
           " = tx.transpose %" + name + "f {permutation = array<i64: " + order + ">} : " + t(from, "f32") + " -> " + t(to, "f32") + "\n";
  };
  const std::string scores = t({b, h, m, n}, "f32"), results = t({b, h, m, c}, "f32"), rows = t({b, m, h, c}, "f32");
  const std::string body = cast("q", 0, {b, m, h, d}, "0, 2, 1, 3", {b, h, m, d}) + cast("k", 1, {b, n, h, d}, "0, 2, 3, 1", {b, h, d, n}) +
                           cast("v", 2, {b, n, h, c}, "0, 2, 1, 3", {b, h, n, c}) + "%s = tx.matmul %q, %k : " + t({b, h, m, d}, "f32") +
                           ", " + t({b, h, d, n}, "f32") + " -> " + scores + "\n%half0 = tx.constant dense<0.5> : tensor<f32>\n" +
                           "%half = tx.broadcast %half0 {dimensions = array<i64>} : tensor<f32> -> " + scores +
                           "\n%scaled = tx.mul %s, %half : " + scores +
                           "\n%mask = tx.broadcast %3 {dimensions = array<i64: 0, 1, 2, 3>} : " + t({b, 1, 1, n}, "f32") + " -> " + scores +
                           "\n%masked = tx.add %scaled, %mask : " + scores + "\n%w = tx.softmax %masked {axis = 3 : i64} : " + scores +
                           "\n%o = tx.matmul %w, %v : " + scores + ", " + t({b, h, n, c}, "f32") + " -> " + results +
                           "\n%r = tx.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : " + results + " -> " + rows +
                           "\n%y = tx.cast %r : " + rows + " -> " + t({b, m, h, c}, out) + "\ntx.yield %y : " + t({b, m, h, c}, out);
  return region_text({type({b, m, h, d}, stored), type({b, n, h, d}, stored), type({b, n, h, c}, stored), type({b, 1, 1, n}, "f32")},
                     {type({b, m, h, c}, out)}, body);
}

// The same without a mask, of operands and results that are quantized to `integers`, as DequantizeLinear and QuantizeLinear have it: (x - zero) * scale,
// and round(y / 0.02) + zero. Queries that are not quantized, as those of a decoder whose keys and values are cached, give results that are not.
// With `is_real`, operands are of the element, as DequantizeLinear gives them.
std::string quantized_attention(const Shape& s, const std::string& element, const std::string& integers, bool with_queries,
                                bool is_real = false) {
  auto [b, h, m, n, d, c] = s;
  const std::string zero = integers == "i8" ? "3.0" : "131.0";
  auto t = [&](std::initializer_list<int64_t> extents, const std::string& of) { return "tensor<" + type(extents, of) + ">"; };
  auto repeated = [&](const std::string& name, const std::string& value, const std::string& to) {
    return "\n%" + name + "0 = tx.constant dense<" + value + "> : tensor<" + element + ">\n%" + name + " = tx.broadcast %" + name +
           "0 {dimensions = array<i64>} : tensor<" + element + "> -> " + to;
  };
  auto real = [&](const std::string& name, int operand, const std::string& scale, std::initializer_list<int64_t> extents) {
    const std::string to = t(extents, element);
    if (is_real) return "\n%" + name + "r = tx.cast %" + std::to_string(operand) + " : " + to + " -> " + to;
    return "\n%" + name + "i = tx.cast %" + std::to_string(operand) + " : " + t(extents, integers) + " -> " + to +
           repeated(name + "z", zero, to) + "\n%" + name + "d = tx.sub %" + name + "i, %" + name + "z : " + to +
           repeated(name + "s", scale, to) + "\n%" + name + "r = tx.mul %" + name + "d, %" + name + "s : " + to;
  };
  const std::string scores = t({b, h, m, n}, element), results = t({b, h, m, c}, element), stored = with_queries ? integers : element;
  std::string body = with_queries ? real("q", 0, "0.02", {b, m, h, d}) + "\n" : std::string();
  body += "%q = tx.transpose " + std::string(with_queries ? "%qr" : "%0") +
          " {permutation = array<i64: 0, 2, 1, 3>} : " + t({b, m, h, d}, element) + " -> " + t({b, h, m, d}, element) +
          real("k", 1, "0.01", {b, n, h, d}) +
          "\n%k = tx.transpose %kr {permutation = array<i64: 0, 2, 3, 1>} : " + t({b, n, h, d}, element) + " -> " +
          t({b, h, d, n}, element) + real("v", 2, "0.03", {b, n, h, c}) +
          "\n%v = tx.transpose %vr {permutation = array<i64: 0, 2, 1, 3>} : " + t({b, n, h, c}, element) + " -> " +
          t({b, h, n, c}, element) + "\n%s = tx.matmul %q, %k : " + t({b, h, m, d}, element) + ", " + t({b, h, d, n}, element) + " -> " +
          scores + "\n%w = tx.softmax %s {axis = 3 : i64} : " + scores + "\n%o = tx.matmul %w, %v : " + scores + ", " +
          t({b, h, n, c}, element) + " -> " + results;
  if (with_queries) {
    body += repeated("os", "0.02", results) + "\n%od = tx.div %o, %os : " + results + "\n%or = tx.round %od : " + results +
            repeated("oz", zero, results) + "\n%oa = tx.add %or, %oz : " + results + "\n%y = tx.cast %oa : " + results + " -> " +
            t({b, h, m, c}, stored);
  } else {
    body += "\n%y = tx.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : " + results + " -> " + t({b, m, h, c}, stored);
  }
  const std::string out = with_queries ? type({b, h, m, c}, stored) : type({b, m, h, c}, stored);
  bool is_known = b >= 0 && m >= 0 && n >= 0;
  const std::string operands = is_real ? element : integers;
  return region_text({type({b, m, h, d}, with_queries ? operands : element), type({b, n, h, d}, operands), type({b, n, h, c}, operands)},
                     {out}, body + "\ntx.yield %y : tensor<" + out + ">", "",
                     is_known ? std::vector<std::string>() : std::vector<std::string>{"b", "m", "n"});
}

CheckOptions options_of(double tolerance) {
  CheckOptions options;
  options.strategy = "attention";
  options.relative = options.absolute = tolerance;
  options.on_amdgpu = false;  // see RunsOnAmdGpus
  return options;
}

TEST(Attention, IsOneKernel) {
  for (const Shape& s : {Shape{2, 3, 16, 16, 8, 8},
                         {1, 2, 128, 128, 64, 64},
                         {1, 2, 7, 197, 24, 40},
                         {2, 1, 1, 33, 16, 16},
                         {1, 1, 300, 5, 3, 5},
                         {1, 2, 20, 30, 8, 1},
                         {1, 2, 9, 200, 1, 16}}) {
    SCOPED_TRACE(s.queries);
    for (bool causal : {false, true}) check_region(attention(s, "f32", causal), options_of(1e-5));
  }
}

// Queries and keys are halves of one operand, and rotated as positions ask for: x * cos + (-x2, x1) * sin.
TEST(Attention, RotatesQueriesAndKeys) {
  const std::string half = "tensor<2x40x32xf32>", quarter = "tensor<2x40x16xf32>";
  auto rotated = [&](const std::string& name, int start) {
    auto slice = [&](const std::string& result, const std::string& from, const std::string& type, int at, const std::string& to) {
      return "%" + result + name + " = tx.slice " + from + " {starts = array<i64: 0, 0, " + std::to_string(at) +
             ">, strides = array<i64: 1, 1, 1>} : " + type + " -> " + to + "\n";
    };
    std::string x = "%x" + name;
    return slice("x", "%0", "tensor<2x40x64xf32>", start, half) + slice("a", x, half, 0, quarter) + slice("b", x, half, 16, quarter) +
           "%n" + name + " = tx.neg %b" + name + " : " + quarter + "\n%c" + name + " = tx.concat %n" + name + ", %a" + name +
           " {axis = 2} : " + quarter + ", " + quarter + " -> " + half + "\n%p" + name + " = tx.mul " + x + ", %cos : " + half + "\n%s" +
           name + " = tx.mul %c" + name + ", %sin : " + half + "\n%" + name + " = tx.add %p" + name + ", %s" + name + " : " + half + "\n";
  };
  auto repeated = [&](const std::string& name, int operand) {
    return "%" + name + " = tx.broadcast %" + std::to_string(operand) + " {dimensions = array<i64: 1, 2>} : tensor<40x32xf32> -> " + half +
           "\n";
  };
  check_region(region_text({"2x40x64xf32", "40x32xf32", "40x32xf32", "2x40x16xf32"}, {"2x40x16xf32"},
                           repeated("cos", 1) + repeated("sin", 2) + rotated("q", 0) + rotated("k", 32) +
                               "%kt = tx.transpose %k {permutation = array<i64: 0, 2, 1>} : " + half + " -> tensor<2x32x40xf32>\n" +
                               "%s = tx.matmul %q, %kt : " + half + ", tensor<2x32x40xf32> -> tensor<2x40x40xf32>\n" +
                               "%w = tx.softmax %s {axis = 2 : i64} : tensor<2x40x40xf32>\n" +
                               "%y = tx.matmul %w, %3 : tensor<2x40x40xf32>, tensor<2x40x16xf32> -> tensor<2x40x16xf32>\n" +
                               "tx.yield %y : tensor<2x40x16xf32>"),
               options_of(1e-5));
}

// More keys than the scores of all queries have room for.
TEST(Attention, TakesQueriesInParts) {
  check_region(attention({1, 1, 70, 3000, 16, 16}, "f32", false), options_of(1e-5));
}

TEST(Attention, TakesAnyNumberOfQueriesAndKeys) {
  for (const std::vector<int64_t>& symbols :
       std::vector<std::vector<int64_t>>{{1, 1, 1}, {2, 7, 9}, {1, 64, 64}, {1, 128, 130}, {3, 1, 77}, {1, 70, 3000}}) {
    SCOPED_TRACE(symbols[2]);
    CheckOptions options = options_of(1e-5);
    options.symbols = symbols;
    for (bool causal : {false, true}) check_region(attention({s0, 2, s1, s2, 24, 40}, "f32", causal), options);
  }
  CheckOptions options = options_of(1e-5);
  options.symbols = {2, 5, 50};
  check_region(attention({s0, 2, 33, s2, 16, 16}, "f32", true), options);
  check_region(attention({s0, 2, s1, 33, 16, 16}, "f32", false), options);
  check_region(attention({2, 2, s1, s2, 16, 1}, "f32", false), options);
}

// More keys than the workspace has room for when they are packed.
TEST(Attention, TakesManyKeysRowByRow) {
  CheckOptions options = options_of(1e-5);
  options.symbols = {1, 3, 70001};
  check_region(attention({s0, 1, s1, s2, 20, 18}, "f32", false), options);
  check_region(attention({s0, 1, s1, s2, 20, 1}, "f32", true), options);
}

// Sums are of f32, what is multiplied is rounded. Few and many queries, in tiles of each size that GPUs have.
class AttentionInHalfPrecision : public testing::TestWithParam<Shape> {};

TEST_P(AttentionInHalfPrecision, IsOneKernel) {
  check_region(attention(GetParam(), "f16", false), options_of(4e-3));
  check_region(attention(GetParam(), "bf16", true), options_of(3e-2));
}

// Results are those of f32, rounded: within a unit in the last place, of numbers of which some are near zero.
TEST_P(AttentionInHalfPrecision, IsCastToF32AndBack) {
  for (auto [element, step] : {std::pair{"f16", 0x1p-10}, {"bf16", 0x1p-7}}) {
    CheckOptions options = options_of(1e-5);
    options.relative = step * 1.01;
    check_region(cast_attention(GetParam(), element), options);
  }
}

// On CUDA by tensor cores, if nothing wider than f16 or bf16 goes in or comes out.
TEST(Attention, BetweenCastsIsOnTensorCores) {
  auto rung = [](std::string text) {
    ParsedRegion parsed(text);
    auto kernel = compile_region(*targets::make_cuda_target("sm_90a", targets::Math::strict), parsed.region(), "attention");
    EXPECT_TRUE(kernel);
    return kernel ? kernel->resources.rung : std::string();
  };
  auto with = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  const std::string cast = cast_attention({1, 2, 20, 50, 16, 16}, "bf16");
  const std::string parts = "weights in two parts";
  EXPECT_NE(rung(cast).find(parts), std::string::npos);
  EXPECT_EQ(rung(attention({1, 2, 20, 50, 16, 16}, "bf16", false)).find(parts), std::string::npos) << "products of bf16";
  EXPECT_EQ(rung(attention({1, 2, 20, 50, 16, 16}, "f32", false)).find(parts), std::string::npos) << "products of f32";
  EXPECT_EQ(rung(cast_attention({1, 2, 20, 50, 16, 16}, "bf16", "f32")).find(parts), std::string::npos) << "results that are not rounded";
  // Scaled queries are no numbers of bf16.
  const std::string queries = "tensor<1x2x20x16xf32>";
  const std::string scaled =
      with(with(cast, "%s = tx.matmul %q,",
                "%two0 = tx.constant dense<3.0> : tensor<f32>\n%two = tx.broadcast %two0 {dimensions = array<i64>} : tensor<f32> -> " +
                    queries + "\n%q3 = tx.mul %q, %two : " + queries + "\n%s = tx.matmul %q,"),
           "tx.matmul %q,", "tx.matmul %q3,");
  EXPECT_EQ(rung(scaled).find(parts), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionInHalfPrecision,
                         testing::Values(Shape{1, 2, 20, 50, 16, 16}, Shape{1, 2, 20, 200, 64, 64}, Shape{8, 16, 65, 70, 32, 16},
                                         Shape{8, 16, 40, 64, 40, 24}, Shape{2, 1, 33, 100, 256, 256}, Shape{1, 1, 5, 7, 3, 5}));

TEST(Attention, TakesManyRowsOnGpus) {
  for (const Shape& s : {Shape{8, 16, 33, 70, 16, 16}, {8, 16, 17, 64, 128, 20}, {16, 16, 9, 10, 8, 136}}) {
    SCOPED_TRACE(s.depth);
    check_region(attention(s, "f32", true), options_of(1e-5));
  }
}

// A mask that follows from indices: a query sees keys up to its own index plus `ahead`, and what it does not see gets `outside` added, or instead.
std::string causal(int64_t batch, int64_t queries, int64_t keys, int64_t ahead, const std::string& element, const std::string& outside,
                   bool is_added) {
  auto tensor = [](std::initializer_list<int64_t> extents, const std::string& of) {
    std::string text = "tensor<";
    for (int64_t extent : extents) text += std::to_string(extent) + "x";
    return text + of + ">";
  };
  std::string q = tensor({batch, queries, 16}, element), kt = tensor({batch, 16, keys}, element), v = tensor({batch, keys, 16}, element),
              scores = tensor({batch, queries, keys}, element), bools = tensor({batch, queries, keys}, "i1"),
              places = tensor({batch, queries, keys}, "i64");
  auto repeated = [](const std::string& name, const std::string& value, const std::string& of, const std::string& to) {
    return "%" + name + "0 = tx.constant dense<" + value + "> : tensor<" + of + ">\n%" + name + " = tx.broadcast %" + name +
           "0 {dimensions = array<i64>} : tensor<" + of + "> -> " + to + "\n";
  };
  auto tail = [](const std::string& type) { return type.substr(7, type.size() - 8); };
  return region_text(
      {tail(q), tail(kt), tail(v)}, {tail(q)},
      "%s = tx.matmul %0, %1 : " + q + ", " + kt + " -> " + scores + "\n%i = tx.iota {dimension = 1 : i64} : " + places +
          "\n%j = tx.iota {dimension = 2 : i64} : " + places + "\n" + repeated("ahead", std::to_string(ahead), "i64", places) +
          "%last = tx.add %i, %ahead : " + places + "\n%sees = tx.compare le %j, %last : " + places + " -> " + bools + "\n" +
          repeated("none", outside, element, scores) + repeated("zero", "0.0", element, scores) +
          (is_added ? "%mask = tx.select %sees, %zero, %none : " + bools + ", " + scores + "\n%masked = tx.add %s, %mask : " + scores
                    : "%masked = tx.select %sees, %s, %none : " + bools + ", " + scores) +
          "\n%w = tx.softmax %masked {axis = 2 : i64} : " + scores + "\n%y = tx.matmul %w, %2 : " + scores + ", " + v + " -> " + q +
          "\ntx.yield %y : " + q);
}

// How many keys behind its own a query of this region is known to see; nothing if all may count.
std::optional<int64_t> keys_ahead(const std::string& text) {
  ParsedRegion parsed(text);
  auto shape = targets::AttentionShape::read(parsed.region(), "test");
  if (mlir::failed(shape)) return -1000;
  auto softmax = targets::OnlineSoftmax::read(*shape, "test");
  if (mlir::failed(softmax)) return -2000;
  return softmax->keys_ahead ? tx::static_extent(*softmax->keys_ahead) : std::nullopt;
}

TEST(OnlineSoftmax, KnowsWhichKeysCount) {
  for (bool is_added : {false, true}) {
    EXPECT_EQ(keys_ahead(causal(2, 30, 30, 0, "f32", "0xFF800000", is_added)), 0);
    EXPECT_EQ(keys_ahead(causal(2, 30, 30, 5, "f32", "-1.0e+38", is_added)), 5);
    EXPECT_EQ(keys_ahead(causal(2, 30, 30, -3, "f32", "0xFF800000", is_added)), -3);
    EXPECT_EQ(keys_ahead(causal(2, 30, 30, -3, "f32", "-1.0e+38", is_added)), std::nullopt)
        << "rows that see nothing are of all keys alike";
    EXPECT_EQ(keys_ahead(causal(2, 30, 30, 0, "f32", "-1.0e+9", is_added)), std::nullopt) << "scores may be as far from each other";
  }
  EXPECT_EQ(keys_ahead(attention({1, 1, 30, 30, 16, 16}, "f32", true)), std::nullopt);
}

// `text` with more between the masked scores, %masked, and the softmax, which is of %more.
std::string with_more(std::string text, const std::string& more, const std::string& operand) {
  const std::string softmax = "%w = tx.softmax %masked";
  text.replace(text.find(softmax), softmax.size(), more + "\n%w = tx.softmax %more");
  if (operand.empty()) return text;
  for (const char* list : {"(%a0: ", "(%0: "}) {
    size_t at = text.find(list);
    text.insert(at + 1, std::string(list).substr(1, 2) == "%a" ? "%a9: tensor<" + operand + ">, " : "%9: tensor<" + operand + ">, ");
  }
  size_t call = text.find("(%a0, ");
  text.insert(call + 1, "%a9, ");
  size_t types = text.find(" : (tensor<", call);
  text.insert(types + 4, "tensor<" + operand + ">, ");
  return text;
}

// A key that a query sees may be masked by something else.
TEST(OnlineSoftmax, AsksForKeysThatCountWithoutCondition) {
  const std::string type = "tensor<2x30x30xf32>", more = "%more = tx.add %masked, %9 : " + type;
  EXPECT_EQ(keys_ahead(with_more(causal(2, 30, 30, 0, "f32", "-1.0e+38", false), more, "2x30x30xf32")), std::nullopt);
  EXPECT_EQ(keys_ahead(with_more(causal(2, 30, 30, 0, "f32", "0xFF800000", false), more, "2x30x30xf32")), 0);
}

// Values that are read twice again and again, as x * x is.
TEST(OnlineSoftmax, LooksAtEachValueOnce) {
  const std::string type = "tensor<2x30x30xf32>";
  std::string more = "%m0 = tx.relu %masked : " + type;
  for (int i = 1; i < 40; ++i)
    more += "\n%m" + std::to_string(i) + " = tx.mul %m" + std::to_string(i - 1) + ", %m" + std::to_string(i - 1) + " : " + type;
  more += "\n%more = tx.neg %m39 : " + type;
  EXPECT_EQ(keys_ahead(with_more(causal(2, 30, 30, 0, "f32", "0xFF800000", false), more, "")), std::nullopt);
}

// Tensor cores multiply what the graph multiplies in that type, not what is of it before a cast.
TEST(OnlineSoftmax, MultipliesInTheTypeOfTheGraph) {
  const std::string wide = "tensor<1x20x16xf32>";
  auto cast = [&](const std::string& name, const std::string& operand) {
    return "%" + name + " = tx.cast " + operand + " : tensor<1x20x16xf16> -> " + wide + "\n";
  };
  const std::string text = region_text({"1x20x16xf16", "1x20x16xf16", "1x20x16xf16"}, {"1x20x16xf32"},
                                       cast("q", "%0") + cast("k", "%1") + cast("v", "%2") +
                                           "%kt = tx.transpose %k {permutation = array<i64: 0, 2, 1>} : " + wide +
                                           " -> tensor<1x16x20xf32>\n%s = tx.matmul %q, %kt : " + wide +
                                           ", tensor<1x16x20xf32> -> tensor<1x20x20xf32>\n%w = tx.softmax %s {axis = 2 : i64} : "
                                           "tensor<1x20x20xf32>\n%y = tx.matmul %w, %v : "
                                           "tensor<1x20x20xf32>, " +
                                           wide + " -> " + wide + "\ntx.yield %y : " + wide);
  ParsedRegion parsed(text);
  auto shape = targets::AttentionShape::read(parsed.region(), "test");
  ASSERT_TRUE(mlir::succeeded(shape));
  EXPECT_TRUE(shape->element.isF32());
  check_region(text, options_of(1e-5));
}

TEST(Attention, LeavesOutKeysThatNoQuerySees) {
  for (bool is_added : {false, true}) {
    check_region(causal(2, 200, 200, 0, "f32", "0xFF800000", is_added), options_of(1e-5));
    check_region(causal(2, 70, 150, 80, "f32", "-1.0e+38", is_added), options_of(1e-5));
    check_region(causal(2, 150, 70, 3, "f32", "-1.0e+38", is_added), options_of(1e-5));
    check_region(causal(2, 130, 130, -3, "f32", "0xFF800000", is_added), options_of(1e-5));  // of the first rows nothing is seen
    check_region(causal(2, 130, 130, -3, "f32", "-1.0e+38", is_added), options_of(1e-5));    // so that all counts
    check_region(causal(128, 130, 190, 0, "f16", "0xFC00", is_added), options_of(4e-3));
    check_region(causal(2, 70, 70, -3, "bf16", "-3.3895e+38", is_added), options_of(3e-2));  // as far as numbers go
  }
}

// Quantized results may differ by 1, where they are about in the middle between two.
CheckOptions options_of_integers(const std::string& integers, bool with_queries, double tolerance) {
  CheckOptions options = options_of(with_queries ? 1 : tolerance);
  const auto range = integers == "i8" ? std::make_pair(-128.0, 127.0) : std::make_pair(0.0, 255.0);
  options.ranges = {with_queries ? range : std::make_pair(-2.0, 2.0), range, range};
  if (with_queries) options.relative = 0;
  return options;
}

TEST(Attention, ReadsAndStoresIntegers) {
  for (const char* integers : {"i8", "ui8"}) {
    for (bool with_queries : {true, false}) {
      for (const Shape& s : {Shape{2, 3, 16, 16, 8, 8}, {1, 2, 7, 197, 24, 40}, {1, 2, 65, 70, 64, 64}}) {
        SCOPED_TRACE(integers + std::string(" ") + std::to_string(s.queries));
        check_region(quantized_attention(s, "f32", integers, with_queries), options_of_integers(integers, with_queries, 2e-5));
      }
      check_region(quantized_attention({1, 2, 20, 50, 16, 16}, "f16", integers, with_queries),
                   options_of_integers(integers, with_queries, 2e-2));
    }
  }
  CheckOptions options = options_of_integers("i8", true, 0);
  options.symbols = {2, 7, 130};
  check_region(quantized_attention({s0, 2, s1, s2, 24, 40}, "f32", "i8", true), options);
}

// quantized_attention in bf16. Kernels multiply operands that are rounded to bf16, as the graph says, but keep scores in f32, which the graph rounds to 8
// bits: of scores around 30, this is off by up to 1/16, and so is each weight, in parts of itself. So what is wanted is that of rounded operands and exact
// scores, and the bounds are those of what kernels still round. Weights are rounded by at most 2^-9 of themselves, so that a result is off by 2^-9 of the
// largest value, which is 131 * 0.03: by 0.39 of a step of 0.02, which can move an integer by one step. A result of bf16 is rounded by 2^-9 of itself more.
// Sums of f32, in the order and with the errors that the interpreter chooses, get the part of the bounds that is left.
void check_bf16_integers(const Shape& s, const std::string& integers, bool with_queries) {
  CheckOptions options = options_of_integers(integers, with_queries, 0x1p-8);
  if (!with_queries) options.absolute = 0x1p-9 * 131 * 0.03;
  ParsedRegion parsed(quantized_attention(s, "bf16", integers, with_queries)),
      rounded(quantized_attention(s, "bf16", integers, with_queries, true));
  tx::DispatchOp region = parsed.region();
  const mlir::Type bf16 = mlir::BFloat16Type::get(parsed.context());
  std::vector<Tensor> operands, reals;
  for (auto [i, input] : llvm::enumerate(region.getInputs())) {
    operands.push_back(random_tensor(tx::tensor(input), {}, options.ranges[i], options.seed + static_cast<uint32_t>(i)));
    reals.push_back(operands.back());
    if (i == 0 && !with_queries) continue;
    const double zero = integers == "i8" ? 3 : 131, scale = stored(std::array{0.02, 0.01, 0.03}[i], bf16);
    for (double& value : reals.back().data) value = stored((value - zero) * scale, bf16);
  }
  check_on_amdgpu(region, operands, Expected{evaluate(rounded.region(), reals), {}}, options);
}

// In the interpreter of tests/amdgpu: some of the cases above, or many more with HEDDLE_AMDGPU_CASES=all.
TEST(Attention, RunsOnAmdGpus) {
  const char* cases = getenv("HEDDLE_AMDGPU_CASES");
  const bool runs_all = cases && std::string(cases) == "all";
  auto check = [](const std::string& text, double tolerance, const std::vector<int64_t>& symbols = {}) {
    CheckOptions options = options_of(tolerance);
    options.on_amdgpu = true;
    options.symbols = symbols;
    check_region(text, options);
  };
  check(attention({1, 2, 33, 70, 24, 40}, "f32", false), 1e-5);
  check(attention({1, 1, 20, 128, 64, 64}, "f16", true), 4e-3);
  check(causal(1, 70, 70, -3, "bf16", "-3.3895e+38", true), 3e-2);
  auto check_integers = [](const Shape& s, const char* element, const char* integers, bool with_queries, double tolerance) {
    SCOPED_TRACE(element + std::string(" ") + integers);
    CheckOptions options = options_of_integers(integers, with_queries, tolerance);
    options.on_amdgpu = true;
    check_region(quantized_attention(s, element, integers, with_queries), options);
  };
  check_integers({1, 1, 20, 70, 32, 24}, "f32", "i8", true, 0);
  check_integers({1, 1, 5, 70, 64, 32}, "f16", "i8", false, 2e-2);
  check_bf16_integers({1, 1, 20, 70, 24, 24}, "ui8", true);
  if (!runs_all) return;
  for (const char* integers : {"i8", "ui8"}) {
    for (const Shape& s : {Shape{2, 3, 16, 16, 8, 8}, {1, 2, 7, 197, 24, 40}, {1, 1, 65, 130, 64, 64}, {2, 1, 1, 33, 16, 16}}) {
      for (bool with_queries : {true, false}) {
        check_integers(s, "f32", integers, with_queries, 2e-5);
        check_integers(s, "f16", integers, with_queries, 2e-2);
        check_bf16_integers(s, integers, with_queries);
      }
    }
  }
  for (const Shape& s : {Shape{2, 3, 16, 16, 8, 8},
                         {1, 2, 128, 128, 64, 64},
                         {1, 2, 7, 197, 24, 40},
                         {2, 1, 1, 33, 16, 16},
                         {1, 1, 300, 5, 3, 5},
                         {1, 2, 20, 30, 8, 1},
                         {1, 2, 9, 200, 1, 16},
                         {1, 1, 40, 100, 128, 128}}) {
    SCOPED_TRACE(s.queries);
    for (bool masked : {false, true}) {
      check(attention(s, "f32", masked), 1e-5);
      check(attention(s, "f16", masked), 4e-3);
      check(attention(s, "bf16", masked), 3e-2);
    }
  }
  check(attention({1, 1, 33, 100, 256, 256}, "f16", false), 4e-3);
  for (const std::vector<int64_t>& symbols : std::vector<std::vector<int64_t>>{{1, 1, 1}, {2, 7, 9}, {1, 64, 64}, {1, 70, 130}}) {
    check(attention({s0, 2, s1, s2, 24, 40}, "f32", true), 1e-5, symbols);
    check(attention({s0, 2, s1, s2, 24, 40}, "f16", false), 4e-3, symbols);
  }
  for (bool is_added : {false, true}) {
    check(causal(2, 200, 200, 0, "f32", "0xFF800000", is_added), 1e-5);
    check(causal(2, 70, 150, 80, "f32", "-1.0e+38", is_added), 1e-5);
    check(causal(2, 130, 130, -3, "f32", "0xFF800000", is_added), 1e-5);
    check(causal(2, 130, 130, -3, "f32", "-1.0e+38", is_added), 1e-5);
    check(causal(4, 130, 190, 0, "f16", "0xFC00", is_added), 4e-3);
  }
}

// A value that one op behind the next one still reads has no place of its own in the row.
TEST(Attention, RefusesWhatOneRowCannotHold) {
  const std::string s = "tensor<1x8x300xf32>", r = "tensor<1x8xf32>";
  auto repeated = [&](const std::string& name, const std::string& from) {
    return "%" + name + " = tx.broadcast %" + from + " {dimensions = array<i64: 0, 1>} : " + r + " -> " + s + "\n";
  };
  auto reduced = [&](const std::string& name, const std::string& kind, const std::string& from) {
    return "%" + name + " = tx.reduce " + kind + " %" + from + " {axes = array<i64: 2>} : " + s + " -> " + r + "\n";
  };
  std::string text = region_text(
      {"1x8x16xf32", "1x16x300xf32", "1x300x16xf32", "1x8x300xf32"}, {"1x8x16xf32"},
      "%s = tx.matmul %0, %1 : tensor<1x8x16xf32>, tensor<1x16x300xf32> -> " + s + "\n%p = tx.softmax %s {axis = 2 : i64} : " + s + "\n" +
          reduced("t", "max", "p") + repeated("tb", "t") + "%wt = tx.mul %3, %tb : " + s + "\n%v = tx.exp %wt : " + s + "\n" +
          reduced("u", "sum", "v") + "%r = tx.add %p, %v : " + s + "\n" + reduced("u2", "sum", "r") + repeated("ub", "u") +
          repeated("u2b", "u2") + "%a = tx.mul %r, %ub : " + s + "\n%b = tx.mul %a, %u2b : " + s + "\n%y = tx.matmul %b, %2 : " + s +
          ", tensor<1x300x16xf32> -> tensor<1x8x16xf32>\ntx.yield %y : tensor<1x8x16xf32>");
  ParsedRegion parsed(text);
  mlir::ScopedDiagnosticHandler quiet(parsed.context(), [](mlir::Diagnostic&) { return mlir::success(); });
  EXPECT_TRUE(mlir::failed(targets::make_x86_64_target("x86-64-v3")->plans(parsed.region(), "attention")));
}

}  // namespace
}  // namespace heddle::tests
