// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions with one matmul or convolution and its tail, made from a few numbers. Used by tests of targets; knows no target.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heddle::tests {

using Shape = std::vector<int64_t>;

// "4x8xf32"; a negative extent is unknown.
std::string type_of(const Shape& shape, const std::string& element = "f32");
std::string tensor(const std::string& type);
std::string array_of(const Shape& values);

// Elements of quantized weights, and whether they have zeros.
inline const std::pair<const char*, bool> quantized_weights[] = {
    {"i8", false}, {"i8", true}, {"ui8", true}, {"i16", true}, {"ui16", false}};

// One contraction, `input` x `filter`, and operands of the tail.
struct Case {
  std::string input, result;  // types
  Shape filter;
  // What the contraction reads is a slice of larger operands, if starts are given.
  std::string whole_input;  // type
  Shape input_starts, whole_filter, filter_starts;
  std::string op;  // "tx.conv" or "tx.matmul", and its attributes but packed_shape
  std::string attributes;
  int64_t groups = 1;
  std::vector<std::string> more;  // types of the tail's operands
  std::string tail;               // ops on %y; gives %z
  std::string stored;             // type of what is yielded, if that is the result transposed
  Shape permutation;              // then
  std::string dispatch_attributes;
  std::vector<int64_t> symbols;
  bool packed = true;
  bool winograd = false;
  std::string element = "f32";
  std::string integers;   // element of the filter, if that is quantized
  bool has_zero = false;  // then, the last operand

  std::string filter_element() const { return integers.empty() ? element : integers; }
  // How large quantized elements may be, less their zeros; others are at most 1.
  double largest_weight() const { return integers.empty() ? 1 : 150; }
  // Of the operands' random values.
  std::vector<std::pair<double, double>> ranges() const;
  int64_t depth() const;  // products that one result sums up
  int64_t packed_elements() const;
  // With a packed right side, as x86-64 wants it, or as it is.
  std::string region(bool with_packed) const;
  // What packs the right side.
  std::string pack_region() const;
};

struct Conv {
  int64_t batch = 1, height = 1, width = 1, channels = 1, columns = 1;
  Shape kernel{3, 3}, strides{1, 1}, low{0, 0}, high{0, 0}, dilations{1, 1};
  int64_t groups = 1;
  // rows: a factor for each pixel, and an offset for each column, of extents with ones. quantized: bias, then divided, rounded to even, clamped and multiplied.
  enum Tail { none, bias_relu, residual, scalars, rows, curved, swish, gelu, quantized } tail = none;
  bool packed = true;
  bool symbolic_batch = false;
  bool tied = false;
  bool winograd = false;
  bool symbolic_image = false;    // height and width
  bool channels_first = false;    // yields [n, c, y, x]
  int64_t pitch = 0;              // of the result's rows; 0: they are dense
  Shape before = {}, after = {};  // elements around the input, in each of its dimensions; the input is a slice then
  std::string element = "f32";
  std::string integers = {};
  bool has_zero = false;

  Case to_case() const;
};

struct Matmul {
  Shape batch = {};
  int64_t rows = 1, depth = 1, columns = 1;
  bool packed = true, batched_rhs = false, symbolic_rows = false, bias = false;
  bool transpose_lhs = false, transpose_rhs = false, transpose_result = false;
  int64_t pitch = 0;
  Shape before = {}, after = {}, rhs_before = {}, rhs_after = {};  // as in Conv
  std::string element = "f32";
  std::string integers = {};
  bool has_zero = false;

  Case to_case() const;
};

}  // namespace heddle::tests
