// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See product_places.h.
#include "heddle/sdk/portable/product_places.h"

namespace heddle::sdk::portable {
namespace {

// *to += a * b, which wraps.
void add_product(int64_t a, int64_t b, int64_t* to) {
  *to = static_cast<int64_t>(static_cast<uint64_t>(*to) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

ProductGroup::ProductGroup(const ProductForm& form, ProductDim::Group group) {
  for (size_t d = 0; d < form.dims.size(); ++d) {
    if (form.dims[d].group != group) continue;
    dims.push_back(d);
    count = static_cast<int64_t>(static_cast<uint64_t>(count) * static_cast<uint64_t>(form.dims[d].extent));
  }
}

ProductPlaces::ProductPlaces(const ProductForm& form, const ProductGroup& group, int64_t first, int64_t count)
    : bounds(form.bounds.size()) {
  std::vector<int64_t> index(group.dims.size());
  int64_t rest = first;
  for (size_t i = group.dims.size(); count > 0 && i-- > 0; rest /= form.dims[group.dims[i]].extent)
    index[i] = rest % form.dims[group.dims[i]].extent;
  for (int64_t n = 0; n < count; ++n) {
    int64_t of_left = 0, of_right = 0, of_sums = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      const ProductDim& dim = form.dims[group.dims[i]];
      add_product(index[i], dim.left, &of_left);
      add_product(index[i], dim.right, &of_right);
      add_product(index[i], dim.sums, &of_sums);
    }
    left.push_back(of_left);
    right.push_back(of_right);
    sums.push_back(of_sums);
    for (size_t b = 0; b < bounds.size(); ++b) {
      int64_t place = 0;
      for (size_t i = 0; i < index.size(); ++i) add_product(index[i], form.bounds[b].steps[group.dims[i]], &place);
      bounds[b].push_back(place);
    }
    for (size_t i = index.size(); i-- > 0;) {
      if (++index[i] < form.dims[group.dims[i]].extent) break;
      index[i] = 0;
    }
  }
}

FactorBounds::FactorBounds(const ProductForm& form, const ProductPlaces& batch, int64_t number, ProductDim::Group group) {
  const ProductDim::Group other = group == ProductDim::kRows ? ProductDim::kColumns : ProductDim::kRows;
  for (size_t b = 0; b < form.bounds.size(); ++b) {
    bool of_other = false;
    for (size_t d = 0; d < form.dims.size(); ++d) of_other |= form.dims[d].group == other && form.bounds[b].steps[d] != 0;
    if (of_other) continue;
    which.push_back(b);
    base.push_back(form.bounds[b].offset);
    add_product(1, batch.bounds[b][static_cast<size_t>(number)], &base.back());
    bound.push_back(form.bounds[b].bound);
  }
}

bool FactorBounds::hold(const ProductPlaces& outer, size_t o, const ProductPlaces& depth, size_t k) const {
  for (size_t i = 0; i < which.size(); ++i) {
    const auto place = static_cast<int64_t>(static_cast<uint64_t>(base[i]) + static_cast<uint64_t>(outer.bounds[which[i]][o]) +
                                            static_cast<uint64_t>(depth.bounds[which[i]][k]));
    if (place < 0 || place >= bound[i]) return false;
  }
  return true;
}

std::string why_not_by_factors(const ProductForm& form) {
  for (const ProductBound& bound : form.bounds) {
    bool of_rows = false, of_columns = false;
    for (size_t d = 0; d < form.dims.size(); ++d) {
      of_rows |= form.dims[d].group == ProductDim::kRows && bound.steps[d] != 0;
      of_columns |= form.dims[d].group == ProductDim::kColumns && bound.steps[d] != 0;
    }
    if (of_rows && of_columns) return "a bound depends on rows and columns together";
  }
  return {};
}

}  // namespace heddle::sdk::portable
