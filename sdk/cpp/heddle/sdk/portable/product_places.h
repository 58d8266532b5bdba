// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The places of a product's elements in memory, for kernels that pack or gather its factors: the dimensions of each group (rows, columns, depth, batch)
// numbered together, and what each number adds to the offsets and to the bounds of a ProductForm.
#ifndef HEDDLE_SDK_PORTABLE_PRODUCT_PLACES_H_
#define HEDDLE_SDK_PORTABLE_PRODUCT_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/sdk/portable/own_kernels.h"

namespace heddle::sdk::portable {

// The dimensions of a group, numbered together in row-major order.
struct ProductGroup {
  ProductGroup(const ProductForm& form, ProductDim::Group group);
  std::vector<size_t> dims;  // of the form
  int64_t count = 1;
};

// What `count` numbers of a group from `first` on add to the offsets in the factors and in the sums, and to each bound. Code comes from files, and what it
// says wraps: elements may be accessed only where the bounds hold.
struct ProductPlaces {
  ProductPlaces(const ProductForm& form, const ProductGroup& group, int64_t first, int64_t count);
  std::vector<int64_t> left, right, sums;
  std::vector<std::vector<int64_t>> bounds;
};

// The bounds that one factor has, at one number of the batch: those that do not depend on the other factor's dimensions. group: kRows for the left factor,
// kColumns for the right one.
struct FactorBounds {
  FactorBounds(const ProductForm& form, const ProductPlaces& batch, int64_t number, ProductDim::Group group);
  bool hold(const ProductPlaces& outer, size_t o, const ProductPlaces& depth, size_t k) const;
  std::vector<size_t> which;  // of the form
  std::vector<int64_t> base, bound;
};

// Why the bounds of a product are not those of one factor each, as FactorBounds takes them; empty: they are.
std::string why_not_by_factors(const ProductForm& form);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_PRODUCT_PLACES_H_
