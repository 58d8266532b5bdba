// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparison element by element, in double; integers of the same type are compared as bits first, so that large ones stay exact.
#include "tools/heddle/comparison.h"

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
  double worst = -1;
  uint64_t worst_index = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const double a = element(got, i), b = element(expected, i);
    // In units of what is allowed, so that "worst" compares small and large elements fairly.
    double excess;
    if (std::isnan(a) || std::isnan(b)) {
      if (std::isnan(a) && std::isnan(b)) continue;
      excess = std::numeric_limits<double>::infinity();
    } else if (std::isinf(a) || std::isinf(b)) {
      if (a == b) continue;
      excess = std::numeric_limits<double>::infinity();
    } else {
      double difference = std::fabs(a - b);
      if (difference == 0 && wide_integer && std::memcmp(&got.bytes[i * 8], &expected.bytes[i * 8], 8) != 0) difference = 1;
      const double allowed = atol + rtol * std::fabs(b);
      if (difference <= allowed) continue;
      excess = allowed > 0 ? difference / allowed : std::numeric_limits<double>::infinity();
      if (allowed == 0) excess = std::numeric_limits<double>::max() / 2 + difference;  // all are infinitely off: take the largest
    }
    ++result.wrong;
    if (excess > worst) {
      worst = excess;
      worst_index = i;
    }
  }
  result.equal = result.wrong == 0;
  if (!result.equal) {
    char numbers[160];
    std::snprintf(numbers, sizeof(numbers), ", difference %.6g, allowed %.6g", std::fabs(element(got, worst_index) - element(expected, worst_index)),
                  atol + rtol * std::fabs(element(expected, worst_index)));
    result.explanation = std::to_string(result.wrong) + " of " + std::to_string(count) + " elements differ; the worst is " +
                         index_text(got.shape, worst_index) + ": got " + element_text(got, worst_index) + ", expected " +
                         element_text(expected, worst_index) + numbers;
  }
  return result;
}

}  // namespace heddle::tool
