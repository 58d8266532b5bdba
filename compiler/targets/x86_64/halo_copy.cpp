// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits the copy of a part of an image with its halo. Called by contraction.
#include "compiler/targets/x86_64/halo_copy.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

Value HaloCopy::needed(Value count, int64_t stride, int64_t taps, int64_t dilation) {
  return k_.add(k_.mul(k_.sub(count, k_.index(1)), stride), (taps - 1) * dilation + 1);
}

void HaloCopy::band(Value image, Value from, Value rows) {
  int64_t channels = shape_.channels, width = shape_.needed_width(shape_.width);
  int64_t left = std::min(shape_.pad_left, width), inside = std::min(shape_.in_width, width - left), right = width - left - inside;
  Value top = k_.sub(k_.mul(from, shape_.stride_height), k_.index(shape_.pad_top));
  k_.loop(k_.index(0), needed(rows, shape_.stride_height, shape_.kernel_height, shape_.dilation_height), [&](Value i) {
    Value target = k_.pointer(k_.workspace(), k_.mul(i, width * channels), f32());
    Value source_row = k_.add(top, i);
    Value exists = k_.make<arith::AndIOp>(k_.less(k_.index(-1), source_row), k_.less(source_row, k_.index(shape_.in_height)));
    k_.branch(
        exists,
        [&] {
          fill_zeros(target, left * channels);
          Value source = k_.pointer(image, k_.mul(source_row, shape_.lhs_row), f32());
          copy_pixels(k_.pointer(target, k_.index(left * channels), f32()), source, k_.index(inside));
          fill_zeros(k_.pointer(target, k_.index((left + inside) * channels), f32()), right * channels);
        },
        [&] { fill_zeros(target, width * channels); });
  });
}

void HaloCopy::part_of_line(Value line, Value from, Value pixels) {
  Value start = k_.sub(k_.mul(from, shape_.stride_width), k_.index(shape_.pad_left));
  part_of_row(k_.workspace(), line, start, needed(pixels, shape_.stride_width, shape_.kernel_width, shape_.dilation_width),
              k_.index(shape_.in_width));
}

void HaloCopy::piece(Value image, const Piece& piece) {
  Value top = k_.sub(k_.mul(piece.top, shape_.stride_height), k_.index(shape_.pad_top)),
        left = k_.sub(k_.mul(piece.left, shape_.stride_width), k_.index(shape_.pad_left));
  Value rows = needed(piece.rows, shape_.stride_height, shape_.kernel_height, shape_.dilation_height),
        columns = needed(piece.columns, shape_.stride_width, shape_.kernel_width, shape_.dilation_width);
  Value in_height = k_.extent(shape_.extents.in_height), in_width = k_.extent(shape_.extents.in_width),
        in_row = k_.extent(shape_.extents.in_row);
  k_.loop(k_.index(0), rows, [&](Value i) {
    Value target = k_.pointer(k_.workspace(), k_.mul(i, row()), f32()), source_row = k_.add(top, i);
    Value exists = k_.make<arith::AndIOp>(k_.less(k_.index(-1), source_row), k_.less(source_row, in_height));
    k_.branch(
        exists, [&] { part_of_row(target, k_.pointer(image, k_.mul(source_row, in_row), f32()), left, columns, in_width); },
        [&] { fill_zeros(target, k_.mul(columns, shape_.channels)); });
  });
}

void HaloCopy::part_of_row(Value target, Value row, Value start, Value count, Value in_width) {
  int64_t channels = shape_.channels;
  Value before = k_.min(k_.max(k_.sub(k_.index(0), start), k_.index(0)), count);
  Value end = k_.max(k_.min(k_.sub(in_width, start), count), before);
  auto at = [&](Value base, Value pixel, int64_t step) { return k_.pointer(base, k_.mul(pixel, step), f32()); };
  fill_zeros(target, k_.mul(before, channels));
  copy_pixels(at(target, before, channels), at(row, k_.add(start, before), shape_.lhs_pixel), k_.sub(end, before));
  fill_zeros(at(target, end, channels), k_.mul(k_.sub(count, end), channels));
}

void HaloCopy::for_vectors(Value elements, const std::function<void(Value, Value)>& visit) {
  int64_t lanes = k_.level.f32_lanes();
  Value whole = k_.mul(k_.div(elements, k_.index(lanes)), lanes);
  k_.loop(k_.index(0), whole, k_.index(lanes), [&](Value i) { visit(i, Value()); });
  k_.branch(k_.less(whole, elements), [&] { visit(whole, k_.remainder_mask(k_.sub(elements, whole), lanes)); });
}

void HaloCopy::for_vectors(int64_t elements, const std::function<void(Value, Value)>& visit) {
  int64_t lanes = k_.level.f32_lanes(), whole = elements / lanes * lanes;
  if (whole > 0) k_.loop(k_.index(0), k_.index(whole), k_.index(lanes), [&](Value i) { visit(i, Value()); });
  if (elements > whole) visit(k_.index(whole), k_.remainder_mask(k_.index(elements - whole), lanes));
}

void HaloCopy::copy_pixels(Value target, Value source, Value pixels) {
  auto copy = [&](Value to, Value from, auto elements) {
    for_vectors(elements, [&](Value i, Value mask) { k_.store(k_.load(from, i, f32(), k_.level.f32_lanes(), mask), to, i, mask); });
  };
  if (shape_.lhs_pixel == shape_.channels) return copy(target, source, k_.mul(pixels, shape_.channels));
  k_.loop(k_.index(0), pixels, [&](Value i) {
    copy(k_.pointer(target, k_.mul(i, shape_.channels), f32()), k_.pointer(source, k_.mul(i, shape_.lhs_pixel), f32()), shape_.channels);
  });
}

void HaloCopy::fill_zeros(Value target, int64_t elements) {
  Value zeros = k_.constant(k_.vector_type(f32(), k_.level.f32_lanes()), 0.0);
  for_vectors(elements, [&](Value i, Value mask) { k_.store(zeros, target, i, mask); });
}

void HaloCopy::fill_zeros(Value target, Value elements) {
  Value zeros = k_.constant(k_.vector_type(f32(), k_.level.f32_lanes()), 0.0);
  for_vectors(elements, [&](Value i, Value mask) { k_.store(zeros, target, i, mask); });
}

}  // namespace heddle::targets::x86_64
