// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes one node after the other. Shared by the files that each have some kinds of nodes.
#pragma once

#include <algorithm>
#include <vector>

#include "evaluator.h"

namespace heddle::sdk::portable {

// The share of a node that one thread does.
struct PartOfNode {
  uint32_t number = 0, count = 1;
  char* line = nullptr;  // sort_bytes() for a line, aligned to 64; null: from the heap
};

// What a sort takes to order a line of so many elements; false if that overflows. key_bytes: sorted_bytes() of the kernel's node.
bool sort_bytes(const std::vector<uint32_t>& sorted_bytes, int64_t count, uint64_t* out);

// A node in a call: its extents, and how its results are stored.
class NodeRunner {
 public:
  // `memory`: where node_bytes are taken from.
  NodeRunner(Call& call, Evaluator& evaluator, uint32_t index, PartOfNode part, std::pmr::memory_resource* memory);

  // False, with the call's error, on failure. A product by blocks may find that it must be done element by element, in all its parts: then
  // *out_by_element is true, and the results do not count.
  bool run(bool by_element, bool* out_by_element);
  // The results of a contraction from its sums, which are dense.
  bool finish_product(const float* sums);

 private:
  using Extents = std::vector<int64_t>;

  // nodes.cpp
  bool map();
  bool fold();
  bool fold_lanes(Run at);
  bool fold_along_reduced(Run at);
  bool is_better_along_reduced(int32_t lane);
  bool contract_lanes(Run at);
  bool scan();
  // Evaluates a body and stores what it yields as elements of the results.
  bool finish(uint32_t body, const Run& run, const Lanes* more);
  // The dimension along which neighbors are computed together: the last one if it is long, else the longest; never `except`. -1: none.
  int32_t lane_of(int32_t except) const;
  // Calls function(run) for all indices of the parallel dimensions that are this part's, with `lane` in runs; those of `except` stay 0.
  template <typename Function>
  bool for_each_run(int32_t lane, int32_t except, Function function);
  // Calls function() for all indices of the reduced dimensions, which it changes in the run; but not those of `except`.
  template <typename Function>
  bool for_each_reduced(Run& run, int32_t except, Function function);
  // Accumulators of a run: copies what a body yields, where the mask is set.
  void set_sums(const std::vector<Scalar>& types, const Lanes* values, const uint8_t* active, int64_t count);
  Lanes sum(size_t i) const { return {sums_[which_].data() + i * static_cast<size_t>(lanes_), false}; }
  const Lanes* sums(size_t count);
  std::vector<Scalar> yielded(uint32_t body) const;
  int64_t place_in_results(const Run& run) const;

  // product.cpp
  enum class Product { kNo, kDone, kByElement, kFailed };
  Product multiply();
  int64_t group_of(const PreparedBody& factor, int32_t dim) const;
  bool find_form(const std::vector<int32_t>& batch, ProductForm* out) const;

  // lines.cpp
  bool scatter();
  bool sort();
  bool sieve();
  bool walk();
  bool initialize(uint32_t body);
  // Elements of the results at offsets, as arguments.
  void load_elements(const int64_t* offsets, int64_t count);

  Call& call_;
  Evaluator& evaluator_;
  const Node& node_;
  const PreparedNode& prepared_;
  const int64_t lanes_;
  const PartOfNode part_;
  std::pmr::memory_resource* const memory_;
  // The parallel dimension whose indices the parts share, -1 if none can be; those of this part.
  int32_t split_ = -1;
  int64_t split_first_ = 0, split_end_ = 0;
  Extents extents_, strides_;  // of the domain; of the results, for each parallel dimension
  std::pmr::vector<Lanes> yields_, arguments_;
  Words sums_[2];
  int which_ = 0;
  Words elements_;
};

template <typename Function>
bool NodeRunner::for_each_run(int32_t lane, int32_t except, Function function) {
  const auto rank = static_cast<int32_t>(node_.parallel_rank());
  for (int32_t d = 0; d < rank; ++d) {
    if (extents_[static_cast<size_t>(d)] == 0) return true;
  }
  auto begin = [&](int32_t d) { return d == split_ ? split_first_ : 0; };
  auto end = [&](int32_t d) { return d == split_ ? split_end_ : extents_[static_cast<size_t>(d)]; };
  if (split_ < 0 ? part_.number > 0 : split_first_ == split_end_) return true;
  Run run;
  run.lane = lane;
  for (int32_t d = 0; d < rank; ++d) run.index[d] = begin(d);
  for (;;) {
    if (lane < 0) {
      run.count = 1;
      if (!function(run)) return false;
    } else {
      for (int64_t first = begin(lane), last = end(lane); first < last; first += lanes_) {
        run.index[lane] = first;
        run.count = std::min(lanes_, last - first);
        if (!function(run)) return false;
      }
      run.index[lane] = begin(lane);
    }
    int32_t d = rank - 1;
    for (; d >= 0; --d) {
      if (d == lane || d == except) continue;
      if (++run.index[d] < end(d)) break;
      run.index[d] = begin(d);
    }
    if (d < 0) return true;
  }
}

template <typename Function>
bool NodeRunner::for_each_reduced(Run& run, int32_t except, Function function) {
  const auto first = static_cast<int32_t>(node_.parallel_rank()), rank = static_cast<int32_t>(node_.rank());
  for (int32_t d = first; d < rank; ++d) {
    run.index[d] = 0;
    if (extents_[static_cast<size_t>(d)] == 0) return true;
  }
  for (;;) {
    if (!function()) return false;
    int32_t d = rank - 1;
    for (; d >= first; --d) {
      if (d == except) continue;
      if (++run.index[d] < extents_[static_cast<size_t>(d)]) break;
      run.index[d] = 0;
    }
    if (d < first) return true;
  }
}

}  // namespace heddle::sdk::portable
