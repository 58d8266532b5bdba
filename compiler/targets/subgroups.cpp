// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See subgroups.h.
#include "compiler/targets/subgroups.h"

using namespace mlir;

namespace heddle::targets {

Subgroups::Values Subgroups::across_lanes(Values values, Merge merge, int64_t apart) const {
  for (int64_t distance = size_ / 2; distance >= apart; distance /= 2) {
    Values others(llvm::map_range(values, [&](Value value) { return kernel_.exchange(value, distance); }));
    values = merge(values, others);
  }
  return values;
}

Subgroups::Values Subgroups::across_all(Values values, Merge merge) const {
  Value own_subgroup = own(), own_lane = lane();
  SmallVector<Value> memory = shared(values, count());
  Value is_first = kernel_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, own_lane, kernel_.index(0));
  kernel_.branch(is_first, [&] { store(values, memory, own_subgroup); });
  kernel_.barrier();
  return merged([&](int64_t i) { return load(values, memory, kernel_.index(i)); }, merge);
}

Subgroups::Values Subgroups::across_all_by_lane(Values values, Merge merge) const {
  Value own_lane = lane();
  SmallVector<Value> memory = shared(values, kernel_.threads());
  store(values, memory, kernel_.thread());
  kernel_.barrier();
  auto of = [&](Value subgroup) { return load(values, memory, kernel_.add(kernel_.mul(subgroup, size_), own_lane)); };
  return kernel_.loop(kernel_.index(1), kernel_.index(count()), kernel_.index(1), of(kernel_.index(0)),
                      [&](Value subgroup, ValueRange carried) { return merge(carried, of(subgroup)); });
}

Subgroups::Values Subgroups::merged(llvm::function_ref<Values(int64_t)> of, Merge merge) const {
  Values all = of(0);
  for (int64_t i = 1; i < count(); ++i) all = merge(all, of(i));
  return all;
}

SmallVector<Value> Subgroups::shared(ValueRange values, int64_t count) const {
  return llvm::map_to_vector(values, [&](Value value) { return kernel_.shared(value.getType(), count); });
}

void Subgroups::store(ValueRange values, ValueRange memory, Value at) const {
  for (auto [value, base] : llvm::zip_equal(values, memory)) kernel_.store(value, base, at);
}

Subgroups::Values Subgroups::load(ValueRange values, ValueRange memory, Value at) const {
  Values loaded;
  for (auto [value, base] : llvm::zip_equal(values, memory)) loaded.push_back(kernel_.load(base, at, value.getType()));
  return loaded;
}

}  // namespace heddle::targets
