// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sdk/module/nearest.h"

#include <algorithm>

namespace heddle::module {

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  // Keys are short; a longer name is not a typing mistake.
  if (name.size() > 64) return {};
  std::string best;
  // At most a third of the letters may differ, and never all of them.
  size_t best_distance = std::min(std::max<size_t>(1, name.size() / 3) + 1, name.size());
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 64) continue;
    // Edit distance with swaps of neighbors, three rows at a time.
    const size_t columns = candidate.size() + 1;
    std::vector<size_t> before(columns), previous(columns), current(columns);
    for (size_t j = 0; j < columns; ++j) previous[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      current[0] = i;
      for (size_t j = 1; j < columns; ++j) {
        const bool same = name[i - 1] == candidate[j - 1];
        current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1]) {
          current[j] = std::min(current[j], before[j - 2] + 1);
        }
      }
      std::swap(before, previous);
      std::swap(previous, current);
    }
    if (previous[candidate.size()] < best_distance) {
      best_distance = previous[candidate.size()];
      best = candidate;
    }
  }
  return best;
}

}  // namespace heddle::module
