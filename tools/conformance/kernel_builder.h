// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of portable code that the kit makes: expressions and tensors, and whole products of matrices and convolutions. Knows no plugin.
#ifndef HEDDLE_CONFORMANCE_KERNEL_BUILDER_H_
#define HEDDLE_CONFORMANCE_KERNEL_BUILDER_H_

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "heddle/sdk/portable/code.h"

namespace heddle::conformance {

namespace portable = heddle::sdk::portable;

// An extent: a constant, or the negative number of a symbol, minus 1.
using Extent = int64_t;
constexpr Extent symbol(int64_t number) {
  return -1 - number;
}
using Shape = std::vector<Extent>;

// Builds a kernel; equal expressions are one.
class Builder {
 public:
  explicit Builder(portable::Kernel* kernel) : kernel_(kernel) {}
  uint32_t add(const portable::Expression& expression);
  uint32_t extent(Extent of);
  uint32_t number(int64_t value) { return add({portable::Expression::kConstant, value, 0, 0}); }
  uint32_t dimension(int64_t number) { return add({portable::Expression::kDimension, number, 0, 0}); }
  uint32_t sum(uint32_t a, uint32_t b) { return add({portable::Expression::kAdd, 0, a, b}); }
  uint32_t times(uint32_t a, int64_t factor) { return add({portable::Expression::kMul, 0, a, number(factor)}); }
  std::vector<uint32_t> extents(const Shape& shape);
  uint32_t tensor(heddle_element_type_t type, const Shape& shape);

 private:
  portable::Kernel* kernel_;
  std::map<std::tuple<int, int64_t, uint32_t, uint32_t>, uint32_t> known_;
};

// [batch, rows, depth] by [batch, depth, columns]; without a batch, of two dimensions. Inputs are the factors and, with a tail, [columns] to be added
// before what is negative becomes 0. Elements are f32, f16 or bf16, and sums f32.
struct ProductShape {
  Extent batch, rows, columns, depth;  // batch 0: none
  bool is_left_transposed = false, is_right_transposed = false, has_tail = false;
  heddle_element_type_t type = HEDDLE_TYPE_F32;
};
portable::Kernel product_kernel(const ProductShape& of, uint32_t symbols);

// [images, in..., channels] by [window..., channels, filters]; the tail as of a product, of [filters].
struct ConvolutionShape {
  Extent images;
  std::array<int64_t, 2> in;
  int64_t channels, filters;
  std::array<int64_t, 2> window, strides = {1, 1}, dilations = {1, 1}, low = {0, 0}, high = {0, 0};
  bool has_tail = false;
  heddle_element_type_t type = HEDDLE_TYPE_F32;
  int64_t out(size_t side) const {
    return (in[side] + low[side] + high[side] - dilations[side] * (window[side] - 1) - 1) / strides[side] + 1;
  }
};
portable::Kernel convolution_kernel(const ConvolutionShape& of, uint32_t symbols);

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_KERNEL_BUILDER_H_
