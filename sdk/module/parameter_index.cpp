// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through parameter_index.h.
#include "sdk/module/parameter_index.h"

#include <algorithm>

namespace heddle::module {

const ParameterEntry* ParameterIndex::find(std::string_view name) const {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const ParameterEntry& entry, std::string_view key) { return entry.name < key; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

const std::string* sort_by_name(std::vector<ParameterEntry>& entries) {
  std::vector<ParameterEntry*> places;
  places.reserve(entries.size());
  for (ParameterEntry& entry : entries) places.push_back(&entry);
  std::sort(places.begin(), places.end(), [](const ParameterEntry* a, const ParameterEntry* b) { return a->name < b->name; });
  std::vector<ParameterEntry> sorted;
  sorted.reserve(entries.size());
  for (ParameterEntry* place : places) sorted.push_back(std::move(*place));
  entries = std::move(sorted);
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].name == entries[i - 1].name) return &entries[i].name;
  }
  return nullptr;
}

}  // namespace heddle::module
