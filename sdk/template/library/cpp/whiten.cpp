// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One operator, org.example::Whiten/1: from every row of x (its last dimension) subtracts its mean, and divides by its standard deviation,
//   y = (x - mean) / sqrt(variance + epsilon) * scale
// x and y are f32 of one shape; scale, f32 of a row's length, may be left out. Rows are spread over the device's cores.
#include <algorithm>
#include <cmath>

#include "heddle/sdk/library.h"

namespace sample {
namespace {

namespace sdk = heddle::sdk;

class Whiten {
 public:
  static constexpr const char* kDomain = "org.example";
  static constexpr const char* kName = "Whiten";
  static constexpr uint32_t kVersion = 1;

  static heddle_status_t* query(const sdk::OperationRequest& request, heddle_operation_properties_t* properties) {
    const uint32_t inputs = request.input_count() == 2 ? 2 : 1;
    if (heddle_status_t* wrong = request.expect(inputs, 1, {{"epsilon", HEDDLE_ATTRIBUTE_FLOAT}})) return wrong;
    const heddle_operand_t &x = request.input(0), &y = request.output(0);
    if (x.element_type != HEDDLE_TYPE_F32 || x.rank == 0) {
      return request.refuse("x is %s; f32 with rows was expected", sdk::text_of(x).c_str());
    }
    if (!sdk::same_type(x, y)) return request.refuse("y is %s, and x is %s", sdk::text_of(y).c_str(), sdk::text_of(x).c_str());
    if (inputs == 2) {
      const heddle_operand_t& scale = request.input(1);
      if (scale.element_type != HEDDLE_TYPE_F32 || scale.rank != 1 || scale.dims[0] != x.dims[x.rank - 1]) {
        return request.refuse("scale is %s; f32 with the %lld elements of a row was expected", sdk::text_of(scale).c_str(),
                              static_cast<long long>(x.dims[x.rank - 1]));
      }
    }
    if (const double epsilon = epsilon_of(request); !(epsilon >= 0)) return request.refuse("epsilon %g is negative", epsilon);
    const Whiten planned(request);
    properties->shard_count = planned.shards_;
    properties->cost_ns = std::max<uint64_t>(planned.rows_ / planned.shards_ * planned.columns_, 1);  // about a nanosecond per element
    return nullptr;
  }

  explicit Whiten(const sdk::OperationRequest& request) : has_scale_(request.input_count() == 2), epsilon_(epsilon_of(request)) {
    const heddle_operand_t& x = request.input(0);
    columns_ = static_cast<uint64_t>(x.dims[x.rank - 1]);
    rows_ = columns_ ? sdk::element_count(x) / columns_ : 0;
    // For a shard of less than a few thousand elements, distribution costs more than the work.
    const uint64_t worth = std::max<uint64_t>(rows_ * columns_ / 4096, 1);
    shards_ = static_cast<uint32_t>(std::min<uint64_t>({worth, std::max<uint64_t>(rows_, 1), std::max(request.c().compute_units, 1u)}));
  }

  heddle_status_t* run(const sdk::OperationCall& call) const {
    const float* x = call.operand<const float>(0);
    const float* scale = has_scale_ ? call.operand<const float>(1) : nullptr;
    float* y = call.operand<float>(has_scale_ ? 2 : 1);
    for (uint64_t row = call.first_of(rows_, shards_); row < call.last_of(rows_, shards_); ++row) {
      whiten(x + row * columns_, scale, y + row * columns_);
    }
    return nullptr;
  }

 private:
  static double epsilon_of(const sdk::OperationRequest& request) { return request.number("epsilon").value_or(1e-5); }

  void whiten(const float* x, const float* scale, float* y) const {
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < columns_; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(columns_);
    for (uint64_t i = 0; i < columns_; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(columns_) + epsilon_);
    for (uint64_t i = 0; i < columns_; ++i) y[i] = static_cast<float>((x[i] - mean) * factor * (scale ? scale[i] : 1.0f));
  }

  bool has_scale_;
  double epsilon_;
  uint64_t rows_, columns_;
  uint32_t shards_;
};

}  // namespace
}  // namespace sample

HEDDLE_LIBRARY_PLUGIN("org.example.whiten", "0.1.0", sample::Whiten)
