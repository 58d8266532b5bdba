// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code: what is written is read, damaged code is refused or harmless, and kernels made by hand compute what they say. What the compiler writes is
// tested in tests/e2e/portable_test.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "heddle/sdk/portable/interpreter.h"

namespace portable = heddle::sdk::portable;
using portable::Op;
using portable::Scalar;

namespace {

portable::Memory memory(std::vector<float>& values) {
  return {reinterpret_cast<char*>(values.data()), values.size() * sizeof(float)};
}

// y[m, n] = relu(sum over k of a[m, k] * b[k, n]), for symbols m, n and k.
portable::Kernel product() {
  portable::Kernel kernel;
  kernel.name = "product";
  kernel.symbols = 3;
  kernel.inputs = 2;
  kernel.outputs = 1;
  using E = portable::Expression;
  for (int64_t i = 0; i < 3; ++i) kernel.expressions.push_back({E::kSymbol, i});
  for (int64_t i = 0; i < 3; ++i) kernel.expressions.push_back({E::kDimension, i});
  const uint32_t m = 0, n = 1, k = 2, at_m = 3, at_n = 4, at_k = 5;
  kernel.tensors = {{HEDDLE_TYPE_F32, {m, k}}, {HEDDLE_TYPE_F32, {k, n}}, {HEDDLE_TYPE_F32, {m, n}}};
  portable::Node node;
  node.kind = portable::NodeKind::kContract;
  node.extents = {m, n, k};
  node.reduced = 1;
  node.reads.resize(2);
  node.reads[0].tensor = 0;
  node.reads[0].place = {at_m, at_k};
  node.reads[1].tensor = 1;
  node.reads[1].place = {at_k, at_n};
  node.first_reads = 2;
  node.bodies.resize(2);
  node.bodies[0].yields = {3, 4};  // after three indices
  node.bodies[1].instructions = {{Op::kConstant, Scalar::kF32}, {Op::kMaximumF, Scalar::kF32, 2, 3}};
  node.bodies[1].yields = {4};
  node.results = {2};
  kernel.nodes.push_back(node);
  kernel.ops = {{"matmul", 0, {{"transpose_lhs", "false"}}}, {"max", 0, {}}};
  return kernel;
}

std::string image_of(const portable::Kernel& kernel) {
  const std::string text = portable::write_kernel(kernel);
  return portable::write_image({{kernel.name, text}});
}

std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
  return values;
}

TEST(Portable, WhatIsWrittenIsRead) {
  const std::string image = image_of(product());
  std::vector<portable::Kernel> kernels;
  std::string error;
  ASSERT_TRUE(portable::read_image(image, &kernels, &error)) << error;
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "product");
  EXPECT_EQ(kernels[0].ops[0].attributes[0].first, "transpose_lhs");
  EXPECT_EQ(image_of(kernels[0]), image);
}

// Products of matrices, with one row or many, and blocks that are not full; and too few columns for blocks.
TEST(Portable, ProductsAreRight) {
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 33, 200},  {7, 5, 3}, {5, 40, 1}, {100, 130, 129},
                               {64, 3, 300}, {97, 257, 31}, {0, 8, 8}, {8, 8, 0}};
  std::string error;
  std::vector<portable::Program> programs;
  ASSERT_TRUE(portable::load(image_of(product()), &programs, &error)) << error;
  for (const auto& [m, n, k] : shapes) {
    auto a = numbers(static_cast<size_t>(m * k), 1), b = numbers(static_cast<size_t>(k * n), 2);
    std::vector<float> y(static_cast<size_t>(m * n), -1.0f);
    const int64_t symbols[] = {m, n, k};
    ASSERT_TRUE(programs[0].run({memory(a), memory(b), memory(y)}, symbols, 3, &error)) << error;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += double{a[static_cast<size_t>(i * k + l)]} * b[static_cast<size_t>(l * n + j)];
        ASSERT_NEAR(y[static_cast<size_t>(i * n + j)], std::max(sum, 0.0), 1e-4) << m << " " << n << " " << k;
      }
    }
  }
}

TEST(Portable, CallsAreChecked) {
  portable::Kernel kernel = product();
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  const portable::Program program(std::move(kernel));
  std::vector<float> a(12), b(12), y(16);
  const int64_t symbols[] = {4, 4, 3}, negative[] = {4, -4, 3}, large[] = {4, INT64_MAX, 3};
  EXPECT_TRUE(program.run({memory(a), memory(b), memory(y)}, symbols, 3, &error)) << error;
  EXPECT_FALSE(program.run({memory(a), memory(b)}, symbols, 3, &error));
  EXPECT_NE(error.find("3 bindings"), std::string::npos) << error;
  y.resize(15);
  EXPECT_FALSE(program.run({memory(a), memory(b), memory(y)}, symbols, 3, &error));
  EXPECT_NE(error.find("binding 2 has 60 bytes, and its tensor 64"), std::string::npos) << error;
  EXPECT_FALSE(program.run({memory(a), memory(b), memory(y)}, negative, 3, &error));
  EXPECT_FALSE(program.run({memory(a), memory(b), memory(y)}, large, 3, &error));
  y.resize(16);
  EXPECT_FALSE(program.run({memory(a), memory(b), memory(y)}, symbols, 3, &error, {10, 0}));
  EXPECT_NE(error.find("steps"), std::string::npos) << error;
}

// A place outside of its tensor is an error and no access.
TEST(Portable, PlacesAreChecked) {
  portable::Kernel kernel = product();
  kernel.expressions.push_back({portable::Expression::kConstant, 1});
  kernel.expressions.push_back({portable::Expression::kAdd, 0, 5, 6});
  kernel.nodes[0].reads[1].place[0] = 7;  // k + 1
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  const portable::Program program(std::move(kernel));
  for (int64_t n : {int64_t{4}, int64_t{40}}) {
    auto a = numbers(static_cast<size_t>(4 * 3), 1), b = numbers(static_cast<size_t>(3 * n), 2);
    std::vector<float> y(static_cast<size_t>(4 * n));
    const int64_t symbols[] = {4, n, 3};
    EXPECT_FALSE(program.run({memory(a), memory(b), memory(y)}, symbols, 3, &error));
    EXPECT_NE(error.find("is at index 3 of dimension 0, which has 3"), std::string::npos) << error;
  }
}

TEST(Portable, DamagedCodeIsRefusedOrHarmless) {
  const std::string image = image_of(product());
  std::vector<float> a(12), b(12), y(16);
  const int64_t symbols[] = {4, 4, 3};
  size_t refused = 0, tried = 0;
  auto attempt = [&](const std::string& bytes) {
    std::vector<portable::Program> programs;
    std::string error;
    ++tried;
    if (!portable::load(bytes, &programs, &error)) {
      EXPECT_FALSE(error.empty());
      ++refused;
      return;
    }
    for (const portable::Program& program : programs) {
      error.clear();
      const bool ran = program.run({memory(a), memory(b), memory(y)}, symbols, 3, &error, {1 << 16, 1 << 16});
      EXPECT_TRUE(ran || !error.empty());
    }
  };
  for (size_t size = 0; size < image.size(); ++size) attempt(image.substr(0, size));
  EXPECT_EQ(refused, image.size());
  for (size_t i = 0; i < image.size(); ++i) {
    for (int flip : {1, 2, 3, 7, 0x40, 0x80, 0xFF}) {
      std::string bytes = image;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      attempt(bytes);
    }
  }
  EXPECT_GT(refused, tried / 2);
}

TEST(Portable, OperandsComeEarlier) {
  std::string error;
  auto refused = [&](auto change) {
    portable::Kernel kernel = product();
    change(kernel);
    return !portable::verify(&kernel, &error);
  };
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.nodes[0].bodies[1].instructions[1].a = 4; })) << "its own result";
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.nodes[0].bodies[1].instructions[1].type = Scalar::kF64; })) << "another type";
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.nodes[0].reads[0].tensor = 2; })) << "its own result";
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.nodes[0].results = {1}; })) << "an input";
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.nodes.clear(); })) << "no output";
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.tensors[0].extents[0] = 3; })) << "an extent over dimensions";
  EXPECT_TRUE(refused([](portable::Kernel& k) { k.nodes[0].reduced = 4; })) << "more than there are";
}

}  // namespace
