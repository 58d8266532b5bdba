// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of the domain "test": Scale, which fails in the way that its attribute `mode` asks for, Butterfly, with several operands, results and
// attributes, Unsaid, which copies, and Sum. Of the default domain Gelu and Softmax, which the compiler has kernels for too. Used by tests of the
// runtime, of the compiler and of the kit.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "heddle/sdk/library.h"

namespace {

namespace sdk = heddle::sdk;

// y = x * factor, through the workspace, in three shards.
template <uint32_t kMajor>
class Scale {
 public:
  static constexpr const char* kDomain = "test";
  static constexpr const char* kName = "Scale";
  static constexpr uint32_t kVersion = kMajor;
  static constexpr uint32_t kShards = 3;

  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t* properties) {
    if (heddle_status_t* wrong = request.expect(1, 1, {{"factor", HEDDLE_ATTRIBUTE_FLOAT}, {"mode", HEDDLE_ATTRIBUTE_STRING}}))
      return wrong;
    const heddle_operand_t& x = request.input(0);
    if (x.element_type != HEDDLE_TYPE_F32 || !sdk::same_type(x, request.output(0))) {
      return request.refuse("x is %s; f32, and y of its type, was expected", sdk::text_of(x).c_str());
    }
    const std::string_view mode = request.text("mode").value_or("");
    if (mode == "refuse") return request.refuse("it refuses on purpose");
    properties->shard_count = kShards;
    properties->workspace_bytes = 4 * sdk::element_count(x);
    properties->workspace_alignment_bytes = 256;
    if (mode == "cheap") properties->cost_ns = 1;
    if (mode == "odd_workspace") properties->workspace_alignment_bytes = 3;
    return nullptr;
  }

  explicit Scale(const sdk::OperationRequest& request)
      : mode_(request.text("mode").value_or("")),
        factor_(static_cast<float>(request.number("factor").value_or(2))),
        elements_(sdk::element_count(request.input(0))) {
    if (mode_ == "prepare_fails") throw std::bad_alloc();
  }

  heddle_status_t* run(const sdk::OperationCall& call) const {
    if (mode_ == "fail") {
      return sdk::status(call.host(), HEDDLE_STATUS_DATA_LOSS, "test: scaling %llu elements failed: it was asked to",
                         static_cast<unsigned long long>(elements_));
    }
    if (mode_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (reinterpret_cast<uintptr_t>(call.c().workspace) % 256 != 0 || call.c().workspace_bytes != 4 * elements_) {
      return sdk::status(call.host(), HEDDLE_STATUS_INTERNAL, "test: the workspace is not what query asked for");
    }
    const float* x = call.operand<const float>(0);
    float *between = call.workspace<float>(), *y = call.operand<float>(1);
    const uint64_t first = call.first_of(elements_, kShards), last = call.last_of(elements_, kShards);
    for (uint64_t i = first; i < last; ++i) between[i] = x[i] * factor_;
    std::copy(between + first, between + last, y + first);
    return nullptr;
  }

 private:
  std::string mode_;
  float factor_;
  uint64_t elements_;
};

// sum = a * weights[0] + b * weights[1] + bias, difference = a - b, and of each row: tag, number of axes, first axis, last axis.
class Butterfly {
 public:
  static constexpr const char* kDomain = "test";
  static constexpr const char* kName = "Butterfly";
  static constexpr uint32_t kVersion = 1;

  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t*) {
    const uint32_t inputs = request.input_count() == 3 ? 3 : 2;
    if (heddle_status_t* wrong = request.expect(
            inputs, 3, {{"axes", HEDDLE_ATTRIBUTE_INTS}, {"tag", HEDDLE_ATTRIBUTE_INT}, {"weights", HEDDLE_ATTRIBUTE_FLOATS}})) {
      return wrong;
    }
    if (!request.integers("axes") || !request.numbers("weights") || request.numbers("weights")->size() != 2 || !request.integer("tag")) {
      return request.refuse("axes, two weights and a tag are needed");
    }
    const heddle_operand_t& a = request.input(0);
    if (a.element_type != HEDDLE_TYPE_F32 || a.rank != 2)
      return request.refuse("a is %s; f32 of rank 2 was expected", sdk::text_of(a).c_str());
    for (const heddle_operand_t* same : {&request.input(1), &request.output(0), &request.output(1)}) {
      if (!sdk::same_type(a, *same))
        return request.refuse("b or a result is %s, and a %s", sdk::text_of(*same).c_str(), sdk::text_of(a).c_str());
    }
    const heddle_operand_t& table = request.output(2);
    if (table.element_type != HEDDLE_TYPE_I64 || table.rank != 2 || table.dims[0] != a.dims[0] || table.dims[1] != 4)
      return request.refuse("the table is %s; i64 of 4 numbers a row was expected", sdk::text_of(table).c_str());
    const heddle_operand_t* bias = inputs == 3 ? &request.input(2) : nullptr;
    if (bias && (bias->element_type != HEDDLE_TYPE_F32 || bias->rank != 1 || bias->dims[0] != a.dims[1]))
      return request.refuse("bias is %s; f32 of a row's %lld elements was expected", sdk::text_of(*bias).c_str(),
                            static_cast<long long>(a.dims[1]));
    return nullptr;
  }

  explicit Butterfly(const sdk::OperationRequest& request)
      : axes_(request.integers("axes")->begin(), request.integers("axes")->end()),
        weights_(request.numbers("weights")->begin(), request.numbers("weights")->end()),
        tag_(*request.integer("tag")),
        rows_(request.input(0).dims[0]),
        columns_(request.input(0).dims[1]),
        inputs_(request.input_count()) {}

  heddle_status_t* run(const sdk::OperationCall& call) const {
    const float *a = call.operand<const float>(0), *b = call.operand<const float>(1);
    const float* bias = inputs_ == 3 ? call.operand<const float>(2) : nullptr;
    float *sum = call.operand<float>(inputs_), *difference = call.operand<float>(inputs_ + 1);
    auto* table = call.operand<int64_t>(inputs_ + 2);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t i = row * columns_; i < (row + 1) * columns_; ++i) {
        sum[i] = static_cast<float>(a[i] * weights_[0] + b[i] * weights_[1]) + (bias ? bias[i - row * columns_] : 0);
        difference[i] = a[i] - b[i];
      }
      const int64_t line[] = {tag_, static_cast<int64_t>(axes_.size()), axes_.empty() ? 0 : axes_.front(),
                              axes_.empty() ? 0 : axes_.back()};
      std::copy(line, line + 4, table + 4 * row);
    }
    return nullptr;
  }

 private:
  std::vector<int64_t> axes_;
  std::vector<double> weights_;
  int64_t tag_, rows_, columns_;
  uint32_t inputs_;
};

class Unsaid {
 public:
  static constexpr const char* kDomain = "test";
  static constexpr const char* kName = "Unsaid";
  static constexpr uint32_t kVersion = 1;
  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t*) { return request.expect(1, 1, {}); }
  explicit Unsaid(const sdk::OperationRequest&) {}
  heddle_status_t* run(const sdk::OperationCall& call) const {
    const uint64_t bytes = std::min(call.c().operand_bytes[0], call.c().operand_bytes[1]);
    std::memset(call.operand<char>(1), 0, call.c().operand_bytes[1]);
    if (bytes) std::memcpy(call.operand<char>(1), call.operand<const char>(0), bytes);
    return nullptr;
  }
};

// a + b + extra: where it stands beside a kernel that adds, the result says which of them ran.
class Sum {
 public:
  static constexpr const char* kDomain = "test";
  static constexpr const char* kName = "Sum";
  static constexpr uint32_t kVersion = 1;

  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t* properties) {
    if (heddle_status_t* wrong = request.expect(2, 1, {{"extra", HEDDLE_ATTRIBUTE_FLOAT}})) return wrong;
    if (sdk::element_count(request.input(0)) > 1000) return request.refuse("it takes 1000 elements at most");
    properties->workspace_bytes = 64;
    return nullptr;
  }
  explicit Sum(const sdk::OperationRequest& request)
      : extra_(static_cast<float>(request.number("extra").value_or(0))), elements_(sdk::element_count(request.input(0))) {}
  heddle_status_t* run(const sdk::OperationCall& call) const {
    const float *a = call.operand<const float>(0), *b = call.operand<const float>(1);
    for (uint64_t i = 0; i < elements_; ++i) call.operand<float>(2)[i] = a[i] + b[i] + extra_;
    return nullptr;
  }

 private:
  float extra_;
  uint64_t elements_;
};

heddle_status_t* expect_one_f32(const sdk::OperationRequest& request, sdk::TakenAttribute attribute) {
  if (heddle_status_t* wrong = request.expect(1, 1, {attribute})) return wrong;
  const heddle_operand_t& x = request.input(0);
  if (x.element_type == HEDDLE_TYPE_F32 && x.rank != 0 && sdk::same_type(x, request.output(0))) return nullptr;
  return request.refuse("x is %s; f32 of rank 1 or more was expected", sdk::text_of(x).c_str());
}

// As ONNX says. The first plugin is for small tensors only, so that the other, or the kernel, has the large ones.
class Gelu {
 public:
  static constexpr const char* kDomain = "ai.onnx";
  static constexpr const char* kName = "Gelu";
  static constexpr uint32_t kVersion = 20;

  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t*) {
    if (heddle_status_t* wrong = expect_one_f32(request, {"approximate", HEDDLE_ATTRIBUTE_STRING})) return wrong;
#ifndef HEDDLE_OTHER_LIBRARY
    if (sdk::element_count(request.input(0)) > 1000) return request.refuse("it takes 1000 elements at most");
#endif
    return nullptr;
  }
  explicit Gelu(const sdk::OperationRequest& request)
      : tanh_(request.text("approximate").value_or("none") == "tanh"), elements_(sdk::element_count(request.input(0))) {}
  heddle_status_t* run(const sdk::OperationCall& call) const {
    const float* x = call.operand<const float>(0);
    for (uint64_t i = 0; i < elements_; ++i) {
      const double v = x[i], gate = tanh_ ? std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)) : std::erf(v * 0.7071067811865476);
      call.operand<float>(1)[i] = static_cast<float>(0.5 * v * (1 + gate));
    }
    return nullptr;
  }

 private:
  bool tanh_;
  uint64_t elements_;
};

// Along the last axis.
class Softmax {
 public:
  static constexpr const char* kDomain = "ai.onnx";
  static constexpr const char* kName = "Softmax";
  static constexpr uint32_t kVersion = 13;

  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t*) {
    if (heddle_status_t* wrong = expect_one_f32(request, {"axis", HEDDLE_ATTRIBUTE_INT})) return wrong;
    const int64_t axis = request.integer("axis").value_or(-1), rank = request.input(0).rank;
    return axis == -1 || axis == rank - 1 ? nullptr
                                          : request.refuse("its axis is %lld; the last one was expected", static_cast<long long>(axis));
  }
  explicit Softmax(const sdk::OperationRequest& request)
      : width_(static_cast<uint64_t>(request.input(0).dims[request.input(0).rank - 1])), elements_(sdk::element_count(request.input(0))) {}
  heddle_status_t* run(const sdk::OperationCall& call) const {
    const float* x = call.operand<const float>(0);
    float* y = call.operand<float>(1);
    for (uint64_t row = 0; row < elements_; row += width_) {
      const float most = *std::max_element(x + row, x + row + width_);
      double sum = 0;
      for (uint64_t i = row; i < row + width_; ++i) sum += std::exp(static_cast<double>(x[i] - most));
      for (uint64_t i = row; i < row + width_; ++i) y[i] = static_cast<float>(std::exp(static_cast<double>(x[i] - most)) / sum);
    }
    return nullptr;
  }

 private:
  uint64_t width_, elements_;
};

}  // namespace

#ifdef HEDDLE_OTHER_LIBRARY
HEDDLE_LIBRARY_PLUGIN("test.other_library", "2.0.0", Scale<1>, Butterfly, Sum, Gelu)
#else
HEDDLE_LIBRARY_PLUGIN("test.library", "1.0.0", Scale<1>, Scale<3>, Butterfly, Unsaid, Sum, Gelu, Softmax)
#endif
