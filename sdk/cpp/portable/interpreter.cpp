// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See interpreter.h.
#include "heddle/sdk/portable/interpreter.h"

#include <algorithm>

#include "nodes.h"
#include "prepare.h"

namespace heddle::sdk::portable {

namespace {

// Expressions over symbols.
void evaluate_known(Call& call, const int64_t* symbols) {
  const std::vector<Expression>& all = call.prepared.kernel.expressions;
  for (size_t i = 0; i < all.size(); ++i) {
    if (call.prepared.dims[i] != 0) continue;
    const Expression& e = all[i];
    const auto a = static_cast<uint64_t>(call.known[e.a]), b = static_cast<uint64_t>(call.known[e.b]);
    const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
    int64_t& out = call.known[i];
    switch (e.kind) {
      case Expression::kConstant:
        out = e.value;
        break;
      case Expression::kSymbol:
        out = symbols[e.value];
        break;
      case Expression::kAdd:
        out = static_cast<int64_t>(a + b);
        break;
      case Expression::kMul:
        out = static_cast<int64_t>(a * b);
        break;
      default: {
        if (y <= 0) break;
        const int64_t down = x / y - (x % y < 0);
        out = e.kind == Expression::kFloorDiv ? down : e.kind == Expression::kCeilDiv ? down + (x % y != 0) : x % y + (x % y < 0 ? y : 0);
        break;
      }
    }
  }
}

bool count_of(const std::vector<int64_t>& extents, int64_t* out) {
  *out = 1;
  bool is_empty = false;
  for (int64_t extent : extents) {
    if (extent < 0) return false;
    is_empty |= extent == 0;
    if (extent > 0 && __builtin_mul_overflow(*out, extent, out)) return false;
  }
  if (is_empty) *out = 0;
  return *out <= INT64_MAX / 8;
}

}  // namespace

Program::Program(Kernel kernel) {
  auto prepared = std::make_unique<Prepared>();
  prepared->kernel = std::move(kernel);
  prepare(*prepared);
  prepared_ = std::move(prepared);
}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

const Kernel& Program::kernel() const {
  return prepared_->kernel;
}

bool Program::run(const std::vector<Memory>& bindings, const int64_t* symbols, size_t symbol_count, std::string* out_error,
                  const Limits& limits) const {
  const Kernel& kernel = prepared_->kernel;
  Call call = {*prepared_, {}, {}, limits.memory_bytes, {}};
  auto fail = [&](std::string text) {
    *out_error = std::move(text);
    return false;
  };
  if (bindings.size() != kernel.inputs + kernel.outputs || symbol_count != kernel.symbols)
    return fail("it has " + std::to_string(kernel.inputs + kernel.outputs) + " bindings and " + std::to_string(kernel.symbols) +
                " symbols, and was called with " + std::to_string(bindings.size()) + " and " + std::to_string(symbol_count));
  call.known.resize(kernel.expressions.size());
  evaluate_known(call, symbols);
  std::vector<std::unique_ptr<char[]>> between;
  for (size_t i = 0; i < kernel.tensors.size(); ++i) {
    const Tensor& tensor = kernel.tensors[i];
    View view;
    scalar_of(tensor.type, &view.scalar);
    view.is_unsigned = tensor.type == HEDDLE_TYPE_U8 || tensor.type == HEDDLE_TYPE_U16 || tensor.type == HEDDLE_TYPE_U32 ||
                       tensor.type == HEDDLE_TYPE_BOOL;
    for (uint32_t extent : tensor.extents) view.extents.push_back(call.known[extent]);
    if (!count_of(view.extents, &view.count)) return fail("tensor " + std::to_string(i) + " has a negative extent, or is too large");
    view.strides.resize(view.extents.size());
    int64_t stride = 1;
    for (size_t d = view.extents.size(); d-- > 0; stride *= std::max<int64_t>(1, view.extents[d])) view.strides[d] = stride;
    const uint64_t bytes = static_cast<uint64_t>(view.count) * bytes_of(view.scalar);
    if (i < bindings.size()) {
      if (bytes > bindings[i].bytes)
        return fail("binding " + std::to_string(i) + " has " + std::to_string(bindings[i].bytes) + " bytes, and its tensor " +
                    std::to_string(bytes));
      if (bytes > 0 && reinterpret_cast<uintptr_t>(bindings[i].data) % bytes_of(view.scalar) != 0)
        return fail("binding " + std::to_string(i) + " is not aligned to its elements");
      view.data = bindings[i].data;
    } else {
      if (bytes > call.memory_bytes)
        return fail("a tensor between two nodes has " + std::to_string(bytes) + " bytes, and " + std::to_string(call.memory_bytes) +
                    " may still be taken");
      call.memory_bytes -= bytes;
      between.push_back(std::make_unique<char[]>(bytes));
      view.data = between.back().get();
    }
    call.tensors.push_back(std::move(view));
  }
  uint64_t steps = 0;
  for (const Node& node : kernel.nodes) {
    std::vector<int64_t> all, parallel;
    for (uint32_t extent : node.extents) all.push_back(call.known[extent]);
    parallel.assign(all.begin(), all.begin() + node.parallel_rank());
    int64_t count, whole;
    uint64_t more;
    if (!count_of(parallel, &count) || !count_of(all, &whole) ||
        __builtin_mul_overflow(static_cast<uint64_t>(whole), std::max<uint64_t>(1, node.steps), &more) ||
        __builtin_add_overflow(steps, more, &steps) || steps > limits.steps) {
      return fail("its nodes have a negative extent, or more than " + std::to_string(limits.steps) + " steps");
    }
    for (uint32_t result : node.results) {
      if (call.tensors[result].count != count)
        return fail("a node computes " + std::to_string(count) + " elements of tensor " + std::to_string(result) + ", which has " +
                    std::to_string(call.tensors[result].count));
    }
  }
  Evaluator evaluator(call);
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    if (!NodeRunner(call, evaluator, i).run()) return fail("node " + std::to_string(i) + ": " + call.error);
  }
  return true;
}

bool load(std::string_view image, std::vector<Program>* out, std::string* out_error) {
  std::vector<Kernel> kernels;
  if (!read_image(image, &kernels, out_error)) return false;
  out->clear();
  for (Kernel& kernel : kernels) out->emplace_back(std::move(kernel));
  return true;
}

}  // namespace heddle::sdk::portable
