// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A matrix that is the product of two narrow ones, which is added to values in parts. Used by merge; knows no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heddle/types.h"

namespace heddle::tool {

struct LowRank {
  uint64_t rows = 0, columns = 0, rank = 0;
  std::vector<double> left;   // [rows][rank], with the factor that the product is multiplied with
  std::vector<double> right;  // [rank][columns]

  // Adds elements first, first + 1, ... of left * right in row-major order.
  void add(uint64_t first, std::span<double> values) const;
};

// out[j][i] = in[i][j] of `rows` rows
std::vector<double> transposed(std::span<const double> in, uint64_t rows);

// Values of type `from`, plus the elements of the product from `first` on, rounded once to `to`, on all cores. Returns how many finite numbers
// became infinite.
uint64_t add_product(const LowRank& product, uint64_t first, std::span<const std::byte> in, heddle_element_type_t from,
                     std::span<std::byte> out, heddle_element_type_t to);

}  // namespace heddle::tool
