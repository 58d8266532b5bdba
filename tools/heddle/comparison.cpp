// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparison element by element, in double; integers of the same type are compared as bits first, so that large ones stay exact.
#include "tools/heddle/comparison.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

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

Comparison compare(const HostTensor& got, const HostTensor& expected, double rtol, double atol) {
  Comparison result;
  if (got.shape.element_type != expected.shape.element_type || got.shape.dims != expected.shape.dims) {
    result.explanation = "it is " + shape_text(got.shape) + ", expected " + shape_text(expected.shape);
    return result;
  }
  const uint64_t count = element_count(got.shape).value_or(0);
  result.compared = count;
  if (got.bytes == expected.bytes) {
    result.equal = true;
    return result;
  }
  const bool wide_integer = got.shape.element_type == HEDDLE_TYPE_I64 || got.shape.element_type == HEDDLE_TYPE_U64;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Difference in units of what is allowed, so that small and large elements compare fairly; then the difference itself, which
  // decides where nothing is allowed.
  std::pair<double, double> worst(-1, -1);
  uint64_t worst_index = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double a = element(got, i), b = element(expected, i);
    double difference = std::fabs(a - b), allowed = atol + rtol * std::fabs(b);
    if (std::isnan(a) || std::isnan(b)) {
      if (std::isnan(a) && std::isnan(b)) continue;
      difference = kInfinity;
    } else if (std::isinf(a) || std::isinf(b)) {
      if (a == b) continue;
      difference = kInfinity;
    } else {
      if (difference == 0 && wide_integer && std::memcmp(&got.bytes[i * 8], &expected.bytes[i * 8], 8) != 0) difference = 1;
      if (difference <= allowed) continue;
    }
    ++result.wrong;
    const std::pair<double, double> excess(difference == kInfinity || allowed == 0 ? kInfinity : difference / allowed, difference);
    if (excess > worst) {
      worst = excess;
      worst_index = i;
    }
  }
  result.equal = result.wrong == 0;
  if (!result.equal) {
    char numbers[160];
    std::snprintf(numbers, sizeof(numbers), ", difference %.6g, allowed %.6g",
                  std::fabs(element(got, worst_index) - element(expected, worst_index)),
                  atol + rtol * std::fabs(element(expected, worst_index)));
    result.explanation = std::to_string(result.wrong) + " of " + std::to_string(count) + " elements differ; the worst is " +
                         index_text(got.shape, worst_index) + ": got " + element_text(got, worst_index) + ", expected " +
                         element_text(expected, worst_index) + numbers;
  }
  return result;
}

}  // namespace heddle::tool
