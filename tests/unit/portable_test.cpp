// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Portable code: what is written is read, damaged code is refused or harmless, and kernels made by hand compute what they say. What the compiler writes is
// tested in tests/e2e/portable_test.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/ops.h"
#include "heddle/sdk/portable/staging.h"

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
  kernel.ops = {{"matmul", 1, {{"transpose_lhs", false}}, {kernel.tensors[2]}, {0, 1}}, {"relu", 1, {}, {kernel.tensors[2]}, {2}}};
  kernel.named_outputs = {3};
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
  EXPECT_EQ(kernels[0].ops[0].attributes[0].name, "transpose_lhs");
  EXPECT_EQ(kernels[0].ops[0].results[0].extents, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(kernels[0].ops[1].operands, (std::vector<uint32_t>{2}));
  EXPECT_EQ(kernels[0].named_outputs, (std::vector<uint32_t>{3}));
  EXPECT_EQ(image_of(kernels[0]), image);
}

// Attributes of each type, with the numbers at the ends of their ranges.
TEST(Portable, AttributesKeepTheirTypes) {
  portable::Kernel kernel = product();
  const double nan = std::nan(""), tiny = std::numeric_limits<double>::denorm_min();
  kernel.ops[0] = {"anything",
                   7,
                   {{"a", true},
                    {"b", INT64_MIN},
                    {"c", 0.1},
                    {"d", "text"},
                    {"e", std::vector<int64_t>{INT64_MAX, -1}},
                    {"f", std::vector<double>{tiny, -0.0, nan}},
                    {"g", std::vector<int64_t>{}},
                    {"h", std::vector<double>{}},
                    {"i", ""}},
                   {kernel.tensors[2]},
                   {}};
  std::vector<portable::Kernel> kernels;
  std::string error;
  ASSERT_TRUE(portable::read_image(image_of(kernel), &kernels, &error)) << error;
  const portable::NamedOp& op = kernels[0].ops[0];
  EXPECT_EQ(op.version, 7u);
  ASSERT_EQ(op.attributes.size(), 9u);
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    EXPECT_EQ(op.attributes[i].name, kernel.ops[0].attributes[i].name);
    if (op.attributes[i].name == "f") continue;
    EXPECT_EQ(op.attributes[i].value, kernel.ops[0].attributes[i].value) << op.attributes[i].name;
  }
  const auto& floats = *portable::attribute_of<std::vector<double>>(op, "f");
  EXPECT_EQ(floats[0], tiny);
  EXPECT_TRUE(floats[1] == 0 && std::signbit(floats[1]));
  EXPECT_TRUE(std::isnan(floats[2]));
  EXPECT_EQ(portable::attribute_of<int64_t>(op, "c"), nullptr);
}

std::string refusal_of(const std::string& image) {
  std::vector<portable::Kernel> kernels;
  std::string error;
  EXPECT_FALSE(portable::read_image(image, &kernels, &error));
  EXPECT_TRUE(kernels.empty());
  return error;
}

// A text of fewer than 128 bytes, as it is in an image.
std::string text(const std::string& bytes) {
  return static_cast<char>(bytes.size()) + bytes;
}

TEST(Portable, OtherVersionsAreNamed) {
  const std::string magic(portable::kMagic), kernel = portable::write_kernel(product());
  EXPECT_EQ(refusal_of(magic + '\0' + '\0'), "it is portable code of version 0, which was not frozen; compile the model again");
  const std::string newer =
      "it is portable code of version 3, and this reader knows version 1; install a newer version of the plugin that reads it";
  EXPECT_EQ(refusal_of(magic + '\3' + '\1' + text("k") + text("\3" + text("cube roots") + "any bytes")),
            newer + " (kernel 'k' needs version 3, for cube roots)");
  EXPECT_EQ(refusal_of(magic + '\3' + '\0'), newer);
  // A kernel of a version above that of its image, and one of version 0.
  EXPECT_EQ(refusal_of(magic + '\1' + '\1' + text("k") + text("\2" + text("cube roots"))), "kernel 'k' is damaged at byte 1 of 12");
  EXPECT_EQ(refusal_of(magic + '\1' + '\1' + text("k") + text(std::string(1, '\0'))), "kernel 'k' is damaged at byte 1 of 1");
  EXPECT_EQ(refusal_of(portable::write_image({{"k", kernel}, {"k", kernel}})), "two kernels have the name 'k'");
}

// A later writer may add sections, and more to the names; what it computes is the same.
TEST(Portable, UnknownSectionsAreSkipped) {
  portable::Kernel kernel = product();
  kernel.ops.clear();
  kernel.named_outputs.clear();
  const std::string bare = portable::write_kernel(kernel);
  const std::string op = text("relu") + '\1' + '\2' + text("a") + '\1' + text("\x0e") + text("b") + '\x63' + text("of a later type") +
                         '\0' + '\0' + "more of the op";
  const std::string names = '\1' + text("\1" + text(op) + '\0' + "more of the section"), other = "\x07" + text("another section");
  std::vector<portable::Kernel> kernels;
  std::string error;
  ASSERT_TRUE(portable::read_image(portable::write_image({{"k", bare + names + other}}), &kernels, &error)) << error;
  ASSERT_EQ(kernels[0].ops.size(), 1u);
  EXPECT_EQ(kernels[0].ops[0].name, "relu");
  ASSERT_EQ(kernels[0].ops[0].attributes.size(), 1u);
  EXPECT_EQ(*portable::attribute_of<int64_t>(kernels[0].ops[0], "a"), 7);
  kernels[0].ops.clear();
  EXPECT_EQ(portable::write_kernel(kernels[0]), bare);
  for (const std::string& wrong : {names + names, other + names, '\0' + text("a section"), names + '\x07', names + "\x07\x05" + "four",
                                   '\1' + text("\1" + text("\4"
                                                           "rel"))})
    EXPECT_NE(refusal_of(portable::write_image({{"k", bare + wrong}})).find("kernel 'k' is damaged"), std::string::npos);
}

// What a kind does not use may get a meaning in a later version.
TEST(Portable, UnusedFieldsAreRefused) {
  using Node = portable::Node;
  void (*const changes[])(Node&) = {[](Node& node) { node.reverse = true; }, [](Node& node) { node.steps = 1; },
                                    [](Node& node) { node.along = 1; }, [](Node& node) { node.second_reads = 0, node.is_placed = true; }};
  for (auto change : changes) {
    portable::Kernel kernel = product();
    change(kernel.nodes[0]);
    EXPECT_NE(refusal_of(image_of(kernel)).find("node 0 has a"), std::string::npos);
  }
}

// Attributes have an order, and the extents of results are expressions over symbols.
TEST(Portable, NamesHaveAForm) {
  auto refusal = [](void (*change)(portable::NamedOp&)) {
    portable::Kernel kernel = product();
    change(kernel.ops[1]);
    std::vector<portable::Kernel> kernels;
    std::string error;
    EXPECT_FALSE(portable::read_image(image_of(kernel), &kernels, &error));
    return error;
  };
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.name = ""; }), "kernel 'product': op 1 has no name, or version 0");
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.version = 0; }), "kernel 'product': op 1 has no name, or version 0");
  const char* unsorted = "kernel 'product': attributes of op 1 are not sorted by name, or one has no name";
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.attributes = {{"b", true}, {"a", true}}; }), unsorted);
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.attributes = {{"a", true}, {"a", true}}; }), unsorted);
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.attributes = {{"", true}}; }), unsorted);
  const char* extent = "kernel 'product': an extent of op 1 is no expression over symbols";
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.results[0].extents[0] = 3; }), extent);
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.results[0].extents[0] = 60; }), extent);
  EXPECT_EQ(refusal([](portable::NamedOp& op) { op.operands = {3}; }),
            "kernel 'product': an operand of op 1 is no input, and no result of an earlier op");
  portable::Kernel kernel = product();
  for (const std::vector<uint32_t>& wrong : {std::vector<uint32_t>{4}, {3, 3}}) {
    kernel.named_outputs = wrong;
    EXPECT_NE(refusal_of(image_of(kernel)).find("or one is of an unknown value"), std::string::npos);
  }
}

TEST(Portable, NamesAreThoseOfTheList) {
  const portable::KnownOp* before = nullptr;
  for (const portable::KnownOp& op : portable::known_ops()) {
    EXPECT_TRUE(!before || std::strcmp(before->name, op.name) < 0) << op.name;
    before = &op;
    EXPECT_EQ(portable::known_op(op.name), &op);
    for (size_t i = 1; i < op.attributes().size(); ++i)
      EXPECT_LT(std::strcmp(op.attributes()[i - 1].name, op.attributes()[i].name), 0) << op.name;
  }
  EXPECT_EQ(portable::known_op("gelu"), nullptr);
  EXPECT_EQ(portable::known_op("zz"), nullptr);
  auto reason = [](const portable::NamedOp& op) {
    std::string why;
    EXPECT_FALSE(portable::is_as_known(op, &why));
    return why;
  };
  std::string why;
  EXPECT_TRUE(portable::is_as_known({"softmax", 1, {{"axis", int64_t{1}}}, {}, {}}, &why)) << why;
  EXPECT_TRUE(portable::is_as_known({"softmax", 1, {{"axis", int64_t{1}}, {"log", true}}, {}, {}}, &why)) << why;
  EXPECT_TRUE(portable::is_as_known({"scatter", 1, {{"axis", int64_t{1}}, {"kind", "sum"}}, {}, {}}, &why)) << why;
  EXPECT_EQ(reason({"gelu", 1, {}, {}, {}}), "gelu/1 is no op that is known");
  EXPECT_EQ(reason({"relu", 2, {}, {}, {}}), "relu/2 is of another version than 1, which is known");
  EXPECT_EQ(reason({"relu", 1, {{"axis", int64_t{1}}}, {}, {}}), "relu/1 has no attribute 'axis'");
  EXPECT_EQ(reason({"softmax", 1, {}, {}, {}}), "softmax/1 lacks its attribute 'axis'");
  EXPECT_EQ(reason({"softmax", 1, {{"axis", 1.0}}, {}, {}}), "softmax/1's attribute 'axis' is float and not integer");
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

// y[m, n] = the running sum of x along m, so that only n can be shared; x is [m, n].
portable::Kernel running_sum() {
  portable::Kernel kernel;
  kernel.name = "running_sum";
  kernel.symbols = 2;
  kernel.inputs = kernel.outputs = 1;
  using E = portable::Expression;
  kernel.expressions = {{E::kSymbol, 0}, {E::kSymbol, 1}, {E::kDimension, 0}, {E::kDimension, 1}};
  kernel.tensors = {{HEDDLE_TYPE_F32, {0, 1}}, {HEDDLE_TYPE_F32, {0, 1}}};
  portable::Node node;
  node.kind = portable::NodeKind::kScan;
  node.extents = {0, 1};
  node.reads.resize(1);
  node.reads[0].place = {2, 3};
  node.first_reads = 1;
  node.bodies.resize(3);
  node.bodies[0].instructions = {{Op::kConstant, Scalar::kF32}};
  node.bodies[0].yields = {0};
  node.bodies[1].instructions = {{Op::kAddF, Scalar::kF32, 2, 3}};  // two indices, the read, the sum
  node.bodies[1].yields = {4};
  node.bodies[2].yields = {3};  // two indices, the sums before and after
  node.results = {1};
  kernel.nodes.push_back(node);
  return kernel;
}

// Any number of threads computes the same bits, also with dimensions that are shorter than the number of threads.
TEST(Portable, ThreadsComputeTheSameBits) {
  const portable::Kernel kernels[] = {product(), running_sum()};
  const int64_t shapes[][3] = {{200, 131, 129}, {3, 400, 2000}, {1, 70000, 17}, {70000, 1, 17}, {2, 33000, 1}};
  for (const portable::Kernel& kernel : kernels) {
    portable::Kernel own = kernel;
    std::string error;
    ASSERT_TRUE(portable::verify(&own, &error)) << error;
    const portable::Program program(std::move(own));
    EXPECT_LE(program.scratch_bytes(), portable::kScratchBytes);
    for (const auto& shape : shapes) {
      const int64_t m = shape[0], n = shape[1], k = shape[2];
      auto a = numbers(static_cast<size_t>(kernel.inputs == 1 ? m * n : m * k), 1), b = numbers(static_cast<size_t>(k * n), 2);
      auto run = [&](portable::Workers* workers) {
        std::vector<float> y(static_cast<size_t>(m * n), -1.0f);
        std::vector<portable::Memory> bindings = {memory(a), memory(b), memory(y)};
        if (kernel.inputs == 1) bindings.erase(bindings.begin() + 1);
        EXPECT_TRUE(program.run(bindings, shape, kernel.symbols, &error, {}, workers)) << error;
        return y;
      };
      const std::vector<float> alone = run(nullptr);
      EXPECT_EQ(std::count(alone.begin(), alone.end(), -1.0f), 0);
      for (uint32_t count : {2u, 3u, 8u}) {
        portable::Workers workers(count);
        ASSERT_EQ(run(&workers), alone) << kernel.name << " " << m << " " << n << " " << count;
      }
    }
  }
}

// A place outside of its tensor that only one of the threads reaches; what a task throws arrives; several callers take turns.
TEST(Portable, FailuresInThreadsArrive) {
  portable::Kernel kernel = running_sum();
  kernel.expressions.push_back({portable::Expression::kConstant, 1});
  kernel.expressions.push_back({portable::Expression::kAdd, 0, 3, 4});
  kernel.nodes[0].reads[0].place[1] = 5;
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  const portable::Program program(std::move(kernel));
  portable::Workers workers(4);
  std::vector<float> x(4 * 20000), y(4 * 20000);
  const int64_t symbols[] = {4, 20000};
  EXPECT_FALSE(program.run({memory(x), memory(y)}, symbols, 2, &error, {}, &workers));
  EXPECT_NE(error.find("is at index 20000 of dimension 1"), std::string::npos) << error;

  std::atomic<uint32_t> done{0};
  EXPECT_THROW(workers.run(9,
                           [&](uint32_t part) {
                             ++done;
                             if (part == 5) throw std::bad_alloc();
                           }),
               std::bad_alloc);
  EXPECT_EQ(done, 9u);
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) workers.run(4, [&](uint32_t) { ++done; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 9u + 3 * 200 * 4);
}

// Memory that is read and written by copies only, with failures.
class Far final : public portable::DeviceMemory {
 public:
  std::vector<std::vector<float>> bindings;
  size_t refused = SIZE_MAX;

  bool read(size_t binding, char* to, uint64_t bytes, std::string* out_error) override {
    if (binding == refused) return (*out_error = "no way in"), false;
    std::memcpy(to, bindings[binding].data(), bytes);
    return true;
  }
  bool write(size_t binding, const char* from, uint64_t bytes, std::string* out_error) override {
    if (binding == refused) return (*out_error = "no way out"), false;
    std::memcpy(bindings[binding].data(), from, bytes);
    return true;
  }
};

TEST(Portable, StagingCopiesWhatTensorsNeed) {
  portable::Kernel kernel = product();
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  const portable::Program program(std::move(kernel));
  const int64_t symbols[] = {4, 5, 3};
  Far far;
  far.bindings = {numbers(12, 1), numbers(15, 2), std::vector<float>(20)};
  const std::vector<uint64_t> bytes = {1 << 20, 60, 80};  // the first one is longer than its tensor
  uint64_t staged = 0;
  ASSERT_TRUE(portable::run_staged(program, bytes, far, symbols, 3, &error, &staged)) << error;
  EXPECT_EQ(staged, 48u + 60 + 80);
  std::vector<float> near(20);
  ASSERT_TRUE(program.run({memory(far.bindings[0]), memory(far.bindings[1]), memory(near)}, symbols, 3, &error)) << error;
  EXPECT_EQ(far.bindings[2], near);
  EXPECT_FALSE(portable::run_staged(program, {48, 59, 80}, far, symbols, 3, &error, &staged));
  EXPECT_NE(error.find("binding 1 has 59 bytes, and its tensor 60"), std::string::npos) << error;
  EXPECT_FALSE(portable::run_staged(program, {48, 60}, far, symbols, 3, &error, &staged));
  EXPECT_EQ(error, "it takes 3 bindings, or 4 with its workspace, and was called with 2");
  EXPECT_FALSE(portable::run_staged(program, bytes, far, symbols, 3, &error, &staged, {1000, 100}));
  EXPECT_NE(error.find("a copy of binding 1 in host memory has 60 bytes, and 52 may still be taken"), std::string::npos) << error;
  for (size_t refused : {0u, 2u}) {
    far.refused = refused;
    EXPECT_FALSE(portable::run_staged(program, bytes, far, symbols, 3, &error, &staged));
    EXPECT_EQ(error, refused == 0 ? "no way in" : "no way out");
  }
}

// y[h, w, o] = the sum over a window of 3 x 3 and c of x[h + i - 1, w + j - 1, c] * f[i, j, c, o]; places outside of x do not count, or are 0.
portable::Kernel convolution(bool is_within) {
  portable::Kernel kernel;
  kernel.name = "convolution";
  kernel.symbols = 4;  // h, w, o, c
  kernel.inputs = 2;
  kernel.outputs = 1;
  using E = portable::Expression;
  for (int64_t i = 0; i < 4; ++i) kernel.expressions.push_back({E::kSymbol, i});
  for (int64_t i = 0; i < 6; ++i) kernel.expressions.push_back({E::kDimension, i});
  const uint32_t h = 0, w = 1, o = 2, c = 3, at_h = 4, at_w = 5, at_o = 6, at_i = 7, at_j = 8, at_c = 9, three = 10, row = 13, column = 15;
  kernel.expressions.insert(kernel.expressions.end(), {{E::kConstant, 3},
                                                       {E::kConstant, -1},
                                                       {E::kAdd, 0, at_h, at_i},
                                                       {E::kAdd, 0, 12, 11},
                                                       {E::kAdd, 0, at_w, at_j},
                                                       {E::kAdd, 0, 14, 11}});
  kernel.tensors = {{HEDDLE_TYPE_F32, {h, w, c}}, {HEDDLE_TYPE_F32, {three, three, c, o}}, {HEDDLE_TYPE_F32, {h, w, o}}};
  portable::Node node;
  node.kind = portable::NodeKind::kContract;
  node.extents = {h, w, o, three, three, c};
  node.reduced = 3;
  if (is_within) node.within = {{row, h}, {column, w}};
  node.reads.resize(2);
  node.reads[0].tensor = 0;
  node.reads[0].place = {row, column, at_c};
  node.reads[0].has_outside = !is_within;
  node.reads[1].tensor = 1;
  node.reads[1].place = {at_i, at_j, at_c, at_o};
  node.first_reads = 2;
  node.bodies.resize(2);
  node.bodies[0].yields = {6, 7};
  node.bodies[1].yields = {3};
  node.results = {2};
  kernel.nodes.push_back(node);
  return kernel;
}

// Images of one pixel and of many, with a few channels and with more than a block; weights that are infinite make no NaN where they do not count.
TEST(Portable, ConvolutionsAreRight) {
  const int64_t shapes[][4] = {{1, 1, 8, 1}, {5, 4, 9, 3}, {12, 11, 40, 20}, {3, 50, 130, 33}, {2, 2, 3, 5}};
  std::string error;
  for (const bool is_within : {true, false}) {
    std::vector<portable::Program> programs;
    ASSERT_TRUE(portable::load(image_of(convolution(is_within)), &programs, &error)) << error;
    for (const auto& [h, w, o, c] : shapes) {
      for (const bool has_infinity : {false, true}) {
        if (has_infinity && !is_within) continue;
        auto x = numbers(static_cast<size_t>(h * w * c), 1), f = numbers(static_cast<size_t>(9 * c * o), 2);
        if (has_infinity) f[0] = std::numeric_limits<float>::infinity();
        std::vector<float> y(static_cast<size_t>(h * w * o), -1.0f);
        const int64_t symbols[] = {h, w, o, c};
        ASSERT_TRUE(programs[0].run({memory(x), memory(f), memory(y)}, symbols, 4, &error)) << error;
        for (int64_t at = 0; at < h * w * o; ++at) {
          const int64_t row = at / o / w, column = at / o % w, channel = at % o;
          double sum = 0;
          for (int64_t k = 0; k < 9 * c; ++k) {
            const int64_t i = row + k / c / 3 - 1, j = column + k / c % 3 - 1;
            if (i < 0 || j < 0 || i >= h || j >= w) continue;
            sum += double{x[static_cast<size_t>((i * w + j) * c + k % c)]} * f[static_cast<size_t>(k * o + channel)];
          }
          if (std::isinf(sum)) {
            ASSERT_EQ(y[static_cast<size_t>(at)], sum);
          } else {
            ASSERT_NEAR(y[static_cast<size_t>(at)], sum, 1e-4) << h << " " << w << " " << o << " " << c << " at " << at;
          }
        }
      }
    }
  }
}

// Tensors between nodes are in the workspace, if there is one.
TEST(Portable, TheWorkspaceIsUsed) {
  portable::Kernel kernel;
  kernel.name = "squares";  // t = x + x; u = t * t; y = u - t
  kernel.symbols = 1;
  kernel.inputs = kernel.outputs = 1;
  using E = portable::Expression;
  kernel.expressions = {{E::kSymbol, 0}, {E::kDimension, 0}};
  kernel.tensors.assign(4, {HEDDLE_TYPE_F32, {0}});
  auto add_node = [&](Op op, std::vector<uint32_t> from, uint32_t to) {
    portable::Node& node = kernel.nodes.emplace_back();
    node.kind = portable::NodeKind::kMap;
    node.extents = {0};
    for (uint32_t tensor : from) {
      portable::Read& read = node.reads.emplace_back();
      read.tensor = tensor;
      read.place = {1};
    }
    node.bodies.resize(1);
    node.bodies[0].instructions = {{op, Scalar::kF32, 1, static_cast<uint32_t>(from.size())}};
    node.bodies[0].yields = {1 + static_cast<uint32_t>(from.size())};
    node.results = {to};
  };
  add_node(Op::kAddF, {0}, 2);
  add_node(Op::kMulF, {2}, 3);
  add_node(Op::kSubF, {3, 2}, 1);
  std::string error;
  std::vector<portable::Program> programs;
  ASSERT_TRUE(portable::load(image_of(kernel), &programs, &error)) << error;
  constexpr int64_t kCount = 100;
  auto x = numbers(kCount, 3);
  std::vector<float> y(kCount), own(kCount);
  std::vector<uint64_t> bytes;
  uint64_t needed = 0;
  ASSERT_TRUE(programs[0].binding_bytes(&kCount, 1, &bytes, &error, &needed)) << error;
  EXPECT_EQ(bytes, (std::vector<uint64_t>{400, 400}));
  EXPECT_EQ(needed, 2u * 448);
  std::vector<float> workspace(needed / sizeof(float), NAN);
  // Nothing else may be taken.
  const portable::Limits none = {1 << 20, 0};
  ASSERT_TRUE(programs[0].run({memory(x), memory(y), memory(workspace)}, &kCount, 1, &error, none)) << error;
  EXPECT_EQ(workspace[7], 2 * x[7]);
  EXPECT_EQ(workspace[448 / 4 + 7], 4 * x[7] * x[7]);
  EXPECT_FALSE(programs[0].run({memory(x), memory(own)}, &kCount, 1, &error, none));
  EXPECT_NE(error.find("a tensor between two nodes has 400 bytes, and 0 may still be taken"), std::string::npos) << error;
  ASSERT_TRUE(programs[0].run({memory(x), memory(own)}, &kCount, 1, &error)) << error;
  EXPECT_EQ(y, own);
  workspace.resize(workspace.size() - 1);
  EXPECT_FALSE(programs[0].run({memory(x), memory(y), memory(workspace)}, &kCount, 1, &error));
  EXPECT_NE(error.find("its workspace has 892 bytes, and tensor 3 between two nodes has 400 from byte 448 on"), std::string::npos) << error;
  EXPECT_FALSE(programs[0].run({memory(x), memory(y), memory(workspace), memory(own)}, &kCount, 1, &error));
  EXPECT_EQ(error, "it takes 2 bindings, or 3 with its workspace, and was called with 4");
  for (uint64_t bindings : {1, 2, 3, 4}) EXPECT_EQ(portable::takes_bindings(kernel, bindings), bindings == 2 || bindings == 3);
}

// y[i] = x[i - 1], and `outside` where there is none; the element is a read, an argument of number 1.
portable::Kernel shifted(heddle_element_type_t type, Scalar scalar, uint64_t outside, uint64_t constant) {
  portable::Kernel kernel;
  kernel.name = "shifted";
  kernel.symbols = 2;
  kernel.inputs = 1;
  kernel.outputs = 2;
  using E = portable::Expression;
  kernel.expressions = {{E::kSymbol, 0}, {E::kSymbol, 1}, {E::kDimension, 0}, {E::kConstant, -1}, {E::kAdd, 0, 2, 3}};
  kernel.tensors = {{type, {0}}, {type, {1}}, {type, {1}}};
  portable::Node& node = kernel.nodes.emplace_back();
  node.extents = {1};
  node.reads.resize(1);
  node.reads[0].place = {4};
  node.reads[0].has_outside = true;
  node.reads[0].outside = outside;
  node.bodies.resize(1);
  node.bodies[0].instructions = {{Op::kConstant, scalar, 0, 0, 0, constant}};
  node.bodies[0].yields = {1, 2};
  node.results = {1, 2};
  return kernel;
}

// Bits above the width of a type do not count, of constants and of values outside.
TEST(Portable, BitsAboveTheWidthDoNotCount) {
  struct Case {
    heddle_element_type_t type;
    Scalar scalar;
    uint64_t bits, counted;
  };
  const Case cases[] = {{HEDDLE_TYPE_BOOL, Scalar::kI1, 2, 0},
                        {HEDDLE_TYPE_BOOL, Scalar::kI1, ~uint64_t{0}, 1},
                        {HEDDLE_TYPE_U8, Scalar::kI8, 0x1234, 0x34},
                        {HEDDLE_TYPE_BF16, Scalar::kBf16, 0x12345, 0x2345},
                        {HEDDLE_TYPE_F32, Scalar::kF32, uint64_t{7} << 32, 0},
                        {HEDDLE_TYPE_I64, Scalar::kI64, ~uint64_t{0}, ~uint64_t{0}}};
  for (const Case& each : cases) {
    const portable::Kernel kernel = shifted(each.type, each.scalar, each.bits, each.bits);
    std::vector<portable::Kernel> read;
    std::string error;
    ASSERT_TRUE(portable::read_image(image_of(kernel), &read, &error)) << error;
    EXPECT_EQ(read[0].nodes[0].reads[0].outside, each.counted);
    EXPECT_EQ(read[0].nodes[0].bodies[0].instructions[0].value, each.counted);
    EXPECT_EQ(portable::write_kernel(read[0]), portable::write_kernel(shifted(each.type, each.scalar, each.counted, each.counted)));
    const portable::Program program(std::move(read[0]));
    const uint64_t x[3] = {};
    for (int64_t count : {1, 3}) {
      uint64_t y[3] = {}, z[3] = {};
      const int64_t symbols[] = {3, count};
      const std::vector<portable::Memory> bindings = {{reinterpret_cast<char*>(const_cast<uint64_t*>(x)), sizeof x},
                                                      {reinterpret_cast<char*>(y), sizeof y},
                                                      {reinterpret_cast<char*>(z), sizeof z}};
      ASSERT_TRUE(program.run(bindings, symbols, 2, &error)) << error;
      const uint32_t bytes = portable::bytes_of(each.scalar);
      EXPECT_EQ(std::memcmp(y, &each.counted, bytes), 0);
      EXPECT_EQ(std::memcmp(z, &each.counted, bytes), 0);
    }
  }
  // Without a value outside, its bits do not count either.
  portable::Kernel kernel = shifted(HEDDLE_TYPE_F32, Scalar::kF32, 5, 0);
  kernel.nodes[0].reads[0].has_outside = false;
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  EXPECT_EQ(kernel.nodes[0].reads[0].outside, 0u);
}

// No place is in a tensor without elements.
TEST(Portable, TensorsWithoutElementsAreOutside) {
  std::string error;
  const float seven = 7.0f;
  uint64_t bits = 0;
  std::memcpy(&bits, &seven, sizeof seven);
  for (const bool has_outside : {true, false}) {
    portable::Kernel kernel = shifted(HEDDLE_TYPE_F32, Scalar::kF32, bits, 0);
    kernel.nodes[0].reads[0].has_outside = has_outside;
    ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
    const portable::Program program(std::move(kernel));
    std::vector<float> x(1, 3.0f), y(4, -1.0f), z(4);
    const int64_t symbols[] = {0, 4};
    ASSERT_TRUE(program.run({memory(x), memory(y), memory(z)}, symbols, 2, &error)) << error;
    EXPECT_EQ(y, std::vector<float>(4, has_outside ? 7.0f : 0.0f));
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
