// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): its sequence does not depend on any library.
#include "tools/heddle/random_values.h"

#include <cmath>

#include "tools/heddle/float_formats.h"

namespace heddle::tool {
namespace {

uint64_t next(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool is_float(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_F32 || type == HEDDLE_TYPE_F64 || short_format(type) != nullptr;
}

}  // namespace

Wrong fill_random(HostTensor& tensor, uint64_t seed) {
  const std::optional<uint64_t> count = element_count(tensor.shape);
  const std::optional<uint64_t> bytes = byte_count(tensor.shape);
  if (!count || !bytes || *bytes > uint64_t{1} << 40) return shape_text(tensor.shape) + " is too large";
  tensor.bytes.assign(*bytes, std::byte{0});
  const bool floating = is_float(tensor.shape.element_type);
  for (uint64_t i = 0; i < *count; ++i) {
    const uint64_t bits = next(seed);
    const double number = static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
    const bool has_sign = tensor.shape.element_type != HEDDLE_TYPE_F8E8M0;
    set_element(tensor, i, !floating ? static_cast<double>(bits >> 63) : has_sign ? number : std::fabs(number));
  }
  return {};
}

}  // namespace heddle::tool
