// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of the interpreter of portable code, counted by this program's operators new: each thread takes at most kScratchBytes, and the workspace has
// what lines of sorts and long bodies take beyond that.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "heddle/sdk/portable/interpreter.h"

namespace portable = heddle::sdk::portable;
using portable::Op;
using portable::Scalar;

namespace {

std::atomic<uint64_t> live_bytes = 0, most_bytes = 0;

void* counted(size_t bytes, size_t alignment) noexcept {
  void* memory = std::aligned_alloc(alignment, (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (!memory) return nullptr;
  const uint64_t now = live_bytes += malloc_usable_size(memory);
  for (uint64_t most = most_bytes; now > most && !most_bytes.compare_exchange_weak(most, now);) continue;
  return memory;
}

void* counted_or_thrown(size_t bytes, size_t alignment) {
  if (void* memory = counted(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

void uncounted(void* memory) noexcept {
  if (memory) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) {
  return counted_or_thrown(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted_or_thrown(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, alignof(std::max_align_t));
}
void operator delete(void* memory) noexcept {
  uncounted(memory);
}
void operator delete(void* memory, size_t) noexcept {
  uncounted(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  uncounted(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  uncounted(memory);
}

namespace {

constexpr uint32_t kThreads = 4;
constexpr uint64_t kOfCall = 64 << 10;  // what a call has beside the scratch memory of its threads: extents, strides and the like

template <typename T>
portable::Memory memory(std::vector<T>& values) {
  return {reinterpret_cast<char*>(values.data()), values.size() * sizeof(T)};
}

// Runs with a limit of no memory but the scratch memory, and checks that no thread takes more.
bool runs_within(const portable::Program& program, const std::vector<portable::Memory>& bindings, const std::vector<int64_t>& symbols,
                 std::string* out_error, portable::Workers* workers) {
  portable::Limits limits;
  limits.memory_bytes = 0;
  const uint64_t before = live_bytes;
  most_bytes = before;
  const bool is_done = program.run(bindings, symbols.data(), symbols.size(), out_error, limits, workers);
  EXPECT_LE(most_bytes - before, kThreads * portable::kScratchBytes + kOfCall);
  return is_done;
}

// order[row, i] = which element of the line x[row] is the i-th, by its value.
portable::Kernel order_of_lines() {
  portable::Kernel kernel;
  kernel.name = "order";
  kernel.symbols = 2;
  kernel.inputs = kernel.outputs = 1;
  using E = portable::Expression;
  kernel.expressions = {{E::kSymbol, 0}, {E::kSymbol, 1}, {E::kDimension, 0}, {E::kDimension, 2}};
  kernel.tensors = {{HEDDLE_TYPE_F32, {0, 1}}, {HEDDLE_TYPE_I64, {0, 1}}};
  portable::Node& node = kernel.nodes.emplace_back();
  node.kind = portable::NodeKind::kSort;
  node.extents = {0, 1, 1};
  node.reduced = 1;
  node.along = 1;
  node.reads.resize(1);
  node.reads[0].place = {2, 3};
  node.bodies.resize(2);
  node.bodies[0].yields = {3};  // after three indices
  node.bodies[1].instructions = {{Op::kCompareF, Scalar::kI1, 0, 1, 0, static_cast<uint64_t>(portable::Predicate::kLess)}};
  node.bodies[1].yields = {2};
  node.results = {1};
  return kernel;
}

TEST(PortableMemory, LinesOfSortsAreInTheWorkspace) {
  portable::Kernel kernel = order_of_lines();
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  EXPECT_EQ(portable::sorted_bytes(kernel.nodes[0]), (std::vector<uint32_t>{4, 8, 8}));
  const portable::Program program(std::move(kernel));
  portable::Workers workers(kThreads);
  for (const int64_t count : {5000, 20000}) {
    const std::vector<int64_t> symbols = {5, count};
    const auto elements = static_cast<size_t>(5 * count);
    const uint64_t line = static_cast<uint64_t>(count) * 20;
    std::vector<float> x(elements);
    for (size_t i = 0; i < elements; ++i) x[i] = static_cast<float>(i * 7919 % 10007);
    std::vector<int64_t> expected(elements), order(elements);
    for (size_t row = 0; row < 5; ++row) {
      const auto begin = expected.begin() + static_cast<int64_t>(row) * count;
      const float* values = x.data() + row * static_cast<size_t>(count);
      std::iota(begin, begin + count, 0);
      std::stable_sort(begin, begin + count, [&](int64_t a, int64_t b) { return values[a] < values[b]; });
    }
    // Room for no line, for a part of one, for one, for three, and for more than there are threads.
    for (const uint64_t bytes : {uint64_t{0}, line - 128, line, 3 * line, 9 * line}) {
      std::vector<uint64_t> workspace((bytes + 64) / sizeof(uint64_t));
      std::fill(order.begin(), order.end(), -1);
      const bool fits = bytes >= line || line < portable::kScratchBytes - program.scratch_bytes();
      EXPECT_EQ(runs_within(program, {memory(x), memory(order), memory(workspace)}, symbols, &error, &workers), fits)
          << count << ", " << bytes;
      if (fits) {
        EXPECT_EQ(order, expected) << count << ", " << bytes;
      } else {
        EXPECT_NE(error.find("a sort of 20000 elements in each of 4 threads takes more than the 0 bytes"), std::string::npos) << error;
      }
    }
    // From the heap, as entries without a workspace do.
    std::fill(order.begin(), order.end(), -1);
    EXPECT_TRUE(program.run({memory(x), memory(order)}, symbols.data(), 2, &error, {}, &workers)) << error;
    EXPECT_EQ(order, expected);
  }
}

constexpr uint32_t kValues = 3000;

// y[row] = sum over k of kValues * x[row, k], by a step that keeps kValues values at once.
portable::Kernel long_fold() {
  portable::Kernel kernel;
  kernel.name = "long_fold";
  kernel.symbols = 2;
  kernel.inputs = kernel.outputs = 1;
  using E = portable::Expression;
  kernel.expressions = {{E::kSymbol, 0}, {E::kSymbol, 1}, {E::kDimension, 0}, {E::kDimension, 1}};
  kernel.tensors = {{HEDDLE_TYPE_F32, {0, 1}}, {HEDDLE_TYPE_F32, {0}}};
  portable::Node& node = kernel.nodes.emplace_back();
  node.kind = portable::NodeKind::kFold;
  node.extents = {0, 1};
  node.reduced = 1;
  node.reads.resize(1);
  node.reads[0].place = {2, 3};
  node.first_reads = 1;
  node.bodies.resize(4);
  node.bodies[0].instructions = {{Op::kConstant, Scalar::kF32}};
  node.bodies[0].yields = {0};
  portable::Body& step = node.bodies[1];  // of two indices, the element, the sum
  for (uint32_t i = 0; i < kValues; ++i) step.instructions.push_back({Op::kMaximumF, Scalar::kF32, 2, 2});
  for (uint32_t i = 0, sum = 3; i < kValues; ++i) {
    step.instructions.push_back({Op::kAddF, Scalar::kF32, sum, 4 + kValues - 1 - i});
    sum = 4 + kValues + i;
  }
  step.yields = {4 + 2 * kValues - 1};
  node.bodies[2].instructions = {{Op::kAddF, Scalar::kF32, 0, 1}};
  node.bodies[2].yields = {2};
  node.bodies[3].yields = {1};  // after one index
  node.results = {1};
  return kernel;
}

TEST(PortableMemory, ScratchOfLongBodiesIsInTheWorkspace) {
  portable::Kernel kernel = long_fold();
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  const portable::Program program(std::move(kernel));
  const uint64_t scratch = program.scratch_bytes();
  ASSERT_GT(scratch, portable::kScratchBytes);
  portable::Workers workers(kThreads);
  constexpr int64_t kColumns = 50;
  std::vector<float> x, y, expected;
  auto make = [&](int64_t rows) {
    x.resize(static_cast<size_t>(rows * kColumns));
    y.assign(static_cast<size_t>(rows), -1.0f);
    expected.assign(y.size(), 0.0f);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i * 7919 % 4);
      expected[i / kColumns] += kValues * x[i];
    }
  };
  constexpr int64_t kFew = 10, kMany = 700;  // many: enough work for more than one thread
  for (const uint64_t threads : {0, 1, 2}) {
    const int64_t rows = threads < 2 ? kFew : kMany;
    make(rows);
    std::vector<uint64_t> workspace((threads * (scratch + 64) + 64) / sizeof(uint64_t));
    EXPECT_EQ(runs_within(program, {memory(x), memory(y), memory(workspace)}, {rows, kColumns}, &error, &workers), threads > 0) << error;
    if (threads > 0) {
      EXPECT_EQ(y, expected) << threads;
    } else {
      EXPECT_NE(error.find("its scratch memory needs " + std::to_string(scratch - portable::kScratchBytes)), std::string::npos) << error;
    }
  }
  const int64_t symbols[] = {kFew, kColumns};
  make(kFew);
  EXPECT_TRUE(program.run({memory(x), memory(y)}, symbols, 2, &error, {}, &workers)) << error;
  EXPECT_EQ(y, expected);
}

// y[m, n] = sum over k of a[m, k] * b[k, n].
TEST(PortableMemory, ProductsStayWithinScratch) {
  portable::Kernel kernel;
  kernel.name = "product";
  kernel.symbols = 1;
  kernel.inputs = 2;
  kernel.outputs = 1;
  using E = portable::Expression;
  kernel.expressions = {{E::kSymbol, 0}, {E::kDimension, 0}, {E::kDimension, 1}, {E::kDimension, 2}};
  kernel.tensors.assign(3, {HEDDLE_TYPE_F32, {0, 0}});
  portable::Node& node = kernel.nodes.emplace_back();
  node.kind = portable::NodeKind::kContract;
  node.extents = {0, 0, 0};
  node.reduced = 1;
  node.reads.resize(2);
  node.reads[0].place = {1, 3};
  node.reads[1].tensor = 1;
  node.reads[1].place = {3, 2};
  node.first_reads = 2;
  node.bodies.resize(2);
  node.bodies[0].yields = {3, 4};
  node.bodies[1].yields = {2};
  node.results = {2};
  std::string error;
  ASSERT_TRUE(portable::verify(&kernel, &error)) << error;
  const portable::Program program(std::move(kernel));
  portable::Workers workers(kThreads);
  constexpr int64_t kSize = 500;
  std::vector<float> a(kSize * kSize, 2.0f), b(kSize * kSize, 3.0f), y(kSize * kSize);
  EXPECT_TRUE(runs_within(program, {memory(a), memory(b), memory(y)}, {kSize}, &error, &workers)) << error;
  EXPECT_EQ(y, std::vector<float>(kSize * kSize, 6.0f * kSize));
}

}  // namespace
