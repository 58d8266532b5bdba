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

namespace {

// What decides the order of most entries, and where the entry is.
struct Place {
  uint64_t key;
  uint32_t index;
};

// The eight bytes from `first` on, the first of them the most significant; 0 behind the end.
uint64_t eight_bytes(std::string_view name, size_t first) {
  uint64_t key = 0;
  for (size_t i = first; i < first + 8; ++i) key = key << 8 | (i < name.size() ? static_cast<unsigned char>(name[i]) : 0);
  return key;
}

// Puts the entries in the order of `places`, and moves each once.
void reorder(std::vector<ParameterEntry>& entries, std::vector<Place>& places) {
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i].index == i) continue;
    ParameterEntry first = std::move(entries[i]);
    uint32_t at = i;
    for (uint32_t from = places[at].index; from != i; from = places[at].index) {
      entries[at] = std::move(entries[from]);
      places[at].index = at;
      at = from;
    }
    entries[at] = std::move(first);
    places[at].index = at;
  }
}

}  // namespace

void sort_by_place(std::vector<ParameterEntry>& entries) {
  auto before = [](const ParameterEntry& a, const ParameterEntry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.length < b.length;
  };
  if (std::is_sorted(entries.begin(), entries.end(), before)) return;
  std::vector<Place> places(entries.size());
  for (uint32_t i = 0; i < entries.size(); ++i) places[i] = {entries[i].offset, i};
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) { return before(entries[a.index], entries[b.index]); });
  reorder(entries, places);
}

const std::string* sort_by_name(std::vector<ParameterEntry>& entries) {
  auto before = [](const ParameterEntry& a, const ParameterEntry& b) { return a.name < b.name; };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) {
    // Names of a model have a long beginning in common.
    size_t common = entries[0].name.size();
    for (const ParameterEntry& entry : entries) {
      const auto end = std::mismatch(entry.name.begin(), entry.name.end(), entries[0].name.begin(), entries[0].name.end()).first;
      common = std::min(common, static_cast<size_t>(end - entry.name.begin()));
    }
    std::vector<Place> places(entries.size());
    for (uint32_t i = 0; i < entries.size(); ++i) places[i] = {eight_bytes(entries[i].name, common), i};
    std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
      return a.key != b.key ? a.key < b.key : entries[a.index].name < entries[b.index].name;
    });
    reorder(entries, places);
  }
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].name == entries[i - 1].name) return &entries[i].name;
  }
  return nullptr;
}

}  // namespace heddle::module
