// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares two tensors within a tolerance. Used by `heddle run --expect` and by `heddle params diff`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

// The differences between two tensors of one shape, accumulated part by part in order.
// An element matches if |got - expected| <= atol + rtol * |expected|, as in numpy.isclose; NaN equals NaN, an infinity equals only itself.
class Difference {
 public:
  Difference(double rtol, double atol) : rtol_(rtol), atol_(atol) {}
  // The next elements of both tensors, equally many of each. Their types may differ.
  void add(const HostTensor& got, const HostTensor& expected);

  uint64_t compared() const { return compared_; }
  uint64_t wrong() const { return wrong_; }
  // Over all elements, including those within the tolerance. Infinite if only one side is a NaN or an infinity; the relative difference is also
  // infinite if the expected value is 0.
  double largest() const { return largest_; }
  double largest_relative() const { return largest_relative_; }
  // "3 of 10 elements differ; the worst is [1, 2]: got 1, expected 2, difference 1, allowed 0.001"; `shape` is the shape of the whole tensors.
  std::string explanation(const Shape& shape) const;

 private:
  double rtol_, atol_;
  uint64_t compared_ = 0, wrong_ = 0, worst_index_ = 0;
  double largest_ = 0, largest_relative_ = 0;
  // Of the worst element: first the difference in units of the allowed difference, so that small and large elements compare fairly; then the
  // difference itself, which decides if no difference is allowed.
  std::pair<double, double> worst_{-1, -1};
  std::string worst_text_;
};

struct Comparison {
  bool equal = false;
  uint64_t compared = 0;
  uint64_t wrong = 0;
  double largest = 0;       // difference
  std::string explanation;  // shapes that differ, or the worst element
};
// For whole tensors of the same shape and type.
Comparison compare(const HostTensor& got, const HostTensor& expected, double rtol, double atol);

// "[1, 4]" for element 9 of a 2x5 tensor.
std::string index_text(const Shape& shape, uint64_t index);

}  // namespace heddle::tool
