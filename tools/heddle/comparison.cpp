// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise comparison in double. Integers of the same type are compared as bits first, so that large ones are exact.
#include "tools/heddle/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace heddle::tool {

std::string index_text(const Shape& shape, uint64_t index) {
  std::string out;
  for (size_t i = shape.dims.size(); i-- > 0;) {
    const uint64_t extent = static_cast<uint64_t>(shape.dims[i]);
    out = std::to_string(index % extent) + (out.empty() ? "" : ", ") + out;
    index /= extent;
  }
  return "[" + out + "]";
}

void Difference::add(const HostTensor& got, const HostTensor& expected) {
  const uint64_t count = element_count(got.shape).value_or(0), first = compared_;
  compared_ += count;
  const bool same_type = got.shape.element_type == expected.shape.element_type;
  if (same_type && got.bytes == expected.bytes) return;
  const bool wide_integer = same_type && (got.shape.element_type == HEDDLE_TYPE_I64 || got.shape.element_type == HEDDLE_TYPE_U64);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (uint64_t i = 0; i < count; ++i) {
    const double a = element(got, i), b = element(expected, i);
    double difference = std::fabs(a - b), allowed = atol_ + rtol_ * std::fabs(b);
    if (std::isnan(a) || std::isnan(b)) {
      if (std::isnan(a) && std::isnan(b)) continue;
      difference = kInfinity;
    } else if (std::isinf(a) || std::isinf(b)) {
      if (a == b) continue;
      difference = kInfinity;
    } else if (difference == 0 && wide_integer && std::memcmp(&got.bytes[i * 8], &expected.bytes[i * 8], 8) != 0) {
      difference = 1;
    }
    if (difference == 0) continue;
    largest_ = std::max(largest_, difference);
    largest_relative_ = std::max(largest_relative_, b == 0 || difference == kInfinity ? kInfinity : difference / std::fabs(b));
    if (difference != kInfinity && difference <= allowed) continue;
    ++wrong_;
    const std::pair<double, double> excess(difference == kInfinity || allowed == 0 ? kInfinity : difference / allowed, difference);
    if (excess <= worst_) continue;
    worst_ = excess;
    worst_index_ = first + i;
    char numbers[160];
    std::snprintf(numbers, sizeof(numbers), ", difference %.6g, allowed %.6g", std::fabs(a - b), allowed);
    worst_text_ = "got " + element_text(got, i) + ", expected " + element_text(expected, i) + numbers;
  }
}

std::string Difference::explanation(const Shape& shape) const {
  return std::to_string(wrong_) + " of " + std::to_string(compared_) + " elements differ; the worst is " + index_text(shape, worst_index_) +
         ": " + worst_text_;
}

Comparison compare(const HostTensor& got, const HostTensor& expected, double rtol, double atol) {
  Comparison result;
  if (got.shape.element_type != expected.shape.element_type || got.shape.dims != expected.shape.dims) {
    result.explanation =
        "it is " + shape_text(got.shape) + ", expected " + shape_text(expected.shape) + "; give expected values of the same type and shape";
    return result;
  }
  Difference difference(rtol, atol);
  difference.add(got, expected);
  result.compared = difference.compared();
  result.wrong = difference.wrong();
  result.largest = difference.largest();
  result.equal = result.wrong == 0;
  if (!result.equal) result.explanation = difference.explanation(got.shape);
  return result;
}

}  // namespace heddle::tool
